"""Runs that lack what observations need: each is answered with a reason, and none with a number."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.observations.made import core, gpu_load, rail
from tests.run.made import Sampled, import_made, make_run, watts

from wattstep.insight.observe import gather, observe
from wattstep.insight.observe.deciding import UNTESTABLE
from wattstep.insight.observe.evidence import Evidence, Observed
from wattstep.insight.observe.table import OBSERVATIONS
from wattstep.run import load
from wattstep.schema.channel import Channel, Domain


def all_of(*runs: Observed) -> dict[int, str]:
    """The verdicts, after every document was made."""
    found = list(observe(Evidence(runs=runs)))
    for each in found:
        assert each.document()["sentences"]
        assert each.sentences
    return {each.about.number: each.verdict for each in found}


def gathered(path: Path) -> Observed:
    return gather(load(path), str(path))


CANNOT = dict.fromkeys(range(1, 13), "cannot be tested here")


def test_no_runs_at_all() -> None:
    assert all_of() == CANNOT


def test_a_run_without_channels(tmp_path: Path) -> None:
    make_run(tmp_path / "r", [])
    assert all_of(gathered(tmp_path / "r")) == CANNOT


@pytest.mark.parametrize("steps", [1, 4])
def test_a_run_with_hardly_a_step(tmp_path: Path, steps: int) -> None:
    sampled = [
        Sampled(channel=gpu_load(), raw=lambda t: 50 + t % 7),
        Sampled(channel=core(0), raw=lambda t: t // 2000),
        Sampled(channel=rail("system", "power_total"), raw=lambda t: 5000),
    ]
    make_run(tmp_path / "r", sampled, steps=steps, trace="none")
    assert set(all_of(gathered(tmp_path / "r")).values()) <= {UNTESTABLE, "undecided"}


def test_an_imported_trace_without_telemetry(tmp_path: Path) -> None:
    imported = {"trace": {"format": "Kineto", "file": "trace.json"}}
    path = import_made(tmp_path / "r", imported, steps=[(0, 10), (10, 20), (20, 30)], batch=4)
    assert all_of(gathered(path)) == CANNOT


def test_imported_telemetry_without_a_trace(tmp_path: Path) -> None:
    values = [(10.0 * n, 5.0 + n % 3) for n in range(400)]
    path = import_made(
        tmp_path / "r", {"telemetry": [{"file": "power.csv", "format": "csv"}]},
        samples=[(watts(), "power.csv", values)],
    )  # fmt: skip
    assert all_of(gathered(path)) == CANNOT


def load_of(name: str, domain: Domain, role: str, number: int | None) -> Channel:
    return Channel(
        name=name, unit="ratio", kind="gauge", domain=domain, role=role, source="made log",
        core=number,
    )  # fmt: skip


def test_imported_loads_without_steps_tell_of_the_recording(tmp_path: Path) -> None:
    """A log of a GPU at 80 % and a core at 20 %: observation 1 needs no steps."""
    times = [100.0 * n for n in range(300)]
    samples = [
        (load_of("gpu", "gpu", "gpu_utilization", None), "log", [(t, 0.8) for t in times]),
        (load_of("cpu0", "cpu", "core_utilization", 0), "log", [(t, 0.2) for t in times]),
    ]
    path = import_made(
        tmp_path / "r", {"telemetry": [{"file": "log", "format": "made"}]}, samples=samples
    )
    verdicts = all_of(gathered(path))
    assert verdicts.pop(1) == "undecided"  # neither of them ever moves
    assert set(verdicts.values()) == {UNTESTABLE}


def test_channels_that_stand_still_and_channels_that_fail(tmp_path: Path) -> None:
    """A GPU that says nothing but 0, and cores that do nothing."""
    sampled = [
        Sampled(channel=gpu_load(), raw=lambda t: 0),
        Sampled(channel=core(0), raw=lambda t: 0),
        Sampled(channel=rail("gpu"), raw=lambda t: 0),
        Sampled(channel=rail("cpu"), raw=lambda t: 0),
        Sampled(channel=rail("memory"), raw=lambda t: 0),
        Sampled(channel=rail("system", "power_total"), raw=lambda t: 0),
    ]
    make_run(tmp_path / "r", sampled, trace="none")
    verdicts = all_of(gathered(tmp_path / "r"))
    assert set(verdicts.values()) <= {UNTESTABLE, "undecided", "holds"}
    assert verdicts[1] == verdicts[6] == UNTESTABLE


def test_values_that_are_no_numbers_are_gaps(tmp_path: Path) -> None:
    values = [(10.0 * n, float("nan")) for n in range(100)]
    path = import_made(
        tmp_path / "r", {"telemetry": [{"file": "power.csv", "format": "csv"}]},
        samples=[(watts(), "power.csv", values)], steps=[(100.0 * n, 100.0 * n + 90) for n in range(9)],
    )  # fmt: skip
    assert all_of(gathered(path)) == CANNOT


def test_a_load_that_fails_half_of_the_time_is_that_of_the_other_half(tmp_path: Path) -> None:
    nothing = float("nan")
    gpu = [(100.0 * n, 0.8 if n < 150 else nothing) for n in range(300)]
    cpu = [(100.0 * n, 0.2) for n in range(300)]
    path = import_made(
        tmp_path / "r", {"telemetry": [{"file": "log", "format": "made"}]},
        samples=[(load_of("gpu", "gpu", "gpu_utilization", None), "log", gpu),
                 (load_of("cpu0", "cpu", "core_utilization", 0), "log", cpu)],
    )  # fmt: skip
    assert gathered(path).extra["1"]["gap"].value == pytest.approx(0.6, abs=1e-3)


def test_each_observation_has_its_number_and_a_criterion() -> None:
    found = list(observe(Evidence()))
    assert [str(each.about.number) for each in found] == list(OBSERVATIONS)
    for each in found:
        assert "hold" in each.about.criterion.lower()

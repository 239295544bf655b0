"""Idle cores, crowded cores, and what threads should bring."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.explaining.made import ceilings, ran_on_gpu, trained
from tests.run.made import MS, Sampled, busy
from tests.wording import assert_says, saying

from wattstep.insight.explain.processors import processors
from wattstep.insight.explain.section import Section
from wattstep.run import load
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Figure
from wattstep.store.ceilings import keep

WORK = {"forward-op": {"kind": "convolution", "flops": 80_000_000, "bytes": 100_000}}


def value(figure: Figure) -> float:
    assert figure.value is not None, figure.reason
    return figure.value


def counter(role: str, name: str, cores: float) -> Sampled:
    """A counter of CPU time that gains so many cores' time."""
    channel = Channel(
        name=name, unit="s", kind="counter", domain="cpu", role=role, source="made", scale=1e-9
    )
    return Sampled(channel=channel, raw=lambda t_ns: round(t_ns * cores), every_ns=5 * MS)


def machine(training: float, system: float) -> list[Sampled]:
    """Samples of a machine of four cores; the first is busy all of the time."""
    core = Sampled(channel=busy(0), raw=lambda t_ns: t_ns // (10 * MS), every_ns=10 * MS)
    return [
        core,
        counter("process_cpu_time", "process.cpu", training),
        counter("system_busy_time", "system.busy", system),
    ]


def run_of(path: Path, training: float, system: float, threads: int) -> Section:
    found = trained(path, WORK, machine(training, system), {"threads": threads}, steps=120)
    return processors(load(found))


def test_idle_cores_are_those_that_neither_training_nor_others_use(tmp_path: Path) -> None:
    found = run_of(tmp_path / "run", training=1.0, system=1.5, threads=1)
    assert value(found.figures["cores_used"]) == pytest.approx(1.0, rel=0.02)
    assert value(found.figures["cores_free"]) == pytest.approx(3.5, rel=0.02)
    assert value(found.figures["cores_idle"]) == pytest.approx(2.5, rel=0.02)
    core = found.tables[0].rows[0]
    assert value(core["busy"]) + value(core["idle"]) == pytest.approx(1.0)


def test_moving_work_saves_no_more_than_amdahl_permits(tmp_path: Path) -> None:
    found = run_of(tmp_path / "run", training=1.0, system=1.0, threads=1)
    saved = found.figures["saved_by_threads"]
    # The convolution, 8 ms of 20, on four threads instead of one; no ceilings: nothing expected.
    assert saved.high == pytest.approx(0.008 * 3 / 4, rel=0.02)
    assert value(saved) == 0.0
    assert saved.status.value == "predicted"


def test_ceilings_of_more_threads_say_what_to_expect(tmp_path: Path) -> None:
    keep(ceilings(threads=1, flops=20e9))
    keep(ceilings(threads=4, flops=60e9))
    found = run_of(tmp_path / "run", training=1.0, system=1.0, threads=1)
    saved = found.figures["saved_by_threads"]
    assert value(saved) == pytest.approx(0.008 * 2 / 3, rel=0.02)
    assert saved.low == pytest.approx(0.004 * 2 / 3, rel=0.02)


def test_more_threads_than_free_cores_are_warned_of(tmp_path: Path) -> None:
    found = run_of(tmp_path / "run", training=2.5, system=3.5, threads=4)
    assert saying(found.sentences, "Fewer cores", "(3)", "(4)")
    assert saying(found.sentences, "Train with 3 threads")
    saved = found.figures["saved_by_threads"]
    assert saved.missing  # no step was undisturbed, and nothing is made up
    assert_says(saved.reason, "no step", "undisturbed")


def test_one_thread_is_never_crowded(tmp_path: Path) -> None:
    found = run_of(tmp_path / "run", training=0.9, system=3.9, threads=1)
    assert not saying(found.sentences, "Fewer cores")


def test_host_and_gpu_at_the_same_time_make_the_step(tmp_path: Path) -> None:
    found = processors(load(ran_on_gpu(tmp_path / "run")))
    table = next(one for one in found.tables if one.name == "at_once")
    # The host works 20-50, the GPU 40-90, of 100 ms.
    assert {row["who"]: value(row["time"]) for row in table.rows} == pytest.approx(
        {"host and GPU": 0.010, "only the host": 0.020, "only a GPU": 0.040, "neither": 0.030}
    )


def test_a_run_without_samples_says_what_cannot_be_told(tmp_path: Path) -> None:
    found = processors(load(trained(tmp_path / "run")))
    assert found.figures["cores_used"].missing
    assert "cannot be determined" in found.sentences[0]


def test_a_run_with_neither_samples_nor_operations_says_why(tmp_path: Path) -> None:
    found = processors(load(trained(tmp_path / "run", trace="none")))
    assert found.reason is not None
    assert "tracing was off" in found.reason

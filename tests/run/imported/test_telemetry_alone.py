"""What a log of sensors alone tells: figures over the whole recording, and no step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.run.imported.made import POWER, ramp
from tests.run.made import import_made, watts
from tests.wording import assert_says

from wattstep.recorded.imported import NO_TRACE
from wattstep.run import Run, load
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Figure


def gauge(name: str, role: str, unit: str, domain: Any, **more: Any) -> Channel:
    return Channel(
        name=name, unit=unit, kind="gauge", domain=domain, role=role, source="made log, a.log",
        **more,
    )  # fmt: skip


def steps_up(every: int, count: int = 51) -> list[tuple[float, float]]:
    """A new value at every so many samples of 100 ms."""
    return [(n * 100.0, 40.0 + (n // every * 7) % 5) for n in range(count)]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Five seconds: power from 2 to 4 W, the GPU half busy, clocks, memory, temperatures."""
    samples: list[tuple[Channel, str, Sequence[tuple[float, float]]]] = [
        (watts(), "a.log", ramp(2, 4)),
        (gauge("gpu.load", "gpu_utilization", "ratio", "gpu"), "a.log", ramp(0.5, 0.5)),
        (gauge("cpu0.load", "core_utilization", "ratio", "cpu", core=0), "a.log", ramp(0, 1)),
        (gauge("gpu.temperature", "temperature", "°C", "gpu", limit=90.0), "a.log", steps_up(3)),
        (gauge("gpu.clock", "frequency", "Hz", "gpu"), "a.log", ramp(1e9, 1e9)),
        (gauge("used", "used_memory", "B", "memory"), "a.log", ramp(1e9, 3e9)),
    ]
    return load(
        import_made(
            tmp_path_factory.mktemp("log") / "r",
            {"telemetry": [{"file": "a.log", "format": "tegrastats"}]},
            samples=samples,
            interval_s=0.1,
        )
    )


def test_telemetry_alone_gives_figures_over_the_whole_recording(log: Run) -> None:
    metrics = log.metrics()
    assert metrics["mean_power"].value == pytest.approx(3.0)
    assert metrics["recorded_energy"].value == pytest.approx(15.0)
    assert metrics["gpu_utilization"].value == pytest.approx(0.5)
    assert metrics["cpu_utilization"].value == pytest.approx(0.5)
    assert metrics["system_peak_memory"].value == pytest.approx(3e9)
    assert metrics["temperature"]["gpu.temperature"].value == pytest.approx(
        sum(value for _, value in steps_up(3)) / 51
    )
    assert metrics["frequency"]["gpu.clock"].value == pytest.approx(1e9)
    single = [figure for figure in metrics.values() if isinstance(figure, Figure)]
    for figure in single:
        assert figure.missing or figure.method.startswith("over the whole")
        assert figure.missing or figure.status.value == "measured"
    assert "over the whole" in metrics["temperature"]["gpu.temperature"].method


def test_telemetry_alone_has_no_step_and_says_why(log: Run) -> None:
    metrics, document = log.metrics(), log.document()
    for name in ("step_time", "throughput", "energy_per_step", "energy_per_sample"):
        assert metrics[name].reason == NO_TRACE
    assert document["operations"] == []
    assert {"what": "operations", "reason": NO_TRACE} in document["missing"]
    assert document["steps"] == {"recorded": 0}
    assert document["figures_of"] == "recording"
    assert log.timeline().to_dict()["steps"] == []
    json.dumps(document, allow_nan=False)


def test_telemetry_alone_tells_the_true_update_interval_and_the_course(log: Run) -> None:
    document = log.document()
    channels = {row["name"]: row for row in document["channels"]}
    assert channels["gpu.temperature"]["update_interval"] == pytest.approx(0.3, rel=0.02)
    course = {column["name"]: column for column in document["curve"]["columns"]}
    values = course["power"]["values"]
    assert values == sorted(values)
    assert sum(values) / len(values) == pytest.approx(3.0, rel=0.02)


def test_throttling_is_seen_without_steps(tmp_path: Path) -> None:
    """Above its limit from 2 s to 3 s."""
    hot = gauge("soc.temperature", "temperature", "°C", "soc", limit=80.0)
    values = [(n * 100.0, 85.0 if 20 <= n < 30 else 60.0) for n in range(51)]
    run = load(
        import_made(tmp_path / "r", {"telemetry": [POWER]}, samples=[(hot, "power.csv", values)])
    )
    stretches = run.document()["conditions"]["stretches"]
    assert [one["kind"] for one in stretches] == ["throttled"]
    assert stretches[0]["start"] == pytest.approx(2.0, abs=0.11)
    assert stretches[0]["end"] == pytest.approx(3.0, abs=0.11)


def test_energy_by_rail_of_telemetry_alone_is_that_of_the_recording(tmp_path: Path) -> None:
    samples = [
        (watts("a", "power_part"), "p", ramp(1, 1)),
        (watts("b", "power_part"), "p", ramp(0, 2)),
    ]
    run = load(import_made(tmp_path / "r", {"telemetry": [POWER]}, samples=samples))
    rails = run.document()["energy_by_rail"]
    assert {name: figure["value"] for name, figure in rails.items()} == pytest.approx(
        {"a": 5.0, "b": 5.0}
    )
    assert "no total" in run.metrics()["recorded_energy"].reason


def test_a_log_in_watts_is_not_taken_for_one_that_goes_in_steps_of_a_watt(tmp_path: Path) -> None:
    """Values in mW, written as watts: half of a step of 1 mW of 2.5 W."""
    values = [(t * 10.0, 2.5 + (t % 7) * 0.001) for t in range(200)]
    path = import_made(tmp_path / "r", {"telemetry": [POWER]}, samples=[(watts(), "p", values)])
    figure = load(path).metrics()["mean_power"]
    assert figure.systematic == pytest.approx(0.0005 / 2.503, rel=0.01)


def test_a_hole_in_the_telemetry_is_no_energy_and_is_said(tmp_path: Path) -> None:
    """10 W for 2 s, nothing for 6 s, 10 W for 2 s."""
    values = [(n * 10.0, 10.0 + n % 2 * 0.1) for n in (*range(201), *range(800, 1001))]
    run = load(
        import_made(tmp_path / "r", {"telemetry": [POWER]}, samples=[(watts(), "p", values)])
    )
    figure = run.metrics()["recorded_energy"]
    assert figure.value == pytest.approx(4 * 10.05, rel=0.01)
    assert_says(figure.reason, "40 %")
    assert run.metrics()["mean_power"].value == pytest.approx(10.05, rel=0.01)


@pytest.mark.parametrize("values", [[], [(0.0, 5.0)], [(0.0, float("nan")), (1.0, float("nan"))]])
def test_telemetry_that_holds_next_to_nothing_is_read(
    tmp_path: Path, values: list[tuple[float, float]]
) -> None:
    samples = [(watts(), "p", values)]
    run = load(import_made(tmp_path / "r", {"telemetry": [POWER]}, samples=samples, interval_s=0.0))
    assert run.metrics()["recorded_energy"].missing
    assert run.metrics()["mean_power"].missing
    json.dumps(run.document(), allow_nan=False)
    assert run.timeline().to_dict()["operations"] == []

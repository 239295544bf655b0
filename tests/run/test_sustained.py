"""The course of a run: first minute against last, when throttling set in, and the thermal model in figures."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.run.made import BEGIN, busy, power
from tests.wording import assert_says

from wattstep.run import Run, load
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Figure
from wattstep.schema.journal import JOURNAL, OPERATIONS, Mark
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.store.convert import convert
from wattstep.store.files import create_folder, write_info
from wattstep.store.marks import MarkJournal

S = 1_000_000_000
SAMPLES = 8.0  # of a step
TAU_S, RISE_C, START_C = 90.0, 30.0, 40.0
THROTTLED_S = 200  # from then on


def temperature(limit: float | None = None, name: str = "thermal.soc") -> Channel:
    return Channel(
        name=name, unit="°C", kind="gauge", domain="thermal", role="temperature", source="made",
        scale=1e-3, limit=limit,
    )  # fmt: skip


def frequency(core: int) -> Channel:
    return Channel(
        name=f"cpu{core}.frequency", unit="Hz", kind="gauge", domain="cpu", role="frequency",
        source="made", scale=1e3, core=core,
    )  # fmt: skip


def warming(t_s: float) -> int:
    """Millidegrees: from 40 °C towards 70 °C over a stage of 90 s, in steps of half a degree."""
    value = START_C + RISE_C * (1 - math.exp(-max(t_s, 0.0) / TAU_S))
    return round(value * 2) * 500


def slowed(t_s: float) -> float:
    """Seconds of a step: 0.5, and 0.625 once throttled."""
    return 0.5 if t_s < THROTTLED_S else 0.625


def make(
    path: Path,
    sampled: Mapping[Channel, Callable[[float], int]],
    *,
    seconds: float = 400.0,
    step_s: Callable[[float], float] = slowed,
    conditions: dict[str, Any] | None = None,
) -> Run:
    """A run of contiguous clean steps whose channels are sampled every 0.5 s."""
    create_folder(path)
    reads = tuple(
        PlannedRead(number=n, sensor="made", path="-", parser="-", every=1, channels=(channel,))
        for n, channel in enumerate(sampled)
    )
    info = RunInfo(
        state="recording", created="2026-11-20T12:00:00+0000", workload="made", title="made",
        engine="torch", batch_size=8, threads=1, precision="fp32", processor="cpu", seed=0,
        interval_s=0.5, warmup=0, trace="none", device={"cores": 2}, reads=reads,
        conditions=conditions or {},
    )  # fmt: skip
    write_info(path, info)
    marks = MarkJournal(path / JOURNAL)
    now, index = 0.0, 0
    while now < seconds:
        marks.add(Mark.STEP_START, 0, SAMPLES, index, 0, BEGIN + round(now * S))
        now += step_s(now)
        marks.add(Mark.STEP_END, 0, 1.0, index, 0, BEGIN + round(now * S))
        index += 1
    marks.close()
    (path / JOURNAL / OPERATIONS).write_bytes(b"")
    for number, raw in enumerate(sampled.values()):
        times = [n * 0.5 for n in range(-20, round(2 * now) + 20)]
        rows = [struct.pack("<qqq", BEGIN + round(t * S), 0, raw(t)) for t in times]
        (path / JOURNAL / f"samples-{number:02d}.bin").write_bytes(b"".join(rows))
    convert(path)
    return load(path)


@pytest.fixture(scope="module")
def throttled(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """400 s; from 200 s on the cap is down, power with it; core 1 idles at a frequency of its own."""
    cap = Channel(
        name="cpu0.cap", unit="Hz", kind="gauge", domain="cpu", role="frequency_cap",
        source="made", scale=1e3, core=0,
    )  # fmt: skip
    return make(
        tmp_path_factory.mktemp("sustained") / "run",
        {
            power(): lambda t_s: 9000 if t_s < THROTTLED_S else 7000,
            temperature(name="cool"): lambda t_s: 30000,
            temperature(): warming,
            frequency(0): lambda t_s: 2_000_000 if t_s < THROTTLED_S else 1_600_000,
            frequency(1): lambda t_s: 500_000,
            cap: lambda t_s: 2_000_000 if t_s < THROTTLED_S else 1_600_000,
            busy(0): lambda t_s: round(100 * (t_s + 100)),
            busy(1): lambda t_s: 0,
        },
    )


def of(run: Run, name: str) -> Figure:
    figure = run.metrics()["sustained"][name]
    assert isinstance(figure, Figure)
    return figure


def test_the_last_minute_is_compared_with_the_first(throttled: Run) -> None:
    """8 samples in 0.5 s, then in 0.625 s."""
    assert of(throttled, "first_minute_throughput").value == pytest.approx(16.0)
    assert of(throttled, "last_minute_throughput").value == pytest.approx(12.8)
    ratio = of(throttled, "throughput_ratio")
    assert ratio.value == pytest.approx(0.8)
    assert ratio.low == pytest.approx(0.8)
    assert ratio.high == pytest.approx(0.8)
    assert of(throttled, "first_minute_power").value == pytest.approx(9.0)
    assert of(throttled, "last_minute_power").value == pytest.approx(7.0)
    assert of(throttled, "last_minute_frequency").value == pytest.approx(1.6e9)


def test_the_temperature_is_that_of_the_hottest_sensor(throttled: Run) -> None:
    """The mean of 70 - 30 exp(-t/90) over the first minute is 70 - 45 (1 - exp(-2/3)) = 48.1."""
    expected = 70 - 45 * (1 - math.exp(-2 / 3))
    assert of(throttled, "first_minute_temperature").value == pytest.approx(expected, abs=0.2)


def test_throttling_set_in_when_the_cap_came_down(throttled: Run) -> None:
    onset = of(throttled, "throttle_onset")
    assert onset.low is not None
    assert onset.high is not None
    assert onset.low <= THROTTLED_S <= onset.high
    assert onset.high - onset.low <= 1.0


def test_the_curve_has_a_bin_for_each_sixtieth_with_the_values_of_its_time(throttled: Run) -> None:
    curve = throttled.document()["curve"]
    columns = {column["name"]: column for column in curve["columns"]}
    assert list(columns) == ["throughput", "power", "temperature", "frequency"]
    assert curve["bin"] == pytest.approx(400 / 60, rel=0.01)
    assert len(curve["begin"]) == 60
    assert all(len(column["values"]) == 60 for column in columns.values())
    assert columns["throughput"]["values"][5] == pytest.approx(16.0)
    assert columns["throughput"]["values"][-5] == pytest.approx(12.8)
    assert columns["frequency"]["values"][5] == pytest.approx(2e9)  # the busy core alone
    middle = curve["begin"][10] + curve["bin"] / 2
    assert columns["temperature"]["values"][10] == pytest.approx(warming(middle) / 1000, abs=0.6)
    assert curve["throttled_from"] == pytest.approx(THROTTLED_S, abs=1)
    ((begin, end),) = curve["throttled"]
    assert (begin, end) == (pytest.approx(THROTTLED_S, abs=1), pytest.approx(400, abs=2))


def test_the_curve_has_each_sensor_of_temperature_beside_the_hottest(tmp_path: Path) -> None:
    cooler = temperature(name="thermal.board")
    run = make(tmp_path / "run", {temperature(): warming, cooler: lambda t_s: 30_000})
    curve = run.document()["curve"]
    zones = {zone["zone"]: zone["values"] for zone in curve["zones"]}
    (hottest,) = (c["values"] for c in curve["columns"] if c["name"] == "temperature")
    assert zones["thermal.soc"] == pytest.approx(hottest)
    assert zones["thermal.board"] == pytest.approx([30.0] * 60)


def test_energy_of_the_bins_is_that_of_the_run(throttled: Run) -> None:
    curve = throttled.document()["curve"]
    watts = next(c["values"] for c in curve["columns"] if c["name"] == "power")
    assert sum(watts) * curve["bin"] == pytest.approx(200 * 9 + 200 * 7, rel=0.01)


def test_the_thermal_model_has_the_time_constant_of_the_stage(tmp_path: Path) -> None:
    run = make(
        tmp_path / "run",
        {power(): lambda t_s: 8000 if t_s >= 0 else 2000, temperature(limit=65.0): warming},
        step_s=lambda t_s: 0.5,
        conditions={"ambient": {"value": 30.0}},
    )
    metrics = run.metrics()
    constant = metrics["thermal_time_constant"]
    assert constant.value == pytest.approx(TAU_S, rel=0.03)
    assert constant.low < TAU_S < constant.high
    assert constant.status.value == "modelled"
    assert metrics["steady_temperature"].value == pytest.approx(70, abs=0.5)
    # From 40 towards 70 °C: 65 °C when 25 of 30 °C are done.
    assert metrics["time_to_throttle"].value == pytest.approx(TAU_S * math.log(6), rel=0.06)
    # Power varies for 10 s only, before the first step: (70 - 30 °C) / 8 W.
    assert metrics["thermal_resistance"].value == pytest.approx(5.0, rel=0.03)


def test_a_raspberry_pi_has_the_clock_that_its_firmware_gives_and_not_the_one_asked_for(
    tmp_path: Path,
) -> None:
    true = Channel(
        name="raspberry.arm_clock", unit="Hz", kind="gauge", domain="cpu", role="frequency",
        source="vcgencmd measure_clock arm",
    )  # fmt: skip
    asked = replace(frequency(0), role="frequency_requested")
    memory = replace(true, name="emc", domain="memory")
    run = make(
        tmp_path / "run",
        {
            asked: lambda t_s: 1_400_000,
            true: lambda t_s: 1_400_000_000 if t_s < THROTTLED_S else 1_200_000_000,
            memory: lambda t_s: 800_000_000,
            busy(0): lambda t_s: round(100 * (t_s + 100)),
        },
    )
    last = of(run, "last_minute_frequency")
    assert of(run, "first_minute_frequency").value == pytest.approx(1.4e9)
    assert last.value == pytest.approx(1.2e9)
    assert last.source == "vcgencmd measure_clock arm"
    assert_says(last.method, "the bin", "all cores")


def test_a_run_without_temperature_says_so(tmp_path: Path) -> None:
    run = make(tmp_path / "run", {power(): lambda t_s: 8000})
    figure = run.metrics()["thermal_time_constant"]
    assert figure.missing
    assert_says(figure.reason, "no temperature")
    assert run.metrics()["sustained"]["throttle_onset"].missing


def test_a_short_run_has_no_first_and_last_minute_unless_it_was_asked_for(tmp_path: Path) -> None:
    assert "sustained" not in make(tmp_path / "a", {power(): lambda t_s: 1}, seconds=50).metrics()
    asked = {"sustain": {"steady": False, "after_s": 50.0, "moving": ["cpu moves"], "judged": []}}
    run = make(tmp_path / "b", {power(): lambda t_s: 1}, seconds=50, conditions=asked)
    table = run.metrics()["sustained"]
    assert_says(table["throughput_ratio"].reason, "first minute", "50 s")
    assert_says(table["steady_after"].reason, "not become steady", "cpu")


def test_when_it_became_steady_is_a_figure(tmp_path: Path) -> None:
    found = {"steady": True, "after_s": 390.0, "judged": ["temperature", "throughput"]}
    run = make(tmp_path / "run", {temperature(): warming}, conditions={"sustain": found})
    figure = run.metrics()["sustained"]["steady_after"]
    assert figure.value == 390.0
    assert figure.method.endswith("by temperature, throughput")

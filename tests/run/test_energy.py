"""Energy of runs whose power is known: by step, by sample, by operation, and where there is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.run.made import (
    BEGIN,
    FIVE,
    MS,
    ByPhase,
    Sampled,
    busy,
    energy,
    make_run,
    power,
    process_cpu,
    told,
)
from tests.wording import assert_says

from wattstep.run import Run, load
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Figure


def by_name(run: Run, what: str) -> dict[str, float]:
    return {row["name"]: row[what].value for row in run.operations()}


def test_five_watts_for_twenty_milliseconds_are_a_tenth_of_a_joule(tmp_path: Path) -> None:
    run = load(make_run(tmp_path / "r", [Sampled(channel=power(), raw=lambda t: 5000)]).path)
    metrics = run.metrics()
    assert metrics["step_time"].value == pytest.approx(0.02)
    assert metrics["mean_power"].value == pytest.approx(5)
    assert metrics["energy_per_step"].value == pytest.approx(0.1)
    assert metrics["energy_per_sample"].value == pytest.approx(0.025)
    for name, unit in (("mean_power", "W"), ("energy_per_step", "J"), ("energy_per_sample", "J")):
        assert metrics[name].status.value == "measured"
        assert metrics[name].unit == unit
        assert "board.power" in metrics[name].source


def test_energy_of_operations_is_attributed_and_makes_the_step(tmp_path: Path) -> None:
    run = load(make_run(tmp_path / "r", [Sampled(channel=power(), raw=ByPhase(FIVE))]).path)
    assert by_name(run, "energy") == pytest.approx(
        {"data-op": 0.002, "forward-op": 0.032, "backward-op": 0.066}, rel=0.01
    )
    whole = run.metrics()["energy_per_step"].value
    assert whole == pytest.approx(0.1, rel=1e-4)
    assert told(run.document()) == pytest.approx(whole, rel=1e-9)
    assert told(run.document(), what="time") == pytest.approx(0.02, rel=1e-9)
    assert {row["energy"].status.value for row in run.operations()} == {"attributed"}


@pytest.mark.parametrize(
    ("every_ns", "steps"), [(MS // 10, 60), (7_310_000, 600)], ids=["long steps", "folded"]
)
def test_each_operation_gets_the_energy_of_the_phase_it_fills(
    tmp_path: Path, every_ns: int, steps: int
) -> None:
    """Also where a step is shorter than three samples: each falls at another phase of its step."""
    raw = ByPhase((2000, 4000, 8000), noise=400)
    sampled = Sampled(channel=power(), raw=raw, every_ns=every_ns)
    run = load(make_run(tmp_path / "r", [sampled], steps=steps).path)
    assert by_name(run, "energy") == pytest.approx(
        {"data-op": 0.004, "forward-op": 0.032, "backward-op": 0.08}, rel=0.08
    )
    assert told(run.document()) == pytest.approx(run.metrics()["energy_per_step"].value, rel=1e-9)


def test_a_counter_that_wraps_many_times_counts_on(tmp_path: Path) -> None:
    """5 W against a wrap at 1 J: it starts again every 200 ms."""
    wrap = 1_000_000
    counter = Sampled(channel=energy(wrap), raw=lambda t: 5 * (t - BEGIN + 10**9) // 1000 % wrap)
    run = load(make_run(tmp_path / "r", [counter]).path)
    assert run.metrics()["energy_per_step"].value == pytest.approx(0.1, rel=1e-6)
    assert told(run.document()) == pytest.approx(0.1, rel=1e-6)


class Counted(ByPhase):
    """A counter in µJ of the power in mW of each phase, and of what lies between steps."""

    def __call__(self, t_ns: int) -> int:
        edges = np.array([BEGIN - 10**9, *self.begins, t_ns])
        lasting = np.diff(np.minimum(edges, t_ns))
        return int(np.dot(lasting, [self.between, *self.shown])) // 10**6


def test_mean_power_is_of_steps_and_gaps_and_its_interval_knows_what_reads_mix_in(
    tmp_path: Path,
) -> None:
    """5 W for 20 ms, 1 W for 10 ms between steps, read every 9.225 ms, 20 times from one traced
    step to the next.

    49 stretches of four steps and three gaps (110 ms, 430 mJ), one of two steps and a gap (50 ms,
    210 mJ): 21.28 J in 5.44 s. A stretch of four begins 0.42 of the way from one read to the next
    and ends at 0.34: with 4 W less beside it, 4 W x 9.225 ms x (0.42 x 0.58 + 0.34 x 0.66) =
    17.3 mJ of it are told outside. That of two begins at 0.92 and ends at 0.34: 11.0 mJ.
    """
    counter = Counted((5000, 5000, 5000), between=1000)
    sampled = Sampled(channel=energy(10**15), raw=counter, every_ns=9_225_000)
    metrics = load(make_run(tmp_path / "r", [sampled], steps=300, gap_ns=10 * MS).path).metrics()
    figure = metrics["mean_power"]
    assert figure.value == pytest.approx((21.28 - 49 * 0.0173 - 0.011) / 5.44, rel=1e-3)
    assert figure.low < 21.28 / 5.44 < figure.high
    assert "before and after" in figure.method
    assert metrics["energy_per_step"].low < 0.1 < metrics["energy_per_step"].high


def test_several_packages_are_summed_and_shown_by_rail(tmp_path: Path) -> None:
    sampled = [
        Sampled(channel=power(name="a"), raw=lambda t: 2000),
        Sampled(channel=power(name="b"), raw=lambda t: 3000),
        Sampled(channel=power(name="c", role="power_part"), raw=lambda t: 1500),
    ]
    run = load(make_run(tmp_path / "r", sampled).path)
    assert run.metrics()["energy_per_step"].value == pytest.approx(0.1)
    rails = run.document()["energy_by_rail"]
    assert {name: figure["value"] for name, figure in rails.items()} == pytest.approx(
        {"a": 0.04, "b": 0.06, "c": 0.03}
    )


def test_energy_without_a_sensor_and_without_a_model_is_missing_and_says_why(
    tmp_path: Path,
) -> None:
    run = load(make_run(tmp_path / "r", []).path)
    for name in ("energy_per_step", "energy_per_sample", "mean_power"):
        figure = run.metrics()[name]
        assert figure.value is None
        assert "no power sensor" in figure.reason
        assert "--power-model" in figure.reason
    for row in run.operations():
        assert "no power sensor" in row["energy"].reason
    assert {"energy_per_step"} <= {row["what"] for row in run.document()["missing"]}


LINEAR = {
    "name": "linear:1,3", "idle_watts_a_core": 1.0, "busy_watts_a_core": 3.0,
    "source": "given by the user",
}  # fmt: skip


def beside_others(cores: float = 0.09) -> list[Sampled]:
    """Core 0 always busy, core 1 never; of that the training used so many cores."""
    return [
        Sampled(channel=busy(0), raw=lambda t: (t - BEGIN + 10**9) // (10 * MS)),
        Sampled(channel=busy(1), raw=lambda t: 7),
        Sampled(channel=process_cpu(), raw=lambda t: round(cores * (t - BEGIN + 10**9))),
    ]


def test_a_model_charges_the_training_for_its_own_cpu_time_and_not_for_the_machine(
    tmp_path: Path,
) -> None:
    """By linear:1,3 with 0.09 of 2 cores: 3 W × 0.09; the machine takes 3 W and 1 W beside it."""
    run = load(make_run(tmp_path / "r", beside_others(), steps=300, power_model=LINEAR).path)
    metrics = run.metrics()
    assert metrics["mean_power"].value == pytest.approx(0.27, rel=1e-6)
    assert metrics["energy_per_step"].value == pytest.approx(0.27 * 0.02, rel=1e-6)
    assert metrics["energy_per_sample"].value == pytest.approx(0.27 * 0.02 / 4, rel=1e-6)
    assert metrics["machine_mean_power"].value == pytest.approx(4, rel=0.01)
    assert metrics["machine_energy_per_step"].value == pytest.approx(0.08, rel=0.01)
    for name in ("mean_power", "energy_per_step", "machine_mean_power", "machine_energy_per_step"):
        assert metrics[name].status.value == "modelled"
        assert "linear:1,3" in metrics[name].source
    assert "not measured" in metrics["mean_power"].reason
    assert "the idle power" in metrics["mean_power"].source
    assert told(run.document()) == pytest.approx(0.27 * 0.02, rel=1e-6)
    assert {row["energy"].status.value for row in run.operations()} == {"modelled"}


def test_above_idle_a_model_leaves_the_dynamic_part_of_the_training(tmp_path: Path) -> None:
    """Of 3 W a busy core 2 W are dynamic; the idle machine itself takes what it is seen to take."""
    made = make_run(
        tmp_path / "r", beside_others(), steps=300, power_model=LINEAR,
        options={"subtract_idle": "before"}, idle_ns=(2000 * MS, 0),
    )  # fmt: skip
    metrics = load(made.path).metrics()
    assert metrics["idle_power"]["before"].value == pytest.approx(4, rel=0.01)
    assert metrics["energy_per_step"].value == pytest.approx(0.18 * 0.02, rel=1e-6)
    assert metrics["energy_per_step_with_idle"].value == pytest.approx(0.27 * 0.02, rel=1e-6)
    assert "the idle power" in metrics["energy_per_step"].method


def test_without_the_training_s_cpu_time_a_model_tells_the_machine_alone(tmp_path: Path) -> None:
    run = load(make_run(tmp_path / "r", beside_others()[:2], steps=300, power_model=LINEAR).path)
    metrics = run.metrics()
    assert metrics["energy_per_step"].missing
    assert "machine_energy_per_step" in metrics["energy_per_step"].reason
    assert metrics["machine_mean_power"].value == pytest.approx(4, rel=0.01)


def test_a_sensor_goes_before_a_model(tmp_path: Path) -> None:
    sampled = [
        Sampled(channel=power(), raw=lambda t: 5000),
        Sampled(channel=busy(0), raw=lambda t: t // (10 * MS)),
    ]
    run = load(make_run(tmp_path / "r", sampled, power_model=LINEAR).path)
    assert run.metrics()["mean_power"].status.value == "measured"
    assert not {"machine_mean_power", "machine_energy_per_step"} & set(run.metrics())


def test_a_sensor_that_fails_in_the_middle_leaves_a_gap_and_not_a_zero(tmp_path: Path) -> None:
    missing = -(2**63)
    middle = range(BEGIN + 400 * MS, BEGIN + 800 * MS)
    sampled = Sampled(channel=power(), raw=lambda t: missing if t in middle else 5000)
    run = load(make_run(tmp_path / "r", [sampled]).path)
    assert run.metrics()["mean_power"].value == pytest.approx(5)
    assert run.metrics()["energy_per_step"].value == pytest.approx(0.1)
    assert told(run.document()) == pytest.approx(0.1, rel=1e-6)


def test_a_run_without_tracing_says_why_it_has_no_operations(tmp_path: Path) -> None:
    sampled = Sampled(channel=power(), raw=lambda t: 5000)
    run = load(make_run(tmp_path / "r", [sampled], trace="none").path)
    assert len(run.operations()) == 0
    document = run.document()
    assert document["operations"] == []
    (reason,) = [row["reason"] for row in document["missing"] if row["what"] == "operations"]
    assert_says(reason, "--trace none")
    assert "tracing was off" in run.metrics()["trace_inflation"].reason
    assert run.metrics()["energy_per_step"].value == pytest.approx(0.1)


def test_the_cost_of_tracing_is_found_and_taken_off(tmp_path: Path) -> None:
    """Half a millisecond for each of three operations in a step of 20 ms."""
    run = load(make_run(tmp_path / "r", []).path)
    assert run.metrics()["trace_inflation"].value == pytest.approx(21.5 / 20)
    assert run.metrics()["correction_residual"].value == pytest.approx(0, abs=1e-6)
    assert by_name(run, "time") == pytest.approx(
        {"data-op": 0.002, "forward-op": 0.008, "backward-op": 0.01}
    )


def test_throughput_counts_the_samples_of_clean_steps(tmp_path: Path) -> None:
    run = load(make_run(tmp_path / "r", []).path)
    assert run.metrics()["throughput"].value == pytest.approx(4 / 0.02)


# --- a total is one only as a whole --------------------------------------------------------------

SILENT = -(2**63)


def rail(
    name: str, milliwatts: int, until: int | None = None, role: str = "power_total"
) -> Sampled:
    """A rail of a total; from `until` on every read of it fails."""

    def raw(t_ns: int) -> int:
        return milliwatts if until is None or t_ns < until else SILENT

    return Sampled(channel=power(role, name), raw=raw)


@pytest.mark.parametrize("answers", [0, 1])
def test_a_rail_that_gives_nothing_leaves_no_total_and_is_named(
    tmp_path: Path, answers: int
) -> None:
    """An AGX Xavier whose SYS5V fails right after the probe: 5 W of 7 are not the machine."""
    sampled = [
        rail("rail.gpu", 2000),
        rail("rail.cpu", 3000),
        rail("rail.sys5v", 2000, BEGIN - 20 * MS + answers * MS),
    ]
    run = load(make_run(tmp_path / "r", sampled).path)
    for name in ("energy_per_step", "mean_power"):
        figure = run.metrics()[name]
        assert figure.value is None
        assert "rail.sys5v" in figure.reason
        assert "rail.gpu" not in figure.reason
    rails = run.document()["energy_by_rail"]
    assert {name: figure["value"] for name, figure in rails.items()} == pytest.approx(
        {"rail.gpu": 0.04, "rail.cpu": 0.06}
    )


def test_a_counter_that_gives_nothing_leaves_no_total_and_is_named(tmp_path: Path) -> None:
    def grows(t_ns: int) -> int:
        return 5 * (t_ns - BEGIN + 10**9) // 1000

    sampled = [
        Sampled(channel=energy(10**15, name="package0.energy"), raw=grows),
        Sampled(channel=energy(10**15, name="package1.energy"), raw=lambda t: SILENT),
    ]
    figure = load(make_run(tmp_path / "r", sampled).path).metrics()["energy_per_step"]
    assert figure.value is None
    assert "package1.energy" in figure.reason
    # What is whole by itself is a total still.
    run = load(make_run(tmp_path / "s", [*sampled, rail("board.power", 7000)]).path)
    assert run.metrics()["mean_power"].value == pytest.approx(7)


def test_a_rail_that_fails_later_leaves_a_total_of_the_time_before(tmp_path: Path) -> None:
    sampled = [rail("rail.gpu", 2000), rail("rail.cpu", 3000, BEGIN + 600 * MS)]
    run = load(make_run(tmp_path / "r", sampled).path)
    assert run.metrics()["mean_power"].value == pytest.approx(5)


def test_rails_that_never_spoke_at_one_time_have_no_total(tmp_path: Path) -> None:
    early = rail("rail.gpu", 2000, BEGIN + 300 * MS)
    late = Sampled(
        channel=power(name="rail.cpu"), raw=lambda t: 3000 if t > BEGIN + 500 * MS else SILENT
    )
    figure = load(make_run(tmp_path / "r", [early, late]).path).metrics()["mean_power"]
    assert figure.value is None


# --- batteries -----------------------------------------------------------------------------------


def gauge(name: str, role: str, unit: str, raw: Any, scale: float = 1e-3) -> Sampled:
    channel = Channel(
        name=name, unit=unit, kind="gauge", domain="battery", role=role, source="made", scale=scale
    )
    return Sampled(channel=channel, raw=raw)


def test_a_battery_keeps_its_signs(tmp_path: Path) -> None:
    """-5 °C is no 5 °C; and power is what the sensor says, which knows the sign of the driver."""
    sampled = [
        gauge("battery.temperature", "temperature", "°C", lambda t: -5000),
        gauge("battery.bat0.power", "power_total", "W", lambda t: -7000, -1e-3),
    ]
    run = load(make_run(tmp_path / "r", sampled).path)
    assert set(run.series.raw("battery.temperature")[1]) == {-5.0}
    assert run.metrics()["mean_power"].value == pytest.approx(7)


def test_in_runs_of_before_the_sensor_knew_the_sign_it_is_taken_off(tmp_path: Path) -> None:
    made = make_run(
        tmp_path / "r", [gauge("battery.bat0.power", "power_total", "W", lambda t: -7000)]
    )
    document = json.loads((made.path / "run.json").read_text())
    for read in document["reads"]:
        if read["channels"][0]["name"] == "battery.bat0.power":
            read |= {"sensor": "battery", "parser": "number"}
    (made.path / "run.json").write_text(json.dumps(document))
    assert load(made.path).metrics()["mean_power"].value == pytest.approx(7)


def test_a_battery_of_current_and_voltage_is_their_product_and_each_is_needed(
    tmp_path: Path,
) -> None:
    current = gauge("battery.bat0.current", "battery_current", "A", lambda t: 500)
    voltage = gauge("battery.bat0.voltage", "battery_voltage", "V", lambda t: 12_000)
    other = gauge("battery.bat1.current", "battery_current", "A", lambda t: 250)
    run = load(make_run(tmp_path / "one", [current, voltage]).path)
    assert run.metrics()["mean_power"].value == pytest.approx(6)
    figure = load(make_run(tmp_path / "two", [current, voltage, other]).path).metrics()
    assert figure["mean_power"].value is None
    assert "battery.bat1.voltage" in figure["mean_power"].reason
    # A battery that tells its power is not counted again by its current.
    whole = gauge("battery.bat0.power", "power_total", "W", lambda t: 6000)
    run = load(make_run(tmp_path / "whole", [current, voltage, whole]).path)
    assert run.metrics()["mean_power"].value == pytest.approx(6)


def test_what_ran_beside_the_steps_is_told_in_all_and_no_part_of_the_sum(tmp_path: Path) -> None:
    """A start of 400 ms before the first step: with every rest of the document summed up plainly."""
    made = make_run(
        tmp_path / "r", [Sampled(channel=power(), raw=lambda t: 5000)], beside=("startup", 400 * MS)
    )
    document = load(made.path).document()
    rows = [*document["operations"], *document["rests"].values()]
    assert sum(row["time"]["value"] for row in rows) == pytest.approx(0.02, rel=1e-6)
    assert sum(row["energy"]["value"] or 0 for row in rows) == pytest.approx(0.1, rel=1e-6)
    startup = document["rests_outside_steps"]["startup"]
    assert startup["total"]["value"] == pytest.approx(0.4)
    assert startup["energy"]["value"] == pytest.approx(2.0)
    assert "time" not in startup  # it has none for a step


NOISE = np.random.default_rng(3).integers(0, 300, 5000)


def of_battery(path: Path, raw: Callable[[int], int]) -> Figure:
    current = gauge("battery.bat0.current", "battery_current", "A", raw)
    voltage = gauge("battery.bat0.voltage", "battery_voltage", "V", lambda t: 12_000)
    return load(make_run(path, [current, voltage], steps=100).path).metrics()["mean_power"]


def test_a_battery_s_current_at_the_end_of_its_range_gives_no_power(tmp_path: Path) -> None:
    """0.5 to 0.8 A, of which the sensor shows 0.7 at most; without that end there is a power."""

    def noisy(t: int) -> int:
        return 500 + int(NOISE[t // MS % len(NOISE)])

    assert of_battery(tmp_path / "whole", noisy).value == pytest.approx(0.65 * 12, rel=0.02)
    figure = of_battery(tmp_path / "clipped", lambda t: min(noisy(t), 700))
    assert figure.missing
    assert_says(figure.reason, "battery.bat0.current", "highest value", "0.7 A")


def test_one_current_of_a_megaampere_counts_as_a_failed_read_and_is_noted(tmp_path: Path) -> None:
    at = BEGIN + 700 * MS

    def raw(t: int) -> int:
        return 10**9 if at <= t < at + MS else 500

    figure = of_battery(tmp_path / "r", raw)
    assert figure.value == pytest.approx(6)
    assert_says(figure.reason, "1 value(s)", "battery.bat0.current", "failed reads", "1e+06 A")


def test_the_energy_of_a_step_says_how_much_gaps_between_steps_widen_it(tmp_path: Path) -> None:
    """Steps of 20 ms with 2 ms before each; the sensor averages over 5 ms."""
    channel = replace(power(), window_s=0.005)
    sampled = [Sampled(channel=channel, raw=lambda t: 5000)]
    made = make_run(tmp_path / "r", sampled, gap_ns=2 * MS, trace="none")
    figure = load(made.path).metrics()["energy_per_step"]
    reach = 0.1 * 56 / 57  # of the 57 steps that count the last has no gap after it
    assert_says(figure.method, f"{100 * reach:.2g} %", "either side")
    assert figure.high - figure.value >= reach * figure.value * 0.999


@pytest.mark.parametrize(
    ("role", "used"), [("power_part", "soc.energy"), ("power_total", "soc.power")]
)
def test_a_part_of_the_machine_takes_no_total_counter_s_place(
    tmp_path: Path, role: str, used: str
) -> None:
    """A counter with a new value every 10 ms, power of the same name with one every ms."""
    counter, gauge = (
        replace(channel, status="replayed")
        for channel in (energy(1 << 32, name="soc.energy"), power(role, name="soc.power"))
    )
    sampled = [
        Sampled(
            channel=counter, raw=lambda t_ns: (t_ns - BEGIN) // (10 * MS) * 50_000 % (1 << 32)
        ),  # 5 W
        Sampled(channel=gauge, raw=lambda t_ns: 2000 + t_ns // MS % 2),
    ]
    make_run(tmp_path / "run", sampled)
    assert [c.name for c in load(tmp_path / "run").series.total_channels] == [used]

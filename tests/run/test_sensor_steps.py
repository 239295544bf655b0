"""What a sensor's steps, its notes and its gaps mean for the figures that rest on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.run.made import BEGIN, FIVE, MS, ByPhase, Sampled, make_run, power
from tests.run.played import record_played
from tests.run.test_resolution import OWN_CPU
from tests.wording import assert_says

import wattstep
from wattstep.attribution.step_energy import power_over
from wattstep.recorded.curves import curve_of_gauge
from wattstep.recorded.power import EnergySource, summed
from wattstep.run import load
from wattstep.schema.figure import Figure, Status

SILENT = -(2**63)
TX2_IN = 0.0383  # W: 2 mA at 19.15 V, as VDD_IN of a TX2 goes


def in_steps(watts: float, step: float, noise: float, seed: int) -> EnergySource:
    """Four seconds of a rail as a sensor of that step reads it every 10 ms."""
    t_ns = BEGIN + np.arange(400, dtype=np.int64) * 10 * MS
    true = watts + noise * np.random.default_rng(seed).normal(size=len(t_ns))
    read = np.rint(true / step) * step
    return EnergySource(
        curve=curve_of_gauge(t_ns, read),
        status=Status.MEASURED,
        source="made",
        half_step_w=step / 2,
    )


def holds(figure: Figure, truth: float) -> bool:
    assert figure.value is not None
    assert figure.low is not None
    assert figure.high is not None
    assert figure.systematic is not None
    reach = figure.systematic * figure.value
    return figure.low - reach <= truth <= figure.high + reach


@pytest.mark.parametrize(
    "steps", [(TX2_IN,), (0.399, 0.399, 0.101), (0.154,) * 5 + (0.041,)], ids=["1", "3", "6"]
)
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_of_many_truths_95_of_100_lie_within_interval_and_sensor_step(
    steps: tuple[float, ...], noise: float
) -> None:
    """A steady power reads the same all the time: the interval of the samples holds no truth."""
    draw = np.random.default_rng(7)
    spans = np.array([[BEGIN, BEGIN + 3_990 * MS]])
    held = alone = 0
    for seed in range(200):
        watts = draw.uniform(1, 6, len(steps))
        rails = [
            in_steps(w, q, noise, seed + n)
            for n, (w, q) in enumerate(zip(watts, steps, strict=True))
        ]
        figure = power_over(summed(rails), spans, "clean steps")
        held += holds(figure, float(watts.sum()))
        alone += holds(replace(figure, systematic=0.0), float(watts.sum()))
    assert held >= 190
    assert alone < 150  # by far not 190


def test_half_a_step_stands_in_every_figure_of_energy(tmp_path: Path) -> None:
    """VDD_IN that never moves: the step is the documented one; 19.15 mW of 1.838 W are 1.04 %."""
    sampled = Sampled(channel=replace(power(name="VDD_IN"), resolution=TX2_IN), raw=lambda t: 1838)
    idle = (1000 * MS, 1000 * MS)
    run = load(make_run(tmp_path / "r", [sampled], idle_ns=idle).path)
    metrics = run.metrics()
    figures = [metrics[n] for n in ("mean_power", "energy_per_step", "energy_per_sample")]
    for figure in [*figures, metrics["idle_power"]["before"]]:
        assert figure.systematic == pytest.approx(0.0383 / 2 / 1.838)


def test_half_a_step_stands_in_the_energy_of_every_operation(tmp_path: Path) -> None:
    """19.15 mW of what each phase takes."""
    channel = replace(power(name="VDD_IN"), resolution=TX2_IN)
    sampled = Sampled(channel=channel, raw=ByPhase(FIVE))
    run = load(make_run(tmp_path / "r", [sampled]).path)
    for row in run.operations():
        assert row["power"].systematic == pytest.approx(0.0383 / 2 / row["power"].value)


def test_energy_above_idle_has_the_steps_of_both_powers(tmp_path: Path) -> None:
    """5 W and 1 W, each give or take 50 mW: 4 W give or take 71 mW."""
    sampled = Sampled(
        channel=replace(power(), resolution=0.1),
        raw=lambda t: 1000 if t < BEGIN + 1000 * MS else 5000,
    )
    run = load(make_run(tmp_path / "r", [sampled], idle_ns=(1000 * MS, 0)).path)
    found = run.metrics()["energy_per_step_above_idle"]["before"]
    assert found.value == pytest.approx(0.08, rel=1e-2)
    assert found.systematic == pytest.approx(0.05 * 2**0.5 / 4, rel=1e-2)


def test_the_step_is_the_one_seen_where_no_other_is_documented(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(40, 60, 4000) * 100
    sampled = Sampled(
        channel=power(), raw=lambda t: int(values[(t - BEGIN + 10**9) // MS]), every_ns=MS
    )
    run = load(make_run(tmp_path / "r", [sampled]).path)
    assert run.metrics()["mean_power"].systematic == pytest.approx(0.05 / 5, rel=0.02)


def test_a_rail_below_half_of_its_step_is_missing_and_not_zero(tmp_path: Path) -> None:
    sampled = [
        Sampled(channel=power(name="VDD_IN"), raw=lambda t: 5000),
        Sampled(
            channel=replace(power(name="CV", role="power_part"), resolution=0.154), raw=lambda t: 0
        ),
    ]
    rails = load(make_run(tmp_path / "r", sampled).path).document()["energy_by_rail"]
    assert rails["CV"]["value"] is None
    assert "steps of 0.154 W" in rails["CV"]["reason"]
    assert rails["VDD_IN"]["value"] == pytest.approx(0.1)


# --- what is said, and where --------------------------------------------------------------------


def test_what_a_total_leaves_out_is_said_once_and_of_the_total(tmp_path: Path) -> None:
    """As rails.meaning has it for an AGX Orin: each rail of the total says what that leaves out."""
    total = "the total is A + B; leaves out the carrier board"
    feeds = {
        name: f"feeds {name} and soc together: the share of one cannot be read" for name in "AB"
    }
    sampled = [
        Sampled(
            channel=replace(power(name=name), note=f"{feeds[name]}; {total}"), raw=lambda t: 2000
        )
        for name in "AB"
    ]
    run = load(make_run(tmp_path / "r", sampled).path)
    assert run.metrics()["energy_per_step"].reason == total
    rails = run.document()["energy_by_rail"]
    assert {name: rails[name]["reason"] for name in "AB"} == feeds
    assert run.document()["left_out"] == [total]


def test_power_that_ends_early_says_how_much_of_the_clean_steps_it_covers(tmp_path: Path) -> None:
    """By hand: 7.55 of the 38 clean steps, of 20 ms each, lie in the first 300 ms."""
    sampled = Sampled(channel=power(), raw=lambda t: 5000 if t < BEGIN + 300 * MS else SILENT)
    metrics = load(make_run(tmp_path / "r", [sampled]).path).metrics()
    for name in ("energy_per_step", "energy_per_sample", "mean_power"):
        assert metrics[name].value is not None
        assert_says(metrics[name].reason, "power covers 20 %")
    whole = Sampled(channel=power(), raw=lambda t: 5000)
    assert load(make_run(tmp_path / "s", [whole]).path).metrics()["mean_power"].reason is None


def test_whose_cores_an_operation_is_set_against_is_said_where_a_board_is_emulated(
    tmp_path: Path,
) -> None:
    sampled = Sampled(channel=OWN_CPU, raw=lambda t: t - BEGIN + 10**9)
    device: dict[str, object] = {"cores": 6, "emulated_on": {"cores": 2}}
    run = load(make_run(tmp_path / "r", [sampled], device=device).path)
    (method,) = {row["cpu_utilization"].method for row in run.operations()}
    assert_says(method, "2 cores", "machine that trained")


def test_a_rail_that_stands_still_has_the_documented_step_and_not_that_of_its_voltage(
    tmp_path: Path,
) -> None:
    log = Path(__file__).parent.parent / "fixtures/jetson/orinagx_32gb__all.tegrastats"
    lines = len(log.read_text().splitlines())
    record_played(tmp_path / "run", f"replay:{log},speed=max", lines)
    energy = wattstep.load(tmp_path / "run").series.energy
    assert not isinstance(energy, str)
    # boards.md 1.3: 399, 399 and 101 mW; squares of the halves, times 1.13.
    assert energy.half_step_w == pytest.approx(1.13 * (2 * 0.1995**2 + 0.0505**2) ** 0.5, rel=0.02)

"""A thermal model fitted to synthetic traces: what went into them comes out, within the stated intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.wording import assert_says

from wattstep.device.thermal_model import ThermalModel, fit_thermal_model
from wattstep.recorded.curves import Curve, curve_of_gauge
from wattstep.schema.arrays import FloatArray, IntArray

STEP_S = 0.1  # of the simulation
IDLE_S = 60.0
BEGIN_NS = 10**12
AMBIENT = 22.0
TRUTHS = 60


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A simulated run: an idle minute, training, an idle minute."""

    t_ns: IntArray
    temperature: FloatArray
    energy: Curve
    training_ns: tuple[int, int]
    load_w: float

    def fit(self, *, blind: bool = False, **known: float) -> ThermalModel | str:
        return fit_thermal_model(
            self.t_ns,
            self.temperature,
            None if blind else self.energy,
            training_ns=self.training_ns,
            **known,  # type: ignore[arg-type]
        )


def simulate(
    stages: list[tuple[float, float]],
    span_s: float,
    *,
    idle_w: float = 2.0,
    load_w: float = 9.0,
    quantum: float = 0.5,
    noise: float = 0.2,
    seed: int = 0,
) -> Trace:
    """Stages (K/W, s) that were long at rest; explicit Euler, which is not how the model is fitted."""
    random = np.random.default_rng(seed)
    times = np.arange(0.0, span_s + 2 * IDLE_S, STEP_S)
    training = (times >= IDLE_S) & (times < IDLE_S + span_s)
    power = np.where(training, load_w, idle_w) * (1 + 0.05 * random.standard_normal(len(times)))
    states = [resistance * idle_w for resistance, _ in stages]
    course = np.empty(len(times))
    for n, watts in enumerate(power):
        course[n] = AMBIENT + sum(states)
        for k, (resistance, tau) in enumerate(stages):
            states[k] += (watts * resistance - states[k]) / tau * STEP_S
    seen = np.arange(0.0, times[-1], 1.0) + random.uniform(0, 0.05, len(np.arange(0, times[-1], 1)))
    values = np.interp(seen, times, course) + noise * random.standard_normal(len(seen))
    nanoseconds = BEGIN_NS + np.rint(times * 1e9).astype(np.int64)
    return Trace(
        t_ns=BEGIN_NS + np.rint(seen * 1e9).astype(np.int64),
        temperature=np.round(values / quantum) * quantum,
        energy=curve_of_gauge(nanoseconds, power),
        training_ns=(
            BEGIN_NS + round(IDLE_S * 1e9),
            BEGIN_NS + round((IDLE_S + span_s) * 1e9),
        ),
        load_w=load_w,
    )


def random_truths(count: int) -> list[tuple[float, float, Trace]]:
    """Time constant, resistance and trace of boards that differ in everything."""
    random = np.random.default_rng(4)
    found = []
    for seed in range(count):
        tau, resistance = float(np.exp(random.uniform(3.0, 5.7))), float(random.uniform(2, 8))
        trace = simulate(
            [(resistance, tau)],
            tau * random.uniform(3, 8),
            idle_w=random.uniform(1, 3),
            load_w=random.uniform(6, 11),
            quantum=float(random.choice([0.5, 1.0])),
            noise=float(random.choice([0.0, 0.1, 0.3, 0.5])),
            seed=seed,
        )
        found.append((tau, resistance, trace))
    return found


@pytest.fixture(scope="module")
def truths() -> list[tuple[float, float, Trace]]:
    return random_truths(TRUTHS)


def test_the_time_constant_is_within_a_tenth_of_the_truth_and_its_interval_holds_it(
    truths: list[tuple[float, float, Trace]],
) -> None:
    """Noise of up to 0.5 °C, steps of 0.5 and 1 °C; 20 s to 300 s, seen for 3 to 8 of them."""
    errors, inside = [], {"tau": 0, "steady": 0, "resistance": 0}
    for tau, resistance, trace in truths:
        model = trace.fit()
        assert isinstance(model, ThermalModel), model
        (constant,) = model.time_constants
        errors.append(abs(constant.value / tau - 1))
        steady = AMBIENT + resistance * trace.load_w
        assert model.resistance is not None
        for name, truth, estimate in (
            ("tau", tau, constant),
            ("steady", steady, model.steady),
            ("resistance", resistance, model.resistance),
        ):
            assert estimate.low is not None
            assert estimate.high is not None
            inside[name] += estimate.low <= truth <= estimate.high
    assert max(errors) < 0.1
    # Of 60 intervals of 95 %, fewer than 50 would hold the truth once in 1,000 times.
    assert min(inside.values()) >= 50, inside


def test_without_power_the_training_alone_gives_the_time_constant(
    truths: list[tuple[float, float, Trace]],
) -> None:
    errors = []
    for tau, resistance, trace in truths[:30]:
        if resistance * (trace.load_w - 3) < 15:  # fifteen steps of a coarse sensor
            continue
        model = trace.fit(blind=True)
        assert isinstance(model, ThermalModel), model
        errors.append(abs(model.time_constants[0].value / tau - 1))
        assert model.resistance is None
        assert_says(model.no_resistance, "power", "not measured")
    assert len(errors) > 10
    assert max(errors) < 0.1


def test_two_stages_are_told_from_one() -> None:
    for seed, (slow, apart) in enumerate([(120.0, 8.0), (250.0, 15.0), (400.0, 25.0)]):
        trace = simulate([(2.0, slow / apart), (3.5, slow)], 5 * slow, seed=seed)
        model = trace.fit()
        assert isinstance(model, ThermalModel)
        first, second = model.time_constants
        assert first.value == pytest.approx(slow / apart, rel=0.15)
        assert second.value == pytest.approx(slow, rel=0.1)
        assert model.steady.value == pytest.approx(AMBIENT + 5.5 * 9.0, abs=1.0)


def test_the_time_to_throttle_is_that_of_the_exponential() -> None:
    """From 22 + 2×5 = 32 °C towards 22 + 9×5 = 67 °C: 60 °C after tau ln(35/7)."""
    model = simulate([(5.0, 100.0)], 500).fit(limit=60.0)
    assert isinstance(model, ThermalModel)
    assert model.to_limit is not None
    assert model.to_limit.value == pytest.approx(100 * np.log(35 / 7), rel=0.03)
    cool = simulate([(5.0, 100.0)], 500).fit(limit=80.0)
    assert isinstance(cool, ThermalModel)
    assert cool.to_limit is None
    assert "does not reach 80.0 °C" in cool.no_limit


def test_an_ambient_temperature_gives_the_resistance_where_power_is_constant() -> None:
    trace = simulate([(4.0, 80.0)], 600)
    inside = (trace.t_ns >= trace.training_ns[0]) & (trace.t_ns <= trace.training_ns[1])
    found = [
        fit_thermal_model(
            trace.t_ns[inside], trace.temperature[inside], trace.energy,
            training_ns=trace.training_ns, ambient=ambient,
        )
        for ambient in (AMBIENT, None)
    ]  # fmt: skip
    known, unknown = found
    assert isinstance(known, ThermalModel)
    assert isinstance(unknown, ThermalModel)
    assert known.resistance is not None
    assert known.resistance.value == pytest.approx(4.0, rel=0.03)
    assert unknown.resistance is None
    assert "ambient temperature" in unknown.no_resistance


def test_a_record_shorter_than_a_time_constant_says_so() -> None:
    found = simulate([(5.0, 2000.0)], 100).fit(blind=True)
    assert isinstance(found, str)
    assert "one time constant" in found


def test_a_temperature_that_stands_still_has_no_model() -> None:
    found = simulate([(0.1, 50.0)], 300, noise=0.0).fit()
    assert isinstance(found, str)
    assert_says(found, "0.5 °C")
    t_ns = BEGIN_NS + 10**9 * np.arange(100)
    flat = fit_thermal_model(t_ns, np.full(100, 40.0), None, training_ns=(t_ns[0], t_ns[-1]))
    assert isinstance(flat, str)
    assert "changed by 0 °C only" in flat


def test_failed_reads_and_a_gap_change_little() -> None:
    trace = simulate([(5.0, 100.0)], 500, seed=3)
    holes = trace.temperature.copy()
    holes[::7] = np.nan
    holes[200:240] = np.nan
    model = fit_thermal_model(trace.t_ns, holes, trace.energy, training_ns=trace.training_ns)
    assert isinstance(model, ThermalModel)
    assert model.time_constants[0].value == pytest.approx(100, rel=0.05)


def test_too_few_temperatures_are_said_to_be_too_few() -> None:
    trace = simulate([(5.0, 100.0)], 500)
    found = fit_thermal_model(
        trace.t_ns[:5], trace.temperature[:5], trace.energy, training_ns=trace.training_ns
    )
    assert_says(found, "5 temperatures", 20)


def throttling(limit: float, seed: int = 0) -> tuple[Trace, int]:
    """A board of 4 K/W and 100 s that halves its power at a limit, until 1 °C below; and when first."""
    random = np.random.default_rng(seed)
    times = np.arange(0.0, IDLE_S + 400, STEP_S)
    power, course = np.empty(len(times)), np.empty(len(times))
    state, held, onset = 4.0 * 2.0, False, 0
    for n, t_s in enumerate(times):
        course[n] = AMBIENT + state
        held = course[n] >= limit or (held and course[n] > limit - 1)
        if held and not onset:
            onset = n
        power[n] = 2.0 if t_s < IDLE_S else 4.5 if held else 9.0
        state += (power[n] * 4.0 - state) / 100.0 * STEP_S
    nanoseconds = BEGIN_NS + np.rint(times * 1e9).astype(np.int64)
    seen = slice(None, None, 10)
    noisy = course[seen] + 0.1 * random.standard_normal(len(times[seen]))
    trace = Trace(
        t_ns=nanoseconds[seen],
        temperature=np.round(noisy / 0.5) * 0.5,
        energy=curve_of_gauge(nanoseconds, power),
        training_ns=(BEGIN_NS + round(IDLE_S * 1e9), int(nanoseconds[onset])),
        load_w=9.0,
    )
    return trace, onset


def test_the_time_to_throttle_of_a_board_that_throttled_is_that_of_its_own_power() -> None:
    """From 22 + 2×4 = 30 °C towards 22 + 9×4 = 58 °C: 45 °C after 100 ln(28/13) = 76.7 s."""
    trace, onset = throttling(45.0)
    assert onset * STEP_S - IDLE_S == pytest.approx(76.7, abs=0.2)
    model = trace.fit(limit=45.0)
    assert isinstance(model, ThermalModel)
    (constant,) = model.time_constants
    assert constant.value == pytest.approx(100, rel=0.05)
    assert model.resistance is not None
    assert model.resistance.value == pytest.approx(4.0, rel=0.05)
    assert model.steady.value == pytest.approx(58.0, abs=1.0)
    assert model.to_limit is not None
    assert model.to_limit.value == pytest.approx(76.7, rel=0.05)


@pytest.mark.parametrize("wrong", [-3.0, 3.0])
def test_an_ambient_temperature_that_is_wrong_does_not_move_what_the_record_tells(
    wrong: float,
) -> None:
    trace = simulate([(4.0, 100.0)], 500)
    free, said = trace.fit(), trace.fit(ambient=AMBIENT + wrong)
    assert isinstance(said, ThermalModel)
    assert said == free
    (constant,) = said.time_constants
    assert constant.value == pytest.approx(100, rel=0.05)


def test_two_degrees_of_the_ambient_temperature_are_in_the_interval_of_the_resistance() -> None:
    """At 9 W they are 0.22 K/W either way: 4.0 lies within, whichever way the room is wrong."""
    trace = simulate([(4.0, 80.0)], 600)
    inside = (trace.t_ns >= trace.training_ns[0]) & (trace.t_ns <= trace.training_ns[1])
    for ambient in (AMBIENT - 1.5, AMBIENT + 1.5):
        found = fit_thermal_model(
            trace.t_ns[inside], trace.temperature[inside], trace.energy,
            training_ns=trace.training_ns, ambient=ambient,
        )  # fmt: skip
        assert isinstance(found, ThermalModel)
        assert found.resistance is not None
        assert found.resistance.low is not None
        assert found.resistance.high is not None
        assert found.resistance.low < 4.0 < found.resistance.high
        assert found.resistance.high - found.resistance.low < 0.6

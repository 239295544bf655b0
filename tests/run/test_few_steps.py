"""Energy of one step or a few, against powers of known course behind sensors of many kinds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.run.imported.made import imported
from tests.run.made import Worked, import_made, watts
from tests.wording import assert_says

from wattstep.attribution.step_energy import Spent, spent
from wattstep.recorded.clock_error import ClockError
from wattstep.recorded.curves import curve_of_counter, curve_of_gauge
from wattstep.recorded.power import EnergySource
from wattstep.recorded.steps import Steps
from wattstep.run.run import load
from wattstep.schema.arrays import FloatArray
from wattstep.schema.figure import Status

LEAD_MS = 1500.0  # before the first step and after the last
GRID_MS = 0.1
KINDS = ("moment", "since", "window", "documented", "exponential", "counter")


@dataclass(frozen=True, kw_only=True)
class Sensor:
    """Way in which a sensor shows power; times in ms."""

    kind: str
    every: float
    window: float
    late: float
    clock: float = 0.0

    def samples(self, power: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Times in ms and values, W or J."""
        joules = np.concatenate([[0.0], np.cumsum(power)]) * GRID_MS * 1e-3
        grid = np.arange(len(joules)) * GRID_MS
        t = np.arange(200 + rng.uniform(0, self.every), grid[-1] - 60, self.every)
        end = np.interp(t - self.late, grid, joules)
        if self.kind == "counter":
            return t, end
        if self.kind == "exponential":
            decay = np.exp(-np.arange(0, 12 * self.window, GRID_MS) / self.window)
            weights = decay / decay.sum()
            at = np.maximum((t - self.late) / GRID_MS, len(weights)).astype(int)
            shown = np.array([weights @ power[n - len(weights) : n][::-1] for n in at])
        else:
            window = {"moment": GRID_MS, "since": self.every}.get(self.kind, self.window)
            shown = (end - np.interp(t - self.late - window, grid, joules)) / window * 1e3
        return t, shown + rng.normal(0, 0.003, len(t))

    def source(self, power: FloatArray, rng: np.random.Generator) -> EnergySource:
        """As the run's series has it, its clock beside that of the steps by what it may be."""
        t, value = self.samples(power, rng)
        t_ns = np.rint((t + rng.uniform(-self.clock, self.clock)) * 1e6).astype(np.int64)
        clock = ClockError(seconds=self.clock * 1e-3, words="apart") if self.clock else None
        own: dict[str, Any] = {"status": Status.MEASURED, "source": "made", "clock": clock}
        if self.kind == "counter":
            curve = curve_of_counter(t_ns, value, unit="J")
            return EnergySource(curve=curve, carries_s=self.every * 1e-3, prompt=True, **own)
        known = self.window * 1e-3 if self.kind == "documented" else None
        return EnergySource(
            curve=curve_of_gauge(t_ns, value), gauge=(t_ns, value), window_s=known,
            carries_s=known or 0.0, limit="averages", half_step_w=0.0005, **own,
        )  # fmt: skip


def patchy(rng: np.random.Generator, length: float, longest: float) -> FloatArray:
    """Power of so many ms: pieces of 1 ms or longer at 1 to 6 W or 10 to 60 W."""
    parts: list[FloatArray] = []
    left = round(length / GRID_MS)
    while left > 0:
        count = min(round(rng.uniform(1, longest) / GRID_MS), left)
        level = rng.uniform(1, 6) if rng.integers(2) else rng.uniform(10, 60)
        parts.append(np.full(count, level))
        left -= count
    return np.concatenate(parts)


def steps_of(begins: FloatArray, length: float) -> Steps:
    count = len(begins)
    start = np.rint(begins * 1e6).astype(np.int64)
    none = np.zeros(count, bool)
    return Steps(
        index=np.arange(count), start_ns=start, end_ns=start + round(length * 1e6),
        samples=np.full(count, np.nan), loss=np.full(count, np.nan), warmup=none, traced=~none,
        window_ns=np.empty((0, 2), np.int64), rest_ns={}, only_traced=True,
    )  # fmt: skip


def training(
    rng: np.random.Generator, length: float, count: int, gap: float
) -> tuple[FloatArray, Steps, float]:
    """Power over time, steps that are all alike, and joules of each."""
    step = patchy(rng, length, length / 2 + 1)
    between = np.full(round(gap / GRID_MS), rng.uniform(1, 6))
    # Rest, another load, or some work, on either side.
    sides = [
        patchy(rng, LEAD_MS, 40.0)
        if rng.integers(3) == 0
        else np.full(round(LEAD_MS / GRID_MS), rng.uniform(1, 6) if rng.integers(2) else rng.uniform(20, 60))
        for _ in range(2)
    ]  # fmt: skip
    power = np.concatenate([sides[0], *[step, between] * count, sides[1]])
    begins = LEAD_MS + np.arange(count) * (length + gap)
    return power, steps_of(begins, length), float(step.sum()) * GRID_MS * 1e-3


def drawn(rng: np.random.Generator, kind: str) -> Sensor:
    windows = {"window": (5, 20, 50, 80), "documented": (10, 100, 1000), "exponential": (3, 10, 20)}
    return Sensor(
        kind=kind,
        every=float(rng.choice([1, 10, 20, 50])),
        window=float(rng.choice(windows.get(kind, (0,)))),
        late=float(rng.uniform(0, 10)),
        clock=float(rng.choice([0, 0, 2, 10])),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_of_one_step_or_a_few_intervals_hold_the_truth_or_there_is_no_figure(kind: str) -> None:
    outcomes = {"held": 0, "missed": 0, "missing": 0}
    for seed in range(60):
        rng = np.random.default_rng(1000 + seed)
        count = int(rng.choice([1, 1, 1, 2, 3]))
        length = float(rng.choice([28, 100, 300, 700, 1500, 3000]))
        power, steps, joules = training(rng, length, count, float(rng.choice([0.0, 0.5, 5.0])))
        energies = spent(drawn(rng, kind).source(power, rng), steps)
        if isinstance(energies, str) or energies.per_step.missing:
            outcomes["missing"] += 1
            continue
        for figure, truth in ((energies.per_step, joules), (energies.power, joules / length * 1e3)):
            if figure.missing:
                continue
            assert figure.low is not None
            assert figure.high is not None
            held = 0.999 * figure.low <= truth <= 1.001 * figure.high
            outcomes["held" if held else "missed"] += 1
    assert outcomes["missed"] <= 0.03 * outcomes["held"], outcomes
    assert outcomes["held"] >= 30, outcomes


@pytest.mark.parametrize(("length", "told"), [(28.0, False), (100.0, False), (1500.0, True)])
def test_a_step_shorter_than_its_sensor_may_be_late_has_no_energy(
    length: float, told: bool
) -> None:
    """Samples of 10 ms, of a gauge of which nothing is documented: it may average over 100 ms."""
    rng = np.random.default_rng(5)
    power, steps, joules = training(rng, length, 1, 0.0)
    source = Sensor(kind="window", every=10.0, window=100.0, late=0.0).source(power, rng)
    energies = spent(source, steps)
    assert isinstance(energies, Spent) is told
    if isinstance(energies, str):
        assert_says(energies, "not resolvable", "100 ms")
    else:
        assert energies.per_step.low is not None
        assert energies.per_step.high is not None
        assert energies.per_step.low <= joules <= energies.per_step.high
        assert energies.per_step.high - energies.per_step.low < 0.5 * joules


def test_where_samples_fall_at_the_same_places_of_each_step_its_energy_has_that_in_its_interval() -> (
    None
):
    """Steps of 300 ms, sampled every 100 ms: of 30 steps three moments are seen, not 90."""
    outside = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        power, steps, joules = training(rng, 300.0, 30, 0.0)
        source = Sensor(kind="moment", every=100.0, window=0.0, late=5.0).source(power, rng)
        energies = spent(source, steps)
        assert isinstance(energies, Spent)
        figure = energies.per_step
        assert figure.low is not None
        assert figure.high is not None
        outside += not 0.999 * figure.low <= joules <= 1.001 * figure.high
    assert outside <= 2


def test_of_a_short_step_alone_rows_and_sums_have_no_energy_either(tmp_path: Path) -> None:
    """Until now what was left of a single step had an interval of 0.01 %."""
    operations = [
        Worked(name="load", step=0, start=5, end=20),
        Worked(name="kernel", step=0, start=10, end=26, processor="gpu0", thread=1 << 50),
    ]
    samples = [
        (float(t), 5.0 + 20.0 * (t % 40 < 20) + 0.01 * (t % 7)) for t in range(-500, 600, 10)
    ]
    card = replace(watts("gpu0.power", "power_part"), domain="gpu")
    run = load(
        import_made(
            tmp_path / "run", imported(), steps=[(0, 28.0)], operations=operations,
            samples=[(card, "power.csv", samples)],
        )
    )  # fmt: skip
    document = run.document()
    assert document["failures"] == []
    reason = document["metrics"]["energy_per_step"]["reason"]
    assert_says(reason, "traced steps", "28 ms")
    for row in (*document["operations"], *document["rests"].values()):
        assert row["energy"]["value"] is None
    assert "not_resolved" not in document["rests"]

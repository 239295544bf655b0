"""What a memory of the sensor, or of power itself, would make of energies; truths are integrated on a grid."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.attribution.regression.axis import axis_of
from wattstep.attribution.regression.explained import Explaining
from wattstep.attribution.regression.memory import carried, changes, clearly_less, memories_of
from wattstep.attribution.regression.observed import observe
from wattstep.attribution.regression.prior import similarity
from wattstep.attribution.regression.problem import Kinds, Layout, Sampled

MS = 1_000_000
STEPS = 60
KINDS = Kinds(
    names=["a", "b", "c"], levels=[np.arange(3), np.zeros(3, np.int64)],
    level_names=["kind", "step"],
)  # fmt: skip
EDGES = np.array([0.0, 0.3, 0.6, 1.0])
WATTS = np.array([10.0, 2.0, 6.0])


def smoothed(true: np.ndarray, seconds: float) -> np.ndarray:
    """What goes to the true power with this time constant, on a grid of 0.1 ms."""
    shown, kept = np.empty_like(true), np.exp(-1e-4 / seconds)
    shown[0] = true.mean()
    for n in range(1, len(true)):
        shown[n] = kept * shown[n - 1] + (1 - kept) * true[n - 1]
    return shown


def averaged(true: np.ndarray, grid: np.ndarray, seconds: float) -> np.ndarray:
    spent = np.concatenate([[0.0], np.cumsum(true[:-1] * 1e-4)])
    return (spent - np.interp(grid - seconds, grid, spent)) / seconds


def process(
    seconds: float, exponential: bool = False, lingering: float = 0.0, ramp: float = 0.0
) -> tuple[Sampled, np.ndarray]:
    """Steps of 100 ms, seen about every 7 ms with 10 mW of noise; and the energy of each kind in J."""
    rng = np.random.default_rng(2)
    grid = np.arange(STEPS * 1000 + 1) * 1e-4  # s
    at = (grid * 10 + 1e-9) % 1
    kind = np.searchsorted(EDGES, at, side="right") - 1
    within = (at - EDGES[kind]) / np.diff(EDGES)[kind]
    true = WATTS[kind] * (1 + ramp * (2 * within - 1))
    if lingering:
        true = smoothed(true, lingering)
    energy = np.bincount(kind[1000:-1], true[1000:-1] * 1e-4) / (STEPS - 1)
    shown = smoothed(true, seconds) if exponential else averaged(true, grid, seconds)
    read = np.cumsum(0.007 + 0.0005 * rng.uniform(-1, 1, STEPS * 14))
    read = read[(read > 2 * seconds) & (read < grid[-1])]
    edges = (np.arange(STEPS)[:, None] + np.array([0, 1])) * 100 * MS
    layout = Layout(edges=EDGES, segment=np.arange(3), kind=np.arange(3), weight=np.ones(3))
    sampled = Sampled(
        t_ns=np.rint(read * 1e9).astype(np.int64),
        value=np.interp(read, grid, shown) + 0.01 * rng.standard_normal(len(read)),
        counter=False, start_ns=edges[:, 0], end_ns=edges[:, 1], edges_ns=edges,
        edges=np.array([0.0, 1.0]), layouts=[layout] * 2,
    )  # fmt: skip
    return sampled, energy


def asked(made: Sampled, delay: float, window: float) -> tuple[np.ndarray, np.ndarray | str]:
    """Energies in J of a plain average, and what they would be more or less with a memory."""
    observed = observe([made], axis_of([made], 3))
    root = np.linalg.cholesky(similarity(KINDS))
    plain = Explaining(observed, root).explain(delay, window)
    assert plain is not None
    memories = memories_of(observed, root, plain, None, None)
    return plain.watts[:-1] * observed.kind_seconds(), changes(observed, plain, memories)


@pytest.mark.parametrize("window", [0.02, 0.015])  # found, and documented as what it is not
def test_behind_an_exponential_average_nothing_is_told_and_its_time_constant_is_named(
    window: float,
) -> None:
    _, change = asked(process(0.015, exponential=True)[0], 0.0, window)
    assert isinstance(change, str)
    named = float(change.partition("about ")[2].partition(" ms")[0])
    assert named == pytest.approx(15, rel=0.1)


def test_a_plain_average_changes_next_to_nothing() -> None:
    made, energy = process(0.015)
    plain, change = asked(made, 0.0, 0.015)
    assert not isinstance(change, str)
    assert plain == pytest.approx(energy, rel=2e-3)
    assert np.abs(change).max(initial=0) < 0.01 * energy.min()


def test_power_that_lingers_looks_late_and_its_energies_lie_within_the_changes() -> None:
    """Two milliseconds of it: as a delay of the sensor, they would move 0.016 J from a to others."""
    made, energy = process(0.02, lingering=0.002)
    plain, change = asked(made, 0.002, 0.02)
    assert not isinstance(change, str)
    assert np.abs(plain / energy - 1).max() > 0.05
    least, most = plain + change.min(axis=0), plain + change.max(axis=0)
    assert (least <= energy * 1.005).all()
    assert (most >= energy * 0.995).all()


def test_power_that_rises_within_operations_is_not_taken_for_a_memory() -> None:
    made, _ = process(0.015, ramp=0.2)
    _, change = asked(made, 0.0, 0.015)
    assert not isinstance(change, str)


def test_what_kinds_take_over_is_that_of_steps_that_follow_each_other() -> None:
    """By a plain walk along a hundred steps of 100 ms, in which power goes on for 20 ms."""
    made, _ = process(0.015)
    watts = np.array([8.0, 0.0, 3.0])
    lasting = np.diff(EDGES) * 0.1
    level = 0.0
    for _ in range(100):
        over = np.zeros(3)
        for kind in range(3):
            left = (level - watts[kind]) * np.exp(-lasting[kind] / 0.02)
            over[kind] = 0.02 * (level - watts[kind] - left)
            level = watts[kind] + left
    found = carried(observe([made], axis_of([made], 3)), watts, 0.02)
    assert found == pytest.approx(over, rel=1e-3)
    assert found.sum() == pytest.approx(0, abs=1e-3 * np.abs(over).max())


def test_what_differs_as_much_from_block_to_block_is_not_clearly_less() -> None:
    even = np.array([1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 1.0])
    one = np.array([8.0, 0.01, -0.01, 0.02, -0.02, 0.01, -0.01, 0.0])  # a sum of 8 in one of them
    assert clearly_less(np.zeros(8), even, 0.999)
    assert not clearly_less(np.zeros(8), one, 0.975)

"""Sensors that average exponentially are told from those that average plainly."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.analysis.regression.axis import axis_of
from wattstep.analysis.regression.explained import Explaining
from wattstep.analysis.regression.memory import forgetting
from wattstep.analysis.regression.observed import observe
from wattstep.analysis.regression.prior import likeness
from wattstep.analysis.regression.problem import Kinds, Layout, Sampled

MS = 1_000_000
STEPS = 60
KINDS = Kinds(
    names=["a", "b", "c"], levels=[np.arange(3), np.zeros(3, np.int64)],
    level_names=["kind", "step"],
)  # fmt: skip
EDGES = np.array([0.0, 0.3, 0.6, 1.0])
WATTS = np.array([10.0, 2.0, 6.0])


def process(seconds: float, exponential: bool) -> Sampled:
    """Steps of 100 ms, seen about every 7 ms through a filter, with 10 mW of noise."""
    rng = np.random.default_rng(2)
    grid = np.arange(STEPS * 1000 + 1) * 1e-4  # s
    true = WATTS[np.searchsorted(EDGES, (grid * 10 + 1e-9) % 1, side="right") - 1]
    if exponential:
        shown = np.empty_like(true)
        shown[0], kept = true.mean(), np.exp(-1e-4 / seconds)
        for n in range(1, len(true)):
            shown[n] = kept * shown[n - 1] + (1 - kept) * true[n - 1]
    else:
        spent = np.concatenate([[0.0], np.cumsum(true[:-1] * 1e-4)])
        shown = (spent - np.interp(grid - seconds, grid, spent)) / seconds
    read = np.cumsum(0.007 + 0.0005 * rng.uniform(-1, 1, STEPS * 14))
    read = read[(read > 2 * seconds) & (read < grid[-1])]
    edges = (np.arange(STEPS)[:, None] + np.array([0, 1])) * 100 * MS
    layout = Layout(edges=EDGES, segment=np.arange(3), kind=np.arange(3), weight=np.ones(3))
    return Sampled(
        t_ns=np.rint(read * 1e9).astype(np.int64),
        value=np.interp(read, grid, shown) + 0.01 * rng.standard_normal(len(read)),
        counter=False, start_ns=edges[:, 0], end_ns=edges[:, 1], edges_ns=edges,
        edges=np.array([0.0, 1.0]), layouts=[layout] * 2,
    )  # fmt: skip


def found(seconds: float, exponential: bool, window: float) -> float | None:
    made = process(seconds, exponential)
    observed = observe([made], axis_of([made], 3))
    root = np.linalg.cholesky(likeness(KINDS))
    plain = Explaining(observed, root).explain(0.0, window)
    assert plain is not None
    return forgetting(observed, root, plain, None)


def test_the_time_constant_of_an_exponential_average_is_found() -> None:
    assert found(0.015, exponential=True, window=0.02) == pytest.approx(0.015, rel=0.1)


def test_a_plain_average_is_not_taken_for_one_that_forgets() -> None:
    assert found(0.015, exponential=False, window=0.015) is None

"""How far samples are trusted, where traced steps differ and where they lie far beside, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.attribution.regression.axis import axis_of
from wattstep.attribution.regression.observed import observe
from wattstep.attribution.regression.problem import Layout, Sampled
from wattstep.attribution.regression.trust import trust, varying

MS = 1_000_000
WATTS = np.array([10.0, 2.0, 0.0])


def ends_at(share: float) -> Layout:
    """Kind 0 up to there, then kind 1."""
    return Layout(
        edges=np.array([0.0, share, 1.0]), segment=np.arange(2), kind=np.arange(2),
        weight=np.ones(2),
    )  # fmt: skip


def sampled(layouts: list[Layout]) -> Sampled:
    """Steps of 100 ms, each seen at 25, 55 and 80 ms."""
    edges = (np.arange(40)[:, None] + np.array([0, 1])) * 100 * MS
    t_ns = (np.arange(40)[:, None] * 100 + np.array([25, 55, 80])).ravel() * MS
    return Sampled(
        t_ns=t_ns, value=np.tile([10.0, 6.0, 2.0], 40), counter=False, start_ns=edges[:, 0],
        end_ns=edges[:, 1], edges_ns=edges, edges=np.array([0.0, 1.0]), layouts=layouts,
    )  # fmt: skip


def test_traced_steps_differ_where_an_operation_ends_now_here_now_there() -> None:
    """At 55 ms one of two has 10 W and the other 2 W: a variance of 32 W²."""
    process = sampled([ends_at(0.5), ends_at(0.6)])
    axis = axis_of([process], 2)
    rows = observe([process], axis).rows(0.0, 0.0)
    found = varying(axis, rows, WATTS).reshape(-1, 3)
    assert found == pytest.approx(np.tile([0.0, 32.0, 0.0], (len(found), 1)))
    left = 0.1 * np.random.default_rng(0).standard_normal(found.size)
    trusted = trust(axis, rows, WATTS, left).reshape(-1, 3)
    assert (trusted[:, 1] < 0.03).all()  # 0.1 of 5.7 W
    assert np.median(trusted[:, [0, 2]]) == pytest.approx(1.0)


def test_what_lies_far_beside_counts_for_less() -> None:
    process = sampled([ends_at(0.5)] * 2)
    axis = axis_of([process], 2)
    rows = observe([process], axis).rows(0.0, 0.0)
    left = 0.1 * np.random.default_rng(0).standard_normal(len(rows.watts))
    left[7] = 30.0
    trusted = trust(axis, rows, WATTS, left)
    assert trusted[7] ** 2 == pytest.approx(3 * 0.1 / 30, rel=0.3)  # Huber: 3 of 300 deviations
    assert np.delete(trusted, 7) == pytest.approx(np.ones(len(left) - 1), abs=0.2)

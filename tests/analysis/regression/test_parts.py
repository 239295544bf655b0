"""Kinds that last long are told in parts, which make the kind again."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.attribution.regression.parts import CUTS, in_parts
from wattstep.attribution.regression.problem import Kinds, Layout, Sampled
from wattstep.attribution.regression.regress import regress

MS = 1_000_000
KINDS = Kinds(
    names=["long", "short"], levels=[np.arange(2), np.zeros(2, np.int64)],
    level_names=["kind", "step"],
)  # fmt: skip


def process(steps: int = 3, moving: bool = False) -> Sampled:
    """Steps of 1 s: the first kind for 0.8 s, whose power falls from 12 to 10 W; then 2 W."""
    layouts = [
        Layout(
            edges=np.array([0.0, share, 1.0]), segment=np.arange(2), kind=np.arange(2),
            weight=np.ones(2),
        )
        for share in (0.8, 0.801, 0.799)
    ]  # fmt: skip
    edges = (np.arange(steps)[:, None] + np.array([0, 1])) * 1000 * MS
    rng = np.random.default_rng(0)
    t_ns = np.arange(20, steps * 1000, 10) * MS + rng.integers(-MS // 2, MS // 2, steps * 100 - 2)
    spent = np.cumsum(np.append(0.0, power(np.arange(steps * 1000) * 1e-3 + 5e-4))) * 1e-3
    at = np.arange(steps * 1000 + 1) * 1e-3
    seen = [np.interp(t_ns * 1e-9 - back, at, spent) for back in (0.0, 0.01)]
    return Sampled(
        t_ns=t_ns, value=(seen[0] - seen[1]) / 0.01 + 0.02 * rng.standard_normal(len(t_ns)),
        counter=False, start_ns=edges[:, 0], end_ns=edges[:, 1], edges_ns=edges,
        edges=np.array([0.0, 1.0]), layouts=layouts,
        moving_s=np.array([[0.01, -0.01]]) if moving else None,
    )  # fmt: skip


def power(t: np.ndarray) -> np.ndarray:
    within = t % 1.0
    return np.where(within < 0.8, 12 - 2.5 * within, 2.0)


def test_a_kind_longer_than_six_samples_is_cut_and_its_parts_make_it_again() -> None:
    parts = in_parts([process(moving=True)], KINDS, 0.05)
    assert parts.whole.tolist() == [0, 1, 0, 0, 0]
    (cut,) = parts.processes
    first = cut.layouts[0]
    assert first.edges == pytest.approx([0.0, *(0.8 * CUTS), 0.8, 1.0])
    assert first.kind.tolist() == [0, 2, 3, 4, 1]
    lasting = np.bincount(parts.whole[first.kind], np.diff(first.edges)[first.segment])
    assert lasting == pytest.approx([0.8, 0.2])
    assert cut.moving_s is not None
    assert np.bincount(parts.whole, cut.moving_s[0]) == pytest.approx([0.01, -0.01])


def test_nothing_is_cut_that_is_short_beside_what_a_sample_sees() -> None:
    parts = in_parts([process()], KINDS, 0.2)
    assert parts.whole.tolist() == [0, 1]
    assert parts.processes[0].layouts[0].kind.tolist() == [0, 1]


def test_a_kind_whose_power_falls_while_it_runs_is_told_with_what_runs_after_it() -> None:
    """By hand: 0.8 s of 12 to 10 W are 8.8 J, then 0.4 J."""
    found = regress([process(steps=40)], KINDS, window=0.01)
    assert found.reason is None
    for figure, truth in zip(found.kinds, (8.8, 0.4), strict=True):
        assert figure.low <= truth <= figure.high
        assert figure.value == pytest.approx(truth, rel=0.02)

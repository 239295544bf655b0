"""More kinds than samples can tell: regressed in groups, and the truth of each kind lies in its interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.made_power import Scenario, make

from wattstep.attribution.regression.fewer import MOST, groups_of
from wattstep.attribution.regression.problem import Kinds
from wattstep.attribution.regression.regress import regress


def kinds(*levels: list[int]) -> Kinds:
    finest = np.arange(len(levels[0]))
    whole = np.zeros(len(finest), np.int64)
    return Kinds(
        names=[f"kind {k}" for k in finest],
        levels=[finest, *(np.array(level, np.int64) for level in levels), whole],
        level_names=["operation", *(f"level {n}" for n in range(len(levels))), "step"],
    )


PHASE = [0, 0, 0, 0, 1, 1]
SECONDS = np.array([0.5, 0.02, 0.03, 0.04, 0.2, 0.01])
POSITION = np.array([0.3, 0.1, 0.6, 0.7, 0.8, 0.9])


def test_long_kinds_are_alone_and_short_ones_with_those_that_run_beside_them() -> None:
    """By hand: stretches of a quarter of 0.8 s would be five; a tenth longer, the last two kinds are one."""
    group = groups_of(kinds([0] * 6, PHASE), SECONDS, POSITION, 4)
    assert group.tolist() == [0, 1, 2, 2, 3, 3]


def test_stretches_end_where_a_layer_does_and_never_reach_into_another_phase() -> None:
    seconds, position = np.full(6, 0.1), np.arange(6) / 6
    layers = groups_of(kinds([0, 0, 0, 1, 1, 1], [0] * 6), seconds, position, 2)
    assert layers.tolist() == [0, 0, 0, 1, 1, 1]
    phases = groups_of(kinds([0] * 6, [0, 0, 1, 1, 1, 1]), seconds, position, 2)
    assert phases.tolist() == [0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("most", [3, 10, 50, 99])
def test_there_are_no_more_groups_than_asked_for_and_nearly_as_many(most: int) -> None:
    rng = np.random.default_rng(most)
    seconds, phase = rng.exponential(size=100), np.sort(rng.integers(0, 3, 100))
    several = kinds(rng.integers(0, 9, 100).tolist(), phase.tolist())
    group = groups_of(several, seconds, rng.random(100), most)
    assert most / 2 <= len(np.unique(group)) <= most
    assert all(len(np.unique(phase[group == one])) == 1 for one in np.unique(group))


@pytest.mark.parametrize("sensor", [{}, {"counter": True, "noise": 0.05}], ids=["gauge", "counter"])
def test_energies_of_more_than_a_thousand_kinds_lie_within_their_intervals(
    sensor: dict[str, float],
) -> None:
    scenario = replace(Scenario(kinds=1100, steps=150), **sensor)  # type: ignore[arg-type]
    assert scenario.kinds > 3 * MOST
    made = make(scenario, 1)
    found = regress(made.processes, made.kinds)
    assert found.reason is None
    energies = np.array([figure.value or 0.0 for figure in found.kinds])
    assert energies.sum() == pytest.approx(found.step_energy.value)
    assert energies.sum() == pytest.approx(made.energy.sum(), rel=0.02)
    alone = [
        (figure.low or 0.0) <= truth <= (figure.high or 0.0)
        for figure, truth in zip(found.kinds, made.energy, strict=True)
    ]
    assert np.mean(alone) >= 0.95
    groups = [group.members for group in found.groups]
    assert np.sort(np.concatenate(groups)).tolist() == list(range(1100))
    rng = np.random.default_rng(2)
    sets = [
        np.flatnonzero(rng.random(1100) < share) for share in (0.01, 0.1, 0.5) for _ in range(30)
    ]
    together = [(members, found.combined(members)[1]) for members in [*groups, *sets]]
    held = [
        (figure.low or 0.0) <= made.energy[members].sum() <= (figure.high or 0.0)
        for members, figure in together
    ]
    assert np.mean(held) >= 0.95
    assert any(group.resolved for group in found.groups)

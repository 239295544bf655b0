"""What each kind of work adds to power: known by construction, and not better than it can be."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.importing.clocks.alignment_grids import added, held_out, whitened, without


def levels(kinds: int, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((kinds, n))


def test_what_each_kind_adds_is_found_beside_a_constant() -> None:
    ran = levels(3, 500)
    value = 7 + 10 * ran[0] + 2 * ran[1] + 0.5 * ran[2]
    assert added(ran, value) == pytest.approx([10, 2, 0.5], rel=1e-3)


def test_no_kind_lowers_power() -> None:
    ran = levels(2, 500)
    found = added(ran, 5 * ran[0] - 3 * ran[1])
    assert found[1] == 0
    assert found[0] == pytest.approx(5, rel=0.1)
    assert added(np.zeros((2, 9)), np.arange(9.0)).tolist() == [0, 0]


def test_kinds_that_always_run_together_share_what_they_add() -> None:
    ran = levels(1, 200)
    assert added(np.vstack([ran, ran]), 6 * ran[0]).sum() == pytest.approx(6, rel=1e-3)


def test_what_is_predicted_of_noise_does_not_resemble_it() -> None:
    ran, noise = levels(8, 80), np.random.default_rng(1).normal(size=80)
    fitted = added(ran, noise) @ ran
    predicted = held_out(ran, noise)
    assert np.corrcoef(fitted, noise)[0, 1] > 0.15
    assert np.corrcoef(predicted, noise)[0, 1] < np.corrcoef(fitted, noise)[0, 1] / 2
    value = 4 * ran[0] + ran[1]
    assert np.corrcoef(held_out(ran, value), value)[0, 1] > 0.999


def test_what_levels_explain_is_taken_away() -> None:
    ran = levels(2, 50)
    assert np.abs(without(ran, 3 + 2 * ran[0] - ran[1])).max() < 1e-9
    alone = np.random.default_rng(2).normal(size=50)
    left = without(ran, alone)
    assert left.sum() == pytest.approx(0, abs=1e-9)
    assert (ran @ left).tolist() == pytest.approx([0, 0], abs=1e-9)


def test_whitened_levels_are_uncorrelated() -> None:
    ran = levels(3, 400)
    white = whitened(np.vstack([ran, ran[0] + ran[1]]))
    assert white.shape == (3, 400)  # the fourth is told by the others
    assert white @ white.T / 400 == pytest.approx(np.eye(3), abs=1e-9)

"""Bounded least squares, slow change and the share of time errors, against other ways."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from wattstep.attribution.regression.drift import drift
from wattstep.attribution.regression.evidence import evidence, penalized
from wattstep.attribution.regression.mixed import inverted, least_squares_bounded


@pytest.mark.parametrize("seed", range(5))
def test_bounded_least_squares_agree_with_lawson_and_hanson(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, true = rng.standard_normal((60, 15)), rng.standard_normal(15)
    right = rows @ true
    ours = least_squares_bounded(rows.T @ rows, rows.T @ right, np.ones(15, bool), np.zeros(15))
    assert ours == pytest.approx(optimize.nnls(rows, right)[0], abs=1e-8)


def test_only_what_is_bounded_is_bounded() -> None:
    whole, right = np.eye(2), np.array([-3.0, -3.0])
    found = least_squares_bounded(whole, right, np.array([True, False]), np.array([-1.0, 0.0]))
    assert found == pytest.approx([-1.0, -3.0])


def test_an_inverse_survives_entries_of_all_sizes() -> None:
    rng = np.random.default_rng(1)
    root = rng.standard_normal((6, 6)) + 3 * np.eye(6)
    scale = 10.0 ** np.arange(-9, 9, 3)
    whole = (root @ root.T) * scale * scale[:, None]
    product = inverted(whole) @ whole * scale[:, None] / scale
    assert product == pytest.approx(np.eye(6), abs=1e-6)


def test_evidence_finds_noise_and_spread() -> None:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((4000, 40))
    watts = rows @ (2.0 * rng.standard_normal(40)) + 0.5 * rng.standard_normal(4000)
    found = evidence(rows.T @ rows, rows.T @ watts, float(watts @ watts), 4000)
    assert found.noise == pytest.approx(0.25, rel=0.1)
    assert found.spread == pytest.approx(4.0, rel=0.7)


def test_the_fast_score_is_that_of_the_slow_one() -> None:
    rng = np.random.default_rng(3)
    rows, watts = rng.standard_normal((100, 5)), rng.standard_normal(100)
    gram, right, square = rows.T @ rows, rows.T @ watts, float(watts @ watts)
    found = evidence(gram.copy(), right, square, 100)
    assert penalized(gram.copy(), right, square, 100, found.ratio) == pytest.approx(found.score)


def test_slow_change_is_found_and_noise_is_not_taken_for_it() -> None:
    rng = np.random.default_rng(4)
    explained = 3 + rng.random(3000)
    slow = 0.1 * np.sin(np.arange(3000) / 400) * explained
    noise = 0.05 * rng.standard_normal(3000)
    process, step = np.zeros(3000, int), np.arange(3000) // 10
    found = drift(explained + slow + noise, explained, process, step)
    assert np.std(found - slow) < 0.2 * np.std(slow)
    assert found.mean() == pytest.approx(0.0, abs=1e-3)
    assert np.std(drift(explained + noise, explained, process, step)) < 0.2 * 0.05

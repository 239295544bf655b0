"""Fits within bounds, beside those of SciPy, which is too large for the process that trains."""

import numpy as np
import pytest
from scipy import optimize

from wattstep.schedule.least_squares import fit_robustly, fit_within


@pytest.mark.parametrize("seed", range(40))
def test_a_fit_within_bounds_is_that_of_scipy(seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows, columns = draw.integers(5, 30), draw.integers(1, 6)
    matrix, target = draw.normal(size=(rows, columns)), draw.normal(size=rows)
    low = -draw.exponential(0.2, columns)
    high = np.where(draw.random(columns) < 0.3, np.inf, draw.exponential(0.2, columns))
    expected = optimize.lsq_linear(matrix, target, (low, high), method="bvls", tol=1e-13).x
    for start in (low, np.clip(0.0, low, high)):
        assert fit_within(matrix, target, start, low, high) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("seed", range(40))
def test_with_no_upper_bound_it_is_nnls(seed: int) -> None:
    draw = np.random.default_rng(seed)
    threads = np.sort(draw.choice(np.arange(1, 65), draw.integers(2, 10), replace=False)) * 1.0
    kink = draw.uniform(1, 64)
    columns = [np.ones_like(threads), 1 / np.minimum(threads, kink), threads, np.log2(threads)]
    # As the curve asks: columns nearly alike, sometimes more than there are measurements.
    seconds = (
        draw.uniform(1e-5, 1e-1) * (0.1 + 1 / threads) * np.exp(draw.normal(0, 0.1, len(threads)))
    )
    matrix = np.stack(columns, axis=1) / seconds[:, None]
    zero = np.zeros(4)
    x = fit_within(matrix, np.ones(len(threads)), zero, zero, zero + np.inf)
    assert (x >= 0).all()
    _, least = optimize.nnls(matrix, np.ones(len(threads)))
    assert np.linalg.norm(matrix @ x - 1) == pytest.approx(least, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_a_robust_fit_is_that_of_scipy(seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows, columns = draw.integers(6, 60), draw.integers(1, 6)
    matrix, truth = draw.random((rows, columns)), draw.uniform(0.2, 1.4, columns)
    target = matrix @ truth + draw.normal(0, 0.02, rows)
    target[draw.random(rows) < 0.1] -= 1.0  # lost their core to another program
    start, low, high = np.full(columns, 0.8), np.full(columns, 0.1), np.full(columns, 1.25)
    expected = optimize.least_squares(
        lambda x: matrix @ x - target, start, jac=lambda _: matrix, bounds=(0.1, 1.25),
        loss="soft_l1", f_scale=0.1, method="dogbox", xtol=1e-12, ftol=1e-14, gtol=1e-14,
    ).x  # fmt: skip
    x = fit_robustly(matrix, target, start, low, high, scale=0.1)
    assert x == pytest.approx(expected, abs=2e-4)


def test_what_the_rows_do_not_tell_stays_near_the_start() -> None:
    matrix = np.array([[0.5, 0.5], [0.2, 0.2]])  # two neighbours that always came together
    start, low, high = np.full(2, 0.8), np.full(2, 0.1), np.full(2, 1.25)
    x = fit_within(matrix, matrix @ np.array([0.7, 0.7]), start, low, high)
    assert x == pytest.approx([0.7, 0.7])


def test_nothing_but_bounds() -> None:
    one = np.ones(1)
    assert fit_within(np.ones((3, 1)), np.full(3, 9.0), 0 * one, 0 * one, 2 * one) == [2.0]
    assert fit_within(np.ones((3, 1)), np.full(3, -9.0), 2 * one, 0 * one, 2 * one) == [0.0]
    assert fit_within(np.zeros((3, 1)), np.full(3, 9.0), 0 * one, 0 * one, 2 * one) == [0.0]

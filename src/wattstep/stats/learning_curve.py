"""When a training will have reached a goal, extrapolated from its evaluations so far.

Power laws, exponentials and logistic curves with a level that they never pass are fitted to what is still wrong
(loss, or 1 - accuracy): the families that extrapolated best in Domhan et al. 2015 among those with
three parameters. Which of them is true is not known, so that all are kept, each by its likelihood;
the interval is that of the steps at which draws from them cross the goal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wattstep.schema.arrays import FloatArray
from wattstep.schema.figure import Figure, Status, missing

LEAST = 6  # evaluations of a trained model
LEAST_GAIN = 3.0  # by how many times its noise the curve must have come down
FARTHEST = 30.0  # times the steps done: beyond, nothing is said
CONFIDENCE = 0.9
NEVER = 0.05  # share of curves that never get there, from which on the interval is open
LEAST_LEFT = 0.005  # of the fall so far, that a curve is off by at the least
MODEL_DOUBT = 1.6  # by how much the fit is trusted less than its residuals say
_EXPONENTS = np.geomspace(0.3, 3.0, 16)
_RATES = np.geomspace(0.1, 8.0, 20)  # of exponentials, over the steps done
_SHIFTS = (0.0, 0.1, 0.5)  # of power laws, in steps done: not all begin to learn at once
_MIDDLES = np.geomspace(0.3, 4.0, 10)  # of logistic curves, in steps done
_WIDTHS = (0.15, 0.25, 0.4)  # of them, over their middles
_DRAWS = 4000
_LUCKY = 5  # evaluations near the goal, the luckiest of which reaches it


def steps_to_goal(
    steps: FloatArray, wrong: FloatArray, goal: float, source: str, seed: int = 0
) -> Figure:
    """Number of steps that a training will have taken when it reaches a goal.

    Args:
        steps: Done at each evaluation, increasing, shape (n,); those of the untrained model are
            left out.
        wrong: Error then (loss, or 1 - accuracy), shape (n,); NaN: no finite number.
        goal: Largest error allowed.
        source: Of the evaluations.
        seed: Of the draws.

    Returns:
        Steps from the first one on, with a 90 % interval that may be open above; missing where the
        evaluations say too little, or do not lead there.
    """
    known = np.isfinite(wrong) & (steps > 0)
    steps, wrong = steps[known], wrong[known]
    if len(wrong) < LEAST:
        return missing("count", f"{len(wrong)} evaluations are too few: {LEAST} are needed")
    if wrong.min() <= goal:
        return missing("count", "the goal is reached already")
    if len(np.unique(steps)) < LEAST:
        return missing("count", "the evaluations are of the same steps")
    half = max(len(wrong) // 4, 1)
    noise = 1.4826 * float(np.median(np.abs(np.diff(wrong)))) / math.sqrt(2)
    if wrong[:half].mean() - wrong[-half:].mean() < LEAST_GAIN * noise / math.sqrt(half):
        return missing("count", "the evaluations so far do not improve by more than their noise")
    crossing = _crossings(steps / steps[-1], wrong, goal, seed) * steps[-1]
    # The next evaluation finds it.
    late = np.random.default_rng(seed + 1).random(len(crossing)) * float(np.median(np.diff(steps)))
    return _figure(crossing + late, steps, source)


def _figure(crossing: FloatArray, steps: FloatArray, source: str) -> Figure:
    last, n = float(steps[-1]), len(steps)
    never = float((~np.isfinite(crossing) | (crossing > FARTHEST * last)).mean())
    if never > 0.5:
        return missing(
            "count",
            f"the curve so far does not lead there: {100 * never:.0f} % of the curves that fit it take more "
            f"than {FARTHEST:.0f} times the steps done, or never get there",
        )
    tail = (1 - CONFIDENCE) / 2
    low, middle, high = np.quantile(crossing, [tail, 0.5, 1 - tail], method="nearest")
    open_above = never > NEVER
    reason = f"{100 * never:.0f} % of the curves that fit never get there: open above" * open_above
    return Figure(
        value=float(middle), low=float(max(low, last)), high=None if open_above else float(high),
        unit="count", confidence=CONFIDENCE, n=n, status=Status.PREDICTED, source=source,
        method=f"power laws, exponentials and logistic curves with a last level, fitted to {n} evaluations, each by "
        "its likelihood; median and quantiles of where they cross the goal",
        reason=reason or None,
    )  # fmt: skip


def _crossings(at: FloatArray, wrong: FloatArray, goal: float, seed: int) -> FloatArray:
    """Crossings of drawn curves with the goal, in steps done; infinite where there is none."""
    rng = np.random.default_rng(seed)
    families = [_powers(), _exponentials(), _logistics()]
    # A family counts for as much as any other, however many shapes it has.
    fits = [_Fit(shape, at, wrong, len(family)) for family in families for shape in family]
    weights = np.array([fit.evidence for fit in fits])
    weights = np.exp(weights - weights.max())
    chosen = rng.multinomial(_DRAWS, weights / weights.sum())
    drawn = [fit.crossings(int(k), goal, rng) for fit, k in zip(fits, chosen, strict=True) if k]
    # The last evaluation did not reach it.
    return np.maximum(np.concatenate(drawn), 1.0)


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """A curve that falls to 0, and its inverse."""

    falls: Callable[[FloatArray], FloatArray]
    inverse: Callable[[FloatArray], FloatArray]


def _powers() -> list[_Shape]:
    def made(b: float, shift: float) -> _Shape:
        return _Shape(falls=lambda at: (at + shift) ** -b, inverse=lambda y: y ** (-1 / b) - shift)

    return [made(float(b), shift) for b in _EXPONENTS for shift in _SHIFTS]


def _exponentials() -> list[_Shape]:
    def made(rate: float) -> _Shape:
        return _Shape(falls=lambda at: np.exp(-rate * at), inverse=lambda y: -np.log(y) / rate)

    return [made(float(rate)) for rate in _RATES]


def _logistics() -> list[_Shape]:
    def made(middle: float, width: float) -> _Shape:
        return _Shape(
            falls=lambda at: 1 / (1 + np.exp((at - middle) / width)),
            inverse=lambda y: middle + width * np.log(1 / y - 1),
        )

    return [made(float(m), share * float(m)) for m in _MIDDLES for share in _WIDTHS]


class _Fit:
    """Fit of a shape: its last level, which is not below 0, and its scale by least squares."""

    def __init__(self, shape: _Shape, at: FloatArray, wrong: FloatArray, siblings: int) -> None:
        self._shape = shape
        falls = shape.falls(at)
        self._alone = float(falls @ wrong) / float(falls @ falls)  # the scale, of a level of 0
        model = np.stack([np.ones(len(at)), falls], axis=1)
        inverse = np.linalg.pinv(model.T @ model)
        self._best = inverse @ model.T @ wrong
        if self._best[0] < 0:
            self._best = np.array([0.0, self._alone])
        left = wrong - model @ self._best
        self._dof = len(wrong) - 3
        # No curve is exactly of a family.
        square = max(float(left @ left), len(wrong) * (LEAST_LEFT * float(np.ptp(wrong))) ** 2)
        self._noise = square / self._dof
        self._root = np.linalg.cholesky(MODEL_DOUBT**2 * self._noise * inverse + 1e-18 * np.eye(2))
        self._alone_error = MODEL_DOUBT * math.sqrt(self._noise / float(falls @ falls))
        self.evidence = -0.5 * len(wrong) / MODEL_DOUBT**2 * math.log(square) - math.log(siblings)
        if self._best[1] <= 0:
            self.evidence = -1e9

    def crossings(self, count: int, goal: float, rng: np.random.Generator) -> FloatArray:
        """Crossings of curves of this shape with the goal."""
        spread = np.sqrt(self._dof / rng.chisquare(self._dof, count))
        normal = rng.standard_normal((count, 2)) @ self._root.T
        level, scale = (self._best + normal * spread[:, None]).T
        alone = self._alone + self._alone_error * spread * rng.standard_normal(count)
        scale = np.where(level < 0, alone, scale)
        level = np.maximum(level, 0.0)
        # The evaluation that reaches the goal is the first good one of several, by luck in part.
        lucky = math.sqrt(self._noise) * rng.standard_normal((count, _LUCKY)).max(axis=1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share = (goal + lucky - level) / scale
            steps = self._shape.inverse(share)
        return np.where((share > 0) & (scale > 0) & ~np.isnan(steps), steps, np.inf)

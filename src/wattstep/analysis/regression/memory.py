"""Whether a sensor averages exponentially, and not plainly: then its samples do not tell what single operations take."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import optimize

from wattstep.analysis.regression.evidence import evidence
from wattstep.analysis.regression.explained import Explained, Explaining, most_spread
from wattstep.analysis.regression.mixed import IMPOSSIBLE
from wattstep.analysis.regression.observed import MEMORIES, Observed, Rows
from wattstep.analysis.steps import BoolArray, FloatArray

TIMES = np.geomspace(0.3, 20.0, 7)  # of the spacing of samples: time constants of a first look
DELAYS = (0.0, 0.7, 1.4)  # of the spacing
SHORTEST = 0.15  # of what a sample sees: a shorter memory changes little
CLOSER = 30  # tries of a closer look
ROWS = 2000  # samples that are looked at
CLEARLY = 20.0  # -2 log likelihood: better than a plain average
LEAST_ROWS = 20
EARLY = 0.01  # of the spacing: a delay that cannot be told from none


def forgetting(
    observed: Observed, root: FloatArray, plain: Explained, delay: float | None
) -> float | None:
    """The time constant in s of an exponential average, where that explains samples clearly better.

    It may come on top of a plain average, or of what a counter gained; and power that itself goes on
    from one operation into the next looks the same.

    Args:
        observed: The samples.
        root: Lower root of the prior's covariance, shape (k + 1, k + 1).
        plain: The samples explained by the likeliest plain average.
        delay: Of the sensor in s, where it is known.
    """
    if observed.spacing_s <= 0:
        return None
    fewer = observed.thinned(ROWS)
    other = Explaining(fewer, root).explain(plain.delay, plain.window)
    if other is None:
        return None
    sees = max(observed.spacing_s, plain.window)
    for window in {0.0, plain.window} if not observed.counter else {0.0}:
        found = _likeliest(_Against(fewer, root, other.rows, window), observed.spacing_s, delay)
        if found is not None and found > SHORTEST * sees:
            return found
    return None


class _Against:
    """An exponential average against a plain one, by the samples that both explain.

    Args:
        observed: The samples.
        root: Lower root of the prior's covariance.
        plain: The equations with the plain average.
        window: That a gauge averages plainly before, in s.
    """

    def __init__(self, observed: Observed, root: FloatArray, plain: Rows, window: float) -> None:
        self._observed, self._plain, self._window = observed, plain, window
        self._table = observed.table() @ root

    def gain(self, seconds: float, delay: float) -> float:
        """By how much -2 log likelihood is less with a memory of so many seconds."""
        readings = [
            replace(
                each, memory_s=seconds,
                averaged_s=self._window if each.lasted_s is None else each.lasted_s,
                lasted_s=np.full(len(each.end_s), MEMORIES * seconds),
            )
            for each in self._observed.readings
        ]  # fmt: skip
        rows = replace(self._observed, readings=readings).rows(delay, 0.0)
        both = rows.taken & self._plain.taken
        if both.sum() < max(LEAST_ROWS, 2 * self._table.shape[1]):
            return -IMPOSSIBLE
        with_memory = self._score(rows, both[rows.taken])
        return self._score(self._plain, both[self._plain.taken]) - with_memory

    def _score(self, rows: Rows, chosen: BoolArray) -> float:
        """-2 log likelihood of some equations, powers being free."""
        columns = rows.weights[chosen] @ self._table
        watts = rows.watts[chosen]
        about = watts - watts.mean()
        most = most_spread(float(watts.mean()))
        square = float(about @ about)
        found = evidence(columns.T @ columns, columns.T @ about, square, len(about), most)
        return found.score * len(about)


def _likeliest(against: _Against, spacing: float, delay: float | None) -> float | None:
    """The likeliest time constant in s, where it is clearly likelier than none."""
    delays = DELAYS if delay is None else (delay / spacing,)
    tried = [
        (against.gain(time * spacing, by * spacing), time, by) for time in TIMES for by in delays
    ]
    _, time, by = max(tried)

    def score(free: FloatArray) -> float:
        shift = by if delay is not None else float(free[1])
        if shift < -EARLY:
            return IMPOSSIBLE
        return -against.gain(spacing * math.exp(float(free[0])), shift * spacing)

    first = np.array([math.log(time), by])
    corners = first + np.array([[0.0, 0.0], [0.25, 0.0], [0.0, 0.2]])
    result = optimize.minimize(
        score, first, method="Nelder-Mead",
        options={"initial_simplex": corners, "maxfev": CLOSER, "xatol": 1e-3, "fatol": 0.1},
    )  # fmt: skip
    return spacing * math.exp(float(result.x[0])) if result.fun < -CLEARLY else None

"""Whether a sensor averages exponentially, and not plainly: then its samples do not tell what single operations take."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize

from wattstep.analysis.regression.evidence import evidence
from wattstep.analysis.regression.explained import Explained, Explaining, most_spread
from wattstep.analysis.regression.mixed import IMPOSSIBLE
from wattstep.analysis.regression.observed import Observed, Rows
from wattstep.analysis.regression.readings import Readings
from wattstep.analysis.regression.trust import varying
from wattstep.analysis.steps import BoolArray, FloatArray

TIMES = np.geomspace(0.3, 40.0, 8)  # of the spacing of samples: time constants of a first look
DELAYS = (0.0, 0.7, 1.4)  # of the spacing
SHORTEST = 0.25  # of the spacing: shorter memories are none
CLOSER = 30  # tries of a closer look
ROWS = 2000  # samples of a first look
CLEARLY = 12.0  # -2 log likelihood: better than a plain average
CALM = 0.5  # of the variance: more is noise, not what traced steps differ by
LEAST_ROWS = 20
GAP = 1.5  # spacings: samples that are so much farther apart have a gap between them
EARLY = 0.01  # of the spacing: a delay that cannot be told from none


@dataclass(frozen=True, kw_only=True, eq=False)
class Memory:
    """An exponential average that explains the samples.

    Attributes:
        observed: The samples with the memory taken out.
        seconds: Its time constant.
        explained: These, explained.
        total: -2 log likelihood of the samples as they were.
    """

    observed: Observed
    seconds: float
    explained: Explained
    total: float


def forgetting(
    observed: Observed, root: FloatArray, plain: Explained, delay: float | None
) -> float | None:
    """The time constant in s of an exponential average, where that explains samples clearly better.

    A value y of such a sensor is a y' + (1 - a) x of the value y' before it and the mean x of the
    power since then, a = exp(-t/T). Where operations end at another time in each step, the value
    before tells how it was this time, whatever the sensor is: only samples count whose windows hold
    the same in all traced steps.

    Args:
        observed: Samples of a gauge.
        root: Lower root of the prior's covariance, shape (k + 1, k + 1).
        plain: The samples explained by the likeliest plain average.
        delay: Of the sensor in s, where it is known.
    """
    if observed.counter or observed.spacing_s <= 0:
        return None
    begin = _first_look(_beginning(observed), root, delay)
    found = None if begin is None else _closer(observed, root, begin, delay)
    if found is None or found.seconds < SHORTEST * observed.spacing_s:
        return None
    return found.seconds if _clearly_better(observed, root, plain, found) else None


def _clearly_better(observed: Observed, root: FloatArray, plain: Explained, found: Memory) -> bool:
    """Whether samples that every traced step explains alike are likelier with the memory."""
    kept = [_kept(each) for each in observed.readings]
    both = np.zeros(observed.count, bool)
    both[np.flatnonzero(np.concatenate(kept))[found.explained.rows.taken]] = True
    both &= plain.rows.taken
    for rows, each in ((plain.rows, observed), (found.explained.rows, found.observed)):
        calm = np.zeros(observed.count, bool)
        at = rows.taken if each is observed else _at_all(kept, rows.taken)
        calm[at] = _calm(each, rows, plain)
        both &= calm
    if both.sum() < max(LEAST_ROWS, 2 * len(root)):
        return False
    fresh = np.concatenate([each.fresh for each in found.observed.readings if each.fresh is not None])
    stretched = np.zeros(observed.count)
    stretched[np.concatenate(kept)] = np.log(fresh)
    with_memory = _score(found.observed, root, found.explained.rows, both[_at_all(kept, found.explained.rows.taken)])
    without = _score(observed, root, plain.rows, both[plain.rows.taken])
    return with_memory + 2 * float(stretched[both].sum()) < without - CLEARLY


def _at_all(kept: list[BoolArray], taken: BoolArray) -> BoolArray:
    """Which of all samples those are that were taken of the kept ones."""
    every = np.concatenate(kept)
    every[np.flatnonzero(every)] = taken
    return every


def _calm(observed: Observed, rows: Rows, plain: Explained) -> BoolArray:
    """Equations in which traced steps hardly differ, beside the noise."""
    differ = varying(observed.axis, rows, plain.watts)
    left = plain.rows.watts - plain.rows.watts.mean() - plain.whitened @ plain.solution
    noise = float(np.median(left**2))
    result: BoolArray = differ <= CALM * noise
    return result


def _score(observed: Observed, root: FloatArray, rows: Rows, chosen: BoolArray) -> float:
    """-2 log likelihood of some equations, powers being free."""
    columns = rows.weights[chosen] @ (observed.table() @ root)
    watts = rows.watts[chosen]
    about = watts - watts.mean()
    found = evidence(
        columns.T @ columns, columns.T @ about, float(about @ about), len(about),
        most_spread(float(watts.mean())),
    )  # fmt: skip
    return found.score * len(about)


def _first_look(
    observed: Observed, root: FloatArray, delay: float | None
) -> tuple[float, float] | None:
    """A time constant and a delay in s to begin with."""
    spacing = observed.spacing_s
    delays = [delay] if delay is not None else [by * spacing for by in DELAYS]
    tried = [_at(observed, root, time * spacing, by) for time in TIMES for by in delays]
    known = [(each.total, each.seconds, each.explained.delay) for each in tried if each]
    return min(known)[1:] if known else None


def _closer(
    observed: Observed, root: FloatArray, begin: tuple[float, float], delay: float | None
) -> Memory | None:
    """The likeliest time constant and delay nearby."""
    spacing = observed.spacing_s
    time, by = begin

    def at(free: FloatArray) -> Memory | None:
        shift = by if delay is not None else float(free[1]) * spacing
        if shift < -EARLY * spacing:
            return None
        return _at(observed, root, spacing * math.exp(float(free[0])), shift)

    def score(free: FloatArray) -> float:
        found = at(free)
        return IMPOSSIBLE if found is None else found.total

    first = np.array([math.log(time / spacing), by / spacing])
    corners = first + np.array([[0.0, 0.0], [0.25, 0.0], [0.0, 0.2]])
    result = optimize.minimize(
        score, first, method="Nelder-Mead",
        options={"initial_simplex": corners, "maxfev": CLOSER, "xatol": 1e-4, "fatol": 0.05},
    ).x  # fmt: skip
    return at(result)


def _at(observed: Observed, root: FloatArray, seconds: float, delay: float) -> Memory | None:
    """The samples explained with one time constant; None where too few lie in clean steps."""
    without = replace(
        observed, readings=[_without(each, seconds) for each in observed.readings], counter=True
    )
    explained = Explaining(without, root).explain(delay, 0.0) if without.count else None
    if explained is None:
        return None
    lost = observed.count - without.count
    watts = np.concatenate([each.watts for each in observed.readings])
    # The density of what was read, from that of what is left when the memory is taken out.
    stretched = sum(float(np.log(e.fresh).sum()) for e in without.readings if e.fresh is not None)
    total = explained.total + 2 * stretched + lost * math.log(float(watts.var()) + 1e-300)
    return Memory(observed=without, seconds=seconds, explained=explained, total=total)


def _kept(each: Readings) -> BoolArray:
    """Samples that another one came before, with no gap between."""
    lasted = np.diff(each.end_s, prepend=-np.inf)
    kept: BoolArray = (lasted > 0) & (lasted <= (1 + GAP) * each.spacing_s)
    return kept


def _without(each: Readings, seconds: float) -> Readings:
    """Samples with an exponential memory taken out."""
    kept = _kept(each)
    lasted = np.diff(each.end_s, prepend=each.end_s[:1])[kept]
    fresh = -np.expm1(-lasted / seconds)
    before = each.watts[np.flatnonzero(kept) - 1]
    return replace(
        each, end_s=each.end_s[kept], lasted_s=lasted, memory_s=seconds, fresh=fresh,
        watts=(each.watts[kept] - (1 - fresh) * before) / fresh, slow_w=each.slow_w[kept],
    )  # fmt: skip


def _beginning(observed: Observed) -> Observed:
    """The first samples of each process, in a row: what was read before one counts."""
    most = max(ROWS // len(observed.readings), 2)
    fewer = [
        replace(each, end_s=each.end_s[:most], watts=each.watts[:most], slow_w=each.slow_w[:most])
        for each in observed.readings
    ]
    return replace(observed, readings=fewer)

"""Sensors that average exponentially: their time constant, found from the samples, and samples with the memory taken out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize

from wattstep.analysis.regression.explained import Explaining
from wattstep.analysis.regression.observed import Observed
from wattstep.analysis.regression.readings import Readings
from wattstep.analysis.steps import FloatArray

TIMES = np.geomspace(0.3, 60.0, 12)  # of the spacing of samples: time constants of a first look
DELAYS = np.linspace(0.0, 2.0, 5)  # of the spacing
SHORTEST = 0.25  # of the spacing: shorter memories are none
CLOSER = 60  # tries of a closer look
ROWS = 3000  # samples of a first look
LIKELY = 3.84  # -2 log likelihood: 95 % of one parameter
WORSE = 12.0  # a sensor that is so much less likely is none
CLEARLY = 40.0  # better than the sensor that is documented
MOST_APART = 1.5  # of one time constant to the next that may be as well
MOST_SPACINGS = 2.5  # between two samples: over more, a gap, nothing is known of the first


@dataclass(frozen=True, kw_only=True, eq=False)
class Memory:
    """An exponential average that explains the samples.

    Attributes:
        observed: The samples with the memory taken out.
        seconds: Its time constant.
        delay: In s.
        total: -2 log likelihood of the samples as they were.
    """

    observed: Observed
    seconds: float
    delay: float
    total: float


def memories(
    observed: Observed, root: FloatArray, rival: float, delay: float | None, documented: bool
) -> tuple[list[Memory], bool]:
    """Exponential averages that are likely, the likeliest first, and whether they alone are.

    A value y of such a sensor is a y' + (1 - a) x of the value y' before it and the mean x of the
    power since then, a = exp(-t/T): x is what an average over the time t between the two would be.

    Args:
        observed: Samples of a gauge.
        root: Lower root of the prior's covariance, shape (k + 1, k + 1).
        rival: -2 log likelihood of the samples with the likeliest plain average.
        delay: Of the sensor in s, where it is known.
        documented: Whether its averaging window is: what is documented is doubted for good reason only.
    """
    spacing = observed.spacing_s
    if observed.counter or spacing <= 0:
        return [], False
    found = _likeliest(observed, root, delay)
    if found is None or found.seconds < SHORTEST * spacing:
        return [], False
    if found.total > rival + (WORSE if not documented else -CLEARLY):
        return [], False
    about = [found, *_as_likely(observed, root, found)]
    return about, found.total < rival - WORSE


def _likeliest(observed: Observed, root: FloatArray, delay: float | None) -> Memory | None:
    """The likeliest time constant and delay."""
    spacing = observed.spacing_s
    fewer = _beginning(observed)
    delays = [delay] if delay is not None else list(DELAYS * spacing)
    tried = [(_at(fewer, root, time * spacing, by), time, by) for time in TIMES for by in delays]
    known = [(each.total, time, by) for each, time, by in tried if each is not None]
    if not known:
        return None
    _, time, by = min(known)

    def score(free: FloatArray) -> float:
        shift = by if delay is not None else float(free[1]) * spacing
        if shift < -0.01 * spacing:
            return math.inf
        each = _at(observed, root, spacing * math.exp(float(free[0])), shift)
        return 1e30 if each is None else each.total

    first = np.array([math.log(time), by / spacing])
    corners = first + np.array([[0.0, 0.0], [0.25, 0.0], [0.0, 0.2]])
    result = optimize.minimize(
        score, first, method="Nelder-Mead",
        options={"initial_simplex": corners, "maxfev": CLOSER, "xatol": 1e-4, "fatol": 0.05},
    ).x  # fmt: skip
    shift = by if delay is not None else max(float(result[1]) * spacing, 0.0)
    return _at(observed, root, spacing * math.exp(float(result[0])), shift)


def _as_likely(observed: Observed, root: FloatArray, found: Memory) -> Iterator[Memory]:
    """The shortest and the longest time constant that may be as well."""
    for sign in (-1.0, 1.0):
        apart = 0.01
        while apart < math.log(MOST_APART):
            each = _at(observed, root, found.seconds * math.exp(sign * apart), found.delay)
            if each is None or each.total > found.total + LIKELY:
                break
            apart *= 2
        if each is not None:
            yield each


def _at(observed: Observed, root: FloatArray, seconds: float, delay: float) -> Memory | None:
    """The samples explained with one time constant; None where too few lie in clean steps."""
    without = remembering(observed, seconds)
    if without is None:
        return None
    explained = Explaining(without, root).explain(delay, 0.0)
    if explained is None:
        return None
    lost = observed.count - without.count
    watts = np.concatenate([each.watts for each in observed.readings])
    # The density of what was read, from that of what is left when the memory is taken out.
    stretched = sum(float(np.log(each.fresh).sum()) for each in without.readings)
    total = explained.total + 2 * stretched + lost * math.log(float(watts.var()) + 1e-300)
    return Memory(observed=without, seconds=seconds, delay=delay, total=total)


def remembering(observed: Observed, seconds: float) -> Observed | None:
    """The samples of a gauge with an exponential memory taken out; None where none is left.

    Args:
        observed: The samples.
        seconds: The time constant.
    """
    found = [_without(each, seconds) for each in observed.readings]
    if not any(len(each.watts) for each in found):
        return None
    return replace(observed, readings=found, counter=True)


def _without(each: Readings, seconds: float) -> Readings:
    lasted = np.diff(each.end_s)
    kept = (lasted > 0) & (lasted <= MOST_SPACINGS * each.spacing_s)
    lasted = lasted[kept]
    fresh = -np.expm1(-lasted / seconds)
    before, now = each.watts[:-1][kept], each.watts[1:][kept]
    return replace(
        each, end_s=each.end_s[1:][kept], lasted_s=lasted, memory_s=seconds, fresh=fresh,
        watts=(now - (1 - fresh) * before) / fresh, slow_w=each.slow_w[1:][kept],
    )  # fmt: skip


def _beginning(observed: Observed) -> Observed:
    """The first samples of each process, in a row: what was read before one counts."""
    most = max(ROWS // len(observed.readings), 2)
    fewer = [
        replace(each, end_s=each.end_s[:most], watts=each.watts[:most], slow_w=each.slow_w[:most])
        for each in observed.readings
    ]
    return replace(observed, readings=fewer)

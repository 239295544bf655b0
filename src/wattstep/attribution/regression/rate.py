"""The rate of the samples' clock against that of the steps, found from the samples themselves."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from wattstep.attribution.regression.explained import Explaining
from wattstep.attribution.regression.folded_search import lasting
from wattstep.attribution.regression.observed import Observed
from wattstep.attribution.regression.sensor import Sensor
from wattstep.schema.arrays import FloatArray

MOST = 3e-4  # of clocks that run at all
SHOWN = 0.02  # of how long the same runs: a clock that drifts by less shows in no sample
APART = 0.25  # of that: drifts that are tried
MOST_TRIES = 10  # on each side of none
CLOSER = 12
ROWS = 2000  # samples that are looked at
CLEARLY = 12.0  # -2 log likelihood: a rate is better than none


def rate_of(observed: Observed, root: FloatArray, sensor: Sensor) -> float:
    """Seconds that the samples' clock is behind for each of the steps' clock; 0 where none shows.

    Args:
        observed: The samples.
        root: Lower root of the prior covariance of powers.
        sensor: The likeliest delay and window.
    """
    half_s = float(np.ptp(observed.ends_s)) / 2
    same = lasting(observed)
    most = min(MOST, observed.beside_s / half_s) if half_s > 0 else 0.0
    if most * half_s < SHOWN * same:
        return 0.0
    fewer = observed.thinned(ROWS)

    def score(rate: float) -> float:
        explained = Explaining(fewer.at_rate(rate), root).explain(sensor.delay, sensor.window)
        return np.inf if explained is None else explained.total

    tries = int(np.clip(np.ceil(most * half_s / (APART * same)), 1, MOST_TRIES))
    rates = np.linspace(-most, most, 2 * tries + 1)
    scores = [score(rate) for rate in rates.tolist()]
    best, apart = float(rates[int(np.argmin(scores))]), float(rates[1] - rates[0])
    closer = optimize.minimize_scalar(
        score, bounds=(best - apart, best + apart), method="bounded", options={"maxiter": CLOSER}
    )
    least = min((float(closer.fun), float(closer.x)), (min(scores), best))
    return least[1] if least[0] < scores[tries] - CLEARLY else 0.0

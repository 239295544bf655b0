"""A thermal model of one or two stages, fitted to temperature and power: how warm it gets, and how soon.

A stage is a thermal resistance R beside a heat capacity: x' = (P R - x) / tau, and the temperature
is that of the surroundings plus the sum of the stages. For given time constants that is linear in
everything else, so the fit looks at a grid of time constants and solves the rest exactly: there is
no start value, and no local minimum. The same grid gives the intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wattstep.recorded.curves import Curve
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Missing
from wattstep.stats.bootstrap import autocovariances

MOST_BINS: Final = 600
LEAST_SAMPLES: Final = 20
LEAST_CHANGE: Final = 4.0  # steps of the sensor that the temperature must go through
POWER_VARIES: Final = 0.05  # standard deviation over mean, from which on power says something
STRONG: Final = 10.0  # difference of information criteria that a second stage must make
LEAST_SHARE: Final = 0.05  # of the rise that a stage must have
LOOSEST: Final = 10.0  # of the interval's ends, high over low; beyond, nothing is known
LEAST_BINS: Final = 2  # of temperature, that a time constant must last
AMBIENT_GIVE_C: Final = 2.0  # either way: a room, and a thermometer beside the board, are no better
_COARSE: Final = 160
_FINE: Final = 240
_PAIRS: Final = 48
_APART: Final = 3.0  # two stages closer than this cannot be distinguished from one
_REACH: Final = 12.0  # in units of log likelihood: what lies further off is never drawn
_DRAWS: Final = 2000
_CONFIDENCE: Final = 0.95
_RIDGE: Final = 1e-12


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number with its 95 % interval; an end that the record does not show is None."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class ThermalModel:
    """Fitted model.

    Attributes:
        time_constants: In s, the fastest stage first.
        steady: Temperature in °C that the mean power of the training would lead to; half a step of
            the sensor is part of its interval.
        resistance: All stages in K/W, or None where `no_resistance` says why not. Where it rests
            on the ambient temperature, 2 °C either way are part of its interval.
        to_limit: Time in s from the beginning until the limit, at that mean power, or None where
            `no_limit` says why not.
        n: How many values of temperature the fit rests on.
        effective: What they are worth, as neighbouring residuals are alike.
        residual: Standard deviation of what the model leaves, in °C.
    """

    time_constants: tuple[Estimate, ...]
    steady: Estimate
    resistance: Estimate | None
    no_resistance: str
    to_limit: Estimate | None
    no_limit: str
    n: int
    effective: float
    residual: float


def fit_thermal_model(
    t_ns: IntArray,
    temperature: FloatArray,
    energy: Curve | None,
    *,
    training_ns: tuple[int, int],
    ambient: float | None = None,
    limit: float | None = None,
    seed: int = 0,
) -> ThermalModel | Missing:
    """Fits the model to a record of one temperature.

    Where power is known, all of the record counts, with the idle time before and after training;
    where it is not, only the training, whose load is taken to be constant.

    Args:
        t_ns: Times of the temperatures in ns, increasing, shape (n,).
        temperature: In °C, shape (n,); NaN for a failed read.
        energy: What the machine took, or None where that was not measured.
        training_ns: Begin and end of the training, as far as nothing throttled it: its mean power
            is what `steady` and `to_limit` are about.
        ambient: Temperature around the machine in °C, or None. What the model's own surroundings
            are is fitted; a stated ambient counts for the resistance alone, and only where the
            power hardly varied: time constants never hang on it.
        limit: Where throttling begins in °C, or None.
        seed: Of what is drawn for the intervals.

    Returns:
        The model, or why there is none.
    """
    if energy is None:
        inside = (t_ns >= training_ns[0]) & (t_ns <= training_ns[1])
        t_ns, temperature = t_ns[inside], temperature[inside]
    known = np.isfinite(temperature)
    t_ns, temperature = t_ns[known], temperature[known]
    if len(t_ns) < LEAST_SAMPLES:
        return Missing(f"{len(t_ns)} temperatures are too few: {LEAST_SAMPLES} are needed")
    step = _sensor_step(temperature)
    if np.ptp(temperature) < LEAST_CHANGE * step or not np.ptp(temperature):
        return Missing(
            f"the temperature changed by {np.ptp(temperature):.2g} °C only, too little beside the "
            f"sensor's steps of {step:.2g} °C"
        )
    data = _binned(t_ns, temperature, energy, training_ns)
    return _Fitting(data, limit, ambient, step, seed).model()


def _sensor_step(values: FloatArray) -> float:
    """The smallest difference between values that were seen, in °C."""
    distinct = np.diff(np.unique(np.round(values, 4)))
    return float(distinct.min()) if len(distinct) else 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class _Data:
    """Temperature and power in bins of one length.

    Attributes:
        length_s: Of a bin.
        temperature: Mean of each bin, NaN where there is none.
        power: Mean of each bin less that of the training, in W; None: not known, or constant.
        mean_power: Of the training, None where not known.
    """

    length_s: float
    temperature: FloatArray
    power: FloatArray | None
    mean_power: float | None


def _binned(
    t_ns: IntArray,
    temperature: FloatArray,
    energy: Curve | None,
    training_ns: tuple[int, int],
) -> _Data:
    since = (t_ns - t_ns[0]).astype(np.float64)
    length = max(since[-1] / MOST_BINS, float(np.median(np.diff(since))))
    # What is sampled once a bin, now a little early and now a little late, must not leave holes.
    place = np.floor(since / length + 0.5).astype(np.int64)
    count = np.bincount(place)
    sums = np.bincount(place, temperature)
    mean = np.where(count > 0, sums / np.maximum(count, 1), np.nan)
    power, mean_power = None, None
    if energy is not None:
        edges = t_ns[0] + np.rint((np.arange(len(mean) + 1) - 0.5) * length).astype(np.int64)
        power, mean_power = _power_of(energy, edges, training_ns)
    return _Data(length_s=length * 1e-9, temperature=mean, power=power, mean_power=mean_power)


def _power_of(
    energy: Curve, edges: IntArray, training_ns: tuple[int, int]
) -> tuple[FloatArray | None, float | None]:
    """Power of each bin less that of the training (None where it hardly varies), and the latter."""
    gained, covered = energy.difference(*(np.array([edge]) for edge in training_ns))
    if not covered[0] > 0:
        return None, None
    mean = float(gained[0]) / (float(covered[0]) * (training_ns[1] - training_ns[0]) * 1e-9)
    gains, part = energy.difference(edges[:-1], edges[1:])
    seconds = np.diff(edges) * 1e-9 * part
    known = seconds > 0
    values = np.full(len(gains), mean)  # nothing is known of a gap: as if it were training
    values[known] = gains[known] / seconds[known]
    varies = float(values.std()) > POWER_VARIES * abs(mean)
    return (values - mean if varies else None), mean


class _Fitting:
    """The fit over a grid of time constants."""

    def __init__(
        self, data: _Data, limit: float | None, ambient: float | None, step: float, seed: int
    ) -> None:
        self._data = data
        self._limit, self._ambient, self._step = limit, ambient, step
        self._random = np.random.default_rng(seed)
        self._there = np.isfinite(data.temperature)
        self._offset = float(np.nanmean(data.temperature))
        self._y = data.temperature[self._there] - self._offset
        # A sensor that repeats its value says nothing new.
        self._changes = int(np.count_nonzero(np.diff(self._y)))
        self._span = data.length_s * len(data.temperature)

    def model(self) -> ThermalModel | Missing:
        one = self._one_stage()
        if one.tau[one.best][0] > self._span:
            return Missing(
                f"the record of {self._span:.0f} s is shorter than one time constant, of which it "
                "can only be said that it is longer: train longer, or --sustain"
            )
        two = self._two_stages(one)
        chosen = one if two is None or not self._better(two, one) else two
        if chosen.resistances and min(chosen.beta[chosen.best][chosen.resistances]) < 0:
            return Missing(
                "the temperature does not follow the power: it fell where the power rose"
            )
        model = self._summed_up(chosen)
        slow = model.time_constants[-1]
        if slow.high is None or slow.high > LOOSEST * (slow.low or slow.value):
            return Missing(
                f"time constants up to {slow.high or np.inf:.3g} s fit the record as well as that of "
                f"{slow.value:.3g} s: train longer, or --sustain"
            )
        return model

    def _better(self, two: _Grid, one: _Grid) -> bool:
        """True if there is strong evidence for a second stage that a sensor could see.

        The residuals of one stage say how many values there are: a sensor's coarse steps leave
        waves in them, which a second stage would follow.
        """
        n = one.effective
        shares = np.abs(two.beta[two.best, : two.stages])
        if two.resistances:
            shares = np.abs(two.beta[two.best, two.resistances])
        seen = shares.min() > LEAST_SHARE * shares.sum()
        return bool(seen and one.score(n) - two.score(n) > STRONG)

    def _one_stage(self) -> _Grid:
        least, most = LEAST_BINS * self._data.length_s, 10 * self._span
        grid = self._solve(np.geomspace(least, most, _COARSE)[:, None])
        for count in (_FINE, _FINE):  # the second look finds a peak narrower than the first's steps
            near = grid.tau[grid.log_likelihood > -_REACH][:, 0]
            ratio = (grid.tau[1] / grid.tau[0])[0]
            grid = self._solve(np.geomspace(near.min() / ratio, near.max() * ratio, count)[:, None])
        return grid

    def _two_stages(self, one: _Grid) -> _Grid | None:
        single = float(one.tau[one.best][0])
        least, most = LEAST_BINS * self._data.length_s, min(self._span, 30 * single)
        grid = None
        low, high = (least, least), (most, most)
        for _ in range(3):
            fast = np.geomspace(low[0], high[0], _PAIRS)
            slow = np.geomspace(low[1], high[1], _PAIRS)
            pairs = np.array([(a, b) for a in fast for b in slow if b >= _APART * a])
            if not len(pairs):
                return grid
            grid = self._solve(pairs)
            near = grid.tau[grid.log_likelihood > -_REACH]
            ratios = (fast[1] / fast[0], slow[1] / slow[0])
            low = tuple(max(least, near[:, k].min() / ratios[k]) for k in (0, 1))
            high = tuple(min(most, near[:, k].max() * ratios[k]) for k in (0, 1))
        return grid

    def _solve(self, tau: FloatArray) -> _Grid:
        """The best values of everything else for each row of time constants, shape (g, stages)."""
        stages = tau.shape[1]
        different, place = np.unique(tau, return_inverse=True)
        place = place.reshape(tau.shape)
        fading, driven = self._responses(different)
        columns = [fading]
        if driven is not None:
            columns.append(driven)
        flat = np.concatenate([*columns, np.ones((1, self._there.sum()))])
        products, with_y = flat @ flat.T, flat @ self._y
        parts = [place] if driven is None else [place, place + len(different)]
        parts.append(np.full((len(tau), 1), len(flat) - 1))
        chosen = np.concatenate(parts, axis=1)
        normal = products[chosen[:, :, None], chosen[:, None, :]]
        ridge = _RIDGE * np.trace(normal, axis1=1, axis2=2)
        normal = normal + ridge[:, None, None] * np.eye(chosen.shape[1])
        right = with_y[chosen]
        beta = np.linalg.solve(normal, right[:, :, None])[:, :, 0]
        residuals = np.maximum(float(self._y @ self._y) - (beta * right).sum(axis=1), 1e-300)
        if stages > 1 and driven is not None:  # no stage gets colder from more power
            residuals = np.where((beta[:, stages : 2 * stages] >= 0).all(axis=1), residuals, np.inf)
        best = int(np.argmin(residuals))
        residual = self._y - beta[best] @ flat[chosen[best]]
        resistances = list(range(stages, 2 * stages)) if driven is not None else []
        return _Grid(
            tau=tau, beta=beta, rest=residuals, normal=normal, residual=residual, stages=stages,
            resistances=resistances, best=best, changes=self._changes,
        )  # fmt: skip

    def _responses(self, tau: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Decay of a stage from its start, and its response to power; shape (taus, n)."""
        data, length = self._data, self._data.length_s
        times = length * np.arange(len(data.temperature))
        fading = np.exp(-times / tau[:, None])
        if data.power is None:
            return fading[:, self._there], None
        keep, half = np.exp(-length / tau), np.exp(-length / (2 * tau))
        driven = np.empty_like(fading)
        state = np.zeros(len(tau))
        for n, watts in enumerate(data.power):
            driven[:, n] = state * half + (1 - half) * watts  # in the middle of the bin
            state = state * keep + (1 - keep) * watts
        return fading[:, self._there], driven[:, self._there]

    # --- what comes out -------------------------------------------------------------------

    def _summed_up(self, grid: _Grid) -> ThermalModel:
        tau, beta = grid.drawn(self._random)
        best_steady = self._offset + float(grid.beta[grid.best, -1])
        # Where the temperature comes to rest between two steps of the sensor is not seen.
        unseen = self._step * self._random.uniform(-0.5, 0.5, len(beta))
        steady = self._offset + beta[:, -1] + unseen
        resistance, why_not = self._resistance(grid, beta, steady, best_steady)
        to_limit, no_limit = self._to_limit(grid, tau, beta, steady, best_steady)
        return ThermalModel(
            time_constants=tuple(
                self._time_constant(float(grid.tau[grid.best, k]), tau[:, k])
                for k in range(grid.stages)
            ),
            steady=_estimate(best_steady, steady),
            resistance=resistance,
            no_resistance=why_not,
            to_limit=to_limit,
            no_limit=no_limit,
            n=len(self._y),
            effective=grid.effective,
            residual=float(grid.residual.std()),
        )

    def _time_constant(self, best: float, drawn: FloatArray) -> Estimate:
        constant = _estimate(best, drawn)
        # At the edge of what was looked for, it may as well be shorter.
        if constant.low is not None and constant.low < 1.01 * LEAST_BINS * self._data.length_s:
            return replace(constant, low=None)
        return constant

    def _resistance(
        self, grid: _Grid, beta: FloatArray, steady: FloatArray, best_steady: float
    ) -> tuple[Estimate | None, str]:
        data = self._data
        if grid.resistances:
            sums = beta[:, grid.resistances].sum(axis=1)
            return _estimate(float(grid.beta[grid.best, grid.resistances].sum()), sums), ""
        if data.mean_power is None:
            return None, "power was not measured"
        if self._ambient is None:
            return None, (
                "power hardly varied and the ambient temperature is not known: give --ambient, or "
                "--idle 1min"
            )
        wrong = self._random.uniform(-AMBIENT_GIVE_C, AMBIENT_GIVE_C, len(steady))
        rise = (steady - self._ambient + wrong) / data.mean_power
        return _estimate((best_steady - self._ambient) / data.mean_power, rise), ""

    def _to_limit(
        self, grid: _Grid, tau: FloatArray, beta: FloatArray, steady: FloatArray, best: float
    ) -> tuple[Estimate | None, str]:
        if self._limit is None:
            return None, "the temperature at which throttling begins is not known"
        stages = grid.stages
        crossing = _crossing(
            grid.tau[[grid.best]], grid.beta[[grid.best], :stages], best, self._limit
        )
        if not np.isfinite(crossing[0]):
            watts = self._data.mean_power
            load = "under that load" if watts is None else f"at {watts:.3g} W"
            return None, (
                f"{load} it settles at {best:.1f} °C and does not reach {self._limit:.1f} °C"
            )
        return _estimate(
            float(crossing[0]), _crossing(tau, beta[:, :stages], steady, self._limit)
        ), ""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Grid:
    """The fit at every point of a grid of time constants, shape (g, ...)."""

    tau: FloatArray
    beta: FloatArray
    rest: FloatArray
    normal: FloatArray
    residual: FloatArray
    stages: int
    resistances: Sequence[int]
    best: int
    changes: int

    @property
    def parameters(self) -> int:
        return int(self.beta.shape[1]) + self.stages

    @property
    def inflation(self) -> float:
        """By how much the variance of a mean exceeds that of independent residuals."""
        repeated = len(self.residual) / max(self.changes, 1)
        return max(_inflation(self.residual), repeated)

    @property
    def effective(self) -> float:
        """Number of independent values that the residuals are worth."""
        return max(len(self.residual) / self.inflation, self.parameters + 2.0)

    @property
    def log_likelihood(self) -> FloatArray:
        """Of each point, less that of the best; the residuals' spread is integrated out."""
        degrees = self.effective - self.parameters
        return np.asarray(-0.5 * degrees * np.log(self.rest / self.rest[self.best]))

    def score(self, n: float) -> float:
        """The Bayesian information criterion for `n` independent values: the smaller the better."""
        return n * float(np.log(self.rest[self.best])) + self.parameters * float(np.log(n))

    def drawn(self, random: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Time constants and the other values, as likely as the data make them."""
        weights = np.exp(self.log_likelihood)
        at = random.choice(len(weights), _DRAWS, p=weights / weights.sum())
        degrees = self.effective - self.parameters
        spread = self.rest[at] / max(len(self.residual) - self.parameters, 1) * self.inflation
        spread = spread * degrees / random.chisquare(degrees, _DRAWS)
        which, back = np.unique(at, return_inverse=True)
        roots = np.linalg.cholesky(np.linalg.inv(self.normal[which]))[back.ravel()]
        normal = random.standard_normal((_DRAWS, self.beta.shape[1], 1))
        moved = self.beta[at] + np.sqrt(spread)[:, None] * (roots @ normal)[:, :, 0]
        return self.tau[at], moved


def _inflation(residual: FloatArray) -> float:
    """Long-run variance over variance, at least 1: Bartlett's weights up to where correlation ends."""
    n = len(residual)
    covariances = autocovariances(residual)
    if covariances[0] <= 0:
        return 1.0
    correlations = covariances / covariances[0]
    small = np.flatnonzero(correlations < 0.05)
    last = int(min(small[0] if len(small) else n, n // 4))
    most = 2 * last
    lags = np.arange(1, max(min(most, n - 1), 1))
    weighted = (1 - lags / max(most, 1)) * correlations[lags]
    return max(1.0, 1 + 2 * float(weighted.sum()))


def _crossing(
    tau: FloatArray, beginning: FloatArray, steady: FloatArray | float, limit: float
) -> FloatArray:
    """When the temperature first reaches a limit at constant power, in s; infinite: never.

    Args:
        tau: Shape (g, stages).
        beginning: How far each stage begins from where it ends, shape (g, stages).
        steady: Shape (g,).
        limit: In °C.
    """
    steady = np.broadcast_to(np.asarray(steady, dtype=np.float64), len(tau))
    scaled = np.concatenate([[0.0], np.geomspace(1e-3, 20, 400)])
    times = scaled * tau.max(axis=1)[:, None]
    course = steady[:, None] + (
        beginning[:, :, None] * np.exp(-times[:, None, :] / tau[:, :, None])
    ).sum(axis=1)
    above = course >= limit
    first = np.argmax(above, axis=1)
    row = np.arange(len(tau))
    before = np.maximum(first - 1, 0)
    low, high = course[row, before], course[row, first]
    share = np.divide(limit - low, high - low, out=np.zeros(len(tau)), where=high > low)
    crossings = times[row, before] + np.clip(share, 0, 1) * (times[row, first] - times[row, before])
    crossings = np.where(first == 0, 0.0, crossings)
    return np.where(above.any(axis=1), crossings, np.inf)


def _estimate(value: float, drawn: FloatArray) -> Estimate:
    tail = (1 - _CONFIDENCE) / 2
    # The nearest draw: between a number and infinity there is no mean.
    low, high = np.quantile(drawn, [tail, 1 - tail], method="nearest")
    return Estimate(
        value=value,
        low=min(float(low), value) if np.isfinite(low) else None,
        high=max(float(high), value) if np.isfinite(high) else None,
    )

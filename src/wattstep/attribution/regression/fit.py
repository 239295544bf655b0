"""The fit with one delay and window: powers of kinds, and everything that their uncertainty is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, sparse

from wattstep.attribution.regression.explained import Explained, most_spread
from wattstep.attribution.regression.mixed import (
    Equations,
    Variances,
    inverted,
    least_squares_bounded,
    likeliest,
)
from wattstep.attribution.regression.observed import Observed, Rows
from wattstep.attribution.regression.sensor import Sensor, slopes
from wattstep.attribution.regression.time_errors import blurred, responses
from wattstep.attribution.regression.trust import trust
from wattstep.schema.arrays import FloatArray

ERRORS = (0.0, 0.02, 0.04, 0.08, 0.15, 0.25, 0.35)  # of kinds' times, that samples are asked about
LIKELY = (0.4, 0.14, 0.13, 0.11, 0.1, 0.08, 0.04)  # before them
# The likelihood of an error takes it for small: it is trusted by so much less, and an error is
# assumed where it is clearly more likely (by -2 log likelihood) than none.
TEMPER = 4.0
CLEARLY = 6.0
CAREFUL = 1.2  # more of it than samples speak for: to overlook a part makes intervals too narrow
EXACT = 1e-10  # of the samples' variance: a fit that leaves no more needs no wrong times
NONE = 1e-3  # an error of times that is as good as none
LARGE = 100  # kinds
ROWS = 2500  # observations that large problems are asked with
TRIES = 40  # of variances
FEW_TRIES = 14
ROUNDS = 2
NEAR = 0.5  # of what a sample sees: edges are moved no farther to see what moves with them
REACH = 0.1  # of the window or spacing: prior spread of delay and window about the best ones


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """Powers of kinds with one delay and window.

    Attributes:
        rows: The equations.
        columns: All columns: powers of kinds and time between steps, then times of kinds, shape of
            the window, delay, window, shape (n, c).
        inverse: Of the posterior's precision, shape (c, c).
        precision: Of the prior, shape (c, c).
        noise: Variance of a sample in W².
        spread: Variance of power among kinds in W².
        free: Powers in W if they might be negative, and the other columns' factors, shape (c,).
        watts: Powers in W, none negative, shape (k,).
        plain: Powers in W where every sample is trusted alike, shape (k,).
        between: Power between steps in W.
        trust: By what each equation is multiplied: less where traced steps differ in what runs,
            and where a sample lies far beside, shape (n,).
        left: What is left of each sample times its trust, shape (n,).
        time_error: Of kinds' times, relative, as large as it may well be before any sample.
        misplaced: Root of the covariance of kinds' relative times after all samples, shape (k, k).
        assumed: The likeliest, for which the columns are made.
        sensor: Delay and window.
        sensor_spread: How far off these may lie, standard deviations in s.
    """

    rows: Rows
    columns: FloatArray
    inverse: FloatArray
    precision: FloatArray
    noise: float
    spread: float
    free: FloatArray
    watts: FloatArray
    plain: FloatArray
    between: float
    trust: FloatArray
    left: FloatArray
    time_error: float
    misplaced: FloatArray
    assumed: float
    sensor: Sensor
    sensor_spread: tuple[float, float]


class Fitting:
    """Fits the same samples.

    Args:
        observed: The samples.
        similarity: Prior covariance of powers in units of their variance, shape (k + 1, k + 1).
        seed: Of what is drawn.
    """

    def __init__(self, observed: Observed, similarity: FloatArray, seed: int) -> None:
        self.observed = observed
        self.inverse = linalg.inv(similarity)
        self.log_size = float(np.linalg.slogdet(similarity)[1])
        self.seed = seed

    def fit(
        self, begun: Explained, sensor: Sensor, error: float | None, free: tuple[bool, bool]
    ) -> Fit:
        """Powers, with their likeliest variances and error of times.

        Args:
            begun: The samples explained without errors of times.
            sensor: Delay and window.
            error: Relative error of kinds' times; None: what the samples speak for.
            free: Whether delay and window were found from the samples.
        """
        watts = begun.watts
        left = begun.rows.watts - begun.rows.watts.mean() - begun.whitened @ begun.solution
        weights = trust(self.observed.axis, begun.rows, watts, left)
        start = (begun.evidence.noise, max(begun.evidence.spread, 1e-12))
        assumed = error
        if error is None or assumed is None:
            error, assumed, start = self._time_error(begun, weights, start)
        best_fit: Fit | None = None
        for _ in range(1 if len(self.inverse) > LARGE else ROUNDS):
            best_fit = self._once(begun, weights, watts, sensor, assumed, start, free)
            watts = np.append(best_fit.watts, best_fit.between)
            start = (best_fit.noise, best_fit.spread)
            weights = trust(self.observed.axis, begun.rows, watts, best_fit.left / best_fit.trust)
        assert best_fit is not None
        return replace(
            best_fit,
            time_error=error,
            misplaced=self._misplaced(best_fit, error),
            plain=begun.watts[:-1],
        )

    def _misplaced(self, fit: Fit, error: float) -> FloatArray:
        """Root of the covariance of kinds' relative times, given the samples, shape (k, k).

        Where a kind lasts long beside the sensor's window, samples tell when it begins and ends,
        and so how long it is; where it does not, nothing is known but the error that is likely.
        """
        kinds = len(self.inverse) - 1
        if error <= 0:
            return np.zeros((kinds, kinds))
        weights = sparse.diags(fit.trust) @ fit.rows.weights
        watts = np.append(fit.watts, fit.between)
        moved = error * self._moved(weights, watts, fit.sensor.window)
        columns = np.hstack([np.asarray(weights @ self.observed.table()), moved])
        equations = self._equations(columns, fit.rows.watts, fit.trust)
        inverse = inverted(equations.gram / fit.noise + equations.precision(fit.spread))
        off = (inverse @ (equations.right / fit.noise))[kinds + 1 :]
        covariance = inverse[kinds + 1 :, kinds + 1 :] + np.outer(off, off)
        values, vectors = linalg.eigh((covariance + covariance.T) / 2)
        root: FloatArray = error * vectors * np.sqrt(np.clip(values, 0.0, None))
        return root

    def _time_error(
        self, begun: Explained, trusted: FloatArray, start: tuple[float, float]
    ) -> tuple[float, float, tuple[float, float]]:
        """Root of the mean squared error of times over what is likely, and the likeliest error."""
        large = len(self.inverse) > LARGE
        rows = begun.rows
        if begun.evidence.noise < EXACT * float(rows.watts.var()):
            return 0.0, 0.0, start
        every = max(1, -(-len(rows.watts) // ROWS)) if large else 1
        fewer = sparse.diags(trusted[::every]) @ rows.weights[::every]
        moved = self._moved(fewer, begun.watts, begun.window)
        variances: list[Variances] = []
        # Many kinds are asked about every other error: it takes long.
        asked, likely = (ERRORS[::2], LIKELY[::2]) if large else (ERRORS, LIKELY)
        for error in asked:
            columns = self._columns(fewer, moved, error)
            equations = self._equations(columns, rows.watts[::every], trusted[::every])
            variances.append(
                likeliest(
                    equations,
                    start,
                    most_spread(float(rows.watts.mean())),
                    FEW_TRIES if large else TRIES,
                )
            )
        scores = np.array([each.score for each in variances])
        behind = scores - scores.min()
        weights = np.array(likely) * np.exp(-behind / 2 / TEMPER)
        weights /= weights.sum()
        error = CAREFUL * float(np.sqrt(weights @ np.array(asked) ** 2))
        likeliest_error = int(np.argmin(behind)) if behind[0] > CLEARLY else 0
        best = variances[likeliest_error]
        error = error if error > NONE else 0.0
        return error, min(asked[likeliest_error], error), (best.noise, best.spread)

    def _moved(self, weights: sparse.csr_matrix, watts: FloatArray, window: float) -> FloatArray:
        """Change of each equation, were one kind longer by all its time, shape (n, k)."""
        axis = self.observed.axis
        seen = max(window, self.observed.spacing_s) / self.observed.seconds
        change = responses(axis, axis.reached @ np.maximum(watts[:-1], 0.0), NEAR * seen)
        return np.asarray(weights @ np.vstack([change, np.zeros(change.shape[1])]))

    def _columns(self, weights: sparse.csr_matrix, moved: FloatArray, error: float) -> FloatArray:
        """Columns of powers and, where times may be off, of those."""
        known = blurred(self.observed.axis, error, self.seed)
        powers = np.asarray(weights @ self.observed.table(known))
        return powers if error <= 0 else np.hstack([powers, error * moved])

    def _equations(self, columns: FloatArray, watts: FloatArray, trusted: FloatArray) -> Equations:
        about = trusted * (watts - _middle(watts, trusted))
        return Equations(
            gram=columns.T @ columns, right=columns.T @ about, square=float(about @ about),
            count=len(watts), inverse=self.inverse, log_size=self.log_size,
        )  # fmt: skip

    def _once(
        self, begun: Explained, trusted: FloatArray, watts: FloatArray, sensor: Sensor, error: float,
        start: tuple[float, float], free: tuple[bool, bool],
    ) -> Fit:  # fmt: skip
        rows = begun.rows
        weights = sparse.diags(trusted) @ rows.weights
        scale = REACH * (sensor.window or self.observed.spacing_s)
        table = self.observed.table() @ np.maximum(watts, 0.0)
        sloped = np.stack(slopes(self.observed, begun, table), axis=1) * scale * trusted[:, None]
        window_free = free[1] and sensor.window > 0
        sloped = sloped[:, [free[0], window_free]]
        if window_free:
            sloped = np.hstack([self._shaped(begun, table, trusted), sloped])
        moved = self._moved(weights, watts, sensor.window) if error > 0 else np.zeros((0, 0))
        columns = np.hstack([self._columns(weights, moved, error), sloped])
        equations = self._equations(columns, rows.watts, trusted)
        large = len(self.inverse) > LARGE
        variances = likeliest(
            equations, start, most_spread(float(rows.watts.mean())), FEW_TRIES if large else TRIES
        )
        return self._solved(
            equations, columns, rows, trusted, variances, error, sensor, scale, free
        )

    def _shaped(self, begun: Explained, table: FloatArray, trusted: FloatArray) -> FloatArray:
        """Change of each equation, were the window an exponential average, shape (n, 1).

        Where nothing documents the window, its length was found and its shape was assumed. How much
        of this change there is, samples tell as they tell delay and length: what they leave open of
        it is uncertain.
        """
        memory = self.observed.forgetting(begun.window / 2, 0.0).rows(begun.delay, 0.0)
        every = np.full(len(memory.taken), np.nan)
        every[memory.taken] = memory.weights @ table
        change = every[begun.rows.taken] - begun.rows.weights @ table
        shaped: FloatArray = (np.nan_to_num(change) * trusted)[:, None]
        return shaped

    def _solved(
        self, equations: Equations, columns: FloatArray, rows: Rows, trusted: FloatArray,
        variances: Variances,
        error: float, sensor: Sensor, scale: float, free: tuple[bool, bool],
    ) -> Fit:  # fmt: skip
        kinds = len(self.inverse) - 1
        precision = equations.precision(variances.spread)
        whole = equations.gram / variances.noise + precision
        inverse = inverted(whole)
        middle = _middle(rows.watts, trusted)
        solution = inverse @ (equations.right / variances.noise)
        bounded = np.arange(len(whole)) < kinds
        lowest = np.where(bounded, -middle, -np.inf)
        above = least_squares_bounded(
            whole, equations.right / variances.noise, bounded, np.where(bounded, lowest, 0.0)
        )
        unbounded = solution.copy()
        unbounded[: kinds + 1] += middle
        last = iter(np.sqrt(np.maximum(np.diag(inverse), 0.0))[::-1] * scale)
        of_window = float(next(last)) if free[1] and sensor.window > 0 else 0.0
        of_delay = float(next(last)) if free[0] else 0.0
        return Fit(
            rows=rows, columns=columns, inverse=inverse, precision=precision, noise=variances.noise,
            spread=variances.spread, free=unbounded, watts=above[:kinds] + middle, plain=above[:kinds] + middle,
            between=float(above[kinds]) + middle, trust=trusted,
            left=trusted * (rows.watts - middle) - columns @ solution,
            time_error=error, misplaced=np.zeros((0, 0)), assumed=error, sensor=sensor,
            sensor_spread=(of_delay, of_window),
        )  # fmt: skip


def _middle(watts: FloatArray, trusted: FloatArray) -> float:
    """Mean power in W, by how much each sample is trusted."""
    return float(np.average(watts, weights=trusted**2))

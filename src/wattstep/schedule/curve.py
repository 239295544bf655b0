"""Time of one operation against its number of threads: what was measured, what lies between, what to measure next."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, exp, log, log2, sqrt
from statistics import median
from typing import Final

import numpy as np

from wattstep.schedule.least_squares import fit_within
from wattstep.schedule.times import Seconds
from wattstep.schema.arrays import FloatArray

MOST_VALUES: Final = 9  # of one number of threads: the latest
NOISE: Final = 0.03  # of a single measurement, as a logarithm, where too few were repeated to tell
SURE: Final = 1.645  # standard errors of 90 %
FINE: Final = 0.1  # part of the best number of threads to which it is found
WIDE: Final = 0.08  # half of an interval, as a logarithm, that is worth another measurement
MOST_TRIES: Final = 14
STALE_SPREAD: Final = 0.1  # of what was measured in another state of the device
BETWEEN: Final = 0.05  # error of the curve a doubling away from what was measured, as a logarithm
_KINKS: Final = 4  # that are tried, of each doubling
EXACT: Final = 1e-9  # error of a curve, in parts of the times, below which none is better


@dataclass(kw_only=True)
class Point:
    """Measurements at one number of threads.

    Attributes:
        seconds: The latest, oldest first.
        is_stale: They are of another state of the device, scaled to this one.
    """

    seconds: list[float] = field(default_factory=list)
    is_stale: bool = False

    def add(self, seconds: float) -> None:
        """One measurement more; a stale point begins anew."""
        if self.is_stale:
            self.seconds.clear()
            self.is_stale = False
        self.seconds.append(seconds)
        del self.seconds[:-MOST_VALUES]

    @property
    def value(self) -> float:
        """Their median."""
        return median(self.seconds)


class Curve:
    """One operation on one cluster.

    Args:
        most: Threads that it can have at most.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.points: dict[int, Point] = {}
        self._fit: tuple[FloatArray, FloatArray, float] | None = None

    def add(self, threads: int, seconds: float) -> None:
        """One measurement."""
        self.points.setdefault(threads, Point()).add(seconds)
        self._fit = None

    def scale(self, factor: float) -> None:
        """What was measured belongs to another state of the device, in which it took so many times as long.

        Points that are stale already stay as they are. Nobody saw them come back from the state before, so that
        the factors of states that came and went would multiply in them without end.
        """
        for point in self.points.values():
            if not point.is_stale:
                point.seconds = [one * factor for one in point.seconds]
                point.is_stale = True
        self._fit = None

    def noise(self) -> float:
        """Spread of single measurements, as a logarithm: that of repeated ones, drawn towards `NOISE`."""
        squares, count = NOISE**2 * 4, 4.0
        for point in self.points.values():
            logs = [log(one) for one in point.seconds]
            middle = sum(logs) / len(logs)
            squares += sum((one - middle) ** 2 for one in logs)
            count += len(logs) - 1
        return sqrt(squares / count)

    def at(self, threads: int) -> Seconds:
        """Time with an interval, between and beyond what was measured, too.

        Args:
            threads: 1 to `most`.
        """
        if self._fit is None:
            self._fit = self._fitted()
        smooth, straight, noise = self._fit
        value = float(smooth[threads - 1])
        point = self.points.get(threads)
        # What smooth and straight lines disagree about is not known; beside a measurement only its noise is.
        error = abs(log(value / float(straight[threads - 1]))) * 0.5 if point is None else 0.0
        nearest = self.points[min(self.points, key=lambda one: abs(log(threads / one)))]
        repeats = len(nearest.seconds)
        stale = any(one.is_stale for one in self.points.values()) * STALE_SPREAD
        distance = self._distance(threads)
        half = SURE * sqrt(noise**2 / repeats + error**2 + (BETWEEN * distance) ** 2 + stale**2)
        return Seconds(value, value * exp(-half), value * exp(half))

    def best(self) -> int:
        """The number of threads that takes least, as far as is known."""
        return min(range(1, self.most + 1), key=lambda threads: self.at(threads).value)

    def next_to_try(self) -> int | None:
        """The number of threads to measure next; None: what is worth knowing is known.

        Uphill from one thread in doublings until more threads take longer, the highest number, then between the
        neighbours of the best, then where the interval is widest.
        """
        stale = [threads for threads, point in self.points.items() if point.is_stale]
        if stale:
            return min(stale, key=lambda threads: self.points[threads].value)
        return self._climbing() or self._refining() or self._unsure()

    def _climbing(self) -> int | None:
        threads, last = 1, float("inf")
        rising = 0
        while threads < self.most:
            if threads not in self.points:
                return threads
            value = self.points[threads].value
            rising = rising + 1 if value > last else 0
            if rising == 2:
                break
            last, threads = value, threads * 2
        return None if self.most in self.points else self.most

    def _refining(self) -> int | None:
        if len(self.points) >= MOST_TRIES:
            return None
        measured = sorted(self.points)
        best = min(measured, key=lambda threads: self.points[threads].value)
        place = measured.index(best)
        gaps = [
            (high - low, (low + high) // 2)
            for low, high in zip(measured[max(0, place - 1) :], measured[max(0, place - 1) + 1 : place + 2], strict=False)
            if high - low > max(1.0, FINE * best)
        ]  # fmt: skip
        return max(gaps)[1] if gaps else None

    def _unsure(self) -> int | None:
        if len(self.points) >= MOST_TRIES:
            return None
        untried = [n for n in range(1, self.most + 1) if n not in self.points]
        if not untried:
            return None

        def width(threads: int) -> float:
            time = self.at(threads)
            return log(time.high / time.value)

        widest = max(untried, key=width)
        return widest if width(widest) > SURE * WIDE else None

    def _distance(self, threads: int) -> float:
        """Doublings to the nearest number that was measured."""
        return min((abs(log(threads / one)) / log(2) for one in self.points), default=0.0)

    def _fitted(self) -> tuple[FloatArray, FloatArray, float]:
        """Seconds at 1 to `most` threads by a smooth curve and by straight lines in logarithms, and the noise."""
        tried = np.array(sorted(self.points), np.float64)
        values = np.array([self.points[int(one)].value for one in tried])
        every = np.arange(1, self.most + 1, dtype=np.float64)
        straight = np.exp(np.interp(np.log(every), np.log(tried), np.log(values)))
        noise = self.noise()
        if len(tried) < 2:
            return straight, straight, noise
        fitted = _division_of_work(tried, values, self.most)
        residuals = np.log(values / fitted[tried.astype(int) - 1])
        # What noise explains is left to the curve; what it does not, is interpolated.
        part = max(0.0, 1 - noise**2 / (float(np.mean(residuals**2)) + 1e-12))
        smooth = fitted * np.exp(part * np.interp(np.log(every), np.log(tried), residuals))
        return smooth, straight, noise


def _division_of_work(threads: FloatArray, seconds: FloatArray, most: int) -> FloatArray:
    """Seconds at 1 to `most` threads of the best fit of a + b / min(p, k) + c p + d log p: Amdahl's law, a ceiling, overhead.

    Args:
        threads: That were measured, shape (n,).
        seconds: That they took, shape (n,).
        most: Number of threads to work out.
    """

    def columns(p: FloatArray, kink: float) -> FloatArray:
        return np.stack([np.ones_like(p), 1 / np.minimum(p, kink), p, np.log2(p)], axis=1)

    every = np.arange(1, most + 1, dtype=np.float64)
    zero = np.zeros(4)
    best: tuple[float, FloatArray] | None = None
    for kink in np.geomspace(1, most, 1 + ceil(_KINKS * log2(most))):
        shape = columns(threads, kink)
        matrix, whole = shape / seconds[:, None], np.ones(len(seconds))
        factors = fit_within(matrix, whole, start=zero, low=zero, high=zero + np.inf)
        residual = float(np.linalg.norm(whole - matrix @ factors))
        if best is None or residual < best[0] - EXACT:
            best = (residual, columns(every, kink) @ factors)
        if residual <= EXACT:
            break
    assert best is not None  # there are kinks
    return np.maximum(best[1], 1e-12)

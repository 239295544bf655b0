"""Whether steps still take what they took after they were planned: other load or throttling makes all of them longer."""

from __future__ import annotations

from math import exp, log, sqrt
from statistics import median
from typing import Final

from wattstep.schedule.page import PageTest

FIRST: Final = 40  # steps that tell what is usual
TOGETHER: Final = 4  # of which the median counts: one disturbed step says nothing
ALARM: Final = 14.0  # of Page's test: what is usual, and its scatter, are not known exactly
LEAST_NOISE: Final = 0.01
LEAST_CHANGE: Final = 0.08  # a smaller one is not worth measuring again, as a logarithm
LEAST_NOISES: Final = 1.5  # nor one that is hardly more than what medians of a few steps scatter by
WIDTH: Final = 1.4826  # of a normal distribution, over its median deviation


class Pace:
    """Time of one step after the other, held against that of the first ones.

    Attributes:
        steps: How many were seen.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._first: list[float] = []
        self._usual_s = self._noise = 0.0
        self._some: list[float] = []
        self._page = PageTest[None](ALARM)

    def add(self, seconds: float) -> None:
        """A step that took so long."""
        self.steps += 1
        if self._usual_s == 0.0:
            self._first.append(seconds)
            if len(self._first) == FIRST:
                self._learn()
            return
        self._some.append(seconds)
        if len(self._some) == TOGETHER:
            value = log(median(self._some) / self._usual_s)
            self._some.clear()
            self._page.add(None, value, value / self._noise)
            least = max(LEAST_CHANGE, LEAST_NOISES * self._noise)
            if self._page.alarmed and abs(self._change()) < least:
                self._usual_s *= exp(self._change())
                self._page.clear()

    def _learn(self) -> None:
        """What is usual, and how much medians of a few steps scatter about it."""
        self._usual_s = median(self._first)
        spread = WIDTH * median(abs(log(one / self._usual_s)) for one in self._first)
        # Of a median of n about 1.25 times that of a mean of n; the usual itself is one of `FIRST`.
        own = 1.25 * spread * sqrt(1 / TOGETHER + 1 / FIRST)
        self._noise = max(own, LEAST_NOISE)
        self._first.clear()

    @property
    def factor(self) -> float | None:
        """Times as long as at first that steps take since they have changed; None: they have not."""
        return exp(self._change()) if self._page.alarmed else None

    def _change(self) -> float:
        """By what steps have changed, as a logarithm."""
        return median(value for _, value in self._page.moved())

"""Schedule of traced steps: few enough to be cheap, often enough to know the operations."""

from __future__ import annotations

import math
import random
import re
import statistics
from collections import deque

from wattstep.errors import InvalidValueError

WANTED = 10  # windows that the operations of a run rest on
STARTUP_BUDGET = 0.25  # of the training time, until there are as many
BUDGET = 0.01  # afterwards; the steps after a window are slower, too, and cost about as much again
LEAST_CLEAN = 3  # clean steps between two windows; the first of them settles
ENOUGH = 60  # from here on at most one window a minute: an hour needs no more disk than it must
SPACING_NS = 60 * 10**9
SEED = 9  # of the gaps between windows: the same in every run, so that a run can be repeated
_FORM = re.compile(r"auto|none|every:([1-9]\d*)")


class TraceMode:
    """Value of `--trace`: "auto", "none" or "every:N" (N steps between windows on average).

    Args:
        text: The value as it was given.
        every: N, or None.
    """

    def __init__(self, text: str, every: int | None = None) -> None:
        self.text = text
        self.every = every

    @classmethod
    def parse(cls, text: str) -> TraceMode:
        """Reads the option.

        Raises:
            InvalidValueError: It is none of the three forms.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise InvalidValueError(
                f"--trace {text!r} is not one of auto, none, every:N", id="malformed-trace-mode"
            )
        return cls(text, int(match[1]) if match[1] else None)

    @property
    def tracing(self) -> bool:
        """True if anything is traced at all."""
        return self.text != "none"


class Schedule:
    """Decides after each window when the next one comes, from what windows cost here.

    Gaps are drawn at random around what was decided: at equal ones, a training whose steps take
    turns (two networks, gradients of several batches) would show one kind of step and no other.

    Args:
        mode: Value of `--trace`.
        warmup: Steps before the first.
        seed: Of the gaps.
    """

    def __init__(self, mode: TraceMode, warmup: int, seed: int = SEED) -> None:
        self._mode = mode
        self.windows = 0
        self.next_step = warmup + LEAST_CLEAN if mode.tracing else math.inf
        self._clean: deque[int] = deque(maxlen=31)
        self._random = random.Random(seed)

    def pause(self) -> None:
        """No window comes until `resume`."""
        self.next_step = math.inf

    def resume(self, index: int) -> None:
        """Windows come again, the first after some clean steps from step `index` on."""
        if self._mode.tracing:
            self.next_step = index + LEAST_CLEAN

    def clean_step(self, duration_ns: int) -> None:
        """Takes note of how long a clean step took."""
        self._clean.append(duration_ns)

    @property
    def typical_ns(self) -> float:
        """Median of the last clean steps; 0 before there was one."""
        return statistics.median(self._clean) if self._clean else 0.0

    def after_window(self, index: int, window_ns: int) -> None:
        """Sets the next window, after one that took `window_ns` altogether ended at step `index`."""
        self.windows += 1
        if self._mode.every is not None:
            self.next_step = index + 1 + self._drawn(self._mode.every, 1)
            return
        typical = max(self.typical_ns, 1.0)
        cost = max(window_ns - typical, 0.0)
        spacing = cost / (STARTUP_BUDGET if self.windows < WANTED else BUDGET)
        least = LEAST_CLEAN
        if self.windows >= ENOUGH:
            spacing = max(spacing, SPACING_NS)
            least = math.ceil(spacing / typical)
        gap = max(least, math.ceil(spacing / typical))
        self.next_step = index + 1 + self._drawn(gap, least)

    def _drawn(self, gap: int, least: int) -> int:
        """From half to one and a half times the gap, alike probable, but never less than `least`."""
        half_width = max(gap // 2, 1)
        low, high = max(gap - half_width, least), gap + half_width
        return low + int(self._random.random() * (high - low + 1))

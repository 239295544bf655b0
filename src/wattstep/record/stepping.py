"""Steps, phases and rests of a recording, as a training's loop or its framework tells of them; Python 3.6 and later."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from wattstep.errors import InvalidValueError
from wattstep.record.marking import NAN, StepMarker
from wattstep.record.tracing.windows import Windows
from wattstep.schema.journal import NOT_KNOWN


class StepRecorder:
    """Base of recorders: that of this host, and that of the one file for boards.

    What only a loop or a listener needs lies in `steps`.

    Attributes:
        problem: Reason why recording ended early; None: it has not.
    """

    problem: str | None
    _state: str  # "recording" while it does
    _notes: list[str]
    _steps: StepMarker
    _windows: Windows

    def close(self) -> None:
        """Ends the recording."""
        raise NotImplementedError

    def _cannot_write(self, error: OSError) -> None:
        """Recording ends, training goes on."""
        raise NotImplementedError

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and not isinstance(error, (KeyboardInterrupt, SystemExit)):
            self.note(f"the training ended with {type(error).__name__}")
        self.close()

    # --- steps ----------------------------------------------------------------------------

    def step(self, samples: float | None = None) -> StepMarker:
        """A context: one training step of so many samples.

        Args:
            samples: A number from 0 on, of whatever type; None, NaN: not known.

        Raises:
            InvalidValueError: It is none; nothing of the step is recorded.
        """
        steps = self._steps
        steps.samples = sample_count(samples)
        steps.loss = math.nan
        return steps

    @property
    def steps(self) -> StepMarker:
        """What loops and listeners mark steps with, and tell of models and profilers; scripts need none of it."""
        return self._steps

    def samples(self, count: float) -> None:
        """So many samples belong to the step that runs; adds up within a step.

        Raises:
            InvalidValueError: As of `step`; the step has those of before.
        """
        self._steps.add_samples(sample_count(count))

    @property
    def phase(self) -> Callable[..., None]:
        """`phase(name)`: the part of the step that begins here: "data", "forward", "backward", "optimizer".

        Any other name will do; gradient clipping that is seen by itself is "clipping". A second argument is where it began in ns, if that is known only now; as `boundary` gave it.
        """
        return self._steps.phase

    def update(self, name: str, at_ns: int = 0) -> None:
        """A part of the parameters has been updated: what ran since the last update led to it.

        Args:
            name: Of the part.
            at_ns: When, where that was before this call.
        """
        self._steps.update(name, at_ns)

    def span(self, name: str) -> None:
        """Begins what is no training, e.g. "evaluation", until the next step."""
        if not self._steps.resting:
            self._guarded(lambda: self._steps.rest(name))

    def rest(self, name: str) -> None:
        """As `span`, which scripts called so before."""
        self.span(name)

    @contextlib.contextmanager
    def exclude(self, name: str) -> Iterator[None]:
        """A context: work beside the training whose time and memory are no part of it.

        Whatever it takes is a span of that name, and lies outside of the training's peak.
        """
        self.span(name)
        self._guarded(self._windows.mark_peak)
        try:
            yield
        finally:
            self._guarded(self._windows.end_apart)

    def apart(self, name: str) -> contextlib.AbstractContextManager[None]:
        """As `exclude`, which scripts called so before."""
        return self.exclude(name)

    def note(self, text: str) -> None:
        """Something that the reader of the run must know."""
        if text not in self._notes:
            self._notes.append(text)

    def _guarded(self, work: Callable[[], None]) -> None:
        """Work that may meet a full disk; none where nothing is recorded."""
        if self._state != "recording" or self.problem is not None:
            return
        try:
            work()
        except OSError as error:
            self._cannot_write(error)


def sample_count(samples: Any) -> float:
    """The samples of a step as a row takes them: whole ones are an int; NaN: not known.

    Raises:
        InvalidValueError: It is no number from 0 on.
    """
    if samples.__class__ is int and 0 <= samples < NOT_KNOWN:  # nearly always, and at each step
        return samples
    if samples is None:
        return NAN
    count = -1.0
    if not isinstance(samples, (bool, str, bytes)):
        with contextlib.suppress(TypeError, ValueError, OverflowError, RuntimeError):
            count = float(samples)  # of numpy's and torch's, too
    if count != count:
        return NAN
    if not 0 <= count < math.inf:
        raise InvalidValueError(
            f"samples={ascii(samples)[:60]}: a step has a number of samples, 0 or more; None where it is not known",
            id="invalid-samples",
        )
    return int(count) if count == int(count) else count


def wall_clock() -> tuple[int, int]:
    """Monotonic time, and how far the wall clock is ahead of it, in ns."""
    before = time.perf_counter_ns()
    wall = time.time_ns()
    now = (before + time.perf_counter_ns()) // 2
    return now, wall - now

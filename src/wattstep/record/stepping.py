"""Steps, phases and rests of a recording, as a training's loop or its framework tells of them; Python 3.6 and later."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from wattstep.record.marking import StepMarker
from wattstep.record.tracing.windows import Windows


class StepRecorder:
    """Base of recorders: that of this host, and that of the one file for boards.

    What only a loop or a listener needs of a step lies in `steps`. Models, profilers and windows stay
    here, although scripts need them as little: they concern the recording, of which `steps` knows
    nothing.

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

    def learn_model(self, model: Any) -> None:
        """Names this model's layers, told apart from those of other models."""
        raise NotImplementedError

    def watch_model(self, model: Any, *, alone: bool = True) -> None:
        """Names the layers of the model that trains.

        Args:
            model: The module.
            alone: True if its layers have its own paths, whatever other models there are.
        """
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

    @property
    def index(self) -> int:
        """Number of the step that runs, or of the next one."""
        return self._steps.index

    @index.setter
    def index(self, number: int) -> None:
        self._steps.index = number

    def step(self, samples: float | None = None) -> StepMarker:
        """A context: one training step of so many samples (None: not known)."""
        steps = self._steps
        steps.samples = math.nan if samples is None else samples
        steps.loss = math.nan
        return steps

    @property
    def steps(self) -> StepMarker:
        """What loops and listeners mark steps with, at less cost than `step()`; scripts need none of it."""
        return self._steps

    def begin_step(self, samples: float = math.nan) -> None:
        """A step begins; `step()` is the form for a with statement."""
        self.step(samples).__enter__()

    def end_step(self, loss: float = math.nan, *, at_ns: int = 0) -> None:
        """The step that began last is done.

        Args:
            loss: Its loss; NaN: not known.
            at_ns: When it ended, where that was before this call.
        """
        self._steps.finish(loss, at_ns)

    def abandon_step(self) -> None:
        """The step that began last did not come to its end: it is none."""
        self._steps.abandon()

    def samples(self, count: float) -> None:
        """So many samples belong to the step that runs; adds up within a step."""
        self._steps.add_samples(count)

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
        """Begins what is no training, e.g. "evaluation", until the next step or `end_rest`."""
        if not self._steps.resting:
            self._guarded(lambda: self._steps.rest(name))

    def rest(self, name: str) -> None:
        """As `span`, which scripts called so before."""
        self.span(name)

    def end_rest(self) -> None:
        """Ends the rest that began last."""
        self._guarded(self._steps.end_rest)

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

    def stop_tracing(self, reason: str) -> None:
        """No further windows; an open one is given up."""
        if self._state == "recording":
            self._steps.plan_anew()
            self._guarded(lambda: self._windows.stop(reason))

    def abandon_window(self) -> None:
        """The step that is being traced, if any, turned out to be something else."""
        if self._state == "recording":
            self._steps.plan_anew()
            self._guarded(lambda: self._windows.abandon(self.index + 1))

    @property
    def opening_window(self) -> bool:
        """True if a profiler that is being made just now is ours."""
        return self._windows.opening

    def _guarded(self, work: Callable[[], None]) -> None:
        """Work that may meet a full disk; none where nothing is recorded."""
        if self._state != "recording" or self.problem is not None:
            return
        try:
            work()
        except OSError as error:
            self._cannot_write(error)


def wall_clock() -> tuple[int, int]:
    """Monotonic time, and how far the wall clock is ahead of it, in ns."""
    before = time.perf_counter_ns()
    wall = time.time_ns()
    now = (before + time.perf_counter_ns()) // 2
    return now, wall - now

"""Turns what a trainer tells of its loop into steps, phases and named spans of a recorder."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from wattstep import engines
from wattstep.engines.step_phases import DATA, PhaseTeller
from wattstep.record.recorder import Recorder


class StepMarks(PhaseTeller):
    """The steps of one training.

    A step begins where its first batch is asked for, and ends with the optimizer's step, however
    many batches are accumulated in it. What lies between steps and has a name is a span.

    Args:
        recorder: Has been started.
        processes: Number of those that train on this machine; each has as many samples as this one.

    Attributes:
        span: The span that goes on; "" where none does.
        seconds: Time of all steps so far in s.
        interrupted: Steps that were left out: something else ran between their batches.
    """

    def __init__(self, recorder: Recorder, processes: int = 1) -> None:
        super().__init__(recorder.steps, loop=False)
        self._recorder, self._steps = recorder, recorder.steps
        self._processes = processes
        self._open = False
        self.span = ""
        self._batches = 0  # of the step that runs
        self._samples = 0
        self._known = True  # whether every batch told its samples
        self._losses = 0.0
        self._broken = False
        self._begun_ns = 0
        self._ended_ns = time.perf_counter_ns()
        self.seconds = 0.0
        self.interrupted = 0

    def asks_for_data(self) -> None:
        """A batch is asked for: the first one begins the step."""
        if not self._open:
            self._begin()
        self.phases.leave(DATA)  # that came to nothing
        self.phases.enter(DATA)

    def batch(self, samples: int | None) -> None:
        """A batch is there; so many samples, None where that is not known."""
        if not self._open:
            self._begin()
        self.phases.leave(DATA)
        self._batches += 1
        self._samples += samples or 0
        self._known = self._known and samples is not None

    def loss(self, value: float) -> None:
        """Of the batch; those of a step are added up."""
        self._losses += value

    def step_ends(self, *, mean: bool = False) -> None:
        """The optimizer has made its step.

        Args:
            mean: True if the step's loss is the mean of its batches' losses, not their sum.
        """
        if not self._open:
            return
        now = self._steps.stamp()
        self.phases.end()
        if self._broken:
            self._steps.index += 1
            self.interrupted += 1
        else:
            if self._known and self._batches:
                self._steps.add_samples(self._samples * self._processes)
            loss = self._losses / max(self._batches, 1) if mean else self._losses
            self._steps.finish(loss, now)
            self.seconds += (now - self._begun_ns) * 1e-9
        self._open = False
        self._ended_ns = now

    def span_begins(self, name: str) -> None:
        """Something that is no training; a step that has had no batch yet begins after it."""
        self.phases.end()
        if self._open and self._batches:
            self._steps.abandon()
            self._broken = True
        elif self._open:
            self._steps.abandon()
            self._open = False
        if not self.span:
            self._recorder.span(name)
            self.span = name

    def span_ends(self) -> None:
        """Ends the span that was no training."""
        if self.span:
            self._steps.end_span()
            self.span = ""

    def book_span(self, name: str) -> None:
        """Books the time since the last step ended as no training; nobody had told that it would come."""
        if self._open and not self._batches:
            now = self._steps.stamp()
            self._steps.split(name, self._ended_ns, now)
            self.phases.begin()
            self.phases.enter(DATA)
            self._begun_ns = self._ended_ns = now

    @property
    def within(self) -> bool:
        """True if a step runs, be it that it has had no batch yet."""
        return self._open

    @property
    def training(self) -> bool:
        """True if a step runs that has had a batch."""
        return self._open and self._batches > 0

    def _begin(self) -> None:
        self.span_ends()
        self._open, self._broken, self._known = True, False, True
        self._batches = self._samples = 0
        self._losses = 0.0
        self._begun_ns = time.perf_counter_ns()
        self._steps.begin_step()
        self.phases.begin()


def samples_in(batch: Any) -> int | None:
    """Samples of a batch: a list of samples is counted, else the first tensor's rows are."""
    if isinstance(batch, list) and batch and isinstance(batch[0], Mapping):
        return len(batch)
    engine = engines.loaded()
    return None if engine is None else engine.samples_in(batch)


def loss_in(output: Any) -> float:
    """The loss that a batch gave; NaN where reading it would wait for a GPU."""
    loss: Any = output.get("loss") if isinstance(output, Mapping) else output
    if not getattr(loss, "is_cpu", False) or loss.numel() != 1:
        return math.nan
    return float(loss.item())

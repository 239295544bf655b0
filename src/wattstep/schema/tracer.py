"""Protocol of a framework's tracer: the operations of one step at a time."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

# Gives the number that stands for a text of a table ("operation", "kind", "layer", "phase",
# "shapes"), as `store.marks.MarkJournal.code` does.
Code = Callable[[str, str], int]


@dataclass(frozen=True)
class TracedStep:
    """The operations of one traced step.

    Attributes:
        rows: Packed one after the other, each as `schema.journal.OPERATION` has it; times in ns of
            the run's clock.
        operations: How many.
        clock_uncertainty_ns: By how much the times may be off.
        device_rows: Work on GPUs, packed likewise, each as `schema.journal.DEVICE_OPERATION` has it;
            one row with `NO_WORK` where they did nothing. b"": they were not traced.
        notes: What a reader must know of this window.
        device_cost_ns: What tracing costs a device for each piece of work; NaN: it was not measured.
    """

    rows: bytes
    operations: int
    clock_uncertainty_ns: int
    device_rows: bytes = b""
    notes: tuple[str, ...] = ()
    device_cost_ns: float = math.nan


class LayerMarks(Protocol):
    """Marks at the top-level layers of a model, in steps that are not traced."""

    @property
    def layers(self) -> int:
        """Number of layers that are marked."""
        ...

    def attach(self) -> None:
        """From now on they are marked, unless they are already."""
        ...

    def detach(self) -> None:
        """From now on they are not."""
        ...


class NoLayerMarks:
    """Of a framework that does not tell when a layer begins."""

    layers = 0

    def attach(self) -> None:
        """Nothing."""

    def detach(self) -> None:
        """Nothing."""


class Tracer(Protocol):
    """Traces one step a window; an engine brings it along (`Engine.tracer`).

    A window is `start`, `mark` wherever a phase begins, `finish` right after the step, then `moved`
    and `rows`; or `cancel` in the place of the last two. Whatever is raised ends the tracing of a run
    with a note, never the training; `OSError` stands for a full disk. `engines.marked_tracer` has
    the tracer of a framework whose clock can be marked.
    """

    def foreign_profiler(self) -> bool:
        """True if a profiler that is not wattstep's runs in this process: two cannot trace at once."""
        return False

    def learn(self, model: Any, *, alone: bool) -> None:
        """Takes note of a model's layers, by whose paths rows name them.

        Args:
            model: The framework's own object.
            alone: Whether its layers keep their own paths, whatever other models are learned.
        """
        return None

    def layer_marks(
        self,
        model: Any,
        number: Callable[[str], int],
        entered: Callable[[int], None],
        left: Callable[[int], None],
    ) -> LayerMarks:
        """Marks for the top-level layers of a model that was learned.

        Args:
            model: The framework's own object.
            number: Of a layer by its path; asked when the marks are first wanted.
            entered: Called with that number where the layer's forward begins.
            left: Called with it where the forward ends.
        """
        return NoLayerMarks()

    @abstractmethod
    def start(self) -> None:
        """Opens a window."""

    @abstractmethod
    def mark(self) -> int:
        """A place in the trace; returns when it was, in ns of the run's clock."""

    @abstractmethod
    def finish(self) -> None:
        """Ends the window, right after the step."""

    def moved(self) -> Mapping[int, int]:
        """Marks of the window that was finished which lie within an operation, and when it began, in ns.

        A phase that begins at such a mark begins with the operation.
        """
        return {}

    @abstractmethod
    def cancel(self) -> None:
        """Ends a window that is open, and forgets it."""

    @abstractmethod
    def rows(self, step: int, window: int, phases: Sequence[tuple[int, str]]) -> TracedStep:
        """The operations of the window that was finished.

        Args:
            step: Index of the step.
            window: Number of the window.
            phases: Of that step, in order: where each begins, as `mark` gave it, and its name.
        """

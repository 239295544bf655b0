"""Steps of a command on a phone, told by the lines that it prints."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from wattstep.errors import InvalidValueError
from wattstep.schema.journal import Mark
from wattstep.store.marks import MarkJournal

PREFIX = "output:"
UNTOLD = "optimizer"  # the option's default: of Python scripts, which a phone's commands are not
GROUPS = ("loss", "samples")
HOW = (
    f"a phone's command is any program: --step-marker {PREFIX}REGEX, a line of its output that "
    "ends a step"
)


@dataclass(frozen=True, kw_only=True)
class StepLine:
    """Values in a line that ended a step; NaN where it has none."""

    loss: float
    samples: float


class OutputMarker:
    """Finds the lines that end a step.

    Args:
        text: As `--step-marker` gives it: "output:REGEX"; a group named "loss" or "samples" is
            taken for the step's.

    Raises:
        InvalidValueError: It is of another kind, or the expression cannot be read.
    """

    def __init__(self, text: str) -> None:
        kind, _, expression = text.partition(":")
        if kind + ":" != PREFIX or not expression:
            raise InvalidValueError(f"--step-marker {text}: {HOW}")
        try:
            self._expression = re.compile(expression)
        except re.error as error:
            raise InvalidValueError(f"--step-marker {text}: {error}") from None

    def find(self, line: str) -> StepLine | None:
        """Values of the step that a line ends; None where it ends none."""
        match = self._expression.search(line)
        if match is None:
            return None
        groups = match.groupdict()
        loss, samples = (_number(groups.get(name)) for name in GROUPS)
        return StepLine(loss=loss, samples=samples if samples > 0 else math.nan)


def parse_output_marker(text: str) -> OutputMarker | None:
    """The marker that is asked for; None where none is.

    Raises:
        InvalidValueError: As `OutputMarker`.
    """
    return None if text == UNTOLD else OutputMarker(text)


def _number(text: str | None) -> float:
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


class StepWriter:
    """Writes the command's steps, and what lies before and after them, as marks of a run.

    Args:
        marks: The run's journal.
        marker: Which lines end a step; None: nothing tells.
        began_ns: When the recording began.
    """

    def __init__(self, marks: MarkJournal, marker: OutputMarker | None, began_ns: int) -> None:
        self._marks, self._marker = marks, marker
        self._recorded_ns = began_ns
        self._since_ns: int | None = None  # where the step that runs has begun
        self.begun_ns: int | None = None
        self.steps = 0

    def begin(self, t_ns: int) -> None:
        """The command begins; what was sampled before is a rest."""
        self._rest("before the command", self._recorded_ns, t_ns)
        self.begun_ns = self._since_ns = max(t_ns, self._recorded_ns + 1)

    def line(self, text: str, t_ns: int) -> None:
        """A line that the command has printed.

        Raises:
            OSError: The disk is full.
        """
        values = self._marker.find(text) if self._marker else None
        if values is None or self._since_ns is None:
            return
        t_ns = max(t_ns, self._since_ns + 1)
        self._step(self._since_ns, t_ns, values)
        self._since_ns = t_ns

    def end(self, t_ns: int) -> None:
        """The command has ended; without any step it is one itself.

        Raises:
            OSError: The disk is full.
        """
        if self._since_ns is None:
            return
        if self.steps == 0:
            end_ns = max(t_ns, self._since_ns + 1)
            self._step(self._since_ns, end_ns, StepLine(loss=math.nan, samples=math.nan))
        else:
            self._rest("after the last step", self._since_ns, t_ns)
        self._since_ns = None

    def peak(self, size: int) -> None:
        """The highest resident memory of the command, in B.

        Raises:
            OSError: The disk is full.
        """
        self._marks.add(Mark.PEAK, 0, float(size))

    def _step(self, start_ns: int, end_ns: int, values: StepLine) -> None:
        self._marks.add_step(start_ns, end_ns, values.samples, values.loss, self.steps, 0)
        self.steps += 1

    def _rest(self, name: str, start_ns: int, end_ns: int) -> None:
        if end_ns > start_ns:
            code = self._marks.code("rest", name)
            self._marks.add(Mark.REST_START, code, t_ns=start_ns)
            self._marks.add(Mark.REST_END, code, t_ns=end_ns)

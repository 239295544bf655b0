"""Lengths of phases in clean steps by their own marks, and the parameter update that each led to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from wattstep.recorded.marks import Marks
from wattstep.recorded.steps import Steps
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import CLOCK, Figure, Status, missing
from wattstep.schema.figures import Figures
from wattstep.schema.journal import Mark
from wattstep.schema.report_rows import CostRow
from wattstep.stats.statistics import mean_figure

METHOD = "from the mark of its beginning to the next, the code between operations with it"
CLOSES = "optimizer"  # where no update is marked, this phase ends one
NO_LENGTH = missing("ratio", "the step has no length")
Key = tuple[str, str]  # update ("": the only one), phase


@dataclass(frozen=True, kw_only=True, eq=False)
class PhaseSpans:
    """Phases of all clean steps that carry marks, whatever sequence of them each has.

    Attributes:
        seconds: By update and phase in order of their first begin, each of shape (steps,).
        updates: How often each update is made in a step, by name, each of shape (steps,).
        step_s: Mean clean step in s, which the phases make up together.
        status: Status of times of steps.
    """

    seconds: Mapping[Key, FloatArray]
    updates: Mapping[str, FloatArray]
    step_s: float
    status: Status = Status.MEASURED

    @cached_property
    def _scale(self) -> float:
        """From the steps that carry marks to all clean ones."""
        whole = float(np.sum([values.mean() for values in self.seconds.values()]))
        return self.step_s / whole if whole > 0 else 0.0

    def of_phase(self, phase: str) -> Figure | None:
        """Time in s of a phase in a mean clean step, all updates together; None where unmarked."""
        spans = [values for (_, name), values in self.seconds.items() if name == phase]
        return self._figure(np.sum(spans, axis=0)) if spans else None

    def rows(self) -> list[CostRow]:
        """By update and phase: span, its share of the step, and how often the update is made."""
        rows = []
        for (update, phase), values in self.seconds.items():
            span = self._figure(values)
            share = span.share_of(self.step_s) if self.step_s > 0 else NO_LENGTH
            figures = {"span": span, "share": share}
            if update in self.updates:
                figures["count"] = mean_figure(
                    self.updates[update], "count", "marks of the training", Status.COUNTED
                )
            labels = {"update": update, "phase": phase}
            rows.append(CostRow(labels=labels, figures=Figures(figures)))
        return rows

    def _figure(self, values: FloatArray) -> Figure:
        figure = mean_figure(values, "s", CLOCK, self.status).scaled(self._scale, "s")
        return Figure(**{**vars(figure), "method": f"{METHOD}; {figure.method}"})


def phase_spans(marks: Marks, steps: Steps, clean: IntArray, step_s: float) -> PhaseSpans | None:
    """The phases of clean steps; None where none of them carries marks.

    The first phase of a step begins with the step: its mark comes a moment later. A phase belongs
    to the update that it leads up to; what follows the last update of a step belongs to that.

    Args:
        marks: Of the run.
        steps: All of its steps.
        clean: Positions of the clean ones.
        step_s: Mean clean step in s.
    """
    at = np.flatnonzero(
        np.isin(marks.step, clean) & ((marks.kind == Mark.PHASE) | (marks.kind == Mark.UPDATE))
    )
    step, kind = marks.step[at], marks.kind[at]
    is_phase = kind == Mark.PHASE
    begins = np.flatnonzero(is_phase)
    if not len(begins):
        return None
    mine, name = step[begins], marks.name[at][begins]
    first = np.append(True, mine[1:] != mine[:-1])
    last = np.append(first[1:], True)
    begin = np.where(first, steps.start_ns[mine], marks.t_ns[at][begins])
    end = np.where(last, steps.end_ns[mine], np.append(begin[1:], 0))
    update = _update_of(step, is_phase, marks.name[at], begins)
    marked, ordinal = np.unique(mine, return_inverse=True)
    keys: dict[Key, int] = {}
    code = np.array([keys.setdefault(key, len(keys)) for key in zip(update, name, strict=True)])
    sums = np.bincount(
        ordinal * len(keys) + code, (end - begin) * 1e-9, minlength=len(marked) * len(keys)
    )
    by_step = sums.astype(np.float64).reshape(len(marked), len(keys))
    made = {
        str(text): np.bincount(
            np.searchsorted(marked, step[~is_phase & (marks.name[at] == text)]),
            minlength=len(marked),
        ).astype(np.float64)
        for text in dict.fromkeys(marks.name[at][~is_phase])
    }
    seconds = {(str(key[0]), str(key[1])): by_step[:, n] for key, n in keys.items()}
    return PhaseSpans(seconds=seconds, updates=made, step_s=step_s, status=steps.status)


def _update_of(step: IntArray, is_phase: Any, names: Any, begins: IntArray) -> Sequence[str]:
    """The update that each phase belongs to.

    Args:
        step: Of each mark, not falling, shape (m,).
        is_phase: Whether a mark begins a phase, else it tells of an update, shape (m,).
        names: Of phase or update, shape (m,).
        begins: Positions of the beginnings of phases, shape (p,).
    """
    made = np.flatnonzero(~is_phase)
    if not len(made):
        return _numbered(step[begins], names[begins])
    after = np.searchsorted(made, begins)
    coming = made[np.minimum(after, len(made) - 1)]
    before = made[np.maximum(after - 1, 0)]
    leads = (after < len(made)) & (step[coming] == step[begins])
    follows = (after > 0) & (step[before] == step[begins])
    texts: list[str] = np.where(leads, names[coming], np.where(follows, names[before], "")).tolist()
    return texts


def _numbered(step: IntArray, names: Any) -> Sequence[str]:
    """Update of each phase where none is marked: by number, if the optimizer's phase comes more than once."""
    closes = names == CLOSES
    done = np.cumsum(closes) - closes
    first = np.searchsorted(step, step)
    number = done - done[first]
    follows = number == (
        np.cumsum(closes)[np.searchsorted(step, step, side="right") - 1] - done[first]
    )
    number = np.where(follows & (number > 0), number - 1, number)
    several = bool(len(number)) and number.max() > 0
    return [str(n + 1) if several else "" for n in number.tolist()]

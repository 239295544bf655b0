"""Figure 9: memory by category and batch size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from wattstep.observations.groups import Group
from wattstep.observations.memory_by_batch import NOT_FOLLOWED
from wattstep.reports.pages.paper.by_batch import (
    SWEEP,
    Line,
    enough,
    line_chart,
    line_of,
    published_key,
    statuses_of,
)
from wattstep.reports.pages.paper.drawn import Drawn, KeyEntry, NotDrawn, Panel
from wattstep.reports.pages.paper.published import published
from wattstep.reports.pages.paper.readings import Readings
from wattstep.reports.pages.paper.values_table import batch_rows, batch_table

TITLE = "Memory by category and batch size"
_CATEGORIES: Final[Mapping[str, str]] = {
    "memory.intermediate": "Intermediate data",
    "memory.parameters": "Parameters",
    "memory.gradients": "Gradients",
    "memory.optimizer_state": "Optimizer state",
    "memory.input": "Input",
    "peak_memory": "Peak of the process",
}


def draw(readings: Readings) -> Drawn | NotDrawn:
    """A chart for each group of runs, a line for each category."""
    found = [(group, _lines(group)) for group in readings.groups]
    wide = [(group, lines) for group, lines in found if enough(lines)]
    if not wide:
        return NotDrawn(
            reason="needs runs of one workload at two batch sizes or more",
            command=SWEEP.format("NAME"),
        )
    panels, points = [], []
    for group, lines in wide:
        workload = group.runs[0].info.workload
        own = [one for one in published(9) if one.workload == workload]
        points += own
        chart = line_chart(lines, own, {})
        assert chart is not None  # there are two points at least
        panels.append(Panel(title=group.label, chart=chart, statuses=statuses_of(lines)))
    rows = batch_rows(readings, [group for group, _ in wide], dict.fromkeys(_CATEGORIES, "B"))
    return Drawn(
        panels=panels,
        sentences=_sentences([lines for _, lines in wide]),
        table=batch_table(rows, _CATEGORIES),
        key=[*_key([lines for _, lines in wide]), *published_key(points, {})],
    )


def _lines(group: Group) -> list[Line]:
    """Categories that hold nothing have no place on a logarithmic axis."""
    lines = [
        line_of(title, number, group, name, "B")
        for number, (name, title) in enumerate(_CATEGORIES.items())
    ]
    return [line for line in lines if any(figure.value for _, figure in line.points)]


def _key(drawn: Sequence[Sequence[Line]]) -> list[KeyEntry]:
    entries = {line.label: line.key for lines in drawn for line in lines}
    return list(entries.values())


def _sentences(drawn: Sequence[Sequence[Line]]) -> list[str]:
    followed = [
        lines for lines in drawn if any(line.label != _CATEGORIES["peak_memory"] for line in lines)
    ]
    said = [
        "Intermediate data are feature maps and workspace. Each category stands at its own highest "
        "within a step, not all at one moment: they do not add up to the peak of the process, which "
        "holds the interpreter and the framework as well."
    ]
    if len(followed) < len(drawn):
        which = "" if not followed else " of some runs"
        said = [*said] * bool(followed) + [f"{NOT_FOLLOWED[:1].upper()}{NOT_FOLLOWED[1:]}{which}."]
    return said

"""Figure 6: the energy of a step by batch size, by GPU, CPU and memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wattstep.observations.energy_by_batch import COMPUTED
from wattstep.observations.groups import Group
from wattstep.observations.sensors import NOT_FOLLOWING, computed_power, replayed
from wattstep.reports.pages.charts import Bar
from wattstep.reports.pages.paper.by_batch import SWEEP, bar_of, grouped_bars, growth, together
from wattstep.reports.pages.paper.drawn import Drawn, KeyEntry, NotDrawn, Panel
from wattstep.reports.pages.paper.parts import PARTS_MISSING, color_of_part, name_of_part, parts_of
from wattstep.reports.pages.paper.readings import WHOLE, Readings, pooled, shown
from wattstep.reports.tables import table
from wattstep.reports.values import plain

TITLE = "Energy of a step by batch size, by GPU, CPU and memory"


def draw(readings: Readings) -> Drawn | NotDrawn:
    """A chart for each group of runs, bars of each part side by side at each batch size."""
    wide = [group for group in readings.groups if len(_known(group)) > 1]
    if not wide:
        return NotDrawn(reason=_reason(readings), command=SWEEP.format("NAME"))
    panels = [panel for group in wide if (panel := _panel(group)) is not None]
    names = list(dict.fromkeys(name for group in wide for name in [*parts_of(group), WHOLE]))
    rows = [
        {
            "run": group.label,
            "batch": f"{batch:,}",
            "processes": str(len(group.batches[batch])),
            **{name: shown(readings, group, name, batch, "J") for name in names},
        }
        for group in wide
        for batch in _known(group)
    ]
    texts = {"run": "Runs", "batch": "Batch", "processes": "Processes"}
    return Drawn(
        panels=panels,
        sentences=_sentences(wide),
        table=table(rows, texts, {name: name_of_part(name) for name in names}),
        key=[
            KeyEntry(mark="■", color=color_of_part(name), label=name_of_part(name))
            for name in names
        ],
    )


def _known(group: Group) -> list[int]:
    """Batch sizes at which the energy of a step is known."""
    return [batch for batch in group.known if not pooled(group, WHOLE, batch, "J").missing]


def _panel(group: Group) -> Panel | None:
    batches = _known(group)
    series: list[list[Bar | None]] = [
        [
            bar_of(name_of_part(name), f"batch {batch:,}", pooled(group, name, batch, "J"),
                   color_of_part(name))
            for batch in batches
        ]
        for name in [*parts_of(group), WHOLE]
    ]  # fmt: skip
    chart = grouped_bars([f"batch {batch:,}" for batch in batches], series, "J")
    if chart is None:
        return None
    statuses = dict.fromkeys(bar.shown.status for bars in series for bar in bars if bar is not None)
    return Panel(title=group.label, chart=chart, statuses=tuple(statuses))


def _sentences(groups: Sequence[Group]) -> list[str]:
    grown = (growth(group, WHOLE, "J", "the energy of a step") for group in groups)
    return [
        *(sentence for sentence in grown if sentence),
        *together(PARTS_MISSING, [group for group in groups if not parts_of(group)]),
        *together(COMPUTED, [group for group in groups if computed_power(group.runs)]),
        *together(NOT_FOLLOWING, [group for group in groups if replayed(group.runs)]),
    ]


def _reason(readings: Readings) -> str:
    """Of runs without energy their own reason; else that there is one batch size only."""
    figures: list[Any] = [run.observed.figure("energy_per_step", "J") for run in readings.runs]
    lacking = dict.fromkeys(plain(figure.reason) for figure in figures if figure.missing)
    if figures and all(figure.missing for figure in figures):
        return f"the energy of a step is not known: {'; '.join(lacking)}"
    return "needs runs of one workload at two batch sizes or more, with their energy"

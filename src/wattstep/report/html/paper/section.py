"""The section of a report with the paper's figures: what each comes to on these runs, and the paper's own numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from wattstep.insight.observe.evidence import metric
from wattstep.insight.observe.groups import Group
from wattstep.insight.observe.growth import Ends, ends_of
from wattstep.report.html.page import Plot, Plots
from wattstep.report.html.paper.cai import CAI_FIGURES
from wattstep.report.html.paper.drawn import Drawn, NotDrawn, Panel
from wattstep.report.html.paper.figures import FIGURES, PaperFigure
from wattstep.report.html.paper.published import CAI, Published, published, source, workloads_of
from wattstep.report.html.paper.readings import Readings, pooled
from wattstep.report.tables import Table, table
from wattstep.report.values import plain
from wattstep.schema.figure import Figure

_LEAST, _MOST = 4, 64  # the batch sizes between which the paper tells of growth
_BY_DAY = 10  # the figure of accuracy by day
_FACTOR = "×"


def paper_section(readings: Readings, plots: Plots, asked: bool = True) -> dict[str, Any] | None:
    """Variables of the template `paper.html`; None where there is nothing to draw from.

    Args:
        readings: The runs and daily trainings of the report.
        plots: Where charts are placed.
        asked: Whether somebody asked for them; else they stand there where all can be drawn, and of
            daily trainings that of accuracy by day, which is all that a page has of them.
    """
    if not readings.runs and not readings.daily:
        return None
    drawn = {number: FIGURES[number].draw(readings) for number in FIGURES}
    if not asked and any(isinstance(each, NotDrawn) for each in drawn.values()):
        if not readings.daily:
            return None
        drawn = {_BY_DAY: drawn[_BY_DAY]}
    figures = [
        _figure(number, FIGURES[number], each, readings, plots) for number, each in drawn.items()
    ]
    return {
        "id": "paper",
        "heading": "The paper's figures, from these runs",
        "figures": figures,
        "all": len(FIGURES),
        "drawn": sum(figure["drawn"] for figure in figures),
        "open": len(readings.runs) != 1,
        "source": source(),
        "letters": [(letter, plain(words)) for letter, words in readings.letters.items()],
    }


def cai_section(readings: Readings, plots: Plots, asked: bool = True) -> dict[str, Any] | None:
    """As `paper_section`, of Cai et al., from the runs of their networks; figures that are empty are left out.

    Args:
        readings: As of `paper_section`.
        plots: Where charts are placed.
        asked: Whether somebody asked for them; else they stand there where all can be drawn.
    """
    names = workloads_of(CAI)
    own = Readings(runs=[run for run in readings.runs if run.observed.info.workload in names])
    drawn = {key: figure.draw(own) for key, figure in CAI_FIGURES.items()} if own.runs else {}
    figures = [
        _figure(key, CAI_FIGURES[key], each, own, plots)
        for key, each in drawn.items()
        if isinstance(each, Drawn)
    ]
    if not figures or (not asked and len(figures) < len(CAI_FIGURES)):
        return None
    return {
        "id": CAI,
        "heading": "The figures of Cai et al., from these runs",
        "figures": figures,
        "all": len(CAI_FIGURES),
        "drawn": len(figures),
        "open": True,
        "source": source(CAI),
        "letters": [(letter, plain(words)) for letter, words in own.letters.items()],
    }


def _figure(
    number: int | str,
    figure: PaperFigure,
    drawn: Drawn | NotDrawn,
    readings: Readings,
    plots: Plots,
) -> dict[str, Any]:
    variables: dict[str, Any] = {
        "number": number,
        "named": f"Figure {number}: {figure.title}" if isinstance(number, int) else figure.title,
        "title": figure.title,
        "drawn": isinstance(drawn, Drawn),
        "published": published_table(number, readings),
    }
    if isinstance(drawn, NotDrawn):
        return {**variables, "reason": plain(drawn.reason), "command": drawn.command}
    return {
        **variables,
        "sentences": drawn.sentences,
        "key": drawn.key,
        "plots": [_placed(panel, plots) for panel in drawn.panels],
        "table": drawn.table,
    }


def _placed(panel: Panel, plots: Plots) -> Plot:
    placed = plots.place(panel.chart, plain(panel.title))
    assert placed is not None
    return Plot(id=placed.id, height=placed.height, title=placed.title, statuses=panel.statuses)


def published_table(number: int | str, readings: Readings) -> Table:
    """The paper's numbers, each beside the same quantity of these runs where there is one."""
    rows = [row for one in published(number) for row in _rows(one, readings)]
    texts = {
        "what": "The paper",
        "model": "Model",
        "batch": "Batch",
        "value": "Published",
        "place": "Where",
        "run": "These runs",
    }
    return table(rows, texts, {"here": "Here"})


def _rows(one: Published, readings: Readings) -> list[dict[str, Any]]:
    row = {
        "what": one.what,
        "model": one.model,
        "batch": "" if one.batch is None else str(one.batch),
        "value": one.text,
        "place": one.place,
    }
    beside = [
        {**row, "run": group.label, "here": figure} for group, figure in _beside(one, readings)
    ]
    return beside or [row]


def _beside(one: Published, readings: Readings) -> Iterator[tuple[Group, Figure]]:
    for group in readings.groups:
        if not one.quantity or (one.model and group.runs[0].info.workload != one.workload):
            continue
        if one.growth:
            ends = ends_of(group, metric(one.quantity, _unit(one, group)), logarithm=True)
            if isinstance(ends, Ends) and (ends.least, ends.most) == (_LEAST, _MOST):
                yield group, _as_factor(ends.change.figure())
        elif one.batch is not None and one.batch in group.known:
            yield group, pooled(group, one.quantity, one.batch, one.unit)


def _unit(one: Published, group: Group) -> str:
    """Of what grows: as the runs have it."""
    figures = (run.metrics.get(one.quantity) for run in group.runs)
    return next((figure.unit for figure in figures if isinstance(figure, Figure)), one.unit)


def _as_factor(ratio: Figure) -> Figure:
    return replace(ratio, unit=_FACTOR)

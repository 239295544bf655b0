"""The study of data movement as one HTML file: who wins, beside what Das et al. published, and charts by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from wattstep.insight.compare.data_movement import CPU, PUBLISHED, SOURCE, Study, Way
from wattstep.insight.compare.data_movement import Row as Trained
from wattstep.report.data_movement import cautions, products_in_words
from wattstep.report.html.page import Plot, Plots, code_of, own_file, template, write_at_once
from wattstep.report.html.paper.by_batch import Line, line_chart
from wattstep.report.html.paper.drawn import KeyEntry
from wattstep.report.html.paper.published import Published
from wattstep.report.tables import Row, Table, table
from wattstep.report.values import plain
from wattstep.report.wording import STATUS_MEANINGS
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.opencl import COPYING

FILE: Final = "data-movement.html"
THEIR_BATCH: Final = 32
MOVEMENT: Final = Published(
    figure="movement", what="share of data movement", value=0.91, unit="ratio", place="abstract",
    model="Das et al.", batch=THEIR_BATCH, label="Das et al., a phone's GPU: almost 91 % of training",
)  # fmt: skip
_FACTOR: Final = "×"
_STATUSES: Final = ("measured", "attributed", "predicted", "missing")
_TEXTS: Final = {"net": "Net", "batch": "Batch", "way": "Way"}
_FIGURES: Final = {
    "step_time": "Step", "predicted": "Step at the ceilings", "over": "Over the CPU",
    "predicted_over": "Over the CPU, at the ceilings", "compute_share": "Computing",
    "data_movement_share": "Moving data", "launch_share": "Launches, gaps", "rate": "Rate",
    "energy_per_step": "Energy of a step",
}  # fmt: skip


def write_study_page(study: Study, path: Path) -> None:
    """Writes the page, in one piece or not at all; an older one is replaced."""
    write_at_once(render_study(study), path)


def render_study(study: Study) -> str:
    """The page as text."""
    plots = Plots()
    return template("data_movement.html").render(
        title=plain(study.title),
        cautions=[plain(line) for line in cautions(study)],
        wins=_wins(study),
        beside=_beside(study),
        products=[plain(line) for line in products_in_words(study)],
        published=PUBLISHED["products"],
        source=SOURCE,
        nets=[(plain(net), _plots(study, net, plots)) for net in study.asked.nets],
        key=_key(study),
        rows=table(_rows(study), _TEXTS, _FIGURES),
        meanings={status: STATUS_MEANINGS[status] for status in _STATUSES},
        style=Markup(own_file("report.css")),
        code=code_of(plots),
    )


def over(speed_up: Figure) -> Figure:
    """A step over the CPU's, of what the CPU's is over it."""
    if not speed_up.value:
        return missing(_FACTOR, speed_up.reason or "not known")
    ends = (speed_up.high, speed_up.low)
    low, high = (1 / each if each else None for each in ends)
    return replace(
        speed_up, value=1 / speed_up.value, low=low, high=high, unit=_FACTOR,
        method="mean step here over that of the CPU"
        if speed_up.status is not Status.PREDICTED
        else speed_up.method,
    )  # fmt: skip


def _wins(study: Study) -> Table:
    """From which batch on each way wins: measured beside predicted."""
    rows: list[Row] = []
    for net in study.asked.nets:
        for way in study.asked.device_ways:
            won = study.wins(net, way.name)
            measured = (
                missing("samples", "at no batch of these beyond doubt")
                if won is None
                else Figure(
                    value=float(won), unit="samples", status=Status.MEASURED,
                    source="step times", method="least batch from which on intervals exclude each other",
                )
            )  # fmt: skip
            predicted = study.predicted_wins(net, way.name)
            rows.append({"net": net, "way": way.name, "measured": measured, "predicted": predicted})
    return table(
        rows, {"net": "Net", "way": "Way"}, {"measured": "From batch", "predicted": "From batch, by the ceilings"}
    )  # fmt: skip


def _beside(study: Study) -> Table:
    """What was published of a GPU to which all crosses, beside the mode that does likewise, at their batch."""
    compared: Sequence[tuple[str, Callable[[Trained, str], Figure]]] = (
        (PUBLISHED["movement"], lambda row, way: row.cells[way].figures["data_movement_share"]),
        (PUBLISHED["copies"], _copies_over_computing),
        (PUBLISHED["slower"], lambda row, way: over(row.speed_up(way))),
    )
    theirs = {net: row for net in study.asked.nets if (row := _at_their_batch(study, net))}
    rows: list[Row] = [
        {
            "published": published, "way": way.name,
            **{net: figure(row, way.name) for net, row in theirs.items()},
        }
        for way in study.asked.device_ways
        if way.mode == COPYING
        for published, figure in compared
    ]  # fmt: skip
    heads = {net: f"{net}, batch {row.batch}" for net, row in theirs.items()}
    return table(rows, {"published": "Das et al., a phone's GPU", "way": "Here"}, heads)


def _at_their_batch(study: Study, net: str) -> Trained | None:
    rows = [row for row in study.rows if row.net == net]
    return min(rows, key=lambda row: abs(row.batch - THEIR_BATCH), default=None)


def _copies_over_computing(row: Trained, way: str) -> Figure:
    figures = row.cells[way].figures
    moving, computing = figures["data_movement_share"], figures["compute_share"]
    if moving.value is None or not computing.value:
        return missing(_FACTOR, moving.reason or computing.reason or "nothing was computed")
    return replace(
        moving, value=moving.value / computing.value, low=None, high=None, unit=_FACTOR,
        method="share of moving data over that of computing",
    )  # fmt: skip


def _plots(study: Study, net: str, plots: Plots) -> list[Plot]:
    rows = [row for row in study.rows if row.net == net]
    times = [line for way in study.asked.ways for line in _times(rows, way, study)]
    shares = [
        _line(rows, way.name, _number(study, way), "data_movement_share")
        for way in study.asked.device_ways
    ]
    placed = []
    for title, lines, published in (
        ("Time of a step", times, ()),
        ("Share of the step that moves data", shares, (MOVEMENT,)),
    ):
        statuses = dict.fromkeys(f.status.value for line in lines for _, f in line.points)
        plot = plots.place(line_chart(lines, published, {}), f"{net}: {title}")
        if plot is not None:
            placed.append(replace(plot, statuses=tuple(statuses)))
    return placed


def _times(rows: Sequence[Trained], way: Way, study: Study) -> list[Line]:
    lines = [_line(rows, way.name, _number(study, way), "step_time")]
    if way.name != CPU:
        lines.append(_line(rows, way.name, _number(study, way), "predicted"))
    return lines


def _line(rows: Sequence[Trained], way: str, number: int, figure: str) -> Line:
    points = ((row.batch, row.cells[way].figures[figure]) for row in rows)
    label = f"{way}, at the ceilings" if figure == "predicted" else way
    known = tuple((batch, each) for batch, each in points if each.value is not None)
    return Line(label=label, number=number, points=known)


def _number(study: Study, way: Way) -> int:
    return study.asked.ways.index(way)


def _key(study: Study) -> list[KeyEntry]:
    return [
        Line(label=way.name, number=_number(study, way), points=()).key for way in study.asked.ways
    ]


def _rows(study: Study) -> list[dict[str, Any]]:
    return [
        {
            "net": row.net, "batch": f"{row.batch:,}", "way": way, **cell.figures,
            **(
                {}
                if way == CPU
                else {
                    "over": over(row.speed_up(way)),
                    "predicted_over": over(row.predicted_speed_up(way)),
                }
            ),
        }
        for row in study.rows
        for way, cell in row.cells.items()
    ]  # fmt: skip

"""A run, and its operations, as a picture in a notebook: no script, nothing from any network, and small."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from markupsafe import Markup, escape

from wattstep.errors import DamagedRunError
from wattstep.report import wording
from wattstep.report.html.page import own_file
from wattstep.report.values import Shown, brief, quantity, show
from wattstep.run.three_steps import POWER_ROLE, ThreeSteps
from wattstep.schema.figure import Figure
from wattstep.schema.report_rows import CostRow
from wattstep.schema.run_report import RunReport

LONGEST = 300  # characters of a sentence
LONGEST_NAME = 60
MOST_PARTS = 8  # of a step
MOST_POINTS = 300  # of the curve
FEW_POINTS = 40
MOST_ROWS = 20  # of operations
WIDTH, BAR, CURVE = 640, 22, 90  # px
IN_TURN = ("data", "forward", "backward", "optimizer")  # as they follow in a step


def picture(run: Any) -> str:
    """A `wattstep.Run` as HTML of less than 100 kB; a damaged one says so."""
    try:
        report, closer = run.report(), run.timeline().three_steps
    except DamagedRunError as error:
        return _framed([Markup("<p>{}</p>").format(brief(error, LONGEST))])
    return _framed(
        [
            Markup("<h4>{}</h4>").format(brief(wording.title(report), LONGEST_NAME)),
            Markup("<p>{}</p>").format(
                " ".join(brief(sentence, LONGEST) for sentence in wording.summary(report))
            ),
            _figures(report),
            _step(report),
            _power(closer),
        ]
    )


def operations(rows: Sequence[CostRow]) -> str:
    """The operations that take most time, as an HTML table."""
    timed = sorted(rows, key=lambda row: -(row.figure("time").value or 0.0))
    head = Markup("").join(
        Markup("<th>{}</th>").format(name)
        for name in ("Operation", "Layer", "Phase", "Time", "Energy")
    )
    body = Markup("").join(_operation(row) for row in timed[:MOST_ROWS])
    more = len(timed) - MOST_ROWS
    note = f"{more} further operations take less." if more > 0 else ""
    table = Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(head, body)
    return _framed([table, Markup("<p>{}</p>").format(note)])


def _framed(parts: Sequence[Markup]) -> str:
    style = Markup(own_file("notebook.css"))
    return str(
        Markup('<div class="wattstep-run"><style>{}</style>{}</div>').format(
            style, Markup("").join(parts)
        )
    )


def _badge(shown: Shown) -> Markup:
    return Markup('<span class="status {}">{}</span>').format(shown.status, shown.status)


def _figures(report: RunReport) -> Markup:
    cells = []
    for _, metric, shown in wording.headlines(report):
        aside = brief(shown.reason if shown.missing else shown.interval, LONGEST)
        cells.append(
            Markup("<div><dt>{}</dt><dd><b>{}</b> {}<small>{}</small></dd></div>").format(
                metric.label, shown.value, _badge(shown), aside
            )
        )
    return Markup("<dl>{}</dl>").format(Markup("").join(cells))


def _step(report: RunReport) -> Markup:
    """Stacked bar of the phases of a step."""
    timed = [
        (brief(row.phase or "other", LONGEST_NAME), seconds)
        for row in report.phases
        if (seconds := row.figures.value("time") or 0.0) > 0
    ][:MOST_PARTS]
    timed.sort(key=lambda part: IN_TURN.index(part[0]) if part[0] in IN_TURN else len(IN_TURN))
    total = sum(seconds for _, seconds in timed)
    if not total:
        return Markup("")
    edges = [0.0, *accumulate(WIDTH * seconds / total for _, seconds in timed)]
    bars = Markup("").join(
        Markup('<rect class="{}" x="{:.1f}" y="0" width="{:.1f}" height="{}"/>').format(
            _color(name), left, right - left, BAR
        )
        for (name, _), (left, right) in zip(timed, pairwise(edges), strict=True)
    )
    legend = Markup("").join(
        Markup('<li><i class="{}"></i>{} {}</li>').format(
            _color(name), name, quantity(seconds, "s")
        )
        for name, seconds in timed
    )
    label = "Where the time of a step goes, by phase"
    return Markup("<h5>{}</h5>{}<ul>{}</ul>").format(label, _drawing(bars, BAR, label), legend)


def _power(closer: ThreeSteps) -> Markup:
    """Power over three steps, the phases behind it."""
    channel = next((one for one in closer.channels if one.role == POWER_ROLE), None)
    known = [] if channel is None else [(t, w) for t, w in channel.points if w is not None]
    steps = closer.steps
    if channel is None or not known or not steps:
        return Markup("")
    points = known[:: 1 + len(known) // MOST_POINTS]
    begin, end = min(points[0][0], steps[0].start), max(points[-1][0], steps[-1].end)
    most: float = max(watts for _, watts in points) or 1.0

    def across(t: float) -> float:
        return float(WIDTH * (t - begin) / ((end - begin) or 1.0))

    bands = [
        Markup('<rect class="{}" opacity="0.25" x="{:.1f}" y="0" width="{:.1f}" height="{}"/>').format(
            _color(phase.name), across(phase.start),
            max(across(phase.end) - across(phase.start), 0.0), CURVE,
        )
        for step in steps
        for phase in step.phases[:MOST_PARTS]
    ]  # fmt: skip
    line = " ".join(f"{across(t):.1f},{CURVE - 0.9 * CURVE * w / most:.1f}" for t, w in points)
    curve = Markup('<polyline points="{}"/>').format(line)
    if len(points) < FEW_POINTS:  # a line alone would not show a single sample
        curve += Markup("").join(
            Markup('<rect class="sample" x="{:.1f}" y="{:.1f}" width="5" height="5"/>').format(
                across(t) - 2.5, CURVE - 0.9 * CURVE * watts / most - 2.5
            )
            for t, watts in points
        )
    label = (
        f"Power over {len(steps)} steps, {quantity(end - begin, 's')}, "
        f"up to {quantity(most, 'W')}, {channel.status}"
    )
    drawing = _drawing(Markup("").join([*bands, curve]), CURVE, label)
    return Markup("<h5>{}</h5>{}").format(label, drawing)


def _drawing(inside: Markup, height: int, label: str) -> Markup:
    return Markup(
        '<svg viewBox="0 0 {} {}" preserveAspectRatio="none" style="height:{}px" role="img" '
        'aria-label="{}">{}</svg>'
    ).format(WIDTH, height, height, label, inside)


def _color(phase: str) -> str:
    """A class of ours, whatever the phase is called."""
    return phase if phase in IN_TURN else "other"


def _operation(row: CostRow) -> Markup:
    names = Markup("").join(
        Markup("<td>{}</td>").format(escape(brief(text, LONGEST_NAME)))
        for text in (row.name, row.layer, row.phase)
    )
    amounts = _amount(row.figure("time")), _amount(row.figure("energy"))
    return Markup("<tr>{}{}{}</tr>").format(names, *amounts)


def _amount(figure: Figure) -> Markup:
    shown = show(figure)
    return Markup("<td>{} {}</td>").format(shown.value, _badge(shown))

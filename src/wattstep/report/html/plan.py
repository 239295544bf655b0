"""A plan as one HTML file, which opens offline and asks nothing of any network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from wattstep.plan import Estimate, Plan
from wattstep.predict.prediction import SURE
from wattstep.report.front import Front, Point
from wattstep.report.html.front_chart import front_chart
from wattstep.report.html.page import Plot, Plots, code_of, own_file, template, write_at_once
from wattstep.report.plan_view import (
    answer,
    figure_rows,
    front_rows,
    headline,
    losing_lines,
    same_training,
)
from wattstep.report.values import BYTES_NOTE, plain, show


def write_plan_page(
    plan: Plan, path: Path, asked: tuple[Estimate, Sequence[str]] | None = None
) -> None:
    """Writes a plan as a page, in one piece or not at all.

    Args:
        plan: The plan.
        path: The file; an older one is replaced.
        asked: As of `Plan.why_not`.
    """
    write_at_once(render_plan(plan, asked), path)


def render_plan(plan: Plan, asked: tuple[Estimate, Sequence[str]] | None = None) -> str:
    """A plan as the text of an HTML page."""
    plots = Plots()
    return template("plan.html").render(
        title=plain(headline(plan)),
        found=plan.chosen is not None,
        answer=plain(answer(plan)),
        searched=same_training(plan),
        figures=figure_rows(plan),
        repeated=[plain(line) for line in plan.repeated],
        remedies=[plain(line) for line in plan.remedies],
        plot=_front_plot(plan, plots),
        front=front_rows(plan, None),
        losing=[plain(line) for line in losing_lines(plan)],
        asked=[] if asked is None else [plain(line) for line in asked[1]],
        risks=[plain(line) for line in plan.risks],
        bytes_note=BYTES_NOTE,
        style=Markup(own_file("report.css") + own_file("sweep.css")),
        code=code_of(plots),
    )


def _front_plot(plan: Plan, plots: Plots) -> Plot | None:
    """Energy over time of all that fit; None where energy is not known."""
    front = {id(each) for each in plan.front}
    points = tuple(
        Point(
            title=plain(each.configuration.text),
            seconds=float(each.figures["time"]),
            joules=float(each.figures["energy"]),
            energy=show(each.figures["energy"]),
            power=show(each.figures["mean_power"]),
            on_front=id(each) in front,
        )
        for each in sorted(plan.estimates, key=lambda each: float(each.figures["time"]))
        if each.fits_with >= SURE and not each.figures["energy"].missing
    )
    if not points:
        return None
    chart = front_chart(Front(workload=plain(plan.title), points=points), of="session")
    return plots.place(chart, "Energy and time of a session, predicted")

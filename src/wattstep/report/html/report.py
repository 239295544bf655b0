"""HTML report of one or several runs in a single file that opens offline and asks nothing of any network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from wattstep.errors import DamagedRunError
from wattstep.insight.compare.process import Process, process_of
from wattstep.insight.explain.section import Section
from wattstep.report import machines, wording
from wattstep.report.html.compared import compared_section
from wattstep.report.html.explained import sections_of, variables_of
from wattstep.report.html.lanes import (
    BUDGET,
    LANES_SCRIPTS,
    LEAST_BUDGET,
    lanes_section,
)
from wattstep.report.html.page import (
    Plots,
    code_of,
    own_file,
    template,
    write_at_once,
)
from wattstep.report.html.paper.readings import Readings, reading
from wattstep.report.html.paper.section import cai_section, paper_section
from wattstep.report.html.parted import parted
from wattstep.report.html.run import rankings, run_section
from wattstep.report.html.shared import reasons_of, reasons_once, told_once, without_notes
from wattstep.report.located import located
from wattstep.report.several import related, summary_of_all
from wattstep.report.tables import table
from wattstep.report.values import BYTES_NOTE, plain
from wattstep.run import Run, load
from wattstep.run.three_steps import ThreeSteps
from wattstep.run.timeline import Timeline
from wattstep.schema.daily_report import DailyReport
from wattstep.schema.failures import Failure, Failures, contained
from wattstep.schema.figure import Missing
from wattstep.schema.metrics import OWN
from wattstep.schema.run_report import RunReport

MOST_CHARACTERS = 14_900_000  # of a page; those beyond ASCII take two bytes or three
_TWO = 2  # sides of a comparison that says which is better
_COMPARED = ("step_time", "throughput", "energy_per_step", "energy_per_sample", "peak_memory")
_RANKED = ("step_time", "energy_per_step", "peak_memory")


@dataclass(frozen=True, kw_only=True)
class Reported:
    """Run as a report shows it.

    Attributes:
        report: Report of the run.
        timeline: The whole run; None leaves its timeline out.
        three_steps: Three steps of it, for the paper's figures.
        state: State of the device that a sweep had set; "": as it was.
        process: Data that comparisons need of it; None: it is not compared.
        explained: Sections of `wattstep explain`, or why they are left out.
        failures: Its parts that failed inside.
    """

    report: RunReport
    timeline: Timeline | None = None
    three_steps: ThreeSteps = field(default_factory=ThreeSteps)
    state: str = ""
    process: Process | None = None
    explained: Sequence[Section] | Missing = ()
    failures: Sequence[Failure] = ()


@dataclass(frozen=True, kw_only=True)
class Unreadable:
    """A run that cannot be shown, and why; the report says so and goes on.

    Attributes:
        path: Its name.
        reason: Why, in words.
        failure: Text of the exception, where one is the cause; "" where the run is damaged.
        id: Of the error, where the run is damaged.
    """

    path: str
    reason: str
    failure: str = ""
    id: str = ""


def read_run(path: Path, state: str = "", *, explained: bool = False) -> Reported | Unreadable:
    """Opens a run for a report.

    Args:
        path: Its folder.
        state: State of the device that a sweep had set.
        explained: True if it is explained as well, which takes up to a second.
    """
    try:
        return _reported(load(path), state, explained)
    except DamagedRunError as error:
        return Unreadable(path=plain(path.name), reason=plain(error), id=error.id)
    except Exception as error:
        reason = plain(contained(error))
        return Unreadable(path=plain(path.name), reason=f"it failed: {reason}", failure=reason)


def _reported(run: Run, state: str, explained: bool) -> Reported:
    failures = run.failures
    report = run.report()
    sections: Sequence[Section] | Missing = sections_of(run) if explained else ()
    for section in () if isinstance(sections, Missing) else sections:
        if section.failure:
            failures.add(f"explain: {section.name}", section.failure)
    timeline = failures.guard("timeline", run.timeline, None)
    return Reported(
        report=report,
        timeline=timeline,
        three_steps=failures.guard(
            "three steps", lambda: timeline.three_steps if timeline else ThreeSteps(), ThreeSteps()
        ),
        state=state,
        process=failures.guard("comparison", lambda: process_of(report), None),
        explained=sections,
        failures=tuple(failures),
    )


def write_report(
    runs: Sequence[Reported],
    path: Path,
    unreadable: Sequence[Unreadable] = (),
    daily: Sequence[DailyReport] = (),
    failures: Failures | None = None,
    paper: bool = True,
) -> None:
    """Writes the report of some runs as one HTML file, in one piece or not at all.

    Args:
        runs: Runs as the report shows them.
        path: The file; its folder is made if need be, and an older file is replaced.
        unreadable: Runs that were asked for and cannot be shown.
        daily: Results of daily trainings.
        failures: Takes note of parts that failed inside.
        paper: Whether the paper's figures were asked for; else they are there where all can be drawn.
    """
    write_at_once(render_report(runs, unreadable, daily, failures, paper), path)


def render_report(
    runs: Sequence[Reported],
    unreadable: Sequence[Unreadable] = (),
    daily: Sequence[DailyReport] = (),
    failures: Failures | None = None,
    paper: bool = True,
) -> str:
    """The report of some runs as the text of an HTML page; parts that failed are listed in it."""
    failures = Failures() if failures is None else failures
    note_failures(runs, unreadable, failures)
    plots = Plots()
    reports = [located(run.report, f"/runs/{number}") for number, run in enumerate(runs)]
    # Whether unrelated networks differ nobody asks.
    processes = [run.process for run in runs if run.process is not None and related(reports)]
    compared = failures.guard("comparison", lambda: compared_section(processes), None)
    answered = compared is not None and (
        compared.one_configuration or (len(compared.sides) == _TWO and not compared.refusal)
    )
    overview = None
    if len(runs) > 1:
        overview = failures.guard("side by side", lambda: _overview(reports, plots, answered), None)
    sections = [
        {
            **run_section(f"run-{number}", report, plots, failures),
            "title": title,
            "explained": variables_of(run.explained, plots),
        }
        for number, (title, report, run) in enumerate(
            zip(wording.titles(reports), reports, runs, strict=True), start=1
        )
    ]

    def readings() -> Readings:
        read = [
            reading(report, run.three_steps, run.state)
            for report, run in zip(reports, runs, strict=True)
        ]
        return Readings(runs=read, daily=daily)

    render = partial(
        template("report.html").render,
        title=_page_title(reports, daily),
        paper=failures.guard(
            "the paper's figures", lambda: paper_section(readings(), plots, paper), None
        ),
        cai=failures.guard(
            "the figures of Cai et al.", lambda: cai_section(readings(), plots, paper), None
        ),
        compared=compared,
        unreadable=unreadable,
        meanings=wording.STATUS_MEANINGS,
        bytes_note=BYTES_NOTE,
        style=Markup(own_file("report.css") + own_file("lanes.css")),
        code=code_of(plots, *(LANES_SCRIPTS if any(run.timeline for run in runs) else ())),
    )
    return _within_size([run.timeline for run in runs], sections, overview, render, failures)


def note_failures(
    runs: Sequence[Reported], unreadable: Sequence[Unreadable], failures: Failures
) -> None:
    """Takes note of what failed inside while runs were read."""
    for run in runs:
        for one in run.failures:
            failures.add(f"{Path(run.report.run).name}: {one.part}", one.reason)
    for each in unreadable:
        if each.failure:
            failures.add(each.path, each.failure)


def _once(
    sections: Sequence[Mapping[str, Any]], overview: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Variables of the template for the runs, each thing told in one place."""
    if len(sections) < 2:
        runs = [reasons_once(each, set()) for each in sections]
        return {"runs": runs, "shared": None, "overview": overview}
    shared, left = told_once(sections)
    notes: set[str] = set()
    above = reasons_of(shared)
    if overview is not None:
        below = [reason for each in (shared, *left) for reason in reasons_of(each)]
        overview = {**overview, "table": without_notes(overview["table"], below, notes)}
    listed = shared["missing"]
    shared = reasons_once(shared, notes)
    runs = [reasons_once(each, notes, above, listed) for each in left]
    return {"runs": runs, "shared": shared, "overview": overview}


def _within_size(
    timelines: Sequence[Timeline | None],
    sections: Sequence[Mapping[str, Any]],
    overview: Mapping[str, Any] | None,
    render: Callable[..., str],
    failures: Failures,
) -> str:
    """The page with as much of the whole runs as it has room for."""
    budget = BUDGET
    while True:
        share = budget // max(len(timelines), 1)
        whole = [
            {**section, "lanes": failures.guard("whole run", draw, None)}
            for section, draw in (
                (section, partial(lanes_section, section["id"], each, share))
                for section, each in zip(sections, timelines, strict=True)
            )
        ]
        failed = [(plain(one.part), plain(one.reason)) for one in failures]
        page = render(**_once(whole, overview), failures=failed)
        over = len(page) - MOST_CHARACTERS
        if over <= 0 or budget <= LEAST_BUDGET:
            return page
        budget = max(min(budget, _lane_bytes(whole)) - over, LEAST_BUDGET)


def _lane_bytes(sections: Sequence[Mapping[str, Any]]) -> int:
    lanes = [section["lanes"] for section in sections if section["lanes"]]
    return sum(len(blob) for each in lanes for blob in each["blobs"].values())


def _page_title(reports: Sequence[RunReport], daily: Sequence[DailyReport]) -> str:
    if not reports and daily:
        return "Training by the day"
    return wording.title(reports[0]) if len(reports) == 1 else f"{len(reports)} runs"


def _overview(reports: Sequence[RunReport], plots: Plots, answered: bool) -> dict[str, Any]:
    """The runs beside each other; which is best in words, unless a comparison has answered that, or need not."""
    sides = wording.side_by_side(reports)
    rows = [
        {"run": title, "engine": report.engine, "machine": machines.short(report.device), **metrics}
        for title, report, metrics in zip(wording.titles(reports), reports, sides, strict=True)
    ]
    own = [name for name in OWN if any(name in side for side in sides)]
    names = dict.fromkeys((*wording.compared(reports), *_COMPARED, *own))
    labels = {name: wording.among(sides[0], name).label for name in names}
    ranked = dict.fromkeys((*wording.compared(reports)[:1], *_RANKED))
    differing = {
        key: wording.label(key)
        for key in ("engine", "machine")
        if len({row[key] for row in rows}) > 1
    }
    return {
        "summary": summary_of_all(reports, answers=not answered),
        "table": table(rows, {"run": "Run", **differing}, labels),
        # Bars beside each other rank: runs of unrelated networks are not.
        "plots": rankings(rows, "run", {name: labels[name] for name in ranked}, plots)
        if related(reports)
        else [],
        "parted": parted(reports),
    }

"""One HTML file for one or several runs, which opens offline and asks nothing of any network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from wattstep.comparison.process import Process, process_of
from wattstep.errors import DamagedRunError
from wattstep.explaining.section import Section
from wattstep.records.failures import Failure, Failures, contained
from wattstep.reports import machines, wording
from wattstep.reports.located import located
from wattstep.reports.pages.compared import compared_section
from wattstep.reports.pages.explained import sections_of, told
from wattstep.reports.pages.lanes import (
    BUDGET,
    LANES_SCRIPTS,
    LEAST_BUDGET,
    lanes_section,
)
from wattstep.reports.pages.page import (
    Plots,
    content_policy,
    embedded,
    own_file,
    script_source,
    write_at_once,
)
from wattstep.reports.pages.paper.readings import Readings, reading
from wattstep.reports.pages.paper.section import paper_section
from wattstep.reports.pages.run import Timeline, rankings, run_section
from wattstep.reports.several import summary_of_all
from wattstep.reports.tables import table
from wattstep.reports.values import BYTES_NOTE, plain
from wattstep.reports.wording import Document
from wattstep.run import Run, load
from wattstep.run.lanes import Lanes

MOST_CHARACTERS = 14_900_000  # of a page; those beyond ASCII take two bytes or three
_COMPARED = ("step_time", "throughput", "energy_per_step", "energy_per_sample", "peak_memory")
_RANKED = ("step_time", "energy_per_step", "peak_memory")


@dataclass(frozen=True, kw_only=True)
class Reported:
    """What a report is told of a run.

    Attributes:
        document: The run document, as `--json` prints it.
        timeline: Three steps in full (`Run.timeline`); `{}` if there is none.
        lanes: The whole run (`Run.lanes`); None leaves its timeline out.
        state: State of the device that a sweep had set; "": as it was.
        process: What comparisons need of it; None: it is not compared.
        explained: What `wattstep explain` says of it, or why that is left out.
        failures: Its parts that failed inside.
    """

    document: Document
    timeline: Timeline = field(default_factory=dict)
    lanes: Lanes | None = None
    state: str = ""
    process: Process | None = None
    explained: Sequence[Section] | str = ()
    failures: Sequence[Failure] = ()


@dataclass(frozen=True, kw_only=True)
class Unreadable:
    """A run that cannot be shown, and why; the report says so and goes on.

    Attributes:
        path: Its name.
        reason: Why, in words.
        failure: What went wrong inside, where that is why; "" where the run is damaged.
    """

    path: str
    reason: str
    failure: str = ""


def read_run(path: Path, state: str = "", *, explained: bool = False) -> Reported | Unreadable:
    """Opens a run for a report.

    Args:
        path: Its folder.
        state: State of the device that a sweep had set.
        explained: Whether it is explained as well, which takes up to a second.
    """
    try:
        return _reported(load(path), state, explained)
    except DamagedRunError as error:
        return Unreadable(path=plain(path.name), reason=plain(error))
    except Exception as error:
        reason = plain(contained(error))
        return Unreadable(path=plain(path.name), reason=f"it failed: {reason}", failure=reason)


def _reported(run: Run, state: str, explained: bool) -> Reported:
    failures = run.failures
    document = run.document()
    sections: Sequence[Section] | str = sections_of(run) if explained else ()
    for section in () if isinstance(sections, str) else sections:
        if section.failure:
            failures.add(f"explain: {section.name}", section.failure)
    return Reported(
        document=document,
        timeline=failures.guard("timeline", run.timeline, {}),
        lanes=failures.guard("whole run", run.lanes, None),
        state=state,
        process=failures.guard(
            "comparison", lambda: process_of(run, run.breakdown, run.metrics()), None
        ),
        explained=sections,
        failures=tuple(failures),
    )


def write_report(
    runs: Sequence[Reported],
    path: Path,
    unreadable: Sequence[Unreadable] = (),
    daily: Sequence[Document] = (),
    failures: Failures | None = None,
) -> None:
    """Writes the report of some runs as one HTML file, in one piece or not at all.

    Args:
        runs: What is told of each.
        path: The file; its folder is made if need be, and an older file is replaced.
        unreadable: Runs that were asked for and cannot be shown.
        daily: Documents of daily trainings, as `daily.document` makes them.
        failures: Takes note of parts that failed inside.
    """
    write_at_once(render_report(runs, unreadable, daily, failures), path)


def render_report(
    runs: Sequence[Reported],
    unreadable: Sequence[Unreadable] = (),
    daily: Sequence[Document] = (),
    failures: Failures | None = None,
) -> str:
    """The report of some runs as the text of an HTML page; parts that failed are listed in it."""
    failures = Failures() if failures is None else failures
    for run in runs:
        for one in run.failures:
            failures.add(f"{Path(str(run.document.get('run', ''))).name}: {one.part}", one.reason)
    for each in unreadable:
        if each.failure:
            failures.add(each.path, each.failure)
    environment = Environment(
        loader=PackageLoader("wattstep.reports.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    plots = Plots()
    documents = [located(run.document, f"/runs/{number}") for number, run in enumerate(runs)]
    overview = None
    if len(runs) > 1:
        overview = failures.guard("side by side", lambda: _overview(documents, plots), None)
    sections = [
        {
            **run_section(f"run-{number}", document, run.timeline, plots, failures),
            "explained": told(run.explained),
        }
        for number, (document, run) in enumerate(zip(documents, runs, strict=True), start=1)
    ]
    names = ("report.js", *(LANES_SCRIPTS if any(run.lanes for run in runs) else ()))
    scripts = [script_source(own_file(name)) for name in names]
    plotly = script_source(get_plotlyjs())

    def paper() -> dict[str, Any] | None:
        readings = [
            reading(document, run.timeline, run.state)
            for document, run in zip(documents, runs, strict=True)
        ]
        return paper_section(Readings(runs=readings, daily=daily), plots)

    processes = [run.process for run in runs if run.process is not None]
    compared = failures.guard("comparison", lambda: compared_section(processes), None)
    render = partial(
        environment.get_template("report.html").render,
        title=_page_title(documents, daily),
        overview=overview,
        paper=failures.guard("the paper's figures", paper, None),
        compared=compared,
        unreadable=unreadable,
        meanings=wording.STATUS_MEANINGS,
        bytes_note=BYTES_NOTE,
        style=Markup(own_file("report.css") + own_file("lanes.css")),
        scripts=scripts,
        plotly=plotly,
        policy=content_policy([*scripts, plotly]),
        charts=Markup(embedded(plots.placed)),
    )
    return _within_size([run.lanes for run in runs], sections, render, failures)


def _within_size(
    lanes: Sequence[Lanes | None],
    sections: Sequence[Mapping[str, Any]],
    render: Callable[..., str],
    failures: Failures,
) -> str:
    """The page with as much of the whole runs as it has room for."""
    budget = BUDGET
    while True:
        share = budget // max(len(lanes), 1)
        whole = [
            {**section, "lanes": failures.guard("whole run", draw, None)}
            for section, draw in (
                (section, partial(lanes_section, section["id"], each, share))
                for section, each in zip(sections, lanes, strict=True)
            )
        ]
        failed = [(plain(one.part), plain(one.reason)) for one in failures]
        page = render(runs=whole, failures=failed)
        over = len(page) - MOST_CHARACTERS
        if over <= 0 or budget <= LEAST_BUDGET:
            return page
        budget = max(min(budget, _taken(whole)) - over, LEAST_BUDGET)


def _taken(sections: Sequence[Mapping[str, Any]]) -> int:
    found = [section["lanes"] for section in sections if section["lanes"]]
    return sum(len(blob) for each in found for blob in each["blobs"].values())


def _page_title(documents: Sequence[Document], daily: Sequence[Document]) -> str:
    if not documents and daily:
        return "Training by the day"
    return wording.title(documents[0]) if len(documents) == 1 else f"{len(documents)} runs"


def _overview(documents: Sequence[Document], plots: Plots) -> dict[str, Any]:
    rows = [
        {
            "run": title,
            "engine": document.get("engine"),
            "machine": machines.short(document),
            **metrics,
        }
        for title, document, metrics in zip(
            wording.titles(documents), documents, wording.side_by_side(documents), strict=True
        )
    ]
    names = dict.fromkeys((*wording.compared(documents), *_COMPARED))
    labels = {name: wording.metric_of({"metrics": rows[0]}, name).label for name in names}
    ranked = dict.fromkeys((*wording.compared(documents)[:1], *_RANKED))
    differing = {
        key: wording.label(key)
        for key in ("engine", "machine")
        if len({row[key] for row in rows}) > 1
    }
    return {
        "summary": summary_of_all(documents),
        "table": table(rows, {"run": "Run", **differing}, labels),
        "plots": rankings(rows, "run", {name: labels[name] for name in ranked}, plots),
    }

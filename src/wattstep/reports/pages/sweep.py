"""A sweep as one HTML file, which opens offline and asks nothing of any network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from wattstep.reports.front import front_chart, fronts
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
from wattstep.reports.pages.report import Reported
from wattstep.reports.sweep_table import BOARD, Document, evidence, facts, fit_table, unfit
from wattstep.reports.values import BYTES_NOTE, plain


def write_sweep_report(document: Document, path: Path, runs: Sequence[Reported] = ()) -> None:
    """Writes the report of a sweep, in one piece or not at all.

    Args:
        document: Of a sweep.
        path: The file; an older one is replaced.
        runs: Its runs, from which the paper's figures are drawn; none: they are left out.
    """
    write_at_once(render_sweep(document, runs), path)


def render_sweep(document: Document, runs: Sequence[Reported] = ()) -> str:
    """The report of a sweep as the text of an HTML page."""
    environment = Environment(
        loader=PackageLoader("wattstep.reports.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    plots = Plots()
    found = fronts(document)
    drawn = [
        (front, plots.place(front_chart(front), f"{front.workload}: energy and time of a sample"))
        for front in found
    ]
    readings = [reading(run.document, run.timeline, run.state) for run in runs]
    paper = paper_section(Readings(runs=readings), plots)
    # 4 MB, where there is no chart.
    plotly = [script_source(get_plotlyjs())] if plots.placed else []
    scripts = [*plotly, script_source(own_file("report.js"))]
    return environment.get_template("sweep.html").render(
        table=fit_table(document),
        facts=facts(document),
        settings=_settings(document),
        unfit=unfit(document),
        outcomes=[_outcome(outcome) for outcome in document["outcomes"]],
        fronts=drawn,
        paper=paper,
        charts=Markup(embedded(plots.placed)),
        bytes_note=BYTES_NOTE,
        board=BOARD,
        style=Markup(own_file("report.css") + own_file("sweep.css")),
        scripts=scripts,
        policy=content_policy(scripts),
    )


def _settings(document: Document) -> list[tuple[str, str]]:
    """What all configurations have in common, as far as it was chosen."""
    chosen = document["sweep"]["settings"].items()
    return [(key.replace("_", " "), plain(value)) for key, value in chosen if value is not None]


def _outcome(outcome: Mapping[str, Any]) -> dict[str, Any]:
    temperature = outcome["temperature"]
    return {
        "name": plain(outcome["name"]),
        "status": plain(outcome["status"]),
        "state": outcome["status"].replace(" ", "-"),
        "reason": plain(outcome["reason"]),
        "seconds": outcome["ended"] - outcome["started"],
        "temperature": "" if temperature is None else f"{temperature:.1f} °C",
        "run": plain(outcome["run"] or ""),
        "worker": plain(outcome["worker"] or ""),
        "evidence": "" if outcome["status"] == "trained" else "; ".join(evidence(outcome)),
    }

"""A sweep as one HTML file, which opens offline and asks nothing of any network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from wattstep.report.front import Front, fronts
from wattstep.report.html.front_chart import front_chart
from wattstep.report.html.page import (
    Plot,
    Plots,
    code_of,
    own_file,
    template,
    write_at_once,
)
from wattstep.report.html.paper.readings import Readings, reading
from wattstep.report.html.paper.section import cai_section, paper_section
from wattstep.report.html.report import Reported, Unreadable, note_failures
from wattstep.report.sweep_table import BOARD, evidence, facts, fit_table, unfit
from wattstep.report.values import BYTES_NOTE, plain
from wattstep.schema.failures import Failures
from wattstep.schema.outcome import Outcome
from wattstep.schema.sweep_report import SweepReport


def write_sweep_report(
    sweep: SweepReport,
    path: Path,
    runs: Sequence[Reported] = (),
    unreadable: Sequence[Unreadable] = (),
    failures: Failures | None = None,
    paper: bool = False,
) -> None:
    """Writes the report of a sweep, in one piece or not at all.

    Args:
        sweep: Its result.
        path: The file; an older one is replaced.
        runs: Its runs, from which the paper's figures are drawn.
        unreadable: Runs of it that cannot be shown.
        failures: Takes note of parts that failed inside.
        paper: Whether the paper's figures were asked for; else they are there where all can be drawn.
    """
    write_at_once(render_sweep(sweep, runs, unreadable, failures, paper), path)


def render_sweep(
    sweep: SweepReport,
    runs: Sequence[Reported] = (),
    unreadable: Sequence[Unreadable] = (),
    failures: Failures | None = None,
    paper: bool = False,
) -> str:
    """The report of a sweep as the text of an HTML page; parts that failed are listed in it."""
    failures = Failures() if failures is None else failures
    note_failures(runs, unreadable, failures)
    plots = Plots()
    nothing: list[tuple[Front, Plot | None]] = []
    drawn = failures.guard("time and energy", lambda: _fronts(sweep, plots), nothing)
    figures = failures.guard(
        "the paper's figures", lambda: paper_section(_readings(runs), plots, paper), None
    )
    of_cai = failures.guard(
        "the figures of Cai et al.", lambda: cai_section(_readings(runs), plots, paper), None
    )
    return template("sweep.html").render(
        table=fit_table(sweep),
        facts=facts(sweep),
        settings=_settings(sweep),
        unfit=unfit(sweep),
        outcomes=[_outcome(outcome) for outcome in sweep.outcomes],
        fronts=drawn,
        paper=figures,
        cai=of_cai,
        unreadable=unreadable,
        failures=[(plain(one.part), plain(one.reason)) for one in failures],
        bytes_note=BYTES_NOTE,
        board=BOARD,
        style=Markup(own_file("report.css") + own_file("sweep.css")),
        code=code_of(plots),
    )


def _fronts(sweep: SweepReport, plots: Plots) -> list[tuple[Front, Plot | None]]:
    """Each workload's front with its chart."""
    return [
        (front, plots.place(front_chart(front), f"{front.workload}: energy and time of a sample"))
        for front in fronts(sweep)
    ]


def _readings(runs: Sequence[Reported]) -> Readings:
    """The runs of the sweep, as the papers' figures read them."""
    return Readings(runs=[reading(run.report, run.three_steps, run.state) for run in runs])


def _settings(sweep: SweepReport) -> list[tuple[str, str]]:
    """Settings that all configurations have in common, as far as they were chosen."""
    chosen = sweep.settings.items()
    return [(key.replace("_", " "), plain(value)) for key, value in chosen if value is not None]


def _outcome(outcome: Outcome) -> dict[str, Any]:
    temperature = outcome.temperature
    return {
        "name": plain(outcome.configuration.name),
        "status": plain(outcome.status),
        "state": outcome.status.replace(" ", "-"),
        "reason": plain(outcome.reason),
        "seconds": outcome.ended - outcome.started,
        "temperature": "" if temperature is None else f"{temperature:.1f} °C",
        "run": plain(outcome.run or ""),
        "worker": plain(outcome.worker or ""),
        "evidence": "" if outcome.status == "trained" else "; ".join(evidence(outcome)),
    }

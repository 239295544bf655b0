"""The paper's figures in the page: what is open, what is folded away, and hostile names."""

from __future__ import annotations

import html

from tests.reports import synthetic
from tests.reports.pages.paper import made
from tests.reports.synthetic import HOSTILE, HOSTILE_MARKUP

from wattstep.report.html.report import Reported, render_report
from wattstep.report.html.sweep import render_sweep
from wattstep.schema.sweep_report import SweepReport


def reported(*batches: int, workload: str = "lenet") -> list[Reported]:
    return [
        synthetic.reported(document=made.document(workload, batch), timeline=made.timeline())
        for batch in batches
    ]


def test_a_single_run_has_every_figure_folded_away_and_a_reason_for_those_not_drawn() -> None:
    page = html.unescape(render_report(reported(4)))
    assert page.count('class="more figure-of-paper"') == 8
    assert page.count('class="undrawn"') == 5  # 4, 6, 8, 9 and 10
    assert 'id="paper-figure-3">' in page  # not open
    assert "<code>wattstep run NAME --batch 4,16,64</code>" in page


def test_several_runs_have_the_figures_open_and_before_the_runs() -> None:
    page = render_report(reported(4, 64))
    assert 'id="paper-figure-8" open' in page
    assert page.index('id="paper"') < page.index('id="run-1"')


def test_a_daily_training_alone_makes_a_report() -> None:
    page = render_report([], daily=[made.daily()])
    assert "<title>Training by the day · wattstep</title>" in page
    assert 'id="paper-figure-10" open' in page
    assert "No runs." not in page


def test_names_that_are_html_stay_text_in_the_page() -> None:
    hostile = [*reported(4, 16, workload=HOSTILE), *reported(4, 16, workload=HOSTILE_MARKUP)]
    title = made.daily(title=HOSTILE)
    page = render_report(hostile, daily=[title])
    assert HOSTILE not in page
    assert html.escape(HOSTILE) in page
    assert "\x1b" not in page


def test_the_report_of_a_sweep_has_the_figures_where_they_are_asked_for() -> None:
    document = {
        "sweep": {
            "axes": {"workloads": ["lenet"], "batches": [4, 64], "threads": [1],
                     "precisions": ["fp32"], "devices": [None], "repeats": [1]},
            "settings": {}, "machine": {}, "sessions": [], "duration": 1.0,
        },
        "outcomes": [],
    }  # fmt: skip
    sweep = SweepReport.from_dict(document)
    assert 'id="paper"' not in render_sweep(sweep)
    runs = reported(4, 64)  # from which some cannot be drawn: there is no daily training
    assert 'id="paper"' not in render_sweep(sweep, runs)
    page = render_sweep(sweep, runs, paper=True)
    assert 'id="paper-figure-8" open' in page
    assert "plotly" in page

"""Every console with hostile text in all that it is told: nothing steers the terminal, and it ends."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.comparison.made import recorded
from tests.explaining.made import ceilings, measured
from tests.observations.made import observed
from tests.reports import synthetic
from tests.reports.hostile import EVIL, LONG, poisoned
from tests.reports.pages import test_sweep
from tests.reports.test_hostile_values import harmful
from tests.reports.test_memory import footprint

from wattstep.insight.compare.comparing import compare
from wattstep.insight.compare.gate import hold
from wattstep.insight.compare.matrix import compare_all
from wattstep.insight.compare.sides import gathered
from wattstep.insight.explain.section import Section, Table
from wattstep.insight.observe import observe
from wattstep.insight.observe.evidence import Evidence
from wattstep.report.terminal.ceilings import print_ceilings
from wattstep.report.terminal.compare import print_comparison, print_gate, print_matrix
from wattstep.report.terminal.daily import print_daily
from wattstep.report.terminal.explain import print_section
from wattstep.report.terminal.memory import print_footprints
from wattstep.report.terminal.observe import print_observations
from wattstep.report.terminal.run import print_runs
from wattstep.report.terminal.sweep import print_sweep
from wattstep.schema.daily_report import (
    DailyBatch,
    DailyLabels,
    DailyReport,
    Day,
    LabelCounts,
    LabeledDays,
    Published,
)
from wattstep.schema.figure import Figure
from wattstep.schema.footprint import Footprint
from wattstep.schema.run_report import RunReport
from wattstep.schema.sweep_report import SweepReport

WIDTH = 100
MOST_LINES = 1_500  # two runs of which every text is as long as it may be shown


def run_reports(text: str) -> list[RunReport]:
    documents = [synthetic.document(), synthetic.document(title="b")]
    return [synthetic.report(poisoned(document, text)) for document in documents]


def sweep(text: str) -> SweepReport:
    died = test_sweep.outcome("vgg", 4, "out of memory", reason="it ended")
    died["evidence"] |= {"said": "no more", "kernel": "killed", "notes": ["a note"]}
    found: dict[str, Any] = poisoned(
        test_sweep.document(test_sweep.outcome("net", 1), test_sweep.outcome("net", 4), died), text
    )
    report = SweepReport.from_dict(found)
    # Whoever reads a sweep refuses such names: a page must not rely on that.
    outcomes = tuple(replace(one, run=f"runs/a{text}") for one in report.outcomes)
    return replace(report, outcomes=outcomes)


def section(text: str) -> Section:
    row = {"name": f"op{text}", "time": measured(1e-3, "s"), "why": text}
    columns = {"name": f"operation{text}", "time": "time", "why": text}
    table = Table(name="a", title=f"A table{text}", columns=columns, rows=[row] * 3)
    return Section(
        name="a", title=f"A section{text}", sentences=(text, f"so{text}"), tables=(table,),
        figures={f"a_figure{text}": measured(1.0, "s")}, reason=text,
    )  # fmt: skip


def limits(text: str) -> list[Any]:
    found = ceilings()
    level = replace(found.levels[0], name=f"memory{text}")
    return [replace(found, levels=(level,), notes=(f"a note{text}",))]


def daily(text: str) -> DailyReport:
    share = Figure.from_dict(synthetic.figure(0.6, "ratio", "measured", 0.5, 0.7))
    lost = Figure.from_dict(synthetic.missing("J", f"no sensor{text}"))
    day = Day(day=1, accuracy=share, gain=share, time=share, energy=lost)
    batch = DailyBatch(
        batch_size=8, steps_per_day=2, days=(day,), total_time=share, total_energy=lost
    )
    data = {"name": f"digits{text}", "stand_in": True, "stands_for": f"MNIST{text}"}
    paper = Published(workload="lenet", images_per_day=100, accuracy=((0, 0.6), (17, 0.61)))
    labels = DailyLabels(
        begun_with=1, labeled=1, unknown=0, withheld=0, right=share, first_choice=share, time=share,
        energy=lost, days=(LabeledDays(first=1, last=1, by_class={0: LabelCounts(right=1)}),),
    )  # fmt: skip
    return DailyReport(
        folder="daily", workload="lenet", title=f"LeNet{text}", images_per_day=16, days=1,
        epochs_per_day=1, data=data, batches=(batch,), paper=paper, labels=labels,
    )  # fmt: skip


def show_observations(text: str, console: Console) -> None:
    evidence = Evidence(runs=[observed(f"evil{text}"), observed(f"other{text}")])
    print_observations(list(observe(evidence, ())), evidence, console)


CONSOLES: Mapping[str, Callable[[str, Console], None]] = {
    "run": lambda text, console: print_runs(run_reports(text), console),
    "memory": lambda text, console: print_footprints(
        [Footprint.from_dict(poisoned(footprint(n), text)) for n in (4, 8)], console
    ),
    "sweep": lambda text, console: print_sweep(sweep(text), console),
    "explain": lambda text, console: print_section(section(text), console),
    "ceilings": lambda text, console: print_ceilings(limits(text), console),
    "daily": lambda text, console: print_daily(daily(text), console),
    "observe": show_observations,
}


def printed(name: str, text: str, width: int = WIDTH) -> str:
    stream = io.StringIO()
    CONSOLES[name](text, Console(file=stream, width=width, no_color=True))
    return stream.getvalue()


def check(text: str, width: int = WIDTH) -> None:
    assert harmful(text) <= {"\n"}
    lines = text.split("\n")
    assert max(map(cell_len, lines)) <= width
    assert len(lines) < MOST_LINES


@pytest.mark.parametrize("name", CONSOLES)
def test_hostile_text_is_shown_and_steers_nothing(name: str) -> None:
    text = printed(name, EVIL)
    check(text)
    wide = printed(name, "[red]evil[/red] [/] [link=x]", 1_000)
    if name != "observe":  # which names runs only where it can tell something of them
        assert "[red]evil[/red] [/] [link=x]" in wide  # rich took it for text


@pytest.mark.parametrize("name", CONSOLES)
def test_text_without_an_end_leaves_the_layout(name: str) -> None:
    check(printed(name, LONG))
    check(printed(name, "\u202e" * 10_000))


def test_comparisons_of_runs_with_hostile_names_steer_nothing(tmp_path: Path) -> None:
    evil = "\x1b[31m[red]\u202e<b>\n"
    paths = [
        [recorded(tmp_path / f"{side}{n}{evil}", 1 + n / 50, title=f"{side}{evil}")
         for n in range(2)]
        for side in "ab"
    ]  # fmt: skip
    stream = io.StringIO()
    console = Console(file=stream, width=WIDTH, no_color=True)
    a, b = gathered(paths)
    print_comparison(compare(a, b), console)
    print_gate(hold(a, b, tolerance=0.05, strict=False), console)
    print_matrix(compare_all([a, b]), console)
    text = stream.getvalue()
    assert harmful(text) <= {"\n"}
    assert "[red]" in text

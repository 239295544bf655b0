"""The table of what fits: its cells, its verdicts, and that names in it stay text."""

from __future__ import annotations

import html
import io
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from tests.reports import synthetic
from tests.wording import assert_says

from wattstep.report.html.sweep import render_sweep
from wattstep.report.sweep_table import evidence, facts, fit_table, spell_duration, unfit
from wattstep.report.terminal.sweep import print_sweep
from wattstep.schema.outcome import Outcome
from wattstep.schema.sweep_report import PaperRows, SweepReport
from wattstep.train.environment import AMBIENT_UNKNOWN, FAN_UNKNOWN

NOTHING: dict[str, Any] = {
    "exit_code": None, "signal": None, "said": None, "kernel": None, "oom_kills": None,
    "cgroup_peak": None, "last_resident": None, "peak_resident": None, "steps": 0, "notes": [],
}  # fmt: skip


def figure(value: float, unit: str) -> dict[str, Any]:
    known = {"value": value, "unit": unit, "status": "measured"}
    names = ("low", "high", "confidence", "n", "method", "systematic", "source", "reason")
    return {**known, **dict.fromkeys(names)}


def outcome(
    workload: str, batch: int, status: str = "trained", step: float = 0.001, **more: Any
) -> dict[str, Any]:
    repeat = more.pop("repeat", 1)
    configuration = {
        "workload": workload, "batch_size": batch, "threads": 1, "precision": "fp32",
        "repeat": repeat, "device": None,
    }  # fmt: skip
    trained = {"step_time": figure(step, "s"), "peak_memory": figure(2e8, "B")}
    return {
        "name": f"{workload}-b{batch}-r{repeat}", "configuration": configuration, "status": status,
        "reason": "", "run": None, "limit": "8 GiB by a memory cgroup v2 without swap",
        "started": 10.0, "ended": 12.5, "cooled": 0.0, "temperature": None, "worker": None,
        "transferred": None, "attempts": 1, "machine": {}, "versions": {}, "finite": None, "figures": trained if status == "trained" else {},
        **more, "evidence": {**NOTHING, **more.get("evidence", {})},
    }  # fmt: skip


def report(*outcomes: dict[str, Any], **axes: Any) -> SweepReport:
    return SweepReport.from_dict(document(*outcomes, **axes))


def document(*outcomes: dict[str, Any], **axes: Any) -> dict[str, Any]:
    workloads = list(dict.fromkeys(one["configuration"]["workload"] for one in outcomes))
    given = {
        "workloads": workloads, "batches": [1, 4, 16], "threads": [1], "precisions": ["fp32"],
        "devices": [None], "repeats": [1],
    }  # fmt: skip
    sweep = {
        "axes": {**given, **axes}, "settings": {"memory_limit": 8 * 2**30, "steps": 2},
        "machine": {"model": "board", "cpu": "core", "cores": 2}, "sessions": [3600.0, 300.0],
        "duration": 3900.0, "path": "sweep",
    }  # fmt: skip
    return {"sweep": sweep, "outcomes": list(outcomes)}


def verdicts(found: SweepReport) -> list[str]:
    return [row.verdict for row in fit_table(found).rows]


def test_a_cell_says_peak_memory_and_step_time_or_what_happened() -> None:
    died = outcome("vgg", 4, "out of memory", evidence={"steps": 3})
    row = fit_table(report(outcome("vgg", 1), died, outcome("vgg", 16, "skipped"))).rows[0]
    assert [cell.words for cell in row.cells] == [
        ("200 MB", "1.00 ms"), ("out of memory", "after 3 steps"), ("skipped",),
    ]  # fmt: skip


def test_the_verdict_is_the_papers_column() -> None:
    def row(*statuses: str) -> SweepReport:
        batches = zip((1, 4, 16), statuses, strict=False)
        return report(*(outcome("net", batch, status) for batch, status in batches))

    assert verdicts(row("trained", "trained", "trained")) == ["yes"]
    assert verdicts(row("trained", "trained", "out of memory")) == ["up to batch 4"]
    assert verdicts(row("out of memory", "skipped", "skipped")) == ["no"]
    assert verdicts(row("refused", "trained", "trained")) == ["yes, from batch 4"]
    assert verdicts(row("refused", "refused", "refused")) == ["refused"]
    assert verdicts(row("trained", "crashed", "trained")) == ["at batch 1, 16 only"]
    assert verdicts(row("trained", "trained")) == ["not known yet"]


def test_of_repetitions_the_middle_one_stands_in_the_cell_and_one_that_failed_shows() -> None:
    times = [outcome("net", 1, step=step, repeat=n) for n, step in enumerate((3.0, 1.0, 2.0))]
    cell = fit_table(report(*times, batches=[1])).rows[0].cells[0]
    assert cell.words == ("200 MB", "2.00 s")
    killed = outcome("net", 1, "killed", repeat=3)
    cell = fit_table(report(*times, killed, batches=[1])).rows[0].cells[0]
    assert cell.words == ("killed", "never started", "3 of 4 trained")


def test_rows_tell_threads_apart_only_where_they_differ() -> None:
    assert [row.title for row in fit_table(report(outcome("net", 1))).rows] == ["net"]
    both = report(outcome("net", 1), threads=[1, None])
    assert [row.title for row in fit_table(both).rows] == ["net, 1 thread", "net, default threads"]


def test_what_a_fleet_sends_elsewhere_does_not_stand_as_open() -> None:
    trained = outcome("net", 1)
    trained["configuration"]["device"] = "a"
    old = report(trained, workloads=["net", "big"], devices=["a", "b"], batches=[1, 4])
    found = replace(old, workloads_of={"a": ["net"], "b": ["net", "big"]})
    assert [row.title for row in fit_table(found).rows] == ["net, on a", "net, on b", "big, on b"]
    # Two batch sizes of three families, of which one is measured.
    assert dict(facts(found))["Not run yet"] == "5"
    assert len(fit_table(old).rows) == 4  # as a sweep was written before


def test_evidence_is_in_words_with_units() -> None:
    died = outcome(
        "net", 1, "out of memory", reason="why",
        evidence={"signal": 9, "oom_kills": 1, "last_resident": 1_500_000_000, "said": "bad"},
    )  # fmt: skip
    signalled, said, killed, seen = evidence(Outcome.from_dict(died))
    assert (signalled, said, seen) == ("signal 9", "it said: bad", "last seen 1.50 GB")
    assert_says(killed, "1 of its processes", "memory")


def test_facts_say_the_limit_how_it_was_enforced_and_how_long_it_took() -> None:
    known = dict(facts(report(outcome("net", 1), outcome("net", 4, "killed"))))
    assert_says(known["Memory limit"], "8 GiB", "cgroup v2", "without swap")
    assert known["Outcomes"] == "1 trained, 1 killed"
    assert known["Not run yet"] == "1"
    assert known["Whole sweep took"] == "1 h 5 min, in 2 turns"
    assert known["Machine"] == "board, core, 2 cores"
    assert [spell_duration(s) for s in (42.4, 200, 7500)] == ["42 s", "3 min 20 s", "2 h 5 min"]


def test_the_console_shows_table_and_evidence_at_80_columns() -> None:
    stream = io.StringIO()
    died = outcome("vgg", 4, "killed", reason="it was killed", evidence={"signal": 9})
    print_sweep(report(outcome("vgg", 1), died), Console(file=stream, width=80))
    text = stream.getvalue()
    assert "successful training?" in text
    assert "200 MB" in text
    assert "vgg-b4-t1-fp32-r1: it was killed" in text
    assert max(map(len, text.splitlines())) <= 80


def test_how_a_training_ended_stands_once_on_the_console() -> None:
    killed = "the kernel killed it: memory ran out before the first step was done"
    died = [
        outcome(name, 4, "out of memory", reason=killed, evidence={"signal": 9, "kernel": name})
        for name in ("vgg", "bert")
    ]
    stream = io.StringIO()
    print_sweep(report(*died, batches=[4]), Console(file=stream, width=120))
    text = " ".join(stream.getvalue().split())
    assert f"vgg-b4-t1-fp32-r1, bert-b4-t1-fp32-r1: {killed}" in text
    assert text.count(killed) == 1
    table = text.partition("Memory limit")[0]
    assert table.count("out of memory") == table.count("no") == 2


def test_the_page_asks_no_network_and_keeps_names_as_text() -> None:
    evil = "<script>alert(1)</script>"
    page = render_sweep(report(outcome("net", 1, "crashed", reason=evil, evidence={"said": evil})))
    assert evil not in page
    assert page.count("<script") == 4  # charts, unpack.js, images.js, report.js
    assert not re.search(r"""(?:src|href)=["'](?!data:,)""", page)
    assert "default-src 'none'" in html.unescape(page)
    assert "prefers-color-scheme: dark" in page


def test_notes_of_a_training_are_pointed_to_and_shown() -> None:
    note = "when training began, other programs kept 1.9 of 2 cores busy"
    strange = report(outcome("net", 1, evidence={"notes": [note]}), batches=[1])
    assert fit_table(strange).rows[0].cells[0].words == ("200 MB", "1.00 ms", "see its notes")
    assert unfit(strange) == [("net-b1-t1-fp32-r1", "trained", [note])]


@pytest.mark.parametrize(
    "note",
    [
        "memory by category is not known: following a step's memory would have taken long",
        "traced steps: 1, not 10: more would have taken long",
        AMBIENT_UNKNOWN,
        FAN_UNKNOWN,
    ],
)
def test_a_note_that_is_not_of_what_the_table_shows_is_not_pointed_to(note: str) -> None:
    harmless = report(outcome("net", 1, evidence={"notes": [note]}), batches=[1])
    assert fit_table(harmless).rows[0].cells[0].words == ("200 MB", "1.00 ms")
    assert unfit(harmless) == [("net-b1-t1-fp32-r1", "trained", [note])]


def test_a_note_that_several_trainings_left_is_said_once() -> None:
    busy, busier, lost = (
        {"notes": [note]}
        for note in ("1.5 of 2 cores busy", "1.75 of 2 cores busy", "sampler lost")
    )
    several = report(
        outcome("net", 1, evidence=busy), outcome("net", 4, evidence=lost),
        outcome("net", 16, evidence=busier), batches=[1, 4, 16],
    )  # fmt: skip
    busy, cut = unfit(several)
    assert busy[:2] == ("net-b1-t1-fp32-r1, net-b16-t1-fp32-r1", "trained")
    assert_says(*busy[2], "1.5 to 1.75", "2 cores")
    assert cut == ("net-b4-t1-fp32-r1", "trained", lost["notes"])


def test_a_training_whose_loss_was_no_number_fits_but_is_no_success() -> None:
    def row(*finite: bool | None, died: str = "trained") -> SweepReport:
        told = [outcome("net", b, finite=f) for b, f in zip((1, 4), finite, strict=True)]
        return report(*told, outcome("net", 16, died, finite=None), batches=[1, 4, 16])

    assert fit_table(row(False, True)).rows[0].cells[0].words[-1] == "loss not finite"
    only = report(outcome("net", 1, finite=False), batches=[1])
    assert_says(*verdicts(only), "fits", "not finite")
    assert not fit_table(only).rows[0].fits
    assert_says(*verdicts(row(True, False)), "fits", "not finite", "batch 4")
    assert_says(*verdicts(row(False, False, died="killed")), "up to batch 4", "not finite")
    assert verdicts(row(True, None)) == ["yes"]


def test_the_papers_column_stands_only_where_the_paper_has_a_row() -> None:
    plain = report(outcome("net", 1))
    assert fit_table(plain).source == ""
    assert "the paper" not in render_sweep(plain).lower()
    paper = PaperRows(source="Liu et al.", trains={"vgg19": "never starts"})
    both = replace(report(outcome("vgg19", 1), outcome("net", 1)), paper=paper)
    assert [row.paper for row in fit_table(both).rows] == ["never starts", ""]
    stream = io.StringIO()
    print_sweep(both, Console(file=stream, width=120))
    assert "never starts" in stream.getvalue()
    assert_says(stream.getvalue(), "board: Jetson TX2 with 8 GB", "Liu et al.")
    page = html.unescape(render_sweep(both))
    assert "<td>never starts</td>" in page
    assert page.count("The paper's board") == 2


def test_machines_and_versions_are_named_and_counted_where_they_differ() -> None:
    new = outcome("net", 1, versions={"torch": "2.1"})
    old = outcome("net", 4, versions={"torch": "2.0"})
    assert dict(facts(report(new)))["Versions"] == "torch 2.1"
    assert_says(
        dict(facts(report(new, old)))["Versions"],
        "torch 2.1 (1 outcomes)",
        "torch 2.0 (1 outcomes)",
    )
    board = outcome("net", 1, machine={"model": "Jetson TX2", "cores": 6, "memory": 8 * 10**9})
    board["configuration"]["device"] = "tx2"
    assert_says(dict(facts(report(board)))["Machine"], "tx2: Jetson TX2", "6 cores", "8.00 GB")


def test_a_sweep_has_the_papers_figures_where_they_are_asked_for() -> None:
    shown, runs = report(outcome("lenet", 4)), [synthetic.reported(document=synthetic.document())]
    assert 'id="paper"' not in render_sweep(shown, runs)
    assert 'id="paper"' in render_sweep(shown, runs, paper=True)

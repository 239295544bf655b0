"""A part that fails inside is one line and takes nothing with it; where tests run, it is raised."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import wattstep
from tests.run.made import Sampled, make_run, power
from tests.wording import assert_says

from wattstep.cli import FAILED
from wattstep.errors import DamagedRunError, InvalidValueError
from wattstep.schema.failures import STRICT, Failure, Failures, reason_of


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As users run it."""
    monkeypatch.delenv(STRICT)
    return monkeypatch


def fail(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("float division\nby zero")


def test_in_tests_a_failure_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        Failures().guard("part", fail, None)


@pytest.mark.usefixtures("lenient")
def test_a_failure_is_counted_once_with_its_reason_in_one_line() -> None:
    failures = Failures()
    assert failures.guard("part", fail, "other") == "other"
    assert failures.guard("part", fail, "other") == "other"
    assert failures.guard("whole", lambda: 7, 0) == 7
    assert list(failures) == [
        Failure(part="part", reason="ZeroDivisionError: float division by zero")
    ]
    assert failures.documents() == [{"part": each.part, "reason": each.reason} for each in failures]


@pytest.mark.usefixtures("lenient")
def test_a_damaged_run_is_no_failure_of_a_part() -> None:
    def damaged() -> None:
        raise DamagedRunError("cut")

    with pytest.raises(DamagedRunError):
        Failures().guard("part", damaged, None)


def test_a_reason_names_our_line_and_an_error_for_the_user_needs_none() -> None:
    from wattstep.schema.figure import Figure

    with pytest.raises(KeyError) as raised:
        Figure.from_dict({})
    assert reason_of(raised.value).startswith("KeyError: 'status' (schema/figure.py, line ")
    assert reason_of(InvalidValueError("no such  batch")) == "no such batch"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    make_run(tmp_path / "store" / "a", [Sampled(channel=power(), raw=lambda t_ns: 5000)])
    return tmp_path / "store" / "a"


# Where a defect may sit, and the commands that have to answer all the same.
DEFECTS = [
    ("wattstep.insight.explain.steps:repeatability", "explain", "steps"),
    ("wattstep.run.metrics:memory_metrics", "report", "metrics: memory"),
    ("wattstep.run.report:_channels", "report", "channels"),
    ("wattstep.report.html.run:_facts", "report", "facts"),
    ("wattstep.run.run:make_timeline", "report", "timeline"),
    ("wattstep.report.html.report:lanes_section", "report", "whole run"),
    ("wattstep.report.html.report:paper_section", "report", "the paper's figures"),
    ("wattstep.insight.explain.steps:repeatability", "report", "explain: steps"),
    ("wattstep.insight.observe.sensors:computed_power", "observe", "observation 7"),
    ("wattstep.store.listing:_row", "runs list", "store/a"),
]


@pytest.mark.parametrize(("place", "command", "part"), DEFECTS)
def test_a_defect_takes_its_own_part_and_the_answer_says_so(
    run: Path, lenient: pytest.MonkeyPatch, place: str, command: str, part: str
) -> None:
    module, _, name = place.partition(":")
    # What is loaded for the first time below must not take the broken function along for good.
    importlib.import_module("wattstep.insight.observe.table")
    lenient.setattr(importlib.import_module(module), name, fail)
    page = run.parent.parent / "r.html"
    options = {"report": ("-o", page, "-q"), "explain": ("-q",), "observe": ("-q",)}
    arguments = [*command.split(), run.parent, "--json", *options.get(command, ())]
    told = wattstep(*arguments)
    assert told.returncode == 0
    failures = json.loads(told.stdout)["failures"]
    assert [one for one in failures if one["part"].endswith(part)], failures
    assert all(one["reason"].startswith("ZeroDivisionError: ") for one in failures)
    assert "failed inside" in told.stderr
    assert "Traceback" not in told.stderr
    if command == "report":
        assert "Parts that failed: " in page.read_text(encoding="utf-8")


def test_what_fails_beyond_all_parts_is_one_line_and_an_exit_code_of_its_own(
    run: Path, lenient: pytest.MonkeyPatch
) -> None:
    from wattstep.insight.compare import sides

    lenient.setattr(sides, "gathered", fail)
    done = wattstep("compare", run, run, "-q")
    assert done.returncode == FAILED == 70
    assert_says(done.stderr, "wattstep: failed inside", "ZeroDivisionError")
    assert done.stderr.count("\n") == 1


def test_a_run_that_fails_leaves_the_others_in_every_answer(
    run: Path, lenient: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_run(run.parent / "b", [Sampled(channel=power(), raw=lambda t_ns: 5000)])
    from wattstep.recorded.reading import Tables

    whole = Tables.samples

    def samples(self: Tables) -> Any:
        return fail() if self.path.name == "a" else whole(self)

    lenient.setattr(Tables, "samples", samples)
    commands = {
        "report": ("-o", tmp_path / "r.html"),
        "explain": ("-s", "steps"),
        "observe": (),
        "export": ("--to", "csv", "-o", tmp_path / "out"),
    }
    for command, options in commands.items():
        told = wattstep(command, run.parent, *options, "--json", "-q")
        assert told.returncode == 0, command
        document = json.loads(told.stdout)
        assert document["failures"], command
        assert "Traceback" not in told.stderr
    sql = "SELECT DISTINCT run FROM metrics"
    told = wattstep("query", sql, "--runs", run.parent, "--csv", "-q")
    assert told.returncode == 0
    assert told.stdout.split() == ["run", "b"]
    assert_says(told.stderr, "left out a", "ZeroDivisionError")

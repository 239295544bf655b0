"""Runs that a broken clock, a dead sensor or another program left: answered in whole, or refused in one line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.matrix.answers import Caller, ask_all, check
from tests.refusals import id_in
from tests.run.made import FIVE, MS, ByPhase, Sampled, busy, energy, make_run, power

YEAR_NS = 365 * 86_400 * 10**9
Change = Callable[[dict[str, list[Any]]], None]


def changed(run: Path, name: str, change: Change) -> None:
    """Writes a table of a run with some values put in the place of its own."""
    table = pq.read_table(run / f"{name}.parquet")
    columns = table.to_pydict()
    change(columns)
    pq.write_table(pa.table(columns, schema=table.schema), run / f"{name}.parquet")


def no_time(columns: dict[str, list[Any]]) -> None:
    columns["end_ns"][10] = columns["start_ns"][10]
    columns["mark_ns"][10] = [columns["start_ns"][10]] * len(columns["mark_ns"][10])


def a_century(columns: dict[str, list[Any]]) -> None:
    columns["end_ns"][-1] += 95 * YEAR_NS


def backwards(columns: dict[str, list[Any]]) -> None:
    columns["start_ns"], columns["end_ns"] = columns["end_ns"], columns["start_ns"]


def set_back(columns: dict[str, list[Any]]) -> None:
    for column in ("start_ns", "end_ns"):
        columns[column][30:] = [t_ns - 3600 * 10**9 for t_ns in columns[column][30:]]


def marks_elsewhere(columns: dict[str, list[Any]]) -> None:
    columns["mark_ns"][7] = [t_ns + 10**12 for t_ns in columns["mark_ns"][7]]


def fewer_marks(columns: dict[str, list[Any]]) -> None:
    columns["mark_ns"][7] = columns["mark_ns"][7][:1]


def no_loss(columns: dict[str, list[Any]]) -> None:
    columns["loss"] = [math.nan] * len(columns["loss"])


def all_warmup(columns: dict[str, list[Any]]) -> None:
    columns["warmup"] = [True] * len(columns["warmup"])


def all_traced(columns: dict[str, list[Any]]) -> None:
    columns["traced"] = [True] * len(columns["traced"])


STEPS: Mapping[str, Change] = {
    "a step that took no time": no_time,
    "a step of 95 years": a_century,
    "no loss is a number": no_loss,
    "all warm-up": all_warmup,
    "all traced": all_traced,
}
REFUSED: Mapping[str, tuple[Change, str]] = {
    "steps backwards": (backwards, "step 0 "),
    "a clock set back": (set_back, "step 30 "),
    "marks elsewhere": (marks_elsewhere, "step 7 "),
    "fewer times than marks": (fewer_marks, "marks"),
}


def made(path: Path, **options: Any) -> Path:
    """A run of 60 steps with power and busy time."""
    sampled = [Sampled(channel=power(), raw=ByPhase(FIVE)),
               Sampled(channel=busy(0), raw=lambda t_ns: t_ns // (10 * MS))]  # fmt: skip
    make_run(path, sampled, **options)
    return path


@pytest.mark.parametrize("what", STEPS)
def test_odd_steps_are_told_by_every_command(what: str, call: Caller, tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    changed(run, "steps", STEPS[what])
    ask_all(call, run, tmp_path)


@pytest.mark.parametrize("what", REFUSED)
def test_steps_that_do_not_go_forward_are_damage_and_said_in_one_line(
    what: str, call: Caller, tmp_path: Path
) -> None:
    run = made(tmp_path / "run")
    change, named = REFUSED[what]
    changed(run, "steps", change)
    for command in (("report", run, "-o", tmp_path / "r.html"), ("explain", run)):
        told = call(*command, "-q", "--json", code=2)
        assert id_in(told.out) == "damaged-steps"
        assert named in told.err
        assert told.err.count("\n") == 1


@pytest.mark.parametrize("joules", [0, 5])
def test_a_counter_that_gains_nothing_is_no_energy_and_no_division(
    joules: int, call: Caller, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    make_run(run, [Sampled(channel=energy(2**32), raw=lambda t_ns: joules)])
    document = call("report", run, "-o", tmp_path / "r.html", "-q", "--json").document
    check(document)
    assert document["runs"][0]["metrics"]["energy_per_step"]["value"] is None


@pytest.mark.parametrize("value", [0.0, -5.0, math.nan, math.inf])
def test_power_that_cannot_be_is_told_or_missing(
    value: float, call: Caller, tmp_path: Path
) -> None:
    run = made(tmp_path / "run")

    def dead(columns: dict[str, list[Any]]) -> None:
        its = np.array(columns["channel"]) == "board.power"
        columns["value"] = np.where(its, value, columns["value"]).tolist()

    changed(run, "samples", dead)
    ask_all(call, run, tmp_path)


@pytest.mark.parametrize("steps", [0, 1, 2, 6])
def test_runs_that_hardly_began_are_told_by_every_command(
    steps: int, call: Caller, tmp_path: Path
) -> None:
    ask_all(call, made(tmp_path / "run", steps=steps), tmp_path)


@pytest.mark.parametrize("table", ["samples", "operations", "memory", "spans", "evaluations"])
def test_a_missing_table_is_named_or_not_needed(
    table: str, call: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(tmp_path / "run")
    (run / f"{table}.parquet").unlink()
    told = None
    try:
        call("report", run, "-o", tmp_path / "r.html", "-q", "--json")
    except AssertionError:
        told = call("report", run, "-o", tmp_path / "r.html", "-q", "--json", code=2)
    assert told is None or f"lacks {table}.parquet" in told.err


@pytest.mark.parametrize("table", ["steps", "samples", "operations", "spans", "memory"])
@pytest.mark.parametrize("what", ["lost", "text"])
def test_a_table_without_a_column_or_with_another_sort_of_values_is_damage(
    table: str, what: str, call: Caller, tmp_path: Path
) -> None:
    run = made(tmp_path / "run")
    name = {"samples": "value", "memory": "bytes"}.get(table, "end_ns")
    whole = pq.read_table(run / f"{table}.parquet")
    at = whole.schema.get_field_index(name)
    texts = pa.array(["x"] * len(whole), pa.string())
    broken = whole.remove_column(at) if what == "lost" else whole.set_column(at, name, texts)
    pq.write_table(broken, run / f"{table}.parquet")
    for command in (("report", run, "-o", tmp_path / "r.html"), ("export", run, "--to", "csv")):
        told = call(*command, "-q", code=2)
        assert f"{table}.parquet" in told.err
        assert name in told.err
        assert told.err.count("\n") == 1


def test_a_run_of_a_newer_schema_is_refused_by_its_number(call: Caller, tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    description = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**description, "schema_version": 2}))
    for command in (("report", run), ("explain", run), ("export", run, "--to", "csv")):
        told = call(*command, "-q", code=2)
        assert "schema 2" in told.err or "version 2" in told.err
        assert told.err.count("\n") == 1

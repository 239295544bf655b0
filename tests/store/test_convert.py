"""Journals written by hand become the tables that were worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.refusals import refused
from tests.store.conftest import Journals, a_channel, a_planned_read, table

from wattstep.errors import DamagedRunError
from wattstep.schema.journal import MISSING, UNTOLD, Mark
from wattstep.store import convert as conversion
from wattstep.store.convert import convert
from wattstep.store.files import read_info
from wattstep.store.mark_rows import MARK

NAN = math.nan
TABLES = ("steps", "spans", "samples", "memory", "operations")


def step(journals: Journals, index: int, start: int, end: int, **start_fields: Any) -> None:
    journals.marks.add(Mark.STEP_START, index=index, t_ns=start, **start_fields)
    journals.marks.add(Mark.STEP_END, value=NAN, index=index, t_ns=end)


# --- steps -------------------------------------------------------------------------------------


def test_a_step_has_its_times_samples_loss_and_marks(tmp_path: Path) -> None:
    journals = Journals(tmp_path / "run", warmup=1)
    add, code = journals.marks.add, journals.marks.code
    add(Mark.STEP_START, 0, 4.0, 0, cpu_ns=500, t_ns=1000)
    add(Mark.PHASE, code("phase", "forward"), t_ns=1001)
    add(Mark.LAYER_START, code("layer", "conv1"), t_ns=1002)
    add(Mark.LAYER_END, code("layer", "conv1"), t_ns=1005)
    add(Mark.PHASE, code("phase", "backward"), t_ns=1006)
    add(Mark.STEP_END, 0, 2.25, 0, cpu_ns=507, t_ns=1009)
    add(Mark.STEP_START, 1, NAN, 1, t_ns=1010)
    add(Mark.STEP_END, 0, NAN, 1, cpu_ns=520, t_ns=1030)
    journals.marks.close()
    convert(journals.path)
    first, second = table(journals.path, "steps")
    assert first == {
        "index": 0,
        "start_ns": 1000,
        "end_ns": 1009,
        "cpu_start_ns": 500,
        "cpu_end_ns": 507,
        "samples": 4.0,
        "loss": 2.25,
        "warmup": True,
        "traced": False,
        "mark_ns": [1001, 1002, 1005, 1006],
        "mark_kind": [Mark.PHASE, Mark.LAYER_START, Mark.LAYER_END, Mark.PHASE],
        "mark_name": ["forward", "conv1", "conv1", "backward"],
        "waited_ns": None,
        "host_start_ns": None,
        "host_end_ns": None,
        "mark_host_ns": None,
    }
    # What was not known is null: missing is not zero.
    assert (second["samples"], second["loss"], second["cpu_start_ns"]) == (None, None, None)
    assert (second["warmup"], second["traced"], second["mark_ns"]) == (False, True, [])


def test_a_step_that_never_ended_is_left_out(journals: Journals) -> None:
    step(journals, 0, 10, 20)
    journals.marks.add(Mark.STEP_START, index=1, t_ns=30)
    journals.marks.add(Mark.PHASE, t_ns=31)
    journals.marks.close()
    convert(journals.path)
    assert [row["index"] for row in table(journals.path, "steps")] == [0]


def test_a_step_that_was_started_anew_begins_at_its_last_start(journals: Journals) -> None:
    code = journals.marks.code("phase", "forward")
    journals.marks.add(Mark.STEP_START, index=0, t_ns=10)
    journals.marks.add(Mark.PHASE, code, t_ns=11)
    journals.marks.add(Mark.STEP_START, index=0, t_ns=100)
    journals.marks.add(Mark.PHASE, code, t_ns=101)
    journals.marks.add(Mark.STEP_END, index=0, t_ns=110)
    journals.marks.close()
    convert(journals.path)
    (row,) = table(journals.path, "steps")
    assert (row["start_ns"], row["end_ns"], row["mark_ns"]) == (100, 110, [101])


def test_an_end_without_a_beginning_is_no_step(journals: Journals) -> None:
    journals.marks.add(Mark.STEP_END, index=0, t_ns=5)
    step(journals, 1, 10, 20)
    journals.marks.close()
    convert(journals.path)
    assert [row["index"] for row in table(journals.path, "steps")] == [1]


def test_samples_that_become_known_within_a_step_add_up_and_win(journals: Journals) -> None:
    add = journals.marks.add
    for index, late in enumerate(([], [3.0], [3.0, 5.0])):
        add(Mark.STEP_START, 0, 7.0, index, t_ns=10 * index + 1)
        for value in late:
            add(Mark.SAMPLES, 0, value, t_ns=10 * index + 2)
        add(Mark.STEP_END, 0, NAN, index, t_ns=10 * index + 3)
    journals.marks.close()
    convert(journals.path)
    assert [row["samples"] for row in table(journals.path, "steps")] == [7.0, 3.0, 8.0]


def test_a_run_without_a_step_has_empty_tables(journals: Journals) -> None:
    journals.marks.close()
    convert(journals.path)
    assert [table(journals.path, name) for name in TABLES] == [[]] * 5


# --- spans and memory --------------------------------------------------------------------------


def test_windows_and_rests_become_spans(journals: Journals) -> None:
    add, code = journals.marks.add, journals.marks.code
    add(Mark.REST_START, code("rest", "evaluation"), t_ns=10)
    add(Mark.REST_END, t_ns=20)
    add(Mark.WINDOW_START, t_ns=30)
    step(journals, 0, 31, 39)
    add(Mark.WINDOW_END, t_ns=40)
    add(Mark.REST_START, code("rest", "checkpoint"), t_ns=50)
    step(journals, 1, 60, 70)
    journals.marks.close()
    convert(journals.path)
    spans = [tuple(row.values()) for row in table(journals.path, "spans")]
    assert spans == [
        (10, 20, "rest", "evaluation"),
        (30, 40, "window", "tracing"),
        (50, 70, "rest", "checkpoint"),  # never ended: the last mark closes it
    ]


def test_memory_is_told_apart_by_category(journals: Journals) -> None:
    add, code = journals.marks.add, journals.marks.code
    add(Mark.MEMORY, code("memory", "parameters"), 4096.0, t_ns=1)
    add(Mark.PEAK, 0, 100.0, t_ns=2)
    add(Mark.RESIDENT, 0, 60.0, t_ns=3)
    add(Mark.RESIDENT, 1, 70.0, t_ns=4)
    add(Mark.PEAK, 1, 120.0, t_ns=5)
    add(Mark.MEMORY, code("memory", "gradients"), float(2**52 + 1), t_ns=6)
    journals.marks.close()
    convert(journals.path)
    assert [tuple(row.values()) for row in table(journals.path, "memory")] == [
        (1, "parameters", 4096),
        (2, "peak_resident", 100),
        (3, "resident_before_tracing", 60),
        (4, "resident_after_tracing", 70),
        (5, "peak_resident_with_tracing", 120),
        (6, "gradients", 2**52 + 1),
    ]


# --- samples -----------------------------------------------------------------------------------


def test_samples_are_scaled_to_their_unit_and_gaps_are_null_with_their_reason(
    tmp_path: Path,
) -> None:
    read = a_planned_read(0, a_channel("a", scale=1e-9), a_channel("b", scale=1024.0))
    journals = Journals(tmp_path / "run", [read])
    journals.marks.close()
    rows = [(5, 0, 2_000_000_000, 3), (6, 19, MISSING, MISSING), (7, 0, -1, MISSING)]
    journals.integers("samples-00.bin", rows, tail=b"cut in its middle")
    convert(journals.path)
    rows_by_channel: dict[str, list[Any]] = {}
    for row in table(journals.path, "samples"):
        rows_by_channel.setdefault(row["channel"], []).append(
            (row["t_ns"], row["value"], row["errno"])
        )
    assert rows_by_channel == {
        "a": [(5, 2.0, 0), (6, None, 19), (7, -1e-9, 0)],
        "b": [(5, 3072.0, 0), (6, None, 19), (7, None, 0)],
    }


def test_the_samplers_own_account_becomes_channels(tmp_path: Path) -> None:
    journals = Journals(tmp_path / "run", [a_planned_read(0, a_channel("x"), a_channel("y"))])
    journals.marks.close()
    journals.integers("ticks.bin", [(100, 50_000, 20_000, 0), (200, 0, 30_000, 3)])
    journals.integers("costs.bin", [(150, 0, 8_000, 4), (160, 9, 1, 1)])
    convert(journals.path)
    seen = {(r["channel"], r["t_ns"]): r["value"] for r in table(journals.path, "samples")}
    assert seen == {
        ("sampler.lateness", 100): pytest.approx(50e-6),
        ("sampler.lateness", 200): 0.0,
        ("sampler.busy_time", 100): pytest.approx(20e-6),
        ("sampler.busy_time", 200): pytest.approx(30e-6),
        ("sampler.lost_ticks", 100): 0.0,
        ("sampler.lost_ticks", 200): 3.0,
        ("cost:x", 150): pytest.approx(8e-6),
        ("every:x", 150): 4.0,
    }


# --- operations --------------------------------------------------------------------------------


def test_the_self_time_of_an_operation_is_without_its_direct_children(journals: Journals) -> None:
    code = journals.marks.code
    names = {name: code("name", name) for name in ("linear", "addmm", "copy", "relu")}
    forward = code("phase", "forward")

    def operation(name: str, window: int, start: int, end: int, parent: int) -> dict[str, int]:
        return {
            "step": 10 + window,
            "window": window,
            "name": names[name],
            "phase": forward,
            "thread": 7,
            "start_ns": start,
            "end_ns": end,
            "parent": parent,
            "flops": 12 if name == "addmm" else -1,
            "allocated": UNTOLD if name == "copy" else -64,
            "outermost": int(parent < 0),
        }

    journals.operations(
        [
            operation("linear", 0, 0, 100, -1),
            operation("addmm", 0, 10, 90, 0),
            operation("copy", 0, 20, 30, 1),
            operation("copy", 0, 40, 45, 1),
            operation("relu", 1, 200, 250, -1),
            operation("linear", 1, 300, 400, -1),
            operation("addmm", 1, 310, 330, 1),
        ],
        tail=b"half a row",
    )
    journals.marks.close()
    convert(journals.path)
    rows = table(journals.path, "operations")
    assert [(r["name"], r["self_ns"]) for r in rows] == [
        ("linear", 20),
        ("addmm", 65),
        ("copy", 10),
        ("copy", 5),
        ("relu", 50),
        ("linear", 80),
        ("addmm", 20),
    ]
    assert [r["parent"] for r in rows] == [None, 0, 1, 1, None, None, 1]
    assert [r["flops"] for r in rows] == [None, 12, None, None, None, None, 12]
    assert [r["allocated"] for r in rows] == [-64, -64, None, None, -64, -64, -64]
    first = rows[0]
    assert (first["phase"], first["layer"], first["shapes"]) == ("forward", None, None)
    assert (first["processor"], first["bytes"], first["allocated"]) == ("cpu", None, -64)
    assert (first["outermost"], rows[1]["outermost"]) == (True, False)


def test_a_child_whose_parent_was_cut_off_is_kept(journals: Journals) -> None:
    journals.operations([{"window": 0, "start_ns": 0, "end_ns": 10, "parent": 5, "name": 0}])
    journals.marks.close()
    convert(journals.path)
    (row,) = table(journals.path, "operations")
    assert (row["self_ns"], row["parent"]) == (10, 5)


@st.composite
def windows(draw: st.DrawFn) -> list[dict[str, int]]:
    """Windows of nested operations, children after their parents."""
    rows = []
    for window in range(draw(st.integers(0, 4))):
        spans: list[tuple[int, int, int]] = []  # start, end, time left for further children
        for position in range(draw(st.integers(1, 6))):
            parent = draw(st.integers(-1, position - 1))
            if parent < 0:
                start = spans[-1][1] + 1000 if spans else 0
                start = max([start, *(end for _, end, _ in spans)])
                length = draw(st.integers(1, 10**6))
            else:
                start, end, left = spans[parent]
                length = draw(st.integers(0, left))
                spans[parent] = (start, end, left - length)
            spans.append((start, start + length, length))
            rows.append(
                {
                    "window": window,
                    "name": 0,
                    "start_ns": start,
                    "end_ns": start + length,
                    "parent": parent,
                }
            )
    return rows


@given(windows())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_self_times_add_up_to_the_time_of_the_outermost(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, int]]
) -> None:
    journals = Journals(tmp_path_factory.mktemp("runs") / "run")
    journals.marks.code("name", "operation")
    journals.operations(rows)
    journals.marks.close()
    convert(journals.path)
    found = table(journals.path, "operations")
    outermost = sum(r["end_ns"] - r["start_ns"] for r in rows if r["parent"] < 0)
    assert sum(r["self_ns"] for r in found) == outermost
    assert all(r["self_ns"] >= 0 for r in found)


# --- blocks, cut files, garbage ----------------------------------------------------------------


def a_busy_run(path: Path) -> Journals:
    journals = Journals(path, [a_planned_read(0, a_channel("a"), a_channel("b"))], warmup=2)
    add, code = journals.marks.add, journals.marks.code
    names = [code("phase", name) for name in ("data", "forward", "backward")]
    parameters = code("memory", "parameters")
    t_ns = 0
    for index in range(12):
        if index % 5 == 3:
            add(Mark.REST_START, code("rest", f"rest {index}"), t_ns=t_ns + 1)
            add(Mark.REST_END, t_ns=t_ns + 5)
        if index % 4 == 2:
            add(Mark.WINDOW_START, t_ns=t_ns + 6)
            add(Mark.MEMORY, parameters, float(index), t_ns=t_ns + 7)
        add(Mark.STEP_START, int(index % 4 == 2), NAN, index, t_ns=t_ns + 10)
        for number in range(index % 3):
            add(Mark.PHASE, names[number], t_ns=t_ns + 11 + number)
        if index == 6:  # started anew
            add(Mark.STEP_START, 0, NAN, index, t_ns=t_ns + 15)
        if index % 2:
            add(Mark.SAMPLES, 0, float(index), t_ns=t_ns + 16)
        add(Mark.STEP_END, 0, 1.0 / (1 + index), index, t_ns=t_ns + 20)
        if index % 4 == 2:
            add(Mark.WINDOW_END, t_ns=t_ns + 22)
        t_ns += 30
    journals.marks.close()
    journals.integers("samples-00.bin", [(t, 0, t * t, -t) for t in range(23)])
    journals.integers("ticks.bin", [(t, t, 2 * t, 0) for t in range(23)])
    journals.operations(
        {"window": w, "start_ns": 10 * p, "end_ns": 10 * p + 50 - 9 * p, "parent": p - 1, "name": 0}
        for w in range(5)
        for p in range(4)
    )
    return journals


@pytest.mark.parametrize("block", [1, 2, 3, 7, 20])
def test_the_tables_do_not_depend_on_the_size_of_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    one, other = a_busy_run(tmp_path / "one"), a_busy_run(tmp_path / "other")
    convert(one.path)
    monkeypatch.setattr("wattstep.store.tables.BLOCK", block)
    monkeypatch.setattr("wattstep.store.journal_rows.BLOCK", block)
    convert(other.path)

    def ordered(run: Path, name: str) -> list[Any]:
        rows = table(run, name)
        # Blocks come one after the other: channels of one read take turns.
        return sorted(rows, key=lambda r: (r["channel"], r["t_ns"])) if name == "samples" else rows

    assert len(table(one.path, "steps")) == 12
    for name in TABLES:
        assert ordered(one.path, name) == ordered(other.path, name)


@pytest.mark.parametrize("name", ["marks.bin", "names.jsonl", "operations.bin", "samples-00.bin"])
def test_journals_cut_anywhere_give_what_is_left(tmp_path: Path, name: str) -> None:
    whole = a_busy_run(tmp_path / "whole")
    size = (whole.folder / name).stat().st_size
    convert(whole.path)
    for part in range(8):
        journals = a_busy_run(tmp_path / f"cut{part}")
        with (journals.folder / name).open("r+b") as file:
            file.truncate(size * part // 8)
        convert(journals.path)
        for what in ("steps", "operations"):
            found, complete = table(journals.path, what), table(whole.path, what)
            assert len(found) <= len(complete)
            if name != "names.jsonl":
                assert [r["start_ns"] for r in found] == [
                    r["start_ns"] for r in complete[: len(found)]
                ]


def test_a_name_that_was_cut_off_is_said_to_be_lost(tmp_path: Path) -> None:
    journals = a_busy_run(tmp_path / "run")
    lines = (journals.folder / "names.jsonl").read_bytes().splitlines(keepends=True)
    (journals.folder / "names.jsonl").write_bytes(b"".join(lines[:2]) + b'["phase", 2, "ba')
    convert(journals.path)
    names = {name for row in table(journals.path, "steps") for name in row["mark_name"]}
    assert names == {"data", "forward"}
    assert {row["category"] for row in table(journals.path, "memory")} == {"(name lost)"}
    assert {row["name"] for row in table(journals.path, "spans")} == {"(name lost)", "tracing"}


@given(st.sampled_from(["marks.bin", "names.jsonl", "operations.bin", "ticks.bin"]), st.data())
@settings(max_examples=40)
def test_a_garbled_journal_is_read_or_named_as_damage_and_kept(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    journals = a_busy_run(tmp_path_factory.mktemp("runs") / "run")
    path = journals.folder / name
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    garbage = data.draw(st.binary(min_size=1, max_size=64))
    content[at : at + len(garbage)] = garbage
    path.write_bytes(content)
    try:
        convert(journals.path)
    except DamagedRunError:
        assert path.read_bytes() == content
        assert sorted(p.name for p in journals.path.iterdir()) == ["journal", "run.json"]
    else:
        assert not journals.folder.exists()


@pytest.mark.parametrize("late", [float("nan"), float("inf"), -1e300])
def test_an_event_of_a_device_without_a_time_is_damage(tmp_path: Path, late: float) -> None:
    journals = a_busy_run(tmp_path / "run")
    path = journals.folder / "marks.bin"
    rows = np.frombuffer(path.read_bytes(), MARK).copy()
    rows["kind"][0], rows["value"][0] = Mark.DEVICE, late
    path.write_bytes(rows.tobytes())
    with pytest.raises(DamagedRunError, match="garbled"):
        convert(journals.path)
    assert path.read_bytes() == rows.tobytes()


def test_a_long_name_that_each_mark_has_is_beyond_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journals = Journals(tmp_path / "run")
    code = journals.marks.code("phase", "n" * 1_000_000)
    # 50 steps with three marks of that name: 150 MB, where 128 MiB are allowed.
    for index in range(50):
        journals.marks.add(Mark.STEP_START, index=index, t_ns=10 * index)
        for t_ns in range(10 * index + 1, 10 * index + 4):
            journals.marks.add(Mark.PHASE, code, t_ns=t_ns)
        journals.marks.add(Mark.STEP_END, value=NAN, index=index, t_ns=10 * index + 9)
    journals.marks.close()
    with refused("over-budget", "150,000,000", "134,217,728", "WATTSTEP_RUN_BUDGET=2"):
        convert(journals.path)
    monkeypatch.setenv("WATTSTEP_RUN_BUDGET", "2")
    convert(journals.path)
    assert len(table(journals.path, "steps")) == 50


# --- in place and beside -----------------------------------------------------------------------


def test_a_conversion_leaves_tables_and_no_journal(tmp_path: Path) -> None:
    journals = a_busy_run(tmp_path / "run")
    convert(journals.path, state="recovered")
    assert sorted(path.name for path in journals.path.iterdir()) == [
        "evaluations.parquet",
        "memory.parquet",
        "operations.parquet",
        "run.json",
        "samples.parquet",
        "spans.parquet",
        "steps.parquet",
    ]
    assert read_info(journals.path).state == "recovered"


def test_a_conversion_beside_the_run_leaves_it_alone(tmp_path: Path) -> None:
    journals = a_busy_run(tmp_path / "run")
    before = {p: p.read_bytes() for p in journals.path.rglob("*") if p.is_file()}
    beside = tmp_path / "beside"
    beside.mkdir()
    convert(journals.path, beside, state="recording")
    assert {p: p.read_bytes() for p in journals.path.rglob("*") if p.is_file()} == before
    assert pq.read_metadata(beside / "steps.parquet").num_rows == 12
    assert read_info(beside).state == "recording"


def test_a_run_that_was_closed_while_it_was_read_gives_its_final_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journals = a_busy_run(tmp_path / "run")
    beside = tmp_path / "beside"
    beside.mkdir()
    reading = conversion.operation_columns

    def closed_meanwhile(*args: Any) -> Any:
        monkeypatch.setattr(conversion, "operation_columns", reading)
        convert(journals.path)
        return reading(*args)

    monkeypatch.setattr(conversion, "operation_columns", closed_meanwhile)
    convert(journals.path, beside, state="recording")
    assert read_info(beside).state == "closed"
    for name in TABLES:
        assert table(beside, name) == table(journals.path, name)
    assert len(table(beside, "operations")) == 20


def test_a_folder_without_journals_cannot_be_converted(tmp_path: Path) -> None:
    with refused("no-journal"):
        convert(tmp_path)

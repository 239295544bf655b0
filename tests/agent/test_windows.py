"""Clocks of traces and times by layer, against arithmetic by hand and a slow reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from wattstep.remote.agent.layer_rows import layer_columns
from wattstep.remote.agent.traces import read_trace_window

STEP = "ProfilerStep#5"
AHEAD = 7_000_000_000  # ns that the trace's clock is ahead


def a_trace(path: Path, *groups: list[tuple[int, int]]) -> Path:
    """A trace with marks (trace time in ns, monotonic time in the name) and an operation in a step."""
    events: list[dict[str, Any]] = [
        {"cat": "user_annotation", "name": STEP, "ts": (AHEAD + 1_000_000) / 1e3, "dur": 9_000},
        {"cat": "cpu_op", "name": "aten::mm", "ts": (AHEAD + 2_000_000) / 1e3, "dur": 5_000},
    ]
    for group in groups:
        for at, told in group:
            name = f"wattstep.clock#{told}"
            events.append({"cat": "user_annotation", "name": name, "ts": at / 1e3, "dur": 0.001})
    path.write_text(
        json.dumps({"traceEvents": [{"ph": "X", "pid": 1, "tid": 1, **e} for e in events]})
    )
    return path


def test_a_mark_lies_between_its_own_time_and_the_next_one_s(tmp_path: Path) -> None:
    # Told 100 and 140: the first lies at 120 ± 20, a window from 200 to 1200 is wider.
    marks = [(AHEAD + 120, 100), (AHEAD + 160, 140), (AHEAD + 900, 200), (AHEAD + 1300, 1200)]
    columns = read_trace_window(a_trace(tmp_path / "t.json", marks), 5, 3, ())
    (batch,) = columns.batches
    assert list(batch["start_ns"]) == [2_000_000]
    assert list(batch["end_ns"]) == [7_000_000]
    assert list(batch["step"]) == [5]
    assert list(batch["window"]) == [3]
    assert columns.uncertainty_ns == 20 + 1_000  # half of 40, and the rounding of old traces


def test_a_clock_that_drifts_is_followed_between_the_ends_of_a_window(tmp_path: Path) -> None:
    # The trace's clock gains 1 ms in 2 s against the monotonic one: 500 millionths.
    first = [(AHEAD, 0), (AHEAD + 10, 10)]
    last = [(AHEAD + 2_001_000_000, 2_000_000_000), (AHEAD + 2_001_000_020, 2_000_000_010)]
    (batch,) = read_trace_window(a_trace(tmp_path / "t.json", first, last), 5, 0, ()).batches
    # 2 ms after the first mark the trace's clock is 1 µs ahead of where it should be.
    assert list(batch["start_ns"]) == [pytest.approx(2_000_000 - 1_000, abs=10)]


def test_phases_of_the_step_s_marks_tell_where_the_trace_does_not(tmp_path: Path) -> None:
    marks = [(AHEAD, 0), (AHEAD + 10, 10)]
    path = a_trace(tmp_path / "t.json", marks)
    phases = ((500_000, "data"), (1_500_000, "forward"), (8_000_000, "backward"))
    (batch,) = read_trace_window(path, 5, 0, phases).batches
    assert batch["phase"] == ["forward"]


@pytest.mark.parametrize(
    ("marks", "step", "id"),
    [([], 5, "no-clock-marks"), ([(AHEAD, 0), (AHEAD, 10)], 6, "step-missing")],
)
def test_a_trace_that_cannot_be_laid_out_is_refused(
    tmp_path: Path, marks: list[tuple[int, int]], step: int, id: str
) -> None:
    with refused(id):
        read_trace_window(a_trace(tmp_path / "t.json", marks), step, 0, ())


# --- layers ---------------------------------------------------------------------------------------

CALL = st.tuples(
    st.sampled_from(["a", "b.c"]), st.just("Linear"), st.booleans(),
    st.sampled_from(["forward", "backward"]), st.integers(0, 30), st.integers(0, 30),
).map(lambda row: [*row[:4], min(row[4:]), max(row[4:])])  # fmt: skip


@given(st.lists(CALL, max_size=12))
def test_calls_lie_in_scopes_that_enclose_them_and_own_times_add_up(rows: list[list[Any]]) -> None:
    columns = layer_columns("gpu0", rows, 4, 2)
    spans = list(zip(columns["start_ns"], columns["end_ns"], strict=True))
    assert sorted(spans) == sorted((row[4], row[5]) for row in rows)
    for position, parent in enumerate(columns["parent"]):
        if parent is not None:
            assert parent < position
            assert columns["kind"][parent] == "scope"
            (begin, end), (outer_begin, outer_end) = spans[position], spans[parent]
            assert outer_begin <= begin <= end <= outer_end
    for position, (begin, end) in enumerate(spans):
        children = [n for n, parent in enumerate(columns["parent"]) if parent == position]
        inside = sum(spans[n][1] - spans[n][0] for n in children)
        assert columns["self_ns"][position] == max(end - begin - inside, 0)


def test_a_scope_holds_its_layers_and_a_crossing_one_stands_alone() -> None:
    rows = [
        ["block", "Block", False, "forward", 0, 100],
        ["block.a", "Linear", True, "forward", 10, 40],
        ["block.b", "ReLU", True, "forward", 40, 90],
        ["next", "Linear", True, "forward", 95, 120],
    ]
    columns = layer_columns("cpu", rows, 0, 0)
    assert columns["parent"] == [None, 0, 0, None]
    assert columns["self_ns"] == [100 - 30 - 50, 30, 50, 25]
    assert columns["kind"] == ["scope", "matrix product", "activation", "matrix product"]


@pytest.mark.parametrize(
    "row", [[], ["a", "b", True, "sideways", 0, 1], ["a", "b", True, "forward", 0, "x"]]
)
def test_garbled_rows_are_refused(row: list[Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - what reads windows turns it into a note
        layer_columns("cpu", [row], 0, 0)

"""What is marked of steps, and that what marking takes lies between them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.parquet as pq
import pytest

from wattstep.record import device_steps
from wattstep.record.marking import MOST_PENDING, StepMarker
from wattstep.record.recorder import Recorder
from wattstep.record.tracing.schedule import Schedule, TraceMode
from wattstep.record.tracing.windows import Windows
from wattstep.schema.journal import MARK, Mark
from wattstep.store import mark_rows
from wattstep.store.mark_rows import begins_and_ends
from wattstep.store.marks import CHUNK

MS = 1_000_000


def rows_of(run: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(run / "steps.parquet").to_pylist()
    return rows


def test_while_a_step_runs_nothing_is_written_and_its_end_is_stamped_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count(1_000_000_000)
    monkeypatch.setattr(device_steps, "perf_counter_ns", lambda: next(ticks))
    written_ns: list[int] = []
    add = StepMarker.add

    def add_and_tell(*arguments: Any, **named: Any) -> None:
        written_ns.append(next(ticks))
        add(*arguments, **named)

    monkeypatch.setattr(StepMarker, "add", add_and_tell)
    with Recorder(tmp_path / "run", trace="none") as recorder:
        for _ in range(3):
            written_ns.clear()
            with recorder.step():
                for name in ("data", "forward", "backward"):
                    recorder.phase(name)
                    assert written_ns == []
                recorder.update("net")
            assert written_ns
    for row in rows_of(tmp_path / "run"):
        assert row["mark_name"] == ["data", "forward", "backward", "net"]
        # The clock counts its readings: begin, four marks, end, with nothing between.
        times = [row["start_ns"], *row["mark_ns"], row["end_ns"]]
        assert times == list(range(times[0], times[0] + 6))


def test_a_step_that_ended_before_it_is_told_ends_there(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run", trace="none") as recorder:
        for _ in range(2):
            recorder.steps.begin_step()
            recorder.steps.finish(now=1_000_000_000_000_000_000)
    assert [row["end_ns"] for row in rows_of(tmp_path / "run")] == [10**18] * 2


def test_a_step_with_more_marks_than_are_kept_loses_none_and_has_its_late_samples(
    tmp_path: Path,
) -> None:
    count = 3 * MOST_PENDING
    with Recorder(tmp_path / "run", trace="none") as recorder:
        for samples in (7, 8):
            with recorder.step():
                for number in range(count):
                    recorder.phase(("forward", "backward")[number % 2])
                assert len(recorder._steps._pending) < MOST_PENDING
                recorder.samples(samples)
    rows = rows_of(tmp_path / "run")
    assert [len(row["mark_name"]) for row in rows] == [count] * 2
    assert [row["samples"] for row in rows] == [7, 8]
    assert rows[0]["mark_ns"] == sorted(rows[0]["mark_ns"])


def test_marks_of_a_step_that_is_begun_anew_are_those_since(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run", trace="none") as recorder:
        recorder.steps.begin_step()
        recorder.phase("evaluated")
        recorder.steps.split("evaluation", 5, 10)
        recorder.phase("forward")
        recorder.steps.finish()
        recorder.steps.begin_step()
        recorder.steps.finish()
    first, second = rows_of(tmp_path / "run")
    assert (first["start_ns"], first["mark_name"]) == (10, ["forward"])
    assert second["mark_name"] == []


class Untraced:
    """As `Windows`, of a recording that traces nothing."""

    traced = False

    def __init__(self) -> None:
        self.schedule = Schedule(TraceMode.parse("none"), 0)


SAMPLES: dict[str, Callable[[int], float]] = {
    "the same": lambda number: 4.0,
    "not known": lambda number: math.nan,
    "no whole number": lambda number: number / 3,
    "more than a row says": lambda number: 65535.0,
    "changing": lambda number: float(number // 50),
    "counted": lambda number: 65534,
}


@pytest.mark.parametrize("own_clock", [False, True])
@pytest.mark.parametrize("samples", SAMPLES.values(), ids=SAMPLES)
def test_plain_steps_lose_no_row_where_the_journal_goes_on_in_a_new_chunk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own_clock: bool,
    samples: Callable[[int], float],
) -> None:
    """The clock goes on by 1 ms each time it is read, and another mark comes between some steps."""
    count = 2 * CHUNK // MARK.size  # two chunks of marks, and a few, where each step has one
    ticks = itertools.count(MS, MS)
    monkeypatch.setattr(device_steps, "perf_counter_ns", lambda: next(ticks))
    steps = StepMarker(7, 0, lambda: None, pytest.fail)
    steps.open(tmp_path)
    steps.start(cast("Windows", Untraced()), own_clock=own_clock)
    expected: list[tuple[float, ...]] = []
    with_phases = 0
    for number in range(7, 7 + count):
        if number % 100 == 99:
            steps.add(Mark.EVALUATION, 3, 0.5, number, 0, 1)
            expected.append((1, 0.5, Mark.EVALUATION, 3, number))
        steps.samples = samples(number)
        begun = steps.begin()
        with_phases += steps.phases_on
        steps.end(begun, number / 7)
        expected.append((begun, samples(number), Mark.STEP_START, 0, number))
        expected.append((begun + MS, number / 7, Mark.STEP_END, 0, number))
    steps.close()
    written = np.fromfile(tmp_path / "marks.bin", mark_rows.MARK)
    rows = begins_and_ends(written).tolist()
    np.testing.assert_equal([(t, *rest) for t, _, *rest in rows], expected)
    assert with_phases < count / 20
    ends = [(t, cpu) for t, cpu, _, kind, _, _ in rows if kind == Mark.STEP_END and cpu]
    assert [cpu for _, cpu in ends] == sorted(cpu for _, cpu in ends)
    # A step takes 2 ms, and 10 ms later is when the clock is read again.
    between = np.diff([t for t, _ in ends])
    assert len(ends) == 0 if not own_clock else between.max() == 12 * MS
    assert np.median(between) == 12 * MS if own_clock else not len(between)


def test_most_plain_steps_have_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count(MS, MS)
    monkeypatch.setattr(device_steps, "perf_counter_ns", lambda: next(ticks))
    steps = StepMarker(0, 0, lambda: None, pytest.fail)
    steps.open(tmp_path)
    steps.start(cast("Windows", Untraced()), own_clock=True)
    for _ in range(3000):
        steps.samples = 4.0
        steps.end(steps.begin(), 1.0)
    steps.close()
    kinds = np.fromfile(tmp_path / "marks.bin", mark_rows.MARK)["kind"]
    # Of six steps in 12 ms one has the process's CPU time, and of 39 three have phases: two rows each.
    assert 0.6 * 3000 < np.count_nonzero(kinds == Mark.STEP) < 0.8 * 3000
    assert np.count_nonzero(kinds) < 1.4 * 3000


def test_a_number_that_is_passed_over_stays_so_in_plain_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count(MS, MS)
    monkeypatch.setattr(device_steps, "perf_counter_ns", lambda: next(ticks))
    steps = StepMarker(0, 0, lambda: None, pytest.fail)
    steps.open(tmp_path)
    steps.start(cast("Windows", Untraced()), own_clock=False)
    numbers = [number for number in range(500) if number % 7]
    for number in numbers:
        steps.index += number - steps.index
        steps.end(steps.begin(), 1.0)
    steps.close()
    rows = begins_and_ends(np.fromfile(tmp_path / "marks.bin", mark_rows.MARK))
    assert rows["index"][rows["kind"] == Mark.STEP_START].tolist() == numbers


def test_a_step_within_a_step_leaves_a_run_that_opens(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run", trace="none") as recorder:
        for number in range(20):
            with recorder.step(4):
                if number == 11:
                    with recorder.step(2):
                        pass
    rows = rows_of(tmp_path / "run")
    starts = [row["start_ns"] for row in rows]
    assert len(rows) == 20
    assert min(starts) > 0
    assert starts == sorted(starts)

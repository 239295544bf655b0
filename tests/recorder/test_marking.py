"""What is marked of steps, and that what marking takes lies between them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from wattstep.record import marking
from wattstep.record.marking import MOST_PENDING
from wattstep.record.recorder import Recorder


def rows_of(run: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(run / "steps.parquet").to_pylist()
    return rows


class Journal:
    """Writes as the one of a recorder does, and tells when."""

    def __init__(self, inner: Any, clock: Any) -> None:
        self._inner, self._clock = inner, clock
        self.written_ns: list[int] = []

    def add(self, *arguments: Any, **named: Any) -> None:
        self.written_ns.append(self._clock())
        self._inner.add(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_while_a_step_runs_nothing_is_written_and_its_end_is_stamped_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count(1_000_000_000)
    monkeypatch.setattr(marking, "perf_counter_ns", lambda: next(ticks))
    with Recorder(tmp_path / "run", trace="none") as recorder:
        journal = recorder._steps._journal = Journal(recorder._marks, lambda: next(ticks))
        for _ in range(3):
            with recorder.step():
                for name in ("data", "forward", "backward"):
                    recorder.phase(name)
                    assert journal.written_ns == []
                recorder.update("net")
            journal.written_ns.clear()
    for row in rows_of(tmp_path / "run"):
        assert row["mark_name"] == ["data", "forward", "backward", "net"]
        # The clock counts its readings: begin, four marks, end, with nothing between.
        times = [row["start_ns"], *row["mark_ns"], row["end_ns"]]
        assert times == list(range(times[0], times[0] + 6))


def test_a_step_that_ended_before_it_is_told_ends_there(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run", trace="none") as recorder:
        for _ in range(2):
            recorder.begin_step()
            recorder.end_step(at_ns=1_000_000_000_000_000_000)
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
        recorder.begin_step()
        recorder.phase("evaluated")
        recorder.split_step("evaluation", 5, 10)
        recorder.phase("forward")
        recorder.end_step()
        recorder.begin_step()
        recorder.end_step()
    first, second = rows_of(tmp_path / "run")
    assert (first["start_ns"], first["mark_name"]) == (10, ["forward"])
    assert second["mark_name"] == []

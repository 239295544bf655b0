"""Marks of a device, read a block at a time: the same tables, and memory that does not grow with the run."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest
from tests.gpu.played import played
from tests.gpu.recording import PlayedRecording, played_time

from wattstep.record.marking import StepMarker
from wattstep.schema.journal import MARK_FIELDS, Mark
from wattstep.store import marks
from wattstep.store.convert import convert
from wattstep.store.device_clock import DeviceTimes
from wattstep.store.packing import pack_closed

MS = 1_000_000
MARK = np.dtype([(name, f"<{letter}") for name, letter in MARK_FIELDS])


def recorded(path: Path) -> dict[str, Any]:
    """Tables and clock of a training that runs ahead, evaluates, and reads some events late."""
    host, gpu, cuda = played(drift=100e-6)
    with played_time(host):
        recording = PlayedRecording(path, cuda)
        for number in range(300):
            recording.steps.samples = 4.0
            begun = recording.steps.begin()
            recording.steps.mark("forward")
            gpu.launch("kernel", 9 * MS)
            recording.steps.mark("backward")
            gpu.launch("kernel", (5 + number % 7) * MS)
            if number % 40 == 0:
                cuda.synchronize()
            recording.steps.end(begun, 0.5)
            if number % 100 == 50:
                recording.steps.rest("evaluation")
                gpu.launch("kernel", 30 * MS)
        run = recording.close()
    tables = {
        name: pq.read_table(path / f"{name}.parquet").to_pydict() for name in ("steps", "spans")
    }
    del tables["steps"]["cpu_start_ns"], tables["steps"]["cpu_end_ns"]
    return {**tables, "clock": run.info.device_clock, "notes": run.info.notes}


@pytest.mark.parametrize("block", [7, 64, 1000])
def test_the_tables_do_not_depend_on_the_size_of_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    whole = recorded(tmp_path / "whole")
    monkeypatch.setattr("wattstep.store.journal_rows.BLOCK", block)
    assert repr(recorded(tmp_path / "blocks")) == repr(whole)


def test_the_tables_do_not_depend_on_segments_that_are_packed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = recorded(tmp_path / "whole")
    monkeypatch.setattr(marks, "CHUNK", 4096)  # 128 marks
    monkeypatch.setattr(marks, "WORDS", 512)
    monkeypatch.setattr(StepMarker.open, "__defaults__", (4096,))

    def converted(path: Path) -> None:
        pack_closed(path)
        assert len(list((path / "journal").glob("marks.*.parquet"))) > 10
        convert(path)

    monkeypatch.setattr("tests.gpu.recording.convert", converted)
    assert repr(recorded(tmp_path / "segments")) == repr(whole)


def marks_of(steps: int, block: int = 4096) -> Iterator[npt.NDArray[Any]]:
    """Marks of a device that is 100 ppm fast: each event is 40 us after its mark of the host, and known to 30 us."""
    for first in range(0, steps, block):
        rows = np.zeros(min(block, steps - first), MARK)
        rows["kind"], rows["index"], rows["value"] = Mark.DEVICE, 10_000, 70_000
        rows["t"] = 10**12 + 10 * MS * np.arange(first, first + len(rows))
        rows["cpu"] = ((rows["t"] + 40_000 - 10**12) * (1 + 100e-6)).astype(np.int64) + 2**40
        yield rows


def memory_of(steps: int) -> int:
    """Most bytes in use while hours of marks are mapped, all of them looked up."""
    tracemalloc.start()
    times = DeviceTimes(lambda: marks_of(steps))
    passage = times.passage()
    for rows in marks_of(steps):
        passage.go_on(int(rows["t"][0]), int(rows["t"][-1]))
        at, known = passage.of(rows["t"].astype(np.int64))
        assert known.all()
        assert np.abs(at - rows["t"] - 40_000).max() <= times.clocks[0].uncertainty_ns + 1
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert times.clocks[0].uncertainty_ns < 35_000
    assert times.clocks[0].rate == pytest.approx(1 - 100e-6, abs=1e-7)
    return most


def test_hours_of_marks_take_little_memory() -> None:
    """Ten hours of steps of 10 ms are 115 MB of marks; what is kept is one event in 250 ms."""
    minutes, hours = memory_of(10**5), memory_of(36 * 10**5)
    assert hours < 24 * 2**20
    assert hours - minutes < 36 * 10**5 * 5  # bytes: an event in 25 is kept, and its knot


def test_times_that_are_asked_for_again_are_those_of_before() -> None:
    times = DeviceTimes(lambda: marks_of(5000))
    once, again = times.passage(), times.passage()
    last = 10**12 + 10 * MS * 4999
    again.go_on(10**12, last)
    for t_ns in range(10**12, last, 777 * MS):
        once.go_on(t_ns, t_ns)
        assert once.after(t_ns) == again.after(t_ns) >= t_ns

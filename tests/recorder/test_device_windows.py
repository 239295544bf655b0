"""What a window writes of work on devices, and in which order: played by a tracer that has it ready."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wattstep.record.tracing.schedule import TraceMode
from wattstep.record.tracing.windows import Windows
from wattstep.schema.tracer import TracedStep, Tracer
from wattstep.store.marks import MarkJournal


class Ready(Tracer):
    """A tracer, and the engine that brings it along."""

    def __init__(self, step: TracedStep) -> None:
        self.step = step

    def tracer(self, code: Any) -> Tracer:
        return self

    def start(self) -> None:
        pass

    def mark(self) -> int:
        return 0

    def finish(self) -> None:
        pass

    def cancel(self) -> None:
        pass

    def rows(self, step: int, window: int, phases: Any) -> TracedStep:
        return self.step


STEP = TracedStep(b"of the CPU", 1, 0, b"of the GPU", ("the GPU was not seen",))


@pytest.fixture
def marks(tmp_path: Path) -> Iterator[MarkJournal]:
    (tmp_path / "journal").mkdir()
    journal = MarkJournal(tmp_path / "journal")
    yield journal
    journal.close()


def opened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def trace(marks: MarkJournal, operations: int, devices: int | None, notes: list[str]) -> None:
    windows = Windows(
        TraceMode.parse("every:2"),
        0,
        marks,
        operations,
        notes.append,
        lambda: Ready(STEP),
        devices=devices,
    )  # type: ignore[arg-type]
    assert windows.open()
    windows.finish()
    windows.close(0)


def test_work_on_devices_goes_into_its_own_journal_and_notes_are_said(
    tmp_path: Path, marks: MarkJournal
) -> None:
    files, notes = (tmp_path / "cpu", tmp_path / "gpu"), list[str]()
    trace(marks, *map(opened, files), notes)
    assert [file.read_bytes() for file in files] == [STEP.rows, STEP.device_rows]
    assert tuple(notes) == STEP.notes


def test_on_a_disk_that_is_full_for_devices_nothing_of_the_step_is_written(
    tmp_path: Path, marks: MarkJournal
) -> None:
    cpu = tmp_path / "cpu"
    full = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match=r"."):
        trace(marks, opened(cpu), full, [])
    assert cpu.read_bytes() == b""


def test_on_a_disk_that_is_full_for_the_cpus_rows_those_of_devices_stand_alone(
    tmp_path: Path, marks: MarkJournal
) -> None:
    """Conversion leaves them out: tests/store/test_device_operations.py."""
    gpu = tmp_path / "gpu"
    full = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match=r"."):
        trace(marks, full, opened(gpu), [])
    assert gpu.read_bytes() == STEP.device_rows


def test_a_recorder_of_one_file_alone_takes_the_cpus_rows(
    tmp_path: Path, marks: MarkJournal
) -> None:
    cpu = tmp_path / "cpu"
    trace(marks, opened(cpu), None, [])
    assert cpu.read_bytes() == STEP.rows

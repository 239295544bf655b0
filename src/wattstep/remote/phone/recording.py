"""Writes the run of a command on a phone: journals while it is recorded, tables when it is closed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Final

from wattstep.errors import RecordingError
from wattstep.record.sensors.android import Phone
from wattstep.record.sensors.android.clock import Point
from wattstep.record.sensors.android.sections import Wanted
from wattstep.record.sensors.android.source import LEAST_PERIOD_S, PhoneSource
from wattstep.record.stepping import wall_clock
from wattstep.remote.phone.clock import PhoneClock
from wattstep.schema.channel import Channel, SensorRead
from wattstep.schema.journal import JOURNAL, MISSING, OPERATIONS, samples_name
from wattstep.schema.processes import child_command
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.store.files import create_folder, remove_empty, write_info, write_whole
from wattstep.store.lock import RunLock
from wattstep.store.marks import MarkJournal

FIRST_POINTS_S: Final = 15.0  # that two moments on both clocks are waited for
STAT = "cat /proc/{pid}/stat /proc/{pid}/status"


def own_reads(pid: int, ticks_hz: int) -> tuple[Wanted, ...]:
    """Reads of the command itself and of the loop that reads; none without its tick."""
    if not ticks_hz:
        return ()
    tick_s = 1.0 / ticks_hz
    cpu_note = "with children that it has waited for"
    times = Channel(
        name="process.cpu_time", unit="s", kind="counter", domain="process",
        role="process_cpu_time_coarse", source="/proc/PID/stat of the command, on the phone",
        scale=tick_s, resolution=tick_s, note=cpu_note,
    )  # fmt: skip
    resident, highest = (
        Channel(
            name=f"process.{name}", unit="B", kind="gauge", domain="process", role=name,
            source="/proc/PID/status of the command, on the phone", scale=1024.0,
            note="without its children",
        )
        for name in ("resident_memory", "highest_resident_memory")
    )  # fmt: skip
    loop = Channel(
        name="phone.loop.cpu_time", unit="s", kind="counter", domain="sampler",
        role="sampler_cpu_time", source="/proc/PID/stat of the loop on the phone", scale=tick_s,
        resolution=tick_s, note="without the services that dumpsys asks, and without adbd",
    )  # fmt: skip
    return (
        Wanted(
            kind="run", argument=STAT.format(pid=pid), every_s=0.5, decoder="process",
            arguments=(), channels=(times, resident, highest),
        ),
        Wanted(
            kind="own", argument="loop", every_s=2.0, decoder="own", arguments=(),
            channels=(loop,),
        ),
    )  # fmt: skip


class PhoneRecording:
    """The run while it is recorded, and the thread that samples the phone.

    What has come is on disk at once: a run whose recorder was killed is recovered from its
    journals when it is opened.

    Args:
        folder: Of the new run.
        interval_s: Rest between two rounds of reads, at least 0.1 s.

    Attributes:
        marks: The journal of steps.
        clock: The phone's clock on ours.
        problem: Why recording ended early, or None.

    Raises:
        RunExistsError: The folder is taken.
        RecordingError: It cannot be made.
    """

    def __init__(self, folder: Path, interval_s: float) -> None:
        self.path = folder
        self.clock = PhoneClock()
        self.problem: str | None = None
        self.began_ns = time.perf_counter_ns()
        self._interval_s = max(interval_s, LEAST_PERIOD_S)
        self._notes: list[str] = []
        self._lost: dict[str, int] = {}
        self._peaks: list[tuple[int, int]] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._files = contextlib.ExitStack()
        self._operations: IO[bytes] | None = None
        self._info: RunInfo | None = None
        self._above = create_folder(folder)
        try:
            self._lock = RunLock(folder)
            self.marks = MarkJournal(folder / JOURNAL)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            remove_empty(self._above)
            raise RecordingError(f"cannot record into {folder}: {error.strerror}") from error

    # --- beginning ------------------------------------------------------------------------

    def start(self, phone: Phone, reads: Sequence[SensorRead], about: Mapping[str, Any]) -> None:
        """Begins to sample, and waits until the phone's clock is known.

        Args:
            phone: As it was found.
            reads: Of the phone's loop, the clock's first.
            about: Fields of `RunInfo`.

        Raises:
            RecordingError: The disk is full, or the phone's loop gives nothing.
        """
        planned = tuple(self._planned(number, read) for number, read in enumerate(reads))
        missing = {name: f.reason for name, f in phone.sensors.items() if hasattr(f, "reason")}
        known: dict[str, Any] = {
            "batch_size": None, "threads": None, "precision": None, "processor": None,
            "seed": None, "trace": "none", **about,
        }  # fmt: skip
        for note in phone.notes:
            self.note(note)
        self._info = RunInfo(
            state="recording",
            created=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            interval_s=self._interval_s,
            device=phone.device,
            scheduling="a loop of the phone's shell, at ordinary priority",
            reads=planned,
            absent=missing,
            clocks=(wall_clock(),),
            notes=tuple(self._notes),
            **known,
        )
        try:
            write_info(self.path, self._info)
            files = [self._open(number) for number in range(len(planned))]
        except OSError as error:
            raise RecordingError(f"cannot record into {self.path}: {error.strerror}") from error
        settings = reads[0].push_settings
        source = PhoneSource(settings["shell"], settings["reads"], self._interval_s, self._point)
        self._known = threading.Event()
        self._thread = threading.Thread(
            target=self._sample, args=(source, _Rows(self, planned, files)), daemon=True
        )
        self._thread.start()
        if not self._known.wait(FIRST_POINTS_S):
            self.note("the phone's loop had given nothing when the command began")

    def _planned(self, number: int, read: SensorRead) -> PlannedRead:
        every = max(1, round(read.least_period_s / self._interval_s))
        path = re.sub(r"/proc/\d+", "/proc/PID", read.path)
        return PlannedRead(
            number=number, sensor="phone", path=path, parser=read.parser, every=every,
            channels=read.channels,
        )  # fmt: skip

    def _open(self, number: int) -> Any:
        path = self.path / JOURNAL / samples_name(number)
        return self._files.enter_context(path.open("ab", buffering=0))

    def _point(self, point: Point, uptime_us: int) -> None:
        self.clock.add(point, uptime_us)
        if len(self.clock) >= 2:
            self._known.set()

    def _sample(self, source: PhoneSource, rows: _Rows) -> None:
        """The thread: the loop on the phone, until it is stopped."""
        try:
            source.run(rows.emit, self._stop)
        except OSError as error:
            self.fail(f"the phone is sampled no further: {error.strerror or error}")

    # --- while it records -----------------------------------------------------------------

    def note(self, text: str) -> None:
        """Something that the reader of the run must know."""
        if text not in self._notes:
            self._notes.append(text)

    def fail(self, reason: str) -> None:
        """Recording ends; what runs on the phone goes on."""
        if self.problem is None:
            self.problem = reason
            self._lost["samples"] = time.perf_counter_ns()
            self.note(f"recording ended early: {reason}")

    def add_operations(self, rows: bytes) -> None:
        """Appends rows of a traced step (`schema.journal.OPERATION`).

        Raises:
            OSError: The disk is full.
        """
        if self._operations is None:
            path = self.path / JOURNAL / OPERATIONS
            self._operations = self._files.enter_context(path.open("ab", buffering=0))
        write_whole(self._operations.fileno(), rows)

    def about(self, **fields: Any) -> None:
        """Fields of `RunInfo` that became known only now."""
        assert self._info is not None
        self._info = replace(self._info, **fields)

    def lost(self, part: str, t_ns: int | None = None) -> None:
        """Something is not recorded from this time on, or from now."""
        self._lost.setdefault(part, time.perf_counter_ns() if t_ns is None else t_ns)

    def save(self, *more: str) -> None:
        """Writes what is known of the run, so that one whose recorder is killed has it too.

        Args:
            more: Notes that hold up to now; at the end others may stand for them.

        Raises:
            OSError: The disk is full.
        """
        assert self._info is not None
        notes = dict.fromkeys((*self._notes, *more))
        write_info(self.path, replace(self._info, notes=tuple(notes), lost=dict(self._lost)))

    def saw_peak(self, t_ns: int, size: int) -> None:
        """The highest resident memory that the command has had up to now, in B."""
        self._peaks.append((t_ns, size))

    def peak_since(self, t_ns: int) -> tuple[int, int] | None:
        """The highest that was seen from this time on, in B, and when it was read last, in ns."""
        seen = [(size, at_ns) for at_ns, size in self._peaks if at_ns >= t_ns]
        return (max(seen)[0], seen[-1][1]) if seen else None

    # --- end ------------------------------------------------------------------------------

    def stop_sampling(self) -> None:
        """Ends the loop on the phone, its last echoes waited for."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def discard(self) -> None:
        """Nothing ran: the folder goes."""
        self.stop_sampling()
        self._close_files()
        self._lock.release()
        shutil.rmtree(self.path, ignore_errors=True)
        remove_empty(self._above)

    def close(self) -> None:
        """Writes the tables, in a child; what cannot be written stays in the journals.

        Raises:
            RecordingError: The tables could not be written; what was recorded is kept.
        """
        self.stop_sampling()
        assert self._info is not None
        self._info = replace(
            self._info, notes=tuple(self._notes), lost=dict(self._lost),
            clocks=(*self._info.clocks, wall_clock()),
        )  # fmt: skip
        trouble = None
        try:
            self._close_files()
            write_info(self.path, self._info)
        except OSError as error:
            trouble = error.strerror or str(error)
        self._lock.hand_over()
        done = subprocess.run(
            child_command("wattstep.store.convert:main", str(self.path), "closed"),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            check=False, env=dict(os.environ),
        )  # fmt: skip
        self._lock.release()
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip().splitlines()
            trouble = words[-1] if words else "no reason given"
        if trouble is not None:
            raise RecordingError(
                f"the tables could not be written ({trouble}); the journals are kept in "
                f"{self.path}, and are turned into tables when the run is next opened"
            )

    def _close_files(self) -> None:
        self.marks.close()
        self._files.close()


class _Rows:
    """Appends the rows of each read to its journal."""

    def __init__(
        self, recording: PhoneRecording, planned: Sequence[PlannedRead], files: Sequence[Any]
    ) -> None:
        self._recording, self._files = recording, files
        self._widths = [len(read.channels) for read in planned]
        self._peak = next(
            (
                (read.number, column)
                for read in planned
                for column, channel in enumerate(read.channels)
                if channel.role == "highest_resident_memory"
            ),
            None,
        )

    def emit(self, number: int, t_ns: int, errno: int, values: Sequence[int] | None) -> None:
        """Emits a row, as a source that pushes does.

        Raises:
            OSError: The disk is full.
        """
        width = self._widths[number]
        row_values = [MISSING] * width if values is None else values
        row = struct.pack(f"<{2 + width}q", t_ns, errno, *row_values)
        self._files[number].write(row)
        if self._peak is not None and self._peak[0] == number:
            kibibytes = row_values[self._peak[1]]
            if kibibytes != MISSING:
                self._recording.saw_peak(t_ns, kibibytes * 1024)

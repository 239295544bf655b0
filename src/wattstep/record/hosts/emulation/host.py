"""An emulated board as the place where a run's sensors are: its tree, its mover, and what they are worth."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.record.hosts import HOST, host_load, with_status
from wattstep.record.hosts.emulation.mover import READY
from wattstep.record.hosts.emulation.pausing import is_job_of_a_shell
from wattstep.record.hosts.emulation.power import core_count
from wattstep.record.hosts.emulation.settings import Settings, make_settings
from wattstep.record.hosts.emulation.tree import build
from wattstep.record.sensors import load, probe_all
from wattstep.record.sensors.machine import describe
from wattstep.record.sensors.process_threads import ThreadTimes
from wattstep.schema.channel import Absent, Channel, Present, SensorRead
from wattstep.schema.processes import child_command, readable
from wattstep.schema.run_documents import DeviceFacts

PREFIX: Final = "wattstep-emulated-"
MEMORY_FOLDER: Final = Path("/dev/shm")  # files that change 100 times a second spare the disk
START_S: Final = 20.0
STOP_S: Final = 5.0


def open_host(name: str, options: Mapping[str, str], pid: int, folder: Path) -> EmulatedHost:
    """Builds the tree of a board and starts what moves it.

    Args:
        name: Of the board, e.g. "jetson-tx2".
        options: Of `emulate:NAME,key=value`; see `settings.Settings`.
        pid: The training process, whose load moves the board.
        folder: Of the run; what the board truly did is kept in `emulation/` there.

    Raises:
        InvalidValueError: There is no such board, or an option cannot be used.
        RecordingError: The tree cannot be made, or the mover does not start.
    """
    settings = make_settings(name, options)
    if settings.slow and is_job_of_a_shell(pid):
        raise InvalidValueError(
            "slow= pauses the training, which the shell that started it would take for a job that "
            "was stopped: wattstep run and wattstep profile train in a process of their own",
            id="pauses-a-job",
        )
    root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_home()))
    try:
        build(root, settings)
        mover = _start(root, name, options, pid, folder)
    except BaseException as error:
        shutil.rmtree(root, ignore_errors=True)
        if isinstance(error, OSError):
            raise RecordingError(f"{name} cannot be emulated: {error}") from error
        raise
    return EmulatedHost(settings, root, mover, pid)


class EmulatedHost:
    """A board that is not there: the real sensors read its tree, and find it `modelled`.

    Attributes:
        device: Of the board; "emulation" says where its numbers come from, and "emulated_on" holds
            the machine that it really runs on.
        notes: Facts that every reader of the run must know.
        root: Of the tree.
        mover: The process that moves it.
    """

    def __init__(
        self, settings: Settings, root: Path, mover: subprocess.Popen[bytes], pid: int
    ) -> None:
        self._settings, self.root, self.mover, self._pid = settings, root, mover, pid
        self._closed = False
        board = settings.board
        self.device: DeviceFacts = {
            **describe(root),
            "cpu": " + ".join(f"{len(c.cores)} {c.kind}" for c in board.clusters),
            "cores": core_count(board),
            "architecture": "aarch64",
            "kernel": "",
            "emulation": settings.numbers.source,
            **({"slowed": settings.slow} if settings.slow else {}),
            "emulated_on": describe(),
        }
        self.notes: tuple[str, ...] = tuple(_notes(settings))
        self.hidden = str(root)

    def probe(self) -> dict[str, Present | Absent]:
        """Reads that the real sensors find: the board's in its tree, the training's own on this machine."""
        sensors = probe_all(self.root, self._pid, process_root=Path("/"))
        marked = {name: self._marked(name, result) for name, result in sensors.items()}
        return {**marked, HOST: host_load(), "emulator": self._own_load()}

    def _own_load(self) -> Present | Absent:
        """CPU time of the mover: it is neither the training nor a disturbance."""
        times = ThreadTimes().probe(Path("/"), self.mover.pid)
        if isinstance(times, Absent):
            return Absent(reason="the kernel keeps no account of it")
        (read,) = times.reads
        (channel,) = read.channels
        own = replace(
            channel, name="emulator.cpu_time", domain="sampler", role="emulator_cpu_time",
            source="schedstat of the emulator",
        )  # fmt: skip
        return Present(reads=(replace(read, channels=(own,)),))

    def _marked(self, name: str, result: Present | Absent) -> Present | Absent:
        if isinstance(result, Absent):
            return Absent(reason=result.reason.replace(str(self.root), ""))
        if load(name).scope == "process":
            return Present(reads=tuple(map(self._without_mover, result.reads)))
        reads = (replace(read, channels=tuple(self._windows(read))) for read in result.reads)
        return with_status(Present(reads=tuple(reads)), "modelled")

    def _without_mover(self, read: SensorRead) -> SensorRead:
        """The mover is our child, and no child of the training."""
        if read.parser not in ("children", "family"):
            return read
        return replace(read, arguments=(*read.arguments, self.mover.pid))

    def _windows(self, read: SensorRead) -> Iterator[Channel]:
        """The emulated chips average as they were told to, whatever the board's own do."""
        for channel in read.channels:
            power = channel.role.startswith("power_")
            yield replace(channel, window_s=self._settings.averaging_s) if power else channel

    def close(self) -> None:
        """Ends the mover and removes the tree."""
        if self._closed:
            return
        self._closed = True
        if self.mover.poll() is not None:
            self.notes += ("the emulator ended before the run: from then on nothing moved",)
        _end(self.mover)
        shutil.rmtree(self.root, ignore_errors=True)


def _end(mover: subprocess.Popen[bytes]) -> None:
    mover.terminate()
    try:
        mover.wait(STOP_S)
    except subprocess.TimeoutExpired:
        mover.kill()
        mover.wait()


def _notes(settings: Settings) -> Iterator[str]:
    title = settings.board.title
    yield (
        f"emulated {title}: power, temperature and clocks are modelled from the load on this "
        f"machine; times are this machine's, not those of a board, and {_slowing(settings)}; never "
        f"evidence about a real {title}"
    )
    if not settings.board.emulation:
        yield f"watts and heat of the {title} are not in its table: they are of no board at all"
    if not settings.rails and settings.board.rails:
        yield f"the power sensors of the {title} are not emulated: they are no INA3221"


def _slowing(settings: Settings) -> str:
    """What a lowered clock does to the training, in words."""
    if not settings.slow:
        return "a lowered clock does not slow the training"
    return (
        "a lowered clock slows the training by pauses, as if "
        f"{100 * settings.slow:g} % of its time went with the clock: its times are modelled"
    )


def _home() -> str | None:
    """A folder in memory, or None for where temporary files go."""
    usable = MEMORY_FOLDER.is_dir() and os.access(MEMORY_FOLDER, os.W_OK | os.X_OK)
    return str(MEMORY_FOLDER) if usable else None


def _start(
    root: Path, name: str, options: Mapping[str, str], pid: int, folder: Path
) -> subprocess.Popen[bytes]:
    """The mover, after its first word.

    Raises:
        RecordingError: It said something else, or nothing.
    """
    task = {
        "board": name, "options": dict(options), "pid": pid, "parent": os.getpid(),
        "root": str(root), "run": str(folder),
    }  # fmt: skip
    mover = subprocess.Popen(
        child_command("wattstep.record.hosts.emulation.mover:main", json.dumps(task)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(os.environ),
        start_new_session=True,  # Ctrl-C is for the training
    )
    answer = _first_words(mover)
    if answer != READY:
        mover.kill()
        mover.wait()
        words = answer.decode(errors="replace").strip().splitlines() or ["it does not answer"]
        raise RecordingError(
            f"the emulator of {name} cannot be started: {words[-1]}", id="emulator-start"
        )
    return mover


def _first_words(mover: subprocess.Popen[bytes]) -> bytes:
    assert mover.stdout is not None
    with mover.stdout as pipe:
        return os.read(pipe.fileno(), 65536) if readable(pipe.fileno(), START_S) else b""

"""One device of a fleet while a sweep lasts: opened when it is first needed, kept open, left as it was."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from wattstep.boards import COMPATIBLE, MODEL
from wattstep.errors import RecordingError, WattstepError
from wattstep.fleet.cooling import Cooled, cool_down, hottest_zone
from wattstep.fleet.fleet_file import Device
from wattstep.fleet.limits import MemoryLimit, beyond_machine, find_limit
from wattstep.fleet.measuring import Listener, measure
from wattstep.fleet.outcome import Configuration, Outcome
from wattstep.fleet.place import one_at_a_time
from wattstep.fleet.remote import Connection
from wattstep.fleet.remote.board import BoardOptions, RemoteBoard
from wattstep.fleet.remote.install import Board, look
from wattstep.fleet.remote.job import Job
from wattstep.fleet.remote.ssh import Address, SshConnection
from wattstep.fleet.sweep import with_cooling
from wattstep.sensors.thermal import FOLDER as ZONES
from wattstep.targets import LOCAL, parse_target
from wattstep.training import Progress, TrainingSettings

_FILE: Final = b"\n--- "  # begins each file in what a board tells of its thermal zones


@dataclass(frozen=True, kw_only=True)
class Task:
    """One measurement that a device is given.

    Attributes:
        configuration: What.
        settings: How; its run goes to `out`.
        memory_limit: In bytes, or None.
        cooldown: As `cooling.cool_down` takes its rule.
        baseline: Hottest zone there before its first configuration in °C, or None.
    """

    configuration: Configuration
    settings: TrainingSettings
    memory_limit: int | None
    cooldown: str
    baseline: float | None


class Measuring(Protocol):
    """A device as a sweep sees it. All but `end` is called by one thread."""

    def measure(self, task: Task, listener: Listener) -> Outcome:
        """Cools down, and measures.

        Raises:
            ConnectionLostError: It is away.
            WattstepError: It cannot be used, or nothing can be recorded there.
        """
        ...

    def end(self) -> None:
        """Asks what is measured now to end; for another thread."""
        ...

    def close(self) -> None:
        """Leaves the device as it was; it can be used again."""
        ...


def open_device(device: Device, runs: Collection[str], say: Callable[[str], None]) -> Measuring:
    """A device, which is not reached before it is needed.

    Args:
        device: Which.
        runs: Names of the sweep's runs there; what was left of them by an earlier turn goes.
        say: Takes lines for the user.
    """
    return LocalDevice() if device.target == LOCAL else BoardDevice(device, runs, say)


class LocalDevice:
    """This machine, on which nobody else measures meanwhile."""

    def __init__(self) -> None:
        self._thread: int | None = None

    def measure(self, task: Task, listener: Listener) -> Outcome:
        """See `Measuring`."""
        with one_at_a_time():
            limit = None if task.memory_limit is None else find_limit(task.memory_limit)
            too_much = None if limit is None else beyond_machine(limit)
            if too_much is not None:
                listener.on_warning(too_much)
            cooled = _cooled(task, listener, hottest_zone)
            self._thread = threading.get_native_id()
            try:
                outcome = measure(task.configuration, task.settings, limit, listener)
            finally:
                self._thread = None
        return with_cooling(cooled, outcome)

    def end(self) -> None:
        """Ends the training that our thread began; what it recorded is dropped by the sweep."""
        if self._thread is None:
            return
        children = Path(f"/proc/self/task/{self._thread}/children")
        with suppress(OSError):  # it has ended meanwhile, or the kernel does not list children
            for pid in children.read_text(encoding="ascii").split():
                os.kill(int(pid), signal.SIGTERM)

    def close(self) -> None:
        """Nothing was put anywhere."""


class BoardDevice:
    """A board over ssh; its installation stays until `close`, and longer with keep=yes.

    Args:
        device: With the target of a board.
        runs: As `open_device` takes them.
        say: Likewise.
    """

    def __init__(self, device: Device, runs: Collection[str], say: Callable[[str], None]) -> None:
        target = parse_target(device.target)
        self._address = Address.parse(target.name)
        self._options = BoardOptions.parse(target.options)
        self._runs, self._say = frozenset(runs), say
        self._connection: SshConnection | None = None
        self._place: RemoteBoard | None = None

    def measure(self, task: Task, listener: Listener) -> Outcome:
        """See `Measuring`; of a board that fails nothing is kept open."""
        clear_beside(Path(task.settings.out or task.configuration.name))
        try:
            place, connection = self._opened(listener)
            cooled = _cooled(task, listener, lambda: hottest_zone_of(connection))
            size = task.memory_limit
            # How it is enforced is found on the board.
            limit = None if size is None else MemoryLimit(size=size, means="data segments")
            outcome = place.measure(task.configuration, task.settings, limit, listener)
        except (WattstepError, OSError):
            self.close()
            raise
        return with_cooling(cooled, nameless(outcome, place.board.folder))

    def end(self) -> None:
        """As Ctrl-C does there; a board that is away goes on."""
        place = self._place
        if place is not None:
            # Its own thread may have closed it, or its job may have ended, just now.
            with suppress(WattstepError, OSError):
                place.end_job()

    def close(self) -> None:
        """Takes away what was put there, as far as it can be reached."""
        place, connection = self._place, self._connection
        self._place = self._connection = None
        if place is None or connection is None:
            return
        try:
            self._forget_ended(connection, look(connection, self._options.folder))
        except (RecordingError, OSError):
            pass  # it is away, or refuses us: closing says what stays there
        finally:
            place.close()

    def _opened(self, listener: Listener) -> tuple[RemoteBoard, SshConnection]:
        if self._place is not None and self._connection is not None:
            return self._place, self._connection
        listener.on_progress(Progress(stage="connecting"))
        connection = SshConnection(self._address, say=self._say)
        try:
            place = RemoteBoard(connection, self._options, self._say)
            self._forget_ended(connection, place.board)
        except BaseException:
            connection.close()
            raise
        self._connection, self._place = connection, place
        return place, connection

    def _forget_ended(self, connection: SshConnection, board: Board) -> None:
        """What an earlier try left: measured again, or about to be. What runs still has its turn."""
        for told in board.jobs:
            if told["kind"] == "measure" and told["run"] in self._runs:
                job = Job(connection, board.executable, board.folder, told["id"])
                if told["state"] == "running":
                    continue
                job.stop(signal.SIGKILL)  # what it started may go on without it
                job.remove()


def clear_beside(run: Path) -> None:
    """Removes what an earlier try left beside a run: its output, and half of what came."""
    run.with_name(f"{run.name}.txt").unlink(missing_ok=True)
    shutil.rmtree(run.with_name(f".{run.name}.coming"), ignore_errors=True)


def hottest_zone_of(connection: Connection) -> float | None:
    """Temperature of a board's hottest thermal zone in °C, or None where none can be read.

    Raises:
        ConnectionLostError: The board is away.
    """
    files = f"/{COMPATIBLE} /{MODEL} /{ZONES}/thermal_zone*/type /{ZONES}/thermal_zone*/temp"
    told = connection.run(
        f"for file in {files}; do [ -r $file ] || continue; "
        "printf '\\n--- %s\\n' $file; cat $file 2>/dev/null; done; true"
    )
    with tempfile.TemporaryDirectory(prefix="wattstep-") as root:
        for part in told.output.split(_FILE)[1:]:
            name, _, content = part.partition(b"\n")
            _write_below(Path(root), name.decode(errors="replace"), content)
        return hottest_zone(Path(root))


def _write_below(root: Path, name: str, content: bytes) -> None:
    """A file that the board was asked for; any other name that it tells is passed over."""
    if re.fullmatch(rf"/(?:{COMPATIBLE}|{MODEL}|{ZONES}/thermal_zone\d+/(?:type|temp))", name):
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def nameless(outcome: Outcome, folder: str) -> Outcome:
    """An outcome of a board's without the folder of its user's.

    Args:
        outcome: As it came.
        folder: Ours there, in full.
    """
    home = re.match(r"/(?:home|Users)/[^/]+|/root(?=/|$)", folder)
    names = [folder, *([home[0]] if home else [])]

    def without(value: Any) -> Any:
        if isinstance(value, str):
            for name in names:
                value = re.sub(rf"{re.escape(name)}(?![\w.-])", "…", value)
            return value
        if isinstance(value, dict):
            return {key: without(each) for key, each in value.items()}
        return [without(each) for each in value] if isinstance(value, list | tuple) else value

    return Outcome.from_dict(without(outcome.to_dict()))


def _cooled(task: Task, listener: Listener, read: Callable[[], float | None]) -> Cooled:
    if task.cooldown not in ("none", "auto") or task.baseline is not None:
        listener.on_progress(Progress(stage="cooling down"))
    return cool_down(task.cooldown, task.baseline, read=read)

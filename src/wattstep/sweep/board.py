"""The devices of a fleet as hosts of a sweep: opened when they are first needed, kept open, left as they were."""

from __future__ import annotations

import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from wattstep.boards import COMPATIBLE, MODEL
from wattstep.errors import RecordingError, WattstepError
from wattstep.record.hosts import LOCAL, parse_target
from wattstep.record.sensors.thermal import FOLDER as ZONES
from wattstep.remote.ssh import Connection
from wattstep.remote.ssh.board import BoardOptions, RemoteBoard
from wattstep.remote.ssh.install import Board, look
from wattstep.remote.ssh.job import Job
from wattstep.remote.ssh.ssh import Address, SshConnection
from wattstep.schema.outcome import Outcome
from wattstep.sweep.cooling import hottest_zone
from wattstep.sweep.fleet_file import Device
from wattstep.sweep.folder import SweepFolder
from wattstep.sweep.hosts import Host, LocalHost, Task, cool, with_cooling
from wattstep.sweep.plan import SweepPlan
from wattstep.sweep.sweep import RETRY_S, HostsListener, Say, sweep_on
from wattstep.train.child.limits import MemoryLimit
from wattstep.train.child.measuring import Listener
from wattstep.train.progress import Progress

_FILE: Final = b"\n--- "  # begins each file in what a board tells of its thermal zones


def open_device(device: Device, runs: Collection[str], say: Callable[[str], None]) -> Host:
    """A device of a fleet, which is not reached before it is needed.

    Args:
        device: Which.
        runs: Names of the sweep's runs there; what was left of them by an earlier turn goes.
        say: Takes lines for the user.
    """
    return LocalHost(device.name) if device.target == LOCAL else BoardHost(device, runs, say)


def sweep_fleet(
    devices: Sequence[Device],
    plan: SweepPlan,
    folder: SweepFolder,
    listener: HostsListener,
    *,
    opener: Callable[[Device, Collection[str], Callable[[str], None]], Host] = open_device,
    retry_s: float = RETRY_S,
) -> None:
    """The sweep on all devices at once; see `sweep_on`.

    Args:
        devices: As the plan names them.
        plan: Plan of the sweep.
        folder: Where runs and outcomes go.
        listener: Who is told.
        opener: Gives the device as it is used.
        retry_s: As `sweep_on` takes it.

    Raises:
        KeyboardInterrupt: The user stopped it; the same plan in the same folder continues.
        RecordingError: As `sweep_on`.
    """

    def opened(say: Say) -> list[Host]:
        runs: dict[str | None, list[str]] = {device.name: [] for device in devices}
        for one in plan.configurations():
            runs[one.device].append(one.name)
        return [opener(each, runs[each.name], partial(say, each.name)) for each in devices]

    sweep_on(opened, plan, folder, listener, retry_s=retry_s)


class BoardHost:
    """A board over ssh; its installation stays until `close`, and longer with keep=yes.

    Args:
        device: With the target of a board.
        runs: As `open_device` takes them.
        say: As `open_device` takes it.
    """

    look_every_s = None

    def __init__(self, device: Device, runs: Collection[str], say: Callable[[str], None]) -> None:
        self.name = device.name
        target = parse_target(device.target)
        self._address = Address.parse(target.name)
        self._options = BoardOptions.parse(target.options)
        self._runs, self._say = frozenset(runs), say
        self._connection: SshConnection | None = None
        self._place: RemoteBoard | None = None
        self._ended = threading.Event()

    def room(self) -> int:
        """See `Host`."""
        return 1

    def measure(self, task: Task, listener: Listener) -> Outcome:
        """See `Host`; of a board that fails nothing is kept open."""
        clear_beside(Path(task.settings.out or task.configuration.name))
        try:
            remote_board, connection = self._opened(listener)
            cooled = cool(
                task.cooling(), listener, lambda: hottest_zone_of(connection), self._ended
            )
            size = task.memory_limit
            # How it is enforced is found on the board.
            limit = None if size is None else MemoryLimit(size=size, means="data segments")
            outcome = remote_board.measure(task.configuration, task.settings, limit, listener)
        except (WattstepError, OSError):
            self.close()
            raise
        return with_cooling(cooled, nameless(outcome, remote_board.board.folder))

    def end(self) -> None:
        """As Ctrl-C does there; a board that is away goes on."""
        self._ended.set()
        board = self._place
        if board is not None:
            # Its own thread may have closed it, or its job may have ended, just now.
            with suppress(WattstepError, OSError):
                board.end_job()

    def close(self) -> None:
        """Takes away what was put there, as far as it can be reached."""
        board, connection = self._place, self._connection
        self._place = self._connection = None
        if board is None or connection is None:
            return
        try:
            self._forget_ended(connection, look(connection, self._options.folder))
        except (RecordingError, OSError):
            pass  # it is away, or refuses us: closing says what stays there
        finally:
            board.close()

    def _opened(self, listener: Listener) -> tuple[RemoteBoard, SshConnection]:
        if self._place is not None and self._connection is not None:
            return self._place, self._connection
        listener.on_progress(Progress(stage="connecting"))
        connection = SshConnection(self._address, say=self._say)
        try:
            board = RemoteBoard(connection, self._options, self._say)
            self._forget_ended(connection, board.board)
        except BaseException:
            connection.close()
            raise
        self._connection, self._place = connection, board
        return board, connection

    def _forget_ended(self, connection: SshConnection, board: Board) -> None:
        """Removes what an earlier try left: it is measured again. A job that still runs is left alone."""
        for entry in board.jobs:
            if entry.kind == "measure" and entry.run in self._runs:
                job = Job(connection, board.executable, board.folder, entry.id)
                if entry.state == "running":
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
    result = connection.run(
        f"for file in {files}; do [ -r $file ] || continue; "
        "printf '\\n--- %s\\n' $file; cat $file 2>/dev/null; done; true"
    )
    with tempfile.TemporaryDirectory(prefix="wattstep-") as root:
        for part in result.output.split(_FILE)[1:]:
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

"""The child process that moves the files of an emulated board with the load of the real training."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from wattstep.errors import WattstepError
from wattstep.record.hosts.emulation import tree
from wattstep.record.hosts.emulation.heat import Governor, Heat, zone_part
from wattstep.record.hosts.emulation.load import Training
from wattstep.record.hosts.emulation.pausing import Pauser
from wattstep.record.hosts.emulation.power import (
    Clocks,
    Load,
    clocks_for,
    core_count,
    memory_activity,
    part_watts,
    rail_volts,
    rail_watts,
    reading,
    spread,
    stretch,
)
from wattstep.record.hosts.emulation.settings import TICK_S, Settings, make_settings
from wattstep.record.hosts.emulation.truth import Column, Truth
from wattstep.record.sampling.sampler import grant_scheduling

READY: Final = b"moving\n"
SLOW_TICKS: Final = 10  # memory, fan and temperatures move so much more seldom
AGAIN_S: Final = 0.2  # a source that fails now and then does so in every other stretch of this
COLD: Final = -256_000  # what a zone without power says, in m°C
_FAN_C: Final = (40.0, 90.0)  # where the fan begins to turn, and where it turns full


class Files:
    """The files that move, held open and written in place, each with as many bytes as before.

    A reader that keeps them open as well sees every new value, and a number is never shorter or
    longer than the one that it replaces. Of four million reads beside a writer that never paused
    one was of two halves, cut at the eighth byte: the digits of all but a GPU's clock end before.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._fds: dict[str, int | None] = {}
        self._last: dict[str, bytes] = {}

    def put(self, name: str, content: int | bytes) -> None:
        """Writes a file anew if it changes; one that was replaced by a folder stays one."""
        data = tree.number_line(content) if isinstance(content, int) else content
        if self._last.get(name) == data:
            return
        fd = self._open(name)
        if fd is None:
            return
        os.pwrite(fd, data, 0)
        if not data or self._last.get(name) == b"":
            os.ftruncate(fd, len(data))
        self._last[name] = data

    def _open(self, name: str) -> int | None:
        if name not in self._fds:
            try:
                self._fds[name] = os.open(self._root / name, os.O_RDWR)
            except IsADirectoryError:
                self._fds[name] = None
        return self._fds[name]

    def written_by_others(self, name: str) -> int | None:
        """Number that somebody else wrote into a file since it was put; None: nothing that is one.

        What is no number is overwritten by the next value, as a kernel would have refused it.
        """
        fd = self._open(name)
        data = b"" if fd is None else os.pread(fd, tree.WIDTH, 0)
        if not data.strip() or data == self._last.get(name):  # empty: it is being written
            return None
        self._last.pop(name, None)
        number = data.split()[0]
        return int(number) if number.isdigit() else None

    def blank(self) -> None:
        """Empties all of them: whoever reads on gets an error instead of a value that stands still."""
        for name in list(self._last):
            self.put(name, b"")


class Average:
    """Means of several powers, each over the same stretch of time.

    Args:
        width: Number of columns.
        over_s: The stretch; it ends with the tick that is nearest, and is one tick at least.
    """

    def __init__(self, width: int, over_s: float) -> None:
        self._over_s = over_s - TICK_S / 2 if over_s > TICK_S else 0.0
        self._energy_j, self._seconds = [0.0] * width, 0.0

    def add(self, watts: Sequence[float], seconds: float) -> tuple[float, ...] | None:
        """So much for so long; the means where a stretch ends with it."""
        self._seconds += seconds
        for place, power in enumerate(watts):
            self._energy_j[place] += power * seconds
        if self._seconds < self._over_s:
            return None
        means = tuple(energy / self._seconds for energy in self._energy_j)
        self._energy_j, self._seconds = [0.0] * len(means), 0.0
        return means


class Mover:
    """Emulated board, moved tick by tick.

    Args:
        settings: The board.
        root: Of its tree.
        run: Folder in which the truth is kept.
    """

    def __init__(self, settings: Settings, root: Path, run: Path) -> None:
        self._settings = settings
        self._files = Files(root)
        self._truth: Truth | None = Truth(run, columns(settings))
        count = core_count(settings.board)
        idle = Load(cores=(0.0,) * count)
        parts = part_watts(settings, idle, clocks_for(settings.board, idle, 1.0))
        self._heat = Heat(settings, parts)
        self._governor = Governor(settings)
        # What is allowed by the files, which anybody may write, in their own units.
        self._allowed = dict(tree.cap_files(settings, 1.0))
        self._paused_s = 0.0
        self._busy_s, self._idle_s = [0.0] * count, [0.0] * count
        self._chips = Average(len(settings.rails), settings.averaging_s)
        self._rows = Average(len(settings.rails), settings.truth_s)
        self._registers = rail_watts(settings, parts)  # what the chips have converted last
        self._ticks = 0
        self._put_rails(0)
        self._put_slow(self._heat.zones_c(), 0, 0)

    def advance(
        self, now_ns: int, seconds: float, busy: float, resident: int, paused_s: float = 0.0
    ) -> float:
        """The time since the last call, in which so many cores were busy.

        Args:
            now_ns: Its end.
            seconds: Its length.
            busy: Cores, on average.
            resident: Memory in B.
            paused_s: All pauses of the training so far.

        Returns:
            How many times longer work takes at its clocks; see `power.stretch`.
        """
        settings, board = self._settings, self._settings.board
        self._paused_s = paused_s
        self._look_at_caps()
        load = spread(settings, busy)
        clocks = clocks_for(board, load, self._governor.cap, tree.allowed(settings, self._allowed))
        parts = part_watts(settings, load, clocks)
        watts = rail_watts(settings, parts)
        self._heat.advance(parts, seconds)
        zones = self._heat.zones_c()
        self._governor.advance(zones, seconds)
        # The chips average over their window, and show it until the next one is done.
        self._registers = self._chips.add(watts, seconds) or self._registers
        self._put_rails(now_ns)
        self._put_load(load, clocks, seconds)
        self._put_throttling()
        self._ticks += 1
        if self._ticks % SLOW_TICKS == 0:
            self._put_slow(zones, resident, now_ns)
        if (mean := self._rows.add(watts, seconds)) is not None:
            self._keep(now_ns, mean, zones, load, clocks, busy)
        return stretch(settings, load, clocks)

    def _look_at_caps(self) -> None:
        """Takes what somebody wrote as the highest clock, between the lowest and the highest there is."""
        highest = tree.cap_files(self._settings, 1.0)
        lowest = tree.cap_files(self._settings, 0.0)
        for name in self._allowed:
            if (value := self._files.written_by_others(name)) is not None:
                self._allowed[name] = min(max(value, lowest[name]), highest[name])

    def _put_rails(self, now_ns: int) -> None:
        settings = self._settings
        failing = settings.with_quirk("again") if _fails(now_ns) else frozenset()
        for rail, watts in zip(settings.rails, self._registers, strict=True):
            shown = reading(settings, rail, watts)
            names = tree.rail_files(settings, rail)
            broken = rail.label in failing
            self._files.put(names["mA"], b"" if broken else shown.milliamperes)
            if "mW" in names:
                self._files.put(names["mW"], b"" if broken else shown.milliwatts)
                pair = tree.pair_line(shown.millivolts, shown.milliamperes)
                self._files.put(names["pair"], b"" if broken else pair)

    def _put_load(self, load: Load, clocks: Clocks, seconds: float) -> None:
        board, files = self._settings.board, self._files
        for core, share in enumerate(load.cores):
            self._busy_s[core] += share * seconds
            self._idle_s[core] += (1.0 - share) * seconds
        files.put(tree.STAT, tree.stat_text(tuple(self._busy_s), tuple(self._idle_s)))
        for cluster, clock in zip(board.clusters, clocks.clusters, strict=True):
            folder = tree.policy_folder(cluster)
            files.put(f"{folder}/scaling_cur_freq", round(clock / 1e3))
            files.put(f"{folder}/cpuinfo_cur_freq", round(clock / 1e3))
        if board.gpu:
            files.put(f"{tree.gpu_folder(board)}/load", round(1000 * load.gpu))
            files.put(f"{tree.gpu_devfreq(board)}/cur_freq", round(clocks.gpu))
        if tree.has_memory_controller(board):
            used_hz = memory_activity(load) * board.memory_controller["max_hz"]
            files.put(tree.EMC_ACTIVITY, round(used_hz / 1e3))

    def _put_throttling(self) -> None:
        files, governor = self._files, self._governor
        for name, value in tree.cap_files(self._settings, governor.cap).items():
            files.put(name, min(value, self._allowed[name]))
        files.put(f"{tree.COOLING}/cur_state", governor.level)
        if tree.has_firmware(self._settings.board):
            now = tree.THROTTLED_NOW if governor.level else 0
            once = tree.THROTTLED_ONCE if governor.events else 0
            files.put(tree.FIRMWARE, tree.hex_line(now | once))

    def _put_slow(self, zones: Sequence[float], resident: int, now_ns: int) -> None:
        settings = self._settings
        failing = settings.with_quirk("again") if _fails(now_ns) else frozenset()
        cold = settings.with_quirk("cold")
        for place, (zone, celsius) in enumerate(zip(settings.board.zones, zones, strict=True)):
            value = COLD if zone.type in cold and now_ns else round(celsius * 1e3)
            self._files.put(tree.zone_file(place), b"" if zone.type in failing else value)
        self._files.put(tree.MEMINFO, tree.meminfo_text(settings.board, resident))
        if path := tree.fan_file(settings):
            self._files.put(path, _fan(self._hottest(zones)))

    def _hottest(self, zones: Sequence[float]) -> float:
        temperatures = zip(self._settings.board.zones, zones, strict=True)
        return max((celsius for zone, celsius in temperatures if zone_part(zone)), default=0.0)

    def _keep(
        self, now_ns: int, watts: Sequence[float], zones: Sequence[float], load: Load,
        clocks: Clocks, busy: float,
    ) -> None:  # fmt: skip
        if self._truth is None:
            return
        rails = zip(self._settings.rails, self._registers, strict=True)
        readings = [
            reading(self._settings, rail, value).milliamperes
            * rail_volts(self._settings, rail)
            / 1e3
            for rail, value in rails
        ]
        row = (
            *watts, *readings, *zones, *clocks.clusters, clocks.gpu, load.gpu, busy,
            self._governor.level, self._governor.events, self._paused_s,
        )  # fmt: skip
        try:
            self._truth.add(now_ns, row)
        except OSError:
            self._truth = None  # the disk is full: the board goes on without its journal

    def end(self) -> None:
        """Keeps the last rows."""
        try:
            if self._truth is not None:
                self._truth.flush()
        except OSError:
            self._truth = None

    def fail(self) -> None:
        """It cannot go on: from here on all that moved reads as an error."""
        self._files.blank()


def columns(settings: Settings) -> list[Column]:
    """Columns of a row of the truth after its time."""
    rails, board = settings.rails, settings.board
    return [
        *(Column(name=f"{rail.label}.true", unit="W", scale=1e-6) for rail in rails),
        *(Column(name=f"{rail.label}.said", unit="W", scale=1e-6) for rail in rails),
        *(Column(name=zone.type, unit="°C", scale=1e-3) for zone in board.zones),
        *(Column(name=tree.policy_folder(c), unit="Hz", scale=1.0) for c in board.clusters),
        Column(name="gpu.clock", unit="Hz", scale=1.0),
        Column(name="gpu.load", unit="ratio", scale=1e-3),
        Column(name="training.cores", unit="cores", scale=1e-6),
        Column(name="throttle.level", unit="states", scale=1.0),
        Column(name="throttle.events", unit="events", scale=1.0),
        Column(name="training.paused", unit="s", scale=1e-6),  # since it began
    ]


def _fails(now_ns: int) -> bool:
    return now_ns // round(AGAIN_S * 1e9) % 2 == 1


def _fan(celsius: float) -> int:
    low, high = _FAN_C
    return round(255 * min(max((celsius - low) / (high - low), 0.0), 1.0))


def run(
    mover: Mover, training: Training, pauser: Pauser | None, parent: int, stopping: list[int]
) -> None:
    """Ticks until it is told to stop or its parent is gone; a tick that is late moves further."""
    deadline, ticks, resident, paused = time.monotonic_ns(), 0, 0, 0.0
    while not stopping and os.getppid() == parent:
        # After a late tick the next is not made up for: the kernel books a running thread's time
        # every few milliseconds, which in a tick of less would be several busy cores.
        deadline = max(deadline + round(TICK_S * 1e9), time.monotonic_ns() + round(TICK_S * 5e8))
        time.sleep(max(deadline - time.monotonic_ns(), 0) * 1e-9)
        if ticks % SLOW_TICKS == 0:
            resident = training.resident()
        now, seconds, busy = training.busy_cores()
        if pauser is not None:  # CPU time in pauses, or on a machine that others use, says little
            busy = float(training.working())
        all_paused = 0.0 if pauser is None else pauser.paused_s
        stretched = mover.advance(now, seconds, busy, resident, all_paused)
        if pauser is not None:
            pauser.owe(min(busy, 1.0) * max(seconds - paused, 0.0), stretched)
            paused = pauser.pay()
        ticks += 1


def main() -> int:
    """Takes what to emulate as JSON in its first argument, and says when it has begun."""
    task = json.loads(sys.argv[1])
    root, parent = Path(task["root"]), int(task["parent"])
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pauser: Pauser | None = None
    try:
        settings = make_settings(task["board"], task["options"])
        mover = Mover(settings, root, Path(task["run"]))
        training = Training(int(task["pid"]), os.getpid())
        if settings.slow > 0:
            pauser = Pauser(int(task["pid"]), settings.slow)
            grant_scheduling(os.getpid())  # a pause that ends late is one that is too long
    except (WattstepError, OSError) as error:
        os.write(1, f"{error}\n".encode())
        return 1
    os.write(1, READY)
    try:
        run(mover, training, pauser, parent, stopping)
    except BaseException:
        mover.fail()
        raise
    finally:
        if pauser is not None:
            pauser.close()
        mover.end()
        if os.getppid() != parent:
            shutil.rmtree(root, ignore_errors=True)
    return 0

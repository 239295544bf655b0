"""The integrated GPU of a board: its load, its clock and the highest clock that it is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wattstep import boards
from wattstep.boards.table import Board
from wattstep.record.sensors import is_asleep, present_or_absent, read_integer, read_text
from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead

DEVFREQ: Final = "sys/class/devfreq"
# The folder of the GPU by release of the system; a board's table comes first.
FOLDERS: Final = (
    "sys/devices/gpu.0",
    "sys/devices/platform/gpu.0",
    "sys/devices/platform/bus@0/17000000.gpu",
    "sys/devices/platform/17000000.gpu",
)
# How the device tree names a GPU: Jetson's by generation, others just so.
NODES: Final = frozenset({"gpu", "gp10b", "gv11b", "ga10b", "gb10b"})
# Names of devfreq folders where no node tells; Thor's second one (gpu-nvd) clocks video only.
NAMES: Final = re.compile(r"(.*\.)?(gpu|gp10b|gv11b|ga10b|gb10b|mali)|gpu-gpc-\d+|.*kgsl-3d0")
FULL_LOAD: Final = 1000  # more is no load: a gap
LOAD_S: Final = 0.01
CLOCK_S: Final = 0.02
CAP_S: Final = 0.1


class TegraGpu(Sensor):
    """Load as a share of busy time, clock, and cap of the clock.

    Load is busy time, not occupancy: one small kernel that runs makes it 1. While the GPU is
    powered down its clock cannot be read, which leaves a gap.
    """

    name = "tegra_gpu"
    description = "load and clock of the board's own GPU"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the GPU by the board's table, or by what the device tree calls it."""
        clock = find_clock(root)
        return present_or_absent(
            gpu_reads(root, find_load(root, clock), clock),
            otherwise="no GPU among /sys/devices/gpu.0 and /sys/class/devfreq: this is neither a "
            "Jetson nor a board whose GPU has a devfreq driver",
        )


def find_load(root: Path, clock: Path | None) -> Path | None:
    """The file of the load, in thousandths."""
    board = boards.identify(root)
    folders = [root / folder for folder in (*_table_paths(board), *FOLDERS)]
    if clock is not None:
        folders.append(clock / "device")
    return next((f / "load" for f in folders if (f / "load").is_file()), None)


def find_clock(root: Path) -> Path | None:
    """The devfreq folder of the GPU."""
    entries = sorted((root / DEVFREQ).glob("*"))
    for entry in entries:
        if is_gpu(entry):
            return entry
    board = boards.identify(root)
    for folder in (*_table_paths(board), *FOLDERS):
        devices = sorted((root / folder / "devfreq").glob("*"))
        if devices:
            return devices[0]
    return None


def _table_paths(board: Board | None) -> tuple[str, ...]:
    return () if board is None else tuple(board.gpu.get("paths", ()))


def is_gpu(entry: Path) -> bool:
    """True if a devfreq device is a GPU: by its node of the device tree, else by its name."""
    node = read_text(entry / "device/of_node/name")
    if not isinstance(node, Absent) and node.strip("\0") in NODES:
        return True
    return NAMES.fullmatch(entry.name) is not None


def gpu_reads(root: Path, load: Path | None, clock: Path | None) -> Iterator[SensorRead | Absent]:
    """Every file of the GPU, as a read or as a reason."""
    if load is not None:
        yield load_read(root, load)
    if clock is not None:
        limit = highest(root, clock)
        yield clock_read(root, clock / "cur_freq", "frequency", CLOCK_S, limit)
        yield clock_read(root, clock / "max_freq", "frequency_cap", CAP_S, limit)


def highest(root: Path, clock: Path) -> float | None:
    """The highest clock in Hz: of the driver's own list, else of the board's table."""
    listed = read_text(clock / "available_frequencies")
    if not isinstance(listed, Absent) and (numbers := re.findall(r"\d+", listed)):
        return float(max(map(int, numbers)))
    board = boards.identify(root)
    return None if board is None else board.gpu.get("max_hz")


def load_read(root: Path, path: Path) -> SensorRead | Absent:
    """The share of time in which the GPU was busy."""
    value = read_integer(path)
    if isinstance(value, Absent) and not is_asleep(path):
        return value
    channel = Channel(
        name="gpu.utilization",
        unit="ratio",
        kind="gauge",
        domain="gpu",
        role="gpu_utilization",
        source=f"/{path.relative_to(root)}",
        scale=1e-3,
        resolution=1e-3,
        note="busy time, not occupancy: a GPU that runs one small kernel is busy",
    )
    return SensorRead(
        path=str(path), parser="within", arguments=(0, FULL_LOAD), channels=(channel,),
        least_period_s=LOAD_S,
    )  # fmt: skip


def clock_read(
    root: Path, path: Path, role: str, period_s: float, limit: float | None
) -> SensorRead | Absent:
    """A clock in Hz; planned even if the GPU is powered down now."""
    value = read_integer(path)
    if isinstance(value, Absent) and not is_asleep(path):
        return value
    channel = Channel(
        name=f"gpu.{role}",
        unit="Hz",
        kind="gauge",
        domain="gpu",
        role=role,
        source=f"/{path.relative_to(root)}",
        limit=limit,
    )
    return SensorRead(path=str(path), parser="number", channels=(channel,), least_period_s=period_s)

"""The power model of an emulated board: from busy cores and clocks to watts of its parts and rails."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wattstep.boards.table import Board, Cluster, Rail
from wattstep.record.hosts.emulation.settings import Numbers, Settings

# A processor's memory traffic at full load, as part of the GPU's: of a TX2's lines, DDR 1.3 W with
# all cores busy against 2.7 W with the GPU busy (boards.md 1.4).
CPU_TRAFFIC: Final = 0.5
FALLBACK_HZ: Final = (300e6, 1500e6)  # of a cluster or GPU whose clocks are not known
VOLTS: Final = 5.0
SHUNT_STEP_V: Final = 40e-6  # of an INA3221, across its shunt (boards.md 1.3)
OUTSIDE: Final = ("carrier", "input")  # parts that are not in the module's sum
_HEADROOM: Final = 1.25  # the kernel's schedutil asks for 1.25 times what is used


@dataclass(frozen=True, kw_only=True)
class Load:
    """Load of a board's parts, from 0 to 1.

    Attributes:
        cores: By number of the core.
        gpu: Share of time that it is busy.
    """

    cores: tuple[float, ...]
    gpu: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """Clocks in Hz: of each cluster in the order of the table, and of the GPU."""

    clusters: tuple[float, ...]
    gpu: float = 0.0


def core_count(board: Board) -> int:
    """Cores of a board; one where its table names none."""
    return 1 + max((core for cluster in board.clusters for core in cluster.cores), default=0)


def clock_range(cluster: Cluster) -> tuple[float, float]:
    """Lowest and highest clock of a cluster."""
    return cluster.min_hz or FALLBACK_HZ[0], cluster.max_hz or FALLBACK_HZ[1]


def gpu_range(board: Board) -> tuple[float, float]:
    """Lowest and highest clock of the GPU."""
    low, high = board.gpu.get("min_hz"), board.gpu.get("max_hz")
    return float(low or FALLBACK_HZ[0]), float(high or FALLBACK_HZ[1])


def spread(settings: Settings, busy: float) -> Load:
    """The training's busy cores mapped to the board's: one core after the other, in table order.

    Args:
        settings: The board.
        busy: Cores of this machine that the training keeps busy; what the board has not is lost.
    """
    gpu = 0.0
    if settings.processor == "gpu":
        gpu, busy = min(busy, 1.0), min(busy, 1.0)
    order = [core for cluster in settings.board.clusters for core in cluster.cores] or [0]
    shares = {core: min(max(busy - place, 0.0), 1.0) for place, core in enumerate(order)}
    count = core_count(settings.board)
    return Load(cores=tuple(shares.get(core, 0.0) for core in range(count)), gpu=gpu)


def clocks_for(board: Board, load: Load, cap: float, limits: Clocks | None = None) -> Clocks:
    """The clocks that a governor gives: as high as the load asks, up to a cap.

    Args:
        board: The board.
        load: Load of its parts.
        cap: Share of the highest clock that is allowed.
        limits: Clocks that somebody has allowed at most, beside the cap; None: all.
    """
    most = limits or Clocks(clusters=(math.inf,) * len(board.clusters), gpu=math.inf)
    wanted = (max((load.cores[core] for core in c.cores), default=0.0) for c in board.clusters)
    return Clocks(
        clusters=tuple(
            min(_clock(*clock_range(cluster), use, cap), limit)
            for cluster, use, limit in zip(board.clusters, wanted, most.clusters, strict=True)
        ),
        gpu=min(_clock(*gpu_range(board), load.gpu, cap), most.gpu),
    )


def stretch(settings: Settings, load: Load, clocks: Clocks) -> float:
    """How many times longer work takes that goes with the clock, than if nothing capped the clock.

    Over several clusters it is the mean of their busy cores.
    """
    free = clocks_for(settings.board, load, 1.0)
    if settings.processor == "gpu":
        return free.gpu / clocks.gpu
    total = weight = 0.0
    for cluster, own, now in zip(
        settings.board.clusters, free.clusters, clocks.clusters, strict=True
    ):
        busy = sum(load.cores[core] for core in cluster.cores)
        weight += busy
        total += busy * own / now
    return total / weight if weight else 1.0


def capped(low: float, high: float, cap: float) -> float:
    """The highest clock that a cap allows, in whole kHz."""
    return max(low, round(high * cap, -3))


def _clock(low: float, high: float, use: float, cap: float) -> float:
    return min(max(low, round(high * min(_HEADROOM * use, 1.0), -3)), capped(low, high, cap))


def part_watts(settings: Settings, load: Load, clocks: Clocks) -> dict[str, float]:
    """Watts by part: at rest, and what its load adds at its clock."""
    activity = {
        "cpu": _cpu_activity(settings, load, clocks),
        "gpu": load.gpu * _slowed(clocks.gpu, gpu_range(settings.board)[1], settings.numbers),
    }
    # Memory and SoC follow what the processors move, whatever the processors' voltage.
    traffic, numbers = memory_activity(load), settings.numbers
    parts = set(numbers.idle_w) | set(numbers.full_w)
    return {
        part: settings.scale * _between(numbers, part, activity.get(part, traffic))
        for part in sorted(parts)
    }


def memory_activity(load: Load) -> float:
    """Load of the memory, from 0 to 1."""
    return max(load.gpu, CPU_TRAFFIC * _mean(load.cores))


def _between(numbers: Numbers, part: str, share: float) -> float:
    idle = numbers.idle_w.get(part, 0.0)
    return idle + (numbers.full_w.get(part, idle) - idle) * share


def _cpu_activity(settings: Settings, load: Load, clocks: Clocks) -> float:
    """All cores busy at their highest clock is 1; a strong core counts by its capacity."""
    total = weight = 0.0
    for cluster, clock in zip(settings.board.clusters, clocks.clusters, strict=True):
        slowed = _slowed(clock, clock_range(cluster)[1], settings.numbers)
        each = cluster.capacity or 1.0
        weight += each * len(cluster.cores)
        total += each * slowed * sum(load.cores[core] for core in cluster.cores)
    return total / weight if weight else _mean(load.cores)


def _slowed(clock: float, highest: float, numbers: Numbers) -> float:
    return float((clock / highest) ** numbers.exponent)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def module_watts(settings: Settings, parts: Mapping[str, float]) -> float:
    """Power of the module in W: its parts, the losses of conversion, and everything else."""
    inside = sum(watts for part, watts in parts.items() if part not in OUTSIDE)
    return inside / settings.numbers.efficiency + settings.scale * settings.numbers.rest_w


def rail_watts(settings: Settings, parts: Mapping[str, float]) -> tuple[float, ...]:
    """Watts of each of `settings.rails`; a combined rail carries all of its parts."""
    return tuple(
        module_watts(settings, parts)
        if "input" in rail.parts
        else sum(parts.get(part, 0.0) for part in rail.parts)
        for rail in settings.rails
    )


def rail_volts(settings: Settings, rail: Rail) -> float:
    """The voltage of a rail, which the emulator keeps constant."""
    volts = settings.numbers.volts
    return volts.get(rail.label, volts.get("", VOLTS))


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Reading of the chip: whole mV, whole mA in steps of its current resolution, and their product."""

    millivolts: int
    milliamperes: int

    @property
    def milliwatts(self) -> int:
        """As the old driver computes it: cut off, not rounded."""
        return self.millivolts * self.milliamperes // 1000


def current_step_ma(settings: Settings, rail: Rail) -> int:
    """Least step of the current: by the resolution that was seen, else by the shunt; at least 1 mA."""
    if rail.quantum_w is not None:
        return max(1, round(rail.quantum_w / rail_volts(settings, rail) * 1e3))
    return max(1, round(SHUNT_STEP_V / rail.shunt_ohm * 1e3)) if rail.shunt_ohm else 1


def reading(settings: Settings, rail: Rail, watts: float) -> Reading:
    """Reading of the chip where a rail carries so much."""
    volts, step = rail_volts(settings, rail), current_step_ma(settings, rail)
    return Reading(
        millivolts=round(volts * 1e3), milliamperes=round(watts / volts * 1e3 / step) * step
    )

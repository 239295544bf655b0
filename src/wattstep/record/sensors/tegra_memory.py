"""The memory controller (EMC) of a Jetson: its clock, and the share of it that is used."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from wattstep.record.sensors import present_or_absent, read_integer
from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead

DEBUG: Final = "sys/kernel/debug"
# Clock and highest clock in Hz: TX2 and later, Tegra X1 by two releases, Thor.
CLOCKS: Final = (
    (f"{DEBUG}/bpmp/debug/clk/emc/rate", f"{DEBUG}/bpmp/debug/clk/emc/max_rate"),
    (f"{DEBUG}/clk/override.emc/clk_rate", f"{DEBUG}/tegra_bwmgr/emc_max_rate"),
    (f"{DEBUG}/clk/emc/clk_rate", f"{DEBUG}/clk/emc/clk_max_rate"),
    ("sys/class/devfreq/bwmgr/cur_freq", "sys/class/devfreq/bwmgr/max_freq"),
)
# Cycles in use, in kHz: the kernel divides its count by milliseconds.
ACTIVITIES: Final = (
    f"{DEBUG}/cactmon/mc_all",
    f"{DEBUG}/bpmp/debug/actmon/mc_all_avg_activity",
    "sys/kernel/actmon_avg_activity/mc_all",
)
KILO: Final = 1000
MILLIONTHS: Final = 1_000_000
# The activity is a mean over a short time: at full load it may be a little above the clock of the
# moment. More than that is a clock that has just fallen, and no share of it.
MOST: Final = 1_020_000
PERIOD_S: Final = 0.05  # the clock comes from another processor, by a message that is waited for


class MemoryController(Sensor):
    """Clock of the memory, and its activity as a share of that clock.

    The share is of the clock of the moment: 16 % of a low clock is little traffic.
    """

    name = "tegra_memory"
    description = "clock and activity of a Jetson's memory controller"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the files that this release has, most of which only root may read."""
        clock = first_readable(root, tuple(clock for clock, _ in CLOCKS))
        if isinstance(clock, Absent):
            return clock
        return present_or_absent(
            [clock_read(root, clock), activity_read(root, clock)], otherwise="nothing was found"
        )


def first_readable(root: Path, names: tuple[str, ...]) -> Path | Absent:
    """The first of these files that holds a number, or why none can be had."""
    denied = False
    for name in names:
        value = read_integer(root / name)
        if not isinstance(value, Absent):
            return root / name
        denied = denied or "permission denied" in value.reason
    if denied and (root / "proc/device-tree").is_dir():
        return Absent(
            reason=f"/{DEBUG} is for root only: the memory controller's clock and activity need "
            "sudo"
        )
    return Absent(reason=f"there is no /{names[0]} or the like: only Jetson boards have it")


def clock_read(root: Path, path: Path) -> SensorRead:
    """The clock of the memory in Hz."""
    name = str(path.relative_to(root))
    most = read_integer(root / dict(CLOCKS)[name])
    channel = Channel(
        name="memory.frequency",
        unit="Hz",
        kind="gauge",
        domain="memory",
        role="frequency",
        source=f"/{name}",
        limit=None if isinstance(most, Absent) else float(most),
    )
    return SensorRead(path=str(path), parser="number", channels=(channel,), least_period_s=PERIOD_S)


def activity_read(root: Path, clock: Path) -> SensorRead | Absent:
    """Activity over clock, both read one right after the other."""
    activity = first_readable(root, ACTIVITIES)
    if isinstance(activity, Absent):
        return activity
    channel = Channel(
        name="memory.controller_utilization",
        unit="ratio",
        kind="gauge",
        domain="memory",
        role="memory_controller_utilization",
        source=f"/{activity.relative_to(root)} over /{clock.relative_to(root)}",
        scale=1 / MILLIONTHS,
        note="of the clock at that moment, which changes: see memory.frequency",
    )
    return SensorRead(
        path=str(activity),
        parser="ratio",
        arguments=(str(clock), KILO * MILLIONTHS, MOST),
        channels=(channel,),
        least_period_s=PERIOD_S,
    )

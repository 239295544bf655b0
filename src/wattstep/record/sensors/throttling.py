"""Signs that something is held back: alarms, throttle counters, cooling states, caps of the clock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from wattstep.record.sensors import (
    HWMON,
    is_asleep,
    present_or_absent,
    read_integer,
    read_text,
)
from wattstep.schema.channel import (
    Absent,
    Channel,
    Domain,
    Present,
    Sensor,
    SensorRead,
    by_name,
    name_part,
)

THERMAL: Final = "sys/class/thermal"
CPUS: Final = "sys/devices/system/cpu"
# Kernels that have the file keep it with the firmware's device, whose parent's name varies.
FIRMWARE: Final = "sys/devices/platform/soc*/soc*firmware/get_throttled"
PERIOD_S: Final = 0.1
# An alarm is read over the chip's bus, as its rails are, and reading it clears it.
ALARM_S: Final = 0.2
# Alarms that make the board slow down; those of other chips only warn.
ALARMS: Final = (
    ("ina3221", re.compile(r"curr\d+_(crit|max)_alarm"), "over-current"),
    ("rpi_volt", re.compile(r"in\d+_lcrit_alarm"), "under-voltage"),
)
# Cooling that makes a processor slower: CPU and GPU clocks, idle injection, Tegra's throttlers.
SLOWING: Final = re.compile(r"processor|cpu|gpu|devfreq|powerclamp|throttle|balanced", re.I)
NOW, SINCE_START = 0xF, 0xF0000
BITS: Final = "1 under-voltage, 2 clock of the cores capped, 4 throttled, 8 soft temperature limit"


class Throttling(Sensor):
    """Signs that the machine is, or was in between, slower than it could be."""

    name = "throttling"
    description = "throttle flags, counters and caps of the clock"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds every sign that this machine has."""
        return present_or_absent(
            throttling_parts(root),
            otherwise=f"no throttle counter, cooling state or cap of the clock below /{HWMON}, "
            f"/{THERMAL} and /{CPUS}: virtual machines and containers usually hide them",
        )


def throttling_parts(root: Path) -> Iterator[SensorRead | Absent]:
    """Every sign, as a read or as the reason why it cannot be had."""
    yield from over_current_counts(root)
    yield from alarms(root)
    yield from cooling_states(root)
    yield from core_counts(root)
    yield from firmware_bits(root)
    yield from clock_caps(root)


def over_current_counts(root: Path) -> Iterator[SensorRead | Absent]:
    """Counts of a Jetson module's throttling for too much current or too little voltage."""
    for folder in _numbered(root / HWMON, "hwmon"):
        if read_text(folder / "name") == "soctherm_oc":
            for path in sorted(folder.glob("oc*_event_cnt")):
                name = path.name.partition("_")[0]
                yield a_read(root, path, _counter(f"throttling.{name}", "soc"))


def alarms(root: Path) -> Iterator[SensorRead | Absent]:
    """Alarms of chips that are wired to slow the board down."""
    for folder in _numbered(root / HWMON, "hwmon"):
        chip = read_text(folder / "name")
        for driver, pattern, meaning in ALARMS:
            if chip != driver:
                continue
            for path in sorted(folder.glob("*_alarm")):
                if pattern.fullmatch(path.name):
                    words = path.name.removesuffix("_alarm")
                    name = f"throttling.{driver}.{folder.name.removeprefix('hwmon')}.{words}"
                    yield a_read(root, path, _flag(name, meaning), period_s=ALARM_S)


def cooling_states(root: Path) -> Iterator[SensorRead | Absent]:
    """Cooling devices that slow a processor down: in use while their state is not 0."""
    folders = _numbered(root / THERMAL, "cooling_device")
    kinds = {folder: read_text(folder / "type") for folder in folders}
    names = {f: name_part(kind) for f, kind in kinds.items() if not isinstance(kind, Absent)}
    unique = {folder: name for name, folder in by_name(names, "cooling_device").items()}
    for folder, kind in kinds.items():
        if isinstance(kind, Absent):
            yield kind
        elif not SLOWING.search(kind) or "fan" in kind.lower():
            yield Absent(reason=f"{folder}: {kind} is not known to slow a processor down")
        else:
            channel = _flag(f"throttling.cooling.{unique[folder]}", f"steps of {kind}")
            # -1 is how idle injection says that it injects nothing.
            yield a_read(root, folder / "cur_state", channel, "at_least", (0, 0))


def core_counts(root: Path) -> Iterator[SensorRead | Absent]:
    """Counts of an x86 core's, and a package's, throttling for its temperature."""
    folders = _numbered(root / CPUS, "cpu")
    packages: set[str] = set()
    for folder in folders:
        core = int(folder.name.removeprefix("cpu"))
        path = folder / "thermal_throttle/core_throttle_count"
        if path.is_file():
            yield a_read(root, path, _counter(f"cpu{core}.throttle_events", "cpu", core=core))
        path = folder / "thermal_throttle/package_throttle_count"
        package = read_text(folder / "topology/physical_package_id")
        number = "0" if isinstance(package, Absent) else package
        if path.is_file() and number not in packages:  # its cores all show the same
            packages.add(number)
            yield a_read(root, path, _counter(f"throttling.package{number}.events", "soc"))


def firmware_bits(root: Path) -> Iterator[SensorRead | Absent]:
    """Throttle bits of a Raspberry Pi's firmware: what holds now, and what has happened since its start."""
    for path in sorted(root.glob(FIRMWARE))[:1]:
        text = read_text(path)
        if isinstance(text, Absent):
            yield text
            continue
        channels = tuple(
            Channel(
                name=f"throttling.firmware.{word}",
                unit="events",
                kind="gauge",
                domain="soc",
                role=role,
                source=f"/{path.relative_to(root)}",
                scale=scale,
                note=BITS,
            )
            for word, role, scale in (
                ("now", "throttle_reasons", 1.0),
                ("since_start", "throttle_history", 2.0**-16),
            )
        )
        yield SensorRead(
            path=str(path),
            parser="hex",
            arguments=(NOW, SINCE_START),
            channels=channels,
            least_period_s=PERIOD_S,
        )


def clock_caps(root: Path) -> Iterator[SensorRead | Absent]:
    """The highest clock that each group of cores is allowed at this moment, by its first core."""
    seen: set[Path] = set()
    for folder in _numbered(root / CPUS, "cpu"):
        path = folder / "cpufreq/scaling_max_freq"
        policy = path.parent.resolve()
        if path.is_file() and policy not in seen:
            seen.add(policy)
            core = int(folder.name.removeprefix("cpu"))
            channel = Channel(
                name=f"cpu{core}.frequency_cap", unit="Hz", kind="gauge", domain="cpu",
                role="frequency_cap", source="", scale=1e3, core=core, limit=_highest(path.parent),
            )  # fmt: skip
            yield a_read(root, path, channel)


def _highest(policy: Path) -> float | None:
    value = read_integer(policy / "cpuinfo_max_freq")
    return None if isinstance(value, Absent) else value * 1e3


def _counter(name: str, domain: Domain, core: int | None = None) -> Channel:
    return Channel(
        name=name, unit="events", kind="counter", domain=domain, role="throttle_events",
        source="", core=core, resolution=1,
    )  # fmt: skip


def _flag(name: str, note: str) -> Channel:
    return Channel(
        name=name, unit="events", kind="gauge", domain="soc", role="throttle_flag",
        source="", note=note,
    )  # fmt: skip


def a_read(
    root: Path,
    path: Path,
    channel: Channel,
    parser: str = "number",
    arguments: tuple[int, ...] = (),
    *,
    period_s: float = PERIOD_S,
) -> SensorRead | Absent:
    """Read of a file that holds an integer, or the reason why there is none; the channel gets its source."""
    value = read_integer(path)
    if isinstance(value, Absent) and not is_asleep(path):
        return value
    return SensorRead(
        path=str(path),
        parser=parser,
        arguments=arguments,
        channels=(replace(channel, source=f"/{path.relative_to(root)}"),),
        least_period_s=period_s,
    )


def _numbered(folder: Path, prefix: str) -> list[Path]:
    """The folders whose name is the prefix and a number, by that number."""
    entries = folder.glob(f"{prefix}[0-9]*")
    return sorted(entries, key=lambda each: int(each.name.removeprefix(prefix)))

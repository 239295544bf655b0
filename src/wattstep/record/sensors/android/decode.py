"""From the text of one read on the phone to the integers of its channels."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from wattstep.formats.dumpsys import parse_battery, parse_thermal
from wattstep.formats.gpu_load import parse_ged, parse_gpubusy, parse_percent
from wattstep.formats.odpm import parse_energy
from wattstep.formats.power_supply import parse_uevent
from wattstep.formats.recording import FormatError
from wattstep.schema.journal import MISSING

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_TICKS = re.compile(r"^cpu([0-9]{1,4})((?: [0-9]{1,18}){8,}) *$", re.MULTILINE)
_MEMORY = re.compile(r"^(\S+:)\s+([0-9]{1,15})(?: kB)?$", re.MULTILINE)
_PRESSURE = re.compile(r"^(some|full) .*total=([0-9]{1,18})$", re.MULTILINE)

Arguments = Sequence[Any]


def decode(name: str, arguments: Arguments, text: str) -> list[int]:
    """The integers that a read gives.

    Raises:
        FormatError: The text is none of this kind, or a number is too long to be kept.
    """
    values = DECODERS[name](text, arguments)
    if any(not MISSING <= value <= -(MISSING + 1) for value in values):
        raise FormatError(name, 1, "a number that no sensor gives")
    return values


def number(text: str, arguments: Arguments) -> list[int]:
    """Decodes one integer, for so many channels as `arguments` says: cores that share a clock."""
    match = _INTEGER.fullmatch(text.strip())
    if match is None:
        raise FormatError("number", 1, f"{text[:20]!r}")
    return [int(match[0])] * int(arguments[0])


def zone(text: str, arguments: Arguments) -> list[int]:
    """A thermal zone; 0 and what is colder than the argument are signs for no reading."""
    value = number(text, [1])[0]
    return [MISSING if value == 0 or value <= int(arguments[0]) else value]


def ticks(text: str, arguments: Arguments) -> list[int]:
    """/proc/stat: busy, idle and steal ticks of these cores; one that is offline has no line."""
    lines = {int(m[1]): [int(word) for word in m[2].split()] for m in _TICKS.finditer(text)}
    if not lines:
        raise FormatError("/proc/stat", 1, "no line of a core")
    values: list[int] = []
    for core in arguments:
        if core not in lines:
            values += [MISSING] * 3
            continue
        user, nice, system, idle, iowait, irq, softirq, steal = lines[core][:8]
        values += [user + nice + system + irq + softirq, idle + iowait, steal]
    return values


def memory(text: str, arguments: Arguments) -> list[int]:
    """/proc/meminfo: the lines with these keys, in KiB."""
    return _keyed("/proc/meminfo", _MEMORY, text, arguments)


def pressure(text: str, arguments: Arguments) -> list[int]:
    """/proc/pressure/*: total µs of "some" or "full"."""
    return _keyed("pressure", _PRESSURE, text, arguments)


def _keyed(name: str, pattern: re.Pattern[str], text: str, arguments: Arguments) -> list[int]:
    lines = {match[1]: int(match[2]) for match in pattern.finditer(text)}
    if not lines:
        raise FormatError(name, 1, "no line with a number")
    return [lines.get(key, MISSING) for key in arguments]


def supply(text: str, arguments: Arguments) -> list[int]:
    """A uevent file: the integers of these keys, "-" for those that are left out."""
    battery = parse_uevent(text)
    return [_or_missing(battery.integer(key)) for key in arguments]


def drawn(text: str, arguments: Arguments) -> list[int]:
    """A battery's uevent: power in µW, positive while it gives, then the keys after that.

    Before it stands a line of each charger's "online". Power and current are missing unless the
    battery alone feeds the phone: at a weak port it says "Discharging" with the cable in.

    The arguments begin with the sign, by what µV times the current's unit is divided, and the
    number of chargers.
    """
    sign, divisor, chargers, *keys = arguments
    *online, uevent = text.split("\n", chargers)
    battery = parse_uevent(uevent)
    current, voltage = battery.integer("CURRENT_NOW"), battery.integer("VOLTAGE_NOW")
    alone = battery.text("STATUS") == "Discharging" and online == ["0"] * chargers
    power = MISSING
    if alone and current is not None and voltage:
        power = round(sign * current * voltage / divisor)
    hidden = () if alone else ("CURRENT_NOW",)
    return [
        power,
        *(MISSING if key in hidden else _or_missing(battery.integer(key)) for key in keys),
    ]


def fed(text: str, arguments: Arguments) -> list[int]:
    """A charger's uevent: power in µW from µA and µV, by the key of its current."""
    supply = parse_uevent(text)
    current, voltage = supply.integer(arguments[0]), supply.integer("VOLTAGE_NOW")
    if current is None or voltage is None:
        return [MISSING, _or_missing(voltage)]
    return [round(current * voltage / 1e6), voltage]


def battery(text: str, arguments: Arguments) -> list[int]:
    """`dumpsys battery`: mV, tenths of °C; nothing while values are set by hand."""
    state = parse_battery(text)
    if state.stopped:
        return [MISSING, MISSING]
    return [_scaled(state.volt, 1e3), _scaled(state.celsius, 10)]


def thermal(text: str, arguments: Arguments) -> list[int]:
    """`dumpsys thermalservice`: the severity, then m°C of these names, from the HAL's own block."""
    state = parse_thermal(text)
    by_name = {each.name: each.celsius for each in state.current}
    severity = None if state.overridden else state.severity
    return [_or_missing(severity), *(_scaled(by_name.get(name), 1e3) for name in arguments)]


def busy(text: str, arguments: Arguments) -> list[int]:
    """Adreno's `gpubusy`, in millionths; powered down is no value."""
    return [_scaled(parse_gpubusy(text).share, 1e6)]


def percent(text: str, arguments: Arguments) -> list[int]:
    """A load in percent."""
    return [_scaled(parse_percent(text), 100)]


def ged(text: str, arguments: Arguments) -> list[int]:
    """MediaTek's load in percent."""
    return [_scaled(parse_ged(text), 100)]


def energy(text: str, arguments: Arguments) -> list[int]:
    """`energy_value`: µJ of these rails."""
    rails = {each.name: each.energy_uj for each in parse_energy(text)}
    return [rails.get(name, MISSING) for name in arguments]


def own(text: str, arguments: Arguments) -> list[int]:
    """A process's stat: ticks on a CPU, its own and those of children that it has waited for."""
    fields = text.partition("\n")[0].rpartition(")")[2].split()
    if len(fields) < 15 or not all(re.fullmatch("[0-9]{1,18}", word) for word in fields[11:15]):
        raise FormatError("/proc/PID/stat", 1, "the times of a process are missing")
    return [sum(int(word) for word in fields[11:15])]


def process(text: str, arguments: Arguments) -> list[int]:
    """A process's stat and status: ticks on a CPU, then resident and highest resident KiB."""
    ticks_used = own(text, arguments)
    lines = {match[1]: int(match[2]) for match in _MEMORY.finditer(text)}
    return [*ticks_used, *(lines.get(key, MISSING) for key in ("VmRSS:", "VmHWM:"))]


def _or_missing(value: int | None) -> int:
    return MISSING if value is None else value


def _scaled(value: float | None, by: float) -> int:
    return MISSING if value is None or not math.isfinite(value) else round(value * by)


DECODERS: Final[Mapping[str, Callable[[str, Arguments], list[int]]]] = {
    "number": number,
    "zone": zone,
    "ticks": ticks,
    "memory": memory,
    "pressure": pressure,
    "supply": supply,
    "drawn": drawn,
    "fed": fed,
    "battery": battery,
    "thermal": thermal,
    "busy": busy,
    "percent": percent,
    "ged": ged,
    "energy": energy,
    "own": own,
    "process": process,
}

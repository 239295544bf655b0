"""Reads that a phone allows, part by part: from what it said once to reads with their channels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from wattstep.formats.dumpsys import SEVERITIES, Thermal, parse_battery, parse_thermal
from wattstep.formats.gpu_load import parse_ged, parse_gpubusy, parse_percent
from wattstep.formats.odpm import RAILS, parse_energy
from wattstep.formats.power_supply import (
    Convention,
    PowerSupply,
    Unclear,
    infer_convention,
    parse_uevent,
)
from wattstep.formats.recording import FormatError
from wattstep.record.sensors.android.look import Dump
from wattstep.schema.channel import Absent, Channel, Domain, Kind, name_part

CPU = "/sys/devices/system/cpu"
ZONE = "/sys/class/thermal/thermal_zone"
SUPPLY = "/sys/class/power_supply"
TETHERED = "tethered: the battery does not see what the phone draws"
DEGREES_BELOW = 200  # a zone that says less than this is in °C, not m°C: 0.2 °C is no phone's
LEAST_CELSIUS = -100
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_MEMORY: Final[Mapping[str, str]] = {
    "MemTotal:": "total_memory",
    "MemAvailable:": "available_memory",
    "SwapTotal:": "swap_total",
    "SwapFree:": "swap_free",
}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Read of the loop.

    Attributes:
        kind: "line", "file", "files", "run" or "own".
        argument: The path, the paths between blanks, or the command; of "own" what to call it.
        every_s: Time between two reads in s.
        decoder: A name of `decode.DECODERS`.
        arguments: Of the decoder, JSON-ready.
        channels: As the decoder gives them.
    """

    kind: str
    argument: str
    every_s: float
    decoder: str
    arguments: tuple[str | int | float, ...]
    channels: tuple[Channel, ...]


Part = Wanted | Absent


def _gauge(
    name: str,
    unit: str,
    domain: Domain,
    role: str,
    source: str,
    scale: float,
    note: str = "",
    *,
    kind: Kind = "gauge",
    core: int | None = None,
    limit: float | None = None,
    resolution: float | None = None,
) -> Channel:
    return Channel(
        name=name, unit=unit, kind=kind, domain=domain, role=role, source=source, scale=scale,
        core=core, note=note, limit=limit, resolution=resolution,
    )  # fmt: skip


def plugged(dump: Dump) -> bool | None:
    """True if anything charges the phone; None: nothing tells."""
    chargers = [s for p, s in _supplies(dump) if not _is_battery(p, s)]
    # 1: a fixed voltage, 2: a programmable one.
    online = [s.text("ONLINE") != "0" for s in chargers if s.text("ONLINE") is not None]
    try:
        service = parse_battery(dump.text("dumpsys battery") or "")
    except FormatError:
        service = None
    if service is not None and not service.stopped:  # else somebody has set it by hand
        online.append(bool(service.powered_by))
    return any(online) if online else None


def online_files(dump: Dump) -> list[str]:
    """Of each charger the file that tells whether it feeds the phone, where it can be read.

    A battery may have one too, in which some vendors keep something else.
    """
    chargers = [p.removesuffix("uevent") for p, s in _supplies(dump) if not _is_battery(p, s)]
    return [f"{folder}online" for folder in chargers if dump.text(f"{folder}online") is not None]


def screen_on(dump: Dump) -> bool | None:
    """True if the screen is lit; None: not known."""
    wakefulness = re.search(r"mWakefulness=([A-Za-z]+)", dump.text("dumpsys power") or "")
    return wakefulness[1] == "Awake" if wakefulness else None


def _supplies(dump: Dump) -> Iterator[tuple[str, PowerSupply]]:
    for path, text in dump.matching(rf"{SUPPLY}/[^/]+/uevent"):
        try:
            yield path, parse_uevent(text)
        except FormatError:
            continue


def battery(dump: Dump) -> Iterator[Part]:
    """The first battery with a current, with its power where sign and unit are known."""
    batteries = [(p, s) for p, s in _supplies(dump) if _is_battery(p, s)]
    batteries.sort(key=lambda each: "/battery/" not in each[0])
    for path, supply in batteries:
        if supply.integer("VOLTAGE_NOW") is not None:
            yield _battery_read(path, supply, dump)
            return
    denied = dump.denied(rf"{SUPPLY}/.*")
    yield from _battery_by_service(dump, "may not be read" if denied else "is not there")


def _is_battery(path: str, supply: PowerSupply) -> bool:
    return supply.text("TYPE") == "Battery" or path.split("/")[-2] in ("battery", "bms")


def _battery_read(path: str, supply: PowerSupply, dump: Dump) -> Wanted:
    convention = _convention(supply, dump)
    channels = _battery_channels(path, supply, convention)
    keys = tuple(key for key, _ in channels)
    made = tuple(channel for _, channel in channels)
    if isinstance(convention, Unclear):
        return Wanted(
            kind="file", argument=path, every_s=0.5, decoder="supply", arguments=keys,
            channels=made,
        )  # fmt: skip
    online = online_files(dump)
    # µV times the current's unit, as µW.
    divisor = round(1 / convention.ampere)
    return Wanted(
        kind="files", argument=" ".join([*online, path]), every_s=0.5, decoder="drawn",
        arguments=(convention.sign, divisor, len(online), *keys),
        channels=(_drawn(path, convention, online), *made),
    )  # fmt: skip


def _convention(supply: PowerSupply, dump: Dump) -> Convention | Unclear:
    fed = plugged(dump)
    if fed is None:
        return Unclear(reason="nothing tells whether a cable feeds the phone")
    return infer_convention(supply, plugged=fed, screen_on=screen_on(dump))


def _drawn(path: str, convention: Convention, online: list[str]) -> Channel:
    """The power of a phone that runs on its battery."""
    chargers = ", ".join(file.split("/")[-2] for file in online)
    gap = (
        f"a gap while it does not discharge or a charger is online ({chargers})"
        if online
        else "a gap while it does not discharge; no file tells whether a cable is in, so one that "
        "is too weak to charge is not noticed"
    )
    return _gauge(
        "phone.battery.power", "W", "battery", "power_total", path, 1e-6,
        f"{convention.reason}; {gap}; gauges refresh about once a second",
    )  # fmt: skip


def _battery_channels(
    path: str, supply: PowerSupply, convention: Convention | Unclear
) -> list[tuple[str, Channel]]:
    # Current times voltage is the phone's power only where the battery alone is known to feed it:
    # any other current must not look like one that is drawn.
    role, ampere = "battery_current_unclear", 1e-6
    doubt = "as the driver signs it; " + convention.reason
    if isinstance(convention, Convention):
        role, ampere = "battery_current", convention.ampere
    else:
        doubt += "; the unit is taken for µA, as the kernel's rule is"
    values = {
        "CURRENT_NOW": ("current", "A", role, ampere, doubt),
        "VOLTAGE_NOW": ("voltage", "V", "battery_voltage", 1e-6, ""),
        "CHARGE_COUNTER": ("charge", "C", "battery_charge", 3.6e-3, ""),
        "TEMP": ("temperature", "°C", "temperature", 0.1, ""),
    }
    return [
        (key, _gauge(f"phone.battery.{word}", unit, "battery", role, path, scale, note))
        for key, (word, unit, role, scale, note) in values.items()
        if supply.integer(key) is not None
    ]


def _battery_by_service(dump: Dump, why: str) -> Iterator[Part]:
    """Battery where its files are closed: the service knows the voltage, but no current."""
    try:
        battery = parse_battery(dump.text("dumpsys battery") or "")
    except FormatError:
        yield Absent(reason=f"{SUPPLY}/battery {why}, and dumpsys battery tells nothing")
        return
    if battery.stopped:
        yield Absent(reason="somebody has set the battery by hand: adb shell dumpsys battery reset")
        return
    note = f"no power: {SUPPLY}/battery {why}, and the service tells no current"
    source = "dumpsys battery"
    yield Wanted(
        kind="run", argument=source, every_s=5.0, decoder="battery", arguments=(),
        channels=(
            _gauge("phone.battery.voltage", "V", "battery", "battery_voltage", source, 1e-3, note),
            _gauge("phone.battery.temperature", "°C", "battery", "temperature", source, 0.1),
        ),
    )  # fmt: skip


def usb(dump: Dump) -> Iterator[Part]:
    """Power that comes in through the cable, where the charger's chip tells."""
    for path, supply in _supplies(dump):
        name = path.split("/")[-2]
        key = next(
            (k for k in ("INPUT_CURRENT_NOW", "CURRENT_NOW") if supply.integer(k) is not None), None
        )
        if _is_battery(path, supply) or key is None or supply.integer("VOLTAGE_NOW") is None:
            continue
        label = name_part(name)
        note = f"what the cable brings: for the phone and for charging; {TETHERED}"
        yield Wanted(
            kind="file", argument=path, every_s=0.5, decoder="fed", arguments=(key,),
            channels=(
                _gauge(f"phone.{label}.power", "W", "system", "power_outside", path, 1e-6, note),
                _gauge(f"phone.{label}.voltage", "V", "system", "input_voltage", path, 1e-6),
            ),
        )  # fmt: skip


def zones(dump: Dump) -> Iterator[Part]:
    """The kernel's thermal zones."""
    types = dict(dump.matching(rf"{ZONE}[0-9]+/type"))
    names = [name_part(kind) or "zone" for kind in types.values()]
    for (path, _), name in zip(types.items(), names, strict=True):
        folder = path.removesuffix("/type")
        text = dump.text(f"{folder}/temp")
        if text is None or not _INTEGER.fullmatch(text):
            continue
        number = folder.removeprefix(ZONE)
        label = name if names.count(name) == 1 else f"{name}.{number}"
        in_degrees = abs(int(text)) < DEGREES_BELOW and text != "0"
        scale = 1.0 if in_degrees else 1e-3
        note = f"said {text} when wattstep looked: taken for °C, not m°C" if in_degrees else ""
        source = f"{folder}/temp"
        yield Wanted(
            kind="line", argument=source, every_s=1.0, decoder="zone",
            arguments=(round(LEAST_CELSIUS / scale),),
            channels=(
                _gauge(f"thermal.{label}", "°C", "thermal", "temperature", source, scale, note),
            ),
        )  # fmt: skip
    yield from (
        Absent(reason=f"{path}: permission denied by the phone")
        for path in dump.denied(rf"{ZONE}[0-9]+/temp")
    )


def thermal_service(dump: Dump) -> Iterator[Part]:
    """Android's own view: how hard it throttles, and temperatures with their limits."""
    source = "dumpsys thermalservice"
    try:
        state = parse_thermal(dump.text(source) or "")
    except FormatError as error:
        begin = (dump.text(source) or "nothing").partition("\n")[0][:60]
        yield Absent(
            reason=f"{source} (Android 10 and later) cannot be used: its line {error.line} is of "
            f"another kind; it begins with {begin!r}"
        )
        return
    names = list(dict.fromkeys(t.name for t in state.current))
    levels = ", ".join(f"{number} {name}" for number, name in enumerate(SEVERITIES))
    status = _gauge(
        "phone.thermal_status", "events", "thermal", "throttle_flag", source, 1.0,
        f"Android's thermal status: {levels}",
    )  # fmt: skip
    yield Wanted(
        kind="run", argument=source, every_s=2.0, decoder="thermal", arguments=tuple(names),
        channels=(status, *(_service_channel(name, state, source) for name in names)),
    )  # fmt: skip
    if not names:
        yield Absent(reason=f"{source}: the HAL gives no temperatures")


def _service_channel(name: str, thermal: Thermal, source: str) -> Channel:
    limit = next((t.throttling for t in thermal.thresholds if t.name == name), None)
    return _gauge(
        f"phone.thermal.{name_part(name)}",
        "°C", "thermal", "temperature", f"{source}, {name}", 1e-3, limit=limit,
    )  # fmt: skip


def clusters(dump: Dump) -> dict[int, tuple[tuple[int, ...], int | None, int | None]]:
    """By policy: its cores, their highest clock in kHz, their capacity of 1024."""
    policies = {}
    for path, text in dump.matching(rf"{CPU}/cpufreq/policy[0-9]+/related_cpus"):
        folder = path.removesuffix("/related_cpus")
        cores = tuple(int(word) for word in text.split() if word.isdecimal())
        if cores:
            policies[int(folder.rpartition("policy")[2])] = (
                cores,
                _integer(dump.text(f"{folder}/cpuinfo_max_freq")),
                _integer(dump.text(f"{CPU}/cpu{cores[0]}/cpu_capacity")),
            )
    return policies


def frequency(dump: Dump) -> Iterator[Part]:
    """Clock and its cap of each cluster, for each of its cores."""
    for policy, (cores, highest, capacity) in clusters(dump).items():
        folder = f"{CPU}/cpufreq/policy{policy}"
        kind = "" if capacity is None else f"cluster of capacity {capacity} of 1024"
        for file, word, role, every_s in (
            ("scaling_cur_freq", "frequency", "frequency", 0.1),
            ("scaling_max_freq", "frequency_cap", "frequency_cap", 1.0),
        ):
            path = f"{folder}/{file}"
            if _integer(dump.text(path)) is None:
                yield Absent(reason=f"{path} cannot be read")
                continue
            limit = highest * 1e3 if highest else None
            channels = (
                _gauge(
                    f"cpu{core}.{word}", "Hz", "cpu", role, path, 1e3, kind, core=core,
                    limit=limit, resolution=1e3,
                )
                for core in cores
            )  # fmt: skip
            yield Wanted(
                kind="line", argument=path, every_s=every_s, decoder="number",
                arguments=(len(cores),), channels=tuple(channels),
            )  # fmt: skip


def cpu(dump: Dump) -> Iterator[Part]:
    """Busy, idle and steal time of each core."""
    text = dump.text("/proc/stat") or ""
    cores = tuple(int(number) for number in re.findall(r"^cpu([0-9]{1,4}) ", text, re.MULTILINE))
    if not cores:
        yield Absent(reason="/proc/stat names no core")
        return
    tick_s = 1.0 / (_integer(dump.text("getconf CLK_TCK")) or 100)
    channels = (
        _gauge(
            f"cpu{core}.{time}", "s", "cpu", time, "/proc/stat", tick_s, core=core,
            kind="counter", resolution=tick_s,
        )
        for core in cores
        for time in ("busy_time", "idle_time", "steal_time")
    )  # fmt: skip
    yield Wanted(
        kind="file", argument="/proc/stat", every_s=0.5, decoder="ticks", arguments=cores,
        channels=tuple(channels),
    )  # fmt: skip


_GPU: Final[tuple[tuple[str, str, Callable[[str], object], float, str], ...]] = (
    (
        r"/sys/class/kgsl/kgsl-3d0/gpubusy", "busy", parse_gpubusy, 1e-6,
        "share of the last window that ended, of about a second; a gap while powered down ('0 0')",
    ),
    (r"/sys/class/kgsl/kgsl-3d0/gpu_busy_percentage", "percent", parse_percent, 1e-2, ""),
    (r"/sys/kernel/gpu/gpu_busy", "percent", parse_percent, 1e-2, ""),
    (r"/sys/devices/platform/[^/]+\.mali/utilization", "percent", parse_percent, 1e-2, ""),
    (r"/sys/kernel/ged/hal/gpu_utilization", "ged", parse_ged, 1e-2, ""),
    (r"/d/ged/hal/gpu_utilization", "ged", parse_ged, 1e-2, ""),
    (r"/sys/module/ged/parameters/gpu_loading", "percent", parse_percent, 1e-2, ""),
)  # fmt: skip


def gpu(dump: Dump) -> Iterator[Part]:
    """Load of the GPU, by the first driver's file that can be read; and its clock."""
    for pattern, decoder, parse, scale, note in _GPU:
        for path, text in dump.matching(pattern):
            try:
                parse(text)
            except FormatError:
                continue
            load = _gauge(
                "gpu.utilization", "ratio", "gpu", "gpu_utilization", path, scale, note,
                resolution=scale,
            )  # fmt: skip
            yield Wanted(
                kind="line", argument=path, every_s=0.1, decoder=decoder, arguments=(),
                channels=(load,),
            )  # fmt: skip
            yield from _adreno_clock(dump)
            return
    denied = [path for pattern, *_ in _GPU for path in dump.denied(pattern)]
    if denied:
        yield Absent(reason=f"{denied[0]}: permission denied by the phone (SELinux)")
    else:
        yield Absent(reason="no file of Adreno, Mali or MediaTek tells how busy the GPU is")


def _adreno_clock(dump: Dump) -> Iterator[Part]:
    path, highest = (f"/sys/class/kgsl/kgsl-3d0/{name}" for name in ("gpuclk", "max_gpuclk"))
    if _integer(dump.text(path)) is not None:
        limit = _integer(dump.text(highest))
        channel = _gauge("gpu.frequency", "Hz", "gpu", "frequency", path, 1.0, limit=limit)
        yield Wanted(
            kind="line", argument=path, every_s=0.1, decoder="number", arguments=(1,),
            channels=(channel,),
        )  # fmt: skip


def memory(dump: Dump) -> Iterator[Part]:
    """Total and available memory, swap (which is zram on phones)."""
    text = dump.text("/proc/meminfo") or ""
    keys = tuple(key for key in _MEMORY if re.search(rf"^{key}", text, re.MULTILINE))
    if not keys:
        yield Absent(reason="/proc/meminfo tells nothing")
        return
    channels = (
        _gauge(f"system.{_MEMORY[k]}", "B", "memory", _MEMORY[k], "/proc/meminfo", 1024.0)
        for k in keys
    )
    yield Wanted(
        kind="file", argument="/proc/meminfo", every_s=1.0, decoder="memory", arguments=keys,
        channels=tuple(channels),
    )  # fmt: skip


def pressure(dump: Dump) -> Iterator[Part]:
    """Pressure stall times."""
    domains: dict[str, Domain] = {"cpu": "cpu", "memory": "memory", "io": "system"}
    stalls = False
    for path, text in dump.matching(r"/proc/pressure/(cpu|memory|io)"):
        lines = tuple(re.findall(r"^(some|full) .*total=[0-9]", text, re.MULTILINE))
        resource = path.rpartition("/")[2]
        if not lines:
            continue
        stalls = True
        channels = (
            _gauge(
                f"pressure.{resource}.{line}", "s", domains[resource], "pressure", path, 1e-6,
                kind="counter", resolution=1e-6,
            )
            for line in lines
        )  # fmt: skip
        yield Wanted(
            kind="file", argument=path, every_s=1.0, decoder="pressure", arguments=lines,
            channels=tuple(channels),
        )  # fmt: skip
    if not stalls:
        yield Absent(reason="/proc/pressure cannot be read: many phones close it to adb")


def rails(dump: Dump) -> Iterator[Part]:
    """Energy by rail, on phones that meter themselves (Pixel 6 and later)."""
    seen: set[str] = set()
    for path, text in dump.matching(r"/sys/bus/iio/devices/iio:device[0-9]+/energy_value"):
        try:
            names = [meter.name for meter in parse_energy(text)]
        except FormatError:
            continue
        names = [n for n in dict.fromkeys(names) if n not in seen and names.count(n) == 1]
        seen |= set(names)
        if names:
            yield Wanted(
                kind="file", argument=path, every_s=0.5, decoder="energy",
                arguments=tuple(names), channels=tuple(_rail(n, path) for n in names),
            )  # fmt: skip
    if not seen:
        yield Absent(reason="no iio:device*/energy_value: phones before the Pixel 6 meter no rails")


def _rail(name: str, path: str) -> Channel:
    domain, feeds = RAILS.get(name, ("unknown", ""))
    note = f"feeds the {feeds}" if feeds else "what it feeds is not known"
    return _gauge(
        f"phone.{name}.energy", "J", domain, "energy_part", path, 1e-6, note, kind="counter",
        resolution=1e-6,
    )  # fmt: skip


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None


SECTIONS: Final[Mapping[str, Callable[[Dump], Iterator[Part]]]] = {
    "battery": battery,
    "usb": usb,
    "zones": zones,
    "thermal_service": thermal_service,
    "frequency": frequency,
    "cpu": cpu,
    "gpu": gpu,
    "memory": memory,
    "pressure": pressure,
    "rails": rails,
}

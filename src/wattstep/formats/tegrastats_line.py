"""Line of tegrastats, of any board and release, as values in SI units."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from wattstep import boards
from wattstep.boards.rails import Meaning, meaning
from wattstep.boards.table import Board, Zone
from wattstep.formats.recording import FormatError
from wattstep.schema.channel import Channel, Domain, name_part

NAME: Final = "tegrastats"
LONGEST = 1 << 16
COLDEST_C = -100.0  # a unit that is off says -256 °C, and nothing that computes is so cold
BYTES: Final[Mapping[str, int]] = {"kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
# Used, total, and what stands in brackets behind them; names as /proc/meminfo's channels have.
POOLS: Final[Mapping[str, tuple[str, str, str]]] = {
    "RAM": ("used_memory", "total_memory", "largest_free_block"),
    "SWAP": ("swap_used", "swap_total", "swap_cached"),
    "IRAM": ("iram_used", "iram_total", "iram_largest_free_block"),
}
# Where no board's table tells: means of others, and a constant.
ZONES: Final[Mapping[str, str]] = {"tj": "aggregate", "thermal": "aggregate", "pmic": "ignore"}
TEMPERATURES: Final[Mapping[str, str]] = {
    "temperature": "temperature",
    "aggregate": "temperature_aggregate",
    "ignore": "temperature_ignored",
}
UNCONNECTED = "NC"

LOAD_NOTE = "busy time, not occupancy: a GPU that runs one small kernel is busy"
OFF = "-256 °C: this unit is off"
NO_CLOCK = "EMC_FREQ without a clock: tegrastats prints 0 % where it may not look"
TOO_MUCH = "a load above 100 %"
SECOND_TEMPERATURE = "second number of a temperature: undocumented"
UNKNOWN = "{}: unknown field"
# Fields that no board has a rail for: one that looks like a rail has lost its end. AGX Xavier has
# a rail "CPU", and a rail "GPU".
NO_RAILS: Final = frozenset(
    {"RAM", "SWAP", "IRAM", "EMC", "EMC_FREQ", "GR3D", "GR3D_FREQ", "APE", "MTS", "VIC"}
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """Values of one line.

    Attributes:
        values: Each with its channel; NaN where the line says that there is none: a core or a
            unit that is off, a load that tegrastats may not look at.
        ignored: Numbers that became no value, by reason: how many.
        rails: Labels of its power rails, as printed, unconnected ones left out.
        cores: How many it lists, those that are off too.
        memory: What it says of the usable memory, in B, or None.
    """

    values: Sequence[tuple[Channel, float]]
    ignored: Mapping[str, int]
    rails: tuple[str, ...]
    cores: int
    memory: float | None


@dataclass(frozen=True, kw_only=True)
class _Rail:
    """A rail as printed: in mW with or without saying so."""

    label: str
    watts: Sequence[float]
    with_unit: bool


@dataclass(kw_only=True)
class _Reading:
    """A line while it is read."""

    board: Board | None
    line: int
    values: dict[str, tuple[Channel, float]] = field(default_factory=dict)
    ignored: Counter[str] = field(default_factory=Counter)
    rails: list[_Rail] = field(default_factory=list)
    cores: int = 0
    memory: float | None = None

    def add(self, channel: Channel, value: float) -> None:
        """Takes a value; no channel may come twice."""
        if channel.name in self.values:
            raise FormatError(NAME, self.line, f"{channel.name} stands there twice")
        self.values[channel.name] = (channel, value)

    def share(self, percent: str) -> float:
        """A load as a ratio; no value where it is impossible."""
        value = float(percent) / 100
        if value <= 1:
            return value
        self.ignored[TOO_MUCH] += 1
        return math.nan


def parse_line(text: str, board: str | None = None, line: int = 1) -> Line:
    """Reads one line, without what stands before its first field (a date, a time).

    Args:
        text: The line.
        board: Name of the board's table, which tells what the rails mean; None: not known, and
            no rail is taken for the total.
        line: Its number, for the error.

    Raises:
        FormatError: It is not from tegrastats, damaged, or cut.
    """
    if len(text) > LONGEST:
        raise FormatError(NAME, line, f"it has {len(text)} characters")
    reading = _Reading(board=boards.find(board) if board else None, line=line)
    tail = text.strip()
    while tail:
        tail = tail[_take(tail, reading) :].lstrip(" \t")
    if reading.memory is None:
        raise FormatError(NAME, line, "it does not say how much RAM is in use")
    _add_rails(reading)
    return Line(
        values=tuple(reading.values.values()),
        ignored=dict(reading.ignored),
        rails=tuple(rail.label for rail in reading.rails if rail.label != UNCONNECTED),
        cores=reading.cores,
        memory=reading.memory,
    )


def _take(tail: str, reading: _Reading) -> int:
    """Reads the field at the beginning, and says how long it is."""
    for pattern, function in FIELDS:
        match = pattern.match(tail)
        if match:
            function(match, reading)
            return match.end()
    raise FormatError(NAME, reading.line, f"{tail[:30]!r} is nothing that tegrastats prints")


# --- channels -----------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _channel(
    name: str, unit: str, domain: Domain, role: str, *, core: int | None = None,
    limit: float | None = None, resolution: float | None = None, window_s: float | None = None,
    range_to: float | None = None,
    note: str = "",
) -> Channel:  # fmt: skip
    """A gauge; equal ones are made once, since each line needs forty."""
    return Channel(
        name=name, unit=unit, kind="gauge", domain=domain, role=role, source=NAME, core=core,
        limit=limit, resolution=resolution, window_s=window_s, range_to=range_to, note=note,
    )  # fmt: skip


def plain(label: str) -> str:
    """A label as part of a channel's name."""
    return name_part(label) or "unnamed"


def _frequency(reading: _Reading, name: str, domain: Domain, mhz: str | None) -> None:
    """A clock in MHz; None: it is off."""
    limit = _highest(reading.board, domain) if name in ("gpu", "memory") else None
    role = "frequency" if domain in ("gpu", "memory") else "engine_frequency"
    channel = _channel(f"{name}.frequency", "Hz", domain, role, limit=limit, resolution=1e6)
    reading.add(channel, math.nan if mhz is None else float(mhz) * 1e6)


def _highest(board: Board | None, domain: Domain) -> float | None:
    if board is None:
        return None
    facts = board.gpu if domain == "gpu" else board.memory_controller
    highest = facts.get("max_hz")
    return None if highest is None else float(highest)


# --- fields -------------------------------------------------------------------------------------


def _pool(match: re.Match[str], reading: _Reading) -> None:
    """RAM, SWAP, IRAM: used, total, and the largest free block or what is cached."""
    used, total, third = POOLS[match["pool"]]
    unit = BYTES[match["unit"]]
    reading.add(_bytes(used, unit), float(match["used"]) * unit)
    reading.add(_bytes(total, unit), float(match["total"]) * unit)
    if match["pool"] == "RAM":
        reading.memory = float(match["total"]) * unit
    if match["third"] is not None:
        unit = BYTES[match["third_unit"]]
        reading.add(_bytes(third, unit), float(match["third"]) * unit)
    if match["count"] is not None:
        role = f"{third}s"
        channel = _channel(f"system.{role}", "blocks", "memory", role)
        reading.add(channel, float(match["count"]))


def _bytes(role: str, unit: int) -> Channel:
    return _channel(f"system.{role}", "B", "memory", role, resolution=float(unit))


def _cores(match: re.Match[str], reading: _Reading) -> None:
    """CPU: load and clock of each core, or one clock for all; a core that is off is a gap."""
    entries = match["cores"].split(",")
    reading.cores = len(entries)
    for core, entry in enumerate(entries):
        percent, _, own = entry.partition("%")
        off = percent == "off"
        share = math.nan if off else reading.share(percent)
        name = f"cpu{core}"
        busy = _channel(f"{name}.utilization", "ratio", "cpu", "core_utilization", core=core)
        reading.add(busy, share)
        mhz = own.removeprefix("@") or match["shared"]
        if off or mhz:
            limit = _core_limit(reading.board, core)
            clock = _channel(
                f"{name}.frequency", "Hz", "cpu", "frequency", core=core, limit=limit,
                resolution=1e6,
            )  # fmt: skip
            reading.add(clock, math.nan if off else float(mhz) * 1e6)


def _core_limit(board: Board | None, core: int) -> float | None:
    cluster = board.cluster_of(core) if board else None
    return cluster.max_hz if cluster else None


def _memory_controller(match: re.Match[str], reading: _Reading) -> None:
    """EMC: load at its clock. Without the clock, tegrastats was not allowed to look."""
    role = "memory_controller_utilization"
    channel = _channel("memory.controller_utilization", "ratio", "memory", role)
    percent, mhz = match["percent"], match["mhz"]
    if percent is not None and mhz is None:
        reading.ignored[NO_CLOCK] += 1
        percent = None
    reading.add(channel, math.nan if percent is None else reading.share(percent))
    if mhz is not None:
        _frequency(reading, "memory", "memory", mhz)


def _gpu(match: re.Match[str], reading: _Reading) -> None:
    """GR3D: load, and the clock of each of its parts (GPC); GR3D2 is the second part."""
    number = int(match["number"] or 1) - 1
    name = f"gpu.gpc{number}" if number > 0 else "gpu"
    if match["percent"] is not None:
        role = "gpu_part_utilization" if number > 0 else "gpu_utilization"
        channel = _channel(f"{name}.utilization", "ratio", "gpu", role, note=LOAD_NOTE)
        reading.add(channel, reading.share(match["percent"]))
    if match["off"] is not None:
        _frequency(reading, name, "gpu", None)
    for part, mhz in enumerate(_list(match["mhz"]), number):
        _frequency(reading, f"gpu.gpc{part}" if part > 0 else "gpu", "gpu", mhz)


def _engine(match: re.Match[str], reading: _Reading) -> None:
    """A video, vision or audio engine: off, its clock, its load, or both."""
    name = match["engine"].lower()
    if match["percent"] is not None:
        reading.add(_engine_load(name), reading.share(match["percent"]))
    if match["off"] is not None:
        _frequency(reading, name, "soc", None)
    for part, mhz in enumerate(_list(match["mhz"] or match["bare"])):
        _frequency(reading, f"{name}.part{part}" if part else name, "soc", mhz)


def _engine_load(name: str) -> Channel:
    return _channel(f"{name}.utilization", "ratio", "soc", "engine_utilization")


def may_come(line: Line) -> list[Channel]:
    """Channels that later lines may have: the load of the GPU, and of engines that are off."""
    load = _channel("gpu.utilization", "ratio", "gpu", "gpu_utilization", note=LOAD_NOTE)
    names = {channel.name for channel, _ in line.values}
    engines = [
        _engine_load(channel.name.removesuffix(".frequency"))
        for channel, value in line.values
        if channel.role == "engine_frequency" and channel.domain == "soc" and math.isnan(value)
    ]
    return [channel for channel in (load, *engines) if channel.name not in names]


def _list(text: str | None) -> list[str]:
    """The numbers of "921" or "[1300,1300]"."""
    return text.strip("[]").split(",") if text else []


def _translation(match: re.Match[str], reading: _Reading) -> None:
    """MTS: what NVIDIA's own cores spend on translating code, in front and behind."""
    for name in ("foreground", "background"):
        channel = _channel(f"mts.{name}", "ratio", "cpu", "code_translation")
        reading.add(channel, reading.share(match[name]))


def _temperature(match: re.Match[str], reading: _Reading) -> None:
    """A thermal zone; a unit that is off has no temperature."""
    value = float(match["celsius"])
    if value < COLDEST_C:
        reading.ignored[OFF] += 1
        value = math.nan
    if match["second"] is not None:
        reading.ignored[SECOND_TEMPERATURE] += 1
    board = reading.board and reading.board.name
    reading.add(_zone_channel(board, match["zone"]), value)


@lru_cache(maxsize=1024)
def _zone_channel(board: str | None, label: str) -> Channel:
    zone = _zone(boards.find(board) if board else None, label)
    use = zone.use if zone else ZONES.get(plain(label), "temperature")
    role = TEMPERATURES[use]
    limit = zone.throttle_c if zone else None
    return _channel(f"thermal.{plain(label)}", "°C", "thermal", role, limit=limit)


def _zone(board: Board | None, label: str) -> Zone | None:
    """The board's zone that tegrastats calls so: without "-therm", "_tegra" or "-Die"."""
    if board is None:
        return None
    wanted = {"thermal": "thermal_fan_est"}.get(plain(label), plain(label))
    for zone in board.zones:
        kinds = (
            re.sub(r"[-_](thermal|therm|tegra|Die)$", "", k) for k in (zone.type, *zone.aliases)
        )
        if wanted in map(plain, kinds):
            return zone
    return None


def _rail(match: re.Match[str], reading: _Reading) -> None:
    """A power rail in mW: now, the mean since tegrastats began, and the highest since then."""
    label = match["rail"]
    if label in NO_RAILS:
        raise FormatError(
            NAME, reading.line, f"{match[0][:30]!r} is no power rail", id="not-a-rail"
        )
    numbers = [match["now"], match["mean"], match["peak"]]
    watts = [float(number) * 1e-3 for number in numbers if number is not None]
    with_unit = "mW" in match[0]
    reading.rails.append(_Rail(label=label, watts=watts, with_unit=with_unit))


def _leave_pairs_out(reading: _Reading) -> None:
    """Removes numbers without mW where rails have it: they are something else ("FAN 20/255")."""
    if not any(rail.with_unit for rail in reading.rails):
        return
    for rail in reading.rails:
        if not rail.with_unit:
            reading.ignored[UNKNOWN.format(rail.label)] += len(rail.watts)
    reading.rails = [rail for rail in reading.rails if rail.with_unit]


def _add_rails(reading: _Reading) -> None:
    """The rails, now that it is known which of them there are."""
    _leave_pairs_out(reading)
    labels = [rail.label for rail in reading.rails]
    seen: Counter[str] = Counter()
    for rail in reading.rails:
        label = rail.label
        seen[label] += 1
        again = labels.count(label) > 1 and label == UNCONNECTED
        name = f"rail.{plain(label)}.{seen[label]}" if again else f"rail.{plain(label)}"
        channels = _rail_channels(reading.board and reading.board.name, label, name, tuple(labels))
        for channel, value in zip(channels, rail.watts, strict=False):
            reading.add(channel, value)


@lru_cache(maxsize=1024)
def _rail_channels(
    board_name: str | None, label: str, name: str, labels: tuple[str, ...]
) -> tuple[Channel, ...]:
    """Of the power now, its mean and its highest; only the first is ever part of a total."""
    board = boards.find(board_name) if board_name else None
    rail = board.rail(label) if board else None
    what = meaning(board, label, labels)
    if label == UNCONNECTED:
        what = Meaning(domain="unknown", role="power_unconnected", note="connected to nothing")
    now = _channel(
        name, "W", what.domain, what.role, note=what.note,
        resolution=rail.quantum_w if rail else None, window_s=board.window_s if board else None,
        range_to=rail.range_w if rail else None,
    )  # fmt: skip
    return now, *(
        _channel(f"{name}.{word}", "W", what.domain, f"power_{word}_since_start")
        for word in ("mean", "peak")
    )


def _unknown(match: re.Match[str], reading: _Reading) -> None:
    """A field of a release to come: nothing is guessed."""
    numbers = len(re.findall(r"(?<![A-Za-z_0-9])[0-9.]+", match["value"]))
    reading.ignored[UNKNOWN.format(match["name"])] += max(numbers, 1)


_N = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_END = r"(?=[ \t]|$)"
_CLOCKS = rf"(?:{_N}|\[{_N}(?:,{_N}){{0,15}}\])"
_CORE = rf"(?:off|{_N}%(?:@{_N})?)"
_UNIT = "(?:kB|MB|GB)"
_ENGINES = "NVENC|MSENC|NVDEC|NVJPG|NVDLA|DLA|NVCSI|VIC|OFA|APE|PVA|ISP|TSEC|VI|SE"
_RAIL = "[A-Za-z][A-Za-z0-9_+-]{0,39}"

# Tried in this order: AGX Xavier's rails are called as engines or zones are elsewhere, but no
# other field is written as theirs.
FIELDS: Final[Sequence[tuple[re.Pattern[str], Callable[[re.Match[str], _Reading], None]]]] = tuple(
    (re.compile(pattern + _END, re.ASCII), function)
    for pattern, function in (
        (
            rf"(?P<pool>RAM|SWAP|IRAM) (?P<used>{_N})/(?P<total>{_N})(?P<unit>{_UNIT})"
            rf"(?: ?\((?:lfb|cached) (?:(?P<count>{_N})x)?(?P<third>{_N})(?P<third_unit>{_UNIT})\))?",
            _pool,
        ),
        (rf"(?:CPU|cpu) \[(?P<cores>{_CORE}(?:,{_CORE}){{0,255}})\](?:@(?P<shared>{_N}))?", _cores),
        (
            rf"EMC(?:_FREQ)? (?=[0-9@])(?:(?P<percent>{_N})%)?(?:@(?P<mhz>{_N}))?",
            _memory_controller,
        ),
        (
            rf"GR3D(?P<number>[2-9])?(?:_FREQ)? (?=[0-9@o])"
            rf"(?:(?P<off>off)|(?:(?P<percent>{_N})%)?(?:@(?P<mhz>{_CLOCKS}))?)",
            _gpu,
        ),
        (rf"MTS fg (?P<foreground>{_N})% bg (?P<background>{_N})%", _translation),
        (
            rf"(?P<engine>(?:{_ENGINES})[0-9]?)(?:_FREQ)? (?=[0-9@o\[])"
            rf"(?:(?P<off>off)|(?P<bare>{_CLOCKS})|(?:(?P<percent>{_N})%)?(?:@(?P<mhz>{_CLOCKS}))?)",
            _engine,
        ),
        (
            rf"(?P<zone>[A-Za-z][A-Za-z0-9_.-]{{0,39}})@(?P<celsius>-?{_N})C(?:/(?P<second>-?{_N})C)?",
            _temperature,
        ),
        (rf"(?P<rail>{_RAIL}) (?P<now>-?{_N})/(?P<mean>-?{_N})(?:/(?P<peak>-?{_N}))?", _rail),
        (
            rf"(?P<rail>{_RAIL}) (?P<now>-?{_N})mW/(?P<mean>-?{_N})mW(?:/(?P<peak>-?{_N})mW)?",
            _rail,
        ),
        (
            rf"(?P<name>[A-Z][A-Za-z0-9_]{{1,39}}) "
            rf"(?P<value>off|-?{_N}%?(?:@{_CLOCKS})?|{_N}/{_N}{_UNIT}|@{_CLOCKS})",
            _unknown,
        ),
    )
)

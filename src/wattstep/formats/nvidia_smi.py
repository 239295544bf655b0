"""Output of nvidia-smi: tables of `--query-gpu` (CSV) and whole reports (`-q -x`, XML)."""

from __future__ import annotations

import functools
import math
import operator
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType
from typing import Final

import numpy as np

from wattstep.formats.recording import FormatError, Recording
from wattstep.formats.rows import DAMAGED, Row, gather, in_order, left_out, times_of, wall_ns
from wattstep.schema.channel import Channel, Domain

NAME: Final = "nvidia-smi"
XML: Final = "nvidia-smi XML"
NO_ZONE: Final = "its times have no time zone: they are read as UTC"
CUT: Final = "line {} is cut and was left out"
CUT_REPORT: Final = "the report that begins at line {} is cut and was left out"
ONE_GPU: Final = "no column names the GPU: all rows are taken to be of one"
GROUPS: Final = (
    "no column names the GPU: rows come {0} at a time and are taken to be of {0} GPUs in order"
)
MOST_GPUS: Final = 16  # of one machine
APART: Final = 3  # times as long as between rows of one query is between queries, at the least
KEPT: Final = "{}: kept as a limit"
NO_QUANTITY: Final = "{}: no quantity of a run"
IMPOSSIBLE: Final = "{}: a share below 0 or above 100 %"
NOTHING: Final = frozenset(
    {
        "n/a", "[n/a]", "[not supported]", "not supported", "[unknown error]", "unknown error",
        "[gpu is lost]", "[gpu requires reset]", "[insufficient permissions]", "err!", "[not found]",
        "requested functionality has been deprecated",
    }
)  # fmt: skip
FACTORS: Final[Mapping[str, Mapping[str, float]]] = MappingProxyType(
    {
        "W": {"W": 1.0, "mW": 1e-3},
        "°C": {"C": 1.0},
        "Hz": {"MHz": 1e6, "GHz": 1e9},
        "B": {"MiB": 2.0**20, "KiB": 2.0**10, "GiB": 2.0**30, "MB": 2.0**20},
        "ratio": {"%": 1e-2},
    }
)
# Without a unit in cell and header: what the documentation says.
USUAL: Final[Mapping[str, str]] = MappingProxyType(
    {"W": "W", "°C": "C", "Hz": "MHz", "B": "MiB", "ratio": "%"}
)

# Why clocks are lower than they could be (nvml.h), by the names that nvidia-smi gives them.
BITS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4,
        "hw_slowdown": 0x8, "sync_boost": 0x10, "sw_thermal_slowdown": 0x20,
        "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80,
        "display_clocks_setting": 0x100, "display_clock_setting": 0x100,
    }
)  # fmt: skip
MOST_BITS: Final = 1 << 53  # a float holds no more
HARMLESS: Final = 0x1 | 0x2 | 0x100  # idle, chosen clocks, the display's needs: no throttling


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Channel of a GPU; fields as of `Channel`."""

    word: str
    unit: str
    role: str
    domain: Domain = "gpu"


def _q(word: str, unit: str, role: str, domain: Domain = "gpu") -> Quantity:
    return Quantity(word=word, unit=unit, role=role, domain=domain)


# Power comes under three names: what `power.draw` means changed with the architecture. What is
# taken for the power of the card is decided in `_power_first`.
QUANTITIES: Final[Mapping[str, Quantity]] = MappingProxyType(
    {
        "instant": _q("instant_power", "W", "power_instant"),
        "draw": _q("power", "W", "power_part"),
        "average": _q("average_power", "W", "power_average"),
        "power_limit": _q("power_limit", "W", "power_limit"),
        "temperature": _q("temperature", "°C", "temperature", "thermal"),
        "memory_temperature": _q("memory_temperature", "°C", "temperature", "thermal"),
        "load": _q("utilization", "ratio", "gpu_utilization"),
        "memory_load": _q(
            "memory_controller_utilization", "ratio", "memory_controller_utilization", "memory"
        ),
        "encoder": _q("encoder_utilization", "ratio", "engine_utilization"),
        "decoder": _q("decoder_utilization", "ratio", "engine_utilization"),
        "jpeg": _q("jpeg_utilization", "ratio", "engine_utilization"),
        "ofa": _q("ofa_utilization", "ratio", "engine_utilization"),
        "total": _q("memory_total", "B", "gpu_memory_total"),
        "used": _q("memory_used", "B", "gpu_memory_used"),
        "free": _q("memory_free", "B", "gpu_memory_free"),
        "reserved": _q("memory_reserved", "B", "gpu_memory_reserved"),
        "sm_clock": _q("frequency", "Hz", "frequency"),
        "memory_clock": _q("memory_frequency", "Hz", "frequency", "memory"),
        "graphics_clock": _q("graphics_frequency", "Hz", "engine_frequency"),
        "video_clock": _q("video_frequency", "Hz", "engine_frequency"),
        "fan": _q("fan_duty", "ratio", "fan_duty"),
    }
)
COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "power.draw": "draw", "power.draw.average": "average", "power.draw.instant": "instant",
        "enforced.power.limit": "power_limit",
        "temperature.gpu": "temperature", "temperature.memory": "memory_temperature",
        "utilization.gpu": "load", "utilization.memory": "memory_load",
        "utilization.encoder": "encoder", "utilization.decoder": "decoder",
        "utilization.jpeg": "jpeg", "utilization.ofa": "ofa",
        "memory.total": "total", "memory.used": "used", "memory.free": "free",
        "memory.reserved": "reserved",
        "clocks.sm": "sm_clock", "clocks.current.sm": "sm_clock",
        "clocks.mem": "memory_clock", "clocks.current.memory": "memory_clock",
        "clocks.gr": "graphics_clock", "clocks.current.graphics": "graphics_clock",
        "clocks.video": "video_clock", "clocks.current.video": "video_clock",
        "fan.speed": "fan",
    }
)  # fmt: skip
LIMIT_COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "clocks.max.sm": "sm_clock", "clocks.max.mem": "memory_clock",
        "clocks.max.memory": "memory_clock", "clocks.max.gr": "graphics_clock",
        "clocks.max.graphics": "graphics_clock",
    }
)  # fmt: skip
ELEMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "power_readings/power_draw": "draw",
        "gpu_power_readings/power_draw": "draw",
        "gpu_power_readings/average_power_draw": "average",
        "gpu_power_readings/instant_power_draw": "instant",
        "power_readings/enforced_power_limit": "power_limit",
        "gpu_power_readings/current_power_limit": "power_limit",
        "temperature/gpu_temp": "temperature",
        "temperature/memory_temp": "memory_temperature",
        "utilization/gpu_util": "load", "utilization/memory_util": "memory_load",
        "utilization/encoder_util": "encoder", "utilization/decoder_util": "decoder",
        "utilization/jpeg_util": "jpeg", "utilization/ofa_util": "ofa",
        "fb_memory_usage/total": "total", "fb_memory_usage/used": "used",
        "fb_memory_usage/free": "free", "fb_memory_usage/reserved": "reserved",
        "clocks/sm_clock": "sm_clock", "clocks/mem_clock": "memory_clock",
        "clocks/graphics_clock": "graphics_clock", "clocks/video_clock": "video_clock",
        "fan_speed": "fan",
    }
)  # fmt: skip
LIMIT_ELEMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "temperature/gpu_temp_slow_threshold": "temperature",
        "max_clocks/sm_clock": "sm_clock", "max_clocks/mem_clock": "memory_clock",
        "max_clocks/graphics_clock": "graphics_clock", "max_clocks/video_clock": "video_clock",
    }
)  # fmt: skip
KEYS: Final = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")
NO_TEXT: Final = "\ufffd"
MONTHS: Final = "JanFebMarAprMayJunJulAugSepOctNovDec"

_REASON = re.compile(r"clocks_(?:throttle|event)_reasons?[._](?P<name>\w+)", re.ASCII)
_CELL = re.compile(r"(?P<number>-?[0-9]{1,12}(?:\.[0-9]{1,9})?)(?: ?(?P<unit>%|[A-Za-z]{1,3}))?")
_QUANTITY = re.compile(r"-?[0-9.]{1,20} [A-Za-z%/]{1,6}")
_HEADER = re.compile(r"(?P<name>[a-z][a-z0-9_.]*)(?: \[(?P<unit>[^\[\]]{1,8})\])?", re.ASCII)
_STAMP = re.compile(r"([0-9]{4}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?")
_STAMP_FORM: Final = "%Y/%m/%d %H:%M:%S"
_XML_STAMP = re.compile(
    r"[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) +(?P<day>[0-9]{1,2}) "
    r"(?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2}) (?P<year>[0-9]{4})"
)
_DOCTYPE = re.compile(r"<!DOCTYPE nvidia_smi_log SYSTEM \"[\w.-]{1,64}\">", re.ASCII)
_DECLARATION = re.compile(r"<\?xml version=\"1\.[01]\"[^<>]{0,60}\?>")
_END = "</nvidia_smi_log>"


@dataclass(kw_only=True)
class _Gpu:
    """State of one GPU while its rows are read."""

    index: int
    rows: list[Row] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)


@dataclass(kw_only=True)
class _File:
    """A file while it is read: GPUs by whatever tells them apart."""

    gpus: dict[str, _Gpu] = field(default_factory=dict)
    ignored: Counter[str] = field(default_factory=Counter)
    notes: dict[str, None] = field(default_factory=dict)

    def gpu(self, key: str) -> _Gpu:
        """The GPU of this key, numbered in the order in which they come."""
        return self.gpus.setdefault(key, _Gpu(index=len(self.gpus)))


def parse(data: bytes, *, interval_s: float | None = None) -> Recording:
    """Reads a table or reports, whichever it is.

    Args:
        data: The file.
        interval_s: How far apart rows are, where they have no time.

    Raises:
        FormatError: It is neither, or damaged. Its end may be cut, and of a table with times a
            few rows may be damaged: they are left out, with a note.
        InvalidValueError: There is no clock, and `interval_s` is missing.
    """
    text = _text(data)
    if text.lstrip().startswith("<"):
        return _recording(XML, _read_xml(text), interval_s)
    return _recording(NAME, _read_csv(text), interval_s)


def _text(data: bytes) -> str:
    """The file as text; of a table, bytes that are no text become `NO_TEXT`: one row is damaged."""
    text = data.decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise FormatError(NAME, 1, "there is nothing")
    if text.lstrip().startswith("<") and NO_TEXT in text:
        line = text.count("\n", 0, text.index(NO_TEXT)) + 1
        raise FormatError(XML, line, "it holds bytes that are no text", id="bytes-not-text")
    return text


def _recording(format_name: str, file: _File, interval_s: float | None) -> Recording:
    """Each GPU has times of its own: they are asked one after the other."""
    channels: list[Channel] = []
    t_ns: dict[str, np.ndarray] = {}
    value: dict[str, np.ndarray] = {}
    clock = "counted"
    for gpu in file.gpus.values():
        rows, astray = in_order(gpu.rows)
        times = times_of(rows, format_name, interval_s)
        own_channels, t_by_name, v_by_name = gather(_power_first(gpu, rows), times, fill=True)
        channels.extend(own_channels)
        t_ns.update(t_by_name)
        value.update(v_by_name)
        file.notes.update(dict.fromkeys((*astray, *times.notes)))
        clock = times.clock
    if not channels:
        raise FormatError(
            format_name,
            1,
            "; ".join([*file.notes, "it has no values of any GPU"]),
            id="no-gpu-values",
        )
    if clock == "wall":
        file.notes[NO_ZONE] = None
    return Recording(
        format=format_name,
        channels=tuple(channels),
        t_ns=t_ns,
        value=value,
        clock=clock,
        notes=tuple(file.notes),
        ignored=dict(file.ignored),
    )


def _power_first(gpu: _Gpu, rows: Sequence[Row]) -> list[Row]:
    """Its rows with limits known, and one of the powers as the power of the card.

    That is the instant one where it was ever read, else what nvidia-smi calls the draw, else the
    average.
    """
    read = {c.name for row in rows for c, v in row.values if math.isfinite(v)}
    words = ("instant_power", "power", "average_power")
    best = next((w for w in words if f"gpu{gpu.index}.{w}" in read), "power")

    def changed(channel: Channel) -> Channel:
        word = channel.name.partition(".")[2]
        limit = gpu.limits.get(word)
        if word == best:
            return replace(channel, name=f"gpu{gpu.index}.power", role="power_part")
        if word == "power":
            return replace(channel, name=f"gpu{gpu.index}.power_draw", role="power_average")
        return replace(channel, limit=limit)

    made: dict[str, Channel] = {}
    return [
        replace(
            row,
            values=[(made.setdefault(c.name, changed(c)), v) for c, v in row.values],
        )
        for row in rows
    ]


def _channel(index: int, quantity: Quantity, source: str) -> Channel:
    return Channel(
        name=f"gpu{index}.{quantity.word}",
        unit=quantity.unit,
        kind="gauge",
        domain=quantity.domain,
        role=quantity.role,
        source=source,
    )


def _number(text: str, header_unit: str, unit: str, line: int) -> float:
    """A cell in SI units; NaN where it says that there is nothing."""
    if text.lower() in NOTHING:
        return math.nan
    match = _CELL.fullmatch(text)
    if match is None:
        raise FormatError(NAME, line, f"{text[:30]!r} is no number", id="not-a-number")
    written = match["unit"] or header_unit or USUAL[unit]
    factor = FACTORS[unit].get(written)
    if factor is None:
        raise FormatError(
            NAME, line, f"{text[:30]!r}: {written!r} is no unit of this quantity", id="not-a-unit"
        )
    return float(match["number"]) * factor


def _possible(number: float, key: str, name: str, ignored: Counter[str]) -> float:
    """A quantity; no value for a share that cannot be. Fans may turn faster than their 100 %."""
    quantity = QUANTITIES[key]
    if quantity.unit != "ratio" or math.isnan(number):
        return number
    if number < 0 or (number > 1 and quantity.role != "fan_duty"):
        ignored[IMPOSSIBLE.format(name)] += 1
        return math.nan
    return number


def _reasons(index: int, bits: float) -> Iterator[tuple[Channel, float]]:
    """All reasons, and those of them that are throttling."""
    for word, role, bits_of_word in (
        ("throttle_reasons", "throttle_reasons", ~HARMLESS),
        ("clock_reasons", "clock_reasons", -1),
    ):
        quantity = Quantity(word=word, unit="events", role=role)
        yield (
            _channel(index, quantity, "nvidia-smi clocks event reasons"),
            bits if math.isnan(bits) else float(int(bits) & bits_of_word),
        )


# --- tables -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Column:
    name: str
    unit: str


def _read_csv(text: str) -> _File:
    """Rows below a header; a last one that does not end may have lost digits, and is left out."""
    file = _File()
    lines = [(n, line.strip()) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    first, header = lines[0]
    columns = _columns(header, first)
    if len(lines) > 1 and text.rpartition("\n")[2].strip():
        file.notes[CUT.format(lines.pop()[0])] = None
    timed = any(column.name == "timestamp" for column in columns)
    damage: list[FormatError] = []
    before = 0  # GPUs that were there when the first damaged row came
    rows = [(n, line) for n, line in lines[1:] if line != header]  # it may be written to twice
    gpus = 0 if {column.name for column in columns} & set(KEYS) else _gpus(columns, rows)
    if gpus:
        file.notes[GROUPS.format(gpus) if gpus > 1 else ONE_GPU] = None
    for place, (number, line) in enumerate(rows):
        try:
            _take_row(file, columns, line, number, str(place % gpus) if gpus else None)
        except FormatError as error:
            if not timed:  # the place of a row is its time
                raise
            before = before if damage else len(file.gpus)
            damage.append(error)
    if damage and (gpus > 1 or 1 < len(file.gpus) != before):  # they may be in another order
        raise damage[0]
    file.notes.update(dict.fromkeys(left_out(damage, len(rows) - len(damage))))
    file.ignored.update({DAMAGED: len(damage)} if damage else {})
    return file


def _gpus(columns: Sequence[_Column], rows: Sequence[tuple[int, str]]) -> int:
    """Number of GPUs of rows that do not name theirs: as many as come together, query by query.

    Times in whole seconds tell nothing: one GPU that is read several times a second looks the same.
    """
    place = next((n for n, column in enumerate(columns) if column.name == "timestamp"), None)
    if place is None:
        return 1
    stamps = []
    for _, line in rows:
        match = _STAMP.fullmatch((line.split(",") + [""] * place)[place].strip())
        if match is None or not match[2]:
            return 1
        try:
            stamps.append(wall_ns(datetime.strptime(match[1], _STAMP_FORM), match[2]))
        except ValueError:  # no such day: its row will say so
            return 1
    apart = [after - before for before, after in pairwise(stamps)]
    for count in range(2, min(MOST_GPUS, len(apart)) + 1):
        between = apart[count - 1 :: count]
        within = [gap for n, gap in enumerate(apart, 1) if n % count]
        if min(within) >= 0 and min(between) > APART * max(within):
            return count
    return 1


def _columns(header: str, line: int) -> list[_Column]:
    columns = []
    for cell in header.split(","):
        match = _HEADER.fullmatch(cell.strip())
        if match is None:
            problem = f"{cell.strip()[:30]!r} is no column of --query-gpu (noheader cannot be read)"
            raise FormatError(NAME, line, problem, id="no-header")
        columns.append(_Column(name=match["name"], unit=match["unit"] or ""))
    known = [COLUMNS.get(c.name) or LIMIT_COLUMNS.get(c.name, "") + c.name for c in columns]
    if len(set(known)) < len(known):
        raise FormatError(NAME, line, "a column stands there twice", id="repeated-column")
    return columns


def _take_row(
    file: _File, columns: Sequence[_Column], text: str, line: int, gpu_key: str | None
) -> None:
    cells = [cell.strip() for cell in text.split(",")]
    if len(cells) != len(columns):
        problem = f"it has {len(cells)} cells, the header {len(columns)}"
        raise FormatError(NAME, line, problem, id="wrong-cell-count")
    if NO_TEXT in text:
        raise FormatError(NAME, line, "it holds bytes that are no text", id="bytes-not-text")
    row = dict(zip(columns, cells, strict=True))
    by_name = {column.name: cell for column, cell in row.items()}
    t_ns = _stamp(by_name["timestamp"], line) if "timestamp" in by_name else None
    values, limits, ignored = _cells(row, line)
    bits = _row_reasons(by_name, line, ignored)
    if gpu_key is None:
        gpu_key = next(by_name[name] for name in KEYS if name in by_name)
    gpu = file.gpu(gpu_key)
    pairs = [
        (_channel(gpu.index, QUANTITIES[key], f"nvidia-smi {name}"), value)
        for name, key, value in values
    ]
    if bits is not None:
        pairs.extend(_reasons(gpu.index, bits))
    gpu.rows.append(Row(line=line, t_ns=t_ns, values=pairs))
    gpu.limits.update(limits)
    file.ignored.update(ignored)


def _cells(
    row: Mapping[_Column, str], line: int
) -> tuple[list[tuple[str, str, float]], dict[str, float], Counter[str]]:
    """Values (column, quantity, number), limits by channel's word, and what became neither."""
    values, limits, ignored = [], {}, Counter[str]()
    for column, cell in row.items():
        name = column.name
        key = COLUMNS.get(name)
        limited = LIMIT_COLUMNS.get(name)
        if key is not None:
            number = _number(cell, column.unit, QUANTITIES[key].unit, line)
            values.append((name, key, _possible(number, key, name, ignored)))
        elif limited is not None:
            number = _number(cell, column.unit, QUANTITIES[limited].unit, line)
            ignored[KEPT.format(name)] += 1
            if math.isfinite(number):
                limits[QUANTITIES[limited].word] = number
        elif name not in (*KEYS, "timestamp") and not _REASON.fullmatch(name):
            ignored[NO_QUANTITY.format(name)] += 1
    return values, limits, ignored


def _row_reasons(cells: Mapping[str, str], line: int, ignored: Counter[str]) -> float | None:
    """Bits; NaN: the GPU does not tell; None: nobody asked. Reasons of later releases are counted."""
    bits: list[int] = []
    asked = False
    for name, cell in cells.items():
        match = _REASON.fullmatch(name)
        if match is None or match["name"] == "supported":
            continue
        if match["name"] not in ("active", *BITS):
            ignored[NO_QUANTITY.format(name)] += 1
            continue
        asked = True
        if cell.lower() not in NOTHING:
            bits.append(_bits(match["name"], cell, line))
    if not asked:
        return None
    return float(functools.reduce(operator.or_, bits)) if bits else math.nan


def _bits(name: str, text: str, line: int) -> int:
    """Of one column or element: all reasons as a number, or one reason as a word."""
    if name == "active":
        if not re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", text, re.ASCII) or int(text, 16) >= MOST_BITS:
            raise FormatError(NAME, line, f"{text[:30]!r} is no set of reasons")
        return int(text, 16)
    if text not in ("Active", "Not Active"):
        raise FormatError(NAME, line, f"{name}: {text[:30]!r} is neither active nor not")
    return BITS[name] if text == "Active" else 0


def _stamp(text: str, line: int) -> int:
    match = _STAMP.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        return wall_ns(datetime.strptime(match[1], _STAMP_FORM), match[2] or "")
    except ValueError:
        raise FormatError(
            NAME, line, f"{text[:30]!r} is no date and time", id="not-a-time"
        ) from None


# --- reports ------------------------------------------------------------------------------------


def _read_xml(text: str) -> _File:
    """Reports one after the other, as `--loop` writes them."""
    file = _File()
    line = 1
    *reports, tail = text.split(_END)
    for report in reports:
        _take_report(file, report + _END, line)
        line += report.count("\n")
    if tail.strip():
        if not reports:
            raise FormatError(
                XML, text.count("\n") + 1, "the report does not end", id="unfinished-report"
            )
        begins = line + _leading_lines(tail)
        file.notes[CUT_REPORT.format(begins)] = None
    return file


def _take_report(file: _File, text: str, line: int) -> None:
    root = _tree(text, line)
    stamp = root.findtext("timestamp")
    t_ns = _xml_stamp(stamp.strip(), line) if stamp else None
    for place, element in enumerate(root.findall("gpu")):
        gpu = file.gpu(element.get("id") or str(place))
        pairs = [
            (_channel(gpu.index, QUANTITIES[key], f"nvidia-smi {path}"), value)
            for path, key, value in _leaves(file, gpu, element, line)
        ]
        bits = _xml_reasons(element, line, file.ignored)
        if bits is not None:
            pairs.extend(_reasons(gpu.index, bits))
        gpu.rows.append(Row(line=line, t_ns=t_ns, values=pairs))


def _tree(text: str, line: int) -> ET.Element:
    """The elements. Entities are never expanded: only nvidia-smi's own DOCTYPE is let through."""
    lean = _DOCTYPE.sub("", _DECLARATION.sub("", text.replace("\r", ""), count=1), count=1)
    if "<!DOCTYPE" in lean or "<!ENTITY" in lean:
        raise FormatError(
            XML, line, "it declares a document type that nvidia-smi does not", id="document-type"
        )
    begins = line + _leading_lines(lean)
    try:
        return ET.fromstring(lean.strip())
    except ET.ParseError as error:
        at = begins + error.position[0] - 1
        raise FormatError(XML, at, str(error).partition(":")[0]) from None


def _leading_lines(text: str) -> int:
    return text[: len(text) - len(text.lstrip())].count("\n")


def _leaves(
    file: _File, gpu: _Gpu, element: ET.Element, line: int
) -> Iterator[tuple[str, str, float]]:
    """Values (path, quantity, number); limits are noted, other quantities counted."""
    seen = set()
    for path, text in _paths(element):
        key, limited = ELEMENTS.get(path), LIMIT_ELEMENTS.get(path)
        if key is not None:
            if key in seen:
                raise FormatError(XML, line, f"{path} stands there twice")
            seen.add(key)
            number = _number(text, "", QUANTITIES[key].unit, line)
            yield path, key, _possible(number, key, path, file.ignored)
        elif limited is not None:
            quantity = QUANTITIES[limited]
            number = _number(text, "", quantity.unit, line)
            if math.isfinite(number):
                gpu.limits[quantity.word] = number
                file.ignored[KEPT.format(path)] += 1
        elif _QUANTITY.fullmatch(text):
            file.ignored[NO_QUANTITY.format(path)] += 1


def _paths(element: ET.Element) -> Iterator[tuple[str, str]]:
    """Each element without children: its path below, and its text."""
    stack = [("", child) for child in reversed(element)]
    while stack:
        above, item = stack.pop()
        path = f"{above}{item.tag}"
        if len(item):
            stack.extend((f"{path}/", child) for child in reversed(item))
        else:
            yield path, (item.text or "").strip()


def _xml_reasons(element: ET.Element, line: int, ignored: Counter[str]) -> float | None:
    """As `_row_reasons`; a section without contents does not tell."""
    for section in ("clocks_throttle_reasons", "clocks_event_reasons"):
        node = element.find(section)
        if node is not None:
            cells = {child.tag: (child.text or "").strip() for child in node}
            return _row_reasons(cells, line, ignored) if cells else math.nan
    return None


def _xml_stamp(text: str, line: int) -> int:
    match = _XML_STAMP.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        month = MONTHS.index(match["month"]) // 3 + 1
        day = f"{match['year']}-{month}-{match['day']} {match['clock']}"
        return wall_ns(datetime.strptime(day, "%Y-%m-%d %H:%M:%S"))
    except ValueError:
        raise FormatError(
            XML, line, f"{text[:30]!r} is no date and time", id="not-a-time"
        ) from None

"""Tables of nvidia-smi: a header and rows of `--query-gpu`, as CSV."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from wattstep.formats.nvidia_smi_values import (
    KEPT,
    NAME,
    NO_QUANTITY,
    QUANTITIES,
    REASON,
    Log,
    channel_of,
    possible,
    reason_bits,
    reasons,
    si_value,
)
from wattstep.formats.recording import FormatError
from wattstep.formats.rows import DAMAGED, Row, left_out, wall_ns

CUT: Final = "line {} is cut and was left out"
ONE_GPU: Final = "no column names the GPU: all rows are taken to be of one"
GROUPS: Final = (
    "no column names the GPU: rows come {0} at a time and are taken to be of {0} GPUs in order"
)
MOST_GPUS: Final = 16  # of one machine
APART: Final = 3  # times as long as between rows of one query is between queries, at the least
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
KEYS: Final = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")
NO_TEXT: Final = "\ufffd"

_HEADER = re.compile(r"(?P<name>[a-z][a-z0-9_.]*)(?: \[(?P<unit>[^\[\]]{1,8})\])?", re.ASCII)
_STAMP = re.compile(r"([0-9]{4}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?")
_STAMP_FORM: Final = "%Y/%m/%d %H:%M:%S"


@dataclass(frozen=True, kw_only=True)
class _Column:
    name: str
    unit: str


def read_table(text: str) -> Log:
    """Rows below a header; a last one that does not end may have lost digits, and is left out.

    Raises:
        FormatError: There is no header, or rows are damaged that cannot be left out.
    """
    file = Log()
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
    file: Log, columns: Sequence[_Column], text: str, line: int, gpu_key: str | None
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
    bits = reason_bits(by_name, line, ignored)
    if gpu_key is None:
        gpu_key = next(by_name[name] for name in KEYS if name in by_name)
    gpu = file.gpu(gpu_key)
    pairs = [
        (channel_of(gpu.index, QUANTITIES[key], f"nvidia-smi {name}"), value)
        for name, key, value in values
    ]
    if bits is not None:
        pairs.extend(reasons(gpu.index, bits))
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
            number = si_value(cell, column.unit, QUANTITIES[key].unit, line)
            values.append((name, key, possible(number, key, name, ignored)))
        elif limited is not None:
            number = si_value(cell, column.unit, QUANTITIES[limited].unit, line)
            ignored[KEPT.format(name)] += 1
            if math.isfinite(number):
                limits[QUANTITIES[limited].word] = number
        elif name not in (*KEYS, "timestamp") and not REASON.fullmatch(name):
            ignored[NO_QUANTITY.format(name)] += 1
    return values, limits, ignored


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

"""Lines of `nvidia-smi dmon`: a table of numbers, a row for each GPU, with its headings every so often.

Columns and units are those of its manual: power in W, temperatures in °C, utilizations in per cent,
clocks in MHz, memory in MiB ("MB" there). `-o DT` puts date and time before each row, `-o T` the time
alone; `--format csv` puts commas between cells.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

import numpy as np

from wattstep.formats.nvidia_smi_values import QUANTITIES, Quantity
from wattstep.formats.recording import FormatError, Recording
from wattstep.formats.rows import (
    DAMAGED,
    HOUR_NS,
    NO_END,
    Row,
    gather,
    left_out,
    times_of,
    wall_ns,
    whole_lines,
)
from wattstep.schema.channel import Channel

NAME: Final = "nvidia-smi dmon"
NO_ZONE: Final = "its times have no time zone: they are read as UTC"
COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pwr": "draw", "gtemp": "temperature", "mtemp": "memory_temperature", "temp": "temperature",
        "sm": "load", "mem": "memory_load", "enc": "encoder", "dec": "decoder", "jpg": "jpeg",
        "ofa": "ofa", "mclk": "memory_clock", "pclk": "graphics_clock", "fb": "used",
    }
)  # fmt: skip
FACTORS: Final[Mapping[str, float]] = MappingProxyType(
    {"W": 1.0, "C": 1.0, "%": 1e-2, "MHz": 1e6, "MB": 2.0**20}
)
_DATES: Final = ("Date", "YYYYMMDD")
_TIMES: Final = ("Time", "HH:MM:SS")
_NO_DATE: Final = "19700101"  # a time without its day tells how far apart rows are
_LAST_UNDATED_NS: Final = 24 * HOUR_NS


def parse(data: bytes, *, interval_s: float | None = None) -> Recording:
    """Reads the lines.

    Args:
        data: The file.
        interval_s: How far apart rows of a GPU are, where they have no time.

    Raises:
        FormatError: Many lines are no rows under their headings, or the units are not those known.
        InvalidValueError: There is no clock, and `interval_s` is missing.
    """
    whole, cut = whole_lines(data)
    lines = whole.decode("utf-8-sig", errors="replace").splitlines()
    headings: list[str] = []
    units: list[str] = []
    rows: dict[int, list[Row]] = {}
    damage: list[FormatError] = []
    ignored: Counter[str] = Counter()
    for number, line in enumerate(lines, 1):
        cells = line.lstrip("#").replace(",", " ").split()
        if line.startswith("#"):
            if "gpu" in cells:
                headings = cells
            elif len(cells) == len(headings):
                units = cells
            continue
        if not cells:
            continue
        try:
            gpu, row = _row(cells, headings, units, number, ignored)
            rows.setdefault(gpu, []).append(row)
        except FormatError as error:
            damage.append(error)
    notes = left_out(damage, sum(map(len, rows.values())))
    if damage:
        ignored[DAMAGED] = len(damage)
    if cut:
        notes.append(NO_END)
        ignored[NO_END] = 1
    return _recording(rows, interval_s, notes, ignored)


def _row(
    cells: Sequence[str],
    headings: Sequence[str],
    units: Sequence[str],
    line: int,
    ignored: Counter[str],
) -> tuple[int, Row]:
    """Number of a GPU, and what a line says of it."""
    if len(cells) != len(headings) or len(units) != len(headings):
        problem = f"{len(cells)} cells under {len(headings)} headings"
        raise FormatError(NAME, line, problem, id="wrong-cell-count")
    by_heading = dict(zip(headings, cells, strict=True))
    if not by_heading["gpu"].isdigit() or int(by_heading["gpu"]) > 1023:
        raise FormatError(NAME, line, f"{by_heading['gpu'][:20]!r} is no number of a GPU")
    gpu = int(by_heading["gpu"])
    values: list[tuple[Channel, float]] = []
    for heading, cell, unit in zip(headings, cells, units, strict=True):
        if heading not in COLUMNS:
            if heading not in ("gpu", *_DATES, *_TIMES):
                ignored[f"{heading}: no quantity of a run"] += 1
            continue
        values.append((_channel(gpu, QUANTITIES[COLUMNS[heading]]), _number(cell, unit, line)))
    return gpu, Row(line=line, t_ns=_time(by_heading, line), values=values)


def _number(cell: str, unit: str, line: int) -> float:
    """A cell in SI units; NaN where there is none."""
    if unit not in FACTORS:
        raise FormatError(NAME, line, f"{unit[:20]!r} is no unit that is known", id="not-a-unit")
    if cell == "-":
        return math.nan
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in cell:
        raise FormatError(NAME, line, f"{cell[:20]!r} is no number", id="not-a-number")
    return number * FACTORS[unit]


def _time(by_heading: Mapping[str, str], line: int) -> int | None:
    date = next((by_heading[each] for each in _DATES if each in by_heading), None)
    clock = next((by_heading[each] for each in _TIMES if each in by_heading), None)
    if clock is None:
        return None
    try:
        return wall_ns(datetime.strptime(f"{date or _NO_DATE} {clock}", "%Y%m%d %H:%M:%S"))
    except ValueError as error:
        problem = f"{(date or '')[:20]!r} {clock[:20]!r} is no time"
        raise FormatError(NAME, line, problem, id="not-a-time") from error


def _channel(gpu: int, quantity: Quantity) -> Channel:
    return Channel(
        name=f"gpu{gpu}.{quantity.word}", unit=quantity.unit, kind="gauge", domain=quantity.domain,
        role=quantity.role, source=NAME,
    )  # fmt: skip


def _recording(
    rows: Mapping[int, Sequence[Row]],
    interval_s: float | None,
    notes: Sequence[str],
    ignored: Mapping[str, int],
) -> Recording:
    """Rows of each GPU have times of their own."""
    channels: list[Channel] = []
    t_ns: dict[str, np.ndarray] = {}
    value: dict[str, np.ndarray] = {}
    told = dict.fromkeys(notes)
    clock = "counted"
    for each in rows.values():
        dated = max(row.t_ns or 0 for row in each) > _LAST_UNDATED_NS
        times = times_of(each, NAME, interval_s, clock="wall" if dated else "counted")
        clock = times.clock
        told.update(dict.fromkeys(times.notes))
        own, t_by_name, v_by_name = gather(each, times, fill=True)
        channels.extend(own)
        t_ns.update(t_by_name)
        value.update(v_by_name)
    if not channels:
        raise FormatError(NAME, 1, "it has no values of any GPU", id="no-gpu-values")
    if clock == "wall":
        told[NO_ZONE] = None
    return Recording(
        format=NAME, channels=tuple(channels), t_ns=t_ns, value=value, clock=clock, notes=tuple(told),
        ignored=dict(ignored),
    )  # fmt: skip

"""Energies that `perf stat -I` counted (RAPL's events), interval by interval, in columns or with `-x,`."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from wattstep.formats.recording import FormatError, Recording
from wattstep.formats.rows import DAMAGED, NO_END, SECOND_NS, Row, gather, left_out, whole_lines
from wattstep.formats.rows import times_of as times_of_rows
from wattstep.schema.channel import Channel, Domain

NAME: Final = "perf stat"
OTHER: Final = "counter that is no energy: {}"
NOT_COUNTED: Final = "interval in which {} was not counted"
UNCOUNTED: Final = "{} intervals were not counted: they are gaps, whose energy is in no figure"
ALL_FROM_0: Final = 1.5  # intervals, at most, lie before the first time where no line is missing
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_ROW: Final = re.compile(
    r"\s*(?P<seconds>[0-9]{1,9}\.[0-9]{1,9})(?:[,;]|\s)\s*"
    r"(?P<count>[0-9][0-9.,']{0,24}|<not (?:counted|supported)>)(?:[,;]|\s)\s*"
    r"(?:(?P<unit>[A-Za-z]{1,12})?[,;]|(?P<word>[A-Za-z]{1,12})?\s)\s*(?P<event>[\w./:=-]{1,80})(?:[,;\s#].*)?"
)
# Languages set thousands apart, and some have a comma before the decimals, of which there are two.
_NUMBER: Final = re.compile(r"([0-9]+|[0-9]{1,3}(?:[,'][0-9]{3})+)(?:(\.[0-9]+)|,([0-9]{1,2}))?")
_ENERGY: Final = re.compile(r"power/energy-(?P<zone>pkg|cores|ram|gpu|psys)/")
_ZONES: Final[dict[str, tuple[str, Domain]]] = {
    "pkg": ("package", "cpu"), "cores": ("core", "cpu"), "ram": ("dram", "memory"),
    "gpu": ("uncore", "gpu"), "psys": ("psys", "system"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Count:
    """Energy in J of an interval that ends at a time; None where it was not counted."""

    line: int
    t_ns: int
    zone: str
    joules: float | None


def parse(data: bytes) -> Recording:
    """Reads the lines into counters of joules, which begin at 0 with the recording.

    Raises:
        FormatError: Many lines are none of it, or there is no energy.
    """
    whole, cut = whole_lines(data)
    counts: list[_Count] = []
    damage: list[FormatError] = []
    ignored: Counter[str] = Counter()
    for number, line in enumerate(whole.decode("utf-8-sig", errors="replace").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _ROW.fullmatch(line)
        if match is None:
            damage.append(FormatError(NAME, number, f"{line[:40]!r} is no interval of it"))
            continue
        energy = _ENERGY.fullmatch(match["event"])
        if energy is None or (match["unit"] or match["word"]) != "Joules":
            ignored[OTHER.format(match["event"])] += 1
            continue
        joules = _joules(match["count"])
        seconds, _, decimals = match["seconds"].partition(".")
        t_ns = int(seconds) * SECOND_NS + int(decimals.ljust(9, "0"))
        counts.append(_Count(line=number, t_ns=t_ns, zone=energy["zone"], joules=joules))
    notes = left_out(damage, len(counts) + sum(ignored.values()))
    ignored += Counter(
        NOT_COUNTED.format(f"power/energy-{each.zone}/") for each in counts if each.joules is None
    )
    zones = frozenset(each.zone for each in counts if each.joules is not None)
    if not zones:
        raise FormatError(
            NAME, 1, "it holds no energy: perf stat -a -I 1000 -e power/energy-pkg/ -o FILE records it",
            id="no-power-column",
        )  # fmt: skip
    counts = [each for each in counts if each.zone in zones]
    if uncounted := sum(each.joules is None for each in counts):
        notes.append(UNCOUNTED.format(uncounted))
    by_time = _from_begin(_together(_totals(counts, zones)), zones)
    times = times_of_rows(by_time, NAME, None, clock="monotonic")
    channels, t_by_name, v_by_name = gather(by_time, times, fill=False)
    series = {name: _with_gaps(t_by_name[name], v_by_name[name]) for name in t_by_name}
    if damage:
        ignored[DAMAGED] = len(damage)
    if cut:
        ignored[NO_END] = 1
    return Recording(
        format=NAME, channels=channels, t_ns={name: t_ns for name, (t_ns, _) in series.items()},
        value={name: value for name, (_, value) in series.items()}, clock="counted",
        notes=(*notes, *times.notes, *[NO_END] * cut), ignored=dict(ignored),
    )  # fmt: skip


def _totals(counts: Sequence[_Count], zones: frozenset[str]) -> list[Row]:
    """Each count as what its zone has counted so far; NaN where the interval was not counted."""
    total = dict.fromkeys(zones, 0.0)
    rows = []
    for each in counts:
        total[each.zone] += each.joules or 0.0
        value = math.nan if each.joules is None else total[each.zone]
        channel = _channel(each.zone, zones)
        rows.append(Row(line=each.line, t_ns=each.t_ns, values=[(channel, value)]))
    return rows


def _from_begin(rows: list[Row], zones: frozenset[str]) -> list[Row]:
    """With the begin of the first interval, of which times count, unless lines before it are missing."""
    times = [row.t_ns or 0 for row in rows]
    usual = float(np.median(np.diff(times))) if len(times) > 1 else times[0]
    if not 0 < times[0] <= ALL_FROM_0 * usual:
        return rows
    zero = [(_channel(zone, zones), 0.0) for zone in zones]
    return [Row(line=rows[0].line, t_ns=0, values=zero), *rows]


def _with_gaps(t_ns: Longs, value: Floats) -> tuple[Longs, Floats]:
    """A counter that goes on at the end of an interval that was not counted: the gap is that interval alone.

    It is a failed read a nanosecond before its end.
    """
    uncounted = np.flatnonzero(np.isnan(value))
    known = np.concatenate([[0.0], value[~np.isnan(value)]])
    so_far = known[np.cumsum(~np.isnan(value))]
    return np.insert(t_ns, uncounted, t_ns[uncounted] - 1), np.insert(so_far, uncounted, np.nan)


def _together(rows: list[Row]) -> list[Row]:
    """Rows of one interval as one."""
    by_time: dict[int, Row] = {}
    for row in rows:
        assert row.t_ns is not None
        first = by_time.get(row.t_ns)
        values = [*(first.values if first else ()), *row.values]
        by_time[row.t_ns] = Row(line=row.line, t_ns=row.t_ns, values=values)
    return list(by_time.values())


def _joules(cell: str) -> float | None:
    """Joules of an interval; None where they were not counted."""
    match = _NUMBER.fullmatch(cell)
    if match is None:
        return None
    whole, decimals, after_comma = match.groups()
    thousands = re.sub(r"[',]", "", whole)
    return float(thousands + (decimals or f".{after_comma or 0}"))


def _channel(zone: str, zones: frozenset[str]) -> Channel:
    name, domain = _ZONES[zone]
    # A package contains its cores and graphics, psys the packages: only what may be added is a total.
    totals = {"psys"} if "psys" in zones else {"pkg", "ram"}
    return Channel(
        name=f"rapl.{name}.energy", unit="J", kind="counter", domain=domain,
        role="energy_total" if zone in totals else "energy_part",
        source=f"perf stat, power/energy-{zone}/",
    )  # fmt: skip

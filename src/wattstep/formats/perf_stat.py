"""Energies that `perf stat -I` counted (RAPL's events), interval by interval, in columns or with `-x,`."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from wattstep.formats.recording import FormatError, Recording
from wattstep.formats.rows import DAMAGED, NO_END, SECOND_NS, Row, gather, left_out, whole_lines
from wattstep.formats.rows import times_of as times_of_rows
from wattstep.schema.channel import Channel, Domain

NAME: Final = "perf stat"
OTHER: Final = "counter that is no energy: {}"
NOT_COUNTED: Final = "interval in which {} was not counted"
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


def parse(data: bytes) -> Recording:
    """Reads the lines into counters of joules, which begin at 0 with the recording.

    Raises:
        FormatError: Many lines are none of it, or there is no energy.
    """
    whole, cut = whole_lines(data)
    rows: list[Row] = []
    damage: list[FormatError] = []
    ignored: Counter[str] = Counter()
    total: dict[str, float] = {}
    uncounted = 0
    lines = whole.decode("utf-8-sig", errors="replace").splitlines()
    zones = frozenset(match["zone"] for match in _ENERGY.finditer("\n".join(lines)))
    for number, line in enumerate(lines, 1):
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
        if joules is None:
            ignored[NOT_COUNTED.format(match["event"])] += 1
            uncounted += 1
            continue
        zone = energy["zone"]
        total[zone] = total.get(zone, 0.0) + joules
        seconds, _, decimals = match["seconds"].partition(".")
        t_ns = int(seconds) * SECOND_NS + int(decimals.ljust(9, "0"))
        rows.append(Row(line=number, t_ns=t_ns, values=[(_channel(zone, zones), total[zone])]))
    notes = left_out(damage, len(rows) + sum(ignored.values()))
    if uncounted:
        notes.append(
            f"{uncounted} intervals were not counted: power over each of them is told too low"
        )
    if not rows:
        raise FormatError(
            NAME, 1, "it holds no energy: perf stat -a -I 1000 -e power/energy-pkg/ -o FILE records it",
            id="no-power-column",
        )  # fmt: skip
    by_time = _together(rows)
    times = times_of_rows(by_time, NAME, None, clock="monotonic")
    channels, t_by_name, v_by_name = gather(by_time, times, fill=False)
    if damage:
        ignored[DAMAGED] = len(damage)
    if cut:
        ignored[NO_END] = 1
    return Recording(
        format=NAME, channels=channels, t_ns=t_by_name, value=v_by_name, clock="counted",
        notes=(*notes, *times.notes, *[NO_END] * cut), ignored=dict(ignored),
    )  # fmt: skip


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

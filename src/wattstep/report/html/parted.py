"""Steps of several runs as bars beside each other, each a whole in the same parts: what differs, without a rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wattstep.report import wording
from wattstep.report.divisions import Division, divisions
from wattstep.report.html import charts
from wattstep.report.values import plain
from wattstep.schema.run_report import RunReport

SMALL = 0.01  # of the whole in every run: not told apart
_SERIES = tuple(f"--series-{number}" for number in range(1, 7))
_OTHERS = "--other"


@dataclass(frozen=True, kw_only=True)
class PartedBar:
    """One whole of one run.

    Attributes:
        run: Title of the run.
        of: What is divided: "time" or "energy".
        status: The weakest of its parts.
        segments: Name, share from 0 to 1 and name of the colour of each part, in the order of the key.
    """

    run: str
    of: str
    status: str
    segments: Sequence[tuple[str, float, str]]


@dataclass(frozen=True, kw_only=True)
class Parted:
    """Bars of all runs by one kind of part.

    Attributes:
        by: What the parts are: "phase", "kind" or "rail".
        bars: In the order of the runs, time before energy.
        key: Name and name of the colour of each part that occurs.
    """

    by: str
    bars: Sequence[PartedBar]
    key: Sequence[tuple[str, str]]

    @property
    def statuses(self) -> tuple[str, ...]:
        """Each status of a bar once."""
        return tuple(dict.fromkeys(bar.status for bar in self.bars))


def parted(reports: Sequence[RunReport]) -> list[Parted]:
    """Bars of the runs by phase, kind and rail; a division that fewer than two runs have is none.

    Args:
        reports: Of the runs, in the order in which they are shown.
    """
    titles = wording.titles(reports)
    named = [
        (title, each)
        for title, report in zip(titles, reports, strict=True)
        for each in divisions(report, energy_by_kind=True, most=None)
    ]
    groups = [
        _group(by, [one for one in named if one[1].by == by]) for by in ("phase", "kind", "rail")
    ]
    return [group for group in groups if len({bar.run for bar in group.bars}) > 1]


def _group(by: str, named: Sequence[tuple[str, Division]]) -> Parted:
    colors = _colors(by, [division for _, division in named])
    bars = [
        PartedBar(
            run=title,
            of=division.of,
            status=division.status,
            segments=_segments(division, colors),
        )
        for title, division in named
    ]
    key = dict.fromkeys((name, color) for bar in bars for name, _, color in bar.segments)
    order = [*colors, *(name for name, _ in key if name not in colors)]
    return Parted(by=by, bars=bars, key=sorted(key, key=lambda entry: order.index(entry[0])))


def _colors(by: str, divided: Sequence[Division]) -> dict[str, str]:
    """Colour of each part that is told apart, in the order of a step, or the largest first."""
    most: dict[str, float] = {}
    for part in (part for division in divided for part in division.parts):
        most[part.name] = max(part.share, most.get(part.name, 0.0))
    large = sorted((name for name in most if most[name] >= SMALL), key=lambda name: -most[name])
    if by == "phase":
        return {plain(name): charts.color_of(name) for name in charts.phases_of(large)}
    return {plain(name): color for name, color in zip(large, _SERIES, strict=False)}


def _segments(division: Division, colors: dict[str, str]) -> list[tuple[str, float, str]]:
    shares = {plain(part.name): part.share for part in division.parts}
    segments = [(name, shares[name], color) for name, color in colors.items() if name in shares]
    rest = sum(share for name, share in shares.items() if name not in colors)
    return [*segments, ("others", rest, _OTHERS)] if rest else segments

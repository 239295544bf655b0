"""Energy of the machine as the sum of what its rails give a row, each by what it feeds; what no rail tells goes by time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from wattstep.attribution.tables.taking_part import CARD
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Figure, Status, missing, weakest
from wattstep.schema.figures import Figures

METHOD: Final = (
    "sum of the rails {}, each to what it feeds, and of what the total draws beyond them by time; "
    "the interval holds that by their energy, too"
)
LEFT: Final = "what is not told of single rows, in one sum"
_NEGLIGIBLE: Final = 1e-9  # of the step's energy: rounding


@dataclass(frozen=True, kw_only=True)
class TotalByRails:
    """What is known of a total and of the rails in it that feed one part of the device each.

    Attributes:
        names: Channels of the total, in a table of rails where there is one alone.
        step_j: Energy of the total in a mean clean step.
        parts: Energy of each such rail in a mean clean step, in J; together no more than `step_j`.
        step_s: Length of that step.
        source: Of the total.
        status: Of the total.
    """

    names: tuple[str, ...]
    step_j: float
    parts: Mapping[str, float]
    step_s: float
    source: str
    status: Status

    def with_energy(self, figures: Figures) -> Figures:
        """A row of operations or unattributed time with the machine's energy by its rails."""
        energy = self._energy(figures)
        others = {key: entry for key, entry in figures.items() if key != "power"}
        rails = dict(figures.parts("energy_by_rail"))
        if len(self.names) == 1:
            rails[self.names[0]] = energy
        return Figures({**others, "energy": energy, "energy_by_rail": rails})

    def left(self, rows: Iterable[Figures]) -> Figure | None:
        """Energy in J that rows leave out of the step; None where they make it."""
        given = sum(figures.value("energy") or 0.0 for figures in rows)
        if abs(self.step_j - given) <= _NEGLIGIBLE * self.step_j:
            return None
        return Figure(
            value=max(self.step_j - given, 0.0), unit="J", source=self.source, method=LEFT,
            status=weakest([self.status, Status.ATTRIBUTED]),
        )  # fmt: skip

    def _energy(self, row: Figures) -> Figure:
        rails = row.parts("energy_by_rail")
        figures: dict[str, Figure] = {name: rails[name] for name in self.parts}
        for name, figure in figures.items():
            if figure.missing:
                return missing("J", f"of {name}: {figure.reason}")
        fed = sum(figure.value or 0.0 for figure in figures.values())
        beyond = self.step_j - sum(self.parts.values())
        time: Figure = row["time"]
        by_time = beyond * (time.value or 0.0) / self.step_s
        by_energy = beyond * fed / sum(self.parts.values())
        off = beyond * time.half_width / self.step_s
        ends = [(each.low, each.high) for each in figures.values()]
        low = high = None
        if all(end is not None for pair in ends for end in pair):
            low = sum(pair[0] or 0.0 for pair in ends) + min(by_time - off, by_energy)
            high = sum(pair[1] or 0.0 for pair in ends) + max(by_time + off, by_energy)
        return replace(
            next(iter(figures.values())),
            value=fed + by_time,
            low=low,
            high=high,
            status=weakest([each.status for each in figures.values()]),
            source=self.source,
            method=METHOD.format(", ".join(self.parts)),
            systematic=max((each.systematic or 0.0 for each in figures.values()), default=None)
            or None,
        )


def rails_of_total(total: Sequence[Channel], channels: Mapping[str, Channel]) -> list[str]:
    """Names of the rails that a board's total is made of or contains, of one monitor alone.

    A graphics card is not known to be in it, and counters of a processor contain each other.

    Args:
        total: Channels of the total.
        channels: All of the run, by name.
    """
    if not total or any(channel.role != "power_total" for channel in total):
        return []
    if len(total) > 1:
        return [channel.name for channel in total]
    (whole,) = total
    return [
        channel.name
        for channel in channels.values()
        if channel.role == "power_part" and channel.domain != "battery" != whole.domain
        and not CARD.match(channel.name)
    ]  # fmt: skip


def fits(step_j: float, parts: Collection[float]) -> bool:
    """True if rails can be parts of a total: together they draw no more."""
    return 0 < sum(parts) <= step_j

"""A step divided: which shares of its time and energy are of which phase, kind of operation and rail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from wattstep.schema.figure import Figure, weakest
from wattstep.schema.run_report import RunReport

MOST_PARTS: Final = 5  # the others are one


@dataclass(frozen=True)
class Part:
    """A part of a whole.

    Attributes:
        name: Of the phase, the kind or the rail.
        share: Of the whole, 0 to 1.
    """

    name: str
    share: float


@dataclass(frozen=True, kw_only=True)
class Division:
    """A whole in parts that add up to it.

    Attributes:
        of: What is divided: "time" or "energy".
        by: What the parts are: "phase", "kind" or "rail".
        parts: The largest first, small ones together last; at least two.
        status: The weakest of what is divided: "attributed", "modelled", ...
    """

    of: str
    by: str
    parts: tuple[Part, ...]
    status: str

    @property
    def title(self) -> str:
        """Such as "time by phase"."""
        return f"{self.of} by {self.by}"


def divisions(report: RunReport) -> list[Division]:
    """How time and energy of a step divide; what no operation covers is a part by its name."""
    rests = report.unattributed.items()
    seconds = [(name, figures.figure("time")) for name, figures in rests]
    joules = [(name, figures.figure("energy")) for name, figures in rests]
    phases, kinds = report.phases, report.kinds
    found = (
        _division("time", "phase", [*((row.phase, row.time) for row in phases), *seconds]),
        _division("energy", "phase", [*((row.phase, row.energy) for row in phases), *joules]),
        _division("energy", "rail", _rails(report)),
        _division("time", "kind", [*((row.kind, row.time) for row in kinds), *seconds]),
    )
    return [each for each in found if len(each.parts) > 1]


def _rails(report: RunReport) -> list[tuple[str, Figure | None]]:
    """Energy of the rails that make the total; of all where none of them does."""
    within = {each.name for each in report.channels if each.role.endswith("_part")}
    totals = [name for name in report.energy_by_rail if name not in within]
    return [(name, report.energy_by_rail[name]) for name in totals or report.energy_by_rail]


def _division(of: str, by: str, named: Iterable[tuple[str, Figure | None]]) -> Division:
    known: dict[str, float] = {}
    statuses = []
    for name, figure in named:
        if figure is not None and figure.value is not None and figure.value > 0:
            known[name] = known.get(name, 0.0) + figure.value
            statuses.append(figure.status)
    whole = sum(known.values())
    ranked = sorted(known.items(), key=lambda one: -one[1])
    parts = [Part(name, value / whole) for name, value in ranked]
    shown, others = parts[:MOST_PARTS], parts[MOST_PARTS:]
    if others:
        name = others[0].name if len(others) == 1 else f"{len(others)} others"
        shown.append(Part(name, sum(one.share for one in others)))
    status = weakest(statuses).value if statuses else ""
    return Division(of=of, by=by, parts=tuple(shown), status=status)

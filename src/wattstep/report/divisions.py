"""A step divided: which shares of its time and energy are of which phase, kind of operation and rail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from wattstep.report.wording import unattributed_name
from wattstep.schema.figure import Figure, weakest
from wattstep.schema.figures import Figures
from wattstep.schema.report_rows import CostRow
from wattstep.schema.run_report import RunReport

MOST_PARTS: Final = 5  # the others are one


def named_layers(report: RunReport) -> list[CostRow]:
    """Rows of layers; what ran outside of all of them, "" or in brackets, is none."""
    return [row for row in report.layers if row.layer and not row.layer.startswith("(")]


def spoken_layer(name: str) -> str:
    """A layer's name where nothing says what it is: those of a Sequential are numbers."""
    return f"layer {name}" if name.isdecimal() else name


@dataclass(frozen=True)
class Part:
    """A part of a whole.

    Attributes:
        name: Of the phase, the kind or the rail.
        share: Of the whole, 0 to 1.
        figure: What the report says of it: its share of the step's time, or its energy; None of
            several together.
    """

    name: str
    share: float
    figure: Figure | None = None


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


def divisions(
    report: RunReport, *, energy_by_kind: bool = False, most: int | None = MOST_PARTS
) -> list[Division]:
    """How time and energy of a step divide; what no operation covers is a part by its name.

    Args:
        report: Of a run.
        energy_by_kind: Whether energy is divided by kinds of operations, too.
        most: Parts that are told apart; None: all.
    """
    phases = [*((row.phase, row.figures) for row in report.phases), *_rests(report, "phases")]
    kinds = [*((row.kind, row.figures) for row in report.kinds), *_rests(report, "kinds")]
    parts = (
        _division("time", "phase", phases, "time", "share", most),
        _division("energy", "phase", phases, "energy", "energy", most),
        _division("energy", "rail", _rails(report), "energy", "energy", most),
        _division("time", "kind", kinds, "time", "share", most),
        *([_division("energy", "kind", kinds, "energy", "energy", most)] if energy_by_kind else ()),
    )
    return [each for each in parts if len(each.parts) > 1]


def beside(report: RunReport, table: str) -> dict[str, Figures]:
    """Unattributed parts as they stand beside a table, "phases" or "kinds".

    What was too short for the sensor is less there than beside single operations.
    """
    parts = dict(report.unattributed)
    left = report.not_resolved.get(table, Figures())
    if "not_resolved" in parts or "energy" in left:
        of_operations = parts.get("not_resolved", Figures())
        durations = {key: of_operations[key] for key in ("time", "share") if key in of_operations}
        parts["not_resolved"] = Figures({**durations, **left})
    return parts


def _rests(report: RunReport, table: str) -> list[tuple[str, Figures]]:
    return [
        (unattributed_name(name, report), figures)
        for name, figures in beside(report, table).items()
    ]


def _rails(report: RunReport) -> list[tuple[str, Figures]]:
    """Energy of the rails that make the total; of all where none of them does."""
    within = {each.name for each in report.channels if each.role.endswith("_part")}
    totals = [name for name in report.energy_by_rail if name not in within]
    rails = report.energy_by_rail
    return [(name, Figures({"energy": rails[name]})) for name in totals or rails]


def _division(
    of: str,
    by: str,
    named: Iterable[tuple[str, Figures]],
    divided: str,
    displayed: str,
    most: int | None,
) -> Division:
    """Parts by the figure `divided`, each with the figure `displayed` where it is of one row."""
    values: dict[str, float] = {}
    figures: dict[str, Figure | None] = {}
    statuses = []
    for name, row in named:
        figure = row.figure(divided)
        if figure is not None and figure.value is not None and figure.value > 0:
            figures[name] = None if name in values else row.figure(displayed)
            values[name] = values.get(name, 0.0) + figure.value
            statuses.append(figure.status)
    whole = sum(values.values())
    ranked = sorted(values, key=lambda name: -values[name])
    parts = [Part(name, values[name] / whole, figures[name]) for name in ranked]
    shown, others = parts[:most], parts[most:] if most else []
    if len(others) > 1:
        others = [Part(f"{len(others)} others", sum(one.share for one in others))]
    status = weakest(statuses).value if statuses else ""
    return Division(of=of, by=by, parts=(*shown, *others), status=status)

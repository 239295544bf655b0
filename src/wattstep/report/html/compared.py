"""The section of a report that compares its runs: the words and intervals of `wattstep compare`, or why it refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from wattstep.errors import InvalidValueError
from wattstep.insight.compare.by_facet import MOVEMENT, SHOWN, by_facet
from wattstep.insight.compare.comparing import Comparison, compared
from wattstep.insight.compare.configuration import facets_of
from wattstep.insight.compare.matrix import Cell, Matrix, all_compared
from wattstep.insight.compare.process import A_STEP, Process
from wattstep.insight.compare.sides import Side, by_choice, why_not
from wattstep.report.tables import Table, table
from wattstep.report.values import plain
from wattstep.report.wording import metric
from wattstep.schema.configuration import Configuration, configuration_of, warnings
from wattstep.schema.figure import Figure

MOST_OPERATIONS = 40
_FACTOR = "×"
ENGINE = "engine"
_ENERGY = "energy_per_sample"


@dataclass(frozen=True, kw_only=True)
class ComparedSection:
    """Variables of the template `compared.html`.

    Attributes:
        sides: Each side with its runs, in words.
        sentences: The answer.
        warnings: Caveats of the comparison.
        tables: With their headings.
        refusal: Why nothing is compared, or "".
        one_configuration: True if it is because the runs repeat each other.
    """

    sides: Sequence[tuple[str, str]] = ()
    sentences: Sequence[str] = ()
    warnings: Sequence[str] = ()
    tables: Sequence[tuple[str, Table]] = ()
    refusal: str = ""
    one_configuration: bool = False


def compared_section(processes: Sequence[Process]) -> ComparedSection | None:
    """The runs of a report by configuration, compared; None for fewer than two runs."""
    if len(processes) < 2:
        return None
    by: dict[Configuration, list[Process]] = {}
    for process in processes:
        by.setdefault(process.configuration, []).append(process)
    if len(by) == 1:
        return ComparedSection(
            refusal=f"These {len(processes)} runs count as repetitions of one configuration: there is nothing "
            "to compare them with. Each interval is of one of them; how they differ shows side by side.",
            warnings=[
                plain(note) for note in warnings([configuration_of(one.info) for one in processes])
            ],
            one_configuration=True,
        )
    try:
        sides = by_choice({one: [each.path for each in members] for one, members in by.items()})
    except InvalidValueError as error:
        return ComparedSection(refusal=f"Not compared: {plain(error)}.")
    members = _members(sides, processes)
    section = _of_sides(sides, members)
    if len({facets_of(side.configuration)[ENGINE] for side in sides}) > 1:
        return replace(section, tables=[*section.tables, _by_engine(sides, members)])
    return section


def _of_sides(sides: Sequence[Side], members: Sequence[Sequence[Process]]) -> ComparedSection:
    refused = [reason for a, b in combinations(sides, 2) if (reason := why_not(a, b, frozenset()))]
    if len(refused) == len(sides) * (len(sides) - 1) // 2:
        return ComparedSection(sides=_sides(sides), refusal=f"Not compared: {plain(refused[0])}.")
    if len(sides) == 2:
        return _of_two(compared((sides[0], sides[1]), (members[0], members[1])))
    return _of_many(sides, members)


def _by_engine(sides: Sequence[Side], members: Sequence[Sequence[Process]]) -> tuple[str, Table]:
    """Time, energy, memory and data movement by engine, as `wattstep compare --by engine`."""
    by_engine = by_facet(ENGINE, sides, members)
    rows = [
        {
            "configuration": words if len(by_engine.rows) > 1 else "",
            "engine": engine,
            **cell.figures,
            "times": replace(ratio, unit=_FACTOR)
            if (ratio := cell.ratios.get("step_time"))
            else None,
        }
        for words, cells in by_engine.rows
        for engine, cell in cells.items()
    ]
    texts = {"configuration": "Configuration", "engine": "Engine"}
    labels = {name: metric(name).label for name in (*SHOWN, MOVEMENT)}
    first = {"step_time": labels.pop("step_time"), "times": "Against the first"}
    shown = table(rows, texts, {**first, **labels})
    published = (each.words for each in by_engine.published)
    return "", replace(shown, notes=(*shown.notes, *published))


def _members(sides: Sequence[Side], processes: Sequence[Process]) -> list[list[Process]]:
    by_path: dict[Path, Process] = {process.path: process for process in processes}
    return [[by_path[path] for path in side.paths] for side in sides]


def _sides(sides: Sequence[Side]) -> list[tuple[str, str]]:
    return [
        (plain(side.name), f"{len(side.paths)} run{'s' if len(side.paths) > 1 else ''}")
        for side in sides
    ]


def _of_two(comparison: Comparison) -> ComparedSection:
    rows = [
        {"metric": metric(name).label, "verdict": one.verdict, **_both(one.a, one.b, one.ratio)}
        for name, one in comparison.metrics.items()
    ]
    tables = [("", table(rows, {"metric": "Metric", "verdict": "B is"}, _FIGURES))]
    differing = comparison.operations.differing("time")[:MOST_OPERATIONS]
    if differing:
        named = [
            {
                **{key: value for key, value in row.key.items() if key != "processor"},
                "q": _rate(row.quantities["time"].q),
                **_both(*(getattr(row.quantities["time"], one) for one in ("a", "b", "ratio"))),
            }
            for row in differing
        ]
        texts = {"name": "Operation", "layer": "Layer", "phase": "Phase", "q": "q"}
        tables.append(("Operations that differ in time", table(named, texts, _FIGURES)))
    return ComparedSection(
        sides=_sides(comparison.sides),
        sentences=[plain(sentence) for sentence in comparison.sentences],
        warnings=[plain(warning) for warning in comparison.warnings],
        tables=tables,
    )


_FIGURES = {"ratio": "B against A", "a": "A", "b": "B"}


def _both(a: Figure, b: Figure, ratio: Figure) -> dict[str, Figure]:
    return {"a": a, "b": b, "ratio": replace(ratio, unit=_FACTOR)}


def _rate(q: float | None) -> str:
    return "" if q is None else f"{q:.2g}"


def _of_many(sides: Sequence[Side], members: Sequence[Sequence[Process]]) -> ComparedSection:
    first = all_compared(sides, members)
    energy = "energy_per_step" if first.metric in A_STEP else _ENERGY
    matrices = [first, all_compared(sides, members, energy)]
    return ComparedSection(
        sides=_sides(sides),
        sentences=[_in_words(one) for one in matrices],
        warnings=[plain(warning) for warning in first.warnings],
        tables=[(f"{metric(one.metric).label}, each pair", _pairs(one)) for one in matrices],
    )


def _in_words(matrix: Matrix) -> str:
    """Number of pairs that differ, with false discovery controlled over all of them."""
    label, count = metric(matrix.metric).label, len(matrix.cells)
    tested = [cell for cell in matrix.cells if cell.q is not None]
    refused = [cell.reason for cell in matrix.cells if cell.reason]
    sentence = [f"{label}:"]
    if tested:
        differing = sum(cell.verdict in ("lower", "higher") for cell in tested)
        sentence.append(
            f"{differing} of {len(tested)} pairs differ (at most 5 % of them by false discovery)."
        )
    if count > len(tested) + len(refused):
        sentence.append(
            f"{count - len(tested) - len(refused)} of {count} pairs have one run on a side: how runs "
            "of one configuration differ is not known, so that they are not called different."
        )
    if refused:
        sentence.append(
            f"{len(refused)} of {count} pairs are not compared, the first because {plain(refused[0])}."
        )
    return " ".join(sentence)


def _pairs(matrix: Matrix) -> Table:
    names = {side.letter: side.name for side in matrix.sides}
    rows = [_pair(cell, names, matrix.figures) for cell in matrix.cells]
    texts = {"first": "A", "second": "B", "q": "q", "verdict": "B is", "reason": "Why not compared"}
    return table(rows, texts, _FIGURES)


def _pair(cell: Cell, names: Mapping[str, str], figures: Mapping[str, Figure]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "first": names[cell.a],
        "second": names[cell.b],
        "q": _rate(cell.q),
        "verdict": cell.verdict,
        "reason": cell.reason or "",
        "a": figures[cell.a],
        "b": figures[cell.b],
    }
    if cell.compared is not None:
        row["ratio"] = replace(cell.compared.ratio, unit=_FACTOR)
    return row

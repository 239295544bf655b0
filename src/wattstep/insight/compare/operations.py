"""Operations of two sides: paired by name, layer, phase and processor, tested together, false discovery controlled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from wattstep.insight.compare.claims import not_claimed
from wattstep.insight.compare.drift import Drift
from wattstep.insight.compare.metrics import (
    Verdict,
    energies_of_operations,
    here_only,
    verdict_of,
    widened,
    widened_difference,
)
from wattstep.insight.compare.process import Process
from wattstep.schema.arrays import FloatArray
from wattstep.schema.figure import Figure, missing, weakest
from wattstep.schema.figures import Figures
from wattstep.stats.differences import (
    CONFIDENCE,
    Observed,
    differences,
    ratio_of,
)
from wattstep.stats.false_discovery import false_discovery

RATE: Final = 0.05  # of false discoveries among those that are called different
QUANTITIES: Final = {"time": "s", "energy": "J"}
KEY: Final = ("name", "layer", "phase", "processor")
BY_SAMPLE: Final = (*QUANTITIES, "flops", "bytes")  # of a sample, where steps differ in size
WORK: Final = {"calls": "calls", "flops": "FLOPs", "bytes": "bytes"}
DIFFERENT: Final = ("lower", "higher", "differs here")
Key = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ComparedQuantity:
    """Time or energy of an operation on both sides; as `Compared`, with q in place of p."""

    a: Figure
    b: Figure
    ratio: Figure
    difference: Figure
    q: float | None
    verdict: Verdict

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class ComparedOperation:
    """An operation that both sides have.

    Attributes:
        key: Name, layer, phase and processor.
        quantities: "time" and "energy".
        work: Further differences: "calls 2 and 3", "FLOPs ...".
    """

    key: Mapping[str, str]
    quantities: Mapping[str, ComparedQuantity]
    work: str

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        parts = {name: quantity.document() for name, quantity in self.quantities.items()}
        return {**self.key, **parts, "work": self.work or None}


@dataclass(frozen=True, kw_only=True)
class LoneOperation:
    """An operation that some processes lack.

    Attributes:
        key: Name, layer, phase and processor.
        time: Of a step.
        processes: Number of processes of A and of B that have it; None where one side has it alone.
    """

    key: Mapping[str, str]
    time: Figure
    processes: tuple[int, int] | None = None

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        beside = {} if self.processes is None else {"in": list(self.processes)}
        return {**self.key, "time": self.time, **beside}


@dataclass(frozen=True, kw_only=True)
class ComparedOperations:
    """All operations of both sides.

    Attributes:
        rows: Those of both sides, the largest difference of time first.
        only_a: Those that B lacks.
        only_b: Those that A lacks.
        unsteady: Those that only some processes of a side have.
        tested: Number of those that were tested, by quantity.
        of_these: True if they are of these processes only: one of each, or unlike disturbed.
        reason: Why nothing could be compared; None where something could.
    """

    rows: tuple[ComparedOperation, ...] = ()
    only_a: tuple[LoneOperation, ...] = ()
    only_b: tuple[LoneOperation, ...] = ()
    unsteady: tuple[LoneOperation, ...] = ()
    tested: Mapping[str, int]
    of_these: bool
    reason: str | None = None

    def differing(self, quantity: str) -> list[ComparedOperation]:
        """Those whose time or energy differs, the largest difference first."""
        rows = [row for row in self.rows if row.quantities[quantity].verdict in DIFFERENT]
        return sorted(rows, key=lambda row: -abs(row.quantities[quantity].difference.value or 0.0))

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "rows": [row.document() for row in self.rows],
            "only_a": [one.document() for one in self.only_a],
            "only_b": [one.document() for one in self.only_b],
            "only_in_some_processes": [one.document() for one in self.unsteady],
            "tested": dict(self.tested),
            "false_discovery_rate": RATE,
            "of_these_processes_only": self.of_these,
            "reason": self.reason,
        }


def compare_operations(
    a: Sequence[Process], b: Sequence[Process], drift: Drift
) -> ComparedOperations:
    """Compares the operations of two sides.

    Each process's value is the mean over its traced steps, with the interval of its table.
    Times and energies are each one family of tests, whose rate of false discoveries is kept at 5 %.
    Where steps of the sides are of different sizes, times and energies are of a sample.

    Args:
        a: Processes of A.
        b: Of B.
        drift: Of the machine between them.
    """
    of_these = bool(not_claimed("operations", a, b))
    for letter, side in (("A", a), ("B", b)):
        for process in side:
            if process.no_operations is not None:
                return ComparedOperations(
                    tested={},
                    of_these=of_these,
                    reason=f"none in {letter}: {process.no_operations}",
                )
    sizes = {process.samples for process in (*a, *b)}
    if len(sizes) > 1 and None in sizes:
        why = "steps are of different sizes, and not all are known"
        return ComparedOperations(tested={}, of_these=of_these, reason=why)
    tables = [[_table(process, len(sizes) > 1) for process in side] for side in (a, b)]
    keys = list(dict.fromkeys(key for side in tables for table in side for key in table))
    there = {
        key: (sum(key in table for table in tables[0]), sum(key in table for table in tables[1]))
        for key in keys
    }
    whole = (len(a), len(b))
    paired = [key for key in keys if there[key] == whole]
    rows, tested = _compared(paired, tables, drift, *energies_of_operations(a, b))
    return ComparedOperations(
        rows=tuple(map(_here_only, rows)) if of_these else rows,
        only_a=tuple(_alone(key, tables[0]) for key in keys if not there[key][1]),
        only_b=tuple(_alone(key, tables[1]) for key in keys if not there[key][0]),
        unsteady=tuple(
            replace(_alone(key, tables[0] + tables[1]), processes=there[key])
            for key in keys
            if there[key] != whole and min(there[key]) > 0
        ),
        tested=tested,
        of_these=of_these,
    )


def _here_only(row: ComparedOperation) -> ComparedOperation:
    """Copy whose verdicts say no more than that it differs in these runs."""
    quantities = {
        name: replace(quantity, verdict=here_only(quantity.verdict))
        for name, quantity in row.quantities.items()
    }
    return replace(row, quantities=quantities)


def _table(process: Process, by_sample: bool) -> dict[Key, Figures]:
    """Figures by key, time and energy of a step or a sample."""
    factor = 1 / process.samples if by_sample and process.samples else 1.0
    table: dict[Key, Figures] = {}
    for row in process.operations:
        labels = {"processor": "cpu", **row.labels}
        figures = row.figures
        if factor != 1:
            parts = {name: _scaled(figures.figure(name), factor) for name in BY_SAMPLE}
            known = {name: part for name, part in parts.items() if part is not None}
            figures = Figures({**figures, **known})
        table[tuple(str(labels.get(part, "")) for part in KEY)] = figures
    return table


def _scaled(figure: Figure | None, factor: float) -> Figure | None:
    return figure if figure is None or figure.missing else figure.scaled(factor, figure.unit)


def _alone(key: Key, tables: Sequence[Mapping[Key, Figures]]) -> LoneOperation:
    row = next(table[key] for table in tables if key in table)
    return LoneOperation(key=dict(zip(KEY, key, strict=True)), time=row["time"])


def _compared(
    keys: Sequence[Key],
    tables: Sequence[Sequence[Mapping[Key, Figures]]],
    drift: Drift,
    unlike: str | None,
    systematic: float | None,
) -> tuple[tuple[ComparedOperation, ...], dict[str, int]]:
    quantities: dict[str, list[ComparedQuantity]] = {}
    tested: dict[str, int] = {}
    for name, unit in QUANTITIES.items():
        energy = name == "energy"
        cells = [
            [[table[key].get(name) or missing(unit, "not known") for key in keys] for table in side]
            for side in tables
        ]
        if energy and unlike is not None:
            quantities[name], tested[name] = _not_compared(cells, unit, unlike), 0
        else:
            quantities[name], tested[name] = _quantity(
                cells, unit, drift, systematic if energy else None
            )
    rows = [
        ComparedOperation(
            key=dict(zip(KEY, key, strict=True)),
            quantities={name: parts[at] for name, parts in quantities.items()},
            work=_work([[table[key] for table in side] for side in tables]),
        )
        for at, key in enumerate(keys)
    ]
    rows.sort(key=lambda row: -abs(row.quantities["time"].difference.value or 0.0))
    return tuple(rows), tested


def _not_compared(
    cells: Sequence[Sequence[Sequence[Figure]]], unit: str, reason: str
) -> list[ComparedQuantity]:
    """Each operation's values, and why they are not held against each other."""
    return [
        ComparedQuantity(
            a=_mean([process[at] for process in cells[0]]),
            b=_mean([process[at] for process in cells[1]]),
            ratio=missing("ratio", reason), difference=missing(unit, reason), q=None,
            verdict="not compared",
        )
        for at in range(len(cells[0][0]))
    ]  # fmt: skip


def _quantity(
    cells: Sequence[Sequence[Sequence[Figure]]], unit: str, drift: Drift, systematic: float | None
) -> tuple[list[ComparedQuantity], int]:
    """Time or energy of all operations, shape of the cells (sides, processes, operations)."""
    both = [_observed(side) for side in cells]
    absolute = differences(*both)
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = differences(both[0].log, both[1].log)
    least = np.minimum(both[0].values.min(axis=0), both[1].values.min(axis=0))
    testable = least > 0  # no value or none above 0 has no ratio; NaN is neither
    q = false_discovery(np.where(testable, relative.p, np.nan))
    result = []
    for at in range(both[0].values.shape[1]):
        column = [[process[at] for process in side] for side in cells]
        result.append(
            _one(
                column, unit, drift, systematic, absolute, relative, at, float(q[at]),
                float(least[at]),
            )
        )  # fmt: skip
    return result, int(testable.sum())


def _observed(side: Sequence[Sequence[Figure]]) -> Observed:
    def numbers(field: str) -> FloatArray:
        return np.array(
            [
                [math.nan if (x := getattr(figure, field)) is None else x for figure in process]
                for process in side
            ],
            np.float64,
        )

    return Observed(values=numbers("value"), low=numbers("low"), high=numbers("high"))


def _one(
    sides: Sequence[Sequence[Figure]],
    unit: str,
    drift: Drift,
    systematic: float | None,
    absolute: Any,
    relative: Any,
    at: int,
    q: float,
    least: float,
) -> ComparedQuantity:
    figures = [figure for side in sides for figure in side]
    a, b = (_mean(side) for side in sides)
    lacking = next((figure for figure in figures if figure.missing), None)
    if lacking is not None:
        reason = lacking.reason or "not known"
        return ComparedQuantity(
            a=a, b=b, ratio=missing("ratio", reason), difference=missing(unit, reason), q=None,
            verdict="not compared",
        )  # fmt: skip
    status = weakest(figure.status for figure in figures)

    def made(result: Any, kind: str, scale: Any) -> Figure:
        low, high = scale(float(result.low[at])), scale(float(result.high[at]))
        known = math.isfinite(low) and math.isfinite(high)
        return Figure(
            value=scale(float(result.value[at])), unit=kind, low=low if known else None,
            high=high if known else None, confidence=CONFIDENCE if known else None,
            n=len(figures), method=result.method, status=status, source=figures[0].source,
        )  # fmt: skip

    difference = widened_difference(made(absolute, unit, float), b, drift)
    if not least > 0:
        reason = "it takes nothing on a side: there is no ratio"
        return ComparedQuantity(
            a=a, b=b, ratio=missing("ratio", reason), difference=difference, q=None,
            verdict="not compared",
        )  # fmt: skip
    ratio = replace(widened(made(relative, "ratio", ratio_of), drift), systematic=systematic)
    verdict = verdict_of(ratio) if q <= RATE else "not shown"
    return ComparedQuantity(a=a, b=b, ratio=ratio, difference=difference, q=q, verdict=verdict)


def _mean(side: Sequence[Figure]) -> Figure:
    if len(side) == 1 or any(figure.missing for figure in side):
        return next((figure for figure in side if figure.missing), side[0])
    value = sum(figure.value or 0.0 for figure in side) / len(side)
    return Figure(
        value=value, unit=side[0].unit, n=len(side), status=weakest(f.status for f in side),
        source=side[0].source, method=f"mean of {len(side)} processes",
    )  # fmt: skip


def _work(sides: Sequence[Sequence[Figures]]) -> str:
    """Work of an operation that differs between sides: calls, FLOPs, bytes, where these are known."""
    parts = []
    for name, words in WORK.items():
        means = []
        for rows in sides:
            values = [figure.value for row in rows if (figure := row.figure(name)) is not None]
            known = [value for value in values if value is not None]
            means.append(sum(known) / len(known) if known else None)
        mine, theirs = means
        if mine is not None and theirs is not None and not math.isclose(mine, theirs, rel_tol=1e-6):
            parts.append(f"{words} {mine:.4g} and {theirs:.4g}")
    return ", ".join(parts)

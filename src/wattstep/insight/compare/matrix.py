"""Many sides at once: every pair by one metric, false discovery controlled over the whole matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.insight.compare.answer import joined
from wattstep.insight.compare.comparing import drift_of, side_document, warnings_of
from wattstep.insight.compare.configuration import refusal_of
from wattstep.insight.compare.metrics import Compared, Verdict, compare_metric, of_side
from wattstep.insight.compare.operations import RATE
from wattstep.insight.compare.process import UNITS, Process
from wattstep.insight.compare.sides import Side, read, unlike, why_not
from wattstep.schema.figure import Figure, missing
from wattstep.stats.false_discovery import false_discovery

MOST_NAMED: Final = 6  # pairs in a warning


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Cell of the matrix: a pair of sides.

    Attributes:
        a: Letter of the side that is compared with.
        b: Letter of the other.
        compared: The metric of both; None where they cannot be compared.
        q: The rate of false discoveries at which it would count; None: not tested.
        verdict: "lower" or "higher" where B differs at 5 % over the whole matrix.
        reason: Why they cannot be compared.
    """

    a: str
    b: str
    compared: Compared | None
    q: float | None
    verdict: Verdict
    reason: str | None

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        ratio = missing("ratio", self.reason or "not compared")
        if self.compared is not None:
            ratio = self.compared.ratio
        return {
            "a": self.a, "b": self.b, "ratio": ratio, "q": self.q, "verdict": self.verdict,
            "p": None if self.compared is None else self.compared.p, "reason": self.reason,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Every pair of some sides by one metric.

    Attributes:
        metric: Which.
        sides: In order.
        figures: The metric of each side, by letter.
        cells: Each pair once, the earlier side as A.
        warnings: Warnings about it.
        not_compared: Why cells are empty, pairs of one reason together.
    """

    metric: str
    sides: tuple[Side, ...]
    figures: dict[str, Figure]
    cells: tuple[Cell, ...]
    warnings: tuple[str, ...]
    not_compared: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "metric": self.metric,
            "false_discovery_rate": RATE,
            "sides": [
                {**side_document(side), "value": self.figures[side.letter]} for side in self.sides
            ],
            "pairs": [cell.document() for cell in self.cells],
            "warnings": list(self.warnings),
        }


def compare_all(
    sides: Sequence[Side],
    metric: str | None = None,
    across: frozenset[str] = frozenset(),
    on_read: Callable[[int, int], None] | None = None,
) -> Matrix:
    """Compares every pair of sides.

    Args:
        sides: Two or more.
        metric: One of `UNITS`; None: the time of a step, or throughput where steps differ in size.
        across: Facets that may differ.
        on_read: As of `sides.read`.

    Raises:
        InvalidValueError: No pair can be compared.
        DamagedRunError: A run cannot be read.
    """
    reasons = {(a.letter, b.letter): why_not(a, b, across) for a, b in combinations(sides, 2)}
    if all(reason is not None for reason in reasons.values()):
        raise InvalidValueError(str(next(iter(reasons.values()))), id="other-configuration")
    return all_compared(sides, read(sides, operations=False, on_read=on_read), metric, across)


def all_compared(
    sides: Sequence[Side],
    members: Sequence[Sequence[Process]],
    metric: str | None = None,
    across: frozenset[str] = frozenset(),
) -> Matrix:
    """Compares every pair of sides whose runs were read.

    Args:
        sides: Two or more.
        members: The runs of each, in order.
        metric: As of `compare_all`.
        across: Facets that may differ.
    """
    reasons = {(a.letter, b.letter): why_not(a, b, across) for a, b in combinations(sides, 2)}
    processes = {side.letter: runs for side, runs in zip(sides, members, strict=True)}
    sizes = {process.samples for members in processes.values() for process in members}
    metric = metric or ("throughput" if len(sizes) > 1 else "step_time")
    pairs: list[tuple[str, str, Compared | None, str | None]] = []
    drifted = []
    for (a, b), reason in reasons.items():
        compared = None
        if reason is None:
            drift = drift_of(processes[a], processes[b])
            drifted += [f"{a} to {b}"] if drift.shown else []
            compared = compare_metric(metric, processes[a], processes[b], drift)
            reason = compared.ratio.reason if compared.ratio.missing else None
        pairs.append((a, b, compared, reason))
    figures = {letter: _value(metric, members) for letter, members in processes.items()}
    return Matrix(
        metric=metric,
        sides=tuple(sides),
        figures=figures,
        cells=tuple(_cells(pairs)),
        warnings=(*warnings_of(sides, list(processes.values())), *_drifts(drifted)),
        not_compared=(
            *_without(figures), *_refused(sides, across),
            *_otherwise(pairs, figures),
        ),
    )  # fmt: skip


def _without(figures: Mapping[str, Figure]) -> list[str]:
    """Sides that lack the metric, those of one reason together."""
    letters: dict[str, list[str]] = {}
    for letter, figure in figures.items():
        if figure.missing:
            letters.setdefault(figure.reason or "", []).append(letter)
    return [f"missing in {joined(those)}: {reason}" for reason, those in letters.items()]


def _refused(sides: Sequence[Side], across: frozenset[str]) -> list[str]:
    """Pairs of configurations that are not compared, those that differ in the same facets together."""
    by: dict[tuple[str, ...], list[str]] = {}
    for a, b in combinations(sides, 2):
        if facets := unlike(a, b, across):
            by.setdefault(facets, []).append(f"{a.letter} and {b.letter}")
    return [refusal_of(_named(pairs), facets, across) for facets, pairs in by.items()]


def _otherwise(
    pairs: Sequence[tuple[str, str, Compared | None, str | None]], figures: Mapping[str, Figure]
) -> list[str]:
    """Reasons of pairs that have the metric and may be compared."""
    reasons = [
        reason
        for a, b, compared, reason in pairs
        if reason and compared is not None and not (figures[a].missing or figures[b].missing)
    ]
    return list(dict.fromkeys(reasons))


def _named(pairs: Sequence[str]) -> str:
    """The first pairs, and how many there are beside."""
    more = len(pairs) - MOST_NAMED
    return ", ".join(pairs[:MOST_NAMED]) + (f" and {more} more pairs" if more > 0 else "")


def _drifts(pairs: Sequence[str]) -> list[str]:
    """That the machine changed between sides, by its canary."""
    if not pairs:
        return []
    which = _named(pairs)
    return [
        f"the machine itself changed, by its canary, from {which}: intervals of time and energy are "
        "widened by so much; compare two sides alone for the figures"
    ]


def _value(metric: str, members: Sequence[Process]) -> Figure:
    return of_side([process.figure(metric) for process in members], UNITS[metric])


def _cells(pairs: Sequence[tuple[str, str, Compared | None, str | None]]) -> list[Cell]:
    p = np.array([_p(compared) for _, _, compared, _ in pairs])
    q = false_discovery(p)
    return [
        Cell(
            a=a,
            b=b,
            compared=compared,
            q=float(rate) if math.isfinite(rate) else None,
            verdict=_verdict(compared, float(rate)),
            reason=reason,
        )
        for (a, b, compared, reason), rate in zip(pairs, q, strict=True)
    ]


def _p(compared: Compared | None) -> float:
    """Of pairs whose difference may be the configurations'; NaN of others, which are no tests."""
    if compared is None or compared.p is None or compared.not_claimed:
        return math.nan
    return compared.p


def _verdict(compared: Compared | None, q: float) -> Verdict:
    if compared is None:
        return "not compared"
    tested = compared.verdict in ("lower", "higher")
    return "not shown" if tested and not q <= RATE else compared.verdict

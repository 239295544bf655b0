"""Two sides compared: metrics, operations, drift of the machine, what mars it, and the answer in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wattstep.errors import InvalidValueError
from wattstep.insight.compare.answer import answer, joined
from wattstep.insight.compare.configuration import FACETS, differences, facets_of
from wattstep.insight.compare.drift import Drift, drift_between, drift_within
from wattstep.insight.compare.metrics import EFFECT, Compared, compare_metric
from wattstep.insight.compare.operations import ComparedOperations, compare_operations
from wattstep.insight.compare.process import UNITS, Process
from wattstep.insight.compare.sides import Side, read, why_not
from wattstep.schema.configuration import configuration_of, warnings

MARRED: Final = 0.05  # of the steps that count: from here on it is said
WARM: Final = 5.0  # °C between sides: from here on it is said
TOLD: Final = ("device", "processor", "threads", "batch", "precision")  # by every run of wattstep
ONE_AFTER_THE_OTHER: Final = (
    "all runs of {} were begun before all of {}: whatever changed meanwhile is in the difference; "
    "runs in turns (A B B A) would keep it out"
)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two sides compared.

    Attributes:
        sides: A and B.
        meant: Differences of configuration that were meant: facet to what it is in A and in B.
        metrics: By name.
        operations: Those of both.
        drift: Of the machine.
        warnings: Warnings about it.
        sentences: The answer.
    """

    sides: tuple[Side, Side]
    meant: dict[str, tuple[str, str]]
    metrics: dict[str, Compared]
    operations: ComparedOperations
    drift: Drift
    warnings: tuple[str, ...]
    sentences: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "answer": list(self.sentences),
            "sides": [side_document(side) for side in self.sides],
            "meant": {key: list(both) for key, both in self.meant.items()},
            "metrics": {name: metric.document() for name, metric in self.metrics.items()},
            "operations": self.operations.document(),
            "drift": self.drift.document(),
            "warnings": list(self.warnings),
        }


def side_document(side: Side) -> dict[str, Any]:
    """A side, JSON-ready."""
    return {
        "letter": side.letter,
        "title": side.title,
        "runs": [str(path) for path in side.paths],
        "configuration": facets_of(side.configuration),
    }


def compare(
    a: Side,
    b: Side,
    across: frozenset[str] = frozenset(),
    effect: float = EFFECT,
    on_read: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compares two sides.

    Args:
        a: The one that is compared with.
        b: The one that is compared.
        across: Facets that may differ.
        effect: Relative difference that a plan for more processes is to show.
        on_read: As of `sides.read`.

    Raises:
        InvalidValueError: They cannot be compared; the differences are named.
        DamagedRunError: A run cannot be read.
    """
    if (reason := why_not(a, b, across)) is not None:
        raise InvalidValueError(reason, id="other-configuration")
    mine, theirs = read((a, b), operations=True, on_read=on_read)
    return compared((a, b), (mine, theirs), effect)


def compared(
    sides: tuple[Side, Side],
    processes: tuple[Sequence[Process], Sequence[Process]],
    effect: float = EFFECT,
) -> Comparison:
    """Compares two sides that may be compared and whose runs were read, operations included.

    Args:
        sides: A and B.
        processes: The runs of each, in order.
        effect: Relative difference that a plan for more processes is to show.
    """
    (a, b), (mine, theirs) = sides, processes
    drift = drift_of(mine, theirs)
    known = [name for name in UNITS if any(name in each.figures for each in (*mine, *theirs))]
    metrics = {name: compare_metric(name, mine, theirs, drift, effect) for name in known}
    operations = compare_operations(mine, theirs, drift)
    return Comparison(
        sides=(a, b),
        meant=differences(a.configuration, b.configuration),
        metrics=metrics,
        operations=operations,
        drift=drift,
        warnings=tuple(warnings_of((a, b), (mine, theirs))),
        sentences=tuple(answer((a, b), metrics, operations, drift)),
    )


def drift_of(a: Sequence[Process], b: Sequence[Process]) -> Drift:
    """Change of the machine between two sides; nothing is known of two machines."""
    if len({each.configuration[facet] for each in (*a, *b) for facet in ("device",)}) > 1:
        return Drift(
            parts={},
            reason="different devices: their canaries compare machines, not what became of one",
        )
    return drift_between([each.canary for each in a], [each.canary for each in b])


def warnings_of(sides: Sequence[Side], processes: Sequence[Sequence[Process]]) -> list[str]:
    """Warnings about a comparison: of each run, then of the sides as a whole."""
    notes = []
    for side, members in zip(sides, processes, strict=True):
        for process in members:
            name = f"{side.letter}, {process.path.name}"
            notes += [f"{name} {words}" for words in process.warnings]
    notes += _marred(sides, processes)
    notes += _unsteady(sides, processes)
    everyone = [process for members in processes for process in members]
    notes += _unknown(everyone)
    notes += _unlike_recordings(everyone)
    return notes + _between(sides, processes)


def _marred(sides: Sequence[Side], processes: Sequence[Sequence[Process]]) -> list[str]:
    """Throttled and disturbed steps of the runs of all sides, in one line each."""
    notes = []
    for state in ("throttled", "disturbed"):
        parts = []
        for side, members in zip(sides, processes, strict=True):
            shares = [process.marred.get(state, 0.0) for process in members]
            many = [share for share in shares if share > MARRED]
            if many:
                up_to = "up to " if len(many) > 1 else ""
                parts.append(
                    f"{side.letter} {up_to}{100 * max(many):.0f} %{_of_runs(many, members)}"
                )
        if parts:
            notes.append(f"steps that were {state}: {', '.join(parts)}")
    return notes


def _unsteady(sides: Sequence[Side], processes: Sequence[Sequence[Process]]) -> list[str]:
    """Machines that changed while a run was made, in one line: of each side the run with the largest change."""
    parts = []
    for side, members in zip(sides, processes, strict=True):
        changes = [drift for process in members if (drift := drift_within(process.canary))]
        if changes:
            change, words = max(changes, key=lambda one: abs(one[0]))
            at_most = " at most" if len(changes) > 1 else ""
            parts.append(
                f"{side.letter} {words} {100 * change:+.0f} %{at_most}{_of_runs(changes, members)}"
            )
    if not parts:
        return []
    return [
        f"the machine changed while runs were made (canary, after against before): {', '.join(parts)}"
    ]


def _of_runs(those: Sequence[object], members: Sequence[Process]) -> str:
    """How many of a side's runs, where it has several."""
    return f" ({len(those)} of {len(members)} runs)" if len(members) > 1 else ""


def _unknown(processes: Sequence[Process]) -> list[str]:
    """Facets that no run tells: equal in that, which does not make them alike."""
    words = [
        FACETS[name]
        for name in TOLD
        if all(process.configuration[name] == "not known" for process in processes)
    ]
    if not words:
        return []
    return [f"no run tells {joined(words)}: whether they are alike in that is not known"]


def _unlike_recordings(processes: Sequence[Process]) -> list[str]:
    """Differences that bar no comparison, a line each."""
    notes = warnings([configuration_of(process.info) for process in processes])
    hashes = {(p.info.data.name, p.info.data.sha256) for p in processes if p.info.data is not None}
    if len({name for name, _ in hashes}) < len(hashes):
        notes.append("the data of the runs has one name and is not the same")
    return notes


def _between(sides: Sequence[Side], processes: Sequence[Sequence[Process]]) -> list[str]:
    notes = []
    warm = [[p.temperature for p in members if p.temperature is not None] for members in processes]
    means = [
        (sum(values) / len(values), side.letter)
        for side, values in zip(sides, warm, strict=True)
        if values
    ]
    if len(means) > 1 and max(means)[0] - min(means)[0] > WARM:
        # The coolest and the warmest, in the order of the sides: what lies between differs by less.
        ends = sorted((min(means), max(means)), key=lambda end: end[1])
        places = ", ".join(f"{value:.0f} °C in {letter}" for value, letter in ends)
        notes.append(f"not equally warm: {places}")
    if len(processes) == 2 and min(map(len, processes)) > 1:
        begun = [sorted(process.info.created for process in members) for members in processes]
        for first, second in ((0, 1), (1, 0)):
            if begun[first][-1] < begun[second][0]:
                letters = (sides[first].letter, sides[second].letter)
                notes.append(ONE_AFTER_THE_OTHER.format(*letters))
    return notes


def differing(sides: Sequence[Side]) -> dict[str, str]:
    """In words, by facet, what sides differ in: for the head of a report."""
    facets: dict[str, str] = {}
    for facet, words in FACETS.items():
        values = [facets_of(side.configuration)[facet] for side in sides]
        if len(set(values)) > 1:
            facets[facet] = words
    return facets

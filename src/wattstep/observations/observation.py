"""An observation, tested: the verdict in plain words, then the statistic, what it rests on, and the paper's own number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from wattstep.observations.deciding import (
    FAILS,
    HOLDS,
    UNDECIDED,
    UNTESTABLE,
    Part,
    Verdict,
    of_any,
    of_parts,
)
from wattstep.observations.estimates import as_figure
from wattstep.observations.evidence import LEAST_SHARE, Observed
from wattstep.records.figure import Figure, Status, weakest

PAPER = "Liu et al., arXiv 1906.04278"
WEAK = "one process: what differs from process to process is not in the interval"
EMULATED = (
    "sensors of an emulated board follow the CPU time of the training by a model: where a verdict "
    "rests on them, it is the model that was tested, not a board"
)
CAREFUL: Mapping[Status, str] = {
    Status.REPLAYED: "replayed sensors",
    Status.MODELLED: "modelled sensors",
    Status.PREDICTED: "predicted figures",
}


@dataclass(frozen=True, kw_only=True)
class Published:
    """A number of the paper.

    Attributes:
        what: What it is of.
        value: The number, or the least of several.
        high: The greatest of several, or None.
        unit: As of figures.
        notation: As of columns.
    """

    what: str
    value: float
    unit: str = "ratio"
    high: float | None = None
    notation: Literal["unit", "times", "points"] = "unit"


@dataclass(frozen=True)
class Column:
    """A figure of the cases that a table shows.

    Attributes:
        key: Name of the figure; or its beginning, where a part has one of several names.
        heading: Of the column.
        notation: "times" for ratios that are factors, "points" for differences of ratios.
    """

    key: str
    heading: str
    notation: Literal["unit", "times", "points"] = "unit"


@dataclass(frozen=True, kw_only=True)
class About:
    """What an observation claims, and how it is decided.

    Attributes:
        number: In the paper.
        title: In a few words.
        claim: What the paper says.
        criterion: What exactly must hold, with its margin, and how it is decided.
        metrics: Names of the figures that it rests on.
        columns: Figures of a case that a table shows.
        published: The paper's own numbers.
    """

    number: int
    title: str
    claim: str
    criterion: str
    metrics: tuple[str, ...]
    columns: tuple[Column, ...]
    published: tuple[Published, ...]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One thing that an observation is tested on: a configuration, or a group of them.

    Attributes:
        label: What it is.
        parts: What must hold, each with its number.
        runs: What it rests on.
        figures: Further figures to show.
        notes: What the reader must know.
        reason: Why it cannot be tested; "" where the parts say.
        batches: Batch sizes in words: "4 to 64".
    """

    label: str
    parts: tuple[Part, ...] = ()
    runs: tuple[Observed, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    batches: str = ""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A case with its verdict.

    Attributes:
        case: The case.
        verdict: What its parts say together.
        parts: The verdict of each part, in order.
        reason: Why it cannot be tested, "" where it can.
    """

    case: Case
    verdict: Verdict
    parts: tuple[Verdict, ...]
    reason: str = ""

    @property
    def status(self) -> Status:
        """The weakest of the figures that it was decided by."""
        found = [
            part.estimate.status for part in self.case.parts if not isinstance(part.estimate, str)
        ]
        return weakest(found) if found else Status.MISSING

    def figures(self) -> dict[str, Figure]:
        """Of the parts, then the further ones."""
        own = {part.name: as_figure(part.estimate, part.unit) for part in self.case.parts}
        return {**own, **self.case.figures}

    def document(self) -> dict[str, Any]:
        """JSON-ready but for figures."""
        return {
            "case": self.case.label,
            "batches": self.case.batches or None,
            "verdict": self.verdict,
            "reason": self.reason or None,
            "parts": {
                part.name: {"what": part.words, "verdict": verdict}
                for part, verdict in zip(self.case.parts, self.parts, strict=True)
            },
            "figures": self.figures(),
            "runs": [run.path for run in self.case.runs],
            "notes": list(self.case.notes),
        }


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The outcome.

    Attributes:
        about: What is claimed.
        verdict: Whether it holds.
        status: The weakest status of the figures that decided it: a verdict on modelled power is
            no measured one.
        sentences: The answer in plain words.
        cases: What it was tested on.
        figures: Statistics over all cases.
        notes: What the reader must know.
        advice: What would decide it, where it is undecided or cannot be tested.
    """

    about: About
    verdict: Verdict
    status: Status
    sentences: tuple[str, ...]
    cases: tuple[Judged, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    advice: str = ""

    @property
    def marked(self) -> str:
        """What the verdict rests on, where no sensor measured it: "modelled sensors"."""
        decided = self.verdict in (HOLDS, FAILS, UNDECIDED)
        return CAREFUL.get(self.status, "") if decided else ""

    def document(self) -> dict[str, Any]:
        """JSON-ready but for figures."""
        about = self.about
        return {
            "number": about.number,
            "title": about.title,
            "claim": about.claim,
            "criterion": about.criterion,
            "verdict": self.verdict,
            "status": self.status.value,
            "on": self.marked or None,
            "sentences": list(self.sentences),
            "figures": dict(self.figures),
            "cases": [judged.document() for judged in self.cases],
            "metrics": list(about.metrics),
            "runs": sorted({run.path for judged in self.cases for run in judged.case.runs}),
            "notes": list(self.notes),
            "advice": self.advice or None,
            "paper": {
                "source": PAPER,
                "published": [
                    {"what": p.what, "value": p.value, "high": p.high, "unit": p.unit}
                    for p in about.published
                ],
            },
        }


Sentences = Callable[[Sequence[Judged]], Sequence[str]]


def judge(cases: Sequence[Case], *, somewhere: bool = False) -> list[Judged]:
    """Each case with its verdict, which allows for how many numbers are judged.

    Args:
        cases: The cases.
        somewhere: Whether the claim holds as soon as it does in one of them; else it must in all.
    """
    count = sum(
        part.picked_from
        for case in cases
        if not case.reason
        for part in case.parts
        if part.testable
    )
    return [_judged(case, count, somewhere) for case in cases]


def _judged(case: Case, comparisons: int, somewhere: bool) -> Judged:
    verdicts = tuple(part.verdict(comparisons, somewhere) for part in case.parts)
    lacking = [
        part.estimate for part in case.parts if part.needed and isinstance(part.estimate, str)
    ]
    if not lacking and not any(part.testable for part in case.parts):
        lacking = [part.estimate for part in case.parts if isinstance(part.estimate, str)]
        lacking = lacking or ["there is nothing to test"]
    reason = case.reason or "; ".join(dict.fromkeys(lacking))
    verdict = UNTESTABLE if reason else of_parts(verdicts)
    return Judged(case=case, verdict=verdict, parts=verdicts, reason=reason)


def conclude(
    about: About,
    cases: Sequence[Case],
    sentences: Sentences,
    lacking: str,
    *,
    somewhere: bool = False,
    figures: Mapping[str, Figure] | None = None,
) -> Observation:
    """The verdict on a claim over all cases.

    Args:
        about: What is claimed.
        cases: What it is tested on.
        sentences: The answer in plain words, from the cases that could be tested.
        lacking: What to say where there is no case at all.
        somewhere: Whether the claim holds as soon as it does in one case; else it must in all.
        figures: Statistics over all cases.
    """
    judged = judge(cases, somewhere=somewhere)
    verdict = (of_any if somewhere else of_parts)([each.verdict for each in judged])
    tested = [each for each in judged if each.verdict != UNTESTABLE]
    reasons = list(dict.fromkeys(each.reason for each in judged if each.reason)) or [lacking]
    told = [_sentence(reason) for reason in reasons] if not tested else sentences(tested)
    return Observation(
        about=about,
        verdict=verdict,
        status=weakest(each.status for each in tested) if tested else Status.MISSING,
        sentences=tuple(told),
        cases=tuple(judged),
        figures=figures or {},
        notes=tuple(_notes(judged, tested)),
        advice=advice(tested) if verdict == UNDECIDED else "",
    )


def _sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:]}."


def _notes(judged: Sequence[Judged], tested: Sequence[Judged]) -> list[str]:
    """Of the runs behind the verdict: single processes, disturbances, cases left aside."""
    notes = []
    weak = [each.case.label for each in tested if _is_weak(each)]
    if weak:
        where = "" if len(weak) == len(tested) else f" ({listed(weak)})"
        notes.append(f"weaker{where}: {WEAK}")
    runs = {run.path: run for each in tested for run in each.case.runs}
    if any(each.status is not Status.COUNTED for each in tested):
        notes += conditions_of(list(runs.values()))
    notes += list(dict.fromkeys(note for each in judged for note in each.case.notes))
    left = [each for each in judged if each.verdict == UNTESTABLE]
    if tested and left:
        for reason in dict.fromkeys(each.reason for each in left):
            own = [each.case.label for each in left if each.reason == reason]
            notes.append(f"not tested: {listed(own)}: {reason}")
    return notes


def _is_weak(judged: Judged) -> bool:
    found = [part.estimate for part in judged.case.parts if not isinstance(part.estimate, str)]
    return any(estimate.processes < 2 and estimate.error for estimate in found)


def conditions_of(runs: Sequence[Observed]) -> list[str]:
    """Which of the runs were throttled or disturbed, in words."""
    notes = []
    for word, shares in (
        ("disturbed by other work", [run.disturbed or 0.0 for run in runs]),
        ("throttled", [run.throttled for run in runs]),
    ):
        marked = [share for share in shares if share >= LEAST_SHARE]
        if marked:
            of = f"up to {max(marked):.0%}" if len(marked) > 1 else f"{marked[0]:.0%}"
            notes.append(f"{len(marked)} of {len(runs)} runs {word}, in {of} of their steps")
    if count := sum(run.info.state == "recording" for run in runs):
        notes.append(f"{count} of {len(runs)} runs still being recorded")
    if any(run.scheme == "emulate" for run in runs):
        notes.append(EMULATED)
    return notes


def advice(tested: Sequence[Judged]) -> str:
    """What would decide a case that straddles: how many more processes."""
    parts = [
        part
        for judged in tested
        for part, verdict in zip(judged.case.parts, judged.parts, strict=True)
        if verdict == UNDECIDED
    ]
    if any(part.testable and not _has_error(part) for part in parts):
        return "record more steps: a figure has no interval"
    if all(part.at_most is not None for part in parts):
        return (
            "record again with nothing else running, sample more finely, or train with larger "
            "batches: noise may hide the course"
        )
    counts = [part.processes_to_decide() for part in parts]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return "some of it lies too near to the margin for more runs to decide it soon" + (
            f"; {max(known)} processes of each configuration would decide the rest" if known else ""
        )
    return f"about {max(known)} processes of each configuration should decide it" if known else ""


def _has_error(part: Part) -> bool:
    import math

    return not isinstance(part.estimate, str) and math.isfinite(part.estimate.error)


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names with commas, "and" before the last; of many the first few."""
    unique = list(dict.fromkeys(names))
    if len(unique) > most:
        return f"{', '.join(unique[:most])} and {len(unique) - most} more"
    return " and ".join(filter(None, [", ".join(unique[:-1]), unique[-1]])) if unique else ""

"""An observation, tested: the verdict in plain words, then the statistic, what it rests on, and the paper's own number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from wattstep.insight.observe.deciding import (
    FAILS,
    HOLDS,
    UNDECIDED,
    Part,
    Verdict,
)
from wattstep.insight.observe.estimates import as_figure
from wattstep.insight.observe.evidence import Evidence, Observed
from wattstep.insight.observe.groups import NO_RUNS
from wattstep.schema.figure import Figure, Missing, Status, weakest

if TYPE_CHECKING:
    from wattstep.run import Run

Cases = Callable[[Evidence], "list[Case]"]
PAPER = "Liu et al., arXiv 1906.04278"
CAREFUL: Mapping[Status, str] = {
    Status.REPLAYED: "replayed sensors",
    Status.MODELLED: "modelled sensors",
    Status.PREDICTED: "predicted figures",
}


@dataclass(frozen=True, kw_only=True)
class Published:
    """A number of the paper.

    Attributes:
        what: Quantity that it is of.
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
    """Claim of an observation, and the rule by which it is decided.

    Attributes:
        number: In the paper.
        title: In a few words.
        claim: Claim of the paper.
        criterion: Condition that must hold, with its margin, and how it is decided.
        metrics: Names of the figures that it rests on.
        columns: Figures of a case that a table shows.
        cases: Makes the cases that it is tested on, from evidence.
        sentences: The answer in plain words: templates as of `wording.in_words`, or a function of the
            cases that could be tested.
        published: The paper's own numbers.
        noun: The noun for a case.
        somewhere: True if the claim holds as soon as it does in one case; else it must in all.
        lacking: Reason that is given where there is no case at all.
        unseen: Advice on what would have to be seen before it holds, or "".
        figures: Statistics over all cases.
        measure: Measures the figures of a run that it needs beside the metrics.
    """

    number: int
    title: str
    claim: str
    criterion: str
    metrics: tuple[str, ...]
    columns: tuple[Column, ...]
    cases: Cases
    sentences: tuple[str, ...] | Callable[[Sequence[Judged]], Sequence[str]]
    published: tuple[Published, ...] = ()
    noun: str = "configuration"
    somewhere: bool = False
    lacking: str = NO_RUNS
    unseen: Callable[[Observation], str] | None = None
    figures: Callable[[Evidence], Mapping[str, Figure]] | None = None
    measure: Callable[[Run], Mapping[str, Figure]] | None = None


@dataclass(frozen=True, kw_only=True)
class Case:
    """Subject of a test: a configuration, or a group of them.

    Attributes:
        label: Its name.
        parts: Parts that must hold, each with its number.
        runs: Runs that it rests on.
        figures: Further figures to show.
        notes: Notes for the reader.
        reason: Why it cannot be tested; "" where the parts say.
        batches: Batch sizes in words: "4 to 64".
        members: Names of the two that are compared, where it is a pair.
    """

    label: str
    parts: tuple[Part, ...] = ()
    runs: tuple[Observed, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    batches: str = ""
    members: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A case with its verdict.

    Attributes:
        case: The case.
        verdict: Verdict of its parts together.
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
        statuses = [
            part.estimate.status
            for part in self.case.parts
            if not isinstance(part.estimate, Missing)
        ]
        return weakest(statuses) if statuses else Status.MISSING

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
        about: Its claim.
        verdict: Verdict on the claim.
        status: The weakest status of the figures that decided it: a verdict on modelled power is
            no measured one.
        sentences: The answer in plain words.
        cases: Cases that it was tested on.
        figures: Statistics over all cases.
        notes: Notes for the reader.
        advice: Advice that would decide it, where it is undecided or cannot be tested.
        weak: True if a part of it rests on one process, and knows nothing of how processes differ.
    """

    about: About
    verdict: Verdict
    status: Status
    sentences: tuple[str, ...]
    cases: tuple[Judged, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    advice: str = ""
    weak: bool = False

    @property
    def marked(self) -> str:
        """Basis of the verdict, where no sensor measured it: "modelled sensors"."""
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
            "one_process": self.weak,
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

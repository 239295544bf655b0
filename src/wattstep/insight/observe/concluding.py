"""From cases to the verdict on an observation, with what the reader must know and what would decide it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from wattstep.insight.observe.deciding import (
    HOLDS,
    UNDECIDED,
    UNTESTABLE,
    Part,
    of_any,
    of_parts,
)
from wattstep.insight.observe.evidence import LEAST_SHARE, Evidence, Observed
from wattstep.insight.observe.observation import About, Case, Judged, Observation
from wattstep.insight.observe.wording import in_words, listed
from wattstep.schema.configuration import configuration_of, warnings
from wattstep.schema.figure import Missing, Status, weakest

WEAK = (
    "one process: how far processes lie apart is not measured; a spread is assumed "
    "(docs/observations.md)"
)
ALONE = (
    "one process that other work disturbed decides nothing: record three of each configuration, with "
    "nothing else running"
)
EMULATED = (
    "sensors of an emulated board follow the CPU time of the training by a model: where a verdict "
    "rests on them, it is the model that was tested, not a board"
)


def judge(cases: Sequence[Case], *, somewhere: bool = False) -> list[Judged]:
    """Each case with its verdict, which allows for how many numbers are judged.

    Args:
        cases: The cases.
        somewhere: True if the claim holds as soon as it does in one of them; else it must in all.
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
        part.estimate for part in case.parts if part.needed and isinstance(part.estimate, Missing)
    ]
    if not lacking and not any(part.testable for part in case.parts):
        lacking = [part.estimate for part in case.parts if isinstance(part.estimate, Missing)]
        lacking = lacking or [Missing("there is nothing to test")]
    reason = case.reason or "; ".join(dict.fromkeys(lacking))
    verdict = UNTESTABLE if reason else of_parts(verdicts)
    if not reason and _disturbed_alone(case):
        verdict = UNDECIDED
    if verdict == HOLDS and any(part.left_open and not part.testable for part in case.parts):
        verdict = UNDECIDED
    return Judged(case=case, verdict=verdict, parts=verdicts, reason=reason)


def conclude(about: About, evidence: Evidence) -> Observation:
    """The verdict on a claim over all cases."""
    judged = judge(about.cases(evidence), somewhere=about.somewhere)
    verdict = (of_any if about.somewhere else of_parts)([each.verdict for each in judged])
    tested = [each for each in judged if each.verdict != UNTESTABLE]
    reasons = list(dict.fromkeys(each.reason for each in judged if each.reason))
    untold = [_sentence(reason) for reason in reasons or [about.lacking]]
    observation = Observation(
        about=about,
        verdict=verdict,
        status=weakest(each.status for each in tested) if tested else Status.MISSING,
        sentences=tuple(in_words(about.sentences, tested, about.noun) if tested else untold),
        cases=tuple(judged),
        figures=about.figures(evidence) if about.figures else {},
        notes=tuple(_notes(judged, tested)),
        advice=advice(tested) if verdict == UNDECIDED else "",
        weak=any(_of_one_process(each.case) for each in tested),
    )
    if verdict == HOLDS and about.unseen and (unseen := about.unseen(observation)):
        return replace(observation, verdict=UNDECIDED, advice=unseen)
    return observation


def _sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:]}."


def _notes(judged: Sequence[Judged], tested: Sequence[Judged]) -> list[str]:
    """Of the runs behind the verdict: single processes, disturbances, cases left aside."""
    notes = []
    weak = [each.case.label for each in tested if _of_one_process(each.case)]
    if weak:
        where = "" if len(weak) == len(tested) else f" ({listed(weak)})"
        notes.append(f"weaker{where}: {WEAK}")
    runs = {run.path: run for each in tested for run in each.case.runs}
    if any(each.status is not Status.COUNTED for each in tested):
        notes += notes_on_runs(list(runs.values()))
    notes += list(dict.fromkeys(note for each in judged for note in each.case.notes))
    left = [each for each in judged if each.verdict == UNTESTABLE]
    if tested and left:
        for reason in dict.fromkeys(each.reason for each in left):
            own = [each.case.label for each in left if each.reason == reason]
            notes.append(f"not tested: {listed(own)}: {reason}")
    return notes


def _of_one_process(case: Case) -> bool:
    estimates = [part.estimate for part in case.parts if not isinstance(part.estimate, Missing)]
    return any(estimate.processes < 2 and not estimate.exact for estimate in estimates)


def _disturbed_alone(case: Case) -> bool:
    """True if it rests on one process, and other work disturbed it."""
    disturbed = any((run.disturbed or 0.0) >= LEAST_SHARE for run in case.runs)
    return disturbed and _of_one_process(case)


def notes_on_runs(runs: Sequence[Observed]) -> list[str]:
    """Notes on runs that were throttled, disturbed, unfinished or emulated."""
    notes = []
    for word, shares in (
        ("disturbed by other work", [run.disturbed or 0.0 for run in runs]),
        ("throttled", [run.throttled for run in runs]),
    ):
        marked = [share for share in shares if share >= LEAST_SHARE]
        if marked:
            of = f"{'up to ' if len(marked) > 1 else ''}{100 * max(marked):.0f} %"
            notes.append(f"{len(marked)} of {len(runs)} runs {word}, in {of} of their steps")
    if count := sum(run.info.state == "recording" for run in runs):
        notes.append(f"{count} of {len(runs)} runs still being recorded")
    notes += warnings([configuration_of(run.info) for run in runs])
    if any(run.scheme == "emulate" for run in runs):
        notes.append(EMULATED)
    return notes


def advice(tested: Sequence[Judged]) -> str:
    """Advice that would decide an undecided case: mostly the number of further processes."""
    parts = [
        part
        for judged in tested
        for part, verdict in zip(judged.case.parts, judged.parts, strict=True)
        if verdict == UNDECIDED
    ]
    if any(_disturbed_alone(each.case) for each in tested if each.verdict == UNDECIDED):
        return ALONE
    if not parts:
        return "a part of the claim could not be tested: the figures have the reasons"
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
        return "part of it is too close to the margin for more runs to decide it soon" + (
            f"; {max(known)} processes of each configuration would decide the rest" if known else ""
        )
    return f"about {max(known)} processes of each configuration should decide it" if known else ""


def _has_error(part: Part) -> bool:
    return not isinstance(part.estimate, Missing) and math.isfinite(part.estimate.error)

"""Several runs summed up in sentences: which is fastest, which needs least, and what cannot be said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wattstep.report import machines, wording
from wattstep.report.values import Shown, brief, plain
from wattstep.schema.metrics import METRICS, Metric
from wattstep.schema.run_report import RunReport

OPEN: Final = "Intervals overlap, and leave open "
_MOST_NAMED = 4


def summary_of_all(reports: Sequence[RunReport], *, answers: bool = True) -> list[str]:
    """The answer to each question that the runs' figures can be asked, and what mars it.

    Runs of different networks are not ranked. What overlapping intervals leave open stands in one
    sentence. Single runs differ by more than their steps do; `wattstep compare` knows of that.

    Args:
        reports: At least two.
        answers: Whether which is best is said, too.
    """
    names = [brief(name) for name in wording.titles(reports)]
    sides = wording.side_by_side(reports)
    differing = _differing(reports)
    if not related(reports):
        return [f"These are {len(reports)} runs{differing}, which are not ranked."]
    sentences = [f"These are {len(reports)} runs{differing}."] if differing else []
    if not answers:
        return sentences
    left_open: list[str] = []
    notes: dict[str, None] = {}
    for metric, question in METRICS.items():
        if not question.best:
            continue
        shown = [wording.show_metric(side, metric) for side in sides]
        known = [(name, each) for name, each in zip(names, shown, strict=True) if each is not None]
        # Of what one run alone has nobody asks; of what none has, each figure says why.
        numbers = sum(each.number is not None for _, each in known)
        if numbers and len(known) > (1 if question.computed else 0):
            answer, *beside = _answer(question, known, len(reports))
            if answer.startswith(OPEN):
                left_open.append(answer.removeprefix(OPEN))
                notes |= dict.fromkeys(beside)
            else:
                sentences.append(" ".join([answer, *beside]))
    if left_open:
        sentences.append(" ".join([f"{OPEN}{'; '.join(left_open)}.", *notes]))
    sentences.append(
        "Each is one run: how much runs of one kind differ among themselves is not in these "
        "intervals; wattstep compare asks that."
    )
    return sentences


def related(reports: Sequence[RunReport]) -> bool:
    """True if the runs train one thing: only then is any of them the fastest, or needs least."""
    return len({plain(one.workload) for one in reports}) == 1


def _differing(reports: Sequence[RunReport]) -> str:
    """Phrase that names the facets by which the runs differ; "" where there are none."""
    many = [
        word
        for word, values in (
            ("machines", {machines.short(one.device) for one in reports}),
            ("engines", {plain(one.engine) for one in reports}),
            ("workloads", {plain(one.workload) for one in reports}),
        )
        if len(values) > 1
    ]
    return f" of different {' and '.join(many)}" if many else ""


def _answer(question: Metric, known: Sequence[tuple[str, Shown]], count: int) -> list[str]:
    """The answer, a sentence or what `OPEN` is to be completed by; then sentences on its figures."""
    there = [(name, shown) for name, shown in known if shown.number is not None]
    if len(there) == 1:
        return [f"Which {question.asked} cannot be said: it is known of {there[0][0]} only."]
    lacking = count - len(there)
    left_out = [f"Of {lacking} of the {count} it is not known."] if lacking else []
    name, best = sorted(there, key=lambda each: _rank(question, each[1]))[0]
    # Without an interval, digits that are not shown decide nothing.
    if best.low is None and all(shown.value == best.value for _, shown in there):
        return [f"Which {question.asked} cannot be said: all have {best.value}.", *left_out]
    rivals = [other for other, shown in there if shown is not best and _overlap(best, shown)]
    if not rivals:
        answer = f"{question.best.format(name, wording.in_words(best))}."
        return [answer, *_mixed(there), *left_out]
    between = f"{name}, {wording.in_words(best)}, or {_listed(rivals)}"
    return [f"{OPEN}which {question.asked}: {between}", *_mixed(there), *left_out]


def _rank(question: Metric, shown: Shown) -> float:
    number = shown.number or 0.0
    return -number if question.most else number


def _overlap(one: Shown, other: Shown) -> bool:
    """True if either could be the smaller; a figure without an interval is a point."""
    (a, b), (c, d) = _ends(one), _ends(other)
    return a <= d and c <= b


def _ends(shown: Shown) -> tuple[float, float]:
    number = shown.number or 0.0
    return (
        number if shown.low is None else shown.low,
        number if shown.high is None else shown.high,
    )


def _mixed(there: Sequence[tuple[str, Shown]]) -> list[str]:
    """That figures of different kinds stand against each other."""
    kinds = list(dict.fromkeys(shown.status for _, shown in there))
    return [f"Some of these figures are {', others '.join(kinds)}."] if len(kinds) > 1 else []


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")

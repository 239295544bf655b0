"""Several runs summed up in sentences: which is fastest, which needs least, and what cannot be said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wattstep.reports import machines, wording
from wattstep.reports.values import Shown, brief, plain
from wattstep.reports.wording import Document

_MOST_NAMED = 4


@dataclass(frozen=True, kw_only=True)
class _Question:
    """What is asked of all runs.

    Attributes:
        answer: The sentence; its first place is a name, its second a figure in words.
        what: What it is about, where nothing can be said: "Which ..." goes before.
        most: Whether the largest value is the best.
    """

    answer: str
    what: str
    most: bool = False


_QUESTIONS: Mapping[str, _Question] = {
    "step_time": _Question(answer="{} has the shortest step: {}", what="has the shortest step"),
    "throughput": _Question(
        answer="{} trains most samples in a second: {}", what="trains most samples", most=True
    ),
    "energy_per_sample": _Question(
        answer="{} needs the least energy for a sample: {}", what="needs the least energy"
    ),
    "peak_memory": _Question(answer="{} needs the least memory: {}", what="needs the least memory"),
}


def summary_of_all(documents: Sequence[Document]) -> list[str]:
    """The answer to each question that the runs' figures can be asked, and what mars it.

    Intervals that overlap are said to: then nobody knows which run is the better one. Single
    runs differ by more than their steps do; `wattstep compare` knows of that.

    Args:
        documents: At least two run documents.
    """
    names = [brief(name) for name in wording.titles(documents)]
    sides = [{"metrics": metrics} for metrics in wording.side_by_side(documents)]
    found = [f"These are {len(documents)} runs{_differing(documents)}."]
    for metric, question in _QUESTIONS.items():
        shown = [wording.show_metric(side, metric) for side in sides]
        known = [(name, each) for name, each in zip(names, shown, strict=True) if each is not None]
        if known:
            found.append(_answer(question, known, len(documents)))
    found.append(
        "Each is one run: how much runs of one kind differ among themselves is not in these "
        "intervals; wattstep compare asks that."
    )
    return found


def _differing(documents: Sequence[Document]) -> str:
    """What they should be compared across with care."""
    many = [
        word
        for word, values in (
            ("machines", {machines.short(one) for one in documents}),
            ("engines", {plain(one.get("engine")) for one in documents}),
            ("workloads", {plain(one.get("workload")) for one in documents}),
        )
        if len(values) > 1
    ]
    return f" of different {' and '.join(many)}" if many else ""


def _answer(question: _Question, known: Sequence[tuple[str, Shown]], count: int) -> str:
    there = [(name, shown) for name, shown in known if shown.number is not None]
    if not there:
        return f"Which {question.what} cannot be said: {known[0][1].reason.rstrip('.')}."
    lacking = count - len(there)
    left_out = f" Of {lacking} of the {count} it is not known." if lacking else ""
    if len(there) == 1:
        return f"Which {question.what} cannot be said: it is known of {there[0][0]} only."
    name, best = sorted(there, key=lambda each: _rank(question, each[1]))[0]
    rivals = [other for other, shown in there if shown is not best and _overlap(best, shown)]
    if not rivals:
        mixed = _mixed(there)
        return f"{question.answer.format(name, wording.in_words(best))}.{mixed}{left_out}"
    if best.low is None and all(shown.number == best.number for _, shown in there):
        return f"Which {question.what} cannot be said: all have {best.value}.{left_out}"
    return (
        f"Which {question.what} cannot be said for sure: the interval of {name}, "
        f"{wording.in_words(best)}, overlaps with that of {_listed(rivals)}.{_mixed(there)}{left_out}"
    )


def _rank(question: _Question, shown: Shown) -> float:
    number = shown.number or 0.0
    return -number if question.most else number


def _overlap(one: Shown, other: Shown) -> bool:
    """Whether either could be the smaller; a figure without an interval is a point."""
    (a, b), (c, d) = _ends(one), _ends(other)
    return a <= d and c <= b


def _ends(shown: Shown) -> tuple[float, float]:
    number = shown.number or 0.0
    return (
        number if shown.low is None else shown.low,
        number if shown.high is None else shown.high,
    )


def _mixed(there: Sequence[tuple[str, Shown]]) -> str:
    """That figures of different kinds stand against each other."""
    kinds = list(dict.fromkeys(shown.status for _, shown in there))
    return f" Some of these figures are {', others '.join(kinds)}." if len(kinds) > 1 else ""


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")

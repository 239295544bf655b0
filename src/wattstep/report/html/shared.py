"""What a page tells once: reasons in one place, and what holds of several of its runs for all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from wattstep.report.ranges import with_ranges, without_numbers
from wattstep.report.tables import Table
from wattstep.report.values import Shown

Variables = Mapping[str, Any]  # of the template `run.html`, for a run
_Lists = Sequence[Sequence[Any]]

_MOST_NAMED: Final = 2  # runs that a sentence is about, or not about; of more, their number
_SENTENCE_END: Final = re.compile(r"(?<=[.!?]) (?=[A-Z])")
_POINTING_BACK: Final = frozenset(("It", "That", "This", "These", "They", "Those", "There", "So"))
_UNKNOWN: Final = "Cannot be determined: "


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """What is missing for one reason.

    Attributes:
        named: Labels, each with its figure; None: it has none.
        reason: Why.
        runs: Of a page of several runs, those that it is said of, in words; "": all of them.
        above: Label of which the page has told the reason before; "": it stands here.
    """

    named: Sequence[tuple[str, Shown | None]]
    reason: str
    runs: str = ""
    above: str = ""

    @property
    def first(self) -> str:
        """The label that a reference names."""
        return self.named[0][0]


def told_once(runs: Sequence[Variables]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is the same of several runs, and the variables of each run without it.

    What holds of some of them only is told with their names.

    Args:
        runs: Of two runs at least.
    """
    shared: dict[str, Any] = {}
    left = [dict(run) for run in runs]
    for name, (key, named) in _LISTED.items():
        lists = [run.get(name) or () for run in runs]
        shared[name], of_each = _common(lists, key, named, runs)
        for run, one in zip(left, of_each, strict=True):
            run[name] = one
    _inside(left, shared, "conditions", "sentences")
    _inside(left, shared, "lanes", "notes")
    _explained(left, shared)
    _advised(left, shared)
    shared["meanings"] = _meanings(runs)
    for run in left:
        run["meanings"] = []
    return shared, left


def reasons_once(
    run: Variables,
    notes: set[str],
    above: Mapping[str, str] = MappingProxyType({}),
    listed_above: Iterable[Unknown] = (),
) -> dict[str, Any]:
    """The variables of a run with each reason in one place: what the first screen tells is not told again.

    Args:
        run: Of one run, or what several share.
        notes: What tables before it have told of missing figures; those of its own are added.
        above: Reasons that the page has told before it, each with what it was told of.
        listed_above: What lists before it have of what was not measured.
    """
    told = {**above, **reasons_of(run)}

    def fresh(texts: Iterable[str]) -> list[str]:
        return [text for text in texts if not any(one.lower() in text.lower() for one in told)]

    once = dict(run)
    for part in ("operations", "layers", "step", "memory", "rails"):
        if run.get(part):
            tables = {
                name: without_notes(table, told, notes)
                for name, table in run[part].items()
                if isinstance(table, Table)
            }
            once[part] = {**run[part], **tables}
    missing: Sequence[Unknown] = run.get("missing") or ()
    listed = tuple(f": {one.reason}" for one in missing)
    once["summary"] = [
        text for text in fresh(run.get("summary") or ()) if not text.rstrip(".").endswith(listed)
    ]
    conditions = run.get("conditions") or ()
    sentences = conditions["sentences"] if isinstance(conditions, Mapping) else conditions
    lanes = run.get("lanes")  # a list where it is of several runs
    if isinstance(lanes, Mapping):
        notes_left = [note for note in fresh(lanes["notes"]) if note not in sentences]
        once["lanes"] = {**lanes, "notes": notes_left}
    elif lanes:
        once["lanes"] = [note for note in fresh(lanes) if note not in sentences]
    once["how"] = [one for one in run.get("how") or () if one[0] not in " ".join(sentences)]
    once["missing"] = list(_listed_once(missing, {**_firsts(listed_above), **told}))
    explained = run.get("explained")
    if isinstance(explained, Mapping):
        filled = list(_sections_once(explained["sections"], fresh))
        once["explained"] = {**explained, "sections": filled}
    elif explained:
        sections = _sections_once(((title, words, ()) for title, words in explained), fresh)
        once["explained"] = [(title, words) for title, words, _ in sections]
    return once


def reasons_of(run: Variables) -> dict[str, str]:
    """Why figures of the first screen are unknown, each reason with the first of them."""
    return _firsts(run.get("unknown") or ())


def _firsts(unknown: Iterable[Unknown]) -> dict[str, str]:
    firsts: dict[str, str] = {}
    for one in unknown:
        firsts.setdefault(one.reason, one.first)
    return firsts


def _listed_once(missing: Iterable[Unknown], told: Mapping[str, str]) -> Iterator[Unknown]:
    """A reason that was told already becomes a reference to that."""
    firsts = dict(told)
    for one in missing:
        yield replace(one, above=firsts.get(one.reason, ""))
        firsts.setdefault(one.reason, one.first)


def without_notes(table: Table, told: Collection[str], notes: set[str]) -> Table:
    """A table without the notes whose reason stands elsewhere; its cells have them all."""
    left = []
    for note in table.notes:
        reason = note.partition(": ")[2] or note
        if reason not in notes and not any(one in note for one in told):
            left.append(note)
            notes.add(reason)
    return replace(table, notes=tuple(left))


def _sections_once(
    sections: Iterable[tuple[str, Sequence[str], Any]],
    fresh: Callable[[Iterable[str]], list[str]],
) -> Iterator[tuple[str, list[str], Any]]:
    """Sections of an explanation, without those that only repeat why nothing is known."""
    known: set[str] = set()
    for title, sentences, plots in sections:
        words = [text for text in fresh(sentences) if _bare(text) not in known]
        known.update(map(_bare, words))
        if words or plots:
            yield title, words, plots


def _bare(text: str) -> str:
    return text.removeprefix(_UNKNOWN).rstrip(".").lower()


def _common(
    lists: _Lists,
    key: Callable[[Any], Any],
    named: Callable[[Any, str], Any],
    runs: Sequence[Variables],
) -> tuple[list[Any], list[list[Any]]]:
    """The items that stand in two lists or more, those of some with the runs' names; the others of each."""
    known = [{key(item) for item in one} for one in lists]
    common: dict[Any, Any] = {}
    for item in (item for one in lists for item in one):
        have = [run for run, keys in zip(runs, known, strict=True) if key(item) in keys]
        if len(have) == len(runs) and len(runs) > 1:
            common.setdefault(key(item), item)
        elif len(have) > 1:
            common.setdefault(key(item), named(item, _names(have, runs)))
    return list(common.values()), [
        [item for item in one if key(item) not in common] for one in lists
    ]


def _names(runs: Sequence[Variables], all_of_them: Sequence[Variables]) -> str:
    """The runs in words: by name where they, or the others, are few."""
    titles = [run["title"] for run in runs]
    ids = {id(run) for run in runs}
    others = [run["title"] for run in all_of_them if id(run) not in ids]
    if len({*titles, *others}) < len(all_of_them) or min(len(titles), len(others)) > _MOST_NAMED:
        return f"{len(titles)} of {len(all_of_them)} runs"
    if len(titles) <= _MOST_NAMED:
        return ", ".join(titles)
    return f"all but {', '.join(others)}"


def _inside(runs: Sequence[dict[str, Any]], shared: dict[str, Any], part: str, name: str) -> None:
    """Takes the sentences that several have out of a part of each run."""
    lists = [(run.get(part) or {}).get(name) or () for run in runs]
    shared[part], of_each = _common(lists, str, _beside, runs)
    for run, one in zip(runs, of_each, strict=True):
        if run.get(part):
            run[part] = {**run[part], name: one}


def _explained(runs: Sequence[dict[str, Any]], shared: dict[str, Any]) -> None:
    """Takes the sentences that several explanations have out of each, section by section."""
    explained = [run.get("explained") or {"sections": ()} for run in runs]
    by_title = [{title: words for title, words, _ in each["sections"]} for each in explained]
    shared["explained"] = []
    for title in dict.fromkeys(title for each in by_title for title in each):
        common, of_each = _common([each.get(title, ()) for each in by_title], str, _beside, runs)
        general, of_each = _general(of_each)
        if common or general:
            shared["explained"].append((title, [*common, *general]))
        for each, words in zip(by_title, of_each, strict=True):
            each[title] = words
    for run, words_of in zip(runs, by_title, strict=True):
        if run.get("explained"):
            sections = [
                (title, words_of[title], plots) for title, _, plots in run["explained"]["sections"]
            ]
            filled = [section for section in sections if section[1] or section[2]]
            run["explained"] = {**run["explained"], "sections": filled}


def _general(of_each: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Sentences within paragraphs that all runs have, and the paragraphs without them.

    A sentence that points back at the one before it stays there.
    """
    split = [[_SENTENCE_END.split(text) for text in one] for one in of_each]
    known = [{sentence for text in one for sentence in text} for one in split]
    general = [
        sentence
        for sentence in dict.fromkeys(each for text in split[0] for each in text)
        if all(sentence in one for one in known) and sentence.split()[0] not in _POINTING_BACK
    ]
    left = [[" ".join(s for s in text if s not in general) for text in one] for one in split]
    return general, [[text for text in one if text] for one in left]


def _advised(runs: Sequence[dict[str, Any]], shared: dict[str, Any]) -> None:
    """Takes advice that several runs have out of each: once, with the runs that it concerns.

    A piece has its reasons, each with the runs of which it is true: their title and id, what it
    saves there, and how it is tried; "how" of the piece, where that is the same for all.
    """
    given: dict[str, list[tuple[dict[str, Any], Mapping[str, Any]]]] = {}
    for run in runs:
        for piece in (run.get("explained") or {}).get("advice", ()):
            given.setdefault(piece["do"], []).append((run, piece))
    several = {do: pairs for do, pairs in given.items() if len(pairs) > 1}
    shared["advice"] = []
    for do, pairs in several.items():
        reasons: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        for run, piece in pairs:
            concerned = {key: run[key] for key in ("id", "title")}
            entry = {**concerned, **{key: piece[key] for key in ("gain", "how")}}
            reasons.setdefault(without_numbers(piece["why"]), []).append((piece["why"], entry))
        hows = {piece["how"] for _, piece in pairs}
        how = hows.pop() if len(hows) == 1 else ""
        told = [
            (with_ranges([why for why, _ in members]), [entry for _, entry in members])
            for members in reasons.values()
        ]
        shared["advice"].append({"do": do, "how": how, "reasons": told})
    for run in runs:
        if run.get("explained"):
            left = [each for each in run["explained"]["advice"] if each["do"] not in several]
            run["explained"] = {**run["explained"], "advice": left}


def _meanings(runs: Sequence[Variables]) -> list[tuple[str, str]]:
    return list(dict.fromkeys(pair for run in runs for pair in run["meanings"]))


def _beside(text: str, names: str) -> str:
    return f"{text} ({names})"


def _key_of(unknown: Unknown) -> tuple[Any, ...]:
    return tuple(label for label, _ in unknown.named), unknown.reason


def _of_runs(unknown: Unknown, names: str) -> Unknown:
    return replace(unknown, runs=names)


# By variable: what makes two of its items the same, and an item with the names of its runs.
_LISTED: Final[Mapping[str, tuple[Callable[[Any], Any], Callable[[Any, str], Any]]]] = {
    "cautions": (
        lambda caution: caution.text,
        lambda caution, names: replace(caution, text=_beside(caution.text, names)),
    ),
    "summary": (str, _beside),
    "how": (lambda method: method[0], lambda method, names: (_beside(method[0], names), method[1])),
    "missing": (_key_of, _of_runs),
    "unknown": (_key_of, _of_runs),
}

"""Sentences that hold of all runs of a page, told once for all of them instead of once for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Variables = Mapping[str, Any]  # of the template `run.html`, for a run
_Lists = Sequence[Sequence[Any]]


def told_once(runs: Sequence[Variables]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is the same of all runs, and the variables of each run without it.

    Args:
        runs: Of two runs at least.
    """
    shared: dict[str, Any] = {}
    left = [dict(run) for run in runs]
    for name, key in _LISTED.items():
        lists = [run.get(name) or () for run in runs]
        shared[name] = _common(lists, key)
        for run, one in zip(left, _without(lists, shared[name], key), strict=True):
            run[name] = one
    _inside(left, shared, "conditions", "sentences")
    _inside(left, shared, "lanes", "notes")
    _explained(left, shared)
    _advised(left, shared)
    shared["meanings"] = _meanings(runs)
    for run in left:
        run["meanings"] = []
    return shared, left


def _common(lists: _Lists, key: Callable[[Any], Any]) -> list[Any]:
    """The items of the first list that stand in all."""
    known = [{key(item) for item in one} for one in lists]
    return [item for item in lists[0] if all(key(item) in each for each in known)]


def _without(lists: _Lists, shared: Sequence[Any], key: Callable[[Any], Any]) -> list[list[Any]]:
    shared_keys = {key(item) for item in shared}
    return [[item for item in one if key(item) not in shared_keys] for one in lists]


def _inside(runs: Sequence[dict[str, Any]], shared: dict[str, Any], part: str, name: str) -> None:
    """Takes the sentences that all have out of a part of each run."""
    lists = [(run.get(part) or {}).get(name) or () for run in runs]
    shared[part] = _common(lists, str)
    for run, one in zip(runs, _without(lists, shared[part], str), strict=True):
        if run.get(part):
            run[part] = {**run[part], name: one}


def _explained(runs: Sequence[dict[str, Any]], shared: dict[str, Any]) -> None:
    """Takes the sentences that all explanations have out of each, section by section."""
    explained = [run.get("explained") or {"sections": ()} for run in runs]
    by_title = [{title: words for title, words, _ in each["sections"]} for each in explained]
    titles = [title for title in by_title[0] if all(title in each for each in by_title)]
    common = {title: _common([each[title] for each in by_title], str) for title in titles}
    shared["explained"] = [(title, words) for title, words in common.items() if words]
    for run in runs:
        if not run.get("explained"):
            continue
        sections = [
            (title, [word for word in words if word not in common.get(title, ())], plots)
            for title, words, plots in run["explained"]["sections"]
        ]
        filled = [(title, words, plots) for title, words, plots in sections if words or plots]
        run["explained"] = {**run["explained"], "sections": filled}


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
        reasons: dict[str, list[dict[str, Any]]] = {}
        for run, piece in pairs:
            concerned = {key: run[key] for key in ("id", "title")}
            entry = {**concerned, **{key: piece[key] for key in ("gain", "how")}}
            reasons.setdefault(piece["why"], []).append(entry)
        hows = {piece["how"] for _, piece in pairs}
        how = hows.pop() if len(hows) == 1 else ""
        shared["advice"].append({"do": do, "how": how, "reasons": list(reasons.items())})
    for run in runs:
        if run.get("explained"):
            left = [each for each in run["explained"]["advice"] if each["do"] not in several]
            run["explained"] = {**run["explained"], "advice": left}


def _meanings(runs: Sequence[Variables]) -> list[tuple[str, str]]:
    return list(dict.fromkeys(pair for run in runs for pair in run["meanings"]))


_LISTED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "cautions": lambda caution: caution.text,
    "how": lambda method: method[0],
    "missing": lambda group: (tuple(label for label, _ in group[0]), group[1]),
    "unknown": lambda group: (tuple(label for label, _ in group[0]), group[1]),
}

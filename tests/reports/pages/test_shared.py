"""What holds of all runs of a page is told once, and what differs stays with its run."""

from __future__ import annotations

from typing import Any

from wattstep.report.html.shared import told_once
from wattstep.report.wording import Caution


def run(*cautions: str, sentences: tuple[str, ...] = (), why: tuple[str, ...] = ()) -> Any:
    return {
        "cautions": [Caution(grave=True, text=text) for text in cautions],
        "conditions": {"sentences": list(sentences)},
        "explained": {"reason": "", "advice": [], "sections": [("Gaps", list(why), [])]},
        "how": [("a clock", "Step time")],
        "missing": [([("Fan", None)], "no fan")],
        "unknown": [],
        "lanes": None,
        "meanings": [("Step time", "Wall time of a step")],
    }


def test_what_all_runs_say_is_told_once_and_the_rest_stays() -> None:
    shared, left = told_once(
        [
            run("stand-in", "one", sentences=("hot", "idle"), why=("both", "first")),
            run("stand-in", "two", sentences=("hot",), why=("both",)),
        ]
    )
    assert [one.text for one in shared["cautions"]] == ["stand-in"]
    assert [[one.text for one in each["cautions"]] for each in left] == [["one"], ["two"]]
    assert shared["conditions"] == ["hot"]
    assert [each["conditions"]["sentences"] for each in left] == [["idle"], []]
    assert shared["explained"] == [("Gaps", ["both"])]
    assert [each["explained"]["sections"] for each in left] == [[("Gaps", ["first"], [])], []]
    assert shared["missing"] == [([("Fan", None)], "no fan")]
    assert shared["meanings"] == [("Step time", "Wall time of a step")]
    assert all(each["missing"] == each["meanings"] == each["how"] == [] for each in left)


def test_the_runs_that_were_given_stay_as_they_are() -> None:
    runs = [run("a"), run("a")]
    told_once(runs)
    assert [len(each["cautions"]) for each in runs] == [1, 1]
    assert [each["conditions"]["sentences"] for each in runs] == [[], []]


def test_what_one_run_alone_does_not_say_is_not_shared() -> None:
    shared, left = told_once([run("a"), run("a"), run("b")])
    assert shared["cautions"] == []
    assert [len(each["cautions"]) for each in left] == [1, 1, 1]

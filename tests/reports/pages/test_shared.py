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


def advised(title: str, *pieces: tuple[str, str, str]) -> Any:
    advice = [{"do": do, "why": why, "how": how, "gain": title} for do, why, how in pieces]
    explained = {"reason": "", "advice": advice, "sections": []}
    return {**run(), "id": title.lower(), "title": title, "explained": explained}


def test_advice_that_several_runs_have_stands_once_with_the_runs_it_concerns() -> None:
    threads, fused = "Train with 1 thread", "Use a fused optimizer"
    shared, left = told_once(
        [
            advised("A", (threads, "busy", "run a"), (fused, "many", "fused=True")),
            advised("B", (threads, "busy", "run b"), (fused, "many", "fused=True")),
            advised("C", (threads, "others", "run c"), ("Compile", "gaps", "compile")),
        ]
    )
    first, second = shared["advice"]
    assert (first["do"], first["how"]) == (threads, "")
    assert [(why, [one["title"] for one in runs]) for why, runs in first["reasons"]] == [
        ("busy", ["A", "B"]),
        ("others", ["C"]),
    ]
    assert [one["how"] for _, runs in first["reasons"] for one in runs] == [
        "run a",
        "run b",
        "run c",
    ]
    assert (second["do"], second["how"]) == (fused, "fused=True")
    assert [[one["do"] for one in each["explained"]["advice"]] for each in left] == [
        [],
        [],
        ["Compile"],
    ]

"""What holds of all runs of a page is told once, and what differs stays with its run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.reports import synthetic
from tests.reports.pages.tree import Element, tree

from wattstep.report.html.report import render_report
from wattstep.report.html.shared import Unknown, reasons_once, told_once
from wattstep.report.ranges import with_ranges
from wattstep.report.tables import Table
from wattstep.report.wording import Caution


def unknown(reason: str, *labels: str, runs: str = "") -> Unknown:
    return Unknown(named=[(label, None) for label in labels], reason=reason, runs=runs)


def run(
    *cautions: str, sentences: tuple[str, ...] = (), why: tuple[str, ...] = (), title: str = ""
) -> Any:
    return {
        "title": title,
        "cautions": [Caution(grave=True, text=text) for text in cautions],
        "conditions": {"sentences": list(sentences)},
        "explained": {"reason": "", "advice": [], "sections": [("Gaps", list(why), [])]},
        "how": [("a clock", "Step time")],
        "missing": [unknown("no fan", "Fan")],
        "unknown": [],
        "lanes": None,
        "meanings": [("Step time", "Wall time")],
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
    assert shared["missing"] == [unknown("no fan", "Fan")]
    assert shared["meanings"] == [("Step time", "Wall time")]
    assert all(each["missing"] == each["meanings"] == each["how"] == [] for each in left)


def test_the_runs_that_were_given_stay_as_they_are() -> None:
    runs = [run("a"), run("a")]
    told_once(runs)
    assert [len(each["cautions"]) for each in runs] == [1, 1]
    assert [each["conditions"]["sentences"] for each in runs] == [[], []]


def test_what_some_runs_say_is_told_once_with_their_names() -> None:
    runs = [
        run("a", "c", why=("x",), title="A"),
        run("a", "c", why=("x",), title="B"),
        run("b", "c", title="C"),
    ]
    shared, left = told_once(runs)
    assert [each.text for each in shared["cautions"]] == ["a (A, B)", "c"]
    assert shared["explained"] == [("Gaps", ["x (A, B)"])]
    assert [[one.text for one in each["cautions"]] for each in left] == [[], [], ["b"]]
    many, _ = told_once([*runs, run("a", "c", title="D")])
    assert many["cautions"][0].text == "a (all but C)"


def test_a_general_sentence_within_what_differs_is_told_once_and_what_points_back_stays() -> None:
    general, back = "Each operation waits for its slowest thread.", "That is in all times below."
    words = [f"{cores} cores were free. {general} {back}" for cores in ("0.3", "0.5")]
    shared, left = told_once([run(why=(each,)) for each in words])
    assert shared["explained"] == [("Gaps", [general])]
    assert [each["explained"]["sections"][0][1] for each in left] == [
        [f"{cores} cores were free. {back}"] for cores in ("0.3", "0.5")
    ]


@pytest.mark.parametrize(
    ("texts", "one"),
    [
        (["1.6 of 2 cores", "1.5 of 2 cores"], "1.5 to 1.6 of 2 cores"),
        (["in 1,024 steps", "in 90 steps", "in 512 steps"], "in 90 to 1,024 steps"),
        (["as it is", "as it is"], "as it is"),
    ],
)
def test_texts_that_differ_in_numbers_alone_are_one_with_ranges(texts: list[str], one: str) -> None:
    assert with_ranges(texts) == one


def test_a_reason_that_the_first_screen_tells_stands_nowhere_else() -> None:
    reason = "no sensor of power: a model computes it"
    table = Table(columns=(), rows=(), notes=(f"Energy is missing: {reason}", "FLOPs: not counted"))
    sections = [
        ("Below the samples", [f"Cannot be determined: {reason}."], []),
        ("GPU", ["No work ran on a GPU."], []),
        ("Phases", ["Cannot be determined: no work ran on a GPU."], []),
    ]
    once = reasons_once(
        {
            **run(sentences=("computed from cores",)),
            "unknown": [unknown(reason, "Energy per step")],
            "operations": {"table": table},
            "layers": {"table": replace(table, notes=("FLOPs in 2 of 4 rows: not counted",))},
            "summary": [
                "One step took 1 s.",
                f"Energy is missing: {reason}.",
                "Fan is missing: no fan.",
            ],
            "explained": {"sections": sections},
            "how": [("computed from cores", "Energy"), ("a clock", "Time")],
            "missing": [unknown(reason, "Mean power"), unknown("no fan", "Fan")],
        },
        set(),
    )
    assert once["operations"]["table"].notes == ("FLOPs: not counted",)
    assert once["layers"]["table"].notes == ()
    assert once["summary"] == ["One step took 1 s."]
    assert [title for title, *_ in once["explained"]["sections"]] == ["GPU"]
    assert once["how"] == [("a clock", "Time")]
    assert [one.above for one in once["missing"]] == ["Energy per step", ""]


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


def visible(element: Element) -> Iterator[str]:
    """Texts of a page that somebody reads, those of folded parts with them."""
    if element.tag not in ("script", "style"):
        for child in element.children:
            yield from [child] if isinstance(child, str) else visible(child)


@pytest.mark.parametrize("without", [1, 3, 5])
def test_a_reason_stands_once_on_a_page_of_five_runs_however_many_have_it(without: int) -> None:
    reason = "no power sensor was found: look for one"
    lacking = {
        name: synthetic.missing(unit, reason)
        for name, unit in (
            ("energy_per_step", "J"),
            ("energy_per_sample", "J"),
            ("mean_power", "W"),
        )
    }
    runs = [
        synthetic.document(
            title=title,
            workload=title,
            metrics=synthetic.document()["metrics"] | (lacking if nth < without else {}),
        )
        for nth, title in enumerate("ABCDE")
    ]
    page = tree(render_report([synthetic.reported(document=one) for one in runs], paper=False))
    told = [text for text in visible(page) if reason in text]
    assert len(told) == 1
    assert told[0].rstrip().endswith("D · batch 4, E · batch 4)") == (without == 3)

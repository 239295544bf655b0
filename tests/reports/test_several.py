"""What is said of several runs together: who is best, and when nobody can say."""

from __future__ import annotations

from typing import Any

from tests.reports.synthetic import document, figure, missing, report
from tests.wording import assert_says

from wattstep.report.several import summary_of_all


def run(name: str, step: dict[str, Any], **metrics: Any) -> dict[str, Any]:
    return {"title": name, "workload": "w", "metrics": {"step_time": step, **metrics}}


def about(words: str, *runs: dict[str, Any]) -> str:
    return next(
        sentence for sentence in summary_of_all(list(map(report, runs))) if words in sentence
    )


def test_intervals_apart_make_one_the_fastest() -> None:
    quick = run("Quick", figure(2e-3, "s", "measured", 1.9e-3, 2.1e-3))
    slow = run("Slow", figure(3e-3, "s", "measured", 2.9e-3, 3.1e-3))
    assert_says(about("shortest step", slow, quick), "Quick has", "2.00 ms (1.90 to 2.10)")


def test_overlapping_intervals_leave_it_open() -> None:
    one = run("One", figure(2e-3, "s", "measured", 1.5e-3, 2.5e-3))
    other = run("Other", figure(2.4e-3, "s", "measured", 2.2e-3, 2.6e-3))
    far = run("Far", figure(9e-3, "s", "measured", 8e-3, 10e-3))
    answer = about("shortest step", one, other, far)
    assert_says(answer, "overlap", "One, 2.00 ms (1.50 to 2.50)", "or Other.")
    assert "Far" not in answer


def test_what_several_overlaps_leave_open_is_one_sentence() -> None:
    wide = figure(10.0, "samples/s", "measured", 5.0, 15.0)
    one = run("One", figure(2e-3, "s", "measured", 1.5e-3, 2.5e-3), throughput=wide)
    other = run("Other", figure(2.4e-3, "s", "measured", 2.2e-3, 2.6e-3), throughput=wide)
    sentences = summary_of_all([report(one), report(other)])
    assert " ".join(sentences).count("overlap") == 1
    assert_says(
        sentences[-2],
        "One, 2.00 ms (1.50 to 2.50), or",
        "10 samples/s (5 to 15), or Other",
    )


def test_the_most_throughput_is_the_best() -> None:
    runs = [
        run(name, figure(1.0, "s"), throughput=figure(value, "samples/s"))
        for name, value in (("A", 10.0), ("B", 30.0), ("C", 20.0))
    ]
    assert_says(about("most samples", *runs), "B trains", "30 samples/s")


def test_what_is_missing_is_not_the_least() -> None:
    known = run("A", figure(1.0, "s"), energy_per_sample=figure(2.0, "J", "modelled"))
    other = run("B", figure(2.0, "s"), energy_per_sample=figure(3.0, "J"))
    unknown = run("C", figure(3.0, "s"), energy_per_sample=missing("J"))
    answer = about("least energy", known, other, unknown)
    assert_says(answer, "A needs", "≈ 2.00 J (modelled)", "others measured", "1 of the 3")
    assert_says(about("least energy", known, unknown), "cannot be said", "A only")
    # Each figure says why it is missing: nothing is said of it again.
    told = summary_of_all([report(unknown), report(unknown)])
    assert not any("energy" in sentence for sentence in told)


def test_equal_figures_and_different_machines_are_said() -> None:
    one = {**run("A", figure(1.0, "s")), "device": {"cpu": "a"}}
    other = {**run("B", figure(1.0, "s")), "device": {"cpu": "b"}}
    found = summary_of_all([report(one), report(other)])
    assert_says(found[0], "2 runs", "different machines")
    assert_says(found[1], "shortest step", "cannot be said", "1.00 s")
    assert "wattstep compare" in found[-1]


def test_digits_that_are_not_shown_rank_nothing() -> None:
    peaks = [figure(mega * 1e6, "B", "measured") for mega in (347.1, 346.9)]
    one, other = (run(name, figure(1.0, "s"), peak_memory=peak) for name, peak in zip("AB", peaks, strict=True))  # fmt: skip
    assert_says(about("least memory", one, other), "cannot be said", "347 MB")


def test_what_only_one_run_has_is_no_question() -> None:
    language = run("A", figure(1.0, "s"), energy_per_token=figure(0.02, "J"))
    other = run("B", figure(2.0, "s"))
    both = run("C", figure(2.0, "s"), energy_per_token=figure(0.03, "J"))
    assert "token" not in " ".join(summary_of_all([report(language), report(other)]))
    assert about("for a token", language, both).startswith("A needs")


def test_runs_of_different_networks_are_not_ranked() -> None:
    one, other = document(), document(workload="resnet50", title="ResNet-50")
    sentences = summary_of_all([report(one), report(other)])
    (sentence,) = sentences
    assert_says(sentence, "2 runs", "different workloads", "not ranked")

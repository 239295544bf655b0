"""What is never claimed of programs: what one run of each shows, and what other work on the machine may have done."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.comparison.made import figure, process, recorded
from tests.wording import assert_says, saying

from wattstep.insight.compare.answer import sentence
from wattstep.insight.compare.claims import not_claimed
from wattstep.insight.compare.comparing import compare
from wattstep.insight.compare.drift import Drift
from wattstep.insight.compare.gate import judge
from wattstep.insight.compare.metrics import compare_metric
from wattstep.insight.compare.process import Process
from wattstep.insight.compare.sides import gathered

STILL = Drift(parts={})


def side(*times: float, cpu: float = 0.1, disturbed: float = 0.0) -> list[Process]:
    return [
        process(
            {"step_time": figure(t, 0.001), "cpu_time_per_step": figure(cpu + t / 1000, 0.001)},
            marred={"disturbed": disturbed},
        )
        for t in times
    ]


def test_one_run_of_each_says_what_cannot_be_claimed_and_why() -> None:
    found = compare_metric("step_time", side(0.10), side(0.20), STILL)
    words = sentence(found, (1, 1))
    assert found.verdict == "differs here"
    assert "B takes 9" in words
    (reason,) = found.document()["not_claimed_because"]
    assert words.endswith(f"{reason}.")


def test_a_reason_not_to_claim_a_difference_stands_in_the_first_sentence_alone() -> None:
    found = compare_metric("step_time", side(0.10), side(0.20), STILL)
    words = sentence(found, (1, 1), found.not_claimed)
    assert "not shown" not in words
    assert found.not_claimed
    assert not any(reason in words for reason in found.not_claimed)


def test_steps_that_differ_so_much_that_no_ratio_is_bounded_give_no_bare_less() -> None:
    """As on a machine whose cores others use: 341 ms (0 to 1,985) against 323 ms (0 to 1,594)."""
    a, b = (
        [process({"step_time": replace(figure(t, 0.0), low=0.0, high=high)})]
        for t, high in ((0.341, 1.985), (0.323, 1.594))
    )
    found = compare_metric("step_time", a, b, STILL)
    assert found.verdict == "not shown"
    assert_says(sentence(found, (1, 1)), "Time:", "no difference")


def test_runs_that_other_work_disturbed_on_one_side_claim_nothing() -> None:
    a, b = side(0.100, 0.101, 0.102), side(0.200, 0.201, 0.202, disturbed=0.8)
    found = compare_metric("step_time", a, b, STILL)
    assert found.of_these == "higher"
    assert found.verdict == "differs here"
    assert judge(found, 0.05) == "cannot exclude"
    assert_says(sentence(found, (3, 3)), "disturbed 0 %", "of A", "80 %", "of B")


def test_runs_that_were_disturbed_alike_still_claim_by_their_spread() -> None:
    a, b = (side(t, t + 0.001, t + 0.002, disturbed=0.8) for t in (0.1, 0.2))
    assert compare_metric("step_time", a, b, STILL).verdict == "higher"


def test_memory_is_claimed_whatever_else_ran() -> None:
    a, b = side(0.1, 0.1), side(0.1, 0.1, disturbed=0.8)
    assert not_claimed("peak_memory", a, b) == ()
    assert not_claimed("step_time", a, b) != ()


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one program: steps of 20.05 and 40.05 ms, with 20.05 ms of CPU time each."""
    folder = tmp_path_factory.mktemp("waiting")
    recorded(folder / "a", cpu=1.0, jitter=100_000)
    recorded(folder / "b", 2.0, cpu=20.05 / 40.05, jitter=100_000)
    return folder


def test_a_run_that_only_waited_took_no_more_cpu_time_and_it_is_said(waiting: Path) -> None:
    found = compare(*gathered([[waiting / "a"], [waiting / "b"]]))
    time, cpu = found.metrics["step_time"], found.metrics["cpu_time_per_step"]
    assert time.ratio.value == pytest.approx(2.0, rel=0.02)
    assert cpu.ratio.value == pytest.approx(1.0, rel=0.02)
    assert cpu.a.value == pytest.approx(0.020, rel=0.02)
    assert time.verdict == "differs here"
    assert cpu.verdict == "not shown"
    assert any(words.startswith("CPU time: no difference") for words in found.sentences)
    assert saying(found.sentences, "for other programs")
    assert json.dumps(found.document()["metrics"]["step_time"]["verdict"]) == '"differs here"'

"""Verdicts by intervals: entirely inside, entirely outside, or neither."""

from __future__ import annotations

import pytest
from tests.wording import assert_says

from wattstep.insight.observe.deciding import (
    FAILS,
    HOLDS,
    UNDECIDED,
    UNTESTABLE,
    Part,
    Region,
    Verdict,
    of_any,
    of_parts,
)
from wattstep.insight.observe.estimates import Estimate
from wattstep.insight.observe.observation import Case, Judged
from wattstep.insight.observe.wording import in_how_many
from wattstep.schema.figure import Status


def estimate(
    value: float, error: float, processes: int = 5, degrees_of_freedom: float = 1e9
) -> Estimate:
    return Estimate(
        value=value, error=error, degrees_of_freedom=degrees_of_freedom, unit="1", processes=processes,
        status=Status.MEASURED, source="made", method="",
    )  # fmt: skip


def part(value: float, error: float, region: Region, picked: int = 1) -> Part:
    return Part(
        name="p", words="p", estimate=estimate(value, error), region=region, picked_from=picked
    )


ABOVE = Region(low=0.1)
BESIDE = Region(low=-0.1, high=0.1, beside=True)


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(0.4, HOLDS), (0.1, UNDECIDED), (0.25, UNDECIDED), (-0.2, FAILS)],
)
def test_an_interval_decides_when_it_lies_on_one_side_of_the_margin(
    value: float, verdict: str
) -> None:
    """Errors of 0.1: the interval reaches 0.196 to both sides."""
    assert part(value, 0.1, ABOVE).verdict(1) == verdict


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [(0.3, 0.05, HOLDS), (-0.3, 0.05, HOLDS), (0.0, 0.02, FAILS), (0.05, 0.05, UNDECIDED)],
)
def test_a_difference_is_one_where_its_interval_lies_beside_the_margin(
    value: float, error: float, verdict: str
) -> None:
    assert part(value, error, BESIDE).verdict(1) == verdict


def test_failing_is_judged_the_more_strictly_the_more_numbers_are_judged() -> None:
    """-0.12 with an error of 0.1 lies 2.2 errors below: beyond 1.96, within Bonferroni's 2.81."""
    one = part(-0.12, 0.1, ABOVE)
    assert one.verdict(1) == FAILS
    assert one.verdict(10) == UNDECIDED


def test_of_claims_that_hold_somewhere_it_is_holding_that_is_judged_more_strictly() -> None:
    one = part(0.32, 0.1, ABOVE)
    assert one.verdict(10) == HOLDS
    assert one.verdict(10, somewhere=True) == UNDECIDED


def test_the_most_extreme_of_several_is_judged_more_strictly() -> None:
    assert part(0.32, 0.1, BESIDE).verdict(1) == HOLDS
    assert part(0.32, 0.1, BESIDE, picked=10).verdict(1) == UNDECIDED


def test_noise_that_may_hide_a_course_keeps_it_from_failing() -> None:
    hidden = Part(
        name="p", words="p", estimate=estimate(0.0, 0.01), region=Region(low=0.5),
        at_most=estimate(0.9, 0.5),
    )  # fmt: skip
    plain = Part(name="p", words="p", estimate=estimate(0.0, 0.01), region=Region(low=0.5))
    assert (hidden.verdict(1), plain.verdict(1)) == (UNDECIDED, FAILS)


def test_one_that_fails_fails_all_and_one_that_holds_is_enough_somewhere() -> None:
    assert of_parts([HOLDS, FAILS, UNDECIDED]) == FAILS
    assert of_parts([HOLDS, UNDECIDED]) == UNDECIDED
    assert of_parts([HOLDS, UNTESTABLE]) == HOLDS
    assert of_parts([UNTESTABLE]) == UNTESTABLE
    assert of_any([HOLDS, FAILS]) == HOLDS
    assert of_any([FAILS, UNDECIDED]) == UNDECIDED
    assert of_any([FAILS, FAILS]) == FAILS
    assert of_any([]) == UNTESTABLE


def test_how_many_processes_would_decide_it() -> None:
    """0.2 above the margin with 5 processes' error of 0.1: a spread of 0.224 and t(n-1) say 8.

    7: 2.447 x 0.224/√7 = 0.207; 8: 2.365 x 0.224/√8 = 0.187.
    """
    open_ = Part(
        name="p",
        words="p",
        region=ABOVE,
        estimate=estimate(0.3, 0.1, processes=5, degrees_of_freedom=4),
    )
    assert open_.processes_to_decide() == 8
    one = Part(name="p", words="p", region=ABOVE, estimate=estimate(0.3, 0.1, processes=1))
    assert one.processes_to_decide() == 3
    at_margin = Part(name="p", words="p", region=ABOVE, estimate=estimate(0.101, 0.1))
    assert at_margin.processes_to_decide() is None


def cases(*verdicts: Verdict) -> list[Judged]:
    labels = ("lenet", "dqn", "vgg16")
    return [
        Judged(case=Case(label=label), verdict=verdict, parts=())
        for label, verdict in zip(labels, verdicts, strict=False)
    ]


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ((HOLDS,), ["one model", "(lenet)"]),
        ((HOLDS, HOLDS), ["In both models"]),
        ((HOLDS, FAILS, UNDECIDED), ["In 1 of 3 models", "(not in dqn;", "undecided in vgg16)"]),
        ((FAILS,), ["not hold", "lenet"]),
        ((FAILS, FAILS), ["not hold", "2 models"]),
        ((UNDECIDED,), ["undecided", "lenet"]),
        ((UNDECIDED, UNDECIDED), ["undecided", "both models"]),
        ((UNDECIDED, UNDECIDED, UNDECIDED), ["undecided", "all 3 models"]),
        ((FAILS, UNDECIDED), ["none of 2 models", "(not in lenet;", "undecided in dqn)"]),
    ],
)
def test_where_a_claim_holds_is_said_before_it(
    verdicts: tuple[Verdict, ...], words: list[str]
) -> None:
    assert_says(in_how_many(cases(*verdicts), "model"), *words)

"""Whether the machine changed between runs: shown where it did, not where it did not, and unknown without canaries."""

from __future__ import annotations

import math

import pytest
from tests.comparison.made import canary
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.insight.compare.drift import canary_of, drift_between, drift_within


def test_a_machine_that_got_slower_is_seen_by_single_runs() -> None:
    drift = drift_between([canary((1.00, 1.02))], [canary((1.10, 1.12))])
    assert drift.shown
    assert drift.low == 0
    assert drift.high == pytest.approx(math.log(math.sqrt(1.10 * 1.12 / 1.02)))
    assert_says(drift.sentences[0], "computing", "10 % more")


def test_looks_that_overlap_show_nothing() -> None:
    drift = drift_between([canary((1.00, 1.10))], [canary((1.09, 1.20))])
    assert not drift.shown
    assert drift.sentences == ()


def test_a_change_of_less_than_three_percent_is_none() -> None:
    same, other = [canary((1.0, 1.0))] * 3, [canary((1.02, 1.02))] * 3
    assert not drift_between(same, other).shown
    assert not drift_between(same[:1], other[:1]).shown


def test_of_several_runs_their_spread_decides() -> None:
    wide = [canary((look, look)) for look in (0.8, 1.0, 1.2)]
    assert not drift_between(
        wide, [canary((1.1 * c.looks["compute_s"][0],) * 2) for c in wide]
    ).shown
    tight = [canary((look, look)) for look in (0.99, 1.0, 1.01)]
    moved = [canary((1.1 * c.looks["compute_s"][0],) * 2) for c in tight]
    assert drift_between(tight, moved).high == pytest.approx(math.log(1.1))


def test_parts_that_change_in_opposite_ways_open_both_ends() -> None:
    drift = drift_between([canary((1, 1), (1, 1))], [canary((1.2, 1.2), (0.9, 0.9))])
    assert drift.high == pytest.approx(math.log(1.2))
    assert drift.low == pytest.approx(math.log(0.9))
    assert_says(drift.sentences[0], "10 % less and 20 % more")


def test_a_part_that_did_not_change_took_as_much_time() -> None:
    drift = drift_between([canary((1, 1), (1, 1))], [canary((1.2, 1.2), (1.001, 1.001))])
    assert_says(drift.sentences[0], "copying memory", "as much")


def test_without_a_canary_nothing_is_known() -> None:
    drift = drift_between([canary((1, 1)), None], [canary((1, 1))])
    assert not drift.shown
    assert drift.reason is not None
    assert "no canary" in drift.reason


def test_canaries_of_other_work_are_not_compared() -> None:
    drift = drift_between([canary((1, 1))], [canary((2, 2), version=2)])
    assert not drift.shown
    assert drift.reason is not None
    assert "did different work" in drift.reason


def test_canaries_of_two_kinds_are_never_compared() -> None:
    old, new = canary((1, 1), kind="python 3.6"), canary((2, 2), kind="python 3.11")
    drift = drift_between([old], [new])
    assert not drift.shown
    assert_says(drift.reason, "python 3.11", "python 3.6")
    assert drift_between([new], [canary((3, 3), kind="python 3.11")]).shown


def test_a_machine_that_changes_within_a_run_is_told() -> None:
    assert drift_within(canary((1.0, 1.05))) is None
    assert drift_within(canary((1.0, 1.25))) == (0.25, "computing")
    assert drift_within(canary((1.0, 1.25), (2.0, 1.0))) == (-0.5, "copying memory")
    assert drift_within(None) is None


def look(compute: float, right: bool = True) -> dict[str, object]:
    return {"at_ns": 1, "compute_s": [compute] * 3, "memory_s": [1.0] * 3, "right": right}


def test_a_canary_is_read_by_the_medians_of_its_passes() -> None:
    passes = {**look(1.0), "compute_s": [1.0, 9.0, 2.0]}
    found = canary_of({"version": 1, "before": passes})
    assert found is not None
    assert found.looks["compute_s"] == (2.0,)


def test_a_look_that_was_not_made_is_none_also_where_it_is_written_down_as_such() -> None:
    canary = canary_of({"version": 1, "kind": "numpy", "before": look(2.0), "after": None})
    assert canary is not None
    assert canary.looks["compute_s"] == (2.0,)


def test_work_that_came_out_wrong_tells_nothing() -> None:
    assert canary_of({"version": 1, "before": look(1.0), "after": look(1.0, right=False)}) is None
    assert canary_of({}) is None


@pytest.mark.parametrize(
    "document",
    [
        {"before": look(1.0)},
        {"version": 1, "before": {"right": True}},
        {"version": 1, "before": look(0.0)},
        {"version": 1, "before": look(math.nan)},
        {"version": 1, "before": 7},
    ],
)
def test_a_garbled_canary_is_one_clear_line(document: dict[str, object]) -> None:
    with refused("damaged-field", "canary"):
        canary_of(document)

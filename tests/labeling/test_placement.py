"""Samples shared among unequal processors: by what each takes, with the labels of one alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.labeling.made import Clock, Made, X, blobs
from tests.refusals import refused

from wattstep.labeling import AutoLabeler
from wattstep.labeling.costs import Cost, fastest
from wattstep.labeling.lookup import Index, look_up
from wattstep.labeling.placed import placement_report
from wattstep.labeling.placement import Placement
from wattstep.schema.figure import Status


def test_shares_end_together() -> None:
    # 3 : 1 by samples; the second begins 0.04 s late. Until t: 300 t + 100 (t - 0.04) = 500, t = 1.26.
    split = fastest([Cost(piece=0, sample=1 / 300), Cost(piece=0.04, sample=0.01)], 500)
    assert split.shares == (384, 116)  # 378 and 122, in steps of 16
    assert split.seconds == pytest.approx(1.28)


@pytest.mark.parametrize(
    ("late", "slower", "shares"),
    [
        (0.0, 1.0, (256, 244)),
        (4.9, 1.0, (256 + 240, 4)),
        (5.0, 1.0, (500, 0)),
        (0.0, 2.1, (500, 0)),
    ],
)
def test_who_is_not_worth_it_gets_nothing(
    late: float, slower: float, shares: tuple[int, ...]
) -> None:
    one = Cost(piece=0, sample=0.01, slower=slower)
    split = fastest([one, Cost(piece=late, sample=0.01, slower=slower)], 500)
    assert split.shares == shares
    assert split.alone == (0 in shares)


def test_what_others_slow_down_is_learned(clock: Clock, index: Index) -> None:
    # Alone each takes 10 ms a sample: 2.5 s for a half. Beside each other, three times as long.
    pair = [Made(clock, "one", 0, 0.01), Made(clock, "other", 0, 0.01)]
    placement = Placement(pair, clock)
    placement(index, X, X)
    assert placement.split(500).shares == (256, 244)
    for each in pair:
        each.sample = 0.03
    for _ in range(3):
        placement(index, X, X)
    # Median of the last four: (1 + 3 + 3 + 3); 7.5 s together, 5 s alone.
    assert placement.split(500).shares in ((500, 0), (0, 500))
    assert placement.split(500).seconds == pytest.approx(5.0)
    for each in pair:
        each.sample = 0.01
    for _ in range(62):  # the 64th piece and those after it are shared again
        placement(index, X, X)
    assert placement.split(500).shares == (256, 244)


def test_nobody_is_faster_beside_others(clock: Clock, index: Index) -> None:
    # Something else ran while costs were measured: both take half as long now, which is seen beside each other.
    pair = [Made(clock, "one", 0, 0.01), Made(clock, "other", 0, 0.01)]
    placement = Placement(pair, clock)
    placement(index, X, X)
    for each in pair:
        each.sample = 0.005
    for _ in range(3):
        placement(index, X, X)
    assert [cost.seconds(500, alone=True) for cost in placement.costs()] == pytest.approx([2.5] * 2)
    assert placement_report(placement).shares[0].slower.value == pytest.approx(1.0)


def test_costs_are_measured_and_predictions_beside_them(clock: Clock, index: Index) -> None:
    one, other = Made(clock, "one", 0.1, 0.01), Made(clock, "other", 0.3, 0.02)
    placement = Placement([one, other], clock)
    found = placement(index, X, X)
    assert (found.near.nodes == look_up(index, X, X).near.nodes).all()
    placement(index, X[:40], X[:40])  # too few to share: to the first
    report = placement_report(placement)
    first, second = report.shares
    assert (first.sample.value, first.piece.value) == pytest.approx((0.01, 0.1))
    assert (second.sample.value, second.piece.value) == pytest.approx((0.02, 0.3))
    assert second.hold.value == pytest.approx(0.5)
    assert first.sample.status is Status.MEASURED
    # Both end after 3.5 s: 340 samples of the first, 160 of the second.
    assert (one.sizes[-2:], other.sizes[-1]) == ([336, 40], 164)
    assert (first.samples, second.samples) == (376, 164)
    assert (report.predicted.value, report.measured.value) == pytest.approx((3.58, 3.58))
    assert second.without.value == pytest.approx(5.1)
    assert second.with_it.value == pytest.approx(3.58)


def test_memory_that_changed_is_sent_and_costed(clock: Clock, index: Index) -> None:
    one, other = Made(clock, "one", 0, 0.001, hold=0), Made(clock, "other", 0, 0.001)
    placement = Placement([one, other], clock)
    placement(index, X, X)
    after = Index(nodes=index.nodes + 1, labeled=30, near=10, forests=())
    # 0.25 s each, but for the half second until the other has it: the one alone takes as long.
    assert placement.split(500).shares == (256, 244)
    assert placement.split(500, after).shares == (500, 0)
    for _ in range(2):
        found = placement(after, X, X)
        assert (found.near.squares == look_up(after, X, X).near.squares).all()
    # Twice when it was measured, then where it had a share.
    assert (one.held, other.held) == (3, 2)


def test_a_device_that_finds_something_else(clock: Clock, index: Index) -> None:
    wrong = Made(clock, "opencl:3", 0, 0.01)
    wrong.moved = 1
    with refused("lookup-differs", "opencl:3"):
        Placement([Made(clock, "cpu", 0, 0.01), wrong], clock)(index, X, X)


@pytest.mark.parametrize("names", [(), ("gpu",), ("cpu", "cpu"), ("",), ("CPU",)])
def test_processors_that_are_none(names: tuple[str, ...]) -> None:
    with refused("unknown-processor"):
        AutoLabeler(processors=names).fit(*blobs(30, (0, 1, 2), seed=1))


def test_labels_and_state_without_processors(tmp_path: Path) -> None:
    plain = AutoLabeler(candidates=8, memory=100).fit(*blobs(30, (0, 1, 2), seed=1))
    placed = AutoLabeler(candidates=8, memory=100, processors=("cpu",))
    placed.fit(*blobs(30, (0, 1, 2), seed=1))
    x, _ = blobs(300, (0, 1, 2, 3), seed=2)
    assert plain.placement_ is None
    for first in (0, 150):
        one, other = (each.partial_label(x[first : first + 150]) for each in (plain, placed))
        assert (one.probability == other.probability).all()
        assert (one.status == other.status).all()
    assert placed.placement_ is not None
    assert placed.placement_.tallies[0].samples == 300
    placed.save(tmp_path / "state.npz")
    assert AutoLabeler.load(tmp_path / "state.npz").placement_ is None
    again = AutoLabeler.load(tmp_path / "state.npz", processors=("cpu",))
    assert again.placement_ is not None

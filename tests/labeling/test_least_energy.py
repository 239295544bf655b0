"""The least energy within a bound: against every share there is, and by processors whose costs and powers are made."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tests.labeling.made import Clock, Made, X
from tests.refusals import refused

from wattstep import devices
from wattstep.labeling.costs import STEP, Cost, cheapest, fastest
from wattstep.labeling.lookup import Index
from wattstep.labeling.placed import placement_report
from wattstep.labeling.placement import Placement
from wattstep.labeling.power import STATED, Load, parse_watts, powers_of
from wattstep.report.labeling_tables import processors
from wattstep.schema.figure import Figure, Status


def every_share(count: int, samples: int) -> list[tuple[int, ...]]:
    """All shares in steps of 16, of which the last that gets any has what is left of the piece."""
    steps = range(0, samples + STEP, STEP)
    return [
        (*few, last, *[0] * (count - 1 - len(few)))
        for length in range(count)
        for few in product(steps, repeat=length)
        if (last := samples - sum(few)) > 0
    ]


def taken(cost: Cost, share: int, alone: bool) -> float:
    if not share:
        return 0.0
    return (cost.changed if alone else cost.slower) * (cost.piece + cost.sample * share)


def by_search(
    costs: list[Cost], watts: list[float], samples: int, within: float
) -> tuple[float, tuple[int, ...]] | None:
    found = []
    for shares in every_share(len(costs), samples):
        alone = sum(map(bool, shares)) == 1
        busy = [taken(cost, share, alone) for cost, share in zip(costs, shares, strict=True)]
        if max(busy) <= within:
            found.append((sum(w * t for w, t in zip(watts, busy, strict=True)), shares))
    return min(found, default=None)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("samples", [40, 160, 250])
def test_least_energy_of_all_shares(count: int, samples: int) -> None:
    random = np.random.default_rng(count * samples)
    held = 0
    for _ in range(20):
        costs = [
            Cost(
                piece=random.uniform(0, 0.1), sample=random.uniform(1e-3, 5e-3),
                slower=random.uniform(1, 2), changed=random.uniform(0.8, 1.2),
            )
            for _ in range(count)
        ]  # fmt: skip
        watts = random.uniform(0.5, 5, count).tolist()
        within = random.uniform(0.6, 2) * fastest(costs, samples).seconds
        least, split = (
            by_search(costs, watts, samples, within),
            cheapest(costs, watts, samples, within),
        )
        assert (least is None) == (split is None)
        if least is not None and split is not None:
            held += 1
            assert split.joules(watts) == pytest.approx(least[0])
            assert split.seconds <= within
            assert sum(split.shares) == samples
    assert 0 < held < 20  # bounds of both kinds were there


@pytest.mark.parametrize(
    ("bound", "shares", "joules"),
    [
        (0.65, (0, 160), 0.64),  # the thrifty one alone takes 0.64 s at 1 W
        (0.33, (80, 80), 1.12),  # in which it does 82 samples: 0.32 J, and 0.08 s at 10 W
        (0.13, (128, 32), 1.408),  # as the fastest shares
        (0.12, None, None),
    ],
)
def test_a_tighter_bound_costs_more(
    bound: float, shares: tuple[int, ...] | None, joules: float | None
) -> None:
    costs = [Cost(piece=0, sample=0.001), Cost(piece=0, sample=0.004)]
    split = cheapest(costs, [10.0, 1.0], 160, bound)
    assert (None if split is None else split.shares) == shares
    if split is not None:
        assert split.joules([10.0, 1.0]) == pytest.approx(joules)


def watts(*values: float) -> tuple[Figure, ...]:
    return tuple(
        Figure(value=each, unit="W", status=Status.PREDICTED, source=STATED) for each in values
    )


def test_energy_of_pieces_within_a_bound(clock: Clock, index: Index) -> None:
    pair = [Made(clock, "fast", 0, 0.001, hold=0), Made(clock, "thrifty", 0, 0.004, hold=0)]
    placement = Placement(pair, clock, powers=watts(10.0, 1.0), latency_s=1.1)
    placement(index, X, X)
    report = placement_report(placement)
    # In 1.1 s the thrifty one does 275 of the 500, in steps of 16 and what these leave: 260 in 1.04 s, for 1.04 J;
    # the other 240 in 0.24 s, for 2.4 J. First done were 400 and 100 after 0.4 s, for 4 J and 0.4 J.
    assert [each.samples for each in report.shares] == [240, 260]
    assert report.energy.value == pytest.approx(3.44)
    assert report.energy_fastest.value == pytest.approx(4.4)
    assert (report.energy.status, report.energy.unit, report.energy.low) == (
        Status.PREDICTED,
        "J",
        None,
    )
    assert report.latency is not None
    assert (report.latency.held, report.latency.kept) == (1, 1)
    said = " ".join(processors(report))
    assert all(each in said for each in ("1100 ms", "10.0 W", STATED, "3.44 J"))


def test_a_bound_that_nothing_holds(clock: Clock, index: Index) -> None:
    pair = [Made(clock, "one", 0, 0.001, hold=0), Made(clock, "other", 0, 0.004, hold=0)]
    placement = Placement(pair, clock, powers=watts(10.0, 1.0), latency_s=0.1)
    placement(index, X, X)
    report = placement_report(placement)
    assert [each.samples for each in report.shares] == [400, 100]
    assert report.energy.value == report.energy_fastest.value == pytest.approx(4.4)
    assert report.latency is not None
    assert (report.latency.held, report.latency.kept) == (0, 0)
    assert "0 of 1" in processors(report)[-1]


def test_energy_without_a_bound_and_without_powers(clock: Clock, index: Index) -> None:
    placement = Placement([Made(clock, "one", 0, 0.001, hold=0)], clock)
    placement(index, X, X)
    report = placement_report(placement)
    assert report.energy.missing
    assert report.shares[0].power.missing
    assert report.to_dict()["latency"] is None
    ranged = replace(watts(2.0)[0], low=1.0, high=4.0)
    placement = Placement([Made(clock, "one", 0, 0.001, hold=0)], clock, powers=[ranged])
    placement(index, X, X)
    energy = placement_report(placement).energy
    assert (energy.low, energy.value, energy.high) == pytest.approx((0.5, 1.0, 2.0))


def test_powers_of_a_device_s_file() -> None:
    # A Pi 4's four cores add 2.8 W (1.8 to 3.6) when all are busy.
    loads = [Load(name="cpu:0-1", kind="cpu", cores=(0, 1)), Load(name="opencl", kind="cpu")]
    half, stated = powers_of(loads, {"opencl": 3.0}, "raspberry-pi-4")
    assert (half.value, half.low, half.high) == pytest.approx((1.4, 0.9, 1.8))
    assert "raspberry-pi-4" in str(half.source)
    assert "estimate" in str(half.source)
    assert (stated.value, stated.source) == (3.0, STATED)
    # A Snapdragon 865: 3.4 W of its GPU.
    (gpu,) = powers_of([Load(name="opencl:0", kind="gpu")], {}, "snapdragon-865")
    assert (gpu.value, gpu.low, gpu.high) == (3.4, 1.8, 5.2)


def test_power_of_a_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows the idle and the full machine: 6.4 (5.0 to 7.0) less 2.7 W (2.2 to 3.0) on a Pi 4."""
    pi = devices.find("raspberry-pi-4")
    bare = replace(pi, power=replace(pi.power, parts={}))
    monkeypatch.setattr(devices, "find", lambda name: bare)
    (one,) = powers_of([Load(name="cpu:0", kind="cpu", cores=(0,))], {}, "mine.toml")
    assert one.value == pytest.approx(3.7 / 4)
    assert one.low == pytest.approx((3.7 - (1.4**2 + 0.3**2) ** 0.5) / 4)
    assert one.high == pytest.approx((3.7 + (0.6**2 + 0.5**2) ** 0.5) / 4)


@pytest.mark.parametrize(
    ("load", "device", "id"),
    [
        (Load(name="opencl:0", kind="gpu"), None, "needs-power"),
        (Load(name="opencl:0", kind="gpu"), "raspberry-pi-4", "needs-power"),
        (Load(name="opencl:0", kind="cpu"), "raspberry-pi-4", "needs-power"),
        (Load(name="cpu", kind="cpu"), "raspberry-pi-4", "needs-power"),
        # Its file has the power of big and small cores together.
        (Load(name="cpu:0-3", kind="cpu", cores=(0, 1, 2, 3)), "snapdragon-865", "needs-power"),
        (Load(name="cpu:0-4", kind="cpu", cores=(0, 1, 2, 3, 4)), "raspberry-pi-4", "core-refused"),
    ],
)
def test_powers_that_nobody_knows(load: Load, device: str | None, id: str) -> None:
    with refused(id, load.name):
        powers_of([load], {}, device)


@pytest.mark.parametrize(
    ("stated", "id"),
    [
        ({"gpu": 1.0}, "unknown-processor"),
        ({"cpu": 0.0}, "out-of-range"),
        ({"cpu": float("nan")}, "out-of-range"),
        ({"cpu": float("inf")}, "out-of-range"),
    ],
)
def test_stated_powers_that_cannot_be(stated: dict[str, float], id: str) -> None:
    with refused(id, *stated):
        powers_of([Load(name="cpu", kind="cpu")], stated, None)


def test_powers_as_they_are_written() -> None:
    assert parse_watts("cpu:0-3=1.2,opencl:0=4") == {"cpu:0-3": 1.2, "opencl:0": 4.0}
    for text in ("", "cpu", "cpu=", "=1", "cpu=x", "cpu=1,", "cpu=1,cpu=2"):
        with refused("malformed-power"):
            parse_watts(text)

"""Times on thread counts that were not tried, learned from few that were; changes of the device are noticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import log
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refused
from tests.scheduling.made import task

from wattstep.schedule.curve import Curve
from wattstep.schedule.machine import manycore
from wattstep.schedule.model import TaskTimes
from wattstep.schedule.times import MachineTimes, Running

CORES = 68
TRUTHS: dict[str, Callable[[float], float]] = {
    "Amdahl": lambda p: 0.05 + 0.95 / p,
    "overhead": lambda p: 0.01 + 0.99 / p + 0.002 * p,
    "bandwidth": lambda p: max(0.9 / p, 0.1) + 0.05,
    "power law": lambda p: p**-0.8,
    "in pieces": lambda p: 0.02 + 0.98 * np.ceil(1024 / p) / 1024,
    "never scales": lambda p: 1.0 + 0.01 * p,
}


def learned(truth: Callable[[float], float], *, noise: float, seed: int = 5) -> Curve:
    """A curve whose every wish was measured three times."""
    dice = np.random.default_rng(seed)
    curve = Curve(CORES)
    while (threads := curve.next_to_try()) is not None:
        for _ in range(3):
            curve.add(threads, truth(threads) * float(np.exp(dice.normal(0, noise))))
    return curve


@pytest.mark.parametrize("name", TRUTHS)
def test_times_on_thread_counts_not_tried_are_within_five_per_cent_on_average(name: str) -> None:
    truth = TRUTHS[name]
    curve = learned(truth, noise=0.02)
    untried = [n for n in range(1, CORES + 1) if n not in curve.points]
    assert len(untried) >= CORES - 14
    errors = [abs(curve.at(n).value / truth(n) - 1) for n in untried]
    assert sum(errors) / len(errors) < 0.05
    inside = [curve.at(n).low <= truth(n) <= curve.at(n).high for n in untried]
    assert sum(inside) / len(inside) >= 0.8
    assert truth(curve.best()) <= min(map(truth, range(1, CORES + 1))) * 1.06


def test_climbing_stops_where_more_threads_take_longer() -> None:
    curve = Curve(CORES)
    asked = []
    while (threads := curve.next_to_try()) is not None:
        asked.append(threads)
        curve.add(threads, 1.0 + 0.1 * threads)
    assert asked[:3] == [1, 2, 4]  # twice slower: no use to go on
    assert asked[3] == CORES  # the far end, from which the rest is interpolated
    assert 32 not in asked[:5]


def test_one_core_needs_one_measurement() -> None:
    curve = Curve(1)
    assert curve.next_to_try() == 1
    curve.add(1, 2.0)
    assert curve.next_to_try() is None
    assert curve.at(1).value == pytest.approx(2.0)


def model() -> TaskTimes:
    """One that has learned a convolution and an addition on two threads."""
    times = TaskTimes("here", (2,))
    for _ in range(5):
        for threads, seconds in ((1, 2.0), (2, 1.1)):
            times.add("convolution", "a", threads, seconds)
            times.add("elementwise", "b", threads, seconds / 10)
    return times


def test_the_model_gives_back_what_was_measured_within_its_interval() -> None:
    time = model().seconds(task("a", kind="convolution"), 2)
    assert time.low < 1.1 < time.high
    assert time.value == pytest.approx(1.1, rel=0.01)
    assert model().best("convolution", "a") == 2


def test_a_device_that_slows_down_is_noticed_and_learned_again() -> None:
    times = model()
    dice = np.random.default_rng(3)
    for _ in range(100):
        times.add("convolution", "a", 2, 1.1 * float(np.exp(dice.normal(0, 0.02))))
    assert not times.disturbed()
    for _ in range(5):  # a quarter more at 2 % of noise is seen within a few steps
        if not times.disturbed():
            times.add("convolution", "a", 2, 1.1 * 1.25 * float(np.exp(dice.normal(0, 0.02))))
    assert times.disturbed()
    assert times.relearn() == pytest.approx(1.25, rel=0.06)
    assert not times.disturbed()
    # What was not measured since goes by the same factor, less surely, and is asked for again.
    other = times.seconds(task("b", kind="elementwise"), 1)
    assert other.value == pytest.approx(0.25, rel=0.06)
    assert log(other.high / other.value) > 0.1
    assert times.next_to_try("elementwise", "b") in (1, 2)
    for threads in (1, 2):
        times.add("elementwise", "b", threads, 0.3)
    assert times.seconds(task("b", kind="elementwise"), 1).value == pytest.approx(0.3, rel=0.02)


def test_the_factors_of_states_that_come_and_go_do_not_multiply() -> None:
    times = model()
    untouched = times.seconds(task("b", kind="elementwise"), 1).value
    for _ in range(5):  # other programs hold it up, and are gone when it is measured again
        for _ in range(5):
            times.add("convolution", "a", 2, 22.0)
        assert times.relearn() == pytest.approx(20, rel=0.01)
        for _ in range(5):
            times.add("convolution", "a", 2, 1.1)
    assert times.seconds(task("b", kind="elementwise"), 1).value == pytest.approx(
        20 * untouched, rel=0.01
    )


def test_noise_alone_is_no_disturbance() -> None:
    dice = np.random.default_rng(11)
    times = TaskTimes("here", (1,))
    for _ in range(2000):
        times.add("convolution", "a", 1, float(np.exp(dice.normal(0, 0.03))))
        assert not times.disturbed()


def test_neighbours_and_changes_of_threads_are_medians_of_what_was_measured() -> None:
    times = model()
    for factor in (1.2, 1.4, 9.0):
        times.add_beside("convolution", "elementwise", factor)
        times.add_switch(1, 2, factor / 1e6)
    convolution = Running(task("a", kind="convolution"), 1)
    addition = Running(task("b", kind="elementwise"), 1)
    assert times.slowdown(convolution, [addition]).value == pytest.approx(1.4)
    assert times.slowdown(convolution, [addition, addition]).value == pytest.approx(1.96)
    # nobody measured it, and there is no prior
    assert times.slowdown(addition, [convolution]) == (1.0, 1.0, 1.0)
    for seconds in (3e-6, 5e-6, 90e-6):
        times.add_handover(seconds)
    assert times.handover_s() == pytest.approx(5e-6)
    assert times.switch_s(1, 2) == pytest.approx(1.4e-6)
    assert times.switch_s(2, 1) == pytest.approx(1.4e-6)  # as of those that were measured
    assert times.switch_s(2, 2) == 0.0


def test_what_was_not_measured_is_the_priors_or_refused() -> None:
    unseen = task("c", kind="pooling", bytes_moved=10**6)
    with refused("unmeasured-operation", "pooling", "here"):
        model().seconds(unseen, 1)
    prior = MachineTimes(manycore())
    times = TaskTimes("here", (68,), prior=prior)
    assert times.seconds(unseen, 30) == prior.seconds(unseen, 30)


def test_a_model_is_the_same_once_written_and_read(tmp_path: Path) -> None:
    times = model()
    times.add_beside("convolution", "elementwise", 1.4)
    times.add_switch(1, 2, 1e-6)
    times.add_handover(2e-6)
    times.relearn()
    file = tmp_path / "here.json"
    times.save(file)
    assert TaskTimes.load(file, "here").to_dict() == times.to_dict()
    with refused("other-performance-model", "here", "there"):
        TaskTimes.load(file, "there")


@pytest.mark.parametrize(
    "change",
    [
        {"format": 1},
        {"most": ["two"]},
        {"most": []},
        {"operations": [{"kind": "a"}]},
        {"operations": [{"kind": "a", "shape": "b", "cluster": 0, "points": [{"threads": 3, "seconds": [1.0], "stale": False}]}]},
        {"operations": [{"kind": "a", "shape": "b", "cluster": 0, "points": [{"threads": 1, "seconds": [0.0], "stale": False}]}]},
        {"operations": [{"kind": "a", "shape": "b", "cluster": 0, "points": [{"threads": 1, "seconds": [], "stale": False}]}]},
        {"beside": [{"kind": "a", "other": "b", "factors": [0.0]}]},
        {"handovers": [-1e-6]},
        {"device": 3},
        {"more": 1},
    ],
)  # fmt: skip
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    file = tmp_path / "model.json"
    file.write_text(json.dumps({**model().to_dict(), **change}), encoding="utf-8")
    with refused("damaged-performance-model", "model.json"):
        TaskTimes.load(file, "here")


@pytest.mark.parametrize(("threads", "cluster"), [(0, 0), (3, 0), (1, 1)])
def test_threads_beyond_the_cores_are_refused(threads: int, cluster: int) -> None:
    with pytest.raises(ValueError, match="cluster"):
        model().add("convolution", "a", threads, 1.0, cluster)


def test_cores_of_all_clusters_together_have_times_of_their_own() -> None:
    times = TaskTimes("here", (2, 1))
    for seconds, threads, cluster in ((1.0, 2, 0), (4.0, 1, 1), (3.0, 3, times.together)):
        times.add("elementwise", "b", threads, seconds, cluster)
    one = task("b", kind="elementwise")
    back = TaskTimes.from_dict(times.to_dict())
    for each in (times, back):
        told = [each.seconds(one, *where).value for where in ((2, 0), (1, 1), (3, 0), (3, 1))]
        assert told == pytest.approx([1.0, 4.0, 3.0, 3.0])
    with refused("too-many-threads", "here", 3):
        times.seconds(one, 4)
    with refused("too-many-threads", "here", 1):
        TaskTimes("here", (1,)).seconds(one, 2)

"""The canary: fixed work around a training, checked, and outside of what the training is charged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.wording import saying

from wattstep.run import load
from wattstep.schema.run_info import RunInfo
from wattstep.sweep.plan import SweepPlan
from wattstep.train.environment import canary, plain_canary
from wattstep.train.loop import train
from wattstep.train.settings import TrainingSettings


def ticking() -> Iterator[int]:
    """A clock that goes on by 1 ms a look."""
    now = 0
    while True:
        yield now
        now += 1_000_000


def test_the_work_is_fixed_and_its_time_limited() -> None:
    clock = ticking()
    found = canary.work(seconds=0.1, clock=lambda: next(clock))
    # Four looks a pass: begin, middle, end, and whether there is time for another.
    assert len(found["compute_s"]) == len(found["memory_s"]) == 25
    assert set(found["compute_s"]) == set(found["memory_s"]) == {0.001}
    assert found["right"]


def test_each_part_has_five_passes_however_slow_the_machine_is() -> None:
    clock = ticking()
    assert len(canary.work(seconds=0.0, clock=lambda: next(clock))["memory_s"]) == 5


@pytest.mark.parametrize("rounds", [0, 1, 2, 1000, 5001])
def test_the_result_is_known_beforehand(rounds: int) -> None:
    number = 77
    for _ in range(rounds):
        number = (number * canary.FACTOR + canary.SUMMAND) % 2**32
    assert canary.expected(77, rounds) == number


def test_a_result_that_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    add = np.add

    def erring(left: np.ndarray, right: np.uint32, out: np.ndarray) -> None:
        add(left, right, out=out)
        out[-1] ^= np.uint32(1 << 7)  # one bit

    monkeypatch.setattr(np, "add", erring)
    assert not canary.work(seconds=0.0)["right"]


def settings(path: Path, **more: object) -> TrainingSettings:
    return TrainingSettings(
        workload="lenet", steps=3, trace="none", threads=1, out=str(path), **more
    )  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose process did nothing before it, so that its peak is its own."""
    path = tmp_path_factory.mktemp("canary") / "run"
    options = settings(path, canary=True, idle="1ms")
    recording = get_context("spawn").Process(target=train, args=(options, print))
    recording.start()
    recording.join()
    assert recording.exitcode == 0
    return path


def test_a_run_holds_what_its_canaries_took_and_when(watched: Path) -> None:
    run = load(watched)
    found, steps = run.info.canary, run.series.steps
    assert found["version"] == canary.VERSION
    assert found["before"]["at_ns"] < steps.start_ns[0]
    assert found["after"]["at_ns"] > steps.end_ns[-1]
    assert min(found["before"]["compute_s"] + found["after"]["memory_s"]) > 0
    assert RunInfo.from_dict(run.info.to_dict()).canary == found


def test_the_canary_is_a_rest_outside_of_steps_and_of_the_peak(watched: Path) -> None:
    run = load(watched)
    spans, steps = run.series.steps.rest_ns["canary"], run.series.steps
    assert len(spans) == 2
    assert spans[0, 1] <= steps.start_ns[0]
    assert spans[1, 0] >= steps.end_ns[-1]
    idle = run.series.steps.rest_ns["idle_after"]
    assert spans[1, 1] <= idle[0, 0]  # its rest has ended when the next begins
    table = run.tables.table("memory").to_pydict()
    by_category: dict[str, list[int]] = {}
    for category, size in zip(table["category"], table["bytes"], strict=True):
        by_category.setdefault(category, []).append(size)
    highest = max(by_category["peak_resident_apart"])
    assert highest - run.metrics()["peak_memory"].value > canary.BUFFER
    document = run.document()
    assert "canary" not in {**document["rests"], **document["rests_outside_steps"]}


def test_no_canary_unless_asked_for(tmp_path: Path) -> None:
    train(settings(tmp_path / "run"), lambda progress: None)
    run = load(tmp_path / "run")
    assert run.info.canary == {}
    assert "canary" not in run.series.steps.rest_ns


def test_without_memory_for_it_a_run_goes_on_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(seconds: float) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(canary, "work", refuse)
    recorder = train(settings(tmp_path / "run", canary=True), lambda progress: None)
    assert recorder.problem is None
    assert saying(recorder._notes, "no canary before")
    assert load(tmp_path / "run").info.canary == {}


def test_the_plain_canary_does_work_whose_result_is_known_beforehand() -> None:
    clock = ticking()
    found = plain_canary.work(0.0, lambda: next(clock))
    assert len(found["compute_s"]) == len(found["memory_s"]) == 5
    assert set(found["compute_s"]) == set(found["memory_s"]) == {0.001}
    assert found["right"]
    assert plain_canary.compute(77, 1000) == canary.expected(77, 1000)


def test_a_plain_canary_that_errs_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_canary, "compute", lambda number, rounds: number ^ 1)
    assert not plain_canary.work(0.0, time.perf_counter_ns)["right"]


def test_on_a_machine_that_crawls_a_canary_ends_after_two_seconds() -> None:
    now = iter(range(0, 10**15, 10**9))  # a look at the clock takes a second
    assert len(canary.work(seconds=0.1, clock=lambda: next(now))["memory_s"]) == 1
    later = iter(range(0, 10**15, 10**9))
    assert len(plain_canary.work(0.1, lambda: next(later))["memory_s"]) == 1


def test_the_second_look_is_in_proportion_to_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a training of 4 s it takes 1 % of that, after a minute no more than the first."""
    asked = []
    monkeypatch.setattr(
        canary, "watch", lambda recorder, when, seconds, kind: asked.append(seconds)
    )
    for lasted in (4, 60):
        begun = time.perf_counter_ns() - lasted * 10**9
        recorder = SimpleNamespace(info=SimpleNamespace(canary={"before": {"at_ns": begun}}))
        canary.watch_briefly(recorder, canary.AFTER)  # type: ignore[arg-type]
    assert asked == [pytest.approx(0.04, rel=0.2), canary.BRIEF_S]


def test_configurations_of_a_sweep_have_a_canary_unless_their_memory_is_limited() -> None:
    shared = TrainingSettings(workload="lenet", steps=2)
    free = SweepPlan(settings=shared, workloads=("lenet",), batches=(4,))
    bounded = replace(free, memory_limit=2**30)
    for plan, wanted in ((free, True), (bounded, False)):
        (configuration,) = plan.configurations()
        assert plan.settings_of(configuration, out="x").canary is wanted
    assert free.shared["canary"] is False  # a sweep that was begun before goes on

"""Plans on cores of several kinds: measured on each, carried out on each, ended as on equal ones.

The kinds are declared: cores of this machine are alike, and the times that plans are made by are the tests' own.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.engines.scheduled.made import Made, Views, Words, assert_same, trained
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.engines.torch.scheduled import planning, threads
from wattstep.engines.torch.scheduled.kept_times import FOLDER
from wattstep.engines.torch.scheduled.learning import Learned
from wattstep.engines.torch.scheduled.planning import here, numbers_of
from wattstep.engines.torch.scheduled.threads import TorchThreads
from wattstep.engines.torch.scheduled.trainer import ScheduledTrainer
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.report.scheduled import schedule_sentences
from wattstep.schema.run_report import RunReport
from wattstep.schema.workload import Preparation
from wattstep.store.cache import cache_folder

CORES = sorted(os.sched_getaffinity(0))
pytestmark = pytest.mark.skipif(len(CORES) < 2, reason="two kinds of cores need two cores")
# The fast kind is the last core, so that a plan's numbers are not the system's.
CLUSTERS = ((CORES[-1],), (CORES[0],))
SLOWER = 1.5


@pytest.fixture
def made_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations take 1 ms on the fast core, half as long again on the slow one, 10 ms on both together.

    Both are planned for, though steps before the plan run on one thread: sums are rounded otherwise on two.
    """

    def learn(
        captured: Any, batch: Any, machine: Any, optimizer: Any, model: Any, cores: Any
    ) -> Learned:
        for kind, shape in {(task.kind, task.shape) for task in captured.graph.tasks}:
            model.add(kind, shape, 1, 0.001, 0)
            model.add(kind, shape, 1, 0.001 * SLOWER, 1)
            model.add(kind, shape, 2, 0.010, model.together)
        return Learned(outside_s=0.0, steps=1, factor=None)

    monkeypatch.setattr(planning, "learn", learn)
    monkeypatch.setattr(planning, "here", lambda cores, clusters: here(2, clusters))


def by_kinds(model: Any, batches: list[Any], optimizer: Any = torch.optim.SGD) -> ScheduledTrainer:
    preparation = Preparation(batch_size=5, policy="heterogeneous", clusters=CLUSTERS)
    return ScheduledTrainer(Made(model, batches, optimizer), preparation)


def eager(model: Any, batches: list[Any], optimizer: Any = torch.optim.SGD) -> TorchTrainer:
    return TorchTrainer(Made(model, batches, optimizer), Preparation(batch_size=5), threads=1)


@pytest.mark.usefixtures("made_times")
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_losses_and_weights_are_torchs_to_the_last_bit(optimizer: Any) -> None:
    batches = [torch.randn(5, 6) for _ in range(20)]
    trainer = by_kinds(Views, batches, optimizer)
    planned = trained(trainer)
    (executor,) = trainer.executors
    assert executor.schedule.workers == 2
    assert {each.threads for each in executor.schedule.placed} == {1}
    assert_same(trained(eager(Views, batches, optimizer)), planned)


@pytest.mark.usefixtures("made_times")
def test_operations_run_on_their_cluster_and_the_slow_one_has_fewer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pin, pinned = threads._pin, defaultdict[int, list[set[int]]](list)

    def seen(cores: tuple[int, ...]) -> None:
        pin(cores)
        pinned[threading.get_native_id()].append(os.sched_getaffinity(0))

    monkeypatch.setattr(threads, "_pin", seen)
    trainer = by_kinds(Views, [torch.randn(5, 6) for _ in range(6)])
    trained(trainer, 6)
    (executor,) = trainer.executors
    assert len(executor.crew) == 2  # the caller's thread runs nothing, and stays where it was
    assert sorted(os.sched_getaffinity(0)) == CORES
    for worker, own in zip(executor.crew, executor.schedule.by_worker(), strict=True):
        [cores] = {each.cores for each in own}
        assert worker.native_id is not None
        assert pinned[worker.native_id] == [{CORES[core] for core in cores}] * 3  # once a step
        assert os.sched_getaffinity(worker.native_id) == pinned[worker.native_id][0]
    facts = trainer.scheduling()
    assert facts is not None
    fast, slow = facts["clusters"]
    assert (fast["cores"], slow["cores"]) == (str(CORES[-1]), str(CORES[0]))
    assert fast["tasks"] + slow["tasks"] == len(executor.schedule.placed)
    assert 0 < slow["tasks"] < fast["tasks"]
    assert slow["tasks_s"] == pytest.approx(0.001 * SLOWER * slow["tasks"], rel=0.01)
    said = " ".join(schedule_sentences(RunReport(schedule=facts)))
    assert_says(
        said, f"{slow['tasks']} on cores {CORES[0]}", f"{fast['tasks']} on cores {CORES[-1]}"
    )


def test_operations_are_measured_on_each_cluster_and_kept() -> None:
    torch.set_num_threads(2)
    told = []
    for _ in range(2):
        trainer = by_kinds(Views, [torch.randn(5, 6) for _ in range(5)])
        trained(trainer, 5)
        told.append(trainer.scheduling() or {})
        assert trainer.remarks() == []
    assert [each["times"] for each in told] == ["learned", "kept"]
    [file] = (cache_folder() / FOLDER).iterdir()
    model = json.loads(file.read_text())
    assert model["most"] == [1, 1]
    assert_says(model["device"], f"{CORES[-1]},{CORES[0]}")
    looks = {(task.kind, task.shape) for task in trainer.executors[0].captured.graph.tasks}
    measured = defaultdict[Any, list[tuple[int, int]]](list)
    for each in model["operations"]:
        for point in each["points"]:
            measured[each["kind"], each["shape"]].append((each["cluster"], point["threads"]))
    # On one thread of each cluster, and on two of both together.
    assert measured == {look: [(0, 1), (1, 1), (2, 2)] for look in looks}
    assert model["beside"]
    assert model["handovers"]


@pytest.mark.parametrize("clusters", [(), CLUSTERS[:1], (tuple(CORES),)])
def test_cores_of_one_kind_are_planned_for_as_ever(clusters: Any) -> None:
    assert here(2, clusters) == here(2)
    assert numbers_of(here(2, clusters), clusters) == ()


def test_the_first_kinds_are_used_first() -> None:
    clusters = ((4095, *CORES[1:]), (CORES[0],))
    machine = here(len(CORES), clusters)
    assert [each.cores for each in machine.clusters] == [len(CORES) - 1, 1]
    assert numbers_of(machine, clusters) == (*range(1, len(CORES)), 0)
    assert here(len(CORES) - 1, clusters) == here(len(CORES) - 1)


@pytest.mark.usefixtures("made_times")
def test_a_worker_that_raises_fails_the_step_as_torch_would() -> None:
    good, bad = torch.tensor([1, 2, 3]), torch.tensor([1, 99, 3])
    batches = [good] * 4 + [bad] + [good] * 3
    plain, trainer = eager(Words, batches), by_kinds(Words, batches)
    assert_same(trained(plain, 4), trained(trainer, 4))
    assert trainer.executors[0].crew
    for each in (plain, trainer):
        with pytest.raises(IndexError):
            each.step()
    plain.updates[0].optimizer.zero_grad()
    assert_same(trained(plain, 3), trained(trainer, 3))


@pytest.mark.usefixtures("made_times")
def test_an_interruption_is_raised_when_all_workers_have_stopped() -> None:
    batches = [torch.randn(5, 6) for _ in range(5)]
    trainer = by_kinds(Views, batches, torch.optim.Adam)
    trained(trainer, 4)
    (executor,) = trainer.executors
    captured, ended = executor.captured, []

    def optimize(*gradients: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        captured.optimize(*gradients)
        ended.append(True)

    interrupted = TorchThreads(replace(captured, optimize=optimize), executor.schedule)
    with pytest.raises(KeyboardInterrupt):
        interrupted.step([batches[0]])
    assert ended == [True]
    interrupted.close()
    trainer.step()


@pytest.mark.usefixtures("made_times")
def test_a_system_that_refuses_affinity_fails_the_step_with_one_line() -> None:
    batches = [torch.randn(5, 6) for _ in range(5)]
    trainer = by_kinds(Views, batches)
    trained(trainer, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda process: {4096})
        with refused("refused-affinity"):
            trainer.executors[0].step([batches[0]])
    trainer.step()

"""Operations of a plan as a traced step has them: their order, waits of workers, layers, cores."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from tests.engines.scheduled.made import Made, Words, shuffled, trained
from tests.wording import assert_says

from wattstep import load, workloads
from wattstep.engines.torch.scheduled.tracer import ScheduledTracer, teams
from wattstep.engines.torch.scheduled.trainer import ScheduledTrainer
from wattstep.insight.explain.gaps import gaps
from wattstep.insight.explain.processors import processors
from wattstep.report.scheduled import schedule_sentences
from wattstep.schedule import policies
from wattstep.schema.journal import UNTOLD
from wattstep.schema.operation_kinds import WORKER_WAIT
from wattstep.schema.workload import Preparation
from wattstep.train.loop import train
from wattstep.train.settings import TrainingSettings
from wattstep.workloads.torch.workload import TorchWorkload


def _traced(trainer: ScheduledTrainer) -> list[Any]:
    """Operations of the next step."""
    codes: dict[tuple[str, str], int] = {}
    tracer = ScheduledTracer(
        lambda *text: codes.setdefault(text, len(codes)), lambda: trainer.executors, []
    )
    tracer.open()
    trainer.step()
    tracer.close()
    return list(tracer.operations())


def test_what_a_plans_operations_allocate_is_not_known() -> None:
    # Workers take memory in threads of their own, where it cannot be seen: not 0 B.
    workload, preparation = TorchWorkload(workloads.find("lenet")), Preparation(batch_size=2)
    trainer = ScheduledTrainer(workload, preparation, threads=1)
    trained(trainer, 3)
    assert {row.allocated for row in _traced(trainer)} == {UNTOLD}


def test_a_task_begins_when_all_that_it_waits_for_has_ended() -> None:
    workload, preparation = TorchWorkload(workloads.find("lenet")), Preparation(batch_size=2)
    trainer = ScheduledTrainer(workload, preparation, threads=1, plan=shuffled)
    trained(trainer, 3)
    (executor,) = trainer.executors
    graph = executor.captured.graph
    for _ in range(10):
        times = executor.trace()
        trainer.step()
        spans = list(zip(times[::2], times[1::2], strict=True))
        assert all(0 < begin <= end for begin, end in spans)
        for task, earlier in enumerate(graph.after):
            assert all(spans[other][1] <= spans[task][0] for other in earlier)
    for own in executor.schedule.by_worker():
        assert all(spans[a.task][1] <= spans[b.task][0] for a, b in pairwise(own))


def test_waits_of_workers_are_told_apart_from_operations() -> None:
    trainer = ScheduledTrainer(
        Made(Words, [torch.tensor([1, 2, 3])] * 5), Preparation(batch_size=3), plan=shuffled
    )
    trained(trainer, 3)
    rows = _traced(trainer)
    waits = [row for row in rows if row.name == WORKER_WAIT]
    (executor,) = trainer.executors
    assert len(rows) - len(waits) == len(executor.captured.graph.tasks)
    assert 0 < len(waits) <= len(executor.waits) + 1  # one of the workers ends last
    assert {(row.kind, row.outermost) for row in waits} == {("scope", 0)}
    assert {row.thread for row in waits} <= set(executor.thread_ids())
    # No worker computes while it waits.
    for wait in waits:
        beside = [row for row in rows if row.thread == wait.thread and row is not wait]
        assert all(row.end <= wait.start or wait.end <= row.start for row in beside)


def test_cores_by_operation_are_told_where_unlike_teams_run_beside_each_other() -> None:
    trainer = ScheduledTrainer(
        Made(Words, [torch.tensor([1, 2, 3])] * 5), Preparation(batch_size=3), plan=shuffled
    )
    trained(trainer, 3)
    (executor,) = trainer.executors
    assert teams([executor]) == []
    placed = [
        replace(each, threads=3 if "embedding" in executor.captured.graph.tasks[each.task].name else 1)
        for each in executor.schedule.placed
    ]  # fmt: skip
    unlike = SimpleNamespace(
        schedule=replace(executor.schedule, placed=tuple(placed)), captured=executor.captured
    )
    told = {(team["name"], team["layer"]): team["cores"] for team in teams([unlike])}  # type: ignore[list-item]
    assert told["aten::embedding", "words"] == 3
    assert told["aten::embedding_dense_backward", "words"] == 3
    assert {cores for (name, _), cores in told.items() if "embedding" not in name} == {1}


@pytest.mark.system
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a worker needs a core")
def test_a_run_by_two_workers_shows_what_ran_on_which_and_where_they_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        policies, "find", lambda name: lambda graph, times, machine: shuffled(graph)
    )
    settings = TrainingSettings(
        workload="lenet", policy="default", threads=1, batch_size=2, steps=12, out=tmp_path / "run"
    )
    train(settings, lambda progress: None)
    run = load(tmp_path / "run")
    (update,) = run.info.schedule["updates"]
    assert update["workers"] == 2
    table = pq.read_table(tmp_path / "run/operations.parquet")
    rows = list(zip(table["name"].to_pylist(), table["thread"].to_pylist(), strict=True))
    tasks = {thread for name, thread in rows if name.startswith("aten::")}
    assert len(tasks) == 2
    assert {thread for name, thread in rows if name == WORKER_WAIT} <= tasks
    [workers] = [one for one in gaps(run).tables if one.name == "workers"]
    assert len(workers.rows) == 2
    for row in workers.rows:
        shares = row["operations"].value, row["waiting"].value
        assert min(shares) > 0
        assert sum(shares) <= 1 + 1e-6
    assert "cores_idle" in processors(run).figures


@pytest.mark.system
def test_a_run_has_its_tasks_as_operations_with_layers_phases_and_the_policy(
    tmp_path: Path,
) -> None:
    settings = TrainingSettings(
        workload="lenet", policy="default", threads=1, batch_size=2, steps=12, out=tmp_path / "run"
    )
    train(settings, lambda progress: None)
    run = load(tmp_path / "run")
    assert run.info.options["policy"] == "default"
    assert run.info.schedule["updates"][0]["workers"] == 1
    assert_says(" ".join(schedule_sentences(run.report())), "default", "1 worker")
    rows = {(row["name"], row["layer"], row["phase"]) for row in run.operations()}
    assert ("aten::convolution", "features.3", "forward") in rows
    assert ("aten::convolution_backward", "features.3", "backward") in rows
    assert ("aten::add_", "features.3", "optimizer") in rows
    assert ("wattstep::next_batch", "(outside modules)", "data") in rows

"""Steps of torch carried out by a plan: what is learnt is what torch learns, and what goes wrong is told."""

from __future__ import annotations

import gc
import json
import os
import random
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.refusals import refused
from tests.wording import assert_says
from torch import nn

from wattstep import load, workloads
from wattstep.engines.torch.memory import MemoryTracker
from wattstep.engines.torch.scheduled import trainer as scheduled_trainer
from wattstep.engines.torch.scheduled.calls import Call, Layout, Slot
from wattstep.engines.torch.scheduled.fast_calls import fastest
from wattstep.engines.torch.scheduled.kept_times import FOLDER
from wattstep.engines.torch.scheduled.learning import learn
from wattstep.engines.torch.scheduled.openmp import end_team, undivided
from wattstep.engines.torch.scheduled.program import signals_of
from wattstep.engines.torch.scheduled.threads import TorchThreads, check
from wattstep.engines.torch.scheduled.tracer import ScheduledTracer, teams
from wattstep.engines.torch.scheduled.trainer import ScheduledTrainer
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.report.scheduled import schedule_sentences
from wattstep.schedule.machine import equal_cores
from wattstep.schedule.model import TaskTimes
from wattstep.schedule.tasks import Placed, Schedule, Task, TaskGraph
from wattstep.schema.figure import Figure
from wattstep.schema.journal import UNTOLD
from wattstep.schema.operation_kinds import WORKER_WAIT
from wattstep.schema.run_report import RunReport
from wattstep.schema.workload import OptimizerSettings, Preparation
from wattstep.store.cache import cache_folder
from wattstep.train.loop import train
from wattstep.train.settings import TrainingSettings
from wattstep.workloads.torch.workload import TorchWorkload

STEPS = 20


def in_order(graph: TaskGraph) -> Schedule:
    """The framework's own plan: one worker, its order, and its number of threads."""
    threads = torch.get_num_threads()
    placed = [Placed(task=task, worker=0, threads=threads) for task in range(len(graph.tasks))]
    return Schedule(workers=1, placed=tuple(placed))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def shuffled(graph: TaskGraph, *, seed: int = 0) -> Schedule:
    """Two workers, and an order drawn from those that the dependencies allow."""
    draw = random.Random(seed)
    left = set(range(len(graph.tasks)))
    placed = []
    while left:
        ready = sorted(task for task in left if not left & set(graph.after[task]))
        task = draw.choice(ready)
        left.remove(task)
        placed.append(Placed(task=task, worker=draw.randrange(2), threads=1))
    return Schedule(workers=2, placed=tuple(placed))


def on_worker(worker: int) -> Callable[[TaskGraph], Schedule]:
    """All tasks on one of two workers."""
    return lambda graph: Schedule(
        workers=2,
        placed=tuple(
            Placed(task=task, worker=worker, threads=1) for task in range(len(graph.tasks))
        ),
    )


class Made:
    """A workload of a model of a test's own, trained on the batches that it is given in turn."""

    def __init__(
        self, make: Callable[[], nn.Module], batches: list[Any], optimizer: Any = torch.optim.SGD
    ) -> None:
        self.facts = SimpleNamespace(name="made")
        self.specification = SimpleNamespace(check_precision=lambda precision: None)
        self._make, self._batches, self._optimizer = make, batches, optimizer

    def prepare(self, preparation: Preparation) -> Any:
        torch.manual_seed(0)
        model = self._make()
        left = iter(self._batches)
        update = SimpleNamespace(
            optimizer=self._optimizer(model.parameters(), lr=0.1),
            next_batch=lambda phase: next(left),
            loss=lambda batch: model(batch).square().mean(),
        )
        return SimpleNamespace(model=model, data=None, updates=[update])


def trained(trainer: Any, steps: int = STEPS) -> tuple[list[float], list[torch.Tensor]]:
    losses = [trainer.step() for _ in range(steps)]
    return losses, [each.detach().clone() for each in trainer.model.state_dict().values()]


def assert_same(one: Any, other: Any) -> None:
    assert one[0] == other[0]
    assert all(torch.equal(a, b) for a, b in zip(one[1], other[1], strict=True))


LONG = pytest.mark.system


@pytest.mark.parametrize("plan", [in_order, shuffled])
@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        ("lenet", None),
        ("lenet", "adam"),
        pytest.param("autoencoder", None, marks=LONG),
        pytest.param("char-cnn", None, marks=LONG),
        pytest.param("ds-cnn", None, marks=LONG),
        pytest.param("resnet8", None, marks=LONG),
        pytest.param("dcgan", None, marks=LONG),
        pytest.param("squeezenet", None, marks=LONG),
    ],
)
def test_losses_and_weights_are_those_of_torch_to_the_last_bit(
    name: str, optimizer: str | None, plan: Any
) -> None:
    preparation = Preparation(
        batch_size=2,
        optimizer=None if optimizer is None else OptimizerSettings.parse(optimizer),
    )
    workload = TorchWorkload(workloads.find(name))
    plain = trained(TorchTrainer(workload, preparation, threads=1))
    trainer = ScheduledTrainer(workload, preparation, threads=1, plan=plan)
    assert_same(plain, trained(trainer))
    assert trainer.executors


class Views(nn.Module):
    """Changes views in place, draws at random, keeps running statistics, uses a weight twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(6, 6), nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("seen", torch.zeros(6))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.first(inputs)
        both = hidden.clone()
        left, right = both[:, :3], both[:, 3:]
        right.mul_(2.0)
        left.add_(right)
        with torch.no_grad():
            self.seen.lerp_(hidden.mean(dim=0), 0.1)
        hidden = self.drop(self.norm(hidden)) + both
        return self.drop(self.first(torch.relu_(hidden)).t()).contiguous().view(-1) + self.seen[0]


@pytest.mark.parametrize("seed", range(4))
def test_aliases_and_changes_in_place_are_dependencies(seed: int) -> None:
    torch.manual_seed(1)
    batches = [torch.randn(5, 6) for _ in range(STEPS)]
    plain = trained(TorchTrainer(Made(Views, batches), Preparation(batch_size=5)))
    plan = lambda graph: shuffled(graph, seed=seed)  # noqa: E731
    trainer = ScheduledTrainer(Made(Views, batches), Preparation(batch_size=5), plan=plan)
    assert_same(plain, trained(trainer))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_measuring_tasks_leaves_the_training_as_it_was(optimizer: Any) -> None:
    torch.manual_seed(1)
    batches = [torch.randn(5, 6) for _ in range(8)]
    made = Made(Views, batches, optimizer)
    plain = trained(TorchTrainer(made, Preparation(batch_size=5)), 8)
    trainer = ScheduledTrainer(made, Preparation(batch_size=5, policy="per-kind"))
    assert_same(plain, trained(trainer, 8))


def test_every_task_was_measured_on_one_thread() -> None:
    batches = [torch.tensor([1, 2, 3])] * 3
    trainer = ScheduledTrainer(Made(Words, batches), Preparation(batch_size=3))
    trained(trainer, 3)
    captured = trainer.executors[0].captured
    model = TaskTimes("here", (1,))
    learned = learn(captured, [batches[0]], equal_cores(1), trainer.updates[0].optimizer, model)
    assert learned.factor is None
    assert learned.outside_s > 0
    assert all(model.seconds(task, 1).value > 0 for task in captured.graph.tasks)


def test_tensors_take_no_more_memory_than_with_torch() -> None:
    workload, preparation = TorchWorkload(workloads.find("lenet")), Preparation(batch_size=16)
    peaks = []
    for kind in (TorchTrainer, ScheduledTrainer):
        trainer = kind(workload, preparation, threads=1)
        trained(trainer, 4)
        gc.collect()  # else what tests before left may go during the step, and begin as its peak
        tracker = MemoryTracker(trainer.model, [trainer.updates[0].optimizer])
        with tracker:
            trainer.step(tracker.phase)
        memory = tracker.result()
        peaks.append(sum(memory.categories.values()) - memory.before)
    assert peaks[1] <= 1.1 * peaks[0]


def test_what_a_plans_operations_allocate_is_not_known() -> None:
    # Workers take memory in threads of their own, where it cannot be seen: not 0 B.
    workload, preparation = TorchWorkload(workloads.find("lenet")), Preparation(batch_size=2)
    trainer = ScheduledTrainer(workload, preparation, threads=1)
    trained(trainer, 3)
    codes: dict[tuple[str, str], int] = {}
    tracer = ScheduledTracer(
        lambda *text: codes.setdefault(text, len(codes)), lambda: trainer.executors, []
    )
    tracer.open()
    trainer.step()
    tracer.close()
    assert {row.allocated for row in tracer.operations()} == {UNTOLD}


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


def test_a_training_goes_on_from_its_checkpoint_as_with_torch(tmp_path: Path) -> None:
    workload = TorchWorkload(workloads.find("lenet"))
    preparation = Preparation(batch_size=2, optimizer=OptimizerSettings.parse("sgd,momentum=0.9"))
    courses = []
    for kind in (TorchTrainer, ScheduledTrainer):
        trainer = kind(workload, preparation, threads=1)
        trained(trainer, 5)
        trainer.save(tmp_path / "checkpoint")
        trained(trainer, 5)
        trainer.load(tmp_path / "checkpoint")
        courses.append(trained(trainer, 6))
    assert_same(*courses)


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


@pytest.mark.system
def test_a_run_that_plans_by_measured_times_records_what_the_plan_was_to_take(
    tmp_path: Path,
) -> None:
    settings = TrainingSettings(
        workload="lenet", policy="critical-path", threads=1, batch_size=2, steps=12,
        out=tmp_path / "run",
    )  # fmt: skip
    train(settings, lambda progress: None)
    run = load(tmp_path / "run")
    schedule, report = run.info.schedule, run.report()
    assert (schedule["policy"], schedule["cores"]) == ("critical-path", 1)
    assert schedule["times"] == "learned"
    assert sum(schedule["updates"][0]["threads"].values()) == schedule["updates"][0]["tasks"]
    bound, over = report.metrics["plan_bound"], report.metrics["over_bound"]
    step = report.metrics["step_time"]
    assert step.value is not None
    assert over.value == pytest.approx(step.value / (bound.value or 0.0))
    assert RunReport.from_dict(report.to_dict()).schedule == report.schedule
    assert_says(" ".join(schedule_sentences(report)), "critical-path", "1 worker")
    assert (tmp_path / "cache" / "wattstep" / FOLDER).is_dir()


@pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="two operations run together on two cores"
)
def test_on_two_cores_interference_and_handing_over_are_measured() -> None:
    torch.set_num_threads(2)  # the tasks are so small that torch gives each of them one
    batches = [torch.randn(5, 6) for _ in range(4)]
    plain = trained(TorchTrainer(Made(Views, batches), Preparation(batch_size=5)), 4)
    trainer = ScheduledTrainer(
        Made(Views, batches), Preparation(batch_size=5, policy="critical-path")
    )
    # On another number of threads sums are rounded otherwise.
    losses, weights = trained(trainer, 4)
    assert losses == pytest.approx(plain[0], rel=1e-5)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(plain[1], weights, strict=True))
    facts = trainer.scheduling()
    assert facts is not None
    assert facts["cores"] == 2
    kinds = {task.kind for task in trainer.executors[0].captured.graph.tasks}
    told = facts["interference"]
    assert told
    assert {each["kind"] for each in told} | {each["beside"] for each in told} <= kinds
    assert all(1 <= each["low"] <= each["value"] <= each["high"] for each in told)
    assert facts["handover_s"] > 0
    assert facts["bound_s"] <= Figure.from_dict(facts["predicted"]).value  # type: ignore[operator]


def test_workers_wait_only_where_no_earlier_wait_has_told_enough() -> None:
    # 0 on the first worker; 1, 2, 3 on the second need it: one wait is enough.
    task = Task(name="t", kind="k", shape="", reads=(), writes=(), flops=0, bytes_moved=0)
    graph = TaskGraph(tasks=(task,) * 4, after=((), (0,), (0,), (0, 1)), storage_bytes=())
    placed = [Placed(task=0, worker=0, threads=1)]
    placed += [Placed(task=number, worker=1, threads=1) for number in (1, 2, 3)]
    captured = SimpleNamespace(graph=graph)
    signals = signals_of(captured, Schedule(workers=2, placed=tuple(placed)))  # type: ignore[arg-type]
    assert [(each.task, each.before) for each in signals] == [(0, 1)]


def test_measuring_that_is_interrupted_leaves_the_training_as_it_was() -> None:
    batches = [torch.tensor([1, 2, 3])] * 4
    made = Made(Words, batches, torch.optim.Adam)
    trainer = ScheduledTrainer(made, Preparation(batch_size=3))
    before = trained(trainer, 3)[1]
    captured, optimizer = trainer.executors[0].captured, trainer.updates[0].optimizer
    steps = []

    def optimize(*gradients: Any) -> None:
        captured.optimize(*gradients)
        steps.append(1)
        if len(steps) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(
            replace(captured, optimize=optimize), [batches[0]], equal_cores(1), optimizer, TaskTimes("here", (1,))
        )  # fmt: skip
    after = list(trainer.model.state_dict().values())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    plain = TorchTrainer(made, Preparation(batch_size=3))
    assert trained(plain, 4)[0][3] == trainer.step()


# --- what a run tells of its plan -----------------------------------------------------------------


def by_policy(policy: str = "per-kind", steps: int = 4, **how: Any) -> ScheduledTrainer:
    batches = [torch.tensor([1, 2, 3])] * 200
    preparation = Preparation(batch_size=3, policy=policy)
    trainer = ScheduledTrainer(Made(Words, batches), preparation, **how)
    trained(trainer, steps)
    return trainer


def test_what_a_plan_came_to_is_told_with_its_prediction_and_bound() -> None:
    assert by_policy(steps=2).scheduling() is None
    trainer = by_policy()
    facts = trainer.scheduling()
    assert facts is not None
    tasks = len(trainer.executors[0].captured.graph.tasks)
    # One core: every policy's plan is that of the framework.
    assert facts["updates"] == [
        {"tasks": tasks, "workers": 1, "threads": {"1": tasks}, "pinned": False, "policy": "default"}
    ]  # fmt: skip
    assert (facts["policy"], facts["cores"], facts["times"]) == ("per-kind", 1, "learned")
    assert facts["work_s"] == pytest.approx(facts["bound_s"])
    assert 0 < facts["path_s"] <= facts["work_s"]
    predicted = Figure.from_dict(facts["predicted"])
    assert predicted.value is not None
    # All work, one after the other, and what lies beside it.
    assert predicted.value == pytest.approx(facts["work_s"] + facts["beside_s"])
    assert facts["default"] == facts["predicted"]
    assert facts["learning_steps"] > 0
    assert facts["interference"] == facts["relearned"] == facts["teams"] == []


def test_the_policy_that_asks_for_no_times_predicts_none() -> None:
    facts = by_policy("default").scheduling()
    assert facts is not None
    assert facts["policy"] == facts["updates"][0]["policy"] == "default"
    assert "predicted" not in facts


def test_times_are_kept_for_the_next_run_of_the_same_machine_and_version() -> None:
    first, second = by_policy(), by_policy()
    told = [each.scheduling() or {} for each in (first, second)]
    assert [each["times"] for each in told] == ["learned", "kept"]
    [file] = (cache_folder() / FOLDER).iterdir()
    # What was kept is of a machine a million times as fast: noticed, and measured again. On a busy
    # machine what was learned first may be a thousand times too long.
    document = json.loads(file.read_text())
    for operation in document["operations"]:
        for point in operation["points"]:
            point["seconds"] = [one / 10 for one in point["seconds"]]
    file.write_text(json.dumps(document))
    facts = by_policy().scheduling()
    assert facts is not None
    assert facts["changed_by"] is not None
    assert facts["changed_by"] > 2
    work = {each: (told[each] or {})["work_s"] for each in (0, 1)}
    assert facts["work_s"] > min(work.values()) * 1e-5
    file.write_text("{}")
    damaged = by_policy()
    assert_says("\n".join(damaged.remarks()), file.name)
    assert (damaged.scheduling() or {})["times"] == "learned"


def test_steps_that_take_longer_have_operations_measured_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The clock of steps is the test's: 1 ms each, 2 ms from the 60th on.
    now, took = [0], [1_000_000]

    def clock() -> int:
        now[0] += took[0]
        return now[0]

    monkeypatch.setattr(scheduled_trainer, "perf_counter_ns", clock)
    batches = [torch.tensor([1, 2, 3])] * 200
    plain = TorchTrainer(Made(Words, batches), Preparation(batch_size=3))
    trainer = by_policy(steps=60)
    assert trainer.due() is None
    took[0] = 2_000_000
    steps = 60
    while (work := trainer.due()) is None:
        trainer.step()
        steps += 1
        assert steps < 180
    work()
    facts = trainer.scheduling()
    assert facts is not None
    [again] = facts["relearned"]
    assert again["step"] == steps
    assert again["steps_factor"] == pytest.approx(2.0, rel=0.01)
    assert again["learning_steps"] > 0
    assert trainer.due() is None
    # What is learnt is torch's all the same.
    trained(plain, steps)
    assert_same(trained(plain, 3), trained(trainer, 3))


def test_waits_of_workers_are_told_apart_from_operations() -> None:
    trainer = ScheduledTrainer(
        Made(Words, [torch.tensor([1, 2, 3])] * 5), Preparation(batch_size=3), plan=shuffled
    )
    trained(trainer, 3)
    codes: dict[tuple[str, str], int] = {}
    tracer = ScheduledTracer(
        lambda *text: codes.setdefault(text, len(codes)), lambda: trainer.executors, []
    )
    tracer.open()
    trainer.step()
    tracer.close()
    rows = tracer.operations()
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


# --- what goes wrong ----------------------------------------------------------------------------


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(8, 4), nn.Linear(4, 4)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.head(self.words(numbers))
        return output


@pytest.mark.parametrize("worker", [0, 1])
def test_a_worker_that_raises_fails_the_step_as_torch_would_and_names_operation_and_layer(
    worker: int,
) -> None:
    good, bad = torch.tensor([1, 2, 3]), torch.tensor([1, 99, 3])
    batches = [good] * 4 + [bad] + [good] * 3
    plain = TorchTrainer(Made(Words, batches), Preparation(batch_size=3))
    trainer = ScheduledTrainer(
        Made(Words, batches), Preparation(batch_size=3), plan=on_worker(worker)
    )
    assert_same(trained(plain, 4), trained(trainer, 4))
    with pytest.raises(IndexError) as eager:
        plain.step()
    with pytest.raises(IndexError) as error:
        trainer.step()
    assert str(error.value).startswith(str(eager.value))
    assert {"aten::embedding", "words", "forward"} <= set(re.split(r"[ ,()]+", str(error.value)))
    plain.updates[0].optimizer.zero_grad()
    assert_same(trained(plain, 3), trained(trainer, 3))  # both go on from where they were


def test_other_workers_stop_where_they_would_wait_for_the_one_that_failed() -> None:
    good, bad = torch.tensor([1, 2, 3]), torch.tensor([1, 99, 3])
    trainer = ScheduledTrainer(
        Made(Words, [good] * 4 + [bad, good]), Preparation(batch_size=3), plan=shuffled
    )
    before = trained(trainer, 4)[1]
    with pytest.raises(IndexError, match="aten::embedding"):
        trainer.step()
    after = list(trainer.model.state_dict().values())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    trainer.step()


def test_an_interruption_in_the_middle_is_raised_when_all_workers_have_stopped() -> None:
    batches = [torch.tensor([1, 2, 3])] * 6
    plan = on_worker(1)
    trainer = ScheduledTrainer(
        Made(Words, batches, torch.optim.Adam), Preparation(batch_size=3), plan=plan
    )
    trained(trainer, 3)
    (executor,) = trainer.executors
    captured = executor.captured
    ended = []

    def optimize(*gradients: Any) -> None:
        signal.raise_signal(signal.SIGINT)  # Ctrl-C while the first thread waits
        captured.optimize(*gradients)
        ended.append(True)

    interrupted = TorchThreads(replace(captured, optimize=optimize), plan(captured.graph))
    with pytest.raises(KeyboardInterrupt):
        interrupted.step([batches[0]])
    assert ended == [True]
    interrupted.close()
    trainer.step()


def test_a_batch_of_another_shape_is_refused() -> None:
    batches = [torch.tensor([1, 2, 3])] * 4 + [torch.tensor([1, 2])]
    trainer = ScheduledTrainer(Made(Words, batches), Preparation(batch_size=3))
    trained(trainer, 4)
    with refused("another-batch", (2,), (3,)):
        trainer.step()


class Asks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.head(inputs)
        return outputs * float(outputs.detach().amax()) if outputs.shape[0] else outputs


class Lists(Asks):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.head(inputs)
        return outputs * outputs[0].tolist()[0]


class Grows(Asks):
    factor = 0.0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.factor += 1.0
        outputs: torch.Tensor = self.head(inputs)
        return outputs * self.factor


@pytest.mark.parametrize(
    ("model", "operation"),
    [(Asks, "_local_scalar_dense"), (Lists, "tolist"), (Grows, "aten::mul")],
)
def test_what_depends_on_values_is_refused_with_operation_and_layer(
    model: Any, operation: str
) -> None:
    batches = [torch.ones(3, 4)] * 4
    trainer = ScheduledTrainer(Made(model, batches), Preparation(batch_size=3))
    with refused("not-schedulable", "made", operation, model.__name__):
        trained(trainer, 4)


@pytest.mark.system  # the network is large
def test_sequences_of_unequal_lengths_are_refused_by_name() -> None:
    trainer = ScheduledTrainer(
        TorchWorkload(workloads.find("seq2seq")), Preparation(batch_size=1), threads=1
    )
    with refused("not-schedulable", "seq2seq", "_pack_padded_sequence"):
        trained(trainer, 3)


@pytest.mark.parametrize(
    ("options", "how", "named"),
    [
        ({"compiled": True}, {}, "--compile"),
        ({"checkpointing": True}, {}, "--checkpointing"),
        ({"offload": True}, {}, "--offload"),
        ({}, {"processor": "cuda"}, "--processor cuda"),
    ],
)
def test_what_plans_are_not_for_is_refused(
    options: dict[str, Any], how: dict[str, Any], named: str
) -> None:
    with refused("not-schedulable", "--policy", named):
        ScheduledTrainer(
            TorchWorkload(workloads.find("lenet")), Preparation(batch_size=1, **options), **how
        )


def plan_of(*placed: Placed, workers: int = 1) -> tuple[TaskGraph, Schedule]:
    task = Task(name="t", kind="k", shape="", reads=(), writes=(), flops=0, bytes_moved=0)
    graph = TaskGraph(tasks=(task,) * 2, after=((), (0,)), storage_bytes=())
    return graph, Schedule(workers=workers, placed=placed)


def test_plans_that_cannot_be_carried_out_here_are_refused() -> None:
    cores = os.sched_getaffinity(0)
    first, second = (Placed(task=number, worker=0, threads=1) for number in range(2))
    check(*plan_of(first, second))
    wrong: list[tuple[tuple[Placed, ...], int, str, object]] = [
        ((first,), 1, "invalid-schedule", 2),
        ((first, replace(second, worker=1)), 1, "invalid-schedule", 1),
        ((second, first), 1, "invalid-schedule", ""),
        ((first, replace(second, threads=0)), 1, "invalid-schedule", ""),
        ((first, replace(second, threads=len(cores) + 1)), 1, "too-many-threads", len(cores)),
        ((first, second), len(cores) + 1, "too-many-threads", len(cores)),
        ((first, replace(second, cores=(4096,))), 1, "refused-affinity", 4096),
    ]
    for placed, workers, id, named in wrong:
        with refused(id, named):
            check(*plan_of(*placed, workers=workers))


def test_workers_run_on_the_cores_of_the_plan_and_the_caller_where_it_was() -> None:
    batches = [torch.tensor([1, 2, 3])] * 4
    core = len(os.sched_getaffinity(0)) - 1

    def pinned(graph: TaskGraph) -> Schedule:
        plan = in_order(graph)
        return replace(plan, placed=tuple(replace(each, cores=(core,)) for each in plan.placed))

    before = os.sched_getaffinity(0)
    trainer = ScheduledTrainer(Made(Words, batches), Preparation(batch_size=3), plan=pinned)
    trained(trainer, 4)
    (worker,) = trainer.executors[0].crew
    assert worker.native_id is not None
    assert os.sched_getaffinity(worker.native_id) == {sorted(before)[core]}
    assert os.sched_getaffinity(0) == before


def test_workers_end_with_their_trainer() -> None:
    trainer = ScheduledTrainer(
        Made(Words, [torch.tensor([1, 2, 3])] * 4), Preparation(batch_size=3), plan=on_worker(1)
    )
    trained(trainer, 4)
    (worker,) = trainer.executors[0].crew
    assert worker.is_alive()
    del trainer
    gc.collect()
    assert not worker.is_alive()


def test_a_system_that_refuses_affinity_fails_the_step_with_one_line() -> None:
    batches = [torch.tensor([1, 2, 3])] * 4
    trainer = ScheduledTrainer(Made(Words, batches), Preparation(batch_size=3))
    trained(trainer, 3)
    captured = trainer.executors[0].captured
    placed = [replace(each, cores=(0,)) for each in in_order(captured.graph).placed]
    executor = TorchThreads(captured, Schedule(workers=1, placed=tuple(placed)))
    # Seen by the worker alone: a process whose cores were taken away after the plan was made.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda process: {4096})
        with refused("refused-affinity", [0]):
            executor.step([batches[0]])
    executor.close()


def test_a_team_of_two_ends_and_is_not_begun_while_operations_are_undivided() -> None:
    values = torch.ones(1 << 20)

    def threads() -> set[str]:
        return {each.name for each in Path("/proc/self/task").iterdir()}

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        end_team()
        alone = threads()
        with undivided():
            values.relu_()
            assert not threads() - alone
        values.relu_()
        (begun,) = threads() - alone
        end_team()
        assert begun not in threads()
    finally:
        torch.set_num_threads(before)


# --- calls --------------------------------------------------------------------------------------


def a_call(func: Any, *args: Any, **kwargs: Any) -> Call:
    return Call(
        func=func, args=args, kwargs=kwargs, made=(), several=False, view=False, reads=(),
        writes=(), flops=0, bytes_moved=0, shapes=(), layer="", phase="forward", gradients=False,
    )  # fmt: skip


def test_a_binding_of_torch_is_called_where_it_chooses_the_same_overload() -> None:
    aten = torch.ops.aten
    layout = Layout(storage=0, offset=0, shape=(2, 2), strides=(2, 1), dtype=torch.float32)
    one, layouts = Slot(0), [layout]
    assert fastest(a_call(aten.mm.default, one, one), layouts) is torch._C._VariableFunctions.mm
    added = fastest(a_call(aten.add.Tensor, one, one, alpha=2.0), layouts)
    assert added is torch._C._VariableFunctions.add
    changed = fastest(a_call(aten.add_.Tensor, one, one), layouts)
    assert changed is torch._C.TensorBase.add_
    # No function of torch has that name, or it would call something else.
    kept = aten.threshold_backward.grad_input
    assert fastest(a_call(kept, one, one, 0.0, grad_input=one), layouts) is kept._op


def test_more_threads_than_cores_are_refused_before_anything_is_trained() -> None:
    most = len(os.sched_getaffinity(0))
    with refused("too-many-threads", "--threads", most + 1, most):
        ScheduledTrainer(
            TorchWorkload(workloads.find("lenet")), Preparation(batch_size=2), threads=most + 1
        )

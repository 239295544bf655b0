"""Plans by measured times: what they come to, what a run tells of it, and when operations are measured again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engines.scheduled.made import Made, Views, Words, assert_same, trained
from tests.wording import assert_says

from wattstep import load
from wattstep.engines.torch.scheduled import learning
from wattstep.engines.torch.scheduled import trainer as scheduled_trainer
from wattstep.engines.torch.scheduled.kept_times import FOLDER
from wattstep.engines.torch.scheduled.learning import learn
from wattstep.engines.torch.scheduled.trainer import ScheduledTrainer
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.report.scheduled import schedule_sentences
from wattstep.schedule.machine import equal_cores
from wattstep.schedule.model import TaskTimes
from wattstep.schema.figure import Figure
from wattstep.schema.run_report import RunReport
from wattstep.schema.workload import Preparation
from wattstep.store.cache import cache_folder
from wattstep.train.loop import train
from wattstep.train.settings import TrainingSettings


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


def test_updates_that_last_long_are_measured_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [torch.tensor([1, 2, 3])] * 3
    trainer = ScheduledTrainer(Made(Words, batches), Preparation(batch_size=3))
    trained(trainer, 3)
    captured, optimizer = trainer.executors[0].captured, trainer.updates[0].optimizer

    def steps() -> int:
        model = TaskTimes("here", (2,))
        learned = learn(captured, [batches[0]], equal_cores(2), optimizer, model)
        assert all(model.seconds(task, 2).value > 0 for task in captured.graph.tasks)
        return learned.steps

    short = steps()
    monkeypatch.setattr(learning, "LONG_S", 0.0)
    assert 8 <= steps() <= short / 2


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


def test_planning_loads_no_scipy(tmp_path: Path) -> None:
    """It would be 41 MB more in the process that trains: a tenth of what a small network takes."""
    script = (
        "import sys\n"
        "from tests.engines.scheduled.made import Made, Views, trained\n"
        "from wattstep.engines.torch.scheduled.trainer import ScheduledTrainer\n"
        "from wattstep.schema.workload import Preparation\n"
        "import torch\n"
        "batches = [torch.ones(4, 6)] * 4\n"
        "trained(ScheduledTrainer(Made(Views, batches), Preparation(batch_size=4, policy='co-run')), 4)\n"
        "print([name for name in sys.modules if name.partition('.')[0] == 'scipy'])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
    )  # fmt: skip
    assert ended.stdout == "[]\n"

"""The server's part: trains until the goal is reached, and keeps the weights for all batch sizes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import cast

from wattstep import engines, workloads
from wattstep.errors import InvalidValueError
from wattstep.schema.engine import Classifier, Trainer
from wattstep.schema.goal import Goal
from wattstep.schema.processes import ChildNews
from wattstep.schema.run_documents import DataDocument
from wattstep.train.daily.folder import DailyFolder
from wattstep.train.daily.settings import SERVER_BATCH, DailySettings
from wattstep.train.daily.split import Split, split

# Evaluations come after a twentieth of the steps so far: by steps, not by time, so that the same
# seed gives the same weights again; and early enough to pass the goal by little.
LEAST_STEPS = 10
LATER = 1.05
Tell = Callable[[ChildNews], None]


def prepare(
    settings: DailySettings, batch_size: int, precision: str
) -> tuple[Trainer, Classifier, Split]:
    """The trainer, as one of classes, and what it may draw from.

    Raises:
        InvalidValueError: The workload does not classify samples, or there are too few.
    """
    workload = workloads.find(settings.workload)
    trainer = engines.find(settings.engine).prepare(
        workload,
        settings.preparation(batch_size),
        threads=settings.threads,
        processor=settings.processor,
        precision=precision,
    )
    classifier = trainer.classifier
    if classifier is None:
        raise InvalidValueError(
            f"{settings.workload} does not sort samples into classes on {settings.engine}: daily "
            "training needs a workload of image classification or the like, and an engine that "
            "restricts it to a day's samples; see wattstep suite",
            id="no-classes",
        )
    return trainer, classifier, split(settings, *classifier.samples)


def accuracy(right: list[bool]) -> float:
    """The share that is right."""
    return sum(right) / len(right)


def pretrain(settings: DailySettings, folder: DailyFolder, tell: Tell) -> None:
    """Trains on the server's part with a batch of `SERVER_BATCH`, in fp32.

    Raises:
        InvalidValueError: The goal was not reached in time, or is out of reach.
    """
    trainer, classifier, parts = prepare(settings, SERVER_BATCH, "fp32")
    classifier.restrict(parts.server, seed=settings.seed)
    begun = time.perf_counter()
    steps, reached_accuracy = _train_to_goal(settings, trainer, classifier, parts, tell)
    trainer.save(folder.weights)
    folder.keep_server(
        {
            "accuracy": reached_accuracy,
            "steps": steps,
            "batch_size": SERVER_BATCH,
            "seconds": time.perf_counter() - begun,
            "samples": len(parts.server),
            "data": cast(DataDocument, vars(trainer.data)),
        }
    )


def _train_to_goal(
    settings: DailySettings, trainer: Trainer, classifier: Classifier, parts: Split, tell: Tell
) -> tuple[int, float]:
    """Steps until the goal was seen to be reached, and the accuracy then."""
    goal = Goal.parse(settings.pretrain)
    begun = time.perf_counter()
    steps, best, due = 0, 0.0, 0
    while True:
        loss = trainer.step()
        steps += 1
        if not math.isfinite(loss):
            raise InvalidValueError(
                f"--pretrain {goal} was not reached: the loss is no finite number from step "
                f"{steps} on, the best accuracy was {best:.4g}"
            )
        late = time.perf_counter() - begun > settings.pretrain_seconds
        if steps < due and not late:
            continue
        held_out_accuracy = accuracy(classifier.right_on(parts.held_out, held_out=True))
        best = max(best, held_out_accuracy)
        tell({"stage": "pre-training", "step": steps, "accuracy": held_out_accuracy})
        if goal.reached(held_out_accuracy):
            return steps, held_out_accuracy
        if late:
            raise InvalidValueError(
                f"--pretrain {goal} was not reached in {settings.pretrain_seconds:g} s "
                f"({steps} steps): the best was {best:.4g}"
            )
        due = max(steps + LEAST_STEPS, math.ceil(steps * LATER))

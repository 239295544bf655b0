"""Training towards a goal: evaluates now and then, outside of the steps, until it is reached."""

from __future__ import annotations

import time

from wattstep.errors import InvalidValueError
from wattstep.record.recorder import Recorder
from wattstep.schema.engine import Trainer
from wattstep.schema.goal import HIGHER_IS_BETTER, Goal

EVALUATION_SHARE = 0.2  # of the time, at most, that goes into evaluations


class TimeToTarget:
    """Judges a trainer's model now and then, and writes down what it finds.

    The untrained model is judged at once, so that a workload without the measure is refused
    before anything is recorded.

    Args:
        goal: The goal.
        trainer: Whose model is judged.
        every: Steps between evaluations; None: as many as keep them to a fifth of the time.

    Raises:
        InvalidValueError: The workload has no such measure.
    """

    def __init__(self, goal: Goal, trainer: Trainer, *, every: int | None) -> None:
        self._goal = goal
        self._trainer = trainer
        self._every = every
        self._step = 0  # of the last evaluation
        self._untrained = self._evaluate()
        if goal.measure not in self._untrained:
            measures = [name for name in self._untrained if name in HIGHER_IS_BETTER]
            known = ", ".join(measures) or "no measure"
            raise InvalidValueError(
                f"--until {goal}: the evaluation of this workload gives {known}", id="no-measure"
            )
        self._best = self._untrained[goal.measure]

    def begin(self, recorder: Recorder) -> None:
        """Writes down what the untrained model was worth."""
        self._recorder = recorder
        self._write(self._untrained)
        if self._goal.reached_by(self._untrained):
            recorder.note(f"the untrained model has {self._goal} already ({self._best:.4g})")

    def ended(self, *, last: bool, diverged: bool) -> bool:
        """After each step: whether the goal is reached, as far as is known, or out of reach.

        Args:
            last: There will be no further step: it is judged now, due or not.
            diverged: The training loss is no finite number any more: the goal is out of reach.
        """
        if diverged:
            self._give_up("the loss is no finite number any more, ")
            return True
        if not last and not self._due():
            return False
        with self._recorder.exclude("evaluation"):
            scores = self._evaluate()
            self._write(scores)
        self._step = self._recorder.steps.index
        self._best = self._goal.better(self._best, scores[self._goal.measure])
        if self._goal.reached_by(scores):
            return True
        if last:
            self._give_up()
        return last

    def _give_up(self, why: str = "") -> None:
        self._recorder.note(f"{self._goal} was not reached: {why}the best was {self._best:.4g}")

    def _due(self) -> bool:
        if self._every is not None:
            return self._recorder.steps.index - self._step >= self._every
        return time.perf_counter_ns() >= self._next_ns

    def _evaluate(self) -> dict[str, float]:
        began = time.perf_counter_ns()
        scores = dict(self._trainer.evaluate())
        now = time.perf_counter_ns()
        self._next_ns = now + round((now - began) * (1 / EVALUATION_SHARE - 1))
        return scores

    def _write(self, scores: dict[str, float]) -> None:
        for measure, value in scores.items():
            self._recorder.evaluation(measure, value)

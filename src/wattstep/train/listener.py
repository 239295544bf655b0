"""Turns what a framework tells of somebody's own script into steps, phases and rests; Python 3.6 and later."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any

from wattstep.engines.step_phases import DATA, FORWARD, PhaseTeller
from wattstep.record.stepping import StepRecorder


class ScriptListener(PhaseTeller):
    """Turns what a framework tells of a script into steps, phases and rests of a recorder.

    A step ends with its marker, and the next begins there. What ran without gradients before the
    first forward with gradients is a rest ("evaluation"); what came before the first step is one
    too ("startup").

    Args:
        recorder: Is recording.
        trains: Called once, when the training begins: by then the script has said how it trains.
        done: Called once its steps have been made, unless the user interrupted them.
        why_none: Gives the reason why no step was seen.
    """

    def __init__(
        self,
        recorder: StepRecorder,
        trains: Callable[[], None] | None = None,
        done: Callable[[], None] = lambda: None,
        why_none: Callable[[], str] = lambda: "no optimizer made a step in this process",
    ) -> None:
        super().__init__(recorder.steps)
        self._recorder, self._steps = recorder, recorder.steps
        self._trains, self._done, self._why_none = trains, done, why_none
        self._ended_ns = time.perf_counter_ns()  # of the last step
        self._loaded_ns = 0  # when the last batch was asked for
        self._rest: str | None = "startup"
        self._learners: weakref.WeakSet[Any] = weakref.WeakSet()  # went forward with gradients
        self._trained = False  # since the last step ended: a forward with gradients
        self._pending = 0  # samples loaded for the step
        self._evaluated = False  # a forward without gradients since the last batch, and before any
        self._counted = False
        self._models = 0
        self._steps.begin_step()
        self.phases.begin()

    @property
    def tracing(self) -> bool:
        """True if the step that runs is traced."""
        return self._steps.tracing

    def data_begins(self) -> None:
        """The step's batch, or one that will be evaluated."""
        if self._evaluated and not self._trained:
            self._pending = 0  # that batch was evaluated, not trained on
            self._rests()
        self._evaluated = False
        self._loaded_ns = self._steps.stamp() if self._rest else time.perf_counter_ns()
        self.phases.enter(DATA)

    def data_ends(self, samples: int | None) -> None:
        """Its samples count for the step, unless it turns out to have been evaluated."""
        self.phases.leave(DATA)
        if samples is not None:
            self._pending += samples

    def forward_begins(self, module: Any, gradients: bool) -> None:
        """With gradients the step is training; without, and first, it may be an evaluation.

        It is one where another batch is asked for before anything is trained, and where a model
        that is trained, and was set to evaluate, runs on something that no loader gave.
        """
        phases = self.phases
        if gradients and self._trains is not None:
            self._begin_training()
        if gradients and not self._trained and self._rest is not None:
            self._begin_after_rest()
        if phases.on:
            phases.enter(FORWARD)  # before anything that takes time
        if gradients:
            if phases.on or not self._trained:
                self._learners.add(module)
            self._trained = True
        elif not self._trained:
            self._evaluated = True
            loaded = self._loaded_ns > self._ended_ns
            if not loaded and not module.training and module in self._learners:
                self._rests()

    def _rests(self) -> None:
        """Counts what has run since the last step, and runs now, as an evaluation."""
        if self._rest is None:
            self._rest = "evaluation"
            self._steps.abandon_window()

    def _begin_after_rest(self) -> None:
        """The step begins where its batch was asked for; everything before was a rest."""
        assert self._rest is not None
        begin = self._loaded_ns if not self._evaluated else 0
        begin = begin if begin > self._ended_ns else self._steps.stamp()
        self._steps.split(self._rest, self._ended_ns, begin)
        self.phases.begin()
        self._rest = None

    def step_ends(self) -> None:
        """This step is done, and the next begins."""
        now = self._steps.stamp()
        if self._trains is not None:
            self._begin_training()
        self.phases.end()
        if self._rest is not None:  # no module was called: it trains in a way of its own
            self._steps.split(self._rest, self._ended_ns, now)
            self._rest = None
        if self._pending:
            self._steps.add_samples(self._pending)
            self._counted = True
        self._steps.finish(now=now)
        self._ended_ns = time.perf_counter_ns()
        self._trained = self._evaluated = False
        self._pending = 0
        self._steps.begin_step()
        self.phases.begin()

    def _begin_training(self) -> None:
        trains, self._trains = self._trains, None
        if trains is not None:
            trains()

    def model_found(self, model: Any) -> None:
        """The first model's top-level layers are marked; those of all models are named."""
        self._models += 1
        if self._models == 1:
            self._steps.watch_model(model, alone=False)
        else:
            self._steps.learn_model(model)

    def profiler_found(self, name: str) -> None:
        """Two profilers cannot trace at once: the script's goes first."""
        if not self._steps.opening_window:
            self._steps.stop_tracing(
                f"the script uses {name} itself: it is left alone, and no steps are traced beside it"
            )

    def close(self, *, interrupted: bool = False) -> None:
        """The script has ended; where the user interrupted it, at once."""
        recorder = self._recorder
        if self._evaluated and not self._trained:  # nothing will be
            self._rests()
        if self._rest == "evaluation":
            self._steps.abandon_window()
            self._steps.split("evaluation", self._ended_ns, self._steps.stamp())
        if self._steps.index and not interrupted:
            self._steps.abandon()
            self._done()
        if self._steps.index == 0:
            recorder.note(f"no training step was seen: {self._why_none()}")
        elif not self._counted:
            recorder.note("samples a step are not known: no DataLoader gave the batches")
        recorder.close()

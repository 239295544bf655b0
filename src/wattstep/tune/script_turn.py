"""The process of a script's turn: runs it with settings for some steps, tells their times and losses, and ends."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NoReturn

from wattstep import engines
from wattstep.engines.after_import import after_import
from wattstep.schema.processes import refusal_news
from wattstep.schema.training_hooks import Listener, Phases
from wattstep.train.running import name_of, place_of, run_script
from wattstep.train.script import settle_script, tuning_of
from wattstep.tune.power import TurnPower

SEED: Final = 0  # of what the script draws before it seeds anything itself
NO_TRAINING: Final = "no training step was seen: no optimizer made a step in this process"


class _Unmarked(Phases):
    """Steps carry no marks."""

    on = False
    by_hand = False


def _passed_over(*_: Any, **__: Any) -> None:
    """What nobody here wants to know."""


class StepCounter(Listener):
    """Stamps the ends of steps, and ends the process after the last that is asked for.

    Args:
        warm: Steps before those that count.
        steps: That count.
        most_s: After so long no further one is waited for.
        descriptor: Where the answer goes.
        power: Tells the energy of steps; None: it is not asked for.
    """

    phases = _Unmarked()
    tracing = False
    data_begins = data_ends = forward_begins = forward_ends = _passed_over
    backward_begins = backward_ends = graph_begins = no_gradients_end = _passed_over
    clipping_begins = clipping_ends = optimizer_begins = optimizer_ends = _passed_over
    clearing_begins = clearing_ends = model_found = profiler_found = _passed_over

    def __init__(
        self, warm: int, steps: int, most_s: float, descriptor: int, power: TurnPower | None = None
    ) -> None:
        self._begun_ns = time.perf_counter_ns()
        self._warm, self._steps, self._most_s = warm, steps, most_s
        self._descriptor, self._power = descriptor, power
        self._ends: list[int] = []  # in ns
        self._losses: dict[str, float] = {}

    def take_loss(self, loss: float) -> None:
        """The value that a backward pass begins from; those of one step add up."""
        index = str(len(self._ends))
        self._losses[index] = self._losses.get(index, 0.0) + loss

    def step_ends(self) -> None:
        """As `Listener.step_ends`."""
        self._ends.append(time.perf_counter_ns())
        # The first step has no beginning that could be seen.
        counted = len(self._ends) - 1 - self._warm
        begun = self._ends[min(self._warm, len(self._ends) - 1)]
        late = (self._ends[-1] - begun) * 1e-9 > self._most_s
        if counted >= self._steps or (counted >= 1 and late):
            self.tell()

    def tell(self) -> NoReturn:
        """Writes the answer and ends the process, whatever the script would do then."""
        ends = self._ends[self._warm :]
        seconds = [(end - begin) * 1e-9 for begin, end in pairwise(ends)]
        if not seconds:
            self._end({"error": _few(len(self._ends))})
        answer: dict[str, Any] = {
            "seconds": seconds,
            "losses": self._losses,
            "taken": len(self._ends),
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "begin_s": (self._ends[-1] - self._begun_ns) * 1e-9,
        }
        if self._power is not None:
            answer["joules"] = self._power.joules(ends[0], ends[-1], len(seconds))
            answer["energy"] = self._power.status
        self._end(answer)

    def refuse(self, document: dict[str, Any]) -> NoReturn:
        """Writes why there is no answer, and ends the process."""
        self._end(document)

    def _end(self, answer: dict[str, Any]) -> NoReturn:
        _end_workers()
        os.write(self._descriptor, json.dumps(answer).encode() + b"\n")
        sys.stdout.flush()
        os._exit(0)


def _end_workers() -> None:
    """Ends the script's own processes: a loader's would work on for seconds, beside the next turn."""
    with suppress(ValueError):  # not the first thread
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch raises where a loader's worker ends
    for worker in multiprocessing.active_children():
        worker.kill()
        worker.join()


def _few(steps: int) -> str:
    return (
        NO_TRAINING if steps == 0 else f"the script made {steps} steps, too few to tell their time"
    )


def main() -> int:
    """Entry of the child process: the descriptor for its answer, what it runs as JSON."""
    asked = json.loads(sys.argv[2])
    power = None
    if asked["power"] is not None:
        power = TurnPower(Path(asked["power"].pop("folder")), **asked["power"])
    counter = StepCounter(asked["warm"], asked["steps"], asked["most_s"], int(sys.argv[1]), power)
    random.seed(SEED)
    engines.listen_to_script(counter, asked["marker"])
    after_import(engines.DEFAULT, lambda: sys.modules[engines.DEFAULT].manual_seed(SEED))
    settle_script(
        replace(tuning_of(asked["changes"]), on_loss=counter.take_loss),
        lambda error: counter.refuse(dict(refusal_news(error))),
    )
    errors: list[BaseException] = []
    script = asked["script"]
    code = run_script(script, asked["arguments"], errors.append, module=asked["module"])
    if code:
        words = name_of(errors[0]) if errors else f"the script ended with exit code {code}"
        why = place_of(errors[0], script) if errors else "run it by itself to see why"
        counter.refuse(
            {"error": ": ".join(filter(None, (f"{words} before its turn was over", why)))}
        )
    counter.tell()

"""The process in which trainings take turns: reads what is asked for, a line each, and tells what became of it."""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from wattstep import engines, workloads
from wattstep.errors import WattstepError
from wattstep.schema.engine import Trainer
from wattstep.schema.processes import refusal_news
from wattstep.train.failing import news_of
from wattstep.train.settings import TrainingSettings
from wattstep.tune.power import TurnPower


class Command(TypedDict):
    """Steps that are asked for: as `turns.Ask`, `warm` of them before those that count."""

    changes: Mapping[str, Any]
    begin: bool
    nudged: bool
    warm: int
    steps: int
    most_s: float


@dataclass
class _Seat:
    """A training between its turns: its trainer, the generators' states, and how many steps it made."""

    trainer: Trainer
    states: tuple[Any, ...]
    at: int = 0


class Seats:
    """Trainings of one process, which take turns.

    Args:
        settings: Of the default.
        power: Folder in which power is sampled meanwhile; None: it is not asked for.
    """

    def __init__(self, settings: TrainingSettings, power: Path | None) -> None:
        self._settings = settings
        self._engine = engines.find(settings.engine)
        self._engine.load()
        self._threads = settings.threads or self._engine.threads() or 1
        self._seats: dict[str, _Seat] = {}
        self._power = (
            None
            if power is None
            else TurnPower(
                power,
                workload=settings.workload,
                interval=settings.interval,
                power_model=settings.power_model,
                target=settings.target,
            )
        )

    def take(self, command: Command) -> dict[str, Any]:
        """Makes the steps; JSON-ready, as `turns.Turn` has it."""
        entered = time.perf_counter()
        changes = dict(command["changes"])
        settings = replace(self._settings, **changes)
        threads = int(changes.pop("threads", self._threads))
        key = json.dumps(changes, sort_keys=True)
        warm = command["warm"]
        if command["begin"] or key not in self._seats:
            if self._seats.pop(key, None) is not None:
                gc.collect()
            seat = self._seats[key] = self._begun(settings, nudged=command["nudged"])
        else:
            seat = self._seats[key]
            self._restore(seat.states)
        if self._engine.threads() != threads:
            self._engine.use_threads(threads)
        losses: dict[str, float] = {}
        seconds = []
        begin = end = time.perf_counter_ns()
        for number in range(warm + command["steps"]):
            if number == warm:
                begin = time.perf_counter_ns()
            since = time.perf_counter_ns()
            losses[str(seat.at)] = seat.trainer.step()
            end = time.perf_counter_ns()
            seat.at += 1
            if number >= warm:
                seconds.append((end - since) * 1e-9)
                if (end - begin) * 1e-9 > command["most_s"]:
                    break
        begun_s = time.perf_counter()
        seat.states = self._states()
        return {
            "seconds": seconds,
            "losses": losses,
            "taken": len(losses),
            "joules": None if self._power is None else self._power.joules(begin, end, len(seconds)),
            "energy": "measured" if self._power is None else self._power.status,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "begin_s": begun_s - entered if command["begin"] else None,
        }

    def close(self) -> None:
        """Ends what samples power."""
        if self._power is not None:
            self._power.close()

    def _begun(self, settings: TrainingSettings, *, nudged: bool) -> _Seat:
        random.seed(settings.seed)
        np.random.seed(settings.seed)
        trainer = self._engine.prepare(
            workloads.find(settings.workload),
            settings.preparation,
            threads=settings.threads,
            processor=settings.processor,
            precision=settings.precision,
        )
        if nudged:
            trainer.nudge()
        return _Seat(trainer=trainer, states=())

    def _states(self) -> tuple[Any, ...]:
        return (random.getstate(), np.random.get_state(), self._engine.random_state())

    def _restore(self, states: tuple[Any, ...]) -> None:
        random.setstate(states[0])
        np.random.set_state(states[1])
        self._engine.restore_random_state(states[2])


def main() -> int:
    """Entry of the child process: the descriptor for its news, the settings as JSON, a folder or ""."""
    settings = TrainingSettings(**json.loads(sys.argv[2]))
    account = engines.find(settings.engine).memory_account
    seats: Seats | None = None
    with os.fdopen(int(sys.argv[1]), "w", buffering=1, encoding="ascii") as news:
        for line in sys.stdin:
            try:
                seats = seats or Seats(settings, Path(sys.argv[3]) if sys.argv[3] else None)
                answer: Mapping[str, Any] = seats.take(json.loads(line))
            except WattstepError as error:
                answer = refusal_news(error)
            except KeyboardInterrupt:
                return 130
            except (MemoryError, RuntimeError, ImportError, OSError) as error:
                failure = news_of(error, lambda: account(settings.processor))
                if failure is None:
                    raise  # a mistake of ours, with its traceback
                answer = failure
            news.write(json.dumps(answer) + "\n")
    if seats is not None:
        seats.close()
    return 0

"""Hosts that measure configurations: what a sweep asks of one, and this machine as one."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from wattstep.schema.outcome import Configuration, Outcome
from wattstep.sweep.cooling import Cooled, cool_down, hottest_zone
from wattstep.train.child.limits import MemoryLimit, beyond_machine, find_limit
from wattstep.train.child.local_machine import one_at_a_time
from wattstep.train.child.measuring import Listener, Measure, measure
from wattstep.train.environment.device_state import parse_state
from wattstep.train.environment.keeper import Keeper
from wattstep.train.progress import Progress
from wattstep.train.settings import TrainingSettings

# A training of this machine's gets Ctrl-C as well: for so long it may write its run.
_GRACE_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Task:
    """Measurement that a host is given.

    Attributes:
        configuration: The configuration to measure.
        settings: How; its run goes to `out`.
        memory_limit: In bytes, or None.
        cooldown: As `cooling.cool_down` takes its rule.
        baselines: As `outcomes.baselines` tells them of this host.
    """

    configuration: Configuration
    settings: TrainingSettings
    memory_limit: int | None
    cooldown: str
    baselines: Mapping[str, float | None]

    def cooling(self, worker: str = "") -> tuple[str, float | None]:
        """Rule and baseline on a worker's host; before the first of all there is nothing to cool."""
        rule = self.cooldown if worker in self.baselines else "none"
        return rule, self.baselines.get(worker)


class Host(Protocol):
    """Host that measures; `measure` is called by as many threads as there is room for."""

    @property
    def name(self) -> str | None:
        """The `device` of its configurations; None: this machine, which is alone in its sweep."""
        ...

    @property
    def look_every_s(self) -> float | None:
        """Interval in s at which its room is to be looked at; None: it never changes."""
        ...

    def room(self) -> int:
        """Number of configurations that it measures at a time now, one at least."""
        ...

    def measure(self, task: Task, listener: Listener) -> Outcome:
        """Cools down, and measures.

        Raises:
            ConnectionLostError: It is away.
            WattstepError: It cannot be used, or nothing can be recorded there.
        """
        ...

    def end(self) -> None:
        """Asks what is measured now to end, after which nothing more is; for another thread."""
        ...

    def close(self) -> None:
        """Leaves it as it was; it can be used again."""
        ...


class LocalHost:
    """This machine.

    Args:
        name: As a fleet calls it, of which it may be a part more than once: then nobody else
            measures meanwhile. None: a sweep of this machine alone.
        worker: The host whose baseline counts, of the worker of a cluster that this process is.
        keeper: Puts the device into the state of each configuration; None: states have cores only.
        measured: Trains one configuration.
    """

    look_every_s = None

    def __init__(
        self,
        name: str | None = None,
        *,
        worker: str = "",
        keeper: Keeper | None = None,
        measured: Measure = measure,
    ) -> None:
        self.name = name
        self._worker, self._keeper, self._measured = worker, keeper, measured
        self._limit: MemoryLimit | None = None
        self._thread: int | None = None
        self._ended = threading.Event()

    def room(self) -> int:
        """See `Host`."""
        return 1

    def measure(self, task: Task, listener: Listener) -> Outcome:
        """See `Host`."""
        with nullcontext() if self.name is None else one_at_a_time():
            limit = self._found_limit(task, listener)
            if self._keeper is not None:
                self._keeper.apply(parse_state(task.configuration.state))
            cooled = cool(task.cooling(self._worker), listener, hottest_zone, self._ended)
            self._thread = threading.get_native_id()
            try:
                outcome = self._measured(task.configuration, task.settings, limit, listener)
            finally:
                self._thread = None
        return with_cooling(cooled, outcome)

    def end(self) -> None:
        """See `Host`; a training has a moment to write its run."""
        self._ended.set()
        timer = threading.Timer(_GRACE_S, self._terminate)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """Nothing was put anywhere."""

    def _found_limit(self, task: Task, listener: Listener) -> MemoryLimit | None:
        """Of the first task: a host has one."""
        if self._limit is None and task.memory_limit is not None:
            self._limit = find_limit(task.memory_limit)
            if too_much := beyond_machine(self._limit):
                listener.on_warning(too_much)
        return self._limit

    def _terminate(self) -> None:
        """Ends the training that our thread began; what it recorded is dropped by the sweep."""
        children = Path(f"/proc/self/task/{self._thread}/children")
        with suppress(OSError):  # it has ended meanwhile, or the kernel does not list children
            for pid in children.read_text(encoding="ascii").split():
                os.kill(int(pid), signal.SIGTERM)


def cool(
    cooling: tuple[str, float | None],
    listener: Listener,
    read: Callable[[], float | None],
    ended: threading.Event,
) -> Cooled:
    """Cools down before a measurement.

    Args:
        cooling: Rule and baseline, as `cooling.cool_down` takes them.
        listener: Told that it cools down, where it waits.
        read: The hottest zone.
        ended: Set where the sweep does not wait any more.

    Raises:
        KeyboardInterrupt: It does not.
    """
    rule, baseline = cooling
    if rule not in ("none", "auto") or (rule == "auto" and baseline is not None):
        listener.on_progress(Progress(stage="cooling down"))

    def sleep(seconds: float) -> None:
        if ended.wait(seconds):
            raise KeyboardInterrupt

    return cool_down(rule, baseline, read=read, sleep=sleep)


def with_cooling(cooled: Cooled, outcome: Outcome) -> Outcome:
    """The outcome with the cool-down before it."""
    evidence = outcome.evidence
    if cooled.note:
        evidence = replace(evidence, notes=(*evidence.notes, cooled.note))
    return replace(
        outcome, evidence=evidence, cooled=cooled.seconds, temperature=cooled.temperature
    )

"""The same sweep on many devices at once: one measurement at a time on each, and none waits for another."""

from __future__ import annotations

import queue
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from wattstep.errors import RecordingError, WattstepError
from wattstep.fleet.device import Measuring, Task, open_device
from wattstep.fleet.fleet_cluster import Answer, fleet_cluster, leave, submit
from wattstep.fleet.fleet_file import Device
from wattstep.fleet.folder import CONTINUES, SweepFolder
from wattstep.fleet.measuring import Listener
from wattstep.fleet.outcome import Configuration, Evidence, Outcome
from wattstep.fleet.place import unlike
from wattstep.fleet.plan import SweepPlan
from wattstep.fleet.remote import ConnectionLostError
from wattstep.fleet.remote.board import DIED, RESTARTED
from wattstep.fleet.sweep import count_done, first_temperature, is_done, skipped, time_left
from wattstep.training import Progress

RETRY_S: Final = 60.0  # before a device that is away is tried again
ATTEMPTS: Final = 3  # of a configuration that brings its board down
_STOP_S: Final = 60.0  # how long devices may take to end what they measure, after Ctrl-C

Open = Callable[[Device, Collection[str], Callable[[str], None]], Measuring]


class FleetWatcher(Protocol):
    """Who is told where a sweep of many devices is; called by the sweep's own thread."""

    def stands(self, device: str, doing: str, done: int, total: int) -> None:
        """What a device does now, and how many of its configurations have an outcome."""
        ...

    def progresses(self, device: str, progress: Progress) -> None:
        """Where its measurement is."""
        ...

    def says(self, device: str, text: str) -> None:
        """A line about a device: what travels, that its connection is lost."""
        ...

    def ends(self, outcome: Outcome, done: int, total: int, left_s: float | None) -> None:
        """One of all has an outcome; `left_s` is how long the others will take, where known."""
        ...

    def warns(self, text: str) -> None:
        """Something the user must know."""
        ...


def sweep_fleet(
    devices: Sequence[Device],
    plan: SweepPlan,
    folder: SweepFolder,
    watcher: FleetWatcher,
    *,
    opener: Open = open_device,
    retry_s: float = RETRY_S,
) -> None:
    """Runs what has no outcome yet, each device its own configurations one after the other.

    A device that is away keeps its configurations; it is tried again now and then while others
    go on, and a last time when they have ended.

    Args:
        devices: As the plan names them.
        plan: What is to be swept.
        folder: Where runs and outcomes go.
        watcher: Who is told.
        opener: Gives the device as it is used.
        retry_s: How long to wait before a device that is away is tried again.

    Raises:
        KeyboardInterrupt: The user stopped it; the same plan in the same folder continues.
        MissingPartError: Dask is not installed.
        RecordingError: Configurations stay open, on which devices and why; or nothing can be
            written here.
    """
    events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def hears(name: str) -> Listener:
        return Listener(
            on_progress=lambda progress: events.put(lambda: watcher.progresses(name, progress)),
            on_warning=lambda text: events.put(lambda: watcher.warns(f"{name}: {text}")),
        )

    def says(name: str) -> Callable[[str], None]:
        return lambda text: events.put(lambda: watcher.says(name, text))

    runs = {
        device.name: [one.name for one in plan.configurations() if one.device == device.name]
        for device in devices
    }
    opened = {
        device.name: opener(device, runs[device.name], says(device.name)) for device in devices
    }
    with fleet_cluster(opened, hears) as client:
        fleet = _Fleet(plan, folder, watcher, client, opened, events, retry_s)
        try:
            fleet.run()
        finally:
            fleet.leave()
    fleet.say_open()


@dataclass(kw_only=True)
class _Stand:
    """Where the sweep is with one device.

    Attributes:
        all: Its configurations.
        waiting: Those of them that are to be measured.
        running: What is measured now, or None.
        away: Why it cannot be reached, or "".
        stopped: Why it is not used any more in this turn, or "".
        tried_s: When it was last given something.
        tried_at: How many outcomes there were then.
        used: Whether anything was ever begun there.
        machine: What it was seen to be.
    """

    all: list[Configuration]
    waiting: deque[Configuration]
    running: Configuration | None = None
    away: str = ""
    stopped: str = ""
    tried_s: float = 0.0
    tried_at: int = 0
    used: bool = False
    machine: Mapping[str, Any] = field(default_factory=dict)


class _Fleet:
    """Hands out configurations, one to each device, and takes in what comes of them."""

    def __init__(
        self,
        plan: SweepPlan,
        folder: SweepFolder,
        watcher: FleetWatcher,
        client: Any,
        opened: Mapping[str, Measuring],
        events: queue.SimpleQueue[Callable[[], None]],
        retry_s: float,
    ) -> None:
        self._plan, self._folder, self._watcher = plan, folder, watcher
        self._client, self._opened, self._retry_s = client, opened, retry_s
        self._events = events
        self._begun = time.monotonic()
        self._ended = 0  # outcomes of this turn
        self._downs: Counter[str] = Counter()  # how often each brought its board down
        self._stopping = False
        self._stands = {name: self._stand(name) for name in opened}

    def _stand(self, name: str) -> _Stand:
        mine = [one for one in self._plan.configurations() if one.device == name]
        waiting = deque(one for one in mine if not is_done(one, self._folder.outcomes))
        known = [one.machine for one in self._outcomes_of(name).values() if one.machine]
        return _Stand(all=mine, waiting=waiting, machine=known[0] if known else {})

    def _outcomes_of(self, name: str) -> dict[str, Outcome]:
        return {
            key: one
            for key, one in self._folder.outcomes.items()
            if one.configuration.device == name
        }

    # --- handing out ------------------------------------------------------------------------

    def run(self) -> None:
        """Until nothing more can be measured."""
        for name, stand in self._stands.items():
            if not stand.all:
                self._watcher.warns(f"{name}: none of this sweep's workloads goes there")
            self._show(name)
        try:
            while self._hand_out():
                self._next_event()
        except BaseException:
            self._stop()
            raise

    def _hand_out(self) -> bool:
        """Gives each device that is free its next one; whether anything is under way."""
        for name, stand in self._stands.items():
            self._skip(name)
            if stand.running or stand.stopped or not stand.waiting or not self._is_due(stand):
                continue
            stand.running = stand.waiting.popleft()
            stand.tried_s, stand.tried_at, stand.used = time.monotonic(), self._ended, True
            self._begin(name, stand.running)
        return any(stand.running for stand in self._stands.values())

    def _is_due(self, stand: _Stand) -> bool:
        if not stand.away:
            return True
        if any(other.running for other in self._stands.values()):
            return time.monotonic() >= stand.tried_s + self._retry_s
        return self._ended > stand.tried_at  # a last time, where others have gone on since

    def _skip(self, name: str) -> None:
        """What need not be tried, since a smaller batch ran out of memory there."""
        stand = self._stands[name]
        for configuration in list(stand.waiting):
            outcome = skipped(configuration, self._folder.outcomes.values())
            if outcome is not None:
                stand.waiting.remove(configuration)
                self._keep(name, outcome)

    def _begin(self, name: str, configuration: Configuration) -> None:
        before = self._outcomes_of(name)
        out = self._folder.clear(configuration.name)
        task = Task(
            configuration=configuration,
            settings=self._plan.settings_of(configuration, out=out),
            memory_limit=self._plan.limit_of(name),
            cooldown=self._plan.cooldown if before else "none",
            baseline=first_temperature(before),
        )
        self._show(name)
        future = submit(self._client, name, task)
        future.add_done_callback(
            lambda ended: self._events.put(lambda: self._take_in(name, ended.result()))
        )

    def _next_event(self) -> None:
        """Waits for one, or until a device that is away is due."""
        due = [
            stand.tried_s + self._retry_s
            for stand in self._stands.values()
            if stand.away and not stand.stopped and stand.waiting and not stand.running
        ]
        timeout = max(min(due) - time.monotonic(), 0.0) if due else None
        with suppress(queue.Empty):
            self._events.get(timeout=timeout)()

    # --- taking in --------------------------------------------------------------------------

    def _take_in(self, name: str, answer: Answer) -> None:
        stand = self._stands[name]
        configuration, stand.running = stand.running, None
        assert configuration is not None  # one at a time on each
        if self._stopping:  # what we ended is no result
            if answer.outcome is not None and answer.outcome.status == "trained":
                self._take_outcome(name, configuration, answer.outcome)
            return
        if answer.interrupted:
            raise KeyboardInterrupt
        if answer.error is not None:
            self._take_failure(name, configuration, answer.error)
        elif answer.outcome is not None:
            if stand.away:
                stand.away = ""
                self._watcher.says(name, "is back")
            self._take_outcome(name, configuration, answer.outcome)
        self._show(name)

    def _take_outcome(self, name: str, configuration: Configuration, outcome: Outcome) -> None:
        stand = self._stands[name]
        stand.machine = stand.machine or outcome.machine
        different = unlike(stand.machine, outcome.machine) if outcome.machine else []
        if different:
            self._folder.clear(configuration.name)
            stand.waiting.appendleft(configuration)
            self._stop_using(
                name,
                f"it is another machine than before ({'; '.join(different)}): give it a name of "
                "its own",
            )
            return
        self._keep(name, replace(outcome, attempts=1 + self._downs[configuration.name]))
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
        if not outcome.final:
            stand.waiting.appendleft(configuration)
            self._stop_using(name, outcome.reason.removesuffix(f"; {CONTINUES}"))

    def _take_failure(self, name: str, configuration: Configuration, error: WattstepError) -> None:
        """Of the device; what a training does is an outcome."""
        stand = self._stands[name]
        brought_down = str(error).startswith((RESTARTED, DIED))
        self._downs[configuration.name] += brought_down
        if self._downs[configuration.name] >= ATTEMPTS:
            self._keep(name, _killed(configuration, str(error), ATTEMPTS))
            return
        stand.waiting.appendleft(configuration)
        if isinstance(error, ConnectionLostError):
            if not stand.away:
                self._watcher.says(name, f"away, its configurations stay open: {error}")
            stand.away = str(error)
        elif brought_down:
            self._watcher.says(name, f"{error}; {configuration.name} begins again")
        else:
            self._stop_using(name, str(error))

    def _stop_using(self, name: str, reason: str) -> None:
        self._stands[name].stopped = reason
        self._watcher.says(name, f"is not used any more: {reason}")

    def _keep(self, name: str, outcome: Outcome) -> None:
        self._folder.add(outcome)
        self._folder.save(time.monotonic() - self._begun)
        self._ended += 1
        every = [one for stand in self._stands.values() for one in stand.all]
        outcomes = self._folder.outcomes
        self._watcher.ends(outcome, count_done(every, outcomes), len(every), self._left_s())
        self._show(name)

    def _left_s(self) -> float | None:
        """As long as the device that takes longest; None where one is not known."""
        left = [
            time_left(stand.all, self._outcomes_of(name))
            for name, stand in self._stands.items()
            if not stand.away and not stand.stopped
        ]
        known = [seconds for seconds in left if seconds is not None]
        return max(known, default=0.0) if len(known) == len(left) else None

    def _show(self, name: str) -> None:
        stand = self._stands[name]
        done = count_done(stand.all, self._folder.outcomes)
        self._watcher.stands(name, _doing(stand), done, len(stand.all))

    # --- the end ----------------------------------------------------------------------------

    def _stop(self) -> None:
        """What is measured is ended, and dropped; Ctrl-C once more does not wait for it."""
        self._stopping = True
        busy = [name for name, stand in self._stands.items() if stand.running]
        for name in busy:
            self._watcher.says(name, "ending what it measures; Ctrl-C does not wait for it")
            self._opened[name].end()
        end = time.monotonic() + _STOP_S
        while any(self._stands[name].running for name in busy) and time.monotonic() < end:
            with suppress(queue.Empty):
                self._events.get(timeout=max(end - time.monotonic(), 0.0))()

    def leave(self) -> None:
        """Every device that is not measuring is left as it was."""
        free = [name for name, stand in self._stands.items() if stand.used and not stand.running]
        for future in [leave(self._client, name) for name in free]:
            future.result()
        with suppress(queue.Empty):
            while True:
                self._events.get_nowait()()

    def say_open(self) -> None:
        """What was not measured, and why.

        Raises:
            RecordingError: There is something.
        """
        still = {name: stand for name, stand in self._stands.items() if stand.waiting}
        if not still:
            return
        count = sum(len(stand.waiting) for stand in still.values())
        every = sum(len(stand.all) for stand in self._stands.values())
        why = "; ".join(
            f"{name} {len(stand.waiting)}, {stand.stopped or stand.away}"
            for name, stand in still.items()
        )
        raise RecordingError(f"{count} of {every} configurations stay open ({why}); {CONTINUES}")


def _doing(stand: _Stand) -> str:
    if stand.running is not None:
        return stand.running.name
    if stand.stopped:
        return f"not used any more: {stand.stopped}"
    if stand.away:
        return f"away: {stand.away}"
    return "waiting" if stand.waiting else "done"


def _killed(configuration: Configuration, said: str, attempts: int) -> Outcome:
    """The outcome of one that brought its board down again and again."""
    now = time.time()
    return Outcome(
        configuration=configuration,
        status="killed",
        reason=f"its board, or the job there, went down {attempts} times",
        evidence=Evidence(said=said),
        started=now,
        ended=now,
        attempts=attempts,
    )

"""A sweep: every configuration in a fresh process, on hosts that each take the next one they can run."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeVar

from wattstep.errors import RecordingError, WattstepError
from wattstep.remote.ssh import ConnectionLostError
from wattstep.remote.ssh.board import DIED, RESTARTED
from wattstep.schema.configuration import unlike_machines
from wattstep.schema.outcome import Configuration, Evidence, Outcome
from wattstep.schema.run_documents import MeasuringMachine
from wattstep.sweep.cooling import hottest_zone
from wattstep.sweep.folder import SweepFolder
from wattstep.sweep.hosts import Host, LocalHost, Task
from wattstep.sweep.outcomes import Tally
from wattstep.sweep.plan import SweepPlan
from wattstep.train.child.local_machine import unlike, versions
from wattstep.train.child.measuring import CONTINUES, Listener, Measure, measure
from wattstep.train.environment.keeper import Keeper
from wattstep.train.progress import Progress

RETRY_S: Final = 60.0  # before a host that is away is tried again
ATTEMPTS: Final = 3  # of a configuration that brings its board down
LEFT_QUICK_S: Final = 0.01  # what takes longer to work out is kept
LEFT_KEPT: Final = 20  # times as long as it took
_STOP_S: Final = 60.0  # how long hosts may take to end what they measure, after Ctrl-C

T = TypeVar("T")
Say = Callable[[str, str], None]  # the name of a host, and a line about it
_Events = queue.SimpleQueue[Callable[[], None]]  # what threads of hosts leave to the sweep's own


class _OutcomeListener(Protocol):
    """Listener of outcomes; called by the sweep's own thread."""

    def begins(self, configuration: Configuration, done: int, total: int) -> None:
        """A configuration begins, or the cool-down before it."""
        ...

    def ends(self, outcome: Outcome, done: int, total: int, left_s: float | None) -> None:
        """A configuration has an outcome; `left_s` is how long the others will take, as far as is known."""
        ...

    def warns(self, text: str) -> None:
        """Something the user must know."""
        ...


class SweepListener(_OutcomeListener, Protocol):
    """Listener of a sweep of this machine."""

    def progresses(self, progress: Progress) -> None:
        """Progress of the training that began last."""
        ...


class HostsListener(_OutcomeListener, Protocol):
    """Listener of a sweep on several hosts."""

    def stands(self, host: str, doing: str, done: int, total: int) -> None:
        """State of a host: what it does now, and how many of its configurations have an outcome."""
        ...

    def progresses(self, host: str, progress: Progress) -> None:
        """Progress of its measurement."""
        ...

    def says(self, host: str, text: str) -> None:
        """A line about a host: what travels, that its connection is lost."""
        ...


def sweep_here(
    plan: SweepPlan, folder: SweepFolder, listener: SweepListener, measured: Measure = measure
) -> None:
    """Runs what has no outcome yet on this machine, one after the other.

    Args:
        plan: Plan of the sweep.
        folder: Where runs and outcomes go.
        listener: Who is told.
        measured: Trains one configuration.

    Raises:
        KeyboardInterrupt: The user stopped it; the same plan in the same folder continues.
        RecordingError: Nothing can be measured or written any more, or a state of the device was
            not taken.
    """
    for outcome in {tuple(one.versions.items()): one for one in folder.outcomes.values()}.values():
        if changed := unlike(outcome.versions, versions()):
            name = outcome.configuration.name
            listener.warns(f"since {name} was measured: {'; '.join(changed)}")
    known = any(Tally(folder.outcomes.values()).baselines.values())
    if plan.cooldown == "auto" and not known and hottest_zone() is None:
        listener.warns("no temperature can be read here: no cool-down between configurations")
    with Keeper(folder.path, warn=listener.warns) as keeper:
        host = LocalHost(keeper=keeper, measured=measured)
        sweep_on(lambda _: [host], plan, folder, _Alone(listener))


class _Alone:
    """Tells the listener of a sweep of one host, which needs no name."""

    def __init__(self, listener: SweepListener) -> None:
        self.begins, self.ends, self.warns = listener.begins, listener.ends, listener.warns
        self._observer = listener

    def stands(self, host: str, doing: str, done: int, total: int) -> None:
        """Says nothing: `begins` and `ends` say it all."""

    def progresses(self, host: str, progress: Progress) -> None:
        self._observer.progresses(progress)

    def says(self, host: str, text: str) -> None:
        """There is nothing to tell apart."""


def sweep_on(
    hosts: Callable[[Say], Sequence[Host]],
    plan: SweepPlan,
    folder: SweepFolder,
    listener: HostsListener,
    *,
    retry_s: float = RETRY_S,
) -> None:
    """Runs what has no outcome yet, each host its own configurations in their order.

    A host that is away keeps its configurations; it is tried again now and then while others
    go on, and a last time when they have ended.

    Args:
        hosts: Gives them; it is given what takes lines for the user, from any thread.
        plan: Plan of the sweep.
        folder: Where runs and outcomes go.
        listener: Who is told.
        retry_s: How long to wait before a host that is away is tried again.

    Raises:
        KeyboardInterrupt: The user stopped it; the same plan in the same folder continues.
        RecordingError: Configurations stay open, on which hosts and why; or nothing can be
            written here.
    """
    events: _Events = queue.SimpleQueue()
    opened = hosts(lambda name, text: events.put(lambda: listener.says(name, text)))
    _Sweep(opened, plan, folder, listener, events, retry_s).run()


@dataclass(kw_only=True)
class _Stand:
    """State of the sweep on one host.

    Attributes:
        host: Which.
        name: Its name; "" without one.
        all: Its configurations.
        waiting: Those of them that are to be measured, in their order.
        running: Those that are measured now.
        away: Why it cannot be reached, or "".
        stopped: Why it is not used any more in this turn, or "".
        tried_s: When it was last given something.
        tried_at: How many outcomes there were then.
        used: Whether anything was ever begun there.
        machine: Its machine, as it was seen.
        tally: Of its outcomes, those of configurations that are not in this sweep any more included.
        done: Number of its configurations that have an outcome.
    """

    host: Host
    name: str
    all: list[Configuration]
    waiting: list[Configuration]
    running: list[Configuration] = field(default_factory=list)
    away: str = ""
    stopped: str = ""
    tried_s: float = 0.0
    tried_at: int = 0
    used: bool = False
    machine: MeasuringMachine = field(default_factory=MeasuringMachine)
    tally: Tally = field(default_factory=Tally)
    done: int = 0

    @property
    def doing(self) -> str:
        """Activity of the host, in words."""
        if self.running:
            return ", ".join(one.name for one in self.running)
        if self.stopped:
            return f"not used any more: {self.stopped}"
        if self.away:
            return f"away: {self.away}"
        return "waiting" if self.waiting else "done"


class _Sweep:
    """Hands out configurations to hosts, and takes in what comes of them."""

    def __init__(
        self,
        hosts: Sequence[Host],
        plan: SweepPlan,
        folder: SweepFolder,
        listener: HostsListener,
        events: _Events,
        retry_s: float,
    ) -> None:
        self._plan, self._folder, self._observer = plan, folder, listener
        self._events, self._retry_s = events, retry_s
        self._begun = time.monotonic()
        self._ended = 0  # outcomes of this turn
        self._downs: Counter[str] = Counter()  # how often each brought its board down
        self._stopping = self._changed = False
        self._stands = [self._stand(host) for host in hosts]
        self._total = sum(len(stand.all) for stand in self._stands)
        self._left: float | None = None
        self._left_at = self._left_until = 0.0

    def _stand(self, host: Host) -> _Stand:
        mine = [one for one in self._plan.configurations() if one.device == host.name]
        outcomes = [
            one for one in self._folder.outcomes.values() if one.configuration.device == host.name
        ]
        tally = Tally(outcomes)
        waiting = [one for one in mine if one.name not in tally.done]
        machine = next((one.machine for one in outcomes if one.machine), MeasuringMachine())
        return _Stand(
            host=host, name=host.name or "", all=mine, waiting=waiting, machine=machine, tally=tally,
            done=len(mine) - len(waiting),
        )  # fmt: skip

    # --- handing out ------------------------------------------------------------------------

    def run(self) -> None:
        """Until nothing more can be measured."""
        try:
            for stand in self._stands:
                if not stand.all:
                    self._observer.warns(f"{stand.name}: none of this sweep's workloads goes there")
                self._show(stand)
            while self._hand_out():
                self._wait()
        except BaseException:
            self._stop()
            raise
        finally:
            self._leave()
        self._say_open()

    def _hand_out(self) -> bool:
        """Gives each host as much as it has room for; whether anything is under way."""
        for stand in self._stands:
            while (configuration := self._next(stand)) is not None:
                self._begin(stand, configuration)
        return any(stand.running for stand in self._stands)

    def _next(self, stand: _Stand) -> Configuration | None:
        """The next one that a host can run; of those that differ in batch size only one at a time.

        What need not be tried, since a smaller batch ran out of memory there, has its outcome.
        """
        if stand.stopped or not stand.waiting or not self._is_free(stand):
            return None
        families = {one.family for one in stand.running}
        for configuration in list(stand.waiting):
            outcome = stand.tally.skipped(configuration)
            if outcome is not None:
                stand.waiting.remove(configuration)
                self._keep(stand, outcome)
            elif configuration.family not in families:
                stand.waiting.remove(configuration)
                return configuration
        return None

    def _is_free(self, stand: _Stand) -> bool:
        if stand.running:
            return not stand.away and len(stand.running) < stand.host.room()
        if not stand.away:
            return True
        if any(other.running for other in self._stands):
            return time.monotonic() >= stand.tried_s + self._retry_s
        return self._ended > stand.tried_at  # a last time, where others have gone on since

    def _begin(self, stand: _Stand, configuration: Configuration) -> None:
        out = self._folder.clear(configuration.name)
        task = Task(
            configuration=configuration,
            settings=self._plan.settings_of(configuration, out=out),
            memory_limit=self._plan.limit_of(configuration.device),
            cooldown=self._plan.cooldown,
            baselines=dict(stand.tally.baselines),
        )
        stand.running.append(configuration)
        stand.tried_s, stand.tried_at, stand.used = time.monotonic(), self._ended, True
        self._observer.begins(configuration, self._done, self._total)
        self._show(stand)
        measuring = in_thread(lambda: stand.host.measure(task, self._listener(stand)))
        measuring.add_done_callback(
            lambda ended: self._events.put(lambda: self._take_in(stand, configuration, ended))
        )

    def _listener(self, stand: _Stand) -> Listener:
        put, listener, name = self._events.put, self._observer, stand.name
        prefix = f"{name}: " if name else ""
        return Listener(
            on_progress=lambda progress: put(lambda: listener.progresses(name, progress)),
            on_warning=lambda text: put(lambda: listener.warns(f"{prefix}{text}")),
        )

    def _wait(self) -> None:
        """Until a measurement has ended, or a host may be free for another reason."""
        due = []
        for stand in self._stands:
            if stand.waiting and not stand.stopped:
                if stand.away and not stand.running:
                    due.append(stand.tried_s + self._retry_s)
                if stand.host.look_every_s is not None:
                    due.append(time.monotonic() + stand.host.look_every_s)
        self._changed = False
        with suppress(queue.Empty):
            while not self._changed:
                timeout = max(min(due) - time.monotonic(), 0.0) if due else None
                self._events.get(timeout=timeout)()

    # --- taking in --------------------------------------------------------------------------

    def _take_in(self, stand: _Stand, configuration: Configuration, ended: Future[Outcome]) -> None:
        self._changed = True
        stand.running.remove(configuration)
        error = ended.exception()
        if self._stopping:  # what we ended by force is no result
            if error is None and ended.result().status in ("trained", "interrupted"):
                self._take_outcome(stand, configuration, ended.result())
            return
        if error is None:
            if stand.away:
                stand.away = ""
                self._observer.says(stand.name, "is back")
            self._take_outcome(stand, configuration, ended.result())
        elif not stand.name or not isinstance(error, (WattstepError, OSError)):
            raise error
        elif isinstance(error, WattstepError):
            self._take_failure(stand, configuration, error)
        else:  # of this machine's; the other hosts may go on
            message = error.strerror or type(error).__name__
            failure = RecordingError(f"it cannot be driven from here: {message}")
            self._take_failure(stand, configuration, failure)
        self._show(stand)

    def _take_outcome(self, stand: _Stand, configuration: Configuration, outcome: Outcome) -> None:
        stand.machine = stand.machine or outcome.machine
        different = unlike_machines(stand.machine, outcome.machine, ("clocks",))
        if different:
            self._folder.clear(configuration.name)
            stand.waiting.insert(0, configuration)
            self._stop_using(
                stand,
                f"{outcome.worker or 'it'} is another machine than before "
                f"({'; '.join(different)}): give it a name of its own",
            )
            return
        attempts = outcome.attempts + self._downs[configuration.name]
        self._keep(stand, replace(outcome, attempts=attempts))
        if self._stopping:
            return
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
        if not outcome.final:
            stand.waiting.insert(0, configuration)
            reason = outcome.reason.removesuffix(f"; {CONTINUES}")
            if not stand.name:  # nothing else can go on
                raise RecordingError(
                    f"{configuration.name}: {reason}; {CONTINUES}", id="sweep-stopped"
                )
            self._stop_using(stand, reason)

    def _take_failure(
        self, stand: _Stand, configuration: Configuration, error: WattstepError
    ) -> None:
        """Of the host; what a training does is an outcome."""
        brought_down = str(error).startswith((RESTARTED, DIED))
        self._downs[configuration.name] += brought_down
        if self._downs[configuration.name] >= ATTEMPTS:
            self._keep(stand, _killed(configuration, str(error), ATTEMPTS))
            return
        stand.waiting.insert(0, configuration)
        if isinstance(error, ConnectionLostError):
            if not stand.away:
                self._observer.says(stand.name, f"away, its configurations stay open: {error}")
            stand.away = str(error)
        elif brought_down:
            self._observer.says(stand.name, f"{error}; {configuration.name} begins again")
        else:
            self._stop_using(stand, str(error))

    def _stop_using(self, stand: _Stand, reason: str) -> None:
        stand.stopped = reason
        self._observer.says(stand.name, f"is not used any more: {reason}")

    def _keep(self, stand: _Stand, outcome: Outcome) -> None:
        self._folder.add(outcome)
        self._folder.save(time.monotonic() - self._begun)
        self._ended += 1
        name = outcome.configuration.name
        before = name in stand.tally.done
        stand.tally.add(outcome)
        stand.done += (name in stand.tally.done) - before
        self._observer.ends(outcome, self._done, self._total, self._left_s())
        self._show(stand)

    @property
    def _done(self) -> int:
        return sum(stand.done for stand in self._stands)

    def _left_s(self) -> float | None:
        """Time that the rest takes, in s, None where that is not known; kept for a while where many are left."""
        began = time.monotonic()
        if self._left is None or began >= self._left_until:
            self._left, self._left_at = self._longest_left_s(), began
            took_s = time.monotonic() - began
            self._left_until = began + (LEFT_KEPT * took_s if took_s > LEFT_QUICK_S else 0.0)
        return None if self._left is None else max(self._left - (began - self._left_at), 0.0)

    def _longest_left_s(self) -> float | None:
        """As long as the host that takes longest; None where one is not known."""
        known = []
        for stand in self._stands:
            if not stand.away and not stand.stopped:
                left = stand.tally.time_left([*stand.waiting, *stand.running])
                if left is None:
                    return None
                known.append(left / stand.host.room())
        return max(known, default=0.0)

    def _show(self, stand: _Stand) -> None:
        self._observer.stands(stand.name, stand.doing, stand.done, len(stand.all))

    # --- the end ----------------------------------------------------------------------------

    def _stop(self) -> None:
        """Ends what is measured; Ctrl-C once more does not wait for it."""
        self._stopping = True
        for stand in self._stands:
            if stand.running:
                self._observer.says(
                    stand.name, "ending what it measures; Ctrl-C does not wait for it"
                )
                stand.host.end()
        end = time.monotonic() + _STOP_S
        with suppress(queue.Empty):
            while any(stand.running for stand in self._stands):
                self._events.get(timeout=max(end - time.monotonic(), 0.0))()

    def _leave(self) -> None:
        """Every host that is not measuring is left as it was."""
        free = [stand for stand in self._stands if stand.used and not stand.running]
        for stand, closing in [(stand, in_thread(stand.host.close)) for stand in free]:
            try:
                closing.result()
            except (WattstepError, OSError) as error:
                self._observer.warns(f"{stand.name}: something may stay there: {error}")
        with suppress(queue.Empty):
            while True:
                self._events.get_nowait()()

    def _say_open(self) -> None:
        """Raises an error that names what was not measured, with the reasons.

        Raises:
            RecordingError: There is something.
        """
        still = [stand for stand in self._stands if stand.waiting]
        if not still:
            return
        count = sum(len(stand.waiting) for stand in still)
        why = "; ".join(
            f"{stand.name} {len(stand.waiting)}, {stand.stopped or stand.away}" for stand in still
        )
        raise RecordingError(
            f"{count} of {self._total} configurations stay open ({why}); {CONTINUES}",
            id="left-open",
        )


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Result of work in a thread that this process, when it ends, does not wait for."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _killed(configuration: Configuration, message: str, attempts: int) -> Outcome:
    """The outcome of one that brought its board down again and again."""
    now = time.time()
    return Outcome(
        configuration=configuration,
        status="killed",
        reason=f"its board, or the job there, went down {attempts} times",
        evidence=Evidence(said=message),
        started=now,
        ended=now,
        attempts=attempts,
    )

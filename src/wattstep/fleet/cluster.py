"""The same sweep on a Dask cluster: one measurement at a time on each device, lost workers made up for."""

from __future__ import annotations

import errno
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from wattstep.errors import RecordingError, WattstepError
from wattstep.fleet.cluster_task import TOPIC, measure_there, unpack
from wattstep.fleet.folder import SweepFolder, recording_errors
from wattstep.fleet.outcome import Configuration, Evidence, Outcome, State
from wattstep.fleet.place import this_machine
from wattstep.fleet.plan import SweepPlan
from wattstep.fleet.sweep import (
    Watcher,
    count_done,
    first_temperature,
    is_done,
    skipped,
    stop_if_unrecorded,
    time_left,
)
from wattstep.fleet.workers import LABEL, Alike, capacity_of, devices_of, host_of, workers_of
from wattstep.parts import load_part

PATIENCE_S: Final = 600.0  # how long a label may be without any worker
_LOOK_EVERY_S: Final = 1.0

Work = Callable[[Mapping[str, Any]], tuple[dict[str, Any], bytes]]


def sweep_cluster(
    plan: SweepPlan,
    folder: SweepFolder,
    watcher: Watcher,
    client: Any,
    *,
    work: Work | None = None,
    patience_s: float = PATIENCE_S,
) -> None:
    """Runs what has no outcome yet on the workers of a cluster.

    Each configuration takes 1 of the resource of its device, so that a worker with 1 of it
    measures one at a time. A configuration whose worker is lost is begun again on another one
    with its label; the scheduler gives up after `distributed.scheduler.allowed-failures` (3) losses.

    Raises:
        KeyboardInterrupt: The user stopped it; the same plan in the same folder continues. What
            workers have begun they end, and it is dropped.
        InvalidValueError: Machines that differ carry one label.
        RecordingError: No worker carries a label any more, or nothing can be written.
    """
    alike = Alike(folder.outcomes.values())
    machines = client.run(this_machine, on_error="ignore")
    for address, worker in workers_of(client).items():
        for device in devices_of(address, worker):
            if device in plan.devices and address in machines:
                alike.check(device, address, machines[address])
    _Dispatch(plan, folder, watcher, client, work or measure_there, patience_s, alike).run()


class _Dispatch:
    """Hands out as many configurations as there are devices, and takes in their outcomes."""

    def __init__(
        self,
        plan: SweepPlan,
        folder: SweepFolder,
        watcher: Watcher,
        client: Any,
        work: Work,
        patience_s: float,
        alike: Alike,
    ) -> None:
        self._alike = alike
        self._plan, self._folder, self._watcher = plan, folder, watcher
        self._client, self._work, self._patience_s = client, work, patience_s
        self._all = list(plan.configurations())
        self._waiting = deque(one for one in self._all if not is_done(one, folder.outcomes))
        self._running: dict[Any, Configuration] = {}
        self._begun = time.monotonic()
        self._seen: dict[str, float] = {}  # when a label last had a worker

    def run(self) -> None:
        try:
            while self._waiting or self._running:
                self._hand_out()
                for future in self._ended():
                    self._take_in(future)
        finally:
            self._client.cancel(list(self._running))

    def _hand_out(self) -> None:
        """The next ones; of those that differ in batch size only, one after the other."""
        capacity = capacity_of(self._client)
        self._check(capacity)
        for configuration in list(self._waiting):
            outcome = skipped(configuration, self._folder.outcomes.values())
            if outcome is not None:
                self._waiting.remove(configuration)
                self._keep(outcome)
                continue
            busy = list(self._running.values())
            device = configuration.device or ""
            if sum(one.device == device for one in busy) >= capacity.get(device, 0):
                continue
            if any(one.family == configuration.family for one in busy):
                continue
            self._waiting.remove(configuration)
            self._running[self._submit(configuration)] = configuration
            done = count_done(self._all, self._folder.outcomes)
            self._watcher.begins(configuration, done, len(self._all))

    def _submit(self, configuration: Configuration) -> Any:
        settings = self._plan.settings_of(configuration, out="")
        key = f"wattstep-{configuration.name}-{time.monotonic_ns()}"
        task = {
            "key": key,
            "configuration": asdict(configuration),
            "settings": asdict(settings),
            "memory_limit": self._plan.memory_limit,
            "cooldown": self._plan.cooldown,
            "baselines": baselines(self._folder.outcomes.values()),
        }
        return self._client.submit(
            self._work,
            task,
            key=key,
            resources={f"{LABEL}{configuration.device}": 1},
            priority=-self._all.index(configuration),
            pure=False,
        )

    def _ended(self) -> list[Any]:
        """Those that came to an end; waits a moment where none did."""
        end = time.monotonic() + _LOOK_EVERY_S
        while True:
            ended = [future for future in self._running if future.done()]
            if ended or time.monotonic() > end:
                return ended
            time.sleep(_LOOK_EVERY_S / 10)

    def _take_in(self, future: Any) -> None:
        configuration = self._running.pop(future)
        attempts = max(self._attempts(future.key), 1)
        if future.status == "finished":
            document, packed = future.result()
            outcome = Outcome.from_dict(document)
            if outcome.machine:
                self._alike.check(configuration.device, outcome.worker or "", outcome.machine)
            with recording_errors(self._folder.path):
                unpack(packed, Path(self._folder.clear(configuration.name)))
            self._keep(replace(outcome, attempts=attempts))
        elif future.status == "error":
            self._keep(outcome_of_failure(configuration, future.exception(), attempts))
        else:  # the scheduler lost its memory
            self._waiting.appendleft(configuration)

    def _keep(self, outcome: Outcome) -> None:
        self._folder.add(outcome)
        self._folder.save(time.monotonic() - self._begun)
        outcomes = self._folder.outcomes
        capacity = capacity_of(self._client)
        devices = max(sum(capacity.get(name or "", 0) for name in self._plan.devices), 1)
        left_s = time_left(self._all, outcomes)
        self._watcher.ends(
            outcome,
            count_done(self._all, outcomes),
            len(self._all),
            None if left_s is None else left_s / devices,
        )
        stop_if_unrecorded(outcome)

    def _attempts(self, key: str) -> int:
        """How often a worker said that it begins this task."""
        events = self._client.get_events(TOPIC)
        return sum(event["key"] == key for _, event in events)

    def _check(self, capacity: Mapping[str, int]) -> None:
        """Workers come and go; a label without any for long ends the sweep."""
        now = time.monotonic()
        for device in {one.device or "" for one in [*self._waiting, *self._running.values()]}:
            if capacity.get(device):
                self._seen[device] = now
            elif now - self._seen.setdefault(device, now) > self._patience_s:
                raise RecordingError(
                    f"no worker has carried {LABEL}{device} for {self._patience_s:.0f} s: start "
                    "one; the same command continues"
                )


def baselines(outcomes: Iterable[Outcome]) -> dict[str, float | None]:
    """Hottest zone in °C before the first configuration of all, by the host that measured it."""
    hosts: dict[str, dict[str, Outcome]] = {}
    for outcome in outcomes:
        if outcome.worker is not None:
            hosts.setdefault(host_of(outcome.worker), {})[outcome.configuration.name] = outcome
    return {host: first_temperature(found) for host, found in hosts.items()}


def outcome_of_failure(
    configuration: Configuration, error: BaseException, attempts: int
) -> Outcome:
    """The outcome of a task that never came to one of its own."""
    now = time.time()
    lost = isinstance(error, load_part("distributed.scheduler").KilledWorker)
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    return Outcome(
        configuration=configuration,
        status="killed" if lost else _status_of(error),
        reason="its workers were lost, again and again" if lost else said,
        evidence=Evidence(said=f"{type(error).__name__}: {said}"),
        started=now,
        ended=now,
        attempts=attempts,
    )


def _status_of(error: BaseException) -> State:
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or isinstance(error, RecordingError):
        return "unrecorded"
    return "refused" if isinstance(error, WattstepError) else "crashed"

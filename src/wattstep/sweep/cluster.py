"""The workers of a Dask cluster as hosts of a sweep: those with one label are one host, with room for as many."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from wattstep.errors import InvalidValueError, RecordingError, WattstepError
from wattstep.schema.configuration import unlike_machines
from wattstep.schema.extras import require
from wattstep.schema.outcome import Configuration, Evidence, Outcome, State
from wattstep.schema.run_documents import MeasuringMachine
from wattstep.sweep.cluster_task import TOPIC, measure_on_worker, unpack
from wattstep.sweep.folder import SweepFolder
from wattstep.sweep.hosts import Task
from wattstep.sweep.plan import SweepPlan
from wattstep.sweep.sweep import HostsListener, sweep_on
from wattstep.train.child.local_machine import this_machine
from wattstep.train.child.measuring import Listener, recording_errors

LABEL: Final = "device_"  # begins the names of the resources that stand for devices
PATIENCE_S: Final = 600.0  # how long a label may be without any worker
_CONNECT_S: Final = 15.0
_LOOK_EVERY_S: Final = 1.0  # which workers there are
_WAIT_S: Final = 0.1  # whether one has ended


def sweep_cluster(
    client: Any, plan: SweepPlan, folder: SweepFolder, listener: HostsListener
) -> None:
    """The sweep on the workers of a cluster; see `sweep_on`.

    Each configuration takes 1 of the resource of its device, so that a worker with 1 of it
    measures one at a time. A configuration whose worker is lost is begun again on another one
    with its label; the scheduler gives up after `distributed.scheduler.allowed-failures` (3) losses.

    Raises:
        KeyboardInterrupt: The user stopped it; the same plan in the same folder continues. What
            workers have begun they end, and it is dropped.
        InvalidValueError: Machines that differ carry one label.
        RecordingError: As `sweep_on`; no worker carries a label any more.
    """
    before = [one for one in folder.outcomes.values() if one.machine]
    first = {one.configuration.device: one.machine for one in reversed(before)}
    machines = client.run(this_machine, plan.settings.processor, on_error="ignore")
    for address, worker in workers_of(client).items():
        for device in devices_of(address, worker):
            if device in plan.devices and address in machines:
                check_alike(first, device, address, machines[address])
    hosts = [ClusterHost(str(device), client) for device in plan.devices]
    sweep_on(lambda _: hosts, plan, folder, listener)


class ClusterHost:
    """All workers that carry a label, which Dask gives the next configuration.

    Args:
        name: The label.
        client: Of the scheduler.
        patience_s: How long it may be without any worker.
    """

    look_every_s = _LOOK_EVERY_S

    def __init__(self, name: str, client: Any, patience_s: float = PATIENCE_S) -> None:
        self.name = name
        self._client, self._patience_s = client, patience_s
        self._ended = threading.Event()

    def room(self) -> int:
        """As many as there are workers; with none, one waits for them."""
        return max(self._workers(), 1)

    def measure(self, task: Task, listener: Listener) -> Outcome:
        """See `Host`; what goes wrong with a task on the cluster is an outcome.

        Raises:
            RecordingError: There has been no worker for too long, or its run cannot be written.
        """
        future = self._submit(task)
        seen = looked = time.monotonic()
        while future.status not in ("finished", "error"):
            if self._ended.wait(_WAIT_S):
                future.cancel()
                raise KeyboardInterrupt
            if (now := time.monotonic()) < looked + _LOOK_EVERY_S:
                continue
            looked = now
            seen = now if self._workers() else seen
            if now - seen > self._patience_s:
                future.cancel()
                raise RecordingError(
                    f"no worker has carried {LABEL}{self.name} for {self._patience_s:.0f} s: "
                    "start one",
                    id="no-worker",
                )
            if future.status in ("cancelled", "lost"):  # the scheduler lost its memory
                future = self._submit(task)
        # How often a worker said that it begins this task.
        begun = [event["key"] for _, event in self._client.get_events(TOPIC)]
        attempts = max(begun.count(future.key), 1)
        if future.status == "error":
            return outcome_of_failure(task.configuration, future.exception(), attempts)
        outcome: Outcome
        outcome, packed = future.result()
        run = Path(task.settings.out or task.configuration.name)
        with recording_errors(run.parent):
            unpack(packed, run)
        return replace(outcome, attempts=attempts)

    def end(self) -> None:
        """Ends the sweep; workers end what they have begun."""
        self._ended.set()

    def close(self) -> None:
        """Workers stay."""

    def _workers(self) -> int:
        return capacity_of(self._client).get(self.name, 0)

    def _submit(self, task: Task) -> Any:
        key = f"wattstep-{task.configuration.name}-{time.monotonic_ns()}"
        sent = replace(task, settings=replace(task.settings, out=""))
        resources = {f"{LABEL}{self.name}": 1}
        return self._client.submit(
            measure_on_worker, sent, key, key=key, resources=resources, pure=False
        )


def connect(address: str, timeout_s: float = _CONNECT_S) -> Any:
    """A client of the scheduler.

    Raises:
        MissingPartError: Dask is not installed.
        InvalidValueError: No scheduler answers there.
    """
    distributed = require("distributed")
    try:
        return distributed.Client(address, timeout=timeout_s, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InvalidValueError(
            f"--scheduler {address}: no scheduler answers there ({error or 'timeout'})",
            id="no-scheduler",
        ) from error


def find_devices(client: Any, wanted: Iterable[str] | None) -> tuple[str, ...]:
    """Labels of the devices to measure on.

    Args:
        client: Of the scheduler.
        wanted: Labels, or None for the only one that there is.

    Raises:
        InvalidValueError: No worker carries one, or it is not clear which is meant.
    """
    labels = sorted(capacity_of(client))
    example = "dask worker ADDRESS --nthreads 1 --resources device_tx2=1"
    if wanted is None:
        if len(labels) == 1:
            return (labels[0],)
        raise InvalidValueError(
            f"workers carry several labels, give --device: {', '.join(labels)}"
            if labels
            else f"no worker carries a label of a device; start one so: {example}"
        )
    chosen = tuple(dict.fromkeys(wanted))
    for device in chosen:
        if device not in labels:
            known = f"there are: {', '.join(labels)}" if labels else f"start one so: {example}"
            raise InvalidValueError(f"--device {device}: no worker carries this label ({known})")
    return chosen


def check_alike(
    first: dict[str | None, MeasuringMachine],
    device: str,
    worker: str,
    machine: MeasuringMachine,
) -> None:
    """Of one more machine that carries a label.

    Args:
        first: Machine of the first worker of each label; a label that is new is added.
        device: The label.
        worker: Its address.
        machine: Its machine.

    Raises:
        InvalidValueError: It is another machine than those before.
    """
    different = unlike_machines(first.setdefault(device, machine), machine, ("clocks",))
    if different:
        raise InvalidValueError(
            f"worker {worker} carries {LABEL}{device} but is another machine "
            f"({'; '.join(different)}): give it a label of its own",
            id="another-machine",
        )


def capacity_of(client: Any) -> dict[str, int]:
    """Number of workers that carry each label."""
    capacity: dict[str, int] = {}
    for address, worker in workers_of(client).items():
        for device in devices_of(address, worker):
            capacity[device] = capacity.get(device, 0) + 1
    return capacity


def workers_of(client: Any) -> dict[str, Any]:
    """The scheduler's facts of each worker, by its address."""
    return dict(client.scheduler_info(n_workers=-1)["workers"])


def devices_of(address: str, worker: Mapping[str, Any]) -> list[str]:
    """Labels that a worker carries.

    Raises:
        InvalidValueError: An amount that would let it measure several at a time, or none.
    """
    amounts = {
        name: amount for name, amount in worker["resources"].items() if name.startswith(LABEL)
    }
    for name, amount in amounts.items():
        if amount != 1:
            raise InvalidValueError(
                f"worker {address} has {name}={amount:g}: a device measures one at a time, "
                f"give {name}=1"
            )
    return [name.removeprefix(LABEL) for name in amounts]


def outcome_of_failure(
    configuration: Configuration, error: BaseException, attempts: int
) -> Outcome:
    """The outcome of a task that never came to one of its own."""
    now = time.time()
    lost = isinstance(error, require("distributed.scheduler").KilledWorker)
    message = str(error).splitlines()[0] if str(error) else type(error).__name__
    return Outcome(
        configuration=configuration,
        status="killed" if lost else _status_of(error),
        reason="its workers were lost, again and again" if lost else message,
        evidence=Evidence(said=f"{type(error).__name__}: {message}"),
        started=now,
        ended=now,
        attempts=attempts,
    )


def _status_of(error: BaseException) -> State:
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or isinstance(error, RecordingError):
        return "unrecorded"
    return "refused" if isinstance(error, WattstepError) else "crashed"

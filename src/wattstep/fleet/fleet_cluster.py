"""A Dask cluster within this process: a worker of one thread for each device of a fleet."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from wattstep.errors import RecordingError, WattstepError
from wattstep.fleet.device import Measuring, Task
from wattstep.fleet.measuring import Listener
from wattstep.fleet.outcome import Outcome
from wattstep.fleet.workers import LABEL
from wattstep.parts import load_part

_SEAT: Final = "seat"
# Each part of Dask opens a server for its dashboard: without pages, and for this machine only.
_QUIET: Final = {
    "protocol": "inproc://",
    "dashboard": False,
    "dashboard_address": "127.0.0.1:0",
}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of a task.

    Attributes:
        outcome: Or None.
        error: What was wrong instead, or None.
        interrupted: Whether it was ended for us.
    """

    outcome: Outcome | None = None
    error: WattstepError | None = None
    interrupted: bool = False


@contextmanager
def fleet_cluster(
    devices: Mapping[str, Measuring], hears: Callable[[str], Listener]
) -> Iterator[Any]:
    """A client of a cluster whose workers stand for these devices, each with 1 of its resource.

    Args:
        devices: By name.
        hears: Gives who is told what a device says; called in the worker's thread.

    Raises:
        MissingPartError: Dask is not installed.
    """
    distributed, config = load_part("distributed"), load_part("dask.config")
    with tempfile.TemporaryDirectory(prefix="wattstep-") as scratch:
        settings = {
            "temporary-directory": scratch,
            "distributed.scheduler.http.routes": [],
            "distributed.worker.http.routes": [],
        }
        workers = {
            name: {
                "cls": distributed.Worker,
                "options": {
                    **_QUIET,
                    "nthreads": 1,
                    "memory_limit": 0,  # what is held here is this process's, not the device's
                    "local_directory": scratch,
                    "resources": {f"{LABEL}{name}": 1},
                    "plugins": (_seat(device, hears(name)),),
                },
            }
            for name, device in devices.items()
        }
        scheduler = {"cls": distributed.Scheduler, "options": _QUIET}
        with (
            config.set(settings),
            distributed.SpecCluster(
                workers=workers, scheduler=scheduler, silence_logs="ERROR"
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client


def submit(client: Any, device: str, task: Task) -> Any:
    """The future of a measurement on a device, whose result is an `Answer`."""
    return client.submit(
        _measure_there, task, resources={f"{LABEL}{device}": 1}, pure=False, retries=0
    )


def leave(client: Any, device: str) -> Any:
    """The future of leaving a device as it was."""
    return client.submit(_leave_there, resources={f"{LABEL}{device}": 1}, pure=False)


def _seat(device: Measuring, listener: Listener) -> Any:
    """What makes a worker stand for a device."""

    class Seat(load_part("distributed").WorkerPlugin):  # type: ignore[misc, unused-ignore]
        name = _SEAT

        def __init__(self) -> None:
            self.device, self.listener = device, listener

    return Seat()


def _measure_there(task: Task) -> Answer:
    seat = load_part("distributed").get_worker().plugins[_SEAT]
    try:
        return Answer(outcome=seat.device.measure(task, seat.listener))
    except KeyboardInterrupt:
        return Answer(interrupted=True)
    except WattstepError as error:  # as a value: Dask would write the task into its log
        return Answer(error=error)
    except OSError as error:  # of this machine's; the other devices may go on
        said = error.strerror or type(error).__name__
        return Answer(error=RecordingError(f"it cannot be driven from here: {said}"))


def _leave_there() -> None:
    seat = load_part("distributed").get_worker().plugins[_SEAT]
    try:
        seat.device.close()
    except (WattstepError, OSError) as error:
        seat.listener.on_warning(f"something may stay there: {error}")

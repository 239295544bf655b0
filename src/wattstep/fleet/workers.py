"""The workers of a Dask cluster: what stands for which device, and whether those of one label are alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from wattstep.errors import InvalidValueError
from wattstep.fleet.outcome import Outcome
from wattstep.fleet.place import unlike
from wattstep.parts import load_part

LABEL: Final = "device_"  # begins the names of the resources that stand for devices
_CONNECT_S: Final = 15.0


def connect(address: str, timeout_s: float = _CONNECT_S) -> Any:
    """A client of the scheduler.

    Raises:
        MissingPartError: Dask is not installed.
        InvalidValueError: No scheduler answers there.
    """
    distributed = load_part("distributed")
    try:
        return distributed.Client(address, timeout=timeout_s, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InvalidValueError(
            f"--scheduler {address}: no scheduler answers there ({error or 'timeout'})"
        ) from error


def find_devices(client: Any, wanted: Iterable[str] | None) -> tuple[str, ...]:
    """Labels of the devices to measure on.

    Args:
        client: Of the scheduler.
        wanted: Labels, or None for the only one that there is.

    Raises:
        InvalidValueError: No worker carries one, or it is not clear which is meant.
    """
    there = sorted(capacity_of(client))
    example = "dask worker ADDRESS --nthreads 1 --resources device_tx2=1"
    if wanted is None:
        if len(there) == 1:
            return (there[0],)
        raise InvalidValueError(
            f"workers carry several labels, give --device: {', '.join(there)}"
            if there
            else f"no worker carries a label of a device; start one so: {example}"
        )
    chosen = tuple(dict.fromkeys(wanted))
    for device in chosen:
        if device not in there:
            known = f"there are: {', '.join(there)}" if there else f"start one so: {example}"
            raise InvalidValueError(f"--device {device}: no worker carries this label ({known})")
    return chosen


class Alike:
    """Whether all machines that carry a label are of one kind.

    Args:
        outcomes: Of before; where they were measured counts.
    """

    def __init__(self, outcomes: Iterable[Outcome]) -> None:
        self._first: dict[str | None, Mapping[str, Any]] = {}
        for outcome in outcomes:
            if outcome.machine:
                self._first.setdefault(outcome.configuration.device, outcome.machine)

    def check(self, device: str | None, worker: str, machine: Mapping[str, Any]) -> None:
        """Of one more of them.

        Raises:
            InvalidValueError: It is another machine than those before.
        """
        different = unlike(self._first.setdefault(device, machine), machine)
        if different:
            raise InvalidValueError(
                f"worker {worker} carries {LABEL}{device} but is another machine "
                f"({'; '.join(different)}): give it a label of its own"
            )


def host_of(address: str) -> str:
    """The host in "tcp://HOST:PORT"; a worker that is started again has another port."""
    return urlsplit(address).hostname or address


def capacity_of(client: Any) -> dict[str, int]:
    """How many workers carry each label."""
    found: dict[str, int] = {}
    for address, worker in workers_of(client).items():
        for device in devices_of(address, worker):
            found[device] = found.get(device, 0) + 1
    return found


def workers_of(client: Any) -> dict[str, Any]:
    """What the scheduler knows of each worker, by its address."""
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

"""On which machine a run was made, in words: the one that trained, and the one whose sensors were read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wattstep.report.values import plain, quantity
from wattstep.schema.run_documents import DeviceFacts, MachineFacts

UNKNOWN: Final = "unknown machine"


def host(device: DeviceFacts) -> MachineFacts:
    """Facts of the machine that really trained: where a board is emulated, another one."""
    real = device.get("emulated_on")
    return real if isinstance(real, Mapping) else device


def sensors(device: DeviceFacts) -> str:
    """Whose sensors were read, where it was not the machine that trained; else ""."""
    if device.get("emulated_on"):
        return f"an emulated {plain(device.get('model') or 'board')}"
    return f"a {plain(device['sensors_of'])}" if device.get("sensors_of") else ""


def machine(device: DeviceFacts) -> list[str]:
    """The machine in a few words each; first the one that trained, and whose sensors were read."""
    own, there = host(device), sensors(device)
    cores, memory = own.get("cores"), own.get("memory")
    names = list(dict.fromkeys(plain(own[k]) for k in ("model", "cpu") if own.get(k)))
    parts = [
        *names,
        f"sensors: {there}" if there else None,
        None if cores is None else f"{cores} core" + ("" if cores == 1 else "s"),
        None if memory is None else f"{quantity(memory, 'B')} memory",
        virtuality(device),
        own.get("system"),
        f"kernel {own['kernel']}" if own.get("kernel") else None,
    ]
    return [plain(part) for part in parts if part]


def short(device: DeviceFacts) -> str:
    """The machine in one cell of a table."""
    there = sensors(device)
    return f"{named(device)} (sensors: {there})" if there else named(device)


def named(device: DeviceFacts) -> str:
    """What the machine that trained is called."""
    own = host(device)
    names = [own.get("model"), own.get("cpu")]
    known = dict.fromkeys(plain(name) for name in names if name and name != UNKNOWN)
    return ", ".join(known) or UNKNOWN


def virtuality(device: DeviceFacts) -> str:
    """ "virtual machine (KVM)" where the machine is virtual, else ""."""
    own = host(device)
    if not own.get("virtual"):
        return ""
    hypervisor = own.get("hypervisor")
    return f"virtual machine ({plain(hypervisor)})" if hypervisor else "virtual machine"

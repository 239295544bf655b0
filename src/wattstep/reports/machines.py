"""On which machine a run was made, in words: the one that trained, and the one whose sensors were read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wattstep.reports.values import plain, quantity

Document = Mapping[str, Any]


def host(document: Document) -> Mapping[str, Any]:
    """Facts of the machine that really trained: where a board is emulated, another one."""
    device: Mapping[str, Any] = document.get("device") or {}
    real = device.get("emulated_on")
    return real if isinstance(real, Mapping) else device


def sensors(document: Document) -> str:
    """Whose sensors were read, where it was not the machine that trained; else ""."""
    device = document.get("device") or {}
    if device.get("emulated_on"):
        return f"an emulated {plain(device.get('model') or 'board')}"
    return f"a {plain(device['sensors_of'])}" if device.get("sensors_of") else ""


def machine(document: Document) -> list[str]:
    """The machine in a few words each; first the one that trained, and whose sensors were read."""
    device, there = host(document), sensors(document)
    cores, memory = device.get("cores"), device.get("memory")
    names = list(dict.fromkeys(plain(device[k]) for k in ("model", "cpu") if device.get(k)))
    parts = [
        *names,
        f"sensors: {there}" if there else None,
        None if cores is None else f"{cores} core" + ("" if cores == 1 else "s"),
        None if memory is None else f"{quantity(memory, 'B')} memory",
        virtuality(document),
        device.get("system"),
        f"kernel {device['kernel']}" if device.get("kernel") else None,
    ]
    return [plain(part) for part in parts if part]


def short(document: Document) -> str:
    """The machine in one cell of a table."""
    device, there = host(document), sensors(document)
    names = [device.get("model"), device.get("cpu")]
    known = dict.fromkeys(plain(name) for name in names if name and name != "unknown machine")
    words = ", ".join(known) or "unknown machine"
    return f"{words} (sensors: {there})" if there else words


def virtuality(document: Document) -> str:
    """ "virtual machine (KVM)" where the machine is virtual, else ""."""
    device = host(document)
    if not device.get("virtual"):
        return ""
    hypervisor = device.get("hypervisor")
    return f"virtual machine ({plain(hypervisor)})" if hypervisor else "virtual machine"

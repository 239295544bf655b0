"""Description of this machine, reduced to what the figures need: no host, user or path names."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from wattstep import boards
from wattstep.boards import text_of
from wattstep.boards.table import Board
from wattstep.schema.run_documents import Cluster, DeviceFacts

_VENDORS = ("sys_vendor", "product_name")
_CPUS: Final = "sys/devices/system/cpu"
# Implementer and part of a core, as /proc/cpuinfo shows them; from the kernel's
# arch/arm64/include/asm/cputype.h and the list of lscpu.
_KINDS: Final[Mapping[tuple[int, int], str]] = MappingProxyType(
    {
        (0x41, 0xC07): "Cortex-A7",
        (0x41, 0xC0F): "Cortex-A15",
        (0x41, 0xD03): "Cortex-A53",
        (0x41, 0xD04): "Cortex-A35",
        (0x41, 0xD05): "Cortex-A55",
        (0x41, 0xD07): "Cortex-A57",
        (0x41, 0xD08): "Cortex-A72",
        (0x41, 0xD09): "Cortex-A73",
        (0x41, 0xD0A): "Cortex-A75",
        (0x41, 0xD0B): "Cortex-A76",
        (0x41, 0xD0C): "Neoverse-N1",
        (0x41, 0xD0D): "Cortex-A77",
        (0x41, 0xD40): "Neoverse-V1",
        (0x41, 0xD41): "Cortex-A78",
        (0x41, 0xD42): "Cortex-A78AE",
        (0x41, 0xD44): "Cortex-X1",
        (0x41, 0xD46): "Cortex-A510",
        (0x41, 0xD47): "Cortex-A710",
        (0x41, 0xD48): "Cortex-X2",
        (0x41, 0xD49): "Neoverse-N2",
        (0x41, 0xD4B): "Cortex-A78C",
        (0x41, 0xD4C): "Cortex-X1C",
        (0x41, 0xD4D): "Cortex-A715",
        (0x41, 0xD4E): "Cortex-X3",
        (0x41, 0xD4F): "Neoverse-V2",
        (0x41, 0xD80): "Cortex-A520",
        (0x41, 0xD81): "Cortex-A720",
        (0x41, 0xD82): "Cortex-X4",
        (0x4E, 0x000): "Denver",
        (0x4E, 0x003): "Denver2",
        (0x4E, 0x004): "Carmel",
    }
)


def describe(root: Path = Path("/")) -> DeviceFacts:
    """Model, board, processor, cores by cluster, memory in bytes, power mode, kernel, system.

    Whether it is virtual, too: `virtual` is None where nothing tells. `board` is the name of its
    table, `power_mode` what nvpmodel of a Jetson is set to; None where there is none.
    """
    cpuinfo = text_of(root / "proc/cpuinfo")
    fields = {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in cpuinfo.splitlines())
        if value
    }
    hypervisor = _hypervisor(root, fields)
    board = boards.identify(root)
    return {
        "model": _model(root),
        "board": None if board is None else board.name,
        "cpu": fields.get("model name") or fields.get("Hardware") or platform.machine(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0))
        if root == Path("/")
        else cpuinfo.count("processor\t"),
        "clusters": clusters(root, board),
        "governors": _governors(root),
        "power_mode": power_mode(root),
        "memory": _memory(root),
        "kernel": platform.release().split("-")[0],
        "system": _system(root),
        "virtual": hypervisor is not None if cpuinfo else None,
        "hypervisor": hypervisor,
    }


def _model(root: Path) -> str:
    tree = text_of(root / "proc/device-tree/model")
    if tree:
        return tree
    vendor, product = (text_of(root / "sys/class/dmi/id" / name) for name in _VENDORS)
    return " ".join(part for part in (vendor, product) if part) or "unknown machine"


def _hypervisor(root: Path, fields: dict[str, str]) -> str | None:
    if "hypervisor" not in fields.get("flags", "").split():
        return None
    kind = text_of(root / "sys/hypervisor/type") or text_of(root / "sys/class/dmi/id/sys_vendor")
    return kind or "unnamed"


def _memory(root: Path) -> int | None:
    match = re.search(r"^MemTotal:\s*([0-9]+) kB", text_of(root / "proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _system(root: Path) -> str:
    for line in text_of(root / "etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return platform.system()


def clusters(root: Path, board: Board | None) -> list[Cluster]:
    """Cores that are alike and share a clock: kind, their numbers, highest clock in Hz or None.

    Of the board's table, which knows cores that are offline, too; else by cpufreq policy, the
    kernel's capacity of a core and its part number. Cores with a clock each (x86) are one cluster
    where they are alike.
    """
    if board is not None and board.clusters:
        return [
            {"kind": each.kind, "cores": list(each.cores), "max_hz": each.max_hz}
            for each in board.clusters
        ]
    kinds = _kinds(text_of(root / "proc/cpuinfo"))
    groups: dict[tuple[Any, ...], list[int]] = {}
    for core in sorted(kinds):
        folder = root / _CPUS / f"cpu{core}"
        shared = _numbers(text_of(folder / "cpufreq/related_cpus"))
        max_hz = _max_hz(folder)
        capacity = text_of(folder / "cpu_capacity")
        own = shared if len(shared) > 1 else ()
        groups.setdefault((kinds[core], own, max_hz, capacity), []).append(core)
    return [
        {"kind": kind, "cores": cores, "max_hz": max_hz}
        for (kind, _, max_hz, _), cores in groups.items()
    ]


def _kinds(cpuinfo: str) -> dict[int, str]:
    """The kind of each core that is online: its name, or its part number where nobody knows it."""
    kinds: dict[int, str] = {}
    for block in re.split(r"\n\s*\n", cpuinfo):
        fields = {k.strip(): v.strip() for k, _, v in (x.partition(":") for x in block.split("\n"))}
        if fields.get("processor", "").isdecimal():
            kinds[int(fields["processor"])] = _kind(fields)
    return kinds


def _kind(fields: Mapping[str, str]) -> str:
    maker, part = fields.get("CPU implementer", ""), fields.get("CPU part", "")
    try:
        name = _KINDS.get((int(maker, 16), int(part, 16)))
    except ValueError:  # not an Arm
        return fields.get("model name") or platform.machine()
    return name or f"part {part} of maker {maker}"


def caches(root: Path = Path("/")) -> dict[str, tuple[int, int]]:
    """Caches of data from the second level on: bytes, and how many cores share one, by "L2".

    Empty where the system does not tell them.
    """
    sizes: dict[str, tuple[int, int]] = {}
    for folder in sorted((root / _CPUS / "cpu0/cache").glob("index[0-9]*")):
        size = re.fullmatch(r"(\d+)K", text_of(folder / "size"))
        level = text_of(folder / "level")
        if size is None or text_of(folder / "type") == "Instruction" or level in ("", "1"):
            continue
        sharing = text_of(folder / "shared_cpu_map").replace(",", "")
        cores = bin(int(sharing, 16)).count("1") if re.fullmatch("[0-9a-f]+", sharing) else 1
        sizes[f"L{level}"] = (int(size[1]) * 1024, max(cores, 1))
    return sizes


def _max_hz(folder: Path) -> float | None:
    text = text_of(folder / "cpufreq/cpuinfo_max_freq")
    return int(text) * 1e3 if text.isdecimal() else None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split() if word.isdecimal())


def _governors(root: Path) -> dict[str, str]:
    """Governors of the clock, by cpufreq policy, and of the GPU and other devices."""
    policies = sorted((root / _CPUS / "cpufreq").glob("policy[0-9]*/scaling_governor"))
    devices = sorted((root / "sys/class/devfreq").glob("*/governor"))
    return {path.parent.name: text for path in (*policies, *devices) if (text := text_of(path))}


def power_mode(root: Path) -> str | None:
    """Power mode of nvpmodel: its name, or its number where the name is not told; needs no root.

    Numbers mean other modes on other boards and releases; names are compared.
    """
    match = re.search(r"pmode:\s*(\d+)", text_of(root / "var/lib/nvpmodel/status"))
    if match is None:
        return None
    number = int(match[1])
    listed = text_of(root / "etc/nvpmodel.conf")
    for line in re.finditer(r"<\s*POWER_MODEL\s+([^>]*)>", listed):
        words = dict(re.findall(r"(\w+)=(\S+)", line[1]))
        if words.get("ID") == str(number) and "NAME" in words:
            return str(words["NAME"])
    return f"mode {number}"

"""What machine this is, reduced to what the figures need: no host, user or path names."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

_VENDORS = ("sys_vendor", "product_name")


def describe(root: Path = Path("/")) -> dict[str, Any]:
    """Model, processor, cores, memory in bytes, kernel, system, and whether it is virtual.

    `virtual` is None where nothing tells.
    """
    cpuinfo = _text(root / "proc/cpuinfo")
    fields = {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in cpuinfo.splitlines())
        if value
    }
    hypervisor = _hypervisor(root, fields)
    return {
        "model": _model(root),
        "cpu": fields.get("model name") or fields.get("Hardware") or platform.machine(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0))
        if root == Path("/")
        else cpuinfo.count("processor\t"),
        "memory": _memory(root),
        "kernel": platform.release().split("-")[0],
        "system": _system(root),
        "virtual": hypervisor is not None if cpuinfo else None,
        "hypervisor": hypervisor,
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").replace("\0", "").strip()
    except OSError:
        return ""


def _model(root: Path) -> str:
    tree = _text(root / "proc/device-tree/model")
    if tree:
        return tree
    vendor, product = (_text(root / "sys/class/dmi/id" / name) for name in _VENDORS)
    return " ".join(part for part in (vendor, product) if part) or "unknown machine"


def _hypervisor(root: Path, fields: dict[str, str]) -> str | None:
    if "hypervisor" not in fields.get("flags", "").split():
        return None
    kind = _text(root / "sys/hypervisor/type") or _text(root / "sys/class/dmi/id/sys_vendor")
    return kind or "unnamed"


def _memory(root: Path) -> int | None:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def _system(root: Path) -> str:
    for line in _text(root / "etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return platform.system()

"""Whether CUPTI, by which NVIDIA's GPUs are traced, can be used; asked before it is called, for it may crash."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from wattstep.boards import text_of

# Nodes of the GPU's driver on Tegra that profiling opens: of today's nvgpu, and of older ones.
_PROFILING: Final = (
    "dev/nvgpu/*/prof",
    "dev/nvgpu/*/prof-ctx",
    "dev/nvgpu/*/prof-dev",
    "dev/nvhost-prof-gpu",
    "dev/nvhost-prof-ctx-gpu",
    "dev/nvhost-prof-dev-gpu",
)
_OF_DESKTOPS: Final = ("dev/nvidiactl", "dev/nvidia[0-9]*")  # Thor has the driver of desktops
_ADMIN_ONLY: Final = re.compile(r"^RmProfilingAdminOnly:\s*1\s*$", re.MULTILINE)
# Set by a profiler in the processes that it starts: its library has CUPTI before us.
_TAKEN: Final[Mapping[str, str]] = {
    "CUDA_INJECTION64_PATH": "a profiler that was put into this process has CUPTI",
    "NSYS_PROFILING_SESSION_ID": "Nsight Systems has CUPTI",
}


def cupti_refused(
    root: Path, *, euid: int, groups: Collection[int], cuda_version: str | None
) -> str | None:
    """Reason why CUPTI must not be called; None: it may be.

    On Tegra, tracing needs root with CUDA 10 to 12. With 13 it needs to read and write the nodes of
    the driver: without, subscribing may crash. Elsewhere activity is traced without privilege;
    `NVreg_RestrictProfilingToAdminUsers` guards counters alone.

    Args:
        root: Of the file system.
        euid: The effective user.
        groups: Those of the process.
        cuda_version: That torch was built for, e.g. "12.6"; None: for none (ROCm).
    """
    if cuda_version is None or euid == 0 or not _is_tegra(root):
        return None
    major = re.match(r"\d+", cuda_version)
    if major is None or int(major[0]) < 13:
        return f"CUPTI needs root on Tegra with CUDA {cuda_version}"
    if _ADMIN_ONLY.search(text_of(root / "proc/driver/nvidia/params")):
        return "the driver lets none but root profile (RmProfilingAdminOnly)"
    nodes = _matching(root, _PROFILING) or _matching(root, _OF_DESKTOPS)
    if not nodes:
        return "the GPU's device nodes, which CUPTI opens on Tegra, were not found"
    closed = [node for node in nodes if not _may_use(node, euid, groups)]
    if closed:
        return f"/{closed[0].relative_to(root)} must be readable and writable for CUPTI on Tegra"
    return None


def cupti_taken(environment: Mapping[str, str]) -> str | None:
    """Reason why another profiler has CUPTI, which has one user a process; None: none is known of.

    Args:
        environment: Of the process.
    """
    return next((reason for name, reason in _TAKEN.items() if environment.get(name)), None)


def refused_here(cuda_version: str | None) -> str | None:
    """`cupti_taken` or `cupti_refused` of this process."""
    return cupti_taken(os.environ) or cupti_refused(
        Path("/"),
        euid=os.geteuid(),
        groups={os.getegid(), *os.getgroups()},
        cuda_version=cuda_version,
    )


def may_crash_here(cuda_version: str | None) -> str | None:
    """Reason why a profiler that subscribes to CUPTI, if only for the CPU's calls, may crash; None: it will not.

    That of torch does in some releases, whatever it is asked to trace.
    """
    major = re.match(r"\d+", cuda_version or "")
    if major is None or int(major[0]) < 13:
        return None
    return cupti_refused(
        Path("/"),
        euid=os.geteuid(),
        groups={os.getegid(), *os.getgroups()},
        cuda_version=cuda_version,
    )


def _is_tegra(root: Path) -> bool:
    compatible = text_of(root / "proc/device-tree/compatible")
    return "nvidia,tegra" in compatible or (root / "etc/nv_tegra_release").exists()


def _matching(root: Path, patterns: Collection[str]) -> list[Path]:
    return sorted(path for pattern in patterns for path in root.glob(pattern))


def _may_use(node: Path, euid: int, groups: Collection[int]) -> bool:
    """True if this user may read and write it."""
    try:
        status = node.stat()
    except OSError:
        return False
    if status.st_uid == euid:
        wanted = stat.S_IRUSR | stat.S_IWUSR
    elif status.st_gid in groups:
        wanted = stat.S_IRGRP | stat.S_IWGRP
    else:
        wanted = stat.S_IROTH | stat.S_IWOTH
    return status.st_mode & wanted == wanted

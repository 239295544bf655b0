"""What the system's own files say of an NVIDIA GPU, and what a framework that sees none lacks."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from wattstep.boards import text_of

# L4T release to JetPack and its CUDA.
_JETPACKS: Final[Mapping[int, tuple[int, str]]] = MappingProxyType(
    {32: (4, "10.2"), 35: (5, "11.4"), 36: (6, "12.6"), 38: (7, "13.0")}
)
_TOOLS: Final = ("usr/bin/nvidia-smi", "usr/local/bin/nvidia-smi", "opt/bin/nvidia-smi")
# What a CUDA program opens: of a graphics card, of a Jetson until JetPack 5 and from 6 on, of WSL.
_NODES: Final = (
    "dev/nvidia[0-9]*", "dev/nvidiactl", "dev/nvidia-uvm", "dev/nvhost-gpu",
    "dev/nvhost-ctrl-gpu", "dev/nvmap", "dev/nvgpu/igpu*/ctrl", "dev/dxg",
)  # fmt: skip
_TOO_OLD: Final = re.compile(r"driver on your system is too old(?: \(found version (\d+)\))?")
_MISMATCH: Final = re.compile(
    r"unsupported display driver / cuda driver combination|error 803"
    r"|[Dd]river/library version mismatch"
)


@dataclass(frozen=True, kw_only=True)
class System:
    """NVIDIA's driver as the system shows it.

    Attributes:
        model: Of the board as its device tree has it; "" on other machines.
        tegra: True if CPU and GPU are one chip with one memory.
        release: Of L4T as (36, "36.4.3"), or None.
        driver: Version of the kernel's module, or None where none is loaded or it does not say.
        nodes: True if any device node of a GPU is there.
        closed: Those that this user may not open.
        tools: True if nvidia-smi is installed.
    """

    model: str = ""
    tegra: bool = False
    release: tuple[int, str] | None = None
    driver: str | None = None
    nodes: bool = False
    closed: tuple[str, ...] = ()
    tools: bool = False

    @property
    def board(self) -> str:
        """The board, with its release, in words."""
        name = self.model or "a Jetson"
        if self.release is None:
            return name
        jetpack = _JETPACKS.get(self.release[0])
        first = "" if jetpack is None else f"JetPack {jetpack[0]}, "
        return f"{name} ({first}L4T R{self.release[1]})"

    @property
    def jetpack(self) -> str:
        """The JetPack in words."""
        known = None if self.release is None else _JETPACKS.get(self.release[0])
        return "its JetPack" if known is None else f"JetPack {known[0]}"

    @property
    def cuda(self) -> str | None:
        """CUDA of the JetPack, or None where that is not known."""
        known = None if self.release is None else _JETPACKS.get(self.release[0])
        return None if known is None else known[1]


@dataclass(frozen=True, kw_only=True)
class Build:
    """How a framework was built.

    Attributes:
        name: With its version, e.g. "torch 2.13.0+cpu".
        cuda: CUDA that it was built for, or None for none.
    """

    name: str
    cuda: str | None


def look(root: Path = Path("/")) -> System:
    """Looks at the system's files.

    Args:
        root: The root of the file system, "/" or a fixture tree.
    """
    nodes = [path for pattern in _NODES for path in sorted(root.glob(pattern))]
    closed = [path for path in nodes if not os.access(path, os.R_OK | os.W_OK)]
    release = _release(text_of(root / "etc/nv_tegra_release"))
    tegra = release is not None or "nvidia,tegra" in text_of(root / "proc/device-tree/compatible")
    return System(
        model=text_of(root / "proc/device-tree/model"),
        tegra=tegra or any(root.glob("dev/nvhost-*")),
        release=release,
        driver=_driver(text_of(root / "proc/driver/nvidia/version")),
        nodes=bool(nodes),
        closed=tuple(f"/{path.relative_to(root)}" for path in closed),
        tools=any((root / tool).exists() for tool in _TOOLS),
    )


def shares_memory(root: Path = Path("/")) -> bool:
    """True if the GPU here has no memory of its own, so that what it takes is the system's.

    Those of Tegra, and of boards that have the driver of desktops without being one.
    """
    return look(root).tegra or any("GB10" in name.split() for name in gpu_names(root))


def gpu_names(root: Path = Path("/")) -> list[str]:
    """Names of the GPUs that the driver of desktops and servers has, in order; none on Tegra."""
    texts = map(text_of, sorted(root.glob("proc/driver/nvidia/gpus/*/information")))
    models = (re.search(r"^Model:\s*(.+)", text, re.MULTILINE) for text in texts)
    return [match[1].strip() for match in models if match]


def why_no_gpu(system: System, build: Build, visible: str | None, message: str = "") -> str | None:
    """What is missing for a GPU, and how to get it, in one line.

    Args:
        system: As `look` has it.
        build: Of the framework.
        visible: CUDA_VISIBLE_DEVICES, or None where it is not set.
        message: What the framework said when it was asked for a GPU; "" where it was not asked yet.

    Returns:
        None where the framework is built for GPUs and was not asked yet: files alone refuse none.
    """
    if build.cuda is None:
        return _of_cpu_build(system, build)
    if not message:
        return None
    if visible is not None and (not visible.strip() or visible.strip().startswith("-1")):
        how = "is empty" if not visible.strip() else f"is {visible.strip()}"
        return f"CUDA_VISIBLE_DEVICES {how}, which hides every GPU: unset it, or name one, e.g. 0"
    if system.closed:
        nodes = ", ".join(system.closed[:2])
        return (
            f"this user may not open {nodes}: become a member of the group that owns it "
            "(video or render: sudo usermod -aG video,render $USER) and log in again"
        )
    if system.tegra and _newer(build.cuda, system.cuda):
        return (
            f"{build.name} is built for CUDA {build.cuda}, and {system.board} has CUDA "
            f"{system.cuda}: {_of_nvidia(system)}"
        )
    if not system.nodes and not system.tegra:
        return _of_missing_driver(system)
    return _of_message(system, build, message)


def why_not_on(name: str, capability: tuple[int, int], built_for: tuple[str, ...]) -> str | None:
    """Why a framework's build has no code for a GPU that it sees; None: it has, or does not say.

    Args:
        name: Of the GPU.
        capability: Its compute capability.
        built_for: As torch lists it: "sm_80", "sm_90a" (machine code: for the same major version,
            from that minor on), "compute_90" (compiled when first used: from that version on).
    """
    major, minor = capability
    for each in built_for:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)[a-z]?", each)
        if match is None:
            continue
        kind, of_major, of_minor = match[1], int(match[2]), int(match[3])
        same = of_major == major and of_minor <= minor
        if same or (kind == "compute" and (of_major, of_minor) <= capability):
            return None
    if not built_for:
        return None
    return (
        f"{name} has compute capability {major}.{minor}, and this torch has code for "
        f"{', '.join(built_for)} only: install one that is built for it"
    )


def _of_cpu_build(system: System, build: Build) -> str:
    if system.tegra:
        return f"{build.name} is a build for CPUs, on {system.board}: {_of_nvidia(system)}"
    with_cuda = "install torch built for CUDA (the selector on PyTorch's page 'Get Started' gives the command)"
    if system.driver or system.nodes:
        driver = f" {system.driver}" if system.driver else ""
        return f"{build.name} is a build for CPUs, NVIDIA's driver{driver} is here: {with_cuda}"
    return (
        f"{build.name} is a build for CPUs, and no NVIDIA driver is loaded here: with an NVIDIA "
        f"GPU, install its driver, then {with_cuda}"
    )


def _of_missing_driver(system: System) -> str:
    if system.driver is not None:
        return (
            f"NVIDIA's driver {system.driver} is loaded, its devices (/dev/nvidia*) are not here: a "
            "container must be started with its GPUs (docker run --gpus all)"
        )
    if system.tools:
        return (
            "nvidia-smi is installed and the kernel has not loaded NVIDIA's driver: sudo modprobe "
            "nvidia, or install the driver again for this kernel"
        )
    return (
        "no NVIDIA driver is loaded here: with an NVIDIA GPU, install the driver of your "
        "distribution; nvidia-smi then lists the GPU"
    )


def _of_message(system: System, build: Build, message: str) -> str:
    """What the framework's own words mean."""
    if match := _TOO_OLD.search(message):
        has = f" (it has CUDA {_of_number(match[1])})" if match[1] else ""
        cure = (
            _of_nvidia(system)
            if system.tegra
            else "update the driver, or install torch built for an older CUDA"
        )
        return f"the driver is too old for {build.name}, built for CUDA {build.cuda}{has}: {cure}"
    if _MISMATCH.search(message):
        return (
            "the kernel's part of NVIDIA's driver and its libraries are of different versions, as "
            "after an update: restart the machine"
        )
    line = next((line.strip() for line in message.splitlines() if line.strip()), "no reason given")
    if system.tegra:
        return f"{build.name} cannot use the GPU of {system.board} ({line}): {_of_nvidia(system)}"
    return f"{build.name} cannot use the GPU: {line}"


def _of_nvidia(system: System) -> str:
    return (
        f"install NVIDIA's own build of torch for {system.jetpack}, a wheel that its guide "
        "'Installing PyTorch for Jetson Platform' names, or a container of its catalogue (l4t-pytorch)"
    )


def _newer(cuda: str, than: str | None) -> bool:
    """True if the major version of one CUDA is above that of another, which no driver makes up for."""
    return than is not None and int(cuda.split(".")[0]) > int(than.split(".")[0])


def _of_number(text: str) -> str:
    """A version of CUDA as its driver numbers it: 11040 is 11.4."""
    number = int(text)
    return f"{number // 1000}.{number % 1000 // 10}"


def _release(text: str) -> tuple[int, str] | None:
    match = re.search(r"#\s*R(\d+)[^,]*,\s*REVISION:\s*([\d.]+)", text)
    return None if match is None else (int(match[1]), f"{match[1]}.{match[2]}")


def _driver(text: str) -> str | None:
    match = re.search(r"(?:Kernel Module|x86_64|aarch64)\D*?(\d{3,}(?:\.\d+)+)", text)
    return None if match is None else match[1]

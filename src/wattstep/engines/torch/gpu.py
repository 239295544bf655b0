"""The GPU of torch: whether it can be used here, and its facts."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

from wattstep.engines.nvidia import Build, System, look, why_no_gpu, why_not_on
from wattstep.schema.extras import require
from wattstep.schema.run_documents import GpuFacts
from wattstep.schema.workload import kind_of

PROCESSORS: Final = ("cpu", "cuda")


def lacking(
    processor: str,
    *,
    root: Path = Path("/"),
    environment: Mapping[str, str] = os.environ,
    build: Build | None = None,
) -> str | None:
    """Why torch cannot train on a processor here, in one line; None: it can.

    torch is loaded only where the system's files and its own do not tell already.

    Args:
        processor: As `schema.workload.check_processing` takes it.
        root: The root of the file system, "/" or a fixture tree.
        environment: Variables of the environment.
        build: Of torch; found where None.
    """
    if kind_of(processor) == "cpu":
        return None
    system, visible = look(root), environment.get("CUDA_VISIBLE_DEVICES")
    build = build or find_build()
    if build is None:
        wheel = f": on {system.board} NVIDIA's own build" if system.tegra else ""
        return f'torch is not installed: pip install "wattstep[torch]"{wheel}'
    seen = why_no_gpu(system, build, visible)
    return seen or _asked(require("torch").cuda, processor, system, build, visible)


def _asked(
    cuda: Any, processor: str, system: System, build: Build, visible: str | None
) -> str | None:
    """What torch itself says; `cuda` is as `torch.cuda`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # all of it is said in our line
            cuda.init()
            count, number = cuda.device_count(), _number(processor)
            if number is not None and number >= count:
                names = ", ".join(f"cuda:{each}" for each in range(count)) or "none"
                return f"torch sees {count} GPU{'s' * (count != 1)} here: {names}"
            name, capability = cuda.get_device_name(number), cuda.get_device_capability(number)
            return why_not_on(name, capability, tuple(cuda.get_arch_list()))
    except (RuntimeError, AssertionError) as error:
        return why_no_gpu(system, build, visible, str(error) or type(error).__name__)


def find_build() -> Build | None:
    """How torch was built, from its own file, without loading it; None: it is not installed."""
    try:
        spec = find_spec("torch")
    except ModuleNotFoundError:  # what keeps it out of a process may say so itself
        return None
    if spec is None or spec.origin is None:
        return None
    try:
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    except OSError:
        text = ""
    return parse_build(text)


def parse_build(text: str) -> Build:
    """Build from torch's `version.py`; a ROCm build counts as its version of HIP, which torch calls cuda."""
    variables = dict(
        re.findall(r"^(\w+)(?:\s*:[^=]+)?\s*=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    )
    name = f"torch {variables.get('__version__', '')}".strip()
    return Build(name=name, cuda=variables.get("cuda") or variables.get("hip"))


def facts(
    cuda: Any,
    processor: str,
    root: Path = Path("/"),
    environment: Mapping[str, str] = os.environ,
) -> GpuFacts:
    """Facts of a GPU for the description of a run, JSON-ready.

    Args:
        cuda: As `torch.cuda`.
        processor: Which.
        root: The root of the file system, "/" or a fixture tree.
        environment: Variables of the environment.

    Returns:
        Among them "uuid" and "pci", by which the driver's own tools name it, as far as they are
        known; "beside": name, number, "uuid" and "pci" of others on which this process has
        memory.
    """
    torch = require("torch")
    number = _number(processor)
    number = int(cuda.current_device()) if number is None else number
    properties, system = cuda.get_device_properties(number), look(root)
    cudnn = torch.backends.cudnn.version()
    entries = {
        "name": properties.name,
        "number": number,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "memory": int(properties.total_memory),
        "multiprocessors": int(properties.multi_processor_count),
        "shares_memory": bool(getattr(properties, "is_integrated", system.tegra)),
        "driver": system.driver,
        "l4t": None if system.release is None else system.release[1],
        "cuda": torch.version.cuda,
        "cudnn": None if cudnn is None else int(cudnn),
        **names(cuda, number, environment),
    }
    beside = [
        {"name": cuda.get_device_properties(other).name, "number": other}
        | names(cuda, other, environment)
        for other in range(cuda.device_count())
        if other != number and cuda.memory_allocated(other)
    ]
    if beside:
        entries["beside"] = beside
    return cast(GpuFacts, {key: value for key, value in entries.items() if value is not None})


def names(cuda: Any, number: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Names by which the driver's own tools tell a GPU, as far as they are known: "uuid", "pci".

    torch numbers those that it sees, the fastest first; the driver numbers all, by the bus.
    `CUDA_VISIBLE_DEVICES` tells a UUID, perhaps its first characters alone, where torch does not.

    Args:
        cuda: As `torch.cuda`.
        number: Of the GPU among those that are visible.
        environment: Variables of the environment.
    """
    properties = cuda.get_device_properties(number)
    uuid = str(getattr(properties, "uuid", "") or "")
    visible = environment.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if not uuid and number < len(visible):
        match = re.fullmatch(r"(?:GPU|MIG)-([0-9A-Fa-f-]+)", visible[number].strip())
        uuid = match[1] if match else ""
    by_kind = {"uuid": uuid.lower()} if uuid else {}
    if (bus := getattr(properties, "pci_bus_id", None)) is not None:
        domain, device = properties.pci_domain_id, properties.pci_device_id
        by_kind["pci"] = f"{domain:08x}:{bus:02x}:{device:02x}.0"
    return by_kind


def _number(processor: str) -> int | None:
    """Number of a GPU among those that are visible; None: torch's current one."""
    _, _, number = processor.partition(":")
    return int(number) if number else None

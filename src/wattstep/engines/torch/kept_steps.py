"""Captured steps of the suite's workloads, kept between commands: a prediction from one loads no torch."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any, Final

from wattstep.errors import InvalidValueError
from wattstep.schema.step_graph import StepFamily
from wattstep.schema.workload import Preparation, Specification
from wattstep.store.cache import cache_folder, cached, forget_oldest, hash_files

# Batch sizes between which a third capture is: far from the first two.
LEAST_THIRD: Final = 64
MOST_THIRD: Final = 1024
# Beside torch's own, what workloads load and what shows in the memory of their process.
LIBRARIES: Final = ("PIL", "transformers", "bitsandbytes")
MOST_KEPT: Final = 100  # steps, of some 100 kB each
_STEPS: Final = "steps"
_ROOT: Final = Path(__file__).parents[2]
_ROOMS: Final = ("workloads", "engines", "schema")  # whose code decides on a captured step
_PACKAGES: Final = (
    "torch", "numpy", "transformers", "bitsandbytes", "pillow", "scikit-learn", "gymnasium", "ale-py",
)  # fmt: skip
VARIABLES: Final = ("ATEN_", "DNNL_", "MKL", "OMP_", "ONEDNN_", "PYTORCH_", "TORCH_")


def third_batch(preparation: Preparation) -> int:
    """Batch size of the third capture."""
    return min(max(preparation.batch_size, LEAST_THIRD), MOST_THIRD)


def kept_family(
    workload: Specification,
    preparation: Preparation,
    precision: str,
    capture: Callable[[], StepFamily],
    *,
    evaluated: bool = False,
) -> StepFamily:
    """The captured step, from before or captured now.

    Kept is what follows from wattstep's own code, installed packages and this machine alone: no workload of
    another package, none on somebody's data, and no step that has to be captured at each batch size.

    Args:
        workload: Of the suite.
        preparation: As `capture` of this package takes it.
        precision: Likewise.
        capture: Captures it.
        evaluated: Likewise.
    """
    if preparation.data_dir is not None or not _is_own(workload):
        return capture()
    largest = replace(preparation, batch_size=third_batch(preparation))
    asked = repr((workload, largest, precision, evaluated))
    variant = hashlib.sha256(f"{asked}\0{_loaded()}".encode()).hexdigest()[:16]
    captured: list[StepFamily] = []

    def compute() -> dict[str, Any] | None:
        captured.append(capture())
        return captured[0].to_dict() if captured[0].capture is None else None

    document = cached(f"{_STEPS}/{workload.facts.name}-{variant}", _code(), compute)
    if captured:
        forget_oldest(cache_folder() / _STEPS, most_files=MOST_KEPT)
        return captured[0]
    if document is not None:
        with contextlib.suppress(
            AttributeError, KeyError, TypeError, ValueError, InvalidValueError
        ):  # damaged
            return StepFamily.from_dict(document)
    return capture()


def _is_own(workload: Specification) -> bool:
    """True if all code of a workload is wattstep's own."""
    places = [None if workload.samples is None else workload.samples.reader]
    for made in workload.engines.values():
        places += [made.model, made.training]
    return all(place.startswith("wattstep.") for place in places if place is not None)


def _loaded() -> str:
    """What a process has loaded and set that shows in what it captures."""
    torch = sys.modules.get("torch")
    defaults = ["torch.float32", "cpu"]
    if torch is not None:
        defaults = [str(torch.get_default_dtype()), str(torch.get_default_device())]
    return repr([*defaults, *(name for name in LIBRARIES if name in sys.modules)])


@cache
def _code() -> str:
    """Changes with wattstep's code, packages, processor (whose instructions decide on kernels) and environment."""
    folders = (_ROOT / room for room in _ROOMS)
    files = chain.from_iterable(folder.rglob("*.*") for folder in folders)
    return hash_files(
        (path for path in files if path.suffix in (".py", ".toml")),
        sys.version,
        *map(_version, _PACKAGES),
        platform.machine(),
        *_instructions(),
        *(f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(VARIABLES)),
    )  # fmt: skip


def _instructions() -> Iterator[str]:
    """Sets of instructions of the first processor, where the system tells them."""
    with contextlib.suppress(OSError), Path("/proc/cpuinfo").open() as file:
        for line in file:
            if line.startswith(("flags", "Features")):
                yield line
                return


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""

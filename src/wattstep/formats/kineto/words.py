"""Vocabulary of Kineto: categories of all its versions, processors, shapes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from wattstep.formats.trace import ON_GPU

# libkineto's ActivityType.h and its forks, and the words of torch 1.8. ROCm has those of CUDA. Words
# that are not here (cuda_profiler_range, mtia_insight, collective_comm, ...) stay as they are: nobody
# knows whether they are work of their own, and importers leave them out.
CATEGORIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cpu_op": "operation",
        "Operator": "operation",
        "user_annotation": "annotation",
        "python_function": "python",
        "cuda_runtime": "runtime",
        "cuda_driver": "runtime",
        "xpu_runtime": "runtime",
        "xpu_driver": "runtime",
        "mtia_runtime": "runtime",
        "glow_runtime": "runtime",
        "mlu_runtime": "runtime",
        "privateuse1_runtime": "runtime",
        "privateuse1_driver": "runtime",
        "Runtime": "runtime",
        "kernel": "kernel",
        "Kernel": "kernel",
        "gpu_memcpy": "copy",
        "mlu_memcpy": "copy",
        "Memcpy": "copy",
        "gpu_memset": "set",
        "mlu_memset": "set",
        "Memset": "set",
        "mtia_ccp_events": "kernel",
        "hpu_op": "kernel",
        "cuda_sync": "wait",
        "xpu_sync": "wait",
        "cuda_event": "wait",  # the moment that an event was recorded
        "gpu_user_annotation": "gpu_annotation",
        "mlu_user_annotation": "gpu_annotation",
        "overhead": "overhead",
    }
)
# What work of these runs on, where it is no GPU; torch's deviceTypeFromActivity says so.
DEVICES: Final[Mapping[str, str]] = MappingProxyType({"mtia_ccp_events": "mtia", "hpu_op": "hpu"})
MOST_DEVICES: Final = 1024  # a larger process number is no device's
SPAN: Final = "Trace"  # the whole window of the profiler: no work of its own
# What torch wrote without Kineto has no categories; its processes have names.
PROCESSES: Final[Mapping[str, str]] = MappingProxyType(
    {"CPU functions": "operation", "CUDA functions": "kernel"}
)
OF_TORCH: Final = frozenset({"operation", "step", "module", *ON_GPU, "gpu_annotation"})
METADATA: Final = frozenset(
    {"process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"}
)
STEP: Final = ("ProfilerStep#", "ProfilerStep*")
MODULE: Final = "nn.Module: "

# c10/core/DeviceType.h; ROCm's builds call their GPUs CUDA.
DEVICE_TYPES: Final[Mapping[int, str]] = MappingProxyType({0: "cpu", 1: "gpu", 6: "gpu", 12: "gpu"})

MOST_INPUTS: Final = 64  # whose shapes are kept; an optimizer's lists have thousands
_LAST_NUMBER = re.compile(r"(\d{1,18})\s*$")


def category_of(word: str, process: int | str) -> str:
    """Category of an event by its "cat": one of `formats.trace.CATEGORIES`, else the word itself."""
    if not word and isinstance(process, str):
        return PROCESSES.get(process, "")
    return CATEGORIES.get(word, word)


def is_on_gpu(category: str) -> bool:
    """True if work of this category runs on a GPU."""
    return category in ON_GPU or category == "gpu_annotation"


def last_number(label: str) -> int | None:
    """7 of "stream 7", as torch 1.8 names threads and streams."""
    match = _LAST_NUMBER.search(label)
    return int(match[1]) if match else None


def shapes_text(dims: bytes) -> str:
    """Shapes of inputs as "8x3x32x32,64"; what has no shape (a scalar, a number) is left out.

    Tensors of a list stand in brackets: "[8,4x4],2". "" where no input has a shape.
    """
    try:
        inputs = json.loads(dims)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(inputs, list):
        return ""
    shapes = [text for one in inputs[:MOST_INPUTS] if (text := _shape(one))]
    return ",".join([*shapes, "..."] if len(inputs) > MOST_INPUTS and shapes else shapes)


def _shape(one: Any) -> str:
    if not isinstance(one, list) or not one:
        return ""
    if isinstance(one[0], list):
        parts = [text for part in one[:MOST_INPUTS] if (text := _shape(part))]
        more = ["..."] if len(one) > MOST_INPUTS else []
        return f"[{','.join(parts + more)}]" if parts else ""
    return "x".join(str(length) for length in one if isinstance(length, int))

"""A training step on ONNX Runtime: three sessions that share their arrays."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnxruntime
from onnxruntime import OrtValue

Array = npt.NDArray[Any]
GRAPHS: Final = ("forward", "backward", "optimizer")  # which are the phases of a step, too
NEXT: Final = "_next"  # ends the name of an output that takes the place of an input
# Of the forward graph's metadata: by name of a running variance the factor that makes it torch's, whose
# variance of n values is a sum over n - 1, where ONNX Runtime's is over n.
VARIANCES: Final = "variances"
# Passes of a session before a traced step: so many, unless they take longer.
WARM_UPS: Final = 3
WARM_UP_S: Final = 0.05
_LINE: Final = 64  # bytes of a line of the cache


def zeros(shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> Array:
    """An array of zeros that begins at a line of the cache."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    memory = np.zeros(size + _LINE, np.uint8)
    begin = -memory.ctypes.data % _LINE
    return memory[begin : begin + size].view(kind).reshape(shape)


class Step:
    """The graphs of a training step over arrays that stay where they are.

    Args:
        graphs: The file of each of `GRAPHS`.
        arrays: By their names in the graphs; what the graphs hand to each other is added.
        threads: Of an operation.
    """

    def __init__(self, graphs: Mapping[str, Path], arrays: dict[str, Array], threads: int) -> None:
        # The files may be gone when a session is opened to be traced.
        self._graphs = {name: graphs[name].read_bytes() for name in GRAPHS}
        self.arrays = arrays
        self._threads = threads
        self._sessions = {name: self._session(name, None) for name in GRAPHS}
        self._tracing: dict[str, _Session] = {}
        self._batch: Mapping[str, Array] = {}
        self.variances: Mapping[str, float] = json.loads(
            self._sessions["forward"].metadata.get(VARIANCES, "{}")
        )
        for name, factor in self.variances.items():
            arrays[name] /= factor

    def _session(self, name: str, profile: Path | None) -> _Session:
        return _Session(name, self._graphs[name], self.arrays, self._threads, profile)

    def run(self, name: str, batch: Mapping[str, Array]) -> None:
        """Runs a graph.

        Args:
            name: One of `GRAPHS`.
            batch: Inputs that are not among the arrays.
        """
        self._batch = batch or self._batch
        (self._tracing or self._sessions)[name].run(batch)

    def trace(self, folder: Path) -> None:
        """From now on runs in sessions that note their operations.

        A session is slow when it first runs: all run here, on the last batch, and what that changes
        (running statistics, weights, the optimizer's state) is set back.

        Args:
            folder: For their notes.
        """
        tracing = {name: self._session(name, folder) for name in GRAPHS}
        kept = {
            name: self.arrays[name].copy() for each in tracing.values() for name in each.updated
        }
        begin, passes = time.perf_counter(), 0
        # Without a batch this is the very first step.
        while self._batch and passes < WARM_UPS and time.perf_counter() - begin < WARM_UP_S:
            for name in GRAPHS:
                tracing[name].run(self._batch)
            passes += 1
        for name, values in kept.items():
            self.arrays[name][...] = values
        self._tracing = tracing

    def end_trace(self) -> dict[str, list[dict[str, Any]]]:
        """Runs as before; returns what `trace` noted, by graph, each with "start" and "end" in ns of the system's clock."""
        tracing, self._tracing = self._tracing, {}
        return {name: session.end() for name, session in tracing.items()}


class _Session:
    """A graph, bound to arrays; an output "NAME_next" takes the place of NAME."""

    def __init__(
        self, name: str, graph: bytes, arrays: dict[str, Array], threads: int,
        profile: Path | None,
    ) -> None:  # fmt: skip
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads
        # Each session has threads of its own, which must not spin on while another one runs.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        if profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = str(profile / name)
        self._session = onnxruntime.InferenceSession(graph, options, ["CPUExecutionProvider"])
        self.metadata: Mapping[str, str] = self._session.get_modelmeta().custom_metadata_map
        self._binding = self._session.io_binding()
        self.updated: list[str] = []
        for each in self._session.get_outputs():
            place = each.name.removesuffix(NEXT)
            if place != each.name:
                self.updated.append(place)
            if place not in arrays:
                arrays[place] = zeros(each.shape, _dtype(each.type))
            value = OrtValue.ortvalue_from_numpy(arrays[place])
            self._binding.bind_ortvalue_output(each.name, value)
        self._fed: list[str] = []  # inputs that come with the batch
        for each in self._session.get_inputs():
            if each.name in arrays:
                value = OrtValue.ortvalue_from_numpy(arrays[each.name])
                self._binding.bind_ortvalue_input(each.name, value)
            else:
                self._fed.append(each.name)

    def run(self, batch: Mapping[str, Array]) -> None:
        for name in self._fed:
            self._binding.bind_cpu_input(name, batch[name])
        self._session.run_with_iobinding(self._binding)

    def end(self) -> list[dict[str, Any]]:
        """Operations that it noted; it notes no more."""
        begin = int(self._session.get_profiling_start_time_ns())
        return parse_profile(Path(self._session.end_profiling()).read_text("utf-8"), begin)


def parse_profile(text: str, begin_ns: int) -> list[dict[str, Any]]:
    """Operations of a profile that ONNX Runtime wrote, with "start" and "end" in ns of the system's clock.

    Args:
        text: A list of events, whose times are whole microseconds.
        begin_ns: The time that they count from.
    """
    operations = []
    for event in json.loads(text):
        name = event["name"]
        if event["cat"] == "Node" and name.endswith("_kernel_time"):
            start = begin_ns + 1000 * int(event["ts"])
            operations.append(
                {
                    **event["args"],
                    "name": name.removesuffix("_kernel_time"),
                    "thread": int(event["tid"]),
                    "start": start,
                    "end": start + 1000 * int(event["dur"]),
                }
            )
    return operations


def _dtype(kind: str) -> npt.DTypeLike:
    name = kind.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(name, name))

"""A training step on ONNX Runtime: three sessions that share their arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnxruntime
from onnxruntime import OrtValue

Array = npt.NDArray[Any]
GRAPHS: Final = ("forward", "backward", "optimizer")  # which are the phases of a step, too
_LINE: Final = 64  # bytes of a line of the cache


def zeros(shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> Array:
    """An array of zeros that begins at a line of the cache."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    memory = np.zeros(size + _LINE, np.uint8)
    begin = -memory.ctypes.data % _LINE
    return memory[begin : begin + size].view(kind).reshape(shape)


class Sessions:
    """The graphs of a step, each in a session of its own, bound to arrays.

    Args:
        graphs: The files, by name.
        arrays: What is bound, by the name in the graphs; an output "NAME_next" takes the place of
            NAME. What the graphs hand to each other is added.
        threads: Of an operation; None: ONNX Runtime's own choice.
        profile: Folder into which each session writes what it ran when it ends; None: none does.
    """

    def __init__(
        self,
        graphs: Mapping[str, Path],
        arrays: dict[str, Array],
        threads: int | None,
        profile: Path | None = None,
    ) -> None:
        self.sessions: dict[str, onnxruntime.InferenceSession] = {}
        self._bindings: dict[str, Any] = {}
        self._fed: dict[str, list[str]] = {}  # inputs that come with the batch
        self._values: dict[str, OrtValue] = {}
        for name in GRAPHS:
            session = onnxruntime.InferenceSession(
                str(graphs[name]), _options(threads, profile, name), ["CPUExecutionProvider"]
            )
            self.sessions[name] = session
            binding = session.io_binding()
            for output in session.get_outputs():
                place = output.name.removesuffix("_next")
                if place not in arrays:
                    arrays[place] = zeros(output.shape, _dtype(output.type))
                binding.bind_ortvalue_output(output.name, self._value(place, arrays))
            self._fed[name] = []
            for each in session.get_inputs():
                if each.name in arrays:
                    binding.bind_ortvalue_input(each.name, self._value(each.name, arrays))
                else:
                    self._fed[name].append(each.name)
            self._bindings[name] = binding

    def run(self, name: str, batch: Mapping[str, Array]) -> None:
        """Runs a graph.

        Args:
            name: One of `GRAPHS`.
            batch: What is not bound.
        """
        binding = self._bindings[name]
        for each in self._fed[name]:
            binding.bind_cpu_input(each, batch[each])
        self.sessions[name].run_with_iobinding(binding)

    def _value(self, name: str, arrays: Mapping[str, Array]) -> OrtValue:
        if name not in self._values:
            self._values[name] = OrtValue.ortvalue_from_numpy(arrays[name])
        return self._values[name]


def _options(threads: int | None, profile: Path | None, name: str) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if threads is not None:
        options.intra_op_num_threads = threads
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile / name)
    return options


def _dtype(kind: str) -> npt.DTypeLike:
    name = kind.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(name, name))

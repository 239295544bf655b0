"""Processors by name: the CPU, and OpenCL devices of this machine."""

from __future__ import annotations

from collections.abc import Sequence

from wattstep.errors import InvalidValueError
from wattstep.labeling.placement import CPU, CpuProcessor, Placement, Processor

OPENCL = "opencl"


def placement_on(names: Sequence[str]) -> Placement:
    """A placement over processors.

    Args:
        names: `cpu`; `opencl` (the first GPU, or else the first device), `opencl:NUMBER` or `opencl:NAME`. Each
            processor once.

    Raises:
        InvalidValueError: There is no such processor, or one is named twice.
        MissingPartError: pyopencl is not installed, or there is no OpenCL device.
        DeviceFaultError: A device cannot be used.
    """
    found: list[Processor] = []
    known = set()
    for name in names:
        kind, _, which = name.partition(":")
        if name == CPU:
            known.add(CPU)
            found.append(CpuProcessor())
        elif kind == OPENCL:
            from wattstep.labeling.opencl_lookup import OpenclProcessor
            from wattstep.opencl.device import Opened, choose

            device = choose(which or None)
            known.add(str(device.number))
            found.append(OpenclProcessor(name, Opened(device)))
        else:
            raise InvalidValueError(
                f"{name or 'no name'}: labeling is placed on {CPU}, {OPENCL}, {OPENCL}:NUMBER or {OPENCL}:NAME",
                id="unknown-processor",
            )
    if len(known) < len(found) or not found:
        raise InvalidValueError(
            f"{','.join(names) or 'no processor'}: at least one, and each once",
            id="unknown-processor",
        )
    return Placement(found)

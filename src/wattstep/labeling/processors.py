"""Processors by name: the CPU, some of its cores, and OpenCL devices of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple

from wattstep.errors import InvalidValueError
from wattstep.labeling.cluster import CpuCluster, one_blas_thread
from wattstep.labeling.placement import CPU, CpuProcessor, Placement, Processor
from wattstep.labeling.power import Load, powers_of
from wattstep.schema.cores import check_cores
from wattstep.schema.settings import check_above_0

OPENCL = "opencl"


@dataclass(frozen=True, kw_only=True)
class Processors:
    """Processors that share the lookups, with what is known of their power.

    Attributes:
        names: As `placement_on` has them.
        watts: What each adds to the idle device's power while it works, by name.
        device: Whose file says so of those that `watts` leaves out, as `wattstep devices` lists them; `this`, once
            calibrated. None: of none.
        latency_s: Seconds within which a piece is to be looked up, with the least energy that this allows. None: as
            soon as can be.
    """

    names: Sequence[str]
    watts: Mapping[str, float] = field(default_factory=dict)
    device: str | None = None
    latency_s: float | None = None


def placement_on(asked: Sequence[str] | Processors) -> Placement:
    """A placement over processors.

    Args:
        asked: Names: `cpu`; `cpu:CORES`, such as `cpu:0-3` or `cpu:0+2`; `opencl` (the first GPU, or else the first
            device), `opencl:NUMBER` or `opencl:NAME`. Each processor once, and each core.

    Raises:
        InvalidValueError: There is no such processor, or one is named twice, or its power is needed and not known.
        MissingPartError: pyopencl is not installed, or there is no OpenCL device.
        DeviceFaultError: A device cannot be used.
    """
    wanted = asked if isinstance(asked, Processors) else Processors(names=asked)
    bound = wanted.latency_s
    if bound is not None:
        check_above_0(f"a latency of {bound:g} s", bound)
    named = [_named(name) for name in wanted.names]
    used = [each for one in named for each in one.uses]
    if len(set(used)) < len(used) or not named:
        raise InvalidValueError(
            f"{','.join(wanted.names) or 'no processor'}: at least one, and each once, as each core",
            id="unknown-processor",
        )
    costs = bound is not None or wanted.watts or wanted.device is not None
    loads = [one.load for one in named]
    clusters = any(one.load.cores for one in named)
    return Placement(
        [one.processor for one in named],
        powers=powers_of(loads, wanted.watts, wanted.device) if costs else (),
        latency_s=bound,
        within=one_blas_thread() if clusters else nullcontext,
    )


class _Named(NamedTuple):
    """A processor, what it keeps busy, and which parts of the machine it uses."""

    processor: Processor
    load: Load
    uses: tuple[str, ...]


def _named(name: str) -> _Named:
    kind, colon, which = name.partition(":")
    if kind == CPU:
        cores = check_cores(which, name) if colon else ()
        return _Named(
            CpuCluster(name, cores) if colon else CpuProcessor(),
            Load(name=name, kind=CPU, cores=cores),
            tuple(f"core {core}" for core in cores or os.sched_getaffinity(0)),
        )
    if kind == OPENCL:
        from wattstep.labeling.opencl_lookup import OpenclProcessor
        from wattstep.opencl.device import Opened, choose

        device = choose(which or None)
        return _Named(
            OpenclProcessor(name, Opened(device)),
            Load(name=name, kind=device.kind),
            (f"device {device.number}",),
        )
    raise InvalidValueError(
        f"{name or 'no name'}: labeling is placed on {CPU}, {CPU}:CORES, {OPENCL}, {OPENCL}:NUMBER or {OPENCL}:NAME",
        id="unknown-processor",
    )

"""Disturbance of the training: other processes, and CPU time stolen by the hypervisor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattstep.recorded.curves import Curve
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

WINDOW_NS = 500_000_000  # the system's counters tick in 10 ms: shorter windows would be noise
LEAST_COVERED = 0.5  # of an interval
OTHER_CORES = 0.1  # of one core, by other processes
STOLEN = 0.02  # of the cores' time


def other_cpu(system: Curve, own: list[Curve], begin_ns: IntArray, end_ns: IntArray) -> FloatArray:
    """CPU time in s of processes that are neither the training nor ours, in each interval."""
    total, covered = system.difference(begin_ns, end_ns)
    for curve in own:
        used, seen = curve.difference(begin_ns, end_ns)
        total, covered = total - used, np.minimum(covered, seen)
    # Where one of them was hardly sampled, the rest would be blamed on others.
    return np.where(covered > LEAST_COVERED, np.maximum(total, 0.0), np.nan)


@dataclass(frozen=True, kw_only=True)
class CpuOfOthers:
    """CPU time taken by others, in windows of half a second.

    Attributes:
        begin_ns: Begin of the windows, shape (w,).
        end_ns: Their ends.
        other_s: CPU time of other processes in s; NaN where not known.
        stolen_s: Time that the hypervisor took in s; NaN where not known.
        cores: How many there are.
    """

    begin_ns: IntArray
    end_ns: IntArray
    other_s: FloatArray
    stolen_s: FloatArray
    cores: int

    @property
    def by_others(self) -> BoolArray:
        """Windows in which other processes took a part of a core that counts."""
        return np.nan_to_num(self.other_s) > OTHER_CORES * WINDOW_NS * 1e-9

    @property
    def by_host(self) -> BoolArray:
        """Windows in which the hypervisor took a part of the cores that counts."""
        return np.nan_to_num(self.stolen_s) > STOLEN * WINDOW_NS * 1e-9 * self.cores


def cpu_of_others(
    begin_ns: int, end_ns: int, system: Curve, own: list[Curve], steal: Curve | None, cores: int
) -> CpuOfOthers:
    """CPU time taken by others from one time to another.

    Args:
        begin_ns: From when on.
        end_ns: Until when.
        system: Busy time of all cores in s.
        own: CPU time of the training and of the sampler in s.
        steal: Time that the hypervisor took in s, or None.
        cores: How many there are.
    """
    edges = np.arange(begin_ns, end_ns + WINDOW_NS, WINDOW_NS)
    begin, end = edges[:-1], edges[1:]
    stolen = np.full(len(begin), np.nan) if steal is None else steal.difference(begin, end)[0]
    other = other_cpu(system, own, begin, end)
    return CpuOfOthers(begin_ns=begin, end_ns=end, other_s=other, stolen_s=stolen, cores=cores)

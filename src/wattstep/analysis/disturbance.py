"""What else ran while the training did: other processes, and time that the hypervisor took."""

from __future__ import annotations

import numpy as np

from wattstep.analysis.curves import Curve
from wattstep.analysis.steps import BoolArray, FloatArray, IntArray

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


def disturbed_steps(
    start_ns: IntArray,
    end_ns: IntArray,
    system: Curve,
    own: list[Curve],
    steal: Curve | None,
    cores: int,
) -> BoolArray:
    """Steps that fell into half a second in which something else took the processor.

    Args:
        start_ns: Begin of the steps.
        end_ns: Their ends.
        system: Busy time of all cores in s.
        own: CPU time of the training and of the sampler in s.
        steal: Time that the hypervisor took in s, or None.
        cores: How many there are.
    """
    if not len(start_ns):
        return np.zeros(0, bool)
    edges = np.arange(start_ns[0], end_ns[-1] + WINDOW_NS, WINDOW_NS)
    begin, end = edges[:-1], edges[1:]
    length = WINDOW_NS * 1e-9
    busy = np.nan_to_num(other_cpu(system, own, begin, end)) > OTHER_CORES * length
    if steal is not None:
        busy |= np.nan_to_num(steal.difference(begin, end)[0]) > STOLEN * length * cores
    first = np.clip((start_ns - edges[0]) // WINDOW_NS, 0, len(busy) - 1)
    last = np.clip((end_ns - edges[0]) // WINDOW_NS, 0, len(busy) - 1)
    total = np.concatenate([[0], np.cumsum(busy)])
    return np.asarray(total[last + 1] > total[first])

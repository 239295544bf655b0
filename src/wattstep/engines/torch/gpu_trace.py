"""Tracing torch's work on GPUs: whether it can be, the profiler that does it, and its events nested by time."""

from __future__ import annotations

import inspect
import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch._C._profiler import _EventType

from wattstep.attribution.correlation import nest
from wattstep.engines.cupti import may_crash_here, refused_here

NO_CUPTI = "this build of torch cannot trace GPUs (it has no CUPTI or ROCm's tracer)"
ALONE = "operations are of the CPU alone: {}"
FIRST_USED = (
    "the GPU was first used in a step that was being traced: operations of that step are of the CPU "
    "alone, those of later ones of both"
)
PROBED = 32  # pieces of work over which the profiler's cost is averaged
SPIN_CYCLES = 4_000_000  # of the GPU, in which as many are asked for
# CUPTI is known to lose the first kernels of a session that follows others (pytorch/pytorch#192021).
LOST = "the profiler has no kernel for {} of {} launches of a step: what it tells of the GPU would be too little"
LAUNCH = re.compile(r"cu(?:da)?(?:LaunchKernel|LaunchCooperativeKernel|GraphLaunch)")
CAPTURE = re.compile(r"cuda(?:Stream|Thread).*Capture")
MOST_LOST = 0.01  # of the launches of a step: an empty graph launches nothing, and loses nothing
NOT_SEEN = (
    "the profiler saw nothing of the GPU though it worked: another profiler has CUPTI, or it may "
    "not be used here"
)


class GpuTrace:
    """What tracing asks of torch's GPUs.

    Args:
        refused: Gives the reason why tracing must not be tried, for the version of CUDA; None: it may.
        dangerous: Likewise, why torch's profiler must not run at all.
    """

    def __init__(
        self,
        refused: Callable[[str | None], str | None] = refused_here,
        dangerous: Callable[[str | None], str | None] = may_crash_here,
    ) -> None:
        self._refused = refused
        self._dangerous = dangerous
        self._used = False
        self._cuda: Any = torch.cuda
        self._filled: Any = None  # what is filled to be timed

    def used(self) -> bool:
        """True once this process has put anything on a GPU; of one that never did, nothing is asked."""
        cuda: Any = torch.cuda
        if not self._used and cuda.is_initialized() and cuda.is_available():
            self._used = any(cuda.memory_allocated(n) for n in range(cuda.device_count()))
        return self._used

    def refusal(self) -> str | None:
        """Reason why GPUs must not be traced; None: they may be."""
        profiler: Any = torch.profiler
        if profiler.ProfilerActivity.CUDA not in profiler.supported_activities():
            return NO_CUPTI
        return self._refused(torch.version.cuda)

    def danger(self) -> str | None:
        """Reason why no window may be opened at all, of the CPU neither; None: it may."""
        return self._dangerous(torch.version.cuda)

    def piece_ns(self) -> float:
        """Time in ns from one small piece of work to the next, of many that wait in the queue.

        The GPU has to do nothing else. NaN: it is not known, e.g. since this release has no means to
        keep it busy while they are asked for.
        """
        cuda = self._cuda
        try:
            self.fill()  # its first use, and its memory
            first, last = (cuda.Event(enable_timing=True) for _ in range(2))
            cuda._sleep(SPIN_CYCLES)
            first.record()
            for _ in range(PROBED):
                self.fill()
            last.record()
            in_time = not first.query()
            last.synchronize()
            return float(first.elapsed_time(last)) * 1e6 / PROBED if in_time else math.nan
        except (RuntimeError, AttributeError):
            return math.nan

    def fill(self) -> None:
        """Asks the current GPU for a small piece of work."""
        current = self._cuda.current_device()
        if self._filled is None or self._filled.device.index != current:
            self._filled = torch.zeros(1, device=f"cuda:{current}")
        self._filled.zero_()

    def synchronize(self) -> None:
        """Waits for every GPU that this process has anything on."""
        cuda = torch.cuda
        for number in range(cuda.device_count()):
            if cuda.memory_allocated(number):
                cuda.synchronize(number)


def profiler(make: Callable[..., Any], on_gpu: bool, **options: Any) -> Any:
    """A profiler of torch, not yet begun.

    Args:
        make: Its class.
        on_gpu: Whether it traces GPUs, too.
        options: Of all releases.
    """
    if not on_gpu:
        return make(**options)
    if "use_device" in inspect.signature(make).parameters:
        with warnings.catch_warnings():
            # Up to torch 2.3 it takes other devices alone, and warns of "cuda".
            warnings.simplefilter("ignore")
            made = make(use_device="cuda", **options)
        if made.use_device == "cuda":
            return made
    return make(use_cuda=True, **options)


@dataclass(slots=True, eq=False)
class _Event:
    """Event of the tree with other children."""

    event: Any
    start_time_ns: int
    end_time_ns: int
    children: list[_Event] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.event, name)


def nested_by_time(roots: Sequence[Any]) -> list[_Event]:
    """The operations and allocations of a tree, nested by thread and time alone.

    torch's own tree also holds work on GPUs, as if it ran on the thread that launched it or that
    ended the profiler, where it encloses and cuts off operations that only ran meanwhile; and it
    hangs backward operations of autograd's own thread below whatever the forward thread had open.

    Args:
        roots: Of torch's tree.
    """
    events = [
        _Event(event, event.start_time_ns, event.end_time_ns)
        for event in _all(roots)
        if event.tag in (_EventType.TorchOp, _EventType.Allocation)
    ]
    if not events:
        return []
    # Of those with the same begin, what can enclose the others stands first.
    events.sort(key=lambda e: (e.start_time_ns, -e.end_time_ns, e.tag != _EventType.TorchOp))
    start = np.array([event.start_time_ns for event in events], np.int64)
    end = np.array([event.end_time_ns for event in events], np.int64)
    thread = np.array([event.start_tid for event in events], np.int64)
    parents = nest(start, np.maximum(end, start + 1), thread).parent.tolist()
    top: list[_Event] = []
    for event, parent in zip(events, parents, strict=True):
        (top if parent < 0 else events[parent].children).append(event)
    return top


def _all(roots: Sequence[Any]) -> list[Any]:
    """Each event of a tree, before those below it."""
    events, waiting = [], list(reversed(roots))
    while waiting:
        event = waiting.pop()
        events.append(event)
        waiting.extend(reversed(event.children))
    return events

"""A played GPU: a stand-in for the parts of `torch.cuda` that are called, whose queues do work of stated lengths.

Time is the host's, in ns, and goes on only where host or device work: whatever a busy machine does,
the truth is exact. Work in a stream begins when what came before it in that stream is done, and what
it waits for; the host goes on at once, until too much is in the queues. A profiler
(`tests.gpu.profiling`) that watches costs host and device what it is told to cost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

LAUNCH_NS = 4_000  # what asking for a piece of work costs the host
LATENCY_NS = 6_000  # from there until an idle device begins
CALL_NS = 700  # any other call of the driver
WAKE_NS = 12_000  # a host that waits hears of the end so much later
QUEUE = 1024  # pieces of work that may wait; then the host does


class Host:
    """The host's clock, which is all that tests call time."""

    def __init__(self, now_ns: int = 1_000_000_000) -> None:
        self.now_ns = now_ns

    def perf_counter_ns(self) -> int:
        """As `time.perf_counter_ns`; looking costs 60 ns."""
        self.now_ns += 60
        return self.now_ns

    def work(self, ns: float) -> None:
        """The host works for so long."""
        self.now_ns += round(ns)


@dataclass
class Work:
    """A piece of work on the device, as it really ran.

    Attributes:
        name: Of the kernel.
        stream: Number of the stream.
        asked_ns: When the host had asked for it.
        start_ns: Begin, on the host's clock.
        end_ns: End.
        called_ns: When the host began to ask for it.
        lasting_ns: How long it takes where nobody watches.
        bytes: Of a copy or fill.
    """

    name: str
    stream: int
    asked_ns: int
    start_ns: int
    end_ns: int
    called_ns: int
    lasting_ns: int
    bytes: int = 0


class Watching(Protocol):
    """A profiler that is running.

    Attributes:
        between_ns: By how much each piece of work begins later.
        within_ns: By how much each lasts longer.
    """

    between_ns: int
    within_ns: int

    def call(self, name: str) -> AbstractContextManager[None]:
        """Around a call of the runtime."""
        ...

    def saw(self, work: Work) -> None:
        """A piece of work that the call that is running has asked for."""
        ...


@dataclass(eq=False)
class Stream:
    """A stream, as `torch.cuda.Stream`."""

    gpu: Gpu
    number: int = 0
    done_ns: int = 0

    @property
    def cuda_stream(self) -> int:
        return 1000 + self.number

    def wait_event(self, event: Event) -> None:
        """What comes next waits for an event of another stream."""
        with self.gpu.call("cudaStreamWaitEvent"):
            self.gpu.host.work(CALL_NS)
        assert event.at_ns is not None
        self.done_ns = max(self.done_ns, event.at_ns)

    def synchronize(self) -> None:
        """The host waits for what is in this stream."""
        self.gpu.wait_until(self.done_ns, "cudaStreamSynchronize")


@dataclass(eq=False)
class Event:
    """An event, as `torch.cuda.Event`; `at_ns` is when the device comes to it, on the host's clock."""

    gpu: Gpu
    at_ns: int | None = None

    def record(self, stream: Stream | None = None) -> None:
        self.gpu = gpu = self.gpu if stream is None else stream.gpu
        gpu.fail_if_lost()
        assert gpu.graph is None, "an event was recorded into a graph that is being captured"
        with gpu.call("cudaEventRecord"):
            gpu.host.work(CALL_NS)
        stream = stream or gpu.current
        before = max(each.done_ns for each in gpu._streams) if gpu.one_queue else stream.done_ns
        self.at_ns = stream.done_ns = max(before, gpu.host.now_ns + LATENCY_NS)
        gpu.marks.append((gpu.host.now_ns, self.at_ns))

    def query(self) -> bool:
        self.gpu.fail_if_lost()
        assert self.gpu.graph is None, "a query ends the capture of a graph"
        self.gpu.host.work(CALL_NS)
        return self.at_ns is not None and self.gpu.host.now_ns >= self.at_ns

    def synchronize(self) -> None:
        assert self.at_ns is not None
        self.gpu.wait_until(self.at_ns, "cudaEventSynchronize")

    def elapsed_time(self, other: Event) -> float:
        """In ms, as a float of 32 bits, by the device's own clock; both must have been reached."""
        self.gpu.host.work(CALL_NS)
        assert self.at_ns is not None
        assert other.at_ns is not None
        assert max(self.at_ns, other.at_ns) <= self.gpu.host.now_ns, "device is not ready"
        own = [self.gpu.own_clock(at) for at in (self.at_ns, other.at_ns)]
        return float(np.float32((own[1] - own[0]) * 1e-6))


@dataclass
class Gpu:
    """A GPU with streams, events, an allocator, graphs, kernels that are tried out on first use.

    Attributes:
        host: Whose clock tells the truth.
        offset_ns: Of the device's own clock.
        drift: By how much that goes faster, e.g. 50e-6.
        tick_ns: Of its timestamps.
        first_use_ns: What the first use of a kernel's name costs the host: loading, autotuning.
        one_queue: Whether streams share one queue: an event comes after all work of any.
        profiler: That is running.
        ran: All that ran.
        marks: Of each event: when the host asked for it, and when the device came to it.
        blocks: Of the allocator's segments, each with its size and whether it is in use; None: one
            segment, whose end is free.
        flushes: How often the allocator gave its cache back before it could serve.
        waits: Of each call that waited: its begin and end on the host.
    """

    host: Host
    offset_ns: int = 123_456_789_000
    drift: float = 0.0
    tick_ns: int = 32
    first_use_ns: int = 0
    one_queue: bool = False
    profiler: Watching | None = None
    ran: list[Work] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)
    allocated: int = 1
    reserved: int = 1
    most_allocated: int = 1
    most_reserved: int = 1
    total: int = 8 * 2**30
    integrated: bool = False
    lost: str = ""
    name: str = "Played GPU"
    uuid: str = ""
    bus: int = 1
    graph: list[tuple[str, float, int]] | None = None
    blocks: list[list[tuple[int, bool]]] | None = None
    flushes: int = 0

    def __post_init__(self) -> None:
        self.current = Stream(self)
        self._streams = [self.current]
        self._names: set[str] = set()
        self._queue: deque[int] = deque()

    # --- what a training does -----------------------------------------------------------------

    def stream(self) -> Stream:
        """One stream more."""
        self._streams.append(Stream(self, len(self._streams)))
        return self._streams[-1]

    def call(self, name: str) -> AbstractContextManager[None]:
        """Around a call of the runtime, which a profiler sees."""
        return nullcontext() if self.profiler is None else self.profiler.call(name)

    def launch(self, name: str, ns: float, stream: Stream | None = None) -> None:
        """Asks for a kernel or copy of so many ns."""
        self._asked("cudaLaunchKernel", name, ns, stream)

    def copy(self, direction: str, size: int, ns: float, stream: Stream | None = None) -> None:
        """Asks for a copy ("HtoD", "DtoH", "DtoD"), as torch does from memory that is pinned."""
        ends = {"H": "Pinned", "D": "Device"}
        name = f"Memcpy {direction} ({ends[direction[0]]} -> {ends[direction[-1]]})"
        self._asked("cudaMemcpyAsync", name, ns, stream, size)

    def fill(self, size: int, ns: float, stream: Stream | None = None) -> None:
        """Asks for a fill."""
        self._asked("cudaMemsetAsync", "Memset (Device)", ns, stream, size)

    def _asked(self, call: str, name: str, ns: float, stream: Stream | None, size: int = 0) -> None:
        stream = stream or self.current
        self.fail_if_lost()
        if name not in self._names:
            self._names.add(name)
            self.host.work(self.first_use_ns)
        if self.graph is not None:
            self.graph.append((name, ns, stream.number))
            return
        with self.call(call):
            called = self.host.now_ns
            self.host.work(LAUNCH_NS)
            self._ask(name, ns, stream, called, size)

    def _ask(self, name: str, ns: float, stream: Stream, called: int, size: int = 0) -> None:
        host, queue, profiler = self.host, self._queue, self.profiler
        while queue and queue[0] <= host.now_ns:
            queue.popleft()
        if len(queue) >= QUEUE:
            host.now_ns = max(host.now_ns, queue.popleft())
        between, within = (0, 0) if profiler is None else (profiler.between_ns, profiler.within_ns)
        start = max(stream.done_ns, host.now_ns + LATENCY_NS) + between
        stream.done_ns = start + round(ns) + within
        queue.append(stream.done_ns)
        work = Work(
            name, stream.number, host.now_ns, start, stream.done_ns, called, round(ns), size
        )
        self.ran.append(work)
        if profiler is not None:
            profiler.saw(work)

    def capture(self, work: Callable[[], None]) -> list[tuple[str, float, int]]:
        """Captures a graph; the host works as if it asked, the device does nothing."""
        self.graph = []
        work()
        graph, self.graph = self.graph, None
        return graph

    def replay(self, graph: list[tuple[str, float, int]]) -> None:
        """Launches a graph: one call."""
        with self.call("cudaGraphLaunch"):
            called = self.host.now_ns
            self.host.work(LAUNCH_NS)
            for name, ns, number in graph:
                self._ask(name, ns, self._streams[number], called)

    def allocate(self, size: int) -> None:
        """The allocator hands out so much more, or less; what it has from the driver stays.

        Raises:
            RuntimeError: As torch's, where the device has no more.
        """
        if self.allocated + size > self.total:
            raise RuntimeError(f"CUDA out of memory. Tried to allocate {size / 2**20:.2f} MiB.")
        self.allocated += size
        self.reserved = max(self.reserved, self.allocated)
        self.most_allocated = max(self.most_allocated, self.allocated)
        self.most_reserved = max(self.most_reserved, self.reserved)

    def wait_until(self, at_ns: int, call: str = "cudaDeviceSynchronize") -> None:
        """The host waits, and hears of it a little later."""
        self.fail_if_lost()
        with self.call(call):
            began = self.host.now_ns
            self.host.work(CALL_NS)
            if at_ns > self.host.now_ns:
                self.host.now_ns = at_ns + WAKE_NS
            self.waits.append((began, self.host.now_ns))

    def own_clock(self, host_ns: int) -> int:
        """The device's own time at a time of the host."""
        own = self.offset_ns + host_ns * (1 + self.drift)
        return round(own / self.tick_ns) * self.tick_ns

    def fail_if_lost(self) -> None:
        """Raises what torch would, once the GPU is gone."""
        if self.lost:
            raise RuntimeError(self.lost)


class Cuda:
    """As the module `torch.cuda`, of one played GPU or several.

    Args:
        gpus: In the order of their numbers.
    """

    def __init__(self, *gpus: Gpu) -> None:
        self.gpus = gpus
        self.number = 0

    def is_available(self) -> bool:
        return bool(self.gpus)

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return len(self.gpus)

    def current_device(self) -> int:
        return self.number

    def init(self) -> None:
        pass

    def memory_reserved(self, number: int | None = None) -> int:
        return self._gpu(number).reserved

    def max_memory_allocated(self, number: int | None = None) -> int:
        return self._gpu(number).most_allocated

    def max_memory_reserved(self, number: int | None = None) -> int:
        return self._gpu(number).most_reserved

    def reset_peak_memory_stats(self, number: int | None = None) -> None:
        gpu = self._gpu(number)
        gpu.most_allocated, gpu.most_reserved = gpu.allocated, gpu.reserved

    def empty_cache(self) -> None:
        gpu = self._gpu(None)
        gpu.reserved = gpu.allocated

    def mem_get_info(self, number: int | None = None) -> tuple[int, int]:
        gpu = self._gpu(number)
        return gpu.total - gpu.reserved, gpu.total

    def memory_snapshot(self) -> list[dict[str, Any]]:
        """Segments of all devices, as far as they are read."""
        return [
            {
                "device": number,
                "blocks": [
                    {"size": size, "state": "active_allocated" if used else "inactive"}
                    for size, used in segment
                ],
            }
            for number, gpu in enumerate(self.gpus)
            for segment in (
                [[(gpu.allocated, True), (gpu.reserved - gpu.allocated, False)]]
                if gpu.blocks is None
                else gpu.blocks
            )
        ]

    def memory_stats(self, number: int | None = None) -> dict[str, int]:
        gpu = self._gpu(number)
        split = gpu.most_reserved - gpu.allocated
        return {"inactive_split_bytes.all.peak": split, "num_alloc_retries": gpu.flushes}

    def get_device_name(self, number: int | None = None) -> str:
        return self._gpu(number).name

    def get_device_properties(self, number: int | None = None) -> SimpleNamespace:
        gpu = self._gpu(number)
        facts = {"uuid": gpu.uuid, "pci_bus_id": gpu.bus, "pci_domain_id": 0, "pci_device_id": 0}
        return SimpleNamespace(
            name=gpu.name, total_memory=gpu.total, is_integrated=int(gpu.integrated),
            major=9, minor=0, multi_processor_count=16, **(facts if gpu.uuid else {}),
        )  # fmt: skip

    def memory_allocated(self, number: int | None = None) -> int:
        return self._gpu(number).allocated

    def current_stream(self, number: int | None = None) -> Stream:
        return self._gpu(number).current

    def is_current_stream_capturing(self) -> bool:
        return any(gpu.graph is not None for gpu in self.gpus)

    def synchronize(self, number: int | None = None) -> None:
        gpu = self._gpu(number)
        gpu.wait_until(max(stream.done_ns for stream in gpu._streams))

    @contextmanager
    def device(self, number: int) -> Iterator[None]:
        before, self.number = self.number, number
        yield
        self.number = before

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        """What is asked for meanwhile goes into that stream."""
        before, stream.gpu.current = stream.gpu.current, stream
        yield
        stream.gpu.current = before

    def _sleep(self, cycles: int) -> None:
        self._gpu(None).launch("spin_kernel", cycles)

    def Stream(self, number: int, priority: int = 0) -> Stream:
        self._gpu(number).host.work(CALL_NS)
        return self._gpu(number).stream()

    def Event(self, enable_timing: bool = False) -> Event:
        assert enable_timing
        return Event(self._gpu(None))

    def _gpu(self, number: int | None) -> Gpu:
        return self.gpus[self.number if number is None else number]


def played(**facts: Any) -> tuple[Host, Gpu, Cuda]:
    """A host, its GPU, and what stands in for `torch.cuda`."""
    host = Host()
    gpu = Gpu(host, **facts)
    return host, gpu, Cuda(gpu)

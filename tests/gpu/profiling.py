"""A profiler on a played GPU: while it runs, host and device leave torch's own event objects, and pay for them.

What it costs is stated, so that the truth without it is known: beside each operation of the host,
beside each call of the runtime, and of each piece of work on the device, before it or within it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.engines.played_profile import PlayedEvent, Row, operation
from tests.gpu.played import Cuda, Gpu, Host, Work

from wattstep.engines.torch.gpu_trace import GpuTrace
from wattstep.engines.torch.tracer import CLOCK, TorchTracer
from wattstep.schema.tracer import Code

MAIN, AUTOGRAD = 4001, 4002
CLOCK_AHEAD_NS = 1_764_000_000_000_000_000  # of the profiler's clock, which counts since 1970
OPENING_NS = 3_000_000  # the device's tracing is begun
CATEGORIES = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Cost of tracing in ns.

    Attributes:
        operation: Of each operation of the host, two thirds of it before its begin is stamped.
        call: Of each call of the runtime, likewise.
        between: Of each piece of work on the device, before it begins.
        within: Of each, in its own length.
    """

    operation: int = 1_500
    call: int = 2_400
    between: int = 900
    within: int = 300


class PlayedProfiler:
    """As torch's profiler and what it has seen; `make` of a tracer.

    Args:
        gpu: That it watches.
        costs: Of watching.
    """

    def __init__(self, gpu: Gpu, costs: Costs) -> None:
        self.gpu, self.costs = gpu, costs
        self.open = False
        self.thread = MAIN
        self.kineto_results = self
        self._correlation = self._number = 0
        self._open: list[int] = []  # numbers of the operations that are running
        self._tree: list[Any] = []
        self._flat: list[Row] = []

    between_ns = property(lambda self: self.costs.between)
    within_ns = property(lambda self: self.costs.within)

    def __call__(self, *, use_device: str | None = None, **options: Any) -> PlayedProfiler:
        self.use_device = use_device
        return self

    def __enter__(self) -> None:
        self.gpu.host.work(OPENING_NS)
        self._tree, self._flat = [], []
        self.gpu.profiler, self.open = self, True

    def __exit__(self, *_: object) -> None:
        self.gpu.profiler, self.open = None, False

    def experimental_event_tree(self) -> list[Any]:
        return self._tree

    def events(self) -> list[Any]:
        return list(map(PlayedEvent, self._flat))

    # --- what it sees -------------------------------------------------------------------------

    @contextmanager
    def operation(self, name: str, sequence: int = -1) -> Iterator[None]:
        """Around an operation of the host, in the thread that is current."""
        if not self.open:
            yield
            return
        host, cost, thread = self.gpu.host, self.costs.operation, self.thread
        self._number += 1
        number = self._number
        host.work(cost * 2 // 3)
        start = host.now_ns
        self._open.append(number)
        yield
        self._open.pop()
        start, end = start + CLOCK_AHEAD_NS, host.now_ns + CLOCK_AHEAD_NS
        self._tree.append(operation(name, start, end, thread, number, sequence))
        self._flat.append(self._row("cpu_op", name, start, end, thread, {"External id": number}))
        host.work(cost - cost * 2 // 3)

    def mark(self) -> None:
        """A mark in the trace, of the tracer's own."""
        now = self.gpu.host.now_ns + CLOCK_AHEAD_NS
        self._tree.append(operation(CLOCK, now, now, self.thread))

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        """As `Watching.call`."""
        host, cost = self.gpu.host, self.costs.call
        self._correlation += 1
        args = self._args()
        host.work(cost * 2 // 3)
        start = host.now_ns
        yield
        end, thread = host.now_ns + CLOCK_AHEAD_NS, self.thread
        self._flat.append(
            self._row("cuda_runtime", name, start + CLOCK_AHEAD_NS, end, thread, args)
        )
        if "Synchronize" in name:  # the driver's own account of waiting, which is no work
            waited = {**args, "device": 0, "stream": 7}
            start += CLOCK_AHEAD_NS
            self._flat.append(self._row("cuda_sync", "Stream Sync", start, end, 7, waited))
        host.work(cost - cost * 2 // 3)

    def saw(self, work: Work) -> None:
        """As `Watching.saw`."""
        args = self._args() | {"device": 0, "stream": 7 + work.stream}
        args |= {"bytes": work.bytes} if work.bytes else {}
        start, end = work.start_ns + CLOCK_AHEAD_NS, work.end_ns + CLOCK_AHEAD_NS
        category = CATEGORIES.get(work.name[:6], "kernel")
        self._flat.append(self._row(category, work.name, start, end, 7 + work.stream, args))

    def _args(self) -> Row:
        asker = {"External id": self._open[-1]} if self._open else {}
        return {"correlation": self._correlation, **asker}

    @staticmethod
    def _row(category: str, name: str, start: int, end: int, tid: int, args: Row) -> Row:
        return {
            "cat": category, "name": name, "pid": 0, "tid": tid, "ts": start, "dur": end - start,
            "args": args,
        }  # fmt: skip


class PlayedGpuTrace(GpuTrace):
    """What tracing asks of a played GPU."""

    def __init__(self, cuda: Cuda) -> None:
        super().__init__(lambda _: None, lambda _: None)
        self._cuda = cuda

    def fill(self) -> None:
        self._cuda.gpus[0].launch("fill", 2_000)

    def used(self) -> bool:
        return bool(self._cuda.memory_allocated())

    def refusal(self) -> str | None:
        return None

    def synchronize(self) -> None:
        self._cuda.synchronize()


class PlayedTracer(TorchTracer):
    """torch's tracer with the played profiler; it is its own engine.

    Args:
        cuda: Of one GPU.
        profiler: That watches it.
        layers: Their paths by the text of their scopes.
    """

    def __init__(self, cuda: Cuda, profiler: PlayedProfiler, layers: dict[str, str]) -> None:
        self._cuda, self._played, self._paths = cuda, profiler, layers

    def tracer(self, code: Code) -> PlayedTracer:
        """As `Engine.tracer`."""
        super().__init__(code, PlayedGpuTrace(self._cuda), self._played)
        self._layers.paths = lambda: self._paths  # type: ignore[method-assign]
        return self

    def stamp(self) -> int:
        self._played.mark()
        return 0

    def close(self) -> None:
        super().close()
        if self._played.open:
            self._played.__exit__()


class Torch:
    """As much of torch as a training calls: operations in threads, with what each costs the host.

    Args:
        host: That works.
        gpu: That is asked for work.
        costs: Of a profiler.

    Attributes:
        activity: When the host was in its outermost operations, or in phases of data: begin and end.
    """

    def __init__(self, host: Host, gpu: Gpu, costs: Costs) -> None:
        self.host, self.gpu = host, gpu
        self.profiler = PlayedProfiler(gpu, costs)
        self.activity: dict[str, list[tuple[int, int]]] = {"operations": [], "data": []}
        self._depth = 0

    @contextmanager
    def operation(self, name: str, own_ns: float = 0.0, sequence: int = -1) -> Iterator[None]:
        """An operation, which takes the host so long itself, one half before what it calls."""
        with self.profiler.operation(name, sequence):
            begin = self.host.now_ns
            self._depth += 1
            self.host.work(own_ns / 2)
            yield
            self.host.work(own_ns / 2)
            self._depth -= 1
            if not self._depth:
                self.activity["operations"].append((begin, self.host.now_ns))

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Of a layer or an optimizer: no operation itself."""
        with self.profiler.operation(name):
            yield

    @contextmanager
    def autograd(self) -> Iterator[None]:
        """The backward pass runs in a thread of its own."""
        self.profiler.thread = AUTOGRAD
        yield
        self.profiler.thread = MAIN

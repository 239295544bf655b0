"""Trainings on a played GPU with a played profiler, and what really happened in their clean steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.gpu.played import Event, Gpu, Host, Work, played
from tests.gpu.profiling import Costs, PlayedTracer, Torch
from tests.gpu.recording import PlayedRecording, played_time

from wattstep.run.run import Run

US = 1_000
MS = 1_000_000
STEPS = 110
Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training; times in ns.

    Attributes:
        layers: How many.
        forward: Kernels of each layer's forward pass.
        backward: Likewise, launched by autograd's own thread.
        updates: Kernels of the optimizer, one an operation.
        own_ns: What each operation takes the host itself.
        between_ns: What the host does between two layers.
        data_ns: How long it waits for a batch.
        batch: Bytes and time of the copy of a batch to the device; None: it is there already.
        copies_aside: That copy is in a stream of its own, for which the training's waits.
        waits_every: Steps after which the host reads the loss; 0: never.
        waits_by: What it waits in: "item" (a copy to the host), "device", "event".
        branches: A layer's kernels are in so many streams, in turn.
        slow_every: Each so many steps the kernels take twice as long; 0: none does.
        graph: Whether the forward pass is one graph.
        fills: Fills of a gradient before the forward pass.
        costs: Of the profiler.
        drift: Of the device's clock.
    """

    layers: int = 4
    forward: tuple[float, ...] = (150 * US, 40 * US)
    backward: tuple[float, ...] = (200 * US, 160 * US)
    updates: tuple[float, ...] = (30 * US,) * 4
    own_ns: float = 12 * US
    between_ns: float = 8 * US
    data_ns: float = 0.0
    batch: tuple[int, float] | None = (600_000, 90 * US)
    copies_aside: bool = False
    waits_every: int = 1
    waits_by: str = "item"
    branches: int = 1
    slow_every: int = 0
    graph: bool = False
    fills: int = 1
    costs: Costs = field(default_factory=Costs)
    drift: float = 20e-6


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step as it was; times in ns of the host's clock.

    Attributes:
        host: Begin and end on the host.
        device: When the device came to its begin and its end.
        work: What the device did for it.
    """

    host: tuple[int, int]
    device: tuple[int, int]
    work: Sequence[Work]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A training that was recorded.

    Attributes:
        run: As wattstep has it.
        steps: As they were.
        activity: What the host did when: "operations", "data" (the phase), "waits".
    """

    run: Run
    steps: Sequence[Step]
    activity: Mapping[str, Spans]

    @property
    def clean(self) -> list[int]:
        """Positions of the clean steps."""
        return [int(index) for index in self.run.series.steps.index[self.run.series.steps.clean]]


def record(path: Path, training: Training, steps: int = STEPS, every: int = 8) -> Recorded:
    """Trains and records."""
    host, gpu, cuda = played(drift=training.drift)
    torch = Torch(host, gpu, training.costs)
    paths = {f"wattstep.layer:{at}": f"layer{at}" for at in range(training.layers)}
    tracer = PlayedTracer(cuda, torch.profiler, paths)
    with played_time(host):
        recording = PlayedRecording(path, cuda, tracer=tracer, trace=f"every:{every}")
        trained = _Trained(training, recording, host, gpu, torch)
        told = [trained.step(number) for number in range(steps)]
        run = recording.close()
    assert not recording.problems
    marks = [at_ns for _, at_ns in gpu.marks]
    return Recorded(
        run=run,
        steps=[
            Step(host=each.host, device=(marks[each.first], marks[each.last]), work=each.work)
            for each in told
        ],
        activity={**torch.activity, "waits": gpu.waits},
    )


@dataclass(frozen=True)
class _Told:
    host: tuple[int, int]
    first: int
    last: int
    work: Sequence[Work]


class _Trained:
    """A training that goes on."""

    def __init__(
        self, training: Training, recording: PlayedRecording, host: Host, gpu: Gpu, torch: Torch
    ) -> None:
        self._is, self._marks = training, recording.steps
        self._host, self._gpu, self._torch = host, gpu, torch
        self._beside = [gpu.stream() for _ in range(training.branches - 1)]
        self._copies = gpu.stream() if training.copies_aside else gpu.current
        self._graph = gpu.capture(lambda: self._forward(1.0)) if training.graph else None

    def step(self, number: int) -> _Told:
        is_, marks, host, gpu, torch = self._is, self._marks, self._host, self._gpu, self._torch
        slow = 2.0 if is_.slow_every and number % is_.slow_every == 0 else 1.0
        first_work = len(gpu.ran)
        first = len(gpu.marks)
        marks.samples = 4.0
        begin = marks.begin()
        begun = host.now_ns
        marks.mark("data")
        waiting = host.now_ns
        host.work(is_.data_ns)
        self._batch()
        torch.activity["data"].append((waiting, host.now_ns))
        marks.mark("forward")
        if self._graph is None:
            self._forward(slow)
        else:
            with torch.operation("graph", is_.own_ns):
                gpu.replay(self._graph)
        marks.mark("backward")
        with torch.autograd():
            for layer in reversed(range(is_.layers)):
                self._backward(layer, slow)
        marks.mark("optimizer")
        with torch.scope("Optimizer.step#SGD.step"):
            for at, ns in enumerate(is_.updates):
                with torch.operation("aten::add_", is_.own_ns):
                    gpu.launch(f"update_{at}", ns)
        if is_.waits_every and number % is_.waits_every == 0:
            self._wait()
        host.work(5 * US)
        ended, last = host.now_ns, len(gpu.marks)
        marks.end(begin, 0.5)
        host.work(3 * US)
        return _Told((begun, ended), first, last, gpu.ran[first_work:])

    def _batch(self) -> None:
        is_, gpu, torch = self._is, self._gpu, self._torch
        for _ in range(is_.fills):
            with torch.operation("aten::zero_", is_.own_ns / 2):
                gpu.fill(400_000, 12 * US)
        if is_.batch is None:
            return
        with torch.operation("aten::to", is_.own_ns / 2), torch.operation("aten::copy_"):
            gpu.copy("HtoD", *is_.batch, self._copies)
        if is_.copies_aside:
            event = Event(gpu)
            event.record(self._copies)
            gpu.current.wait_event(event)

    def _forward(self, slow: float) -> None:
        is_, gpu, torch = self._is, self._gpu, self._torch
        streams = [gpu.current, *self._beside]
        for layer in range(is_.layers):
            with torch.scope(f"wattstep.layer:{layer}"):
                self._host.work(is_.between_ns)
                with (
                    torch.operation("aten::conv2d", is_.own_ns, 100 + layer),
                    torch.operation("aten::convolution"),
                ):
                    if self._beside and gpu.graph is None:
                        self._fork(streams)
                    for at, ns in enumerate(is_.forward):
                        stream = streams[at % len(streams)]
                        gpu.launch(f"forward_{layer}_{at}", ns * slow, stream)
            if self._beside and gpu.graph is None:
                self._join(streams)

    def _fork(self, streams: Sequence[Any]) -> None:
        event = Event(self._gpu)
        event.record(streams[0])
        for other in streams[1:]:
            other.wait_event(event)

    def _join(self, streams: Sequence[Any]) -> None:
        for other in streams[1:]:
            event = Event(self._gpu)
            event.record(other)
            streams[0].wait_event(event)

    def _backward(self, layer: int, slow: float) -> None:
        is_, torch = self._is, self._torch
        name = "ConvolutionBackward0"
        with (
            torch.operation(
                f"autograd::engine::evaluate_function: {name}", is_.own_ns, 100 + layer
            ),
            torch.operation(name, 0.0, 100 + layer),
            torch.operation("aten::convolution_backward", is_.own_ns),
        ):
            for at, ns in enumerate(is_.backward):
                self._gpu.launch(f"backward_{layer}_{at}", ns * slow)

    def _wait(self) -> None:
        gpu, torch = self._gpu, self._torch
        if self._is.waits_by == "item":
            with torch.operation("aten::item"), torch.operation("aten::_local_scalar_dense"):
                gpu.copy("DtoH", 4, 2 * US)
                gpu.current.synchronize()
        elif self._is.waits_by == "event":
            event = Event(gpu)
            event.record()
            event.synchronize()
        else:
            gpu.wait_until(max(stream.done_ns for stream in gpu._streams))


# --- the truth ------------------------------------------------------------------------------------

LAUNCHED, DISPATCH, SYNC, COPY = "launched", "operations", "synchronisation", "copy"
DATA, CODE = "data", "code"
CAUSES = (COPY, LAUNCHED, DISPATCH, SYNC, DATA, CODE)


def gaps_of(step: Step, activity: Mapping[str, Spans]) -> dict[str, float]:
    """Time in s in which the device computed nothing in a step, by cause: each moment is looked at."""
    begin, end = step.device
    spans = {
        "work": [(w.start_ns, w.end_ns) for w in step.work if not _across(w)],
        "across": [(w.start_ns, w.end_ns) for w in step.work if _across(w)],
        **activity,
    }
    near = {
        name: np.array([(a, b) for a, b in each if b > begin and a < end]).reshape(-1, 2)
        for name, each in spans.items()
    }
    called = np.array([(w.called_ns, w.start_ns) for w in step.work]).reshape(-1, 2)
    edges = np.unique(
        np.concatenate([[begin, end], called.ravel(), *(x.ravel() for x in near.values())])
    )
    edges = edges[(edges >= begin) & (edges <= end)]
    middle = (edges[:-1] + edges[1:]) / 2
    covered = {
        name: ((each[:, :1] <= middle) & (middle < each[:, 1:])).any(axis=0)
        if len(each)
        else np.zeros(len(middle), bool)
        for name, each in near.items()
    }
    seconds = np.diff(edges) * 1e-9
    times = dict.fromkeys(CAUSES, 0.0)
    for at, t in enumerate(middle):
        if covered["work"][at]:
            continue
        times[_cause(t, {name: bool(each[at]) for name, each in covered.items()}, called)] += float(
            seconds[at]
        )
    return times


def _cause(t: float, now: Mapping[str, bool], called: Any) -> str:
    if now["across"]:
        return COPY
    later = called[called[:, 1] > t]
    if len(later) and later[later[:, 1].argmin(), 0] <= t:
        return LAUNCHED
    if now["operations"] and not now["waits"]:
        return DISPATCH
    if now["waits"]:
        return SYNC
    return DATA if now["data"] else CODE


def _across(work: Work) -> bool:
    return work.name.startswith("Memcpy") and "H" in work.name

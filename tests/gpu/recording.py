"""A recording of a training on a played GPU: the recorder's own marks, on the host's played clock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.gpu.played import Cuda, Host
from tests.run.made import Sampled

from wattstep.engines.torch.device_queue import find_queue
from wattstep.record.device_timeline import DeviceTimeline
from wattstep.record.marking import StepMarker
from wattstep.record.tracing.schedule import TraceMode
from wattstep.record.tracing.windows import Windows
from wattstep.run.run import Run
from wattstep.schema.journal import (
    DEVICE_OPERATIONS,
    JOURNAL,
    OPERATION,
    OPERATION_FIELDS,
    OPERATIONS,
    Mark,
    samples_name,
)
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.schema.tracer import Code, TracedStep, Tracer
from wattstep.store.convert import convert
from wattstep.store.files import create_folder, read_info, write_info

INFO = RunInfo(
    state="recording",
    created="2026-11-24T12:00:00+0000",
    workload="training",
    title="training",
    engine="torch 2.13.0",
    batch_size=1,
    threads=1,
    precision="fp32",
    processor="cuda",
    seed=0,
    interval_s=0.01,
    warmup=3,
    trace="none",
)


class PlayedRecording:
    """Marks of a training, written as a recorder writes them.

    Args:
        path: Of the run.
        cuda: The stand-in for `torch.cuda`.
        follows: Whether the device is followed from the first step on.
        tracer: An engine that traces, e.g. `HostTracer` where kernels may not be seen; None: nothing is
            traced.
        about: Fields of the run's description.

    Attributes:
        steps: What a training marks.
        code: Gives the number of a name.
        problems: Errors of the disk.
    """

    def __init__(
        self,
        path: Path,
        cuda: Cuda,
        *,
        follows: bool = True,
        tracer: Any = None,
        **about: Any,
    ) -> None:
        self.path, self.cuda = path, cuda
        trace = "none" if tracer is None else "every:12"
        create_folder(path)
        write_info(path, replace(INFO, **{"trace": trace, **about}))
        self.problems: list[OSError] = []
        self.steps = StepMarker(0, 3, lambda: None, self.problems.append)
        self.steps.open(path / JOURNAL)
        self._files = [
            os.open(path / JOURNAL / name, os.O_WRONLY | os.O_CREAT)
            for name in (OPERATIONS, DEVICE_OPERATIONS)
        ]
        windows = Windows(
            TraceMode.parse(trace), 3, self.steps, self._files[0], print, lambda: tracer,
            devices=self._files[1],
        )  # fmt: skip
        self.steps.start(windows, own_clock=False)
        self.code = self.steps.code
        if follows:
            self.follow()

    def follow(self) -> None:
        """As the recorder does, once it finds the device."""
        queue = find_queue(self.cuda)
        assert queue is not None
        self.steps.follow_device(DeviceTimeline(queue, self.steps))

    def memory(self, category: str, size: int) -> None:
        """As `Recorder.memory`."""
        self.steps.add(Mark.MEMORY, self.steps.code("memory", category), float(size))

    def sample(self, sampled: Sequence[Sampled], begin_ns: int, end_ns: int) -> None:
        """What a sampler read meanwhile, once it is known what the device did."""
        reads = []
        for number, one in enumerate(sampled):
            t_ns = np.arange(begin_ns, end_ns, one.every_ns)
            rows = np.zeros((len(t_ns), 3), "<i8")
            rows[:, 0], rows[:, 2] = t_ns, [one.raw(int(t)) for t in t_ns]
            (self.path / JOURNAL / samples_name(number)).write_bytes(rows.tobytes())
            reads.append(
                PlannedRead(
                    number=number, sensor="made", path="-", parser="-", every=1,
                    channels=(one.channel,),
                )
            )  # fmt: skip
        write_info(self.path, replace(read_info(self.path), reads=tuple(reads)))

    def close(self) -> Run:
        """Ends it as a recorder does, and opens the run."""
        self.steps.leave_device(wait=True)
        self.steps.stop()
        return self.kill()

    def kill(self) -> Run:
        """Ends it without a word, and opens the run."""
        self.steps.close()
        for file in self._files:
            os.close(file)
        convert(self.path)
        return Run(self.path)


@contextmanager
def played_time(host: Host) -> Iterator[None]:
    """The recorder's clock is the played host's."""
    with pytest.MonkeyPatch.context() as patch:
        clock: Callable[[], int] = host.perf_counter_ns
        for module in ("device_steps", "device_timeline"):
            patch.setattr(f"wattstep.record.{module}.perf_counter_ns", clock)
        for module in ("store.marks", "record.tracing.windows", "engines.marked_tracer"):
            patch.setattr(f"wattstep.{module}.time", _Time(clock))
        # How long threads of this machine wait for a core has no place in it.
        patch.setattr("wattstep.record.tracing.windows.waits", dict)
        patch.setattr("wattstep.record.device_timeline.sleep", lambda s: host.work(1e9 * s))
        yield


class HostTracer(Tracer):
    """Traces what the host did alone: one operation as long as the step.

    It is its own engine.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._begin_ns = self._end_ns = 0

    def tracer(self, code: Code) -> HostTracer:
        """As `Engine.tracer`."""
        self._code = code
        return self

    def start(self) -> None:
        self._begin_ns = self._host.perf_counter_ns()

    def mark(self) -> int:
        return self._host.perf_counter_ns()

    def finish(self) -> None:
        self._end_ns = self._host.perf_counter_ns()

    def cancel(self) -> None:
        pass

    def rows(self, step: int, window: int, phases: Sequence[tuple[int, str]]) -> TracedStep:
        names = {name: self._code(name, "") for name in ("layer", "phase", "shapes")}
        values = {
            **names, "name": self._code("operation", "launches"), "kind": self._code("kind", "other"),
            "step": step, "window": window, "thread": 1, "start_ns": self._begin_ns,
            "end_ns": self._end_ns, "parent": -1, "flops": -1, "bytes": -1, "allocated": 0,
            "outermost": 1,
        }  # fmt: skip
        return TracedStep(OPERATION.pack(*(values[name] for name in OPERATION_FIELDS)), 1, 0)


class PlayedLayers:
    """As `LayerMarks`, of layers that the test calls itself."""

    def __init__(self, layers: int) -> None:
        self.layers, self.on = layers, False

    def attach(self) -> None:
        self.on = True

    def detach(self) -> None:
        self.on = False


class _Time:
    """As the module `time`, as far as the journal asks."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.perf_counter_ns: Any = clock

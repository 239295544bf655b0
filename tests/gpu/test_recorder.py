"""The real recorder and sampler beside a training on a played GPU, in real time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.gpu.played import Cuda, Gpu
from tests.gpu.real_time import PlayedEngine, RealHost

from wattstep.record.recorder import Recorder
from wattstep.run.run import Run

MB = 2**20
MS = 1_000_000


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Gpu]:
    host = RealHost(0)
    gpu = Gpu(host, drift=30e-6)
    cuda = Cuda(gpu)
    gpu.allocate(100 * MB)
    path = tmp_path_factory.mktemp("gpu") / "run"
    with Recorder(path, trace="none", engine=PlayedEngine(cuda)) as recorder:
        for number in range(120):
            with recorder.step(samples=4):
                recorder.phase("forward")
                gpu.allocate(50 * MB)
                gpu.launch("kernel", 6 * MS)
                recorder.phase("backward")
                gpu.launch("kernel", 9 * MS)
                gpu.allocate(-50 * MB)
                if number % 8 == 7:
                    cuda.synchronize()
            if number == 60:
                recorder.span("evaluation")
                gpu.launch("kernel", 60 * MS)
                recorder.steps.end_span()
    return Run(path), gpu


def test_the_run_has_the_device_s_steps(recorded: tuple[Run, Gpu]) -> None:
    run, gpu = recorded
    assert run.info.processor == "cuda"
    assert run.info.device_clock["device"] == "gpu0"
    assert run.series.steps.device == "gpu0"
    # Of what the device really did: each step is 15 ms of it, without a hole while the host is ahead.
    whole = [(one.start_ns, one.end_ns) for one in gpu.ran]
    begins = np.array([begin for begin, _ in whole])
    steps = run.series.steps
    for start, end in zip(steps.start_ns, steps.end_ns, strict=True):
        inside = (begins >= start - 300_000) & (begins < end - 300_000)
        assert inside.sum() == 2
    assert float(run.metrics["step_time"].value) > 0.0149


def test_phases_are_those_of_the_device(recorded: tuple[Run, Gpu]) -> None:
    run, gpu = recorded
    steps, marks = run.series.steps, run.tables.marks
    chosen = np.flatnonzero(steps.clean)
    phases, rows = marks.phases(steps, chosen, ("forward", "backward"))
    assert len(rows) >= 3  # as many as carry marks, which depends on how long steps take
    # However long the host was kept from asking: each phase holds its own kernel, and no other.
    begins = np.array([one.start_ns for one in gpu.ran])
    ends = np.array([one.end_ns for one in gpu.ran])
    off = 300_000
    for first, middle, last in phases.edges_ns:
        at = int(np.searchsorted(begins, first - off))
        assert first - off <= begins[at] < ends[at] <= middle + off
        assert middle - off <= begins[at + 1] < ends[at + 1] <= last + off


def test_an_evaluation_between_steps_is_the_device_s_too(recorded: tuple[Run, Gpu]) -> None:
    run, _ = recorded
    steps = run.series.steps
    ((begin, end),) = steps.rest_ns["evaluation"]
    at = int(np.searchsorted(steps.start_ns, begin)) - 1
    assert steps.index[at] == 60
    assert begin >= steps.end_ns[at]
    assert end <= steps.start_ns[at + 1]
    assert not steps.follows[at + 1]


def test_memory_is_that_of_the_device(recorded: tuple[Run, Gpu]) -> None:
    run, gpu = recorded
    peak = run.metrics["device_peak_memory"]
    assert peak.value == gpu.most_reserved
    parts = run.metrics["device_memory_breakdown"]
    assert sum(part.value for part in parts.values()) == peak.value
    assert run.metrics["peak_memory"].value > 0  # the host's own


def test_what_is_shown_of_it(recorded: tuple[Run, Gpu]) -> None:
    run, _ = recorded
    document = run.document()
    assert document["metrics"]["host_step_time"]["value"] > 0.012  # the queue holds eight steps
    assert document["metrics"]["run_ahead"]["value"] > 0.0


def test_a_second_gpu_that_comes_into_use_later_is_named_beside_the_first(tmp_path: Path) -> None:
    host = RealHost(0)
    first, second = (Gpu(host, name=name, uuid=name, allocated=0) for name in ("one", "two"))
    first.allocate(100 * MB)
    cuda = Cuda(first, second)
    with Recorder(tmp_path / "run", trace="none", engine=PlayedEngine(cuda)) as recorder:
        for number in range(20):
            with recorder.step(samples=4):
                first.launch("kernel", 2 * MS)
                cuda.synchronize(0)
            if number == 10:
                second.allocate(MB)
    gpu = Run(tmp_path / "run").info.device["gpu"]
    assert gpu["name"] == "one"
    assert [(each["name"], each["number"]) for each in gpu["beside"]] == [("two", 1)]

"""Trainings of many kinds on a played GPU: step times, run-ahead and gaps against when the device came to each mark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.gpu.played import Cuda, Gpu, Host, Stream, played
from tests.gpu.recording import PlayedRecording, played_time

from wattstep.run.run import Run
from wattstep.schema.arrays import IntArray

MS = 1_000_000
BEFORE = "of before the recording"


class Training:
    """What a script has at hand.

    Attributes:
        run: Takes the marks.
        host: Works and waits.
        gpu: Is asked for work.
        cuda: As `torch.cuda`.
    """

    def __init__(self, run: PlayedRecording, host: Host, gpu: Gpu, cuda: Cuda) -> None:
        self.run, self.host, self.gpu, self.cuda = run, host, gpu, cuda

    def step(self, work: Callable[[], None]) -> None:
        """One step."""
        self.run.steps.samples = 4.0
        begun = self.run.steps.begin()
        work()
        self.run.steps.end(begun, 0.5)

    def kernels(self, count: int, ns: float, stream: Stream | None = None) -> None:
        """So many kernels, each asked for after 20 us of the host."""
        for number in range(count):
            self.host.work(20_000)
            self.gpu.launch(f"kernel {number}", ns, stream)


def gan(one: Training) -> None:
    """Two networks, two optimizers; the loss of the first is looked at in the middle."""

    def work() -> None:
        one.run.steps.mark("forward")
        one.kernels(20, 0.2 * MS)
        one.cuda.synchronize()
        one.run.steps.mark("optimizer")
        one.kernels(3, 0.1 * MS)
        one.run.steps.mark("forward")
        one.kernels(25, 0.3 * MS)
        one.run.steps.mark("optimizer")
        one.kernels(3, 0.1 * MS)

    for _ in range(150):
        one.step(work)


def accumulation(one: Training) -> None:
    """Four small batches a step, and an update."""

    def work() -> None:
        for _ in range(4):
            one.run.steps.mark("forward")
            one.kernels(10, 0.15 * MS)
            one.run.steps.mark("backward")
            one.kernels(10, 0.3 * MS)
        one.run.steps.mark("optimizer")
        one.kernels(2, 0.1 * MS)

    for _ in range(100):
        one.step(work)


def evaluations(one: Training) -> None:
    """An evaluation each 25 steps, once with the recorder's knowledge and once without."""
    for number in range(150):
        one.step(lambda: one.kernels(10, 0.5 * MS))
        if number % 50 == 24:
            one.run.steps.rest("evaluation")
        if number % 25 == 24:
            one.kernels(100, 0.4 * MS)
            one.cuda.synchronize()


def loader(one: Training) -> None:
    """Workers are ahead at times, and behind at others."""
    generator = np.random.default_rng(1)
    for late in generator.choice([0.0, 0.0, 3 * MS, 40 * MS], 150):
        one.host.work(late)
        one.step(lambda: one.kernels(15, 0.4 * MS))


def offloaded(one: Training) -> None:
    """Gradients go to the host, which updates and sends the weights back."""

    def work() -> None:
        one.run.steps.mark("forward")
        one.kernels(20, 0.3 * MS)
        one.gpu.launch("gradients to the host", 2 * MS)
        one.cuda.synchronize()
        one.run.steps.mark("optimizer")
        one.host.work(9 * MS)
        one.gpu.launch("weights to the device", 2 * MS)

    for _ in range(100):
        one.step(work)


def captured(one: Training) -> None:
    """A graph is captured within the step in the middle, and replayed from there on."""
    graph: list[tuple[str, float, int]] = []

    def capture() -> None:
        graph.extend(one.gpu.capture(lambda: one.kernels(30, 0.3 * MS)))
        one.gpu.replay(graph)

    for number in range(120):
        if number == 60:
            one.step(capture)
        else:
            one.step(lambda: one.gpu.replay(graph) if graph else one.kernels(30, 0.3 * MS))


def copies(one: Training) -> None:
    """The next batch is copied in a stream of its own while the device computes."""
    stream = one.gpu.stream()
    copied = one.cuda.Event(enable_timing=True)
    one.gpu.launch("copy", 3 * MS, stream)
    copied.record(stream)

    def work() -> None:
        one.gpu.current.wait_event(copied)
        one.gpu.launch("copy", 3 * MS, stream)
        copied.record(stream)
        one.kernels(10, 0.25 * MS)

    for _ in range(150):
        one.step(work)
    one.cuda.synchronize()


def sleeping(one: Training) -> None:
    """Seconds of nothing, now and then."""
    for number in range(120):
        one.step(lambda: one.kernels(10, 0.4 * MS))
        if number % 30 == 29:
            one.cuda.synchronize()
            one.host.work(4000 * MS)


def hours(one: Training) -> None:
    """Half an hour of long steps, four ahead."""
    for number in range(900):
        one.step(lambda: one.kernels(2, 1000 * MS))
        if number % 4 == 3:
            one.cuda.synchronize()


def cut_off(one: Training) -> None:
    """It is stopped within a step."""
    for _ in range(80):
        one.step(lambda: one.kernels(10, 0.5 * MS))
    one.run.steps.samples = 4.0
    one.run.steps.begin()
    one.kernels(5, 0.5 * MS)


def sharing(one: Training) -> None:
    """Another stream works across steps, and slows none: it is no part of their time."""
    stream = one.gpu.stream()

    def work() -> None:
        one.gpu.launch("other", 1 * MS, stream)
        one.kernels(8, 0.5 * MS)
        one.cuda.synchronize()

    for _ in range(120):
        one.step(work)


def uneven(one: Training) -> None:
    """Sequences of any length: steps of 1 to 30 ms, read each tenth."""
    generator = np.random.default_rng(3)
    for number, length in enumerate(generator.uniform(0.1, 3.0, 200)):
        one.step(lambda length=length: one.kernels(10, length * MS))  # type: ignore[misc]
        if number % 10 == 9:
            one.cuda.synchronize()


TRAININGS = {
    work.__name__: work
    for work in (
        gan, accumulation, evaluations, loader, offloaded, captured, copies, sleeping, hours,
        cut_off, sharing, uneven,
    )
}  # fmt: skip


def come_to(gpu: Gpu, marks_ns: IntArray) -> IntArray:
    """When the device really came to marks of the host: to the first event that was asked for after each."""
    asked, came = np.array(gpu.marks).T
    found: IntArray = came[np.searchsorted(asked, marks_ns)]
    return found


@pytest.mark.parametrize("busy", [False, True], ids=["idle before", "used before"])
@pytest.mark.parametrize("drift", [200e-6, -200e-6])
@pytest.mark.parametrize("name", TRAININGS)
def test_times_are_those_of_the_device(tmp_path: Path, name: str, drift: float, busy: bool) -> None:
    host, gpu, cuda = played(drift=drift)
    with played_time(host):
        if busy:
            gpu.launch(BEFORE, 700 * MS)
        recording = PlayedRecording(tmp_path / "run", cuda)
        TRAININGS[name](Training(recording, host, gpu, cuda))
        run = recording.close()
    check(run, gpu)


def check(run: Run, gpu: Gpu) -> None:
    """Each begin, end and gap lies where it was, as closely as the run says."""
    steps = run.series.steps
    assert steps.host_ns is not None
    uncertain = run.info.device_clock["uncertainty_ns"]
    assert uncertain < (50_000 if gpu.ran[0].name != BEFORE else 2 * MS)
    begins, ends = (come_to(gpu, steps.host_ns[:, at].astype(np.int64)) for at in (0, 1))
    off = np.concatenate([steps.start_ns - begins, steps.end_ns - ends])
    # 99 of 100 events disagree by no more.
    assert np.quantile(np.abs(off), 0.98) <= uncertain + 1000
    assert np.abs(off).max() < uncertain + 300_000
    clean = np.flatnonzero(steps.clean)
    whole = clean[steps.follows[clean]]
    true = np.mean((ends[whole] - ends[whole - 1]) if len(whole) else [np.nan])
    told = np.mean(steps.end_ns[whole] - steps.end_ns[whole - 1])
    assert told == pytest.approx(true, rel=0.02)
    ahead = np.mean((ends - steps.host_ns[:, 1])[clean]) * 1e-9
    assert run.metrics["run_ahead"].value == pytest.approx(ahead, abs=uncertain * 1e-9 + 1e-6)
    gaps = steps.start_ns[1:] - steps.end_ns[:-1]
    assert np.abs(gaps - (begins[1:] - ends[:-1])).mean() < uncertain

"""Programs of known truth on a played GPU: a GAN, prefetching, work on both processors, accumulation, evaluations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from tests.gpu.played import Cuda, Gpu, Host, played
from tests.gpu.recording import HostTracer, PlayedRecording, played_time
from tests.gpu.test_trainings import come_to
from tests.run.made import Sampled

from wattstep.run.run import Run
from wattstep.schema.channel import Channel

MS = 1_000_000
STEPS = 240
IDLE_W = 4.0
WATTS = {"forward": 21.0, "backward": 33.0, "optimizer": 15.0, "copy": 8.0, "evaluation": 40.0}


@dataclass
class Program:
    """What a script has at hand, and what was marked when.

    Attributes:
        marked: Of each step the phases that began in it, and when the host marked them.
    """

    run: PlayedRecording
    host: Host
    gpu: Gpu
    cuda: Cuda
    marked: list[list[tuple[str, int]]] = field(default_factory=list)

    def phase(self, name: str) -> None:
        """A phase begins; without marks of phases nobody is told."""
        before = len(self.gpu.marks)
        self.run.steps.mark(name)
        if len(self.gpu.marks) > before:
            self.marked[-1].append((name, self.gpu.marks[-1][1]))

    def step(self, work: Callable[[], None]) -> None:
        self.marked.append([])
        self.run.steps.samples = 4.0
        begun = self.run.steps.begin()
        work()
        self.run.steps.end(begun, 0.5)

    def kernels(self, name: str, count: int, ms: float) -> None:
        for _ in range(count):
            self.host.work(15_000)
            self.gpu.launch(name, ms * MS)


def gan(one: Program) -> None:
    """Generator and discriminator in turns, an optimizer each; only the first loss is looked at."""

    def work() -> None:
        for count, looked in ((6, True), (9, False)):
            one.phase("forward")
            one.kernels("forward", count, 0.3)
            one.phase("backward")
            one.kernels("backward", count, 0.5)
            one.phase("optimizer")
            one.kernels("optimizer", 2, 0.4)
            if looked:
                one.cuda.synchronize()

    for _ in range(STEPS):
        one.step(work)


def prefetched(one: Program) -> None:
    """Workers fill pinned memory; the next batch is copied in a stream of its own; at times they are late."""
    stream, rng = one.gpu.stream(), np.random.default_rng(4)
    copied = one.cuda.Event(enable_timing=True)
    one.gpu.launch("copy", 2 * MS, stream)
    copied.record(stream)
    late = rng.choice([0.0, 0.0, 0.0, 9.0], STEPS)

    def work(late_ms: float) -> None:
        one.phase("data")
        one.host.work(late_ms * MS)  # the next batch is not there yet
        one.gpu.current.wait_event(copied)
        one.gpu.launch("copy", 2 * MS, stream)
        copied.record(stream)
        one.phase("forward")
        one.kernels("forward", 8, 0.4)
        one.phase("backward")
        one.kernels("backward", 8, 0.7)
        one.cuda.synchronize()

    for late_ms in late:
        one.step(lambda late_ms=late_ms: work(late_ms))  # type: ignore[misc]


def on_both(one: Program) -> None:
    """An embedding and its gradients on the CPU, the rest on the GPU: each waits for the other."""

    def work() -> None:
        one.phase("forward")
        one.host.work(3 * MS)
        one.gpu.launch("copy", 0.5 * MS)
        one.kernels("forward", 10, 0.4)
        one.phase("backward")
        one.kernels("backward", 10, 0.6)
        one.gpu.launch("copy", 0.5 * MS)
        one.cuda.synchronize()
        one.host.work(4 * MS)
        one.phase("optimizer")
        one.kernels("optimizer", 1, 0.8)
        one.host.work(2 * MS)

    for _ in range(STEPS):
        one.step(work)


def accumulated(one: Program) -> None:
    """Four batches of gradients, and an update that the host does not wait for."""

    def work() -> None:
        for _ in range(4):
            one.phase("forward")
            one.kernels("forward", 4, 0.35)
            one.phase("backward")
            one.kernels("backward", 4, 0.75)
        one.phase("optimizer")
        one.kernels("optimizer", 3, 0.5)

    for number in range(STEPS):
        one.step(work)
        if number % 6 == 5:
            one.cuda.synchronize()


def evaluated(one: Program) -> None:
    """An evaluation each 20 steps, that half of the time nobody announces."""

    def work() -> None:
        one.phase("forward")
        one.kernels("forward", 5, 0.6)
        one.phase("backward")
        one.kernels("backward", 5, 1.1)

    for number in range(STEPS):
        one.step(work)
        if number % 20 == 19:
            if number % 40 == 39:
                one.run.steps.rest("evaluation")
            one.kernels("evaluation", 60, 0.8)
            one.cuda.synchronize()


PROGRAMS = {each.__name__: each for each in (gan, prefetched, on_both, accumulated, evaluated)}


class Meter:
    """The GPU's rail: 4 W, and what runs."""

    def __init__(self, gpu: Gpu) -> None:
        self._begin = np.array([one.start_ns for one in gpu.ran])
        self._end = np.array([one.end_ns for one in gpu.ran])
        self._watts = np.array([WATTS[one.name] - IDLE_W for one in gpu.ran])

    def joules(self, from_ns: int, to_ns: int) -> float:
        within = np.minimum(self._end, to_ns) - np.maximum(self._begin, from_ns)
        busy = float((self._watts * np.clip(within, 0, None)).sum())
        return (busy + IDLE_W * (to_ns - from_ns)) * 1e-9

    def sampled(self) -> Sampled:
        """A gauge that averages over 5 ms."""
        channel = Channel(
            name="rail.GPU", unit="W", kind="gauge", domain="gpu", role="power_part", source="made",
            scale=1e-3, window_s=0.005,
        )  # fmt: skip

        def raw(t_ns: int) -> int:
            first, last = np.searchsorted(self._end, [t_ns - 5 * MS, t_ns])
            rows = slice(int(first), int(last) + 70)
            begin, end = self._begin[rows], self._end[rows]
            within = np.clip(np.minimum(end, t_ns) - np.maximum(begin, t_ns - 5 * MS), 0, None)
            watts = IDLE_W + float((self._watts[rows] * within).sum()) / (5 * MS)
            return round(1000 * watts) + t_ns // 1000 * 7919 % 41 - 20

        return Sampled(channel=channel, raw=raw, every_ns=5 * MS)


@dataclass
class Outcome:
    run: Run
    gpu: Gpu
    meter: Meter
    program: Program


@pytest.fixture(scope="module", params=PROGRAMS)
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    host, gpu, cuda = played(drift=40e-6)
    with played_time(host):
        recording = PlayedRecording(
            tmp_path_factory.mktemp(request.param) / "run", cuda, tracer=HostTracer(host)
        )
        program = Program(recording, host, gpu, cuda)
        begun = host.now_ns
        PROGRAMS[request.param](program)
        cuda.synchronize()
        gpu.ran.sort(key=lambda one: one.end_ns)
        meter = Meter(gpu)
        recording.steps.leave_device(wait=True)
        recording.steps.stop()
        recording.sample([meter.sampled()], begun, host.now_ns)
        return Outcome(recording.kill(), gpu, meter, program)


def true_steps(one: Outcome) -> tuple[np.ndarray, np.ndarray]:
    """When the device really came to begin and end of the clean steps."""
    steps = one.run.series.steps
    assert steps.host_ns is not None
    host_ns = steps.host_ns[steps.clean].astype(np.int64)
    return come_to(one.gpu, host_ns[:, 0]), come_to(one.gpu, host_ns[:, 1])


def test_step_time_is_the_device_s(outcome: Outcome) -> None:
    begin, end = true_steps(outcome)
    assert len(begin) > 100
    figure = outcome.run.metrics["step_time"]
    assert figure.value == pytest.approx((end - begin).mean() * 1e-9, rel=0.02)


def test_each_phase_lasts_on_the_device_what_it_lasted(outcome: Outcome) -> None:
    """As often as it comes in a step; by the events that the device came to."""
    steps, sums = outcome.run.series.steps, {}
    ends = come_to(outcome.gpu, np.asarray(steps.host_ns)[:, 1].astype(np.int64))
    clean = [at for at in np.flatnonzero(steps.clean) if outcome.program.marked[steps.index[at]]]
    for at in clean:
        marked = outcome.program.marked[steps.index[at]]
        for (name, begin), (_, until) in zip(
            marked, [*marked[1:], ("", int(ends[at]))], strict=True
        ):
            sums[name] = sums.get(name, 0) + until - begin
    told = {row.phase: row.figure("time") for row in outcome.run.breakdown.phases()}
    for name, total in sums.items():
        true = total / len(clean) * 1e-9
        assert told[name].value == pytest.approx(true, rel=0.03, abs=30e-6), name


def test_energy_of_a_step_is_what_the_gpu_drew_in_it(outcome: Outcome) -> None:
    begin, end = true_steps(outcome)
    spans = zip(begin, end, strict=True)
    true = float(np.mean([outcome.meter.joules(int(a), int(b)) for a, b in spans]))
    energy = outcome.run.report().energy_by_rail["rail.GPU"]
    assert energy.low is not None
    assert energy.high is not None
    assert energy.low <= true <= energy.high
    assert energy.value == pytest.approx(true, rel=0.06)


def test_rows_and_what_is_left_make_the_energy_of_the_step(outcome: Outcome) -> None:
    document = outcome.run.document()
    assert document["failures"] == []
    whole = outcome.run.report().energy_by_rail["rail.GPU"].value
    for table in ("operations", "phases"):
        left = document["not_resolved"][table].get("energy_by_rail", {}).get("rail.GPU", {})
        rows = [row["energy_by_rail"]["rail.GPU"]["value"] or 0.0 for row in document[table]]
        assert sum(rows) + (left.get("value") or 0.0) == pytest.approx(whole, rel=1e-6)


def test_of_each_phase_whose_energy_is_told_the_interval_holds_it(outcome: Outcome) -> None:
    steps = outcome.run.series.steps
    ends = come_to(outcome.gpu, np.asarray(steps.host_ns)[:, 1].astype(np.int64))
    sums: dict[str, list[float]] = {}
    clean = [at for at in np.flatnonzero(steps.clean) if outcome.program.marked[steps.index[at]]]
    for at in clean:
        marked = outcome.program.marked[steps.index[at]]
        own: dict[str, float] = {}
        for (name, begin), (_, until) in zip(
            marked, [*marked[1:], ("", int(ends[at]))], strict=True
        ):
            own[name] = own.get(name, 0.0) + outcome.meter.joules(begin, until)
        for name, joules in own.items():
            sums.setdefault(name, []).append(joules)
    for row in outcome.run.document()["phases"]:
        figure = row["energy_by_rail"]["rail.GPU"]
        if figure["status"] == "missing" or row["phase"] not in sums:
            continue
        true = float(np.mean(sums[row["phase"]]))
        # One interval in twenty may miss, by little.
        assert 0.99 * figure["low"] <= true <= 1.01 * figure["high"], row["phase"]


def test_evaluations_are_no_part_of_any_step(outcome: Outcome) -> None:
    """Nor does a step of the run hold a kernel of one, announced or not."""
    if outcome.program.marked and not any(w.name == "evaluation" for w in outcome.gpu.ran):
        return
    steps = outcome.run.series.steps
    begins = np.array([w.start_ns for w in outcome.gpu.ran if w.name == "evaluation"])
    off = outcome.run.info.device_clock["uncertainty_ns"] + 1000
    for start, end in zip(steps.start_ns, steps.end_ns, strict=True):
        assert not ((begins >= start + off) & (begins < end - off)).any()
    spans = steps.rest_ns["evaluation"]
    assert len(spans) == STEPS // 40
    assert np.diff(spans, axis=1).mean() == pytest.approx(60 * 0.8 * MS, rel=0.1)

"""Steps on a device that runs behind the host: times, run-ahead and gaps against what the device really did."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.gpu.played import Cuda, Event, Gpu, Host, Work, played
from tests.gpu.recording import PlayedRecording, played_time
from tests.wording import assert_says, saying

from wattstep.engines.torch.device_queue import find_queue
from wattstep.record.device_timeline import DeviceTimeline
from wattstep.run.run import Run
from wattstep.schema.arrays import FloatArray

MS = 1_000_000
STEPS = 120


@dataclass(frozen=True, kw_only=True)
class Script:
    """A training.

    Attributes:
        host_ns: What the host does in a step beside asking for work.
        kernels: How long each of them takes.
        waits_every: Steps after which the host waits for the device; 0: never.
        copies_ns: Of the batch, before anything else.
        data_ns: What the host waits for data, before each step's work.
        streams: Number of streams among which the kernels go round.
        slow_every: Each so many steps one kernel takes three times as long; 0: none does.
        drift: Of the device's clock.
        graph: Whether the kernels are one graph.
    """

    host_ns: float = 0.3 * MS
    kernels: tuple[float, ...] = (2 * MS, 3 * MS, 1 * MS)
    waits_every: int = 1
    copies_ns: float = 0.2 * MS
    data_ns: float = 0.0
    streams: int = 1
    slow_every: int = 0
    drift: float = 20e-6
    graph: bool = False

    def train(self, run: PlayedRecording, host: Host, gpu: Gpu, cuda: Cuda, steps: int) -> list[
        tuple[int, int]
    ]:  # fmt: skip
        """Trains; returns which pieces of work belong to each step: the first, and the one after the last."""
        streams = [gpu.current, *(gpu.stream() for _ in range(self.streams - 1))]
        graph = gpu.capture(lambda: self._ask(gpu, streams, 1.0)) if self.graph else None
        belong = []
        for number in range(steps):
            first = len(gpu.ran)
            run.steps.samples = 4.0
            begun = run.steps.begin()
            host.work(self.data_ns)
            gpu.launch("copy", self.copies_ns)
            run.steps.mark("forward")
            host.work(self.host_ns)
            slow = 3.0 if self.slow_every and number % self.slow_every == 0 else 1.0
            if graph is not None:
                gpu.replay(graph)
            else:
                self._ask(gpu, streams, slow)
            run.steps.mark("optimizer")
            gpu.launch("update", 0.1 * MS)
            if self.waits_every and number % self.waits_every == 0:
                cuda.synchronize()
            run.steps.end(begun, 0.5)
            belong.append((first, len(gpu.ran)))
        return belong

    def _ask(self, gpu: Gpu, streams: list, slow: float) -> None:  # type: ignore[type-arg]
        for at, ns in enumerate(self.kernels):
            stream = streams[at % len(streams)]
            gpu.launch(f"kernel {at}", ns * (slow if at == 0 else 1.0), stream)
        for other in streams[1:]:  # the training's own stream waits for the others, as it must
            gpu.current.done_ns = max(gpu.current.done_ns, other.done_ns)


def record(path: Path, script: Script, steps: int = STEPS) -> tuple[Run, list[list[Work]]]:
    """The run, and what the device did in each of its steps."""
    host, gpu, cuda = played(drift=script.drift)
    with played_time(host):
        recording = PlayedRecording(path, cuda)
        belong = script.train(recording, host, gpu, cuda, steps)
        run = recording.close()
    assert not recording.problems
    return run, [gpu.ran[first:last] for first, last in belong]


SCRIPTS = {
    **{
        f"{name}, waits {waits}": Script(waits_every=every, **facts)  # type: ignore[arg-type]
        for name, facts in {
            "device is the slower": {},
            "host is the slower": {"host_ns": 9 * MS, "kernels": (1 * MS, 0.5 * MS)},
            "they take turns": {"host_ns": 4 * MS, "slow_every": 2},
            "two streams": {"streams": 2, "kernels": (2 * MS, 2.5 * MS, 1 * MS)},
            "starved of data": {"data_ns": 12 * MS},
            "hundreds of kernels": {"kernels": tuple([0.02 * MS] * 300), "host_ns": 0.0},
            "a graph": {"graph": True},
            "a slow clock": {"drift": -200e-6},
        }.items()
        for waits, every in {
            "each step": 1,
            "never": 0,
            "each 10": 10,
            "each 50": 50,
            "2": 2,
        }.items()
    },
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_steps_have_the_device_s_times(tmp_path: Path, name: str) -> None:
    run, work = record(tmp_path / "run", SCRIPTS[name])
    steps = run.series.steps
    assert len(steps.index) == STEPS
    begins = np.array([each[0].start_ns for each in work])
    ends = np.array([max(one.end_ns for one in each) for each in work])
    uncertain = run.info.device_clock["uncertainty_ns"]
    assert uncertain < 50_000
    # No step ends before its work does, nor is told to end later than the next could begin.
    later = steps.end_ns - ends
    assert later.min() > -uncertain - 1
    assert later.max() < uncertain + 100_000
    assert (steps.start_ns <= begins + uncertain).all()
    # From the begin of one step's work to that of the next, 2 % at most.
    whole = slice(10, STEPS - 1)
    told = float(np.diff(steps.start_ns)[whole].mean())
    true = float(np.diff(begins)[whole].mean())
    assert told == pytest.approx(true, rel=0.02)


@pytest.mark.parametrize("every", [2, 10, 50, 0])
def test_a_script_that_waits_and_one_that_runs_ahead_give_the_same_figures(
    tmp_path: Path, every: int
) -> None:
    waits, _ = record(tmp_path / "waits", Script(waits_every=1, host_ns=0.05 * MS))
    ahead, work = record(tmp_path / "ahead", Script(waits_every=every, host_ns=0.05 * MS))
    busy = np.mean([sum(one.end_ns - one.start_ns for one in each) for each in work]) * 1e-9
    for run in (waits, ahead):
        figure = run.metrics["step_time"]
        assert figure.value == pytest.approx(busy, rel=0.02)
        assert_says(figure.source, "events", "gpu0")
    assert ahead.metrics["run_ahead"].value > waits.metrics["run_ahead"].value
    assert waits.metrics["run_ahead"].value == pytest.approx(0.0, abs=2e-5)
    host = ahead.metrics["host_step_time"].value
    assert host == pytest.approx(busy, rel=0.1) or every in (0, 50)  # it never fills the queue


def test_a_killed_recording_keeps_the_steps_that_the_device_had_come_to(tmp_path: Path) -> None:
    host, gpu, cuda = played()
    with played_time(host):
        recording = PlayedRecording(tmp_path / "run", cuda)
        Script(waits_every=0).train(recording, host, gpu, cuda, 40)
        run = recording.kill()
    kept = len(run.series.steps.index)
    assert 0 < kept < 40
    assert saying(run.info.notes, f"{40 - kept} steps", "left out")


def test_a_gpu_that_is_lost_leaves_what_was_recorded(tmp_path: Path) -> None:
    host, gpu, cuda = played()
    with played_time(host):
        recording = PlayedRecording(tmp_path / "run", cuda)
        script = Script()
        script.train(recording, host, gpu, cuda, 30)
        gpu.lost = "CUDA error: unspecified launch failure\nCompile with ..."
        recording.steps.samples = 4.0
        begun = recording.steps.begin()
        recording.steps.end(begun, 0.5)
        assert recording.steps.device is None
        assert_says(recording.steps.device_problem, "gpu0", "CUDA error: unspecified")
        run = recording.close()
    assert len(run.series.steps.index) >= 29


def test_a_device_that_is_found_late_takes_the_steps_from_there_on(tmp_path: Path) -> None:
    host, gpu, cuda = played()
    with played_time(host):
        recording = PlayedRecording(tmp_path / "run", cuda, follows=False)
        for number in range(20):
            if number == 10:
                recording.follow()
            recording.steps.samples = 4.0
            begun = recording.steps.begin()
            host.work(5 * MS)
            if number >= 10:
                gpu.launch("kernel", 3 * MS)
                cuda.synchronize()
            recording.steps.end(begun, 0.5)
        run = recording.close()
    steps = run.series.steps
    assert len(steps.index) == 20
    assert steps.host_ns is not None
    assert np.isnan(steps.host_ns[:10]).all()
    assert np.isfinite(steps.host_ns[10:]).all()
    assert steps.seconds[:10] == pytest.approx(5e-3, rel=0.01)
    assert steps.seconds[11:] == pytest.approx(8e-3, rel=0.01)


def test_a_script_that_uses_the_device_in_part_of_its_steps(tmp_path: Path) -> None:
    """Thirty steps of 5 ms on the host, thirty of 8 ms with 3 ms of the device, thirty on the host again."""
    host, gpu, cuda = played()
    with played_time(host):
        recording = PlayedRecording(tmp_path / "run", cuda, follows=False)
        for number in range(90):
            if number == 31:  # the recorder looks now and then
                recording.follow()
            recording.steps.samples = 4.0
            begun = recording.steps.begin()
            host.work(5 * MS)
            if 30 <= number < 60:
                gpu.launch("kernel", 3 * MS)
                cuda.synchronize()
            recording.steps.end(begun, 0.5)
        run = recording.close()
    steps = run.series.steps
    assert len(steps.index) == 90
    assert steps.seconds[5:30] == pytest.approx(5e-3, rel=0.01)
    assert steps.seconds[32:60] == pytest.approx(8e-3, rel=0.01)
    assert steps.seconds[61:] == pytest.approx(5e-3, rel=0.01)
    counted = int(steps.clean.sum())
    host_s = int((steps.clean & (steps.index < 31)).sum())
    assert saying(run.report().notes, f"{host_s} of {counted} steps", "the host's")


def test_following_that_begins_within_a_step_leaves_that_step_the_host_s(tmp_path: Path) -> None:
    host, gpu, cuda = played(drift=100e-6)
    with played_time(host):
        recording = PlayedRecording(tmp_path / "run", cuda, follows=False)
        for number in range(60):
            recording.steps.samples = 4.0
            begun = recording.steps.begin()
            gpu.launch("kernel", 3 * MS)
            if number == 20:
                recording.follow()
            gpu.launch("kernel", 2 * MS)
            recording.steps.end(begun, 0.5)
            cuda.synchronize()
        run = recording.close()
    steps = run.series.steps
    assert list(steps.index) == list(range(60))
    assert steps.host_ns is not None
    assert list(np.flatnonzero(np.isfinite(steps.host_ns[:, 0]))) == list(range(21, 60))
    assert steps.seconds[22:] == pytest.approx(5e-3, rel=0.02)


def test_a_device_that_is_reset_within_a_step_costs_its_marks_alone(tmp_path: Path) -> None:
    host, gpu, cuda = played()
    with played_time(host):
        recording = PlayedRecording(tmp_path / "run", cuda)
        for number in range(60):
            recording.steps.samples = 4.0
            begun = recording.steps.begin()
            gpu.lost = "CUDA error: device lost (Xid 79)" if number == 30 else gpu.lost
            host.work(4 * MS)
            if not gpu.lost:
                gpu.launch("kernel", 2 * MS)
                cuda.synchronize()
            recording.steps.end(begun, 0.5)
        run = recording.close()
    assert "Xid 79" in recording.steps.device_problem
    steps = run.series.steps
    assert steps.host_ns is not None
    on_device = steps.index[np.isfinite(steps.host_ns[:, 0])]
    assert list(on_device) == list(range(29))  # the end of the one before was not read any more
    # Those that went on without it are the host's; the one within which it was lost is nobody's.
    assert set(range(31, 60)) <= set(steps.index.tolist())
    assert any("are the host's" in note for note in run.report().notes)


def test_first_steps_that_load_kernels_and_capture_graphs_are_warm_up(tmp_path: Path) -> None:
    host, gpu, cuda = played(first_use_ns=40 * MS)
    with played_time(host):
        recording = PlayedRecording(tmp_path / "run", cuda)
        for number in range(80):
            recording.steps.samples = 4.0
            begun = recording.steps.begin()
            for kernel in range(6):
                # New shapes each time, until all have been there.
                gpu.launch(f"kernel {kernel} {min(number, 11)}", 1 * MS)
            cuda.synchronize()
            recording.steps.end(begun, 0.5)
        run = recording.close()
    steps = run.series.steps
    assert steps.warmup[:12].all()
    assert not steps.warmup[12:].any()
    assert steps.settled == 9
    assert saying(run.report().notes, "first steps", "warm-up")


def test_nothing_is_recorded_or_asked_for_while_a_graph_is_captured(tmp_path: Path) -> None:
    host, gpu, cuda = played()
    with played_time(host):
        recording = PlayedRecording(tmp_path / "run", cuda)

        def step() -> None:
            recording.steps.mark("forward")
            gpu.launch("kernel", 2 * MS)

        graph = []
        for number in range(30):
            recording.steps.samples = 4.0
            begun = recording.steps.begin()
            if number == 1:
                graph = gpu.capture(step)
            if number > 1:
                gpu.replay(graph)
            recording.steps.end(begun, 0.5)
        run = recording.close()
    assert len(run.series.steps.index) == 30


def test_of_two_gpus_the_one_that_trains_is_followed(tmp_path: Path) -> None:
    host = Host()
    first, second = Gpu(host, allocated=0), Gpu(host, allocated=10)
    with played_time(host):
        recording = PlayedRecording(tmp_path / "run", Cuda(first, second))
        for _ in range(30):
            recording.steps.samples = 4.0
            begun = recording.steps.begin()
            second.launch("kernel", 2 * MS)
            recording.steps.end(begun, 0.5)
        run = recording.close()
    assert run.series.steps.device == "gpu1"
    assert run.metrics["step_time"].value == pytest.approx(2e-3, rel=0.02)


def _always_busy(
    path: Path,
    steps: int,
    kernel_ms: float,
    ahead_ms: float,
    drift: float,
    *,
    killed: bool,
    one_queue: bool = True,
) -> tuple[Run, FloatArray]:
    """Steps of one kernel each on a device whose queue is never empty; how far their ends are off the truth, in ns."""
    host, gpu, cuda = played(drift=drift, one_queue=one_queue)
    with played_time(host):
        gpu.launch("before", 200 * MS)  # busy from the beginning on
        recording = PlayedRecording(path, cuda)
        for _ in range(steps):
            recording.steps.samples = 4.0
            begun = recording.steps.begin()
            gpu.launch("kernel", kernel_ms * MS)
            recording.steps.end(begun, 0.5)
            if gpu.current.done_ns - host.now_ns > ahead_ms * MS:
                host.work(kernel_ms * MS)
        run = recording.kill() if killed else recording.close()
    recorded = run.series.steps
    true_ns = np.array([one.end_ns for one in gpu.ran[1:]])[recorded.index]
    return run, np.abs(recorded.end_ns - true_ns)


@pytest.mark.parametrize("killed", [False, True])
def test_the_clock_of_a_device_that_is_never_idle_is_told_beside_its_work(
    tmp_path: Path, killed: bool
) -> None:
    """A queue that is full at each look: events in a stream of their own tell the clock once a second."""
    run, off = _always_busy(tmp_path / "run", 600, 100, 1000, 80e-6, killed=killed, one_queue=False)
    clock = run.info.device_clock
    assert clock["anchors"] >= 50
    assert clock["uncertainty_ns"] < 0.1 * MS
    assert off.max() < 0.1 * MS
    assert clock["rate"] == pytest.approx(1 - 80e-6, abs=2e-6)


def test_events_beside_the_work_wait_for_nothing_and_are_no_place_of_a_step(
    tmp_path: Path,
) -> None:
    """Work of 4 s is asked for before an evaluation: that begins when the device has done it."""
    host, gpu, cuda = played()
    with played_time(host):
        recording = PlayedRecording(tmp_path / "run", cuda)
        for _ in range(40):
            recording.steps.samples = 4.0
            begun = recording.steps.begin()
            gpu.launch("kernel", 100 * MS)
            recording.steps.end(begun, 0.5)
            host.work(40 * MS)
        assert gpu.current.done_ns > host.now_ns + 2000 * MS  # the host never waited
        recording.steps.rest("evaluation")
        done_ns = gpu.current.done_ns
        cuda.synchronize()
        host.work(MS)
        recording.steps.samples = 4.0
        begun = recording.steps.begin()
        recording.steps.end(begun, 0.5)
        run = recording.close()
    ((begin_ns, _),) = run.series.steps.rest_ns["evaluation"]
    assert begin_ns == pytest.approx(done_ns, abs=0.2 * MS)


def test_a_device_that_is_never_idle_has_its_rate_from_a_long_run(tmp_path: Path) -> None:
    """Thirty minutes of a queue that is always full, and no word at the end: the clock drifts by 36 ms."""
    run, off = _always_busy(tmp_path / "run", 6000, 300, 3000, 20e-6, killed=True)
    assert run.info.device_clock["anchors"] == 0
    assert np.quantile(off, 0.95) < run.info.device_clock["uncertainty_ns"] + MS
    seconds = np.diff(run.series.steps.start_ns) * 1e-9
    assert seconds.mean() == pytest.approx(0.3, rel=1e-3)


def test_a_rate_that_nothing_tells_is_in_the_uncertainty(tmp_path: Path) -> None:
    run, off = _always_busy(tmp_path / "run", 600, 100, 1000, 80e-6, killed=False)
    assert off.max() < run.info.device_clock["uncertainty_ns"] + MS


def test_phases_of_somebody_s_script_have_their_place_on_the_device(tmp_path: Path) -> None:
    host, gpu, cuda = played()
    with played_time(host):
        recording = PlayedRecording(tmp_path / "run", cuda)
        for _ in range(30):
            recording.steps.samples = 4.0
            begun = recording.steps.begin()
            forward = recording.steps.boundary()
            gpu.launch("kernel", 3 * MS)
            backward = recording.steps.boundary()
            gpu.launch("kernel", 5 * MS)
            # Only now is it known what ran.
            recording.steps.mark("forward", forward)
            recording.steps.mark("backward", backward)
            recording.steps.end(begun, 0.5)
        run = recording.close()
    steps, marks = run.series.steps, run.tables.marks
    phases, rows = marks.phases(steps, np.flatnonzero(steps.clean), ("forward", "backward"))
    assert len(rows) >= 3
    assert np.diff(phases.edges_ns, axis=1) == pytest.approx(
        np.tile([3 * MS, 5 * MS], (len(rows), 1)), rel=0.02
    )


def test_a_device_that_hangs_does_not_keep_a_recording_from_ending(tmp_path: Path) -> None:
    host, gpu, cuda = played()
    with played_time(host):
        recording = PlayedRecording(tmp_path / "run", cuda)
        Script().train(recording, host, gpu, cuda, 30)
        recording.steps.samples = 4.0
        begun = recording.steps.begin()
        gpu.launch("hangs", 3600e9)
        recording.steps.end(begun, 0.5)
        before = host.now_ns
        run = recording.close()
    assert host.now_ns - before < 6e9
    assert len(run.series.steps.index) == 30


def _with_a_side_stream(path: Path, kill_after: int = 0) -> tuple[Run, list[Work]]:
    """Steps of 5 ms; each fourth one marks a phase in a stream that copies for 400 ms, which none waits for."""
    host, gpu, cuda = played(drift=20e-6)
    side = gpu.stream()
    with played_time(host):
        recording = PlayedRecording(path, cuda)
        for number in range(STEPS):
            recording.steps.samples = 4.0
            begun = recording.steps.begin()
            recording.steps.mark("forward")
            gpu.launch("kernel", 5 * MS)
            if number % 4 == 0:
                with cuda.stream(side):
                    gpu.launch("copy to disk", 400 * MS)
                    recording.steps.mark("checkpoint")
            cuda.current_stream().wait_event(_now(gpu))
            host.now_ns = max(host.now_ns, gpu.current.done_ns)
            recording.steps.end(begun, 0.5)
            if kill_after and number == kill_after:
                return recording.kill(), gpu.ran
        return recording.close(), gpu.ran


def _now(gpu: Gpu) -> Event:
    event = Event(gpu)
    event.record(gpu.current)
    return event


def test_events_of_a_stream_do_not_wait_for_those_of_another(tmp_path: Path) -> None:
    """The side stream is twelve seconds behind in the end; the steps are told all the same."""
    run, ran = _with_a_side_stream(tmp_path / "run", kill_after=80)
    steps = run.series.steps
    assert len(steps.index) >= 80
    kernels = [one for one in ran if one.name == "kernel"]
    begins = np.array([one.start_ns for one in kernels])[: len(steps.index)]
    ends = np.array([one.end_ns for one in kernels])[: len(steps.index)]
    # Each is known as tightly as if there were no other stream.
    assert run.info.device_clock["uncertainty_ns"] < 100_000
    assert np.abs(steps.end_ns - ends).max() < 150_000
    assert (steps.start_ns <= begins + 50_000).all()


def test_each_stream_keeps_its_own_order(tmp_path: Path) -> None:
    host, gpu, cuda = played()
    side = gpu.stream()
    marks: list[tuple[float, int]] = []

    class Journal:
        def code(self, table: str, name: str) -> int:
            return 0

        def add(self, *row: Any) -> None:
            marks.append((row[2], row[5]))

    queue = find_queue(cuda)
    assert queue is not None
    with played_time(host):
        device = DeviceTimeline(queue, Journal())  # type: ignore[arg-type]
        with cuda.stream(side):
            gpu.launch("long", 100 * MS)
            device.mark(1)
            gpu.launch("longer", 100 * MS)
            device.mark(2)
        device.mark(3)
        host.work(MS)
        device.read(host.now_ns)
        assert [key for _, key in marks] == [3]
        host.work(100 * MS)
        device.read(host.now_ns)
        assert [key for _, key in marks] == [3, 1]
        host.work(100 * MS)
        device.read(host.now_ns)
    assert [key for _, key in marks] == [3, 1, 2]

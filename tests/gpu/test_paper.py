"""The paper's figures and observations from trainings on played GPUs, with the sensors of a Jetson and of a machine with NVML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.gpu.played import Gpu, played
from tests.gpu.recording import PlayedRecording, played_time
from tests.observations.made import thrice
from tests.run.made import Sampled
from tests.wording import assert_says

from wattstep.insight.observe import gather, observe
from wattstep.insight.observe.evidence import Evidence
from wattstep.insight.observe.observation import Observation
from wattstep.report.html.paper.drawn import Drawn, NotDrawn
from wattstep.report.html.paper.figures import FIGURES
from wattstep.report.html.paper.readings import Readings, reading
from wattstep.run.run import Run
from wattstep.schema.channel import Channel
from wattstep.schema.step_memory import DEVICE

MS, MB = 1_000_000, 2**20
BATCHES = (4, 16)
IDLE_W, BUSY_W = 3.0, 15.0  # of the GPU
CORES = {
    "kind": "cores",
    "clusters": [{"kind": "A", "cores": [0]}, {"kind": "B", "cores": [1, 2, 3]}],
}


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Channels of a machine, from what its GPU did.

    Attributes:
        jetson: True for rails of GPU, CPU and memory and of all; else NVIDIA's library and nothing else.
    """

    jetson: bool

    def sampled(self, gpu: Gpu) -> Sequence[Sampled]:
        """All of them."""
        starts = np.array([one.start_ns for one in gpu.ran])
        ends = np.array([one.end_ns for one in gpu.ran])
        before = np.concatenate([[0], np.cumsum(ends - starts)])

        def busy_ns(t: int) -> int:
            at = int(np.searchsorted(starts, t, side="right"))
            return int(before[at] - max(int(ends[at - 1]) - t, 0)) if at else 0

        def load(t: int) -> float:
            """Of the last 2 ms."""
            return (busy_ns(t) - busy_ns(t - 2 * MS)) / (2 * MS)

        def gpu_w(t: int) -> float:
            return IDLE_W + (BUSY_W - IDLE_W) * load(t)

        def core(number: int) -> Sampled:
            # The first core works while the GPU does not, the others for a tenth of the time.
            def raw(t: int) -> int:
                idle = (t - 10**9) - busy_ns(t) if number == 0 else (t - 10**9) // 10
                return idle // 1000

            return made(f"cpu{number}.busy_time", "s", "cpu", "busy_time", raw, 1e-6, number)

        def residency(number: int) -> Sampled:
            busy = core(number)
            return made(
                f"cpu{number}.idle_residency", "s", "cpu", "idle_residency",
                lambda t: (t - 10**9) // 1000 - busy.raw(t), 1e-6, number,
            )  # fmt: skip

        def watts(name: str, domain: str, role: str, value: object) -> Sampled:
            return made(name, "W", domain, role, lambda t: round(1000 * value(t)), 1e-3)  # type: ignore[operator]

        cpu = [*map(core, range(4)), *map(residency, range(4))]
        utilization = made(
            "gpu0.utilization",
            "ratio",
            "gpu",
            "gpu_utilization",
            lambda t: round(100 * load(t)),
            1e-2,
        )
        if self.jetson:
            return [
                *cpu, utilization,
                watts("rail.VDD_GPU", "gpu", "power_part", gpu_w),
                watts("rail.VDD_CPU", "cpu", "power_part", lambda t: 3 - 2 * load(t)),
                watts("rail.VDD_DDR", "memory", "power_part", lambda t: 1 + load(t)),
                watts("rail.VDD_IN", "system", "power_total", lambda t: 2 + 4 + gpu_w(t)),
            ]  # fmt: skip
        energy_mj = lambda t: round(  # noqa: E731
            (IDLE_W * (t - 10**9) + (BUSY_W - IDLE_W) * busy_ns(t)) * 1e-6
        )
        return [
            *cpu, utilization,
            watts("gpu0.power", "gpu", "power_part", gpu_w),
            made("gpu0.energy", "J", "gpu", "energy_part", energy_mj, 1e-3),
            made("gpu0.memory_used", "B", "gpu", "gpu_memory_used", lambda t: 600 * MB, 1.0),
        ]  # fmt: skip


def made(
    name: str, unit: str, domain: str, role: str, raw: object, scale: float, core: int | None = None
) -> Sampled:
    counter = unit in ("s", "J")
    channel = Channel(
        name=name, unit=unit, kind="counter" if counter else "gauge", domain=domain,  # type: ignore[arg-type]
        role=role, source="played", scale=scale, core=core,
    )  # fmt: skip
    return Sampled(channel=channel, raw=raw, every_ns=MS)  # type: ignore[arg-type]


def trained(
    path: Path, machine: Machine, batch: int, workload: str = "resnet50", ms: float = 3.0
) -> tuple[Run, float, float]:
    """The run; the GPU's true load and its energy in J a step, over the steps that count.

    A sample takes so many ms of the GPU.
    """
    host, gpu, cuda = played()
    about = {"device": {"cores": 4, **CORES}, "batch_size": batch, "workload": workload}
    with played_time(host):
        recording = PlayedRecording(path, cuda, trace="none", **about)
        gpu.allocate(100 * MB)
        for category in ("parameters", "gradients", "optimizer_state"):
            recording.memory(f"{DEVICE}{category}", 20 * MB)
        begun = host.now_ns
        for _ in range(60):
            recording.steps.samples = float(batch)
            step_begun = recording.steps.begin()
            recording.steps.mark("data")
            host.work(12 * MS)
            recording.steps.mark("forward")
            gpu.allocate(batch * 8 * MB)
            gpu.launch("forward", batch * ms / 3 * MS)
            recording.steps.mark("backward")
            gpu.launch("backward", batch * ms * 2 / 3 * MS)
            cuda.synchronize()
            gpu.allocate(-batch * 8 * MB)
            recording.steps.end(step_begun, 0.5)
        ended = host.now_ns
        recording.steps.leave_device(wait=True)
        recording.steps.stop()
        recording.sample(machine.sampled(gpu), begun, ended)
        run = recording.kill()
    busy = batch * ms * MS
    step = float(run.metrics["step_time"].value or 0.0)
    return run, busy * 1e-9 / step, IDLE_W * step + (BUSY_W - IDLE_W) * busy * 1e-9


@pytest.fixture(scope="module", params=["jetson", "nvml"])
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, list[tuple[Run, float, float]]]:
    machine = Machine(jetson=request.param == "jetson")
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, [trained(folder / str(batch), machine, batch) for batch in BATCHES]


def drawn_of(runs: list[tuple[Run, float, float]]) -> dict[int, Drawn | NotDrawn]:
    readings = Readings(
        runs=[reading(run.report(), run.timeline().three_steps) for run, _, _ in runs]
    )
    return {number: figure.draw(readings) for number, figure in FIGURES.items()}


def observed_of(runs: list[tuple[Run, float, float]]) -> dict[int, Observation]:
    """Observations 1 to 7, on three processes of each that agree."""
    gathered = [gather(run, str(run.path)) for run, _, _ in runs]
    names = [str(number) for number in range(1, 8)]
    return {one.about.number: one for one in observe(Evidence(runs=thrice(*gathered)), names)}


def cells(drawn: Drawn | NotDrawn, column: str) -> list[float]:
    """Numbers of a column of a figure's table, row by row."""
    assert isinstance(drawn, Drawn), drawn.reason
    at = [each.key for each in drawn.table.columns].index(column)
    return [row[at].number for row in drawn.table.rows]  # type: ignore[union-attr, misc]


Runs = tuple[str, list[tuple[Run, float, float]]]


def test_every_figure_is_drawn_or_says_what_is_missing(runs: Runs) -> None:
    kind, found = runs
    drawn = drawn_of(found)
    open_ = {n: one.reason for n, one in drawn.items() if isinstance(one, NotDrawn)}
    if kind == "jetson":
        assert open_.keys() == {10}  # a daily training
    else:
        assert open_.keys() == {6, 10}
        assert_says(open_[6], "parts", "gpu0.power, gpu0.energy")


def test_loads_are_of_the_gpu_and_of_the_cores(runs: Runs) -> None:
    _, found = runs
    drawn = drawn_of(found)
    loads = [load for _, load, _ in found]
    assert cells(drawn[4], "gpu_utilization") == pytest.approx(loads, abs=0.01)
    # One core of four works whenever the GPU does not, the others a tenth of the time.
    cpu = [(1 - load + 3 * 0.1) / 4 for load in loads]
    assert cells(drawn[4], "cpu_utilization") == pytest.approx(cpu, abs=0.01)
    three = drawn[3]
    assert isinstance(three, Drawn)
    parts = {row[1]: row[3].number for row in three.table.rows}  # type: ignore[union-attr]
    assert parts["gpu0.utilization"] == pytest.approx(loads[1], abs=0.05)
    assert parts["core 0 (A)"] == pytest.approx(1 - loads[1], abs=0.05)


def test_energy_and_power_are_those_of_the_gpu(runs: Runs) -> None:
    kind, found = runs
    drawn = drawn_of(found)
    joules = [each for _, _, each in found]
    if kind == "jetson":
        assert cells(drawn[6], "energy.gpu") == pytest.approx(joules, rel=0.01)
    for (run, _, _), true in zip(found, joules, strict=True):
        # Once, though a card tells both its power and its energy.
        own = reading(run.report(), run.timeline().three_steps).observed
        assert own.metrics["energy.gpu"].value == pytest.approx(true, rel=0.01)
    seven = drawn[7]
    assert isinstance(seven, Drawn)
    rails = {row[2]: row[4].number for row in seven.table.rows}  # type: ignore[union-attr]
    watts = IDLE_W + (BUSY_W - IDLE_W) * found[1][1]
    name = "rail.VDD_GPU" if kind == "jetson" else "gpu0.energy"
    assert rails[name] == pytest.approx(watts, rel=0.03)


def test_memory_is_that_of_the_gpu(runs: Runs) -> None:
    _, found = runs
    nine = drawn_of(found)[9]
    assert cells(nine, "memory.parameters") == [20 * MB] * 2
    # All that was handed out, but for the three categories that stay.
    steps = [40 * MB + 1 + batch * 8 * MB for batch in BATCHES]
    assert cells(nine, "memory.intermediate") == steps
    assert cells(nine, "device_peak_memory") == [100 * MB + 1 + batch * 8 * MB for batch in BATCHES]
    assert isinstance(nine, Drawn)
    assert "GPU's own memory" in nine.sentences[0]


def test_every_observation_has_a_verdict_or_says_what_is_missing(runs: Runs) -> None:
    kind, found = runs
    observed = observed_of(found)
    assert observed.keys() == set(range(1, 8))
    figures = [case.figures() for case in observed[1].cases]
    for (_, load, _), each in zip(found, figures, strict=True):
        cpu = (1 - load + 3 * 0.1) / 4
        assert each["gap"].value == pytest.approx(load - cpu, abs=0.01)
    assert observed[2].verdict == "holds"  # each step's load of the GPU is that of any other
    assert observed[2].cases[0].figures()["gpu_alike"].value > 0.9
    (three,) = (case.figures() for case in observed[3].cases)
    assert three["gpu_change"].value == pytest.approx(found[1][1] - found[0][1], abs=0.01)
    assert "application domains" in observed[5].sentences[0]  # one workload alone
    if kind == "jetson":
        for (run, load, joules), case in zip(found, observed[6].cases, strict=True):
            cpu_joules = (3 - 2 * load) * float(run.metrics["step_time"].value or 0.0)
            assert case.figures()["over_cpu"].value == pytest.approx(joules / cpu_joules, rel=0.01)
        assert observed[7].verdict == "holds"
    else:
        assert_says(observed[6].cases[0].reason, "no rail", "cpu and memory")
        assert "no total" in str(observed[7].cases[0].reason)


def test_idle_cores_and_throughput_are_those_of_the_training(runs: Runs) -> None:
    _, found = runs
    drawn = drawn_of(found)
    idle = cells(drawn[5], "idle")
    # The first core sleeps whole windows through only while the GPU works, the others never do.
    assert [idle[1:4], idle[5:8]] == [[0.0] * 3] * 2
    assert 0 < idle[0] < found[0][1]
    assert idle[0] < idle[4] < found[1][1]
    # 12 ms of the host, then 3 ms of the GPU a sample.
    true = [batch / (12e-3 + batch * 3e-3) for batch in BATCHES]
    assert cells(drawn[8], "throughput") == pytest.approx(true, rel=5e-3)


def test_cores_of_two_kinds_and_two_domains_are_told_apart(runs: Runs, tmp_path: Path) -> None:
    """Beside the vision model a language model, whose GPU works a third as long a sample."""
    kind, found = runs
    machine = Machine(jetson=kind == "jetson")
    other, load, _ = trained(tmp_path / "run", machine, 16, "char-cnn", ms=0.4)
    observed = observed_of([*found, (other, load, 0.0)])
    assert observed[4].verdict == "holds"
    assert observed[5].verdict == "holds"
    (pair,) = (case.figures() for case in observed[5].cases)
    assert abs(pair["difference"].value or 0.0) == pytest.approx(found[1][1] - load, abs=0.01)

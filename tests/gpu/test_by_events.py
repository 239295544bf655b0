"""Layers and phases by events in the device's queue, where its kernels may not be seen."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from tests.command_line import wattstep
from tests.gpu.played import Gpu, played
from tests.gpu.recording import HostTracer, PlayedLayers, PlayedRecording, played_time
from tests.run.made import Sampled
from tests.wording import assert_says, saying

from wattstep.attribution.tables.by_events import NOT_SEEN
from wattstep.insight.explain import explain
from wattstep.report.terminal.run import print_run
from wattstep.run.run import Run
from wattstep.schema.channel import Channel, Domain

MS = 1_000_000
STEPS = 200
FORWARD = {"conv": 2.0, "pool": 0.4, "fc": 3.0}  # ms on the device; "pool" is called twice
ALONE = {"data": 0.3, "backward": 9.0, "optimizer": 0.7}
LOSS = 0.25  # of the forward pass, in no layer
WATTS = {  # of the GPU's rail while these run
    "copy": 5.0, "conv": 30.0, "pool": 10.0, "fc": 18.0, "loss": 8.0, "backward": 24.0,
    "optimizer": 12.0,
}  # fmt: skip
IDLE_W, BEYOND_W = 3.0, 4.0
WINDOW_NS = 20 * MS


def trained(
    path: Path,
    waits_every: int,
    *,
    layers: bool = True,
    host_ms: float = 0.05,
    steps: int = STEPS,
    sampled: bool = False,
) -> Run:
    """A training whose every kernel has a known length; the host asks, and is ahead or waits."""
    host, gpu, cuda = played(drift=20e-6)
    with played_time(host):
        run = PlayedRecording(path, cuda, tracer=HostTracer(host))
        marks = PlayedLayers(len(FORWARD))
        run.steps.layers = marks if layers else None
        codes = {name: run.code("layer", name) for name in FORWARD}
        for number in range(steps):
            run.steps.samples = 4.0
            begun = run.steps.begin()
            run.steps.mark("data")
            gpu.launch("copy", ALONE["data"] * MS)
            run.steps.mark("forward")
            for name, ms in FORWARD.items():
                for _ in range(2 if name == "pool" else 1):
                    if marks.on:
                        run.steps.layer_begins(codes[name])
                    host.work(host_ms * MS)
                    gpu.launch(name, ms * MS)
                    if marks.on:
                        run.steps.layer_ends(codes[name])
            gpu.launch("loss", LOSS * MS)
            for phase in ("backward", "optimizer"):
                run.steps.mark(phase)
                gpu.launch(phase, ALONE[phase] * MS)
            if number % waits_every == 0:
                cuda.synchronize()
            run.steps.end(begun, 0.5)
        if sampled:
            cuda.synchronize()
            run.sample(sensors(gpu), gpu.ran[0].start_ns, host.now_ns)
        return run.close()


def sensors(gpu: Gpu) -> list[Sampled]:
    """The GPU's rail and the board's total, means of the 20 ms before each value."""
    begin = np.array([work.start_ns for work in gpu.ran])
    end = np.array([work.end_ns for work in gpu.ran])
    gains = np.array([(WATTS[work.name] - IDLE_W) for work in gpu.ran]) * (end - begin) * 1e-9
    edges = np.stack([begin, end], axis=1).ravel()
    joules = np.repeat(np.cumsum(gains), 2)
    joules[::2] -= gains  # up to the begin of each

    def rail(beyond_w: float, name: str, domain: Domain, role: str) -> Sampled:
        def raw(t_ns: int) -> int:
            first, last = np.interp([t_ns - WINDOW_NS, t_ns], edges, joules)
            noise = t_ns // 1000 * 7919 % 41 - 20
            return round((last - first) / WINDOW_NS * 1e12 + (IDLE_W + beyond_w) * 1e3) + noise

        channel = Channel(
            name=name, unit="W", kind="gauge", domain=domain, role=role, source="made", scale=1e-3,
            window_s=WINDOW_NS * 1e-9,
        )  # fmt: skip
        return Sampled(channel=channel, raw=raw, every_ns=WINDOW_NS)

    return [
        rail(0.0, "rail.GPU", "gpu", "power_part"),
        rail(BEYOND_W, "rail.IN", "system", "power_total"),
    ]


@pytest.fixture(scope="module", params=[1, 10, 50])
def run(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("events") / "run", request.param)


def times(rows: Any, column: str) -> dict[str, float]:
    return {row.labels[column]: row.figure("time").value * 1e3 for row in rows}


def test_layers_take_on_the_device_what_they_took(run: Run) -> None:
    found = times(run.breakdown.layers(), "layer")
    true = {**FORWARD, "pool": 2 * FORWARD["pool"]}
    for name, ms in true.items():
        assert found[name] == pytest.approx(ms, rel=0.02), name
    calls = {row.layer: row.figure("calls").value for row in run.breakdown.layers()}
    assert calls["pool"] == 2
    assert calls["conv"] == 1


def test_phases_take_on_the_device_what_they_took(run: Run) -> None:
    found = times(run.breakdown.phases(), "phase")
    forward = FORWARD["conv"] + 2 * FORWARD["pool"] + FORWARD["fc"] + LOSS
    assert found.keys() == {"data", "forward", "backward", "optimizer"}
    for name, ms in {**ALONE, "forward": forward}.items():
        assert found[name] == pytest.approx(ms, rel=0.02, abs=0.02), name


def test_rows_make_the_step_and_say_that_no_kernel_was_seen(run: Run) -> None:
    step = run.metrics["step_time"].value
    rows = run.breakdown.operations()
    for table in (rows, run.breakdown.layers(), run.breakdown.phases()):
        assert sum(row.figure("time").value for row in table) == pytest.approx(step, rel=1e-6)
        assert {row.processor for row in table} == {"gpu0"}
        for row in table:
            assert "no kernels seen" in row.time.method
            assert_says(row.time.source, "events", "gpu0")
            assert row.energy.missing
            assert "no power sensor" in row.energy.reason
            reason = row.figure("flops").reason
            assert reason == NOT_SEEN
    assert {(row.phase, row.layer) for row in rows} >= {
        ("forward", "conv"), ("forward", "(no single layer)"), ("backward", "(no single layer)"),
    }  # fmt: skip
    document = run.document()
    assert document["failures"] == []
    assert saying(document["operations_notes"], "no kernels were")
    assert "launches" not in {row["name"] for row in document["operations"]}
    assert document["kinds"] == document["energy_groups"] == []


def test_console_and_page_show_them_and_say_how_they_were_told(run: Run, tmp_path: Path) -> None:
    out, page = io.StringIO(), tmp_path / "page.html"
    print_run(run.report(), Console(file=out, width=200))
    done = wattstep("report", run.path, "-o", page)
    assert done.returncode == 0, done.stderr
    for text in (out.getvalue(), page.read_text()):
        assert "no kernels were" in " ".join(text.split())
        for name in FORWARD:
            assert name in text, name


def test_nothing_is_explained_by_operations_of_the_host_alone(run: Run) -> None:
    """Its only operation asks for all work: the device was busy nearly always, whatever lay between those."""
    sections = {each.name: each for each in explain(run)}
    assert not [each for each in sections.values() if each.failure]
    for name in ("gaps", "critical_path", "processors", "roofline", "advice", "gpu", "bottleneck"):
        assert "no kernels of" in str(sections[name].reason), name


def test_of_each_figure_an_interval_holds_the_truth(run: Run) -> None:
    row = next(row for row in run.breakdown.layers() if row.layer == "fc")
    assert row.time.status.value == "measured"
    assert row.time.low <= row.time.value <= row.time.high


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("events") / "run", 10, steps=900, sampled=True)


@pytest.mark.parametrize(("rail", "beyond_w"), [("rail.GPU", 0.0), ("rail.IN", BEYOND_W)])
def test_energy_of_phases_and_layers_holds_what_was_drawn_while_the_device_was_in_them(
    metered: Run, rail: str, beyond_w: float
) -> None:
    """Steps of 17 ms below samples of 20 ms; a layer of 2 ms at 30 W takes 60 mJ."""
    taken = {"conv": 2.0 * 30, "pool": 0.8 * 10, "fc": 3.0 * 18}
    beside = {**{name: ms * beyond_w for name, ms in FORWARD.items()}, "pool": 0.8 * beyond_w}
    true = {name: (mj + beside[name]) * 1e-3 for name, mj in taken.items()}
    phases = {name: ms * (WATTS[name if name != "data" else "copy"] + beyond_w) * 1e-3
              for name, ms in ALONE.items()}  # fmt: skip
    phases["forward"] = sum(true.values()) + LOSS * (WATTS["loss"] + beyond_w) * 1e-3
    told = 0
    for rows, column, truth in (
        (metered.breakdown.layers(), "layer", true),
        (metered.breakdown.phases(), "phase", phases),
    ):
        for row in rows:
            figure, name = row.figures.parts("energy_by_rail")[rail], getattr(row, column)
            if name not in truth or figure.missing:
                assert name not in truth or "not resolvable" in figure.reason
                continue
            assert figure.low <= truth[name] <= figure.high, name
            assert figure.value == pytest.approx(truth[name], rel=0.1)
            assert figure.status.value == "attributed"
            told += 1
    assert told >= 4


def test_rows_by_events_and_what_is_left_make_the_energy_of_the_step(metered: Run) -> None:
    document = metered.document()
    assert document["failures"] == []
    whole = document["metrics"]["energy_per_step"]["value"]
    for table in ("operations", "layers", "phases"):
        left = document["not_resolved"][table].get("energy", {"value": 0.0})["value"]
        rows = sum(row["energy"]["value"] or 0.0 for row in document[table])
        assert rows + left == pytest.approx(whole, rel=1e-6), table


def test_without_marks_of_layers_there_are_phases_and_a_note(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", 10, layers=False)
    assert run.breakdown.layers() == []
    assert len(run.breakdown.phases()) == 4
    assert saying(run.breakdown.operations_notes, "marks of layers")


def test_a_training_on_the_host_has_its_operations(tmp_path: Path) -> None:
    host, _, cuda = played()
    with played_time(host):
        recording = PlayedRecording(tmp_path / "run", cuda, follows=False, tracer=HostTracer(host))
        for _ in range(60):
            recording.steps.samples = 4.0
            begun = recording.steps.begin()
            host.work(5 * MS)
            recording.steps.end(begun, 0.5)
        run = recording.close()
    assert run.breakdown.by_events is None
    assert [row["name"] for row in run.operations()] == ["launches"]
    assert np.isclose(run.operations().rows[0]["time"].value, 5e-3, rtol=0.02)


@pytest.mark.parametrize(("follows", "every"), [(False, 1), (True, 2)])
def test_events_of_the_device_count_into_what_marks_of_layers_may_cost(
    tmp_path: Path, follows: bool, every: int
) -> None:
    """Six pairs of marks in every third step of 10 ms, 0.1 % of which is 10 µs: 8 µs by hooks alone.

    An event of the played device takes three calls of 0.7 µs and some looks at the clock, so that a
    pair costs 4 µs and twice 2.2 µs or a little more: 17 to 20 µs a step.
    """
    host, gpu, cuda = played()
    with played_time(host):
        recording = PlayedRecording(
            tmp_path / "run", cuda, follows=follows, tracer=HostTracer(host)
        )
        steps = recording.steps
        steps.layers = PlayedLayers(6)
        for _ in range(300):
            steps.samples = 4.0
            begun = steps.begin()
            gpu.launch("kernel", 10 * MS)
            cuda.synchronize()
            steps.end(begun, 0.5)
        assert steps.layers_every == every
        if follows:
            assert steps.device is not None
            assert 2_000 < steps.device.cost_ns < 4_000
        recording.close()

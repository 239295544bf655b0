"""Layers and phases by events in the device's queue, where its kernels may not be seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.gpu.played import played
from tests.gpu.recording import HostTracer, PlayedLayers, PlayedRecording, played_time

from wattstep.run.run import Run

MS = 1_000_000
STEPS = 200
FORWARD = {"conv": 2.0, "pool": 0.4, "fc": 3.0}  # ms on the device; "pool" is called twice
ALONE = {"data": 0.3, "backward": 9.0, "optimizer": 0.7}
LOSS = 0.25  # of the forward pass, in no layer


def trained(path: Path, waits_every: int, *, layers: bool = True, host_ms: float = 0.05) -> Run:
    """A training whose every kernel has a known length; the host asks, and is ahead or waits."""
    host, gpu, cuda = played(drift=20e-6)
    with played_time(host):
        run = PlayedRecording(path, cuda, tracer=HostTracer(host))
        marks = PlayedLayers(len(FORWARD))
        run.steps.layers = marks if layers else None
        codes = {name: run.code("layer", name) for name in FORWARD}
        for number in range(STEPS):
            run.steps.begin(4.0)
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
            run.steps.end(0.5)
        return run.close()


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
            assert "by events, no kernels seen" in row.time.method
            assert row.time.source == "events in the queue of gpu0"
            assert row.energy.missing
            assert row.energy.reason == "by events, no kernels seen: what ran in it is not known"
    assert {(row.phase, row.layer) for row in rows} >= {
        ("forward", "conv"), ("forward", "(no single layer)"), ("backward", "(no single layer)"),
    }  # fmt: skip
    document = run.document()
    assert document["failures"] == []
    assert any("no kernels were seen" in note for note in document["operations_notes"])
    assert "launches" not in {row["name"] for row in document["operations"]}
    assert document["kinds"] == document["energy_groups"] == []


def test_of_each_figure_an_interval_holds_the_truth(run: Run) -> None:
    row = next(row for row in run.breakdown.layers() if row.layer == "fc")
    assert row.time.status.value == "measured"
    assert row.time.low <= row.time.value <= row.time.high


def test_without_marks_of_layers_there_are_phases_and_a_note(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", 10, layers=False)
    assert run.breakdown.layers() == []
    assert len(run.breakdown.phases()) == 4
    assert any("no step carries marks of layers" in n for n in run.breakdown.operations_notes)


def test_a_training_on_the_host_has_its_operations(tmp_path: Path) -> None:
    host, _, cuda = played()
    with played_time(host):
        recording = PlayedRecording(tmp_path / "run", cuda, follows=False, tracer=HostTracer(host))
        for _ in range(60):
            recording.steps.begin(4.0)
            host.work(5 * MS)
            recording.steps.end(0.5)
        run = recording.close()
    assert run.breakdown.by_events is None
    assert [row["name"] for row in run.operations()] == ["launches"]
    assert np.isclose(run.operations().rows[0]["time"].value, 5e-3, rtol=0.02)


@pytest.mark.parametrize(("follows", "every"), [(False, 1), (True, 2)])
def test_events_of_the_device_count_into_what_marks_of_layers_may_cost(
    tmp_path: Path, follows: bool, every: int
) -> None:
    """Three pairs of marks in a step of 10 ms, 0.2 % of which is 20 µs: 12 µs by hooks alone.

    An event of the played device takes three calls of 0.7 µs and some looks at the clock, so that a
    pair costs 4 µs and twice 2.2 µs or a little more: 25 to 30 µs.
    """
    host, gpu, cuda = played()
    with played_time(host):
        recording = PlayedRecording(
            tmp_path / "run", cuda, follows=follows, tracer=HostTracer(host)
        )
        steps = recording.steps
        steps.layers = PlayedLayers(3)
        for _ in range(300):
            steps.begin(4.0)
            gpu.launch("kernel", 10 * MS)
            cuda.synchronize()
            steps.end(0.5)
        assert steps.layers_every == every
        if follows:
            assert steps.device is not None
            assert 2_000 < steps.device.cost_ns < 4_000
        recording.close()

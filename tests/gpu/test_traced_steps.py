"""Traced steps of trainings on a played GPU, whose truth without the tracer is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.gpu.profiling import Costs
from tests.gpu.scenarios import SCENARIOS, errors_of
from tests.gpu.traced_training import US, Recorded, Training, record
from tests.wording import assert_says, saying

from wattstep.insight.explain import explain
from wattstep.schema.figure import Status

AT_ONCE = (
    "two streams, waits each step",
    "host-bound, code between layers, never waits",
    "copies in a stream of their own, waits each 5",
)


def off(recorded: Recorded) -> dict[str, float]:
    """Quantities that are off by 2 % or more."""
    return {name: error for name, error in errors_of(recorded).items() if not error < 0.02}


@pytest.mark.parametrize("name", AT_ONCE)
def test_a_training_is_told_as_it_was(tmp_path: Path, name: str) -> None:
    assert off(record(tmp_path / "run", SCENARIOS[name])) == {}


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in AT_ONCE])
def test_each_of_forty_trainings_is_told_as_it_was(tmp_path: Path, name: str) -> None:
    assert off(record(tmp_path / "run", SCENARIOS[name])) == {}


def test_the_same_training_is_told_alike_whatever_tracing_costs(tmp_path: Path) -> None:
    costs = Costs(operation=4_000, call=7_000, between=2_500, within=1_200)
    assert max(errors_of(record(tmp_path / "dear", Training(costs=costs))).values()) < 0.03
    nothing = Costs(operation=0, call=0, between=0, within=0)
    assert off(record(tmp_path / "free", Training(costs=nothing))) == {}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Of stated costs: 1.5 and 2.4 µs for the host, 0.9 and 0.3 µs for the device."""
    training = Training(between_ns=90 * US, waits_every=5)
    return record(tmp_path_factory.mktemp("gpu") / "run", training)


def test_the_cost_of_tracing_is_what_was_stated(recorded: Recorded) -> None:
    cost = recorded.run.breakdown.timeline.cost
    assert cost is not None
    assert cost.piece_s == pytest.approx(1.2e-6, rel=0.02)
    assert cost.within_s == pytest.approx(0.3e-6, rel=0.1)
    # Operations and calls go together from phase to phase here: what they cost all in all counts.
    rows = recorded.run.breakdown.rows
    runtime = recorded.run.breakdown.label("kind").named("runtime call")[rows.on_host]
    told = np.where(runtime, cost.call_s, cost.operation_s).sum()
    assert told == pytest.approx(np.where(runtime, 2.4e-6, 1.5e-6).sum(), rel=0.05)
    assert abs(cost.host_residual) < 0.005
    assert abs(recorded.run.breakdown.timeline.residual) < 0.005


def test_what_measures_the_cost_is_no_row_of_a_step(recorded: Recorded) -> None:
    names = set(recorded.run.breakdown.label("name").texts.astype(str))
    assert "backward_0_1" in names
    assert not names & {"spin_kernel", "fill"}
    marked = recorded.run.info.device_clock
    assert marked["piece_ns"] == pytest.approx(1_200, rel=0.02)


def test_times_that_were_played_again_are_none_that_were_measured(recorded: Recorded) -> None:
    (gpu,) = explain(recorded.run, ["gpu"])
    times = [
        figure
        for table in gpu.tables
        for row in table.rows
        for figure in row.values()
        if getattr(figure, "unit", "") == "s" and not figure.missing
    ]
    assert {figure.status for figure in times} == {Status.ATTRIBUTED}
    words = " ".join(gpu.sentences)
    assert_says(words, "1.2 µs a piece")
    assert "played again" in words


def test_kernels_have_the_layer_that_launched_them_in_the_forward_and_the_backward_thread(
    recorded: Recorded,
) -> None:
    rows = [row for row in recorded.run.breakdown.operations() if row.processor == "gpu0"]
    layers = {str(row.labels["name"]): row.labels["layer"] for row in rows}
    for layer in range(4):
        assert layers[f"forward_{layer}_0"] == layers[f"backward_{layer}_1"] == f"layer{layer}"


def test_a_full_queue_is_no_gap_though_the_traced_step_began_with_an_empty_one(
    tmp_path: Path,
) -> None:
    run = record(tmp_path / "run", Training(waits_every=0, batch=None)).run
    (gaps,) = explain(run, ["gaps"])
    device = next(table for table in gaps.tables if table.name == "gpu0")
    assert sum(row["time"].value for row in device.rows) < 2e-6
    assert saying(gaps.sentences, "gpu0", "0 %") or "gpu0 always computes." in gaps.sentences

"""What a recording of a training on an NVIDIA H200 says, beside what was measured another way (docs/gpu-truth.md).

LeNet-5, batch 16, 39 steps in a script without phases, every sixth traced; torch 2.11.0+cu130.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.wording import assert_says

from wattstep.insight.advise.section import advice
from wattstep.insight.explain.critical_path import critical_path
from wattstep.insight.explain.processors import processors
from wattstep.insight.explain.roofline import roofline
from wattstep.run import Run, load

RECORDED = Path(__file__).with_name("h200") / "lenet"
KERNELS_S = 158e-6  # of a step, by torch's own profiler over other steps of the same training
IN_USE = 919 * 2**20  # bytes of the card in use, by the driver, after the same training


@pytest.fixture(scope="module")
def run() -> Run:
    return load(RECORDED)


def test_kernels_take_what_the_profiler_says(run: Run) -> None:
    traced = run.tables.table("operations", columns=("processor", "start_ns", "end_ns", "step"))
    on_gpu = np.array(traced["processor"].to_pylist()) == "gpu0"
    lasting = (traced["end_ns"].to_numpy() - traced["start_ns"].to_numpy())[on_gpu]
    steps = len(set(traced["step"].to_pylist()))
    assert lasting.sum() * 1e-9 / steps == pytest.approx(KERNELS_S, rel=0.01)


def test_a_card_is_one_rail_by_its_counter(run: Run) -> None:
    """Each quantity of NVML has a path of its own, which no played card had."""
    assert list(run.report().energy_by_rail) == ["gpu0.energy"]


def test_power_and_counter_of_the_card_agree(run: Run) -> None:
    sources = run.series.uncalibrated_rails
    t_ns, joules = run.series.raw("gpu0.energy")
    changed = np.flatnonzero(np.diff(joules)) + 1  # a value stays for 100 ms
    begin, end = t_ns[changed[[0, -1]]]
    watts, covered = sources["gpu0.power"].curve.difference(np.array([begin]), np.array([end]))
    assert covered[0] > 0.99
    assert watts[0] == pytest.approx(joules[changed[-1]] - joules[changed[0]], rel=0.1)


def test_power_over_the_run_is_that_of_the_card(run: Run) -> None:
    """Read every 20 ms, the counter moves every 100 ms: nothing, and five times the power, in turns."""
    (lane,) = [lane for lane in run.timeline().channels if lane.name == "gpu0.energy"]
    watts = lane.value[np.isfinite(lane.value)]
    assert len(watts) > 5
    assert watts == pytest.approx(125, rel=0.25)


def test_shares_of_traced_steps_are_of_these(run: Run) -> None:
    """Played untraced they are shorter than clean steps here."""
    (at_once,) = [table for table in processors(run).tables if table.name == "at_once"]
    assert sum(row["share"].value for row in at_once.rows) == pytest.approx(1)
    share = critical_path(run).figures["critical_path_share"]
    assert share.high <= 1


def test_no_more_cores_are_busy_than_there_are(run: Run) -> None:
    assert run.metrics["process_cpu_cores"].high <= 16


def test_cores_that_the_host_took_are_told(run: Run) -> None:
    (row,) = [row for row in advice(run).tables[0].rows if row["name"] == "fewer_threads"]
    assert_says(row["why"], "took 0,", "host 2.9")
    said = " ".join(processors(run).sentences)
    assert "the host 2.9" in said
    assert "other process." not in said  # there is none to end


def test_what_a_device_computes_has_no_rate_on_the_host(run: Run) -> None:
    rows = roofline(run).tables[0].rows
    of_layer = {row["name"]: row["flops_rate"] for row in rows if row["layer"] == "features.3"}
    assert_says(of_layer["aten::conv2d"].reason, "device")


def test_peak_memory_is_what_the_driver_counts(run: Run) -> None:
    assert run.metrics["device_peak_memory"].value == pytest.approx(IN_USE, rel=0.02)


def test_steps_without_phases_are_played_untraced(run: Run) -> None:
    cost = run.breakdown.timeline.cost
    assert cost is not None
    assert 1e-8 < cost.piece_s < 2e-6

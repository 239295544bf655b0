"""What a recording of a training on an NVIDIA H200 says, beside what was measured another way (docs/gpu-truth.md).

LeNet-5, batch 16, 39 steps in a script without phases, every sixth traced; torch 2.11.0+cu130.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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


def test_peak_memory_is_what_the_driver_counts(run: Run) -> None:
    assert run.metrics["device_peak_memory"].value == pytest.approx(IN_USE, rel=0.02)


def test_steps_without_phases_are_played_untraced(run: Run) -> None:
    cost = run.breakdown.timeline.cost
    assert cost is not None
    assert 1e-8 < cost.piece_s < 2e-6

"""A study gives each configuration what a plan gives it, here as on the workers of a cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.planning.made import SAMPLE_S, capture, device, plan
from tests.predicting.steps import step
from tests.refusals import refused

from wattstep.plan import StudyGrid, study
from wattstep.schema.step_graph import StepFamily
from wattstep.schema.workload import Preparation


def grid(**changes: object) -> StudyGrid:
    one, two = (capture(Preparation(batch_size=16, accumulate=count), "fp32") for count in (1, 2))
    asked = {
        "families": {"plain": (one, two)},
        "devices": [device(gap_s=0.5)],
        "batches": range(1, 33),
        "accumulates": (1, 2, 5),
    }
    return StudyGrid(**{**asked, **changes})  # type: ignore[arg-type]


def test_each_configuration_takes_what_is_worked_out() -> None:
    made = study(grid())
    assert made.count == grid().count == 2 * 32 * 3
    full = np.array([made.cells[each].mode is None for each in made.cell])
    work = made.batch * made.accumulate * SAMPLE_S * np.where(full, 1, 2)
    expected = work + 0.5 * (3 * made.accumulate + 1)
    np.testing.assert_allclose(made.step_time, expected, rtol=1e-4)
    rows = set(zip(made.cell, made.batch, made.accumulate, strict=True))
    assert len(rows) == made.count


def test_a_study_agrees_with_a_plan() -> None:
    made = study(grid(batches=(1, 4, 16), accumulates=(1, 4, 16)))
    planned = {
        (one.configuration.mode, one.configuration.batch, one.configuration.accumulate): one
        for one in plan(device(gap_s=0.5)).estimates
        if not one.configuration.checkpointing
    }
    agreeing = 0
    for n in range(made.count):
        key = (made.cells[made.cell[n]].mode, made.batch[n], made.accumulate[n])
        if key in planned:
            agreeing += 1
            figures = planned[key].figures
            assert made.step_time[n] == pytest.approx(float(figures["step_time"]))
            assert made.energy_per_step[n] == pytest.approx(float(figures["energy_per_step"]))
            assert made.memory[n] == pytest.approx(float(figures["memory"]))
            assert made.fits_with[n] == pytest.approx(planned[key].fits_with)
    assert agreeing == 2 * 3  # 1 × 16, 4 × 4 and 16 × 1, in both modes


def test_workers_give_the_same(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    here = study(grid())
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0",
            local_directory=str(tmp_path),
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        there = study(grid(), client)
    for name in (
        "cell",
        "batch",
        "accumulate",
        "step_time",
        "energy_per_step",
        "memory",
        "fits_with",
    ):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name))


def test_what_cannot_be_studied_is_refused() -> None:
    with refused("nothing-to-plan"):
        study(grid(batches=()))
    with refused("nothing-to-plan"):
        study(grid(accumulates=(0, 1)))
    each = StepFamily(small=step(2), large=step(3), capture=step)
    with refused("each-captured", "plain"):
        study(grid(families={"plain": (each, each)}), client=object())

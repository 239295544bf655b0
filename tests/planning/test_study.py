"""A study gives each configuration what a plan gives it, here as on the workers of a cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pytest
from tests.planning.made import SAMPLE_S, capture, device, plan
from tests.predicting.steps import step
from tests.refusals import refused

from wattstep import devices
from wattstep.errors import DamagedRunError
from wattstep.plan import StudyGrid, Variant, study
from wattstep.plan.study_folder import best_of, study_into
from wattstep.predict import predictor_for, predictors_for
from wattstep.schema.step_graph import StepFamily
from wattstep.schema.workload import Preparation

PLAIN = Variant(workload="by hand")


def grid(**changes: object) -> StudyGrid:
    one, two = (capture(Preparation(batch_size=16, accumulate=count), "fp32") for count in (1, 2))
    asked = {
        "families": {PLAIN: (one, two)},
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
    np.testing.assert_allclose(made.columns["step_time"], expected, rtol=1e-4)
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
            for name in ("step_time", "energy_per_step", "memory"):
                figure = planned[key].figures[name]
                ends = {"": figure.value, "_low": figure.low, "_high": figure.high}
                for end, number in ends.items():
                    assert made.columns[name + end][n] == pytest.approx(number)
            assert made.columns["fits_with"][n] == pytest.approx(planned[key].fits_with)
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
    for name in ("cell", "batch", "accumulate"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name))
    for name, column in here.columns.items():
        np.testing.assert_array_equal(column, there.columns[name])


def test_what_cannot_be_studied_is_refused() -> None:
    with refused("nothing-to-plan"):
        study(grid(batches=()))
    with refused("nothing-to-plan"):
        study(grid(accumulates=(0, 1)))
    each = StepFamily(small=step(2), large=step(3), capture=step)
    with refused("each-captured", PLAIN.workload):
        study(grid(families={PLAIN: (each, each)}), client=object())


def two_cells(**changes: object) -> StudyGrid:
    """Two pieces: 32 batches."""
    return grid(**{"accumulates": (1, 2), **changes})


def test_a_folder_has_the_rows_of_a_study(tmp_path: Path) -> None:
    document = study_into(tmp_path, two_cells())
    here, there = study(two_cells()), ds.dataset(sorted(tmp_path.glob("*.parquet"))).to_table()
    assert document["configurations"] == here.count == there.num_rows
    for name in ("batch", "accumulate"):
        np.testing.assert_array_equal(getattr(here, name), there[name])
    for name, column in here.columns.items():
        np.testing.assert_array_equal(column, there[name])
    assert [here.cells[each].mode for each in here.cell] == there["mode"].to_pylist()


def test_a_study_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        told.append((done, total))
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study_into(tmp_path, two_cells(), on_progress=stop)
    [first] = tmp_path.glob("*.parquet")
    before = first.stat().st_mtime_ns
    study_into(tmp_path, two_cells(), on_progress=lambda done, total: told.append((done, total)))
    assert told == [(0, 2), (1, 2), (1, 2), (2, 2)]
    assert first.stat().st_mtime_ns == before
    study_into(tmp_path / "whole", two_cells())
    assert best_of(tmp_path) == best_of(tmp_path / "whole")
    with refused("other-settings", "batches"):
        study_into(tmp_path, two_cells(batches=range(1, 9)))
    with refused("other-settings", "devices"):
        study_into(tmp_path, two_cells(devices=[device(gap_s=1.0)]))
    (tmp_path / "study.json").write_text("[1")
    with pytest.raises(DamagedRunError, match=r"study\.json"):
        study_into(tmp_path, two_cells())


def test_the_best_of_a_study_is_found_by_looking_at_each_row(tmp_path: Path) -> None:
    tight = two_cells(
        devices=[device(gap_s=0.5, usable=1.3e9)], batches=(8, 100, 150, 190, 250, 400)
    )
    study_into(tmp_path, tight)
    made = study(tight)
    [row] = best_of(tmp_path)
    fits = made.columns["fits_with"] >= 0.98
    assert 0 < row["fitting"] == fits.sum() < made.count == row["configurations"]
    assert row["largest_batch"] == made.batch[fits].max()
    costs = made.columns["energy_per_step"] / (made.batch * made.accumulate)
    least = int(np.where(fits, costs, np.inf).argmin())
    assert row["best"]["batch"] == made.batch[least]
    assert row["best"]["energy_per_step"] == made.columns["energy_per_step"][least]
    study_into(tmp_path / "none", grid(devices=[device(usable=5e8)]))
    assert best_of(tmp_path / "none")[0]["best"] is None


def test_a_device_is_left_out_of_precisions_that_it_does_not_have() -> None:
    families = grid().families[PLAIN]
    half = Variant(workload=PLAIN.workload, precision="bf16")
    orin, tx2 = devices.find("jetson-orin-nano"), devices.find("jetson-tx2")
    both = grid(families={PLAIN: families, half: families}, devices=[orin, tx2], batches=(1,))
    where = {(cell.variant.precision, cell.device) for cell in both.cells}
    assert where == {
        ("fp32", "jetson-orin-nano"),
        ("bf16", "jetson-orin-nano"),
        ("fp32", "jetson-tx2"),
    }
    assert list(both.refused) == [("jetson-tx2", "bf16")]
    with refused("precision-not-on-device", "bf16"):
        study(grid(families={half: families}, devices=[orin, tx2]))


def test_predictors_that_share_steps_predict_the_same() -> None:
    family, _ = grid().families[PLAIN]
    where = [devices.find(name) for name in ("jetson-tx2", "jetson-orin-nano", "jetson-nano")]
    for alone, shared in zip(
        (predictor_for(family, each) for each in where), predictors_for(family, where), strict=True
    ):
        for batch in (1, 300):
            one, other = (each.at(batch).report(workload="") for each in (alone, shared))
            assert one.to_dict() == other.to_dict()

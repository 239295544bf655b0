"""Operations as data frames: every number keeps its unit, interval and status, whatever was sampled."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.run.imported.made import STEP, imported, power, step
from tests.run.made import import_made, watts

from wattstep.report.export.export import export_run
from wattstep.report.query.figures import rows_of
from wattstep.run import Run, load

RAILS = ("rail.gpu", "rail.cpu")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Twelve traced steps of 100 ms beside two rails of the same 10 and 30 W."""
    begins = [n * STEP for n in range(12)]
    path = tmp_path_factory.mktemp("rails") / "run"
    return load(
        import_made(
            path,
            imported(),
            steps=[(begin, begin + STEP) for begin in begins],
            operations=[row for n, begin in enumerate(begins) for row in step(n, begin)],
            samples=[(watts(rail), "power.csv", power(12 * STEP)) for rail in RAILS],
        )
    )


def test_operations_of_a_board_with_two_rails_become_a_data_frame(run: Run) -> None:
    frame = run.operations().to_pandas().set_index("name")
    assert len(frame) == len(run.operations())
    conv = frame.loc["aten::conv2d"]
    # Both rails draw the same: each has half of the energy.
    for rail in RAILS:
        assert conv[f"energy_by_rail.{rail}"] == pytest.approx(conv["energy"] / 2)
        assert conv[f"energy_by_rail.{rail}_unit"] == "J"
        assert conv[f"energy_by_rail.{rail}_status"] == "attributed"
        low, high = conv[f"energy_by_rail.{rail}_low"], conv[f"energy_by_rail.{rail}_high"]
        assert low < conv["energy"] / 2 < high


def test_every_figure_of_a_row_is_in_the_frame_with_unit_interval_status_and_reason(
    run: Run,
) -> None:
    frame = run.operations().to_pandas()
    for row, (_, cells) in zip(run.operations(), frame.iterrows(), strict=True):
        for name in ("time", "energy", "power", "memory", "cpu_utilization"):
            figure = row[name]
            assert cells[f"{name}_unit"] == figure.unit
            assert cells[f"{name}_status"] == figure.status.value
            for suffix, expected in (
                ("", figure.value), ("_low", figure.low), ("_high", figure.high),
                ("_reason", figure.reason),
            ):  # fmt: skip
                cell = cells[f"{name}{suffix}"]
                assert cell == expected or (expected is None and pd.isna(cell))


def test_numbers_that_are_missing_everywhere_are_numbers_still(run: Run) -> None:
    table = run.operations().to_arrow()
    assert str(table.schema.field("memory").type) == "double"
    assert str(table.schema.field("memory_reason").type) == "string"


def test_exported_tables_have_the_energy_of_each_rail(run: Run, tmp_path: Path) -> None:
    export_run(run.path, "parquet", tmp_path / "tables")
    for name in ("operation_table", "layer_table", "phase_table", "kind_table", "rest_table"):
        table = pq.read_table(tmp_path / "tables" / f"{name}.parquet")
        for rail in RAILS:
            assert f"energy_by_rail.{rail}_status" in table.column_names, name
            meaning = table.schema.field(f"energy_by_rail.{rail}_low").metadata[b"meaning"]
            assert b"of one power rail" in meaning


def test_queries_find_the_energy_of_each_rail(run: Run) -> None:
    found = rows_of(run.report())
    for table in ("operation_table", "layers", "phases", "rests"):
        quantities = {row["quantity"] for row in found[table]}
        assert {f"energy_by_rail.{rail}" for rail in RAILS} <= quantities

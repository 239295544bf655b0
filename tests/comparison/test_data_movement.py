"""The study of data movement: who wins from which batch on, by intervals that exclude each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.refusals import refused
from tests.reports.test_never_recorded import on_terminal
from tests.wording import assert_says

from wattstep.insight.compare.data_movement import (
    CPU,
    PLAN,
    SHARES,
    WAYS,
    Asked,
    Cell,
    Row,
    Study,
    read_study,
)
from wattstep.report.terminal.data_movement import print_study
from wattstep.schema.figure import Figure, Status, missing
from wattstep.sweep.data_movement import study

NO_SENSOR = "no power sensor was found"


def seconds(value: float) -> Figure:
    """Known to 5 %."""
    return Figure(
        value=value, unit="s", status=Status.MEASURED, source="clock", low=0.95 * value,
        high=1.05 * value, confidence=0.95,
    )  # fmt: skip


def cell(way: str, took: float) -> Cell:
    share = Figure(value=0.25, unit="ratio", status=Status.ATTRIBUTED, source="events")
    rate = Figure(value=1e9, unit="FLOP/s", status=Status.MEASURED, source="clock")
    figures = {"step_time": seconds(took), "rate": rate, "energy_per_step": missing("J", NO_SENSOR)}
    return Cell(run=Path(way), figures=figures | dict.fromkeys(SHARES, share))


def made(shares_memory: bool = True) -> Study:
    """Of the net "a": resident ties at 4 and wins from 16 on, fused wins at 4 but loses at 16."""
    took = {
        1: (1.0, 9.0, 2.0, 1.5),
        4: (2.0, 9.0, 1.95, 1.0),
        16: (8.0, 9.0, 4.0, 9.0),
        64: (32.0, 40.0, 8.0, 4.0),
    }
    rows = [
        Row(
            net="a", batch=batch,
            cells={way: cell(way, ms * 1e-3) for way, ms in zip(WAYS, each, strict=True)},
        )
        for batch, each in took.items()
    ]  # fmt: skip
    asked = Asked(nets=["a"], batches=list(took))
    return Study(
        asked=asked, device={"name": "Mali-G76", "shares_memory": shares_memory}, rows=rows
    )


def test_a_way_wins_from_the_batch_on_beyond_which_it_always_does() -> None:
    wins = {way: made().wins("a", way) for way in WAYS if way != CPU}
    assert wins == {"copying": None, "resident": 16, "fused": 64}
    assert made().rows[2].speed_up("resident").value == pytest.approx(2.0)
    assert made().rows[2].speed_up("resident").low == pytest.approx(2.0 * 0.95 / 1.05)


def test_it_is_a_document_and_a_table_beside_what_was_published() -> None:
    document = json.loads(json.dumps(made().document()))
    assert document["wins_from"] == {"a": {"copying": None, "resident": 16, "fused": 64}}
    assert document["rows"][3]["ways"]["fused"]["speed_up"]["value"] == pytest.approx(8.0)
    assert "91 %" in document["published"]["movement"]
    text = on_terminal(lambda console: print_study(made(), console))
    assert_says(text, "Mali-G76", "resident from batch 16", "91 %", NO_SENSOR, "0.50 ×")
    assert "plumbing" in text
    assert "plumbing" not in on_terminal(lambda console: print_study(made(False), console))


def test_a_folder_of_another_study_or_of_none_is_refused(tmp_path: Path) -> None:
    with refused("no-study"):
        read_study(tmp_path)
    (tmp_path / PLAN).write_text(json.dumps(Asked(nets=["lenet"]).document()))
    unheard = [lambda *args: None] * 3
    with refused("another-study"):
        study(Asked(nets=["mlp"]), tmp_path, *unheard)
    with refused("unknown-workload", "nothing"):
        study(Asked(nets=["nothing"]), tmp_path / "other", *unheard)

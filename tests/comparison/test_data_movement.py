"""The study of data movement: who wins from which batch on, by intervals that exclude each other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.refusals import refused
from tests.reports.test_never_recorded import on_terminal
from tests.wording import assert_says

from wattstep.insight.compare.data_movement import (
    CPU,
    PLAN,
    SHARES,
    Asked,
    Cell,
    Row,
    Study,
    place_of,
    read_study,
)
from wattstep.report.html.data_movement import render_study
from wattstep.report.terminal.data_movement import print_study
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.opencl import MODES
from wattstep.sweep.data_movement import study
from wattstep.train.settings import TrainingSettings

NO_SENSOR = "no power sensor was found"


def seconds(value: float) -> Figure:
    """Known to 5 %."""
    return Figure(
        value=value, unit="s", status=Status.MEASURED, source="clock", low=0.95 * value,
        high=1.05 * value, confidence=0.95,
    )  # fmt: skip


def predicted(value: float) -> Figure:
    return Figure(value=value, unit="s", status=Status.PREDICTED, source="ceilings")


def cell(way: str, took: float) -> Cell:
    share = Figure(value=0.25, unit="ratio", status=Status.ATTRIBUTED, source="events")
    rate = Figure(value=1e9, unit="FLOP/s", status=Status.MEASURED, source="clock")
    figures = {
        "step_time": seconds(took), "rate": rate, "energy_per_step": missing("J", NO_SENSOR),
        "predicted": predicted(1e-3 if way == "fused" else took), "predicted_cpu": predicted(2e-3),
    }  # fmt: skip
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
            cells={way: cell(way, ms * 1e-3) for way, ms in zip((CPU, *MODES), each, strict=True)},
        )
        for batch, each in took.items()
    ]  # fmt: skip
    asked = Asked(nets=["a"], batches=list(took))
    return Study(
        asked=asked, rows=rows, left=7,
        devices={"opencl": {"name": "Mali-G76", "shares_memory": shares_memory}},
    )  # fmt: skip


def test_a_way_wins_from_the_batch_on_beyond_which_it_always_does() -> None:
    wins = {way: made().wins("a", way) for way in MODES}
    assert wins == {"copying": None, "resident": 16, "fused": 64}
    assert made().rows[2].speed_up("resident").value == pytest.approx(2.0)
    assert made().rows[2].speed_up("resident").low == pytest.approx(2.0 * 0.95 / 1.05)


def test_a_disturbed_training_decides_nothing() -> None:
    rows = list(made().rows)
    largest = rows[-1]
    slow_cpu = replace(largest.cells[CPU], disturbed=0.4)
    rows[-1] = replace(largest, cells={**largest.cells, CPU: slow_cpu})
    disturbed = replace(made(), rows=rows)
    assert [disturbed.wins("a", way) for way in MODES] == [None] * 3
    assert disturbed.predicted_wins("a", "fused") == made().predicted_wins("a", "fused")
    assert disturbed.document()["disturbed"] == 1
    assert_says(on_terminal(lambda console: print_study(disturbed, console)), "disturbed 1 of")
    assert "disturbed 1 of" in render_study(disturbed)


def test_by_the_ceilings_a_way_wins_where_the_same_work_takes_the_cpu_longer() -> None:
    """The CPU takes 2 ms at its ceilings, fused 1 ms, resident less than that at batch 4 and no more at 64."""
    study = made()
    assert study.predicted_wins("a", "fused").value == 1
    assert study.predicted_wins("a", "fused").status is Status.PREDICTED
    assert study.predicted_wins("a", "resident").missing
    assert study.rows[0].predicted_speed_up("fused").value == pytest.approx(2.0)
    unknown = replace(study.rows[1].cells["fused"], figures={
        **study.rows[1].cells["fused"].figures, "predicted": missing("s", "unmade"),
    })  # fmt: skip
    row = replace(study.rows[1], cells={**study.rows[1].cells, "fused": unknown})
    left = replace(study, rows=[study.rows[0], row, *study.rows[2:]])
    assert left.predicted_wins("a", "fused").reason == "unmade"


def test_it_is_a_document_and_a_table_beside_what_was_published() -> None:
    document = json.loads(json.dumps(made().document()))
    assert document["wins_from"] == {"a": {"copying": None, "resident": 16, "fused": 64}}
    assert document["rows"][3]["ways"]["fused"]["speed_up"]["value"] == pytest.approx(8.0)
    assert "91 %" in document["published"]["movement"]
    text = on_terminal(lambda console: print_study(made(), console))
    assert_says(
        text, "Mali-G76", "resident from batch 16", "91 %", NO_SENSOR, "0.500 ×", "~ 4.50 ×"
    )
    assert "plumbing" in text
    assert "plumbing" not in on_terminal(lambda console: print_study(made(False), console))


def test_its_page_has_all_rows_both_sizes_and_what_was_published() -> None:
    page = render_study(made())
    assert_says(page, "Mali-G76", "almost 91 %", "arXiv 2202.10100", "a, batch 16", NO_SENSOR, 7)
    assert "plumbing" in page
    body = page[page.index("All trainings") :]
    assert body.count("<tr>") == 1 + 4 * 4  # heading, batches by ways
    wins = page[page.index("From which batch") : page.index("Beside Das")]
    assert_says(wins, "fused", "~ 1 samples", "64 samples")


def test_two_devices_stand_beside_the_same_cpu_each_in_three_modes() -> None:
    asked = Asked(processors=["opencl:0", "opencl:1"])
    assert len(asked.ways) == 1 + 2 * len(MODES)
    places = {place_of(Path("out"), "mlp", 1, way).name for way in asked.ways}
    assert len(places) == len(asked.ways)
    assert "mlp-1-fused-opencl-1" in places


def test_what_is_trained_is_not_trained_again_and_half_a_training_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_runs: list[str] = []
    ended = ["mlp-8-copying.part"]  # by a kill: its folder stays

    def train(settings: TrainingSettings, *unheard: object) -> None:
        place = Path(str(settings.out))
        place.mkdir()
        made_runs.append(place.name)
        if place.name in ended:
            ended.clear()
            raise KeyboardInterrupt

    monkeypatch.setattr("wattstep.sweep.data_movement.train_in_child", train)
    monkeypatch.setattr("wattstep.sweep.data_movement.read_study", lambda out: made())
    asked, unheard = Asked(nets=["mlp"], batches=[8]), [lambda *args: None] * 3
    with pytest.raises(KeyboardInterrupt):
        study(asked, tmp_path, *unheard)
    study(asked, tmp_path, *unheard, 0.0)  # no time for any more
    assert made_runs == ["mlp-8-cpu.part", "mlp-8-copying.part"]
    study(asked, tmp_path, *unheard)
    again = [f"mlp-8-{mode}.part" for mode in MODES]
    assert made_runs[2:] == again
    names = {place.name for place in tmp_path.iterdir() if place.is_dir()}
    assert names == {"mlp-8-cpu", *(f"mlp-8-{mode}" for mode in MODES)}


def test_a_folder_of_another_study_or_of_none_is_refused(tmp_path: Path) -> None:
    with refused("no-study"):
        read_study(tmp_path)
    (tmp_path / PLAN).write_text(json.dumps(Asked(nets=["lenet"]).document()))
    unheard = [lambda *args: None] * 3
    with refused("another-study"):
        study(Asked(nets=["mlp"]), tmp_path, *unheard)
    with refused("unknown-workload", "nothing"):
        study(Asked(nets=["nothing"]), tmp_path / "other", *unheard)

"""Days whose samples were labeled here: who has which sample, what is trained as what, what is refused."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.refusals import refused
from tests.reports.pages.tree import tree
from tests.wording import assert_says
from torch import Tensor, nn

from wattstep.engines.torch.daily import TorchClassifier
from wattstep.labeling.outcome import Labels
from wattstep.report.daily_tables import facts
from wattstep.report.html.daily import render_daily
from wattstep.schema.daily_report import DailyReport, LabelCounts
from wattstep.schema.workload import Preparation
from wattstep.train.daily.folder import DailyFolder, DayLabels, DayRow
from wattstep.train.daily.labels import examples_of, small_of
from wattstep.train.daily.result import daily_report
from wattstep.train.daily.settings import DailySettings
from wattstep.train.daily.split import split
from wattstep.workloads.data.samples import describe
from wattstep.workloads.torch.supervised import SupervisedTraining

AUTO = DailySettings(
    workload="lenet", labels="auto", labeled=15, images_per_day=10, days=2, judged=20
)


def test_the_labeled_samples_are_neither_the_servers_nor_a_days() -> None:
    parts = split(AUTO, 100, 50)
    assert len(parts.labeled) == 15
    everything = [*parts.server, *parts.labeled, *(index for day in parts.days for index in day)]
    assert sorted(everything) == list(range(100))
    given = DailySettings(workload="lenet", images_per_day=10, days=2, judged=20)
    assert split(given, 100, 50).labeled == ()
    assert split(given, 100, 50).days == parts.days


def test_too_few_samples_for_a_labeled_set_are_refused() -> None:
    with refused("too-few-samples", "20 samples", "15", "66"):
        split(AUTO, 66, 50)


@pytest.mark.parametrize(
    ("setting", "id", "named"),
    [
        ({"labels": "guess"}, "unknown-labels", "--labels guess"),
        ({"labeled": 0}, "out-of-range", "--labeled 0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(
    setting: dict[str, object], id: str, named: str
) -> None:
    with refused(id, named):
        DailySettings(workload="lenet", **setting)  # type: ignore[arg-type]


class Identity(nn.Module):
    """The input as scores."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + self.weight


def test_samples_are_trained_as_they_were_labeled_and_judged_by_their_true_class() -> None:
    inputs = np.eye(3, dtype=np.float32)
    targets = np.arange(3, dtype=np.uint8)
    model = Identity()
    training = SupervisedTraining(
        samples=describe(name="made", inputs=inputs, targets=targets, held_out=(inputs, targets)),
        model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), encode=Tensor.float,
        preparation=Preparation(batch_size=2),
    )  # fmt: skip
    training.restrict([0, 2], seed=1, classes=[2, 1])
    drawn, classes = training.next_batch(lambda name: pytest.fail(name))
    trained = dict(zip(drawn.argmax(dim=1).tolist(), classes.tolist(), strict=True))
    assert trained == {0: 2, 2: 1}
    assert training.right_on([0, 2]) == [True, True]
    assert training.classes_of([2, 0]) == [2, 0]
    assert training.scores([1]).tolist() == [[0, 1, 0]]
    training.restrict([0, 2], seed=1)
    drawn, classes = training.next_batch(lambda name: pytest.fail(name))
    assert drawn.argmax(dim=1).tolist() == classes.tolist()


FIRST: DayLabels = {
    "classes": [1, 2, 3, 1, 0, 5, 7, -1, -1, -1], "truth": [1, 2, 3, 1, 0, 4, 1, 9, 1, 9],
    "statuses": "lllllllauu", "right": "1111100", "first_choice": "1111000000", "run": "run-1",
    "begin_ns": 0, "end_ns": 500_000_000, "examples": [],
}  # fmt: skip
SECOND: DayLabels = {
    "classes": [-1] * 10, "truth": [0] * 10, "statuses": "aaaaaaaaau", "right": "",
    "first_choice": "0" * 10, "run": "run-1", "begin_ns": 0, "end_ns": 250_000_000, "examples": [],
}  # fmt: skip


def reported(path: Path, days: list[DayLabels]) -> DailyReport:
    """Of days that were labeled so, the first of which is done."""
    folder = DailyFolder(path / "daily")
    folder.open(replace(AUTO, days=len(days)))
    folder.keep_labels(days)
    folder.batch(4).mkdir()
    server: DayRow = {
        "day": 0, "weights_sha256": "a", "new": None, "held_out": "1100", "remembered": "1111",
    }  # fmt: skip
    trained: DayRow = {
        "day": 1, "run": "run-1", "begin_ns": 0, "end_ns": 10, "steps": 0, "samples": 0, "loss": None,
        "new": "1" * 10, "held_out": "1100", "remembered": "1111",
    }  # fmt: skip
    folder.keep_days(4, [server, trained])
    made = daily_report(folder)
    folder.close()
    return made


@pytest.fixture
def report(tmp_path: Path) -> DailyReport:
    """Of two days, of the second of which nothing got a label."""
    return reported(tmp_path, [FIRST, SECOND])


def test_labels_are_counted_and_held_against_the_true_ones(report: DailyReport) -> None:
    labels = report.labels
    assert labels is not None
    assert (labels.begun_with, labels.labeled, labels.unknown, labels.withheld) == (15, 7, 3, 10)
    assert labels.right.value == pytest.approx(5 / 7)
    assert labels.first_choice.value == pytest.approx(4 / 20)
    assert labels.time.value == pytest.approx(0.75)
    assert "labels" in report.to_dict()


def test_a_day_of_which_nothing_was_labeled_has_no_time_and_says_why(report: DailyReport) -> None:
    day = report.batches[0].days[1]
    assert day.steps == 0
    assert day.time is not None
    assert day.time.missing
    assert day.labeled is not None
    assert day.labeled.value == pytest.approx(0.7)
    assert day.labels_right is not None
    assert day.labels_right.value == pytest.approx(5 / 7)


def test_samples_are_counted_by_day_and_true_class(report: DailyReport) -> None:
    assert report.labels is not None
    first, second = report.labels.days
    assert (first.first, first.last, second.first) == (1, 1, 2)
    assert first.by_class == {
        0: LabelCounts(right=1), 1: LabelCounts(right=2, wrong=1, unknown=1), 2: LabelCounts(right=1),
        3: LabelCounts(right=1), 4: LabelCounts(wrong=1), 9: LabelCounts(unknown=1, withheld=1),
    }  # fmt: skip
    assert second.by_class == {0: LabelCounts(unknown=1, withheld=9)}
    told = report.to_dict()["labels"]["days"][0]
    assert told["by_class"]["1"] == {"right": 2, "wrong": 1, "unknown": 1, "withheld": 0}


def test_labeling_whose_run_is_gone_has_no_energy_and_says_why(report: DailyReport) -> None:
    assert report.labels is not None
    assert report.labels.energy.missing
    assert_says(" ".join(facts(report)), "750 ms", report.labels.energy.reason)


def test_the_page_of_samples_that_are_no_pictures_has_their_counts(report: DailyReport) -> None:
    page = tree(render_daily(report))
    (table,) = [each for each in page.find("table") if "labeled" in each.classes]
    assert page.find("img") == []
    rows = [[cell.text for cell in row.find("td")] for row in table.find("tr")[1:]]
    assert rows[0] == [
        "1 · 0 · 0 · 0",
        "2 · 1 · 1 · 0",
        "1 · 0 · 0 · 0",
        "1 · 0 · 0 · 0",
        "0 · 1 · 0 · 0",
        "0 · 0 · 1 · 1",
    ]
    assert rows[1] == ["0 · 0 · 1 · 9", "", "", "", "", ""]


def test_pictures_of_a_day_by_what_became_of_them(tmp_path: Path) -> None:
    pixels = np.arange(10 * 4 * 4, dtype=np.uint8).reshape(10, 4, 4, 1)
    told = Labels(
        status=np.array([0, 0, 0, 0, 0, 0, 0, 2, 1, 1]),
        labels=np.array([1, 2, 3, 1, 0, 5, 7, 9, 8, 8]), probability=np.linspace(0.9, 0.1, 10),
        class_probabilities=np.ones((10, 1)), p_value=np.ones(10), score=np.ones(10),
        cluster=np.full(10, -1), clusters=(), votes=np.zeros((10, 0), dtype=int), heuristics=(),
    )  # fmt: skip
    shown = examples_of(FIRST, told, pixels)
    # Three of the five right ones, both wrong ones, and the others.
    assert [each["kind"] for each in shown] == [
        "right", "right", "right", "wrong", "wrong", "withheld", "unknown", "unknown",
    ]  # fmt: skip
    report = reported(tmp_path, [{**FIRST, "examples": shown}])
    page = tree(render_daily(report))
    pictures = page.find("img")
    captions = [each.text for each in page.find("figcaption")][-8:]
    assert captions[0].split(",") == ["1", " 90 %"]
    assert "is 4" in captions[3]
    assert captions[7].startswith("9?")
    assert "is 9" in captions[7]
    # The second picture: its pixels, as they were.
    png = base64.b64decode(pictures[1].attributes["src"].partition(",")[2])
    assert (int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")) == (4, 4)
    lines = zlib.decompress(png[png.index(b"IDAT") + 4 :])
    assert list(lines) == [
        0,
        16,
        17,
        18,
        19,
        0,
        20,
        21,
        22,
        23,
        0,
        24,
        25,
        26,
        27,
        0,
        28,
        29,
        30,
        31,
    ]


def test_large_pictures_are_averaged_down() -> None:
    picture = np.zeros((65, 64, 3), dtype=np.uint8)
    picture[:3, :3] = 90
    small = small_of(picture)
    # By squares of three: 65 / 32 is above two.
    assert small.shape == (21, 21, 3)
    assert small[0, 0].tolist() == [90, 90, 90]
    assert not small[1:].any()


def test_counts_of_a_year_are_as_few_as_those_of_a_month(tmp_path: Path) -> None:
    year = reported(tmp_path, [FIRST] * 365)
    assert year.labels is not None
    days = year.labels.days
    assert len(days) <= 20
    assert (days[0].first, days[-1].last) == (1, 365)
    assert sum(counts.samples for each in days for counts in each.by_class.values()) == 3650
    assert all(a.last + 1 == b.first for a, b in pairwise(days))


def test_labels_of_an_older_version_are_refused(tmp_path: Path) -> None:
    old = {name: value for name, value in FIRST.items() if name != "truth"}
    with refused("older-labels", "labels.json"):
        reported(tmp_path, [old])  # type: ignore[list-item]


def test_only_bytes_of_pixels_are_pictures() -> None:
    def training(inputs: np.ndarray[Any, Any]) -> SupervisedTraining:
        targets = np.zeros(len(inputs), dtype=np.uint8)
        model = Identity()
        return SupervisedTraining(
            samples=describe(name="made", inputs=inputs, targets=targets, held_out=(inputs, targets)),
            model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), encode=Tensor.float,
            preparation=Preparation(batch_size=1),
        )  # fmt: skip

    pixels = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2)
    found = TorchClassifier(training(pixels)).pictures([1])
    assert found is not None
    assert found.tolist() == [[[[12, 16, 20], [13, 17, 21]], [[14, 18, 22], [15, 19, 23]]]]
    for others in (pixels.astype(np.float32), pixels.reshape(2, 12), pixels.reshape(2, 2, 3, 2)):
        assert TorchClassifier(training(others)).pictures([0]) is None

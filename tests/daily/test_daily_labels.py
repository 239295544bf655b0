"""Days whose samples were labeled here: who has which sample, what is trained as what, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.refusals import refused
from torch import Tensor, nn

from wattstep.schema.daily_report import DailyReport
from wattstep.schema.workload import Preparation
from wattstep.train.daily.folder import DailyFolder, DayLabels, DayRow
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


@pytest.fixture
def report(tmp_path: Path) -> DailyReport:
    """Of two days, of the second of which nothing got a label."""
    folder = DailyFolder(tmp_path / "daily")
    folder.open(AUTO)
    first: DayLabels = {
        "classes": [1, 2, 3, 1, 0, 5, 7, -1, -1, -1], "statuses": "lllllllauu", "right": "1111100",
        "first_choice": "1111000000", "seconds": 0.5,
    }  # fmt: skip
    second: DayLabels = {
        "classes": [-1] * 10, "statuses": "aaaaaaaaau", "right": "", "first_choice": "0" * 10,
        "seconds": 0.25,
    }  # fmt: skip
    folder.keep_labels([first, second])
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

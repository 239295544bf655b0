"""What is held to be published is what the paper's text says, and stands beside these runs."""

from __future__ import annotations

import pytest
from tests.reports.pages.paper import made

from wattstep.insight.observe.domains import DOMAINS
from wattstep.report.html.paper.figures import FIGURES
from wattstep.report.html.paper.published import label, published
from wattstep.report.html.paper.readings import Readings
from wattstep.report.html.paper.section import published_table
from wattstep.report.values import Shown
from wattstep.train.daily.result import PAPER

# As the text of arXiv 1906.04278 has them: figure, model, batch or day, and the words.
STATED = {
    (3, "Inception V1", None): {"60 %"},
    (4, "DenseNet40", 4): {"81.6 %"}, (4, "DenseNet40", 64): {"96.4 %"},
    (4, "SqueezeNet", 4): {"71.4 %"}, (4, "SqueezeNet", 64): {"84.5 %"},
    (4, "ResNet50", 4): {"85.6 %"}, (4, "ResNet50", 64): {"95.6 %"},
    (4, "", None): {"2.1 points", "95 %"}, (4, "LSTM", None): {"25 %"},
    (5, "", None): {"65 %"},
    (6, "", None): {"2.2 to 10.5 ×"},
    (7, "ResNet50", None): {"4 ×", "2 ×"}, (7, "VGG16", None): {"4 ×", "2 ×"},
    (7, "", None): {"57.4 %"},
    (8, "ResNet50", 4): {"9 samples/s"}, (8, "ResNet50", 64): {"55 samples/s"},
    (8, "Deep RL", 4): {"889 samples/s"}, (8, "Deep RL", 64): {"13,618 samples/s"},
    (8, "Deep RL", None): {"15.3 ×"}, (8, "DenseNet40", None): {"1.7 ×"},
    (8, "ResNet50", None): {"6.1 ×"},
    (9, "DenseNet40", 4): {"2.2 GB"}, (9, "DenseNet40", 64): {"5.9 GB"},
    (9, "VGG16", 64): {"6.3 GB"}, (9, "ResNet50", 64): {"5.8 GB"}, (9, "SqueezeNet", 64): {"5.7 GB"},
    (10, "DenseNet40", 0): {"60.65 %"}, (10, "DenseNet40", 17): {"61.32 %"},
}  # fmt: skip


def test_the_numbers_are_those_of_the_text_and_no_others() -> None:
    found: dict[tuple[int, str, int | None], set[str]] = {}
    for number in FIGURES:
        for one in published(number):
            key = (number, one.model, one.batch if one.day is None else one.day)
            found.setdefault(key, set()).add(one.text)
    assert found == STATED


def test_each_number_says_where_it_stands() -> None:
    assert all(one.place.startswith("text") for number in FIGURES for one in published(number))
    assert label() == "published, Jetson TX2, TensorFlow 1.13"


def test_the_papers_models_are_workloads_of_the_suite() -> None:
    names = {one.workload for number in FIGURES for one in published(number) if one.model}
    assert names <= set(DOMAINS)


def test_the_days_are_those_that_daily_training_shows() -> None:
    days = tuple((one.day, one.value) for one in published(10))
    assert days == PAPER.accuracy


def test_the_same_quantity_of_these_runs_stands_beside() -> None:
    table = published_table(8, made.runs(4, 64, workload="resnet50"))
    keys = [column.key for column in table.columns]
    here = {}
    for row in table.rows:
        cells = dict(zip(keys, row, strict=True))
        if cells["model"] == "ResNet50":
            shown = cells["here"]
            assert isinstance(shown, Shown)
            here[cells["batch"], cells["value"]] = shown.value
    # The root of the batch over four, in hundreds; sixteen times the batch makes four times as much.
    assert here == {
        ("4", "9 samples/s"): "100 samples/s",
        ("64", "55 samples/s"): "400 samples/s",
        ("", "6.1 ×"): "4.00 ×",
    }


@pytest.mark.parametrize("number", list(FIGURES))
def test_without_runs_the_published_values_stand_alone(number: int) -> None:
    table = published_table(number, Readings())
    assert len(table.rows) == len(published(number))
    assert "here" not in [column.key for column in table.columns]

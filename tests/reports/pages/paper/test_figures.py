"""The paper's figures from hand-made documents: what is drawn, with which values, and why something is not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reports.pages.paper import made
from tests.reports.synthetic import HOSTILE, figure
from tests.wording import assert_says, saying

from wattstep.report.html.paper.drawn import Drawn, NotDrawn
from wattstep.report.html.paper.figures import FIGURES
from wattstep.report.html.paper.readings import Readings, pooled
from wattstep.report.tables import Table
from wattstep.report.values import Shown
from wattstep.run.three_steps import ThreeSteps


def drawn(number: int, readings: Readings) -> Drawn:
    found = FIGURES[number].draw(readings)
    assert isinstance(found, Drawn), found
    return found


def refused(number: int, readings: Readings) -> NotDrawn:
    found = FIGURES[number].draw(readings)
    assert isinstance(found, NotDrawn)
    return found


def column(table: Table, key: str) -> list[str]:
    """The cells of a column as they are shown."""
    index = [one.key for one in table.columns].index(key)
    cells = [row[index] for row in table.rows]
    return [cell.value if isinstance(cell, Shown) else str(cell or "") for cell in cells]


def named(found: Drawn, text: str) -> list[dict[str, Any]]:
    """The traces of all charts of which the words under the pointer have a text."""
    traces = [trace for panel in found.panels for trace in panel.chart["data"]]
    return [trace for trace in traces if text in str(trace.get("hovertext"))]


def test_all_eight_are_listed() -> None:
    assert list(FIGURES) == [3, 4, 5, 6, 7, 8, 9, 10]


def test_figure_3_has_a_panel_for_each_core_with_its_kind_and_one_for_the_gpu() -> None:
    found = drawn(3, made.runs(4, 16))
    (panel,) = found.panels
    assert panel.title == "lenet, batch 16"
    titles = [each["text"] for each in panel.chart["layout"]["annotations"]]
    assert titles[:4] == ["Core 0 (Cortex-A57)", "Core 1 (Denver2)", "Core 2 (Denver2)",
                          "Core 3 (Cortex-A57)"]  # fmt: skip
    assert titles[4] == "GPU utilization"
    assert panel.chart["data"][0]["y"] == [50.0] * 7  # in per cent
    assert column(found.table, "mean")[:4] == ["50.0 %", "10.0 %", "0 %", "20.0 %"]
    # (0.9 + 1.0 + 0.8 + 0.9 + 1.0 + 0.8 + 0.9) / 7
    assert column(found.table, "mean")[4] == "90.0 %"
    assert column(found.table, "least")[4] == "80.0 %"
    assert column(found.table, "whole")[4] == "68.0 %"  # 0.6 + 0.02 * 4


def test_figure_3_says_why_there_is_no_gpu() -> None:
    document = made.document(**made.without("gpu_utilization", "this machine has no GPU", "ratio"))
    timeline = made.timeline(leave_out=("gpu_utilization",))
    readings = Readings(runs=[made.reading(document, timeline)])
    assert saying(drawn(3, readings).sentences, "GPU utilization is missing", "has no GPU")


def test_figure_4_has_a_line_a_workload_and_the_published_points_beside() -> None:
    both = [*made.runs(4, 64).runs, *made.runs(4, 64, workload="densenet40").runs]
    found = drawn(4, Readings(runs=both))
    gpu, cpu = found.panels
    assert (gpu.title, cpu.title) == ("GPU utilization", "CPU utilization")
    lenet, densenet, *published = gpu.chart["data"]
    assert lenet["x"] == [4, 64]
    assert lenet["y"] == pytest.approx([62.0, 92.0])
    assert [trace["text"][0] or trace["text"][1] for trace in published] == [
        "DenseNet40", "SqueezeNet", "ResNet50"
    ]  # fmt: skip
    assert published[0]["y"] == pytest.approx([81.6, 96.4])
    assert all(trace["marker"]["symbol"].endswith("-open") for trace in published)
    # The published line of a workload that ran has its colour, the others are grey.
    assert published[0]["line"]["color"] == densenet["line"]["color"]
    assert published[1]["line"]["color"] == "--ink-soft"
    assert len(cpu.chart["data"]) == 2  # the paper has no CPU utilization by batch size in numbers
    assert saying(found.sentences, "lenet:", "30.0 points", "batch 4 to 64")
    marks = [entry.mark for entry in found.key]
    assert marks[:2] == ["●", "■"]
    assert set(marks[2:]) == {"◇"}


def test_figure_4_says_why_there_is_no_gpu() -> None:
    lone = made.without("gpu_utilization", "this machine has no GPU", "ratio")
    found = drawn(4, made.runs(4, 16, **lone))
    assert [panel.title for panel in found.panels] == ["CPU utilization"]
    assert saying(found.sentences, "GPU utilization is missing", "has no GPU")
    assert "◇" not in [entry.mark for entry in found.key]  # no published point is drawn


def test_figure_5_has_bars_of_each_batch_size_at_each_core() -> None:
    found = drawn(5, made.runs(4, 16))
    (panel,) = found.panels
    four, sixteen = panel.chart["data"]
    assert four["y"] == sixteen["y"] == [50.0, 90.0, 100.0, 80.0]
    assert panel.chart["layout"]["shapes"][0]["y0"] == pytest.approx(65.0)
    assert column(found.table, "kind")[:4] == ["Cortex-A57", "Denver2", "Denver2", "Cortex-A57"]
    assert "Denver2: 1, 2" in " ".join(found.sentences)


def test_figure_6_has_the_parts_side_by_side_with_intervals() -> None:
    found = drawn(6, made.runs(4, 64))
    (panel,) = found.panels
    gpu, cpu, memory, soc, whole = panel.chart["data"]
    assert [trace["y"] for trace in (gpu, cpu, memory, soc, whole)] == [
        [4, 64], [1, 16], [2, 32], [0.5, 8], [8, 128]
    ]  # fmt: skip
    assert gpu["error_y"]["array"] == pytest.approx([0.1, 1.6])
    labels = [entry.label for entry in found.key]
    assert (labels[:3], labels[4:]) == (["GPU", "CPU", "Memory"], ["Whole"])
    assert column(found.table, WHOLE_KEY) == ["8.00 J", "128 J"]
    assert_says(found.sentences[0], "lenet:", "batch 64", "energy", "16.0 ×")


WHOLE_KEY = "energy.whole"


def test_figure_6_draws_the_whole_alone_where_no_rail_tells_the_parts() -> None:
    lone = {"channels": [], "energy_by_rail": {}}
    found = drawn(6, made.runs(4, 16, **lone))
    assert [entry.label for entry in found.key] == ["Whole"]
    assert saying(found.sentences, "no rails tell")


def test_modelled_energy_is_hatched_and_says_so() -> None:
    def modelled(batch: int) -> Any:
        energy = {"energy_per_step": figure(batch, "J", "modelled")}
        return made.run(
            batch=batch, metrics=made.metrics(1.0, **energy), channels=[], energy_by_rail={}
        )

    found = drawn(6, Readings(runs=[modelled(4), modelled(16)]))
    assert found.panels[0].statuses == ("modelled",)
    assert found.panels[0].chart["data"][0]["marker"]["pattern"]["shape"] == ["/", "/"]
    assert column(found.table, WHOLE_KEY) == ["≈ 4.00 J", "≈ 16.0 J"]


def test_modelled_lines_are_dotted_with_open_marks() -> None:
    low = made.metrics(1.0, throughput=figure(10, "samples/s", "modelled"))
    found = drawn(8, Readings(runs=[made.run(batch=4, metrics=low), made.run(batch=16)]))
    line = found.panels[0].chart["data"][0]
    assert line["marker"]["symbol"] == ["circle-open", "circle"]
    assert line["line"]["dash"] == "dot"


def test_figure_7_has_a_panel_for_each_part_in_the_papers_order() -> None:
    found = drawn(7, made.runs(4))
    titles = [each["text"] for each in found.panels[0].chart["layout"]["annotations"]]
    parts = ("GPU", "CPU", "Memory", "Rest of the chip", "Whole")
    assert titles[:5] == [f"{part} (measured)" for part in parts]
    assert column(found.table, "mean") == ["4.00 W", "1.00 W", "2.00 W", "500 mW", "8.00 W"]


def test_figure_8_has_throughput_by_batch_size_with_intervals() -> None:
    found = drawn(8, made.runs(4, 16, 64))
    line, resnet, rl = found.panels[0].chart["data"]
    assert line["x"] == [4, 16, 64]
    assert line["y"] == pytest.approx([100.0, 200.0, 400.0])  # the root of the batch over four
    assert line["error_y"]["array"] == pytest.approx([1.0, 2.0, 4.0])
    assert (resnet["y"], rl["y"]) == ([9, 55], [889, 13618])
    assert found.panels[0].chart["layout"]["yaxis"]["type"] == "log"  # 9 to 13,618
    assert_says(found.sentences[0], "lenet:", "batch 64", "throughput", "4.00 ×")


def test_runs_of_one_configuration_are_pooled() -> None:
    def of(value: float) -> Any:
        return made.metrics(1.0, throughput=figure(value, "samples/s", "measured", value, value))

    readings = Readings(
        runs=[
            made.run(batch=4, metrics=of(90)),
            made.run(batch=4, metrics=of(110)),
            made.run(batch=16),
        ]
    )
    found = drawn(8, readings)
    assert found.panels[0].chart["data"][0]["y"][0] == pytest.approx(100)
    assert column(found.table, "processes") == ["2", "1"]
    mean = pooled(readings.groups[0], "throughput", 4, "samples/s")
    # Student's t with one degree of freedom: 12.706 times 10.
    assert mean.high == pytest.approx(100 + 127.06, rel=1e-3)
    assert mean.low == 0  # throughput does not go below


def test_figure_9_has_intermediate_data_that_grow_beside_parameters_that_do_not() -> None:
    found = drawn(9, made.runs(4, 64, workload="densenet40"))
    intermediate, parameters, *_, published = found.panels[0].chart["data"]
    assert intermediate["y"] == pytest.approx([4.0, 64.0])  # MB: feature maps and workspace
    assert parameters["y"] == pytest.approx([1.0, 1.0])
    assert published["y"] == pytest.approx([2200.0, 5900.0])
    assert column(found.table, "memory.intermediate") == ["4.00 MB", "64.0 MB"]


def test_figure_10_has_accuracy_by_day_with_intervals_and_the_papers_two_points() -> None:
    found = drawn(10, Readings(daily=[made.daily()]))
    four, sixteen, published = found.panels[0].chart["data"]
    assert four["y"] == sixteen["y"] == [0.6, 0.61, 0.62]
    assert four["error_y"]["array"] == pytest.approx([0.02, 0.02, 0.02])
    assert published["y"] == [0.6065, 0.6132]
    assert published["marker"]["symbol"] == "diamond-tall-open"
    assert column(found.table, "accuracy") == ["60.0 %", "61.0 %", "62.0 %"] * 2


@pytest.mark.parametrize(
    ("number", "reason", "command"),
    [
        (4, "two batch sizes", "wattstep run NAME --batch 4,16,64"),
        (6, "two batch sizes", "wattstep run NAME --batch 4,16,64"),
        (8, "two batch sizes", "wattstep run NAME --batch 4,16,64"),
        (9, "two batch sizes", "wattstep run NAME --batch 4,16,64"),
        (10, "needs a daily training", "wattstep daily NAME"),
    ],
)
def test_a_single_run_says_what_would_draw_the_others(
    number: int, reason: str, command: str
) -> None:
    found = refused(number, made.runs(4))
    assert reason in found.reason
    assert found.command.startswith(command)


def test_runs_without_power_say_so() -> None:
    gone = "no power sensor was found"
    document = made.document(
        channels=[], energy_by_rail={}, **made.without("mean_power", gone, "W")
    )
    document["metrics"]["energy_per_step"] = {
        "value": None, "unit": "J", "status": "missing", "reason": gone
    }  # fmt: skip
    timeline = made.timeline(leave_out=("power", "rail_power"))
    readings = Readings(runs=[made.reading(document, timeline)])
    assert gone in refused(6, readings).reason
    assert gone in refused(7, readings).reason


def test_runs_that_differ_in_more_than_the_batch_are_kept_apart() -> None:
    other = made.run(batch=16, threads=2)
    found = refused(8, Readings(runs=[made.run(batch=4), other]))
    assert "two batch sizes" in found.reason


def test_names_that_are_html_stay_text_in_charts() -> None:
    runs = [
        made.reading(made.document(HOSTILE, batch), made.timeline())
        for batch in (4, 16)
    ]  # fmt: skip
    for number in (3, 4, 5, 6, 7, 8, 9):
        found = drawn(number, Readings(runs=runs))
        for panel in found.panels:
            assert "<script" not in str(panel.chart)


def test_a_document_with_next_to_nothing_in_it_is_refused_in_words() -> None:
    readings = Readings(runs=[made.reading({"title": "LeNet-5"}, ThreeSteps())])
    assert all(refused(number, readings).reason for number in FIGURES)

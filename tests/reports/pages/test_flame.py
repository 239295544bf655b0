"""The flame chart: phases, modules and operations, each as wide as the time below it."""

from __future__ import annotations

import pytest
from tests.wording import assert_says

from wattstep.report.html.flame import flame_chart
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.figures import Figures
from wattstep.schema.report_rows import CostRow


def row(name: str, layer: str, phase: str, seconds: float | None) -> CostRow:
    time = (
        missing("s", "not seen")
        if seconds is None
        else Figure(value=seconds, unit="s", status=Status.MEASURED, source="clock")
    )
    labels = {"name": name, "layer": layer, "phase": phase}
    return CostRow(labels=labels, figures=Figures.from_dict({"time": time}))


ROWS = [
    row("relu", "features.1", "forward", 0.001),
    row("conv", "features.0", "forward", 0.003),
    row("conv", "features.0", "backward", 0.006),
    row("loss", "(outside modules)", "forward", 0.002),
    row("lost", "features.0", "forward", None),
]


def test_each_level_is_as_wide_as_what_stands_below_it() -> None:
    chart = flame_chart(ROWS, "for one step")
    assert chart is not None
    phases, below, modules, operations = chart["data"]
    assert phases["text"] == ["forward", "backward"]
    assert phases["x"] == pytest.approx([6.0, 6.0])  # ms
    assert phases["base"] == pytest.approx([0.0, 6.0])
    # The longest first: 4 ms of features, then the loss that no module has.
    assert below["text"] == ["features", "loss", "features"]
    assert below["base"] == pytest.approx([0.0, 4.0, 6.0])
    assert modules["text"] == ["0", "1", "0"]
    assert operations["x"] == pytest.approx([3.0, 1.0, 6.0])
    assert_says(operations["hovertext"][0], "3.00 ms", "25.0 %")


def test_a_long_step_is_told_in_seconds() -> None:
    chart = flame_chart(
        [row("a", "", "forward", 30.0), row("b", "", "backward", 9.0)], "for one step"
    )
    assert chart is not None
    axis = chart["layout"]["xaxis"]
    assert (axis["range"], axis["ticksuffix"]) == ([0, pytest.approx(39.0)], " s")
    assert chart["data"][0]["base"] == pytest.approx([0.0, 30.0])


def test_names_are_no_markup() -> None:
    chart = flame_chart([row("<b>x", "a", "forward", 1.0), *ROWS], "for one step")
    assert chart is not None
    assert not any("<b>" in text for level in chart["data"] for text in level["text"])


def test_one_operation_makes_no_chart() -> None:
    assert flame_chart([ROWS[0], ROWS[4]], "for one step") is None

"""Names beside the bars of a chart: short, and told apart."""

from __future__ import annotations

from typing import Any

import pytest

from wattstep.report.html.charts import bars_of, ranking
from wattstep.schema.figure import Figure, Status

TIME = Figure(value=0.4, unit="s", status=Status.MEASURED, source="clock")
LAYER = "answering.bert.encoder.layer.11.output.dense"


@pytest.mark.parametrize(
    ("row", "name", "caption"),
    [
        ({"layer": LAYER}, "layer", "….bert.encoder.layer.11.output.dense"),
        (
            {"name": "AddmmBackward0", "layer": LAYER},
            "name",
            "…er.11.output.dense · AddmmBackward0",
        ),
        ({"name": "aten::conv2d", "layer": "conv1"}, "name", "conv1 · aten::conv2d"),
        ({"name": "k" * 50, "layer": LAYER}, "name", f"…1.output.dense · {'k' * 17}…"),
        (
            {"run": "A network with a very long name · batch 4"},
            "run",
            "A network with a very long name · b…",
        ),
    ],
)
def test_of_a_long_path_the_end_is_left_which_tells_it_apart(
    row: dict[str, Any], name: str, caption: str
) -> None:
    chart = ranking(bars_of([{**row, "time": TIME}], "time", name))
    assert chart is not None
    (text,) = chart["data"][1]["text"]
    assert text.partition("  <b>")[0] == caption
    assert len(caption) <= 36

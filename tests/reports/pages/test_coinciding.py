"""Curves of one panel that coincide are told apart: each is wider than the next, which lies over it."""

from __future__ import annotations

from wattstep.report.html.charts import Curve, steps_chart
from wattstep.run.three_steps import ShownChannel


def test_cores_that_are_all_busy_are_seen_as_edges_of_each_other() -> None:
    cores = [
        Curve(
            channel=ShownChannel(
                name=f"core {n}", unit="ratio", role="cpu_core_utilization", core=n,
                points=((0.0, 1.0), (0.1, 1.0)), status="measured", domain="",
            ),
            panel="Busy share of the cores",
            core=n,
        )
        for n in range(3)
    ]  # fmt: skip
    chart = steps_chart([], cores)
    assert chart is not None
    widths = [trace["line"]["width"] for trace in chart["data"]]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == len(cores)

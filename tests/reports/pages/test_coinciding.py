"""Curves of one panel that coincide are told apart: each is wider than the next, which lies over it."""

from __future__ import annotations

from wattstep.report.html.charts import steps_chart


def test_cores_that_are_all_busy_are_seen_as_edges_of_each_other() -> None:
    cores = [
        {
            "role": "cpu_core_utilization", "unit": "ratio", "name": f"core {n}", "core": n,
            "status": "measured", "points": [[0.0, 1.0], [0.1, 1.0]],
        }
        for n in range(3)
    ]  # fmt: skip
    chart = steps_chart({"steps": [], "channels": cores})
    assert chart is not None
    widths = [trace["line"]["width"] for trace in chart["data"]]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == len(cores)

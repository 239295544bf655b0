"""The course of a run in a report: its chart, and what is said of it in sentences."""

from __future__ import annotations

import itertools
from typing import Any

from tests.reports import synthetic
from tests.reports.synthetic import figure, missing
from tests.wording import assert_says

from wattstep.report.html import thermal
from wattstep.report.html.charts import Chart
from wattstep.report.html.report import render_report
from wattstep.schema.report_rows import Course


def column(name: str, unit: str, values: list[float | None], status: str) -> dict[str, Any]:
    return {"name": name, "unit": unit, "status": status, "source": "-", "values": values}


def curve(**changed: Any) -> dict[str, Any]:
    return {
        "bin": 60.0,
        "begin": [60.0 * n for n in range(6)],
        "columns": [
            column("throughput", "samples/s", [16.0, 16, 16, 12, 12, 12], "measured"),
            column("power", "W", [9.0, 9.1, None, 7, 7, 7], "modelled"),
            column("temperature", "°C", [45.0, 60, 65, 68, 69, 70], "replayed"),
            column("frequency", "Hz", [2e9, 2e9, 2e9, 1.6e9, 1.6e9, 1.6e9], "measured"),
        ],
        "throttled_from": 170.0,
        **changed,
    }


def document(**metrics: Any) -> dict[str, Any]:
    return {"title": "LeNet-5", "metrics": metrics, "curve": curve()}


def course(document: dict[str, Any]) -> dict[str, Any] | None:
    return thermal.course(synthetic.report(document))


def course_chart(curve: dict[str, Any]) -> Chart | None:
    return thermal.course_chart(Course.from_dict(curve))


def sentences(document: dict[str, Any]) -> list[str]:
    return thermal.sentences(synthetic.report(document))


def test_the_chart_has_a_panel_for_each_quantity_at_the_middle_of_its_bins() -> None:
    chart = course_chart(curve())
    assert chart is not None
    throughput, power, temperature, frequency = chart["data"]
    assert throughput["x"] == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]  # minutes
    assert power["y"][2] is None
    assert not power["connectgaps"]
    assert (throughput["line"]["dash"], power["line"]["dash"]) == ("solid", "dot")
    assert temperature["y"][-1] == 70
    assert frequency["y"][0] == 2.0  # GHz
    axes = [chart["layout"][f"yaxis{n}"]["domain"] for n in ("", "2", "3", "4")]
    assert all(low < high for low, high in axes)
    assert all(below[1] <= above[0] for above, below in itertools.pairwise(axes))


def test_the_onset_of_throttling_is_a_line_at_its_time() -> None:
    chart = course_chart(curve())
    assert chart is not None
    assert [shape["x0"] for shape in chart["layout"]["shapes"]] == [170 / 60]
    plain_chart = course_chart(curve(throttled_from=None))
    assert plain_chart is not None
    assert not plain_chart["layout"]["shapes"]


def test_each_sensor_of_temperature_is_a_thin_line_in_the_panel_of_the_hottest() -> None:
    zones = [
        {**column("temperature", "°C", [low] * 6, "replayed"), "zone": name}
        for name, low in (("thermal.gpu", 40.0), ("<b>cpu</b>", 70.0))
    ]
    found = course({**document(), "curve": curve(zones=zones)})
    assert found is not None
    hottest = found["chart"]["data"][2]
    thin = [trace for trace in found["chart"]["data"] if trace["line"]["width"] == 1]
    assert [trace["y"][0] for trace in thin] == [40.0, 70.0]
    assert {trace["yaxis"] for trace in thin} == {hottest["yaxis"]}
    assert thin[1]["name"] == "&lt;b&gt;cpu&lt;/b&gt;"
    assert [name for name, _ in found["zones"]] == ["thermal.gpu", "<b>cpu</b>"]
    page = render_report([synthetic.reported(document={**document(), "curve": curve(zones=zones)})])
    assert "thermal.gpu</span>" in page
    assert "<b>cpu</b>" not in page


def test_one_sensor_is_the_hottest_by_itself() -> None:
    zone = {**column("temperature", "°C", [40.0] * 6, "replayed"), "zone": "thermal.gpu"}
    found = course({**document(), "curve": curve(zones=[zone])})
    assert found is not None
    assert len(found["chart"]["data"]) == 4
    assert found["zones"] == []


def test_stretches_of_throttling_are_shaded() -> None:
    chart = course_chart(curve(throttled=[[170.0, 230.0], [300.0, 360.0]]))
    assert chart is not None
    shades = [shape for shape in chart["layout"]["shapes"] if shape["type"] == "rect"]
    assert [(shade["x0"], shade["x1"]) for shade in shades] == [
        (170 / 60, 230 / 60),
        (300 / 60, 360 / 60),
    ]


def test_a_run_without_a_course_has_no_section() -> None:
    assert course({"title": "LeNet-5"}) is None
    assert course({**document(), "curve": {}}) is None
    assert '<section class="course">' not in render_report(
        [synthetic.reported(document={"title": "LeNet-5"})]
    )


def test_the_page_has_the_sentences_and_the_chart() -> None:
    ratio = figure(0.75, "ratio", "measured", 0.74, 0.76)
    page = render_report(
        [synthetic.reported(document=document(sustained={"throughput_ratio": ratio}))]
    )
    assert '<section class="course">' in page
    assert "75.0 % of the throughput" in page


def test_sentences_say_what_changed_when_and_where_it_leads() -> None:
    sustained = {
        "throughput_ratio": figure(0.75, "ratio"),
        "first_minute_power": figure(9.0, "W"),
        "last_minute_power": figure(7.0, "W"),
        "first_minute_temperature": figure(50.0, "°C"),
        "throttle_onset": figure(170.0, "s", source="cpu0.cap fell to 1.6 GHz"),
        "steady_after": missing("s", "it did not become steady: cpu moves"),
    }
    said = sentences(
        document(
            sustained=sustained,
            thermal_time_constant=figure(95.0, "s", "modelled"),
            steady_temperature=figure(71.24, "°C", "modelled"),
            time_to_throttle=figure(170.0, "s", "modelled"),
        )
    )
    slower, throttled, unsteady, model = said
    assert_says(slower, "75.0 % of the throughput", "9.00 W", "7.00 W")
    assert_says(throttled, "2.8 min", "cpu0.cap", "1.6 GHz")
    assert_says(unsteady, "not become steady", "cpu")
    assert_says(model, "95 s", "71.2 °C", "2.8 min")
    (steady,) = sentences(document(sustained={"steady_after": figure(2520.0, "s")}))
    assert_says(steady, "steady after 42.0 min")
    assert sentences(document()) == []


def test_a_throughput_that_hardly_changes_is_drawn_as_a_flat_line() -> None:
    """Of 40.0000001 and 40 samples/s: the axis spans 5 % of them, not the noise between them."""
    flat = column("throughput", "samples/s", [40.0, 40.0000001, *[40.0] * 4], "measured")
    found = course({**document(), "curve": {**curve(), "columns": [flat]}})
    assert found is not None
    low, high = found["chart"]["layout"]["yaxis"]["range"]
    assert (round(low, 3), round(high, 3)) == (39.0, 41.0)

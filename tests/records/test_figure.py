from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from wattstep.schema.figure import Figure, Missing, Status, counted, missing, weakest
from wattstep.schema.figures import Metrics

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(max_size=20)


@st.composite
def figures(draw: st.DrawFn) -> Figure:
    status = draw(st.sampled_from(Status))
    gone = status is Status.MISSING
    return Figure(
        value=None if gone else draw(NUMBERS),
        unit=draw(st.sampled_from(["s", "J", "W", "B", "samples/s", "ratio"])),
        status=status,
        low=draw(st.none() | NUMBERS),
        high=draw(st.none() | NUMBERS),
        confidence=draw(st.none() | st.floats(0, 1)),
        n=draw(st.none() | st.integers(0, 10**9)),
        method=draw(st.none() | TEXTS),
        systematic=draw(st.none() | st.floats(0, 1)),
        source=draw(st.none() | TEXTS),
        reason=draw(st.text(min_size=1, max_size=20) if gone else st.none() | TEXTS),
    )


@given(figures())
def test_a_figure_survives_json(figure: Figure) -> None:
    assert Figure.from_dict(json.loads(json.dumps(figure.to_dict()))) == figure


def test_the_document_of_a_figure_has_the_fields_of_the_design_in_their_order() -> None:
    figure = Figure(value=3.41, unit="J", status=Status.MEASURED, low=3.3, high=3.52)
    assert list(figure.to_dict()) == [
        "value",
        "unit",
        "low",
        "high",
        "confidence",
        "n",
        "method",
        "systematic",
        "status",
        "source",
        "reason",
    ]
    assert figure.to_dict()["status"] == "measured"


def test_a_missing_figure_needs_a_reason() -> None:
    with refused("figure-without-reason"):
        Figure(value=None, unit="J", status=Status.MISSING)
    with refused("figure-without-reason"):
        missing("J", "")


def test_a_reason_in_the_place_of_a_value_is_a_text_that_no_value_is() -> None:
    reason = Missing("no sensor")
    assert f"{reason}!" == "no sensor!"
    assert not isinstance("torch", Missing)
    figure = missing("W", reason)
    assert type(figure.reason) is str
    assert json.loads(json.dumps({"reason": reason})) == {"reason": figure.reason}


def test_missing_is_not_zero() -> None:
    with refused("missing-with-value"):
        Figure(value=0.0, unit="J", status=Status.MISSING, reason="no sensor")


@pytest.mark.parametrize("value", [None, float("nan")])
def test_a_figure_that_is_there_needs_a_value(value: float | None) -> None:
    with refused("figure-without-value"):
        Figure(value=value, unit="J", status=Status.MEASURED)


@pytest.mark.parametrize(
    ("statuses", "result"),
    [
        ([Status.COUNTED, Status.MEASURED], Status.MEASURED),
        ([Status.MODELLED, Status.ATTRIBUTED, Status.REPLAYED], Status.MODELLED),
        ([Status.MISSING, Status.COUNTED], Status.MISSING),
        ([Status.PREDICTED, Status.MODELLED], Status.PREDICTED),
    ],
)
def test_what_is_made_of_several_is_as_weak_as_the_weakest(
    statuses: list[Status], result: Status
) -> None:
    assert weakest(statuses) is result


def test_another_unit_scales_the_value_and_its_interval_alike() -> None:
    figure = Figure(value=2.0, unit="s", status=Status.MEASURED, low=1.5, high=2.5, n=7)
    scaled = figure.scaled(1e3, "ms")
    assert (scaled.value, scaled.low, scaled.high) == (2000.0, 1500.0, 2500.0)
    assert (scaled.unit, scaled.n) == ("ms", 7)


@pytest.mark.parametrize(
    ("low", "high", "ends"), [(-1.0, 30.0, (0.0, 1.0)), (4.0, 9.0, (0.4, 0.9)), (None, None, (None, None))]
)  # fmt: skip
def test_a_share_lies_between_nothing_and_the_whole(
    low: float | None, high: float | None, ends: tuple[float | None, float | None]
) -> None:
    time = Figure(value=5.0, low=low, high=high, unit="s", status=Status.ATTRIBUTED)
    share = time.share_of(10.0)
    assert (share.value, share.unit) == (0.5, "ratio")
    assert (share.low, share.high) == pytest.approx(ends)


def test_a_missing_figure_stays_missing_in_another_unit() -> None:
    scaled = missing("J", "no sensor").scaled(1e3, "mJ")
    assert scaled.missing
    assert scaled.reason == "no sensor"


def test_a_count_is_exact() -> None:
    assert counted(5, "parameters", "the model").status is Status.COUNTED


def measured(**fields: Any) -> Figure:
    return Figure(**{"value": 0.0184, "unit": "s", "status": Status.MEASURED, **fields})


def test_a_figure_prints_as_value_interval_and_status() -> None:
    figure = measured(low=0.0175, high=0.0193)
    assert str(figure) == f"{figure}" == "18.4 ms (17.5 to 19.3, measured)"


def test_a_figure_without_an_interval_prints_its_status_alone() -> None:
    assert str(measured(value=5.2, unit="W", status=Status.MODELLED)) == "5.20 W (modelled)"
    assert str(counted(61706, "count", "shapes")) == "61,706 (counted)"


def test_a_figure_prints_the_error_of_its_sensor_where_that_reaches_further() -> None:
    figure = measured(value=2.0, unit="J", low=1.98, high=2.02, systematic=0.08)
    assert str(figure) == "2.00 J (1.98 to 2.02; sensor ± 8 %, measured)"


def test_a_figure_is_a_float_and_formats_as_one() -> None:
    figure = measured()
    assert float(figure) == 0.0184
    assert f"{figure:.3f}" == "0.018"
    assert format(figure, ">10.2e") == "  1.84e-02"


def test_a_missing_figure_prints_its_reason_and_is_no_number() -> None:
    figure = missing("J", "no sensor")
    assert f"{figure}" == "missing: no sensor"
    with refused("no-value", "no sensor"):
        float(figure)
    with refused("no-value", "no sensor"):
        format(figure, ".3f")


def test_the_text_of_a_figure_steers_no_terminal() -> None:
    assert "\x1b" not in str(missing("J", "\x1b[2Jgone"))
    assert "\x1b" not in str(measured(unit="\x1b[2Js"))


def test_a_prompt_shows_a_figure_and_a_run_s_figures_as_one_would_write_them() -> None:
    time = Figure(value=0.0184, unit="s", status=Status.MEASURED, low=0.0175, high=0.0193)
    gap = missing("J", "no sensor")
    assert repr(time) == "<Figure: 18.4 ms (17.5 to 19.3, measured)>"
    metrics = Metrics(
        {
            "step_time": time,
            "cores": (time, time),
            "by_category": {"weights": Figure(value=4.0, unit="B", status=Status.COUNTED)},
            "energy": gap,
            "power": missing("W", "no sensor"),
            "rails": {},
        }
    )
    assert repr(metrics).splitlines() == [
        "Metrics:",
        "  step_time: 18.4 ms (17.5 to 19.3, measured)",
        f"  cores: {time}; {time}",
        "  by_category: weights 4.00 B (counted)",
        f"  energy: {gap}",
        "  power: missing: as for energy",
        "  rails: none",
    ]

"""The short text of progress lines."""

from __future__ import annotations

from wattstep.live.snapshot import Snapshot
from wattstep.live.words import short_text
from wattstep.schema.figure import Figure, Status, missing


def of(**figures: Figure) -> str:
    return short_text(Snapshot(run="r", state="recording", figures=figures))


def figure(value: float, unit: str, status: Status = Status.MEASURED, **more: float) -> Figure:
    return Figure(value=value, unit=unit, status=status, **more)  # type: ignore[arg-type]


def test_nothing_is_said_of_what_is_not_known() -> None:
    assert of() == ""
    assert of(time_left=missing("s", "no"), energy=missing("J", "no sensor")) == ""


def test_measured_joules_need_no_word_and_others_have_theirs() -> None:
    assert of(energy=figure(148, "J")) == "148 J used"
    assert of(energy=figure(148, "J", Status.MODELLED)) == "148 J used, modelled"
    assert of(energy=figure(12_345, "J", Status.REPLAYED)) == "12.3 kJ used, replayed"


def test_a_battery_without_a_forecast_still_tells_what_it_holds() -> None:
    end = missing("ratio", "the number of steps is not known")
    assert of(battery=figure(0.63, "ratio"), battery_end=end) == "battery 63 %"
    low = figure(-0.1, "ratio", Status.PREDICTED)
    assert "empty before" in of(battery=figure(0.1, "ratio"), battery_end=low)

"""The peak of a training is its own: tracing's part is taken off, the children's is added."""

from __future__ import annotations

import pytest

from wattstep.analysis.memory import breakdown, peak, tracing_kept

MB = 10**6
EVENTS = [
    ("parameters", 10 * MB),
    ("gradients", 10 * MB),
    ("peak_resident", 300 * MB),  # before the first window
    ("resident_before_tracing", 290 * MB),
    ("resident_after_tracing", 340 * MB),  # tracing keeps 50 MB
    ("peak_resident", 355 * MB),  # of which 305 MB are the training's
    ("resident_before_tracing", 345 * MB),
    ("resident_after_tracing", 346 * MB),
    ("peak_resident", 352 * MB),  # 301 MB
]


def test_what_tracing_kept_is_the_growth_over_its_windows() -> None:
    assert tracing_kept(EVENTS) == 51 * MB
    assert tracing_kept([]) == 0


def test_tracing_that_gave_more_back_than_it_took_kept_nothing() -> None:
    events = [("resident_before_tracing", 100), ("resident_after_tracing", 90)]
    assert tracing_kept(events) == 0


def test_the_peak_is_the_highest_without_what_tracing_kept() -> None:
    figure = peak(EVENTS, children=0)
    assert figure.value == 305 * MB
    assert figure.unit == "B"
    assert figure.n == 3
    assert figure.status.value == "measured"


def test_children_belong_to_the_training() -> None:
    assert peak(EVENTS, children=20 * MB).value == 325 * MB
    assert "children" in (peak(EVENTS, children=20 * MB).method or "")


def test_a_run_that_ended_before_a_peak_was_read_has_none_and_says_so() -> None:
    assert peak([("parameters", 1)], children=0).missing


def test_categories_and_the_rest_make_the_peak() -> None:
    figure = peak(EVENTS, children=0)
    table = breakdown(EVENTS, figure)
    assert sum(part.value or 0 for part in table.values()) == pytest.approx(figure.value)
    assert table["parameters"].status.value == "counted"
    assert table["activations_and_rest_of_process"].value == 285 * MB


def test_without_tensors_known_there_are_no_categories() -> None:
    assert breakdown([("peak_resident", 5)], peak([("peak_resident", 5)], 0)) == {}

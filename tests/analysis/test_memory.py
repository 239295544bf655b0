"""The peak of a training is its own: tracing's part is taken off, and every byte has a category."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattstep.recorded.memory import breakdown, divide, held_by_tracing, highest_of, peak, stretches
from wattstep.schema.figure import Figure

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


def peak_of(events: list[tuple[str, int]]) -> Figure:
    return peak(stretches(events, range(len(events))))


def test_what_tracing_kept_is_the_growth_over_its_windows() -> None:
    assert held_by_tracing(EVENTS) == 51 * MB
    assert held_by_tracing([]) == 0


def test_tracing_that_gave_more_back_than_it_took_kept_nothing() -> None:
    events = [("resident_before_tracing", 100), ("resident_after_tracing", 90)]
    assert held_by_tracing(events) == 0


def test_the_peak_is_the_highest_without_what_tracing_kept() -> None:
    figure = peak_of(EVENTS)
    assert figure.value == 305 * MB
    assert figure.unit == "B"
    assert figure.n == 3
    assert figure.status.value == "measured"


def test_a_stretch_lasts_from_the_reset_before_it_to_its_reading() -> None:
    events = [*EVENTS[2:5], ("peak_resident_with_tracing", 400 * MB), *EVENTS[5:6]]
    found = stretches(events, [10, 11, 20, 21, 30])
    assert [(s.begin_ns, s.end_ns, s.size, s.held) for s in found] == [
        (0, 10, 300 * MB, 0),
        (21, 30, 305 * MB, 50 * MB),
    ]


def test_a_run_that_ended_before_a_peak_was_read_has_none_and_says_so() -> None:
    assert peak_of([("parameters", 1)]).missing


def test_categories_and_the_rest_make_the_peak() -> None:
    figure = peak_of(EVENTS)
    table = breakdown(EVENTS, figure)
    assert sum(part.value or 0 for part in table.values()) == pytest.approx(figure.value)
    assert table["parameters"].status.value == "counted"
    assert table["activations_and_rest_of_process"].value == 285 * MB


def test_without_tensors_known_there_are_no_categories() -> None:
    assert breakdown([("peak_resident", 5)], peak_of([("peak_resident", 5)])) == {}


AT_PEAK = [
    ("at_peak.parameters", 10 * MB),
    ("at_peak.gradients", 4 * MB),
    ("at_peak.feature_maps", 50 * MB),
    ("at_peak.kernel_scratch", 6 * MB),
    ("at_peak.library_pages", 100 * MB),
    ("at_peak.process_at_rest", 120 * MB),
    ("at_peak.allocator_free", 0),
    ("at_peak.unexplained", 1 * MB),
    ("highest.gradients", 10 * MB),
]


def test_a_step_that_was_followed_gives_every_byte_of_the_peak_a_name() -> None:
    events = [*EVENTS, *AT_PEAK]
    figure = peak_of(events)  # 305 MB; 291 MB were needed, 51 MB of them by tracing
    table = breakdown(events, figure)
    assert sum(part.value for part in table.values()) == figure.value
    assert table["feature_maps"].value == 50 * MB
    assert table["allocator_free"].value == 65 * MB
    assert table["process_at_rest"].value == 69 * MB
    assert table["unexplained"].value == 1 * MB
    assert table["parameters"].status.value == "counted"
    assert table["kernel_scratch"].status.value == "measured"
    assert table["unexplained"].status.value == "attributed"


def test_tensors_that_were_never_touched_are_taken_off_their_category_and_said() -> None:
    events = [*EVENTS, *AT_PEAK, ("untouched.feature_maps", 9 * MB)]
    table = breakdown(events, peak_of(events))
    assert table["feature_maps"].value == 50 * MB
    assert table["feature_maps"].status.value == "measured"
    assert "less 9 MB of them" in table["feature_maps"].method
    assert table["parameters"].status.value == "counted"
    assert "never_touched" not in table


def test_no_category_of_an_older_run_is_below_0() -> None:
    """It told what was never touched in one sum: here of 55 MB, 50 MB of the largest category."""
    events = [*EVENTS, *AT_PEAK, ("at_peak.never_touched", -55 * MB)]
    table = breakdown(events, peak_of(events))
    assert table["feature_maps"].value == 0
    assert table["parameters"].value == 5 * MB
    assert sum(part.value for part in table.values()) == 305 * MB
    assert min(part.value for part in table.values()) >= 0


def test_child_processes_are_a_category_of_their_own() -> None:
    events = [*EVENTS, *AT_PEAK]
    figure = replace(peak_of(events), value=325 * MB)
    table = breakdown(events, figure, children=20 * MB)
    assert table["child_processes"].value == 20 * MB
    assert table["allocator_free"].value == 65 * MB
    assert sum(part.value for part in table.values()) == figure.value


def test_categories_beyond_the_peak_are_not_cut_but_shown_as_a_negative_remainder() -> None:
    sizes = divide(100, demand=110, tensors={"parameters": 90}, others={"library_pages": 30})
    assert sizes["allocator_free"] == 0
    assert sizes["unexplained"] == -20
    assert sum(sizes.values()) == 100


@given(
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.dictionaries(st.sampled_from(["parameters", "input"]), st.integers(0, 10**12)),
    st.dictionaries(st.sampled_from(["kernel_scratch"]), st.integers(0, 10**12)),
)
def test_whatever_is_divided_adds_up(
    whole: int, demand: int, tensors: dict[str, int], others: dict[str, int]
) -> None:
    sizes = divide(whole, demand=demand, tensors=tensors, others=others)
    assert sum(sizes.values()) == whole
    assert sizes["allocator_free"] >= 0
    assert tensors.items() | others.items() <= sizes.items()


def test_the_highest_of_each_category_is_kept_apart() -> None:
    assert highest_of(AT_PEAK)["gradients"].value == 10 * MB
    assert highest_of(EVENTS) == {}

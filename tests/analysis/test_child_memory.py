"""What children add to the peak of a training: shared pages once, and the interval holds what lies between reads."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.recorded.child_memory import Added, Samples, added_memory, family_peak
from wattstep.recorded.memory import Stretch
from wattstep.schema.figure import Status

S, MB = 10**9, 10**6


def samples(*pairs: tuple[float, float]) -> Samples:
    """Of times in s and sizes in MB."""
    return (
        np.array([round(t * S) for t, _ in pairs], np.int64),
        np.array([size * MB for _, size in pairs], float),
    )


NEVER = samples()


def stretch(begin: float, end: float, size: float, held: float = 0.0) -> Stretch:
    return Stretch(begin_ns=round(begin * S), end_ns=round(end * S), size=size * MB, held=held * MB)


def test_between_proportional_reads_it_lies_on_a_line_and_between_both() -> None:
    """50 MB are the children's own at 1 s, 150 at 3 s, of 500 MB resident throughout."""
    added = added_memory(
        samples((1.5, 500), (2, 500)), samples((1, 50), (3, 150)), samples((1, 450), (3, 350))
    )
    assert added.shared_known
    assert added.t_ns.tolist() == [1 * S, 1.5 * S, 2 * S, 3 * S]
    assert added.value == pytest.approx([50 * MB, 75 * MB, 100 * MB, 150 * MB])
    assert added.low == pytest.approx([50 * MB, 50 * MB, 50 * MB, 150 * MB])
    assert added.high == pytest.approx([50 * MB, 150 * MB, 150 * MB, 150 * MB])


def test_children_that_no_proportional_read_saw_share_as_the_others_do_or_nothing() -> None:
    """Of 600 MB of three children 60 are their own; for a moment six of them have 1200 MB."""
    added = added_memory(
        samples((1.5, 1200)), samples((1, 60), (2, 60)), samples((1, 540), (2, 540))
    )
    assert added.value[1] == pytest.approx(120 * MB)
    assert (added.low[1], added.high[1]) == pytest.approx((60 * MB, 660 * MB))


def test_where_children_ended_less_is_theirs() -> None:
    added = added_memory(
        samples((1.5, 300), (1.7, 0)), samples((1, 60), (2, 60)), samples((1, 540), (2, 540))
    )
    assert added.value == pytest.approx([60 * MB, 30 * MB, 0, 60 * MB])


def test_a_read_before_there_were_children_does_not_make_their_shared_pages_their_own() -> None:
    added = added_memory(
        samples((0.5, 0), (1, 600)), samples((0, 0), (2, 60)), samples((0, 0), (2, 540))
    )
    assert added.value == pytest.approx([0, 0, 60 * MB, 60 * MB])
    assert added.low == pytest.approx([0, 0, 0, 60 * MB])
    assert added.high == pytest.approx([0, 0, 60 * MB, 60 * MB])


def test_without_a_proportional_read_it_is_an_upper_bound_and_says_so() -> None:
    added = added_memory(samples((1, 600), (2, 500)), NEVER, NEVER)
    assert not added.shared_known
    assert added.value == pytest.approx([600 * MB, 500 * MB])
    figure, children = family_peak([stretch(0, 3, 300)], samples((1, 290), (2, 290)), added)
    assert figure.value == 900 * MB
    assert (figure.low, figure.high) == (300 * MB, 900 * MB)
    assert children == 600 * MB
    assert figure.status is Status.ATTRIBUTED
    assert "several times" in (figure.reason or "")


def test_the_issues_own_case_is_main_process_and_private_pages() -> None:
    """Two workers of 280 MB resident, 33 MB of each their own: 300 + 66, not 300 + 560."""
    added = added_memory(
        samples((1, 560), (2, 560)), samples((1, 66), (2, 66)), samples((1, 494), (2, 494))
    )
    figure, children = family_peak([stretch(0, 3, 300)], samples((0.5, 299), (1.5, 300)), added)
    assert figure.value == pytest.approx(366 * MB)
    assert children == pytest.approx(66 * MB)
    assert figure.status is Status.MEASURED
    assert figure.low == figure.high == pytest.approx(366 * MB)


def test_peaks_that_do_not_meet_are_not_added_up_but_bound_the_figure() -> None:
    """The process held 400 MB at 1 s, when children added nothing; later 300 MB and 60 of theirs."""
    own = samples((1, 400), (2, 300), (3, 300))
    added = added_memory(
        samples((1, 0), (3, 60)), samples((2, 0), (3, 60)), samples((2, 0), (3, 0))
    )
    figure, children = family_peak([stretch(0, 4, 400)], own, added)
    assert figure.value == pytest.approx(400 * MB)
    assert children == 0
    assert figure.high == pytest.approx(460 * MB)


def test_both_together_may_peak_when_neither_does() -> None:
    own = samples((1, 400), (2, 390), (3, 300))
    added = added_memory(NEVER, samples((1, 0), (2, 50), (3, 60)), samples((1, 0), (2, 9), (3, 9)))
    figure, children = family_peak([stretch(0, 4, 400)], own, added)
    assert figure.value == pytest.approx(440 * MB)
    assert children == pytest.approx(50 * MB)


def test_what_tracing_kept_is_no_part_of_it_with_children_either() -> None:
    own = samples((1, 350), (2, 350))
    added = added_memory(NEVER, samples((1, 20), (2, 20)), samples((1, 5), (2, 5)))
    figure, _ = family_peak([stretch(0, 4, 300, held=50)], own, added)
    assert figure.value == pytest.approx(320 * MB)


def test_a_stretch_shorter_than_the_samples_takes_the_nearest() -> None:
    added = added_memory(NEVER, samples((1, 20), (9, 20)), samples((1, 5), (9, 5)))
    figure, _ = family_peak([stretch(4, 4.001, 300)], samples((1, 1), (9, 1)), added)
    assert figure.value == figure.low == figure.high == pytest.approx(320 * MB)


def test_times_that_are_not_the_trainings_are_left_out() -> None:
    added = added_memory(samples((5, 7), (12, 99), (25, 3)), NEVER, NEVER)
    kept: Added = added.without([(10 * S, 20 * S)])
    assert kept.value == pytest.approx([7 * MB, 3 * MB])

"""What runs when in a mean clean step: segments add up, phases keep their length, kinds last as laid."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.attribution.tables.layouts import MOST_LAYOUTS, Labelled, layouts
from wattstep.attribution.traced_rows import CompensatedRows, Correction, TracedRows
from wattstep.recorded.phases import Phases

MS = 1_000_000
# Kinds 0 and 1 are the rests of the phases, those from 2 on operations.


def labelled(
    rows: list[tuple[int, float, float, int, int, float]],
    *,
    windows: int = 1,
    unattributed_s: list[list[float]] | None = None,
    edges_ms: tuple[float, ...] = (0, 10, 20),
    edges_s: tuple[float, ...] = (0.0, 0.01, 0.02),
) -> Labelled:
    """Rows of (window, begin and end in ms, thread, kind, what it was laid as in s), in that order."""
    n = len(rows)
    window, start, end, thread, kind, laid_s = (np.array(part) for part in zip(*rows, strict=True))
    starts = (start * MS).astype(np.int64) + window * 1000 * MS
    ends = (end * MS).astype(np.int64) + window * 1000 * MS
    edges = np.array(edges_ms) * MS
    traced = np.stack([edges + w * 1000 * MS for w in range(windows)]).astype(np.int64)
    phase = (start >= edges_ms[1]).astype(np.int32)
    nothing = np.zeros(n, bool)
    traced_rows = TracedRows(
        window=window, start_ns=starts, end_ns=ends, self_ns=ends - starts, thread=thread,
        parent=np.full(n, -1), scope=nothing, layer=np.zeros(n, np.int64),
        layers=np.array([""], object),
    )  # fmt: skip
    nan = float("nan")
    compensated = CompensatedRows(
        phase=phase, time_s=laid_s, busy_s=laid_s,
        unattributed_s=np.array(unattributed_s or [[0.0, 0.0]] * windows),
        correction=Correction(cost_s=np.zeros(2), residual=nan, inflation=nan, windows=windows, error_s=np.zeros(2)),
        traced=Phases(names=("a", "b"), edges_ns=traced), edges_s=np.array(edges_s),
    )  # fmt: skip
    return Labelled(
        rows=traced_rows, compensated=compensated, outer=np.arange(n), operation=~nothing, outermost=~nothing,
        kind=kind, rest=np.array([0, 1]),
    )  # fmt: skip


def test_weights_of_each_segment_add_up_to_one_and_edges_run_from_0_to_1() -> None:
    found = labelled(
        [(0, 1, 5, 1, 2, 0.003), (0, 3, 8, 2, 3, 0.004), (0, 11, 20, 1, 4, 0.008)],
        unattributed_s=[[0.003, 0.002]],
    )
    (layout,) = layouts(found)
    assert layout.edges[0] == 0
    assert layout.edges[-1] == pytest.approx(1)
    assert (np.diff(layout.edges) > 0).all()
    sums = np.bincount(layout.segment, layout.weight, minlength=len(layout.edges) - 1)
    assert sums == pytest.approx(np.ones(len(layout.edges) - 1))


def test_operations_that_run_at_once_stand_in_one_segment() -> None:
    found = labelled([(0, 0, 10, 1, 2, 0.005), (0, 0, 10, 2, 3, 0.005), (0, 10, 20, 1, 4, 0.01)])
    (layout,) = layouts(found)
    assert layout.edges == pytest.approx([0, 0.5, 1])
    assert sorted(layout.kind[layout.segment == 0].tolist()) == [2, 3]
    assert layout.weight[layout.segment == 0] == pytest.approx([0.5, 0.5])


def test_what_the_tracer_cost_is_taken_off_where_it_was() -> None:
    """An operation of 8 ms that was laid as 4 ms, and rests that take what it leaves."""
    found = labelled(
        [(0, 1, 9, 1, 2, 0.004), (0, 10, 20, 1, 4, 0.01)], unattributed_s=[[0.006, 0.0]]
    )
    (layout,) = layouts(found)
    assert layout.kind.tolist() == [0, 2, 0, 4]
    assert layout.edges == pytest.approx([0, 0.15, 0.35, 0.5, 1])


def test_kinds_last_on_average_as_long_as_they_were_laid_though_windows_differ() -> None:
    """In the second window one operation was held up for 50 ms: it counts, and once only."""
    rows = [
        (0, 0, 4, 1, 2, 0.004), (0, 4, 10, 1, 3, 0.006), (0, 10, 20, 1, 4, 0.01),
        (1, 0, 6, 1, 2, 0.012), (1, 6, 10, 1, 3, 0.002), (1, 10, 20, 1, 4, 0.01),
    ]  # fmt: skip
    # As laid: 8 and 4 ms of the first phase, which lasts 12 ms on average over these windows.
    found = labelled(rows, windows=2, edges_s=(0.0, 0.012, 0.022))
    made = layouts(found)
    assert len(made) == 2
    seconds = np.zeros(5)
    for layout in made:
        part = np.diff(layout.edges)[layout.segment] * layout.weight * 0.022
        seconds += np.bincount(layout.kind, part, minlength=5) / 2
    assert seconds[[2, 3, 4]] == pytest.approx([0.008, 0.004, 0.01], rel=1e-3)


def test_each_phase_keeps_the_length_that_it_has_in_clean_steps() -> None:
    rows = [(0, 2, 10, 1, 2, 0.001), (0, 10, 12, 1, 3, 0.009)]
    (layout,) = layouts(labelled(rows, unattributed_s=[[0.001, 0.001]]))
    edge = layout.edges[np.searchsorted(layout.edges, 0.5 - 1e-9)]
    assert edge == pytest.approx(0.5)


def test_an_operation_of_no_length_takes_no_place() -> None:
    rows = [(0, 0, 10, 1, 2, 0.01), (0, 10, 10, 1, 3, 0.0), (0, 10, 20, 1, 4, 0.01)]
    (layout,) = layouts(labelled(rows))
    assert layout.kind.tolist() == [2, 4]


def test_a_phase_without_operation_or_rest_is_all_rest() -> None:
    rows = [(0, 0, 10, 1, 2, 0.01)]
    (layout,) = layouts(labelled(rows))
    assert layout.kind.tolist() == [2, 1]
    assert layout.edges == pytest.approx([0, 0.5, 1])


def test_of_many_traced_steps_some_are_chosen_from_first_to_last() -> None:
    rows = [(w, 0, 10, 1, 2 if w < 50 else 3, 0.01) for w in range(100)]
    found = layouts(labelled(rows, windows=100))
    assert len(found) == MOST_LAYOUTS
    assert 2 in found[0].kind
    assert 3 in found[-1].kind

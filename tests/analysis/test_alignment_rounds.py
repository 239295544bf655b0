"""Work that comes round: which stretches are alike is known by construction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattstep.importing.clocks.alignment_grids import Search
from wattstep.importing.clocks.alignment_rounds import by_place, round_of

MS = 1e-3


def rounds(lengths_ms: list[float], count: int, seed: int = 0) -> np.ndarray:
    """Begin and length of stretches, from lengths of work and pause in turn that vary by 4 %."""
    lengths = np.tile(np.array(lengths_ms) * MS, count)
    lengths *= np.exp(np.random.default_rng(seed).normal(0, 0.04, len(lengths)))
    edges = np.append(0.0, np.cumsum(lengths))
    return np.array([edges[:-1:2], lengths[::2]])


def search_of(work: np.ndarray, fine: float = MS) -> Search:
    """A search in which only the trace matters."""
    grid = np.arange(int(work.sum(axis=0).max() / fine) + 2) * fine
    busy = np.interp(
        grid,
        np.column_stack([work[0], work.sum(axis=0)]).ravel(),
        np.cumsum(np.column_stack([np.zeros(len(work[1])), work[1]])),
    )
    return Search(
        cumulated=busy, groups=np.empty((len(grid), 0)), work=work, fine=fine,
        t=np.arange(100) * 0.01, v=np.zeros(100), interval=0.01, window_s=None,
        limits=(-1.0, 1.0), ahead_ns=0, first_ns=0,
    )  # fmt: skip


@pytest.mark.parametrize("lengths", [[20, 4, 30, 4, 15, 20], [20, 5, 20, 15], [10, 3, 12, 3] * 2])
def test_stretches_are_told_apart_by_the_lengths_about_them(lengths: list[float]) -> None:
    place, places = round_of(rounds(lengths, 60))
    kinds = len({tuple(lengths[i:] + lengths[:i]) for i in range(0, len(lengths), 2)})
    assert places == kinds
    assert ((place - np.arange(len(place))) % places == place[0]).all()


def test_stretches_that_are_all_alike_are_one_place() -> None:
    assert round_of(rounds([30, 10], 100))[1] == 1


def test_a_round_that_is_cut_short_puts_no_other_in_the_wrong_place() -> None:
    work = rounds([20, 4, 30, 4, 15, 20], 60)
    work = np.delete(work, 100, axis=1)  # of the second kind, in the 34th round
    work[0, 50:] += 3.0  # and a pause within the 17th
    kind = np.delete(np.arange(180) % 3, 100)
    place, places = round_of(work)
    assert places == 3
    slip = (place - kind) % 3
    assert (slip[:97] == slip[0]).all()
    assert (slip[103:] == slip[0]).all()


def test_pauses_are_taken_for_work_where_that_leaves_fewer_stretches() -> None:
    """Forty rounds of three pieces 0.5 ms apart, 5 ms of pause, one piece, 30 ms of pause."""
    work = rounds([20, 0.5, 20, 0.5, 20, 5, 8, 30], 40)
    apart, joined, alone = by_place(search_of(work))
    assert [each[1] for each in (apart, joined, alone)] == pytest.approx([0.104] * 3, rel=0.03)
    # Seconds that the kinds have in all: the work, then with pauses of 0.5 ms, then also of 5 ms.
    seconds = [each[0].groups[-1].sum() / 40 for each in (apart, joined, alone)]
    assert seconds == pytest.approx([0.068, 0.069, 0.074], rel=0.03)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=16, max_size=60))
def test_kinds_add_up_to_the_load(lengths_ms: list[tuple[int, int]]) -> None:
    lengths = np.array(lengths_ms).ravel() * MS
    work = np.array([np.append(0.0, np.cumsum(lengths))[:-1:2], lengths[::2]])
    search = search_of(work)
    first, _ = next(by_place(search))
    assert 1 <= first.kinds <= 12
    assert np.abs(first.groups.sum(axis=1) - search.cumulated).max() < 1e-9
    assert (np.diff(first.groups, axis=0) > -1e-12).all()

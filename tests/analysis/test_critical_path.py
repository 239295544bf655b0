"""Critical paths of traces constructed so that the answer can be read off."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from wattstep.attribution.critical_path import NONE, Edge, Pieces, dependencies, longest

MAIN, BACKWARD, STREAM = 0, 1, 2


def pieces(*rows: tuple[int, int, int, dict[str, int]]) -> Pieces:
    """Begin, end, lane and what else is to be said."""

    def column(key: str, otherwise: int) -> np.ndarray:
        return np.array([row[3].get(key, otherwise) for row in rows], np.int64)

    return Pieces(
        start_ns=np.array([row[0] for row in rows], np.int64),
        end_ns=np.array([row[1] for row in rows], np.int64),
        lane=np.array([row[2] for row in rows], np.int64),
        host=column("host", 1).astype(bool),
        waits=column("waits", 0).astype(bool),
        launched_ns=column("launched", NONE),
        launcher=column("launcher", NONE),
    )


def kernel(start: int, end: int, launched: int) -> tuple[int, int, int, dict[str, int]]:
    return start, end, STREAM, {"host": 0, "launched": launched, "launcher": MAIN}


def path_of(found: Pieces) -> tuple[int, list[int], list[int]]:
    path = longest(found, dependencies(found))
    return path.length_ns, path.pieces.tolist(), path.slack_ns.tolist()


def test_on_one_thread_everything_is_on_the_path() -> None:
    one = pieces((0, 10, MAIN, {}), (10, 25, MAIN, {}), (25, 30, MAIN, {}))
    assert path_of(one) == (30, [0, 1, 2], [0, 0, 0])


def test_a_long_kernel_is_on_the_path_and_the_host_beside_it_has_slack() -> None:
    # The host works 0-10, launches at 10, works 10-20, waits 20-90, works 90-100.
    # The kernel runs 12-90. Path: 10 + 78 + 10; the host's 10-20 could take 68 longer.
    found = pieces(
        (0, 10, MAIN, {}),
        (10, 20, MAIN, {}),
        (20, 90, MAIN, {"waits": 1}),
        (90, 100, MAIN, {}),
        kernel(12, 90, launched=10),
    )
    length, path, slack = path_of(found)
    assert length == 98
    assert path == [0, 4, 3]
    assert slack == [0, 68, 68, 0, 0]


def test_a_short_kernel_has_slack_and_the_host_is_the_path() -> None:
    found = pieces((0, 10, MAIN, {}), (10, 100, MAIN, {}), kernel(12, 20, launched=10))
    length, path, slack = path_of(found)
    assert (length, path) == (100, [0, 1])
    assert slack[2] == 90 - 8


def test_the_backward_thread_follows_the_forward_one_and_hands_back() -> None:
    # Forward on one thread 0-40, backward on another 42-90, optimizer on the first 93-100.
    found = pieces((0, 40, MAIN, {}), (42, 90, BACKWARD, {}), (93, 100, MAIN, {}))
    assert path_of(found) == (40 + 48 + 7, [0, 1, 2], [0, 0, 0])


def test_of_two_threads_at_once_the_longer_counts() -> None:
    # Both begin after 0-10; one takes 30, the other 50; then the first goes on at 60.
    found = pieces(
        (0, 10, MAIN, {}), (10, 40, MAIN, {}), (10, 60, BACKWARD, {}), (60, 70, MAIN, {})
    )
    length, path, slack = path_of(found)
    assert (length, path) == (70, [0, 2, 3])
    assert slack == [0, 20, 0, 0]


def test_kernels_of_one_stream_follow_each_other() -> None:
    found = pieces((0, 5, MAIN, {}), kernel(6, 20, launched=2), kernel(20, 50, launched=4))
    length, path, _ = path_of(found)
    assert (length, path) == (44, [1, 2])


def test_nothing_has_no_path() -> None:
    assert path_of(pieces()) == (0, [], [])


def test_a_piece_must_have_a_length() -> None:
    with refused("backward-interval"):
        pieces((5, 5, MAIN, {}))


def test_nothing_waits_for_what_ends_later() -> None:
    found = pieces((0, 10, MAIN, {}), (5, 20, BACKWARD, {}))
    with refused("impossible-wait"):
        longest(found, [(0, 1)])


LANES = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=5), min_size=1, max_size=3
)


def _brute(found: Pieces, edges: list[Edge]) -> int:
    """Every chain, one after another."""
    work = found.work_ns.tolist()

    def after(at: int) -> int:
        return work[at] + max((after(second) for first, second in edges if first == at), default=0)

    return max((after(at) for at in range(len(work))), default=0)


@given(lanes=LANES, launched=st.integers(0, 30))
def test_the_path_is_the_longest_of_all_chains_and_no_longer_than_the_step(
    lanes: list[list[tuple[int, int]]], launched: int
) -> None:
    rows = []
    for lane, lengths in enumerate(lanes):
        now = 0
        for gap, length in lengths:
            device = {"host": 0, "launched": min(launched, now + gap), "launcher": MAIN}
            rows.append((now + gap, now + gap + length, lane, device if lane == STREAM else {}))
            now += gap + length
    found = pieces(*rows)
    edges = dependencies(found)
    path = longest(found, edges)
    assert path.length_ns == _brute(found, edges)
    chains = [sum(length for _, length in lengths) for lengths in lanes]
    assert path.length_ns >= max(chains)
    end = max((row[1] for row in rows), default=0)
    assert path.length_ns <= end
    assert (path.slack_ns >= 0).all()
    if rows:
        assert int(found.work_ns[path.pieces].sum()) == path.length_ns
        assert all(found.end_ns[a] <= found.start_ns[b] for a, b in pairwise(path.pieces))

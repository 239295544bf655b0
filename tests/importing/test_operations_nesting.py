"""Which event of a trace runs inside which: beside a slow search through all pairs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.importing.kineto_by_hand import table, trace_of

from wattstep.attribution.nesting import first_with, lanes_of, merged
from wattstep.importing.operations import tables_of

Interval = tuple[int, int]
Row = dict[str, Any]


def event(name: str, start: int, end: int, **more: Any) -> Row:
    return {"name": name, "start_ns": start, "end_ns": end, "thread": 1, **more}


def union(intervals: list[Interval]) -> int:
    """Nanoseconds that at least one of the intervals covers, counted one by one."""
    return len({t for start, end in intervals for t in range(start, end)})


@st.composite
def nested(draw: Any, low: int = 0, high: int = 60, depth: int = 0) -> list[Interval]:
    """Calls of one thread: inside each other or apart."""
    found: list[Interval] = []
    at = low
    while at < high and len(found) < 8 and draw(st.booleans()):
        start = draw(st.integers(at, high - 1))
        end = draw(st.integers(start + 1, high))
        found.append((start, end))
        if depth < 3 and end - start > 2:
            found += draw(nested(start, end, depth + 1))
        at = end
    return found


def parents_by_search(intervals: list[Interval]) -> list[int]:
    """Of all that contain an interval and stand before it, the shortest, the later of equal ones."""
    parents = []
    for at, (start, end) in enumerate(intervals):
        around = [
            (high - low, -other, other)
            for other, (low, high) in enumerate(intervals[:at])
            if low <= start and end <= high
        ]
        parents.append(min(around)[2] if around else -1)
    return parents


@given(st.lists(nested(), min_size=1, max_size=2))
def test_parents_and_own_time_are_those_of_a_search_through_all_pairs(
    threads: list[list[Interval]],
) -> None:
    rows = [
        event(f"op{thread}", start, end, thread=thread)
        for thread, intervals in enumerate(threads)
        for start, end in intervals
    ]
    if not rows:
        return
    made = table(tables_of(trace_of(rows)))
    assert len(made) == len(rows)
    for thread, intervals in enumerate(threads):
        mine = sorted(intervals, key=lambda one: (one[0], -one[1]))
        expected = parents_by_search(mine)
        found = [row for row in made if row["thread"] == thread]
        assert [(row["start_ns"], row["end_ns"]) for row in found] == mine
        places = [at for at, row in enumerate(made) if row["thread"] == thread]
        assert [row["parent"] for row in found] == [
            None if parent < 0 else places[parent] for parent in expected
        ]
        assert sum(row["self_ns"] for row in found) == union(mine)


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 2)),
        min_size=1,
        max_size=40,
    )
)
def test_whatever_crosses_nothing_is_lost_and_parents_enclose(
    drawn: list[tuple[int, int, int]],
) -> None:
    rows = [
        event(f"op{n}", a, a + length, thread=lane) for n, (a, length, lane) in enumerate(drawn)
    ]
    made = table(tables_of(trace_of(rows)))
    assert Counter(row["name"] for row in made) == Counter(row["name"] for row in rows)
    total = sum(row["end_ns"] - row["start_ns"] for row in made)
    inside = 0
    for row in made:
        if row["parent"] is None:
            continue
        parent = made[row["parent"]]
        assert parent["thread"] == row["thread"]
        assert parent["start_ns"] <= row["start_ns"]
        assert row["end_ns"] <= parent["end_ns"] or row["end_ns"] == row["start_ns"]
        inside += row["end_ns"] - row["start_ns"]
    assert sum(row["self_ns"] for row in made) == total - inside


def test_an_event_without_length_runs_inside_what_is_open_at_its_moment() -> None:
    rows = [
        event("outer", 0, 10),
        event("point", 4, 4),
        event("inner", 4, 6),
        event("after", 10, 10),
    ]
    made = {row["name"]: row for row in table(tables_of(trace_of(rows)))}
    names = list(made)
    assert names[made["inner"]["parent"]] == "outer"
    assert made["point"]["self_ns"] == 0
    assert names[made["point"]["parent"]] == "inner"  # it begins with it: the file tells no more
    assert made["after"]["parent"] is None
    assert made["outer"]["self_ns"] == 10 - 2


def test_of_two_that_cross_the_later_is_a_root() -> None:
    rows = [event("first", 0, 10), event("later", 8, 14), event("in later", 9, 12)]
    made = table(tables_of(trace_of(rows)))
    assert [(row["name"], row["parent"], row["self_ns"]) for row in made] == [
        ("first", None, 10),
        ("later", None, 3),
        ("in later", 1, 3),
    ]


def test_threads_of_several_processes_and_streams_never_share_a_number() -> None:
    rows = [
        event("a", 0, 5, process=10, thread=7),
        event("b", 1, 4, process=11, thread=7),
        event("c", 1, 4, process=0, thread=7, processor="gpu0", category="kernel"),
        event("d", 1, 4, process=1, thread=7, processor="gpu1", category="kernel"),
        event("e", 2, 3, process=10, thread=7),
    ]
    made = {row["name"]: row for row in table(tables_of(trace_of(rows)))}
    assert made["a"]["thread"] == 7
    assert made["e"]["thread"] == 7
    assert made["e"]["parent"] is not None
    assert made["b"]["parent"] is None
    assert len({made[name]["thread"] for name in "abcd"}) == 4
    assert (made["c"]["processor"], made["d"]["processor"]) == ("gpu0", "gpu1")


def test_numbers_of_threads_may_be_as_large_as_addresses() -> None:
    large = [140_737_353_879_552, 140_737_353_879_553, 2**62]
    rows = [event("op", 0, 5, thread=number) for number in large]
    events = trace_of(rows).events
    assert events is not None
    lanes = lanes_of(events, np.zeros(3, bool))
    assert lanes.number[lanes.of_event].tolist() == large


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=20))
def test_merged_intervals_are_disjoint_and_cover_the_same(drawn: list[tuple[int, int]]) -> None:
    intervals = sorted((start, start + length) for start, length in drawn)
    ends = np.array(intervals, np.int64).reshape(-1, 2)
    found = merged(ends[:, 0], ends[:, 1])
    assert int((found[:, 1] - found[:, 0]).sum()) == union(intervals)
    assert (found[1:, 0] > found[:-1, 1]).all()


@given(st.lists(st.integers(-1, 6), max_size=12), st.lists(st.integers(-1, 8), max_size=8))
def test_the_first_with_a_number_is_found_and_none_is_no_number(
    keys: list[int], wanted: list[int]
) -> None:
    found = first_with(np.array(keys, np.int64), np.array(wanted, np.int64))
    assert found.tolist() == [keys.index(one) if one >= 0 and one in keys else -1 for one in wanted]

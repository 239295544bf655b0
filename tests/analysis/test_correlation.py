from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wattstep.attribution.correlation import attribute, nest, uncovered
from wattstep.errors import InvalidValueError
from wattstep.recorded.curves import curve_of_clock, curve_of_gauge

S = 1_000_000_000


def nested(*operations):
    """The nesting of operations given as (start, end, thread)."""
    columns = np.array(operations, dtype=np.int64).reshape(-1, 3).T
    return nest(*columns)


def one_per_ns(end, start=0):
    """A curve that gains 1 a nanosecond, so that shares read as nanoseconds."""
    return curve_of_gauge([start, end], [1e9, 1e9])


def shares(nesting, curve):
    return attribute(nesting, curve).self_share.tolist()


def rest(nesting, curve, start, end):
    values, _ = uncovered(nesting, curve).difference([start], [end])
    return values[0]


def test_five_watts_for_two_seconds_go_to_the_operation_as_ten_joules():
    result = attribute(nested((0, 2 * S, 1)), curve_of_gauge([0, 4 * S], [5.0, 5.0]))
    assert result.self_share.tolist() == [10.0]
    assert result.unit == "J"
    assert result.covered_ratio.tolist() == [1.0]


def test_what_no_operation_covers_is_the_rest():
    nesting, curve = nested((2, 5, 1)), one_per_ns(10)
    assert shares(nesting, curve) == pytest.approx([3.0])
    assert rest(nesting, curve, 0, 10) == pytest.approx(7.0)
    assert rest(nesting, curve, 0, 3) == pytest.approx(2.0)
    assert rest(nesting, curve, 3, 4) == pytest.approx(0.0)


def test_a_parent_leaves_to_its_children_what_is_theirs():
    nesting = nested((0, 10, 1), (1, 4, 1), (2, 3, 1), (5, 9, 1))
    result = attribute(nesting, one_per_ns(10))
    assert result.inclusive.tolist() == pytest.approx([10, 3, 1, 4])
    assert result.self_share.tolist() == pytest.approx([3, 2, 1, 4])
    assert nesting.parent.tolist() == [-1, 0, 1, 0]
    assert nesting.depth.tolist() == [0, 1, 2, 1]
    assert nesting.self_ns.tolist() == [3, 2, 1, 4]


def test_threads_that_run_at_once_share_equally():
    # 0-4 alone, 4-6 two threads, 6-8 the other alone.
    assert shares(nested((0, 6, 1), (4, 8, 2)), one_per_ns(8)) == pytest.approx([5, 3])


def test_operations_share_by_the_cores_that_they_keep_busy() -> None:
    # 0-4 three cores alone, 4-6 three beside one, 6-8 one alone: of 8 W 32, then 12 and 4, then 16.
    operations = np.array([(0, 6, 1), (4, 8, 2)], np.int64).T
    nesting = nest(*operations, cores=np.array([3, 1]))
    curve = curve_of_gauge([0, 8], [8e9, 8e9])
    assert shares(nesting, curve) == pytest.approx([32 + 12, 4 + 16])
    assert rest(nesting, curve, 0, 8) == pytest.approx(0.0)
    backwards = nest(*operations[:, ::-1], cores=np.array([1, 3]))
    assert shares(backwards, curve) == pytest.approx([4 + 16, 32 + 12])
    # What lies inside another shares with it, not beside it.
    inside = np.array([(0, 6, 1), (1, 5, 1), (4, 8, 2), (6, 6, 1)], np.int64).T
    taken = shares(nest(*inside, cores=np.array([3, 3, 1, 3])), curve)
    assert taken == pytest.approx([8 + 6, 24 + 6, 4 + 16, 0])


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(1, 4)), max_size=8))
def test_with_cores_nothing_is_lost_either(rows: list[tuple[int, int, int]]) -> None:
    start = np.array([begin for begin, _, _ in rows], np.int64)
    end = start + np.array([length for _, length, _ in rows], np.int64)
    cores = np.array([count for _, _, count in rows], np.int64)
    nesting = nest(start, end, np.arange(len(rows)), cores)
    curve = one_per_ns(50)
    assert sum(shares(nesting, curve)) + rest(nesting, curve, 0, 50) == pytest.approx(50)


def test_a_thread_counts_once_however_deep_it_is():
    nesting = nested((0, 6, 1), (0, 6, 1), (2, 4, 1), (0, 6, 2))
    assert shares(nesting, one_per_ns(6)) == pytest.approx([0, 2, 1, 3])


def test_three_threads_take_a_third_each():
    assert shares(nested((0, 6, 1), (0, 6, 2), (0, 6, -7)), one_per_ns(6)) == pytest.approx([2] * 3)


def test_operations_that_cross_on_one_thread_share_like_two_threads():
    nesting = nested((0, 6, 1), (4, 8, 1))
    assert nesting.parent.tolist() == [-1, -1]
    assert shares(nesting, one_per_ns(8)) == pytest.approx([5, 3])


def test_an_operation_inside_the_later_of_two_that_cross_is_its_child():
    nesting = nested((0, 10, 1), (5, 20, 1), (7, 12, 1), (15, 18, 1))
    assert nesting.parent.tolist() == [-1, -1, 1, 1]
    # 5-10 is halved; of the later one's half its child has 7-10.
    assert shares(nesting, one_per_ns(20)) == pytest.approx([7.5, 1 + 3 + 2, 1.5 + 2, 3])


def test_an_endless_staircase_of_crossings_keeps_two_lanes_busy():
    nesting = nested(*((i, i + 2, 1) for i in range(50)))
    assert nesting.lanes.max() == 2
    assert shares(nesting, one_per_ns(51)) == pytest.approx([1.5, *[1.0] * 48, 1.5])


def test_operations_that_touch_do_not_run_at_once():
    nesting = nested((0, 3, 1), (3, 7, 1), (7, 9, 2))
    assert shares(nesting, one_per_ns(9)) == pytest.approx([3, 4, 2])
    assert nesting.change_ns.tolist() == [0, 9]


def test_of_equal_operations_the_first_given_is_the_parent():
    nesting = nested((0, 5, 1), (0, 5, 1), (0, 5, 1))
    assert nesting.parent.tolist() == [-1, 0, 1]
    assert shares(nesting, one_per_ns(5)) == pytest.approx([0, 0, 5])


def test_the_longer_of_two_that_start_together_is_the_parent():
    assert nested((0, 3, 1), (0, 5, 1)).parent.tolist() == [1, -1]
    assert nested((0, 5, 1), (2, 3, 1), (2, 5, 1)).parent.tolist() == [-1, 2, 0]


def test_operations_of_zero_length_take_and_hide_nothing():
    nesting = nested((0, 6, 1), (3, 3, 1), (4, 5, 1), (9, 9, 2))
    assert nesting.parent.tolist() == [-1, -1, 0, -1]
    assert shares(nesting, one_per_ns(9)) == pytest.approx([5, 0, 1, 0])


def test_the_order_of_the_operations_does_not_matter():
    rows = np.array([(0, 10, 1), (1, 4, 1), (2, 3, 1), (0, 7, 2), (8, 12, 1), (5, 5, 2)])
    expected = attribute(nested(*rows), one_per_ns(12))
    shuffled = np.array([5, 3, 2, 4, 0, 1])
    nesting = nested(*rows[shuffled])
    result = attribute(nesting, one_per_ns(12))
    assert result.self_share == pytest.approx(expected.self_share[shuffled])
    assert result.inclusive == pytest.approx(expected.inclusive[shuffled])
    assert nesting.parent.tolist() == [-1, -1, 5, -1, -1, 4]
    assert nesting.self_ns.tolist() == [0, 7, 1, 4, 7, 2]


def test_what_was_not_sampled_is_not_given_to_anyone():
    nesting = nested((0, 10, 1), (12, 20, 1), (30, 40, 1))
    result = attribute(nesting, one_per_ns(16, start=5))
    assert result.self_share.tolist() == pytest.approx([5, 4, 0])
    assert result.covered_ratio.tolist() == [0.5, 0.5, 0.0]
    assert rest(nesting, one_per_ns(16, start=5), 5, 16) == pytest.approx(2)
    _, covered = uncovered(nesting, one_per_ns(16, start=5)).difference([0, 0], [5, 10])
    assert covered.tolist() == [0.0, 0.5]


def test_a_gap_in_the_samples_is_nobodys():
    curve = curve_of_gauge([0, 2, 4, 6, 8], [1e9, 1e9, float("nan"), 1e9, 1e9])
    nesting = nested((1, 7, 1))
    result = attribute(nesting, curve)
    assert result.self_share.tolist() == pytest.approx([2])
    assert result.covered_ratio.tolist() == pytest.approx([2 / 6])
    values, covered = uncovered(nesting, curve).difference([0, 2], [8, 6])
    assert values[0] == pytest.approx(2)
    assert np.isnan(values[1])
    assert covered.tolist() == [0.5, 0.0]


def test_time_of_operations_and_rest_make_the_step():
    nesting = nested((0, 4 * S, 1), (2 * S, 6 * S, 2), (8 * S, 9 * S, 1))
    time = attribute(nesting, curve_of_clock(0, 9 * S))
    assert time.unit == "s"
    assert time.self_share.tolist() == pytest.approx([3, 3, 1])
    assert rest(nesting, curve_of_clock(0, 10 * S), 0, 10 * S) == pytest.approx(3)


def test_without_operations_all_is_rest():
    nesting = nested()
    assert shares(nesting, one_per_ns(5)) == []
    assert rest(nesting, one_per_ns(5), 0, 5) == pytest.approx(5)


def test_without_samples_nothing_is_covered():
    result = attribute(nested((0, 5, 1)), curve_of_gauge([], []))
    assert result.self_share.tolist() == [0.0]
    assert result.covered_ratio.tolist() == [0.0]


def test_threads_may_be_named_by_any_integers():
    names = np.array([2**62, -(2**62), 2**62, 5])
    nesting = nest([0, 0, 1, 0], [4, 4, 2, 4], names)
    assert nesting.parent.tolist() == [-1, -1, 0, -1]


@pytest.mark.parametrize(
    ("start", "end", "thread"),
    [([5], [4], [1]), ([0, 1], [2], [1]), ([0.5], [1.0], [1]), ([0], [1], [0.5])],
)
def test_impossible_operations_are_refused(start, end, thread):
    with pytest.raises(InvalidValueError):
        nest(start, end, thread)


# The reference: a sweep over elementary segments, in plain Python, that knows no trees.


def trees(operations):
    """Root and innermost order of each operation by the definition, looking at all pairs."""
    order = sorted(
        (i for i, (start, end, _) in enumerate(operations) if end > start),
        key=lambda i: (operations[i][0], -operations[i][1], i),
    )
    root, depth = {}, {}
    for position, i in enumerate(order):
        start, end, thread = operations[i]
        still_open = [
            j for j in order[:position] if operations[j][2] == thread and operations[j][1] > start
        ]
        if still_open and operations[still_open[-1]][1] >= end:
            root[i], depth[i] = root[still_open[-1]], depth[still_open[-1]] + 1
        else:
            root[i], depth[i] = i, 0
    return root, depth


def swept(operations, curve):
    """Self share of each operation and the rest, segment by segment."""
    root, depth = trees(operations)
    cuts = {int(t) for t in curve.t_ns}
    low, high = min(cuts), max(cuts)
    cuts |= {t for start, end, _ in operations for t in (start, end) if low < t < high}
    share, rest = [0.0] * len(operations), 0.0
    cuts = sorted(cuts)
    for first, last in pairwise(cuts):
        segment = int(np.searchsorted(curve.t_ns, first, side="right")) - 1
        length = int(curve.t_ns[segment + 1] - curve.t_ns[segment])
        gain = (curve.total[segment + 1] - curve.total[segment]) * (last - first) / length
        innermost = {}
        for i in root:
            start, end, _ = operations[i]
            if start <= first and last <= end:
                best = innermost.setdefault(root[i], i)
                if depth[i] > depth[best]:
                    innermost[root[i]] = i
        for i in innermost.values():
            share[i] += gain / len(innermost)
        if not innermost:
            rest += gain
    return share, rest, depth


@st.composite
def some_operations(draw):
    """Operations of all kinds: nested, concurrent, crossing, touching, equal, empty, outside."""
    n_threads = draw(st.integers(1, 3))
    longest = draw(st.sampled_from([3, 10, 60]))
    operation = st.tuples(
        st.integers(-10, 60), st.integers(0, longest), st.integers(0, n_threads - 1)
    )
    rows = draw(st.lists(operation, max_size=25))
    if draw(st.booleans()):
        rows.sort()
    return [(start, start + length, thread) for start, length, thread in rows]


@st.composite
def some_curves(draw):
    steps = draw(st.lists(st.integers(1, 12), min_size=2, max_size=12))
    watts = st.floats(0, 20) | st.just(float("nan"))
    values = draw(st.lists(watts, min_size=len(steps), max_size=len(steps)))
    values[0] = values[-1] = 1.0
    return curve_of_gauge(np.cumsum(steps), np.array(values) * 1e9)


@settings(max_examples=300, deadline=None)
@given(some_operations(), some_curves())
@example([(0, 10, 0), (5, 100, 0), (8, 50, 0), (60, 70, 0)], one_per_ns(99))
def test_shares_are_those_of_a_slow_sweep_and_add_up(operations, curve):
    nesting = nested(*operations)
    result = attribute(nesting, curve)
    expected, expected_rest, depth = swept(operations, curve)
    scale = float(curve.total[-1])
    assert result.self_share == pytest.approx(expected, rel=1e-9, abs=1e-9 * scale)
    rest_curve = uncovered(nesting, curve)
    remaining = float(rest_curve.total[-1])
    assert remaining == pytest.approx(expected_rest, rel=1e-9, abs=1e-9 * scale)
    assert result.self_share.sum() + remaining == pytest.approx(scale, rel=1e-9)
    assert nesting.depth.tolist() == [depth.get(i, 0) for i in range(len(operations))]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 400), st.integers(1, 300))
def test_long_threads_with_many_crossings_follow_the_definition(seed, n, longest):
    random = np.random.default_rng(seed)
    start = random.integers(0, 3 * n, n)
    rows = [(int(a), int(a + random.integers(1, longest + 1)), 0) for a in start]
    _, depth = trees(rows)
    assert nested(*rows).depth.tolist() == [depth[i] for i in range(n)]


@settings(max_examples=100, deadline=None)
@given(some_operations(), some_curves(), st.lists(st.integers(-20, 160), min_size=2, max_size=8))
def test_inclusive_shares_are_those_of_the_whole_tree(operations, curve, cuts):
    nesting = nested(*operations)
    result = attribute(nesting, curve)
    below = result.self_share.copy()
    for i in np.argsort(-nesting.depth, kind="stable"):
        if nesting.parent[i] >= 0:
            below[nesting.parent[i]] += below[i]
    assert result.inclusive == pytest.approx(below, rel=1e-9, abs=1e-9 * float(curve.total[-1]))
    # Rests of windows that follow each other add up to the rest of the whole.
    cuts = np.sort(cuts)
    rests, _ = uncovered(nesting, curve).difference(cuts[:-1], cuts[1:])
    whole, _ = uncovered(nesting, curve).difference(cuts[:1], cuts[-1:])
    assert np.nansum(rests) == pytest.approx(np.nansum(whole), rel=1e-9, abs=1e-9)

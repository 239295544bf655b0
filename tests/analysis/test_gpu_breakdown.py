"""What kept GPUs busy: by hand, and against counting every nanosecond."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from wattstep.attribution.gpu_breakdown import (
    KINDS,
    OTHERS,
    Work,
    kernel_times,
    kind_of_work,
    occupancies,
    with_others,
)

Piece = tuple[str, int, int]  # name, begin, end in ns


def work_of(
    pieces: Sequence[Piece],
    processors: Sequence[str] | None = None,
    stretches: Sequence[int] | None = None,
) -> Work:
    """Work of a kind that its name says."""
    names = list(dict.fromkeys(name for name, _, _ in pieces))
    where = processors or ["gpu0"] * len(pieces)
    known = sorted(set(where))
    return Work(
        name=np.array([names.index(name) for name, _, _ in pieces], np.int32),
        names=names,
        processor=np.array([known.index(one) for one in where], np.int32),
        processors=known,
        kind=np.array([KINDS.index(kind_of_work(name)) for name, _, _ in pieces], np.int8),
        start_ns=np.array([start for _, start, _ in pieces], np.int64),
        end_ns=np.array([end for _, _, end in pieces], np.int64),
        stretch=np.array(stretches or [0] * len(pieces), np.int64),
    )


def test_streams_that_overlap_count_each_instant_once() -> None:
    """0-10 compute, 5-20 send beside it, 20-30 nothing, 30-34 copy, 32-40 compute."""
    (one,) = occupancies(
        work_of([("gemm", 0, 10), ("ncclKernel", 5, 20), ("Memcpy HtoD", 30, 34), ("relu", 32, 40)])
    )
    assert one.together_ns == {
        ("computation",): 5 + 6,
        ("computation", "communication"): 5,
        ("communication",): 10,
        ("memory",): 2,
        ("computation", "memory"): 2,
    }
    assert (one.total_ns, one.idle_ns, one.compute_ns, one.other_ns) == (40, 10, 18, 12)


pieces = st.lists(
    st.tuples(
        st.sampled_from(["gemm", "relu", "ncclDevKernel_AllReduce", "Memset (Device)"]),
        st.integers(0, 40),
        st.integers(0, 15),
    ).map(lambda one: (one[0], one[1], one[1] + one[2])),
    min_size=1,
    max_size=12,
)


@given(pieces, st.integers(-(10**18), 10**18))
def test_time_by_kind_is_what_counting_every_nanosecond_gives(
    pieces: list[Piece], shift: int
) -> None:
    at: dict[int, set[str]] = defaultdict(set)
    for name, start, end in pieces:
        for instant in range(start, end):
            at[instant].add(kind_of_work(name))
    expected = Counter(tuple(kind for kind in KINDS if kind in ran) for ran in at.values())
    (found,) = occupancies(work_of([(n, a + shift, b + shift) for n, a, b in pieces]))
    assert found.together_ns == expected
    assert found.total_ns == max(end for _, _, end in pieces) - min(a for _, a, _ in pieces)
    assert found.idle_ns + found.compute_ns + found.other_ns == found.total_ns


@given(pieces)
def test_statistics_of_kernels_are_those_of_their_calls_whatever_is_put_together(
    pieces: list[Piece],
) -> None:
    work = work_of(pieces)
    lengths: dict[str, list[int]] = defaultdict(list)
    for name, start, end in pieces:
        lengths[name].append(end - start)
    for one in kernel_times(work):
        mine = lengths[one.name]
        assert (one.calls, one.total_ns) == (len(mine), sum(mine))
        assert (one.least_ns, one.most_ns) == (min(mine), max(mine))
        assert one.mean_ns == pytest.approx(statistics.fmean(mine))
        if len(mine) > 1:
            assert one.deviation_ns == pytest.approx(statistics.stdev(mine), abs=1e-9)
        else:
            assert one.deviation_ns is None
    for rest in with_others(kernel_times(work), 0):
        mine = [ns for name in lengths for ns in lengths[name] if kind_of_work(name) == rest.kind]
        assert (rest.name, rest.calls, rest.total_ns) == (OTHERS, len(mine), sum(mine))
        assert (rest.least_ns, rest.most_ns) == (min(mine), max(mine))
        if len(mine) > 1:
            assert rest.deviation_ns == pytest.approx(statistics.stdev(mine), abs=1e-9)


def test_a_number_of_kernels_of_each_kind_keeps_its_name() -> None:
    pieces = [("a", 0, 9), ("b", 0, 5), ("c", 0, 3), ("ncclX", 0, 7), ("Memcpy", 0, 1)]
    shown = [(one.name, one.kind) for one in with_others(kernel_times(work_of(pieces)), 1)]
    assert shown == [
        ("a", "computation"), ("ncclX", "communication"), ("Memcpy", "memory"),
        (OTHERS, "computation"),
    ]  # fmt: skip


def test_no_work_is_no_processor_and_no_kernel() -> None:
    assert occupancies(work_of([])) == ()
    assert kernel_times(work_of([])) == ()
    assert with_others((), 10) == ()


def test_work_without_length_takes_no_time_and_is_counted() -> None:
    (one,) = occupancies(work_of([("gemm", 5, 5), ("Memset", 5, 5)]))
    assert (one.pieces, one.total_ns, one.busy_ns, one.together_ns) == (2, 0, 0, {})
    (mixed,) = occupancies(work_of([("gemm", 0, 4), ("relu", 2, 2), ("relu", 9, 9)]))
    assert (mixed.total_ns, mixed.busy_ns) == (9, 4)
    assert {
        one.name: (one.calls, one.total_ns) for one in kernel_times(work_of([("x", 3, 3)]))
    } == {"x": (1, 0)}


def test_each_gpu_and_each_rank_stands_for_itself() -> None:
    where = ["rank 0, gpu0", "rank 1, gpu0", "rank 1, gpu0"]
    found = occupancies(work_of([("gemm", 0, 10), ("gemm", 100, 104), ("gemm", 110, 116)], where))
    assert [(one.processor, one.total_ns, one.idle_ns) for one in found] == [
        ("rank 0, gpu0", 10, 0), ("rank 1, gpu0", 16, 6),
    ]  # fmt: skip
    kernels = kernel_times(work_of([("gemm", 0, 10), ("gemm", 0, 4), ("gemm", 0, 6)], where))
    assert [(one.processor, one.calls) for one in kernels] == [
        ("rank 0, gpu0", 1), ("rank 1, gpu0", 2),
    ]  # fmt: skip


def test_what_was_not_recorded_between_two_stretches_is_not_idle_time() -> None:
    pieces = [("gemm", 0, 10), ("gemm", 12, 20), ("gemm", 1000, 1010)]
    (one,) = occupancies(work_of(pieces, stretches=[0, 0, 1]))
    assert (one.total_ns, one.idle_ns) == (30, 2)


def test_work_that_ends_before_it_begins_is_refused() -> None:
    with refused("backward-interval", "2"):
        work_of([("a", 5, 4), ("b", 0, 1), ("c", 9, 0)])


def test_columns_of_different_length_are_refused() -> None:
    with refused("unequal-lengths"):
        work_of([("a", 0, 1), ("b", 0, 1)], stretches=[0])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "communication"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage)", "communication"),
        ("rcclGenericKernel", "communication"),
        ("Memcpy HtoD (Pageable -> Device)", "memory"),
        ("Memset (Device)", "memory"),
        ("[CUDA memcpy HtoD]", "memory"),
        ("CopyHostToDevice", "memory"),
        ("void at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)", "computation"),
        ("SyncBatchNorm_kernel", "computation"),
        ("", "computation"),
    ],
)
def test_kinds_of_work_by_name(name: str, kind: str) -> None:
    assert kind_of_work(name) == kind


def test_deviations_of_long_calls_that_differ_little_are_not_lost() -> None:
    """Three calls of about a day that differ by 1 ns: squares of the times would hide it."""
    day = 86_400 * 10**9
    (one,) = kernel_times(work_of([("a", 0, day - 1), ("a", 0, day), ("a", 0, day + 1)]))
    assert one.deviation_ns == pytest.approx(1.0)

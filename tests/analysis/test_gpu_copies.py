"""Copies of GPUs by their way, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.analysis.test_gpu_breakdown import work_of
from tests.refusals import refused

from wattstep.attribution.gpu_copies import copies, copies_of, way_of

NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "way", "kind"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "host to device", 3),
        ("Memcpy DtoH (Device -> Pinned)", "device to host", 3),
        ("Memcpy DtoD (Device -> Device)", "within the device", 2),
        ("Memcpy PtoP (Device -> Device)", "device to device", 2),
        ("[CUDA memcpy HtoD]", "host to device", 3),
        ("CopyHostToDevice", "host to device", 3),
        ("CopyDeviceToHost", "device to host", 3),
        ("Memset (Device)", "fill", 1),
        ("FillBuffer", "fill", 1),
        ("[CUDA memset]", "fill", 1),
        ("void at::native::unrolled_elementwise_kernel<at::native::direct_copy>", "", 0),
        ("cudaMemcpyAsync", "", 0),
    ],
)
def test_the_name_says_which_way_a_copy_goes(name: str, way: str, kind: int) -> None:
    assert way_of(name) == way
    assert copies_of([name]).tolist() == [kind]


def test_bytes_and_times_are_summed_by_way() -> None:
    up, down = "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pinned)"
    work = work_of([(up, 0, 100), (down, 50, 60), ("gemm", 0, 500), (up, 200, 350)])
    first, second = copies(work, np.array([4e6, 100.0, NAN, 6e6]))
    assert (first.way, first.count, first.total_ns, first.bytes, first.unknown) == (
        "host to device", 2, 250, 10_000_000, 0,
    )  # fmt: skip
    assert (second.way, second.count, second.total_ns, second.bytes) == (
        "device to host", 1, 10, 100,
    )  # fmt: skip


def test_bytes_that_are_not_known_are_counted() -> None:
    (one,) = copies(work_of([("Memset (Device)", 0, 10)]), np.array([NAN]))
    assert (one.way, one.bytes, one.unknown) == ("fill", 0, 1)
    with refused("unequal-lengths"):
        copies(work_of([("a", 0, 1)]), np.zeros(2))

"""Operations under ceilings, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.device.roofline import place

NAN = float("nan")
PEAK, BANDWIDTH = 100e9, 10e9  # computing binds above 10 FLOP per byte


def placed(seconds: float, flops: float, moved: float, peak: float = PEAK) -> tuple[str, float]:
    found = place(
        *(np.array([value]) for value in (seconds, flops, moved, peak, BANDWIDTH))
    )  # fmt: skip
    return found.bound[0], float(found.share[0])


def test_much_arithmetic_on_few_bytes_is_bound_by_computing() -> None:
    # 1 GFLOP takes 10 ms at the peak, 1 MB 0.1 ms: half of the peak in 20 ms.
    assert placed(0.020, 1e9, 1e6) == ("compute", pytest.approx(0.5))


def test_little_arithmetic_on_many_bytes_is_bound_by_moving() -> None:
    # 10 MB take 1 ms, 1 MFLOP 0.01 ms.
    assert placed(0.002, 1e6, 10e6) == ("memory", pytest.approx(0.5))


def test_far_below_both_ceilings_is_overhead() -> None:
    assert placed(0.100, 1e6, 10e6) == ("overhead", pytest.approx(0.01))


def test_without_flops_moving_alone_is_judged() -> None:
    assert placed(0.002, NAN, 10e6)[0] == "memory"


def test_without_bytes_computing_alone_is_judged() -> None:
    assert placed(0.020, 1e9, NAN)[0] == "compute"


def test_without_either_nothing_is_judged() -> None:
    bound, share = placed(0.02, NAN, NAN)
    assert bound == "unknown"
    assert np.isnan(share)


def test_without_a_ceiling_nothing_is_judged_by_it() -> None:
    assert placed(0.02, 1e9, NAN, peak=NAN)[0] == "unknown"


def test_an_operation_of_no_length_has_no_share() -> None:
    bound, share = placed(0.0, 1e9, 1e6)
    assert bound == "unknown"
    assert np.isnan(share)

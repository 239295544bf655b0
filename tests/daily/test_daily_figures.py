"""Shares, gains and forgetting on samples that were made up; the expected numbers are by hand."""

from __future__ import annotations

import pytest
from tests.refusals import refused

from wattstep.train.daily.figures import paired, share
from wattstep.train.daily.settings import DailySettings
from wattstep.train.daily.split import split


def test_the_interval_of_a_share_is_wilsons() -> None:
    # Newcombe 1998, table I: 81 of 263, 95 %: 0.2553 to 0.3662.
    found = share("1" * 81 + "0" * 182, "made up")
    assert found.value == pytest.approx(81 / 263)
    assert found.low == pytest.approx(0.2553, abs=5e-5)
    assert found.high == pytest.approx(0.3662, abs=5e-5)


def test_a_share_of_all_or_none_stays_within_0_and_1() -> None:
    assert share("1111", "x").high == 1
    assert share("0000", "x").low == 0


def test_a_gain_counts_samples_that_changed_sides() -> None:
    # 10 samples: three are won, one is lost: 0.2; variance (4 - 4 / 10) / 100.
    found = paired("1110100000", "0001100000", "made up")
    assert found.value == pytest.approx(0.2)
    assert found.high == pytest.approx(0.2 + 1.96 * (3.6**0.5) / 10, abs=1e-5)


def test_forgetting_is_what_the_server_part_lost() -> None:
    first, now = "1111111100", "1111110000"
    assert paired(first, now, "made up").value == pytest.approx(0.2)
    assert paired(now, first, "made up").value == pytest.approx(-0.2)


def test_no_two_parts_share_a_sample_and_none_is_left_out() -> None:
    settings = DailySettings(workload="lenet", images_per_day=10, days=4, judged=20)
    parts = split(settings, 100, 50)
    everything = [*parts.server, *(index for day in parts.days for index in day)]
    assert sorted(everything) == list(range(100))
    assert [len(day) for day in parts.days] == [10] * 4
    assert set(parts.remembered) <= set(parts.server)
    assert len(parts.remembered) == len(set(parts.held_out)) == 20
    assert parts == split(settings, 100, 50)
    other = DailySettings(workload="lenet", images_per_day=10, days=4, judged=20, seed=1)
    assert parts != split(other, 100, 50)


def test_too_few_samples_are_refused() -> None:
    settings = DailySettings(workload="lenet", images_per_day=10, days=7)
    with refused("too-few-samples", "7 days", "10 images", "70 samples", "101"):
        split(settings, 101, 50)
    with refused("no-held-out-samples"):
        split(settings, 102, 0)


@pytest.mark.parametrize(("batch", "steps"), [(4, 16), (16, 4), (64, 1), (48, 2)])
def test_a_day_is_one_epoch_of_its_samples(batch: int, steps: int) -> None:
    assert DailySettings(workload="lenet").steps_per_day(batch) == steps


@pytest.mark.parametrize(
    ("setting", "id", "named"),
    [
        ({"days": 0}, "out-of-range", "--days 0"),
        ({"pretrain_seconds": 0.0}, "out-of-range", "--pretrain-seconds 0"),
        ({"pretrain_seconds": float("inf")}, "out-of-range", "--pretrain-seconds inf"),
        ({"pretrain_seconds": float("nan")}, "out-of-range", "--pretrain-seconds nan"),
        ({"pretrain": "loss=1"}, "malformed-goal", "--pretrain loss=1"),
        ({"precision": "int8"}, "unknown-precision", "--precision int8"),
        ({"data_dir": "/no/such/folder"}, "no-such-folder", "--data /no/such/folder"),
    ],
)
def test_settings_that_mean_nothing_are_refused(
    setting: dict[str, object], id: str, named: str
) -> None:
    with refused(id, named):
        DailySettings(workload="lenet", **setting)  # type: ignore[arg-type]

"""Threads divide a share of each operation, and what nobody measured of that is in the interval."""

from __future__ import annotations

from math import log

import pytest
from tests.predicting.steps import family
from tests.refusals import refused

from wattstep import devices
from wattstep.devices.table import Value
from wattstep.predict import predictor_for, threads_of
from wattstep.predict.threads import ESTIMATE, left_of, numbers_up_to, spread_of

PHONE = devices.find("snapdragon-855")


def test_what_is_divided_gets_shorter_and_the_rest_stays() -> None:
    assert left_of(0.8, 4) == pytest.approx(0.2 + 0.8 / 4)
    assert left_of(1.0, 0.5) == 2.0  # of slower cores
    share = Value(value=0.8, low=0.5, high=0.9, basis="estimate", source="made")
    # At four threads 0.4 of the time is left, from 0.325 to 0.625.
    assert spread_of(share, 4) == pytest.approx(log(0.625 / 0.4))
    assert spread_of(share, 1) == 0


def test_numbers_of_threads_are_powers_of_two_and_all_cores() -> None:
    assert numbers_up_to(6) == (1, 2, 4, 6)
    assert numbers_up_to(1) == (1,)


def test_a_phone_takes_its_fastest_cores_first() -> None:
    plain = predictor_for(family(), PHONE, engine="mnn")
    one, four, eight = (plain.with_threads(number).at(4) for number in (1, 4, 8))
    assert four.time.total == plain.at(4).time.total  # those that values are of
    # A prime core of 2.842 GHz, three of 2.419, four of 1.786 with half as much a cycle.
    prime, gold, silver = 16 * 2.842e9, 16 * 2.419e9, 8 * 1.786e9
    slower = (prime + 3 * gold) / prime
    left = 1 - ESTIMATE.value + ESTIMATE.value * slower
    assert one.time.total == pytest.approx(left * four.time.total, rel=0.01)
    faster = (prime + 3 * gold + 4 * silver) / (prime + 3 * gold)
    assert eight.time.total == pytest.approx(left_of(0.85, faster) * four.time.total, rel=0.01)
    assert one.load["cpu"] < four.load["cpu"] < eight.load["cpu"] == pytest.approx(1)
    assert one.reach["step_time"] > four.reach["step_time"]
    assert any("with 1 threads" in note for note in one.notes)


def test_threads_beyond_the_cores_and_of_a_gpu_are_refused() -> None:
    with refused("out-of-range", "8 cores"):
        predictor_for(family(), PHONE, engine="mnn").with_threads(9)
    with refused("out-of-range", "its GPU"):
        predictor_for(family(), devices.find("jetson-tx2")).with_threads(2)


def test_who_trains_on_a_cpu_has_threads_to_choose() -> None:
    assert threads_of(PHONE, "mnn") == 4
    assert threads_of(devices.find("jetson-tx2"), None) is None
    assert threads_of(devices.find("raspberry-pi-4"), "torch") == 1

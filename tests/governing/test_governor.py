"""The governor by played trainings whose optimum is known by hand: what it holds, and when it does not."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.governing.played import CAP, HIGHEST, Played
from tests.wording import assert_says

from wattstep.errors import RecordingError
from wattstep.schema.figure import Status
from wattstep.train.governor.policy import Block, choose, fit, survey_shares

# Half of a step's 20 ms goes with the clock: at the share s it takes 10 + 10/s ms. Slowed by a tenth,
# s is 10/12. The device takes 2 W, and 8 W more with the cube of the clock: a step's energy,
# (10 + 10/s)(2 + 8 s³) mJ, falls from 200 mJ at s = 1 to 145.9 mJ there and goes on falling.
LIMIT = 10 / 12


def half(share: float, at_s: float = 0.0) -> float:
    return 0.01 + 0.01 / share


def cubic(share: float, at_s: float = 0.0) -> float:
    return 2 + 8 * share**3


def saving(share: float) -> float:
    return 1 - half(share) * cubic(share) / (half(1.0) * cubic(1.0))


def covers(figure: dict[str, Any], value: float) -> bool:
    return bool(figure["low"] - 1e-6 <= value <= figure["high"] + 1e-6)


def test_the_cap_of_least_energy_within_the_slowdown_is_held() -> None:
    played = Played(half, cubic)
    look = played.decided(played.governor())
    # A hundredth apart, and a tenth of the slowdown away from the limit: 0.09 slower at 10/11.8.
    assert look["share"] == pytest.approx(math.ceil(100 * 10 / 11.8) / 100)
    assert played.share == look["share"] == pytest.approx(played.set_to[-1] / HIGHEST)
    assert covers(look["slower"], half(look["share"]) / half(1.0) - 1)
    assert covers(look["saving"], saving(look["share"]))
    assert look["slower"]["high"] < 0.1
    assert look["step_s"] == pytest.approx([0.01, 0.01], rel=1e-6)
    assert look["reason"] == ""
    assert look["last_step"] == played.index - 1
    assert played.traced == ["paused", "resumed"]


def test_the_optimum_within_the_slowdown_may_lie_above_its_limit() -> None:
    # All of a step goes with the clock, and only 8 of 10 W with its cube: (2 + 8 s³)/s is least
    # where 16 s³ = 2, at s = 0.5, well within a slowdown of 150 % (s = 0.4).
    played = Played(lambda share, _: 0.02 / share, cubic)
    look = played.decided(played.governor(1.5))
    assert look["share"] == pytest.approx(0.5, abs=0.02)
    assert covers(look["saving"], 1 - (2 + 8 * look["share"] ** 3) / look["share"] / 10)


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_beside_noise_the_intervals_hold_the_truth_and_the_limit_is_kept(noise: float) -> None:
    missed = beyond = 0
    for seed in range(20):
        played = Played(half, cubic, noise=noise, seed=seed)
        look = played.decided(played.governor())
        tested = look["tested"]
        missed += not covers(look["slower"], half(tested) / half(1.0) - 1)
        missed += not covers(look["saving"], saving(tested))
        beyond += look["share"] < 1 and half(look["share"]) > 1.1 * half(1.0)
    assert missed <= 5  # of 40 intervals of 95 %; more come once in seventy such tests
    assert beyond <= 1


def test_what_drifts_evenly_falls_out() -> None:
    # The machine gets slower by a thousandth a second whatever the clock is.
    played = Played(lambda share, at_s: half(share) * (1 + 1e-3 * at_s), cubic)
    look = played.decided(played.governor())
    assert look["share"] == pytest.approx(0.85, abs=0.011)
    assert look["slower"]["value"] == pytest.approx(half(look["share"]) / half(1.0) - 1, abs=1e-3)


def test_where_nothing_is_saved_the_device_is_left_alone() -> None:
    # Power that no clock changes: a slower step only takes it for longer.
    played = Played(half, lambda share, at_s: 5.0)
    look = played.decided(played.governor())
    assert look["share"] == 1
    assert "no cap saves" in look["reason"]
    assert played.set_to[-1] == HIGHEST


def test_a_saving_within_the_noise_is_no_saving() -> None:
    # 1 % less power at a slowdown of none: true, and not to be seen in steps that differ by half.
    played = Played(lambda share, _: 0.02, lambda share, _: 10 - (1 - share), noise=0.5)
    look = played.decided(played.governor())
    assert look["share"] == 1
    assert played.set_to[-1] == HIGHEST
    if look["tested"] is not None:
        assert "noise" in look["reason"] or "no energy" in look["reason"]


def test_a_slowdown_that_the_fit_did_not_see_coming_is_seen_by_the_pairs() -> None:
    # A cliff that no law of the clock has: below 0.9 of it a step takes half as long again.
    played = Played(lambda share, _: 0.02 * (1.5 if share < 0.9 else 1.0), cubic)
    look = played.decided(played.governor())
    assert look["share"] == 1 or look["share"] >= 0.9
    assert half(1.0) >= 0.02


def test_only_clocks_that_the_driver_offers_are_set() -> None:
    offered = (400_000, 800_000, 1_200_000, 1_600_000, 1_800_000, 2_000_000)
    played = Played(half, cubic)
    look = played.decided(played.governor(offered=offered))
    assert set(played.set_to) <= set(offered)
    assert look["share"] == pytest.approx(0.9)  # 1.6 GHz would be 12.5 % slower


def test_a_device_with_one_clock_is_left_alone() -> None:
    played = Played(half, cubic)
    look = played.decided(played.governor(offered=(2_000_000,)))
    assert look["share"] == 1
    assert "no cap below" in look["reason"]
    assert played.set_to == []


def test_sensors_that_fall_silent_leave_the_device_alone() -> None:
    played = Played(half, lambda share, at_s: math.nan)
    look = played.decided(played.governor())
    assert look["share"] == 1
    assert "gave no values" in look["reason"]


def test_steps_unlike_the_others_are_in_no_block() -> None:
    played = Played(half, cubic)
    governor = played.governor()
    seconds = played.step_s
    for number in range(9000):
        if not governor.looking:
            break
        apart = number % 10 == 0
        played.step_s = (lambda share, at_s: 0.3) if apart else seconds
        played.step(governor, counts=not apart)
    assert played.looks()[-1]["share"] == pytest.approx(0.85, abs=0.011)
    for block in played.looks()[-1]["blocks"]:
        assert block["seconds"] / block["steps"] == pytest.approx(half(block["share"]))
        assert block["joules"] / block["seconds"] == pytest.approx(cubic(block["share"]))


def test_another_phase_is_looked_at_anew() -> None:
    # After 300 s the training waits for memory alone: no clock slows it.
    def phases(share: float, at_s: float) -> float:
        return half(share) if at_s < 300 else 0.03

    played = Played(phases, cubic)
    governor = played.governor()
    first = played.decided(governor)
    while not governor.looking and played.index < 100_000:
        played.step(governor)
    assert (played.now_ns - 10**9) * 1e-9 == pytest.approx(320, abs=15)  # two windows of 10 s
    second = played.decided(governor)
    assert first["share"] == pytest.approx(0.85, abs=0.011)
    assert second["share"] == pytest.approx(0.6)  # the lowest of the survey for 10 %
    assert len(played.looks()) == 2


def test_a_training_that_stays_as_it_is_is_looked_at_once() -> None:
    played = Played(half, cubic, noise=0.05)
    governor = played.governor()
    played.decided(governor)
    for _ in range(10_000):
        played.step(governor)
    assert len(played.looks()) == 1


def test_clocks_that_somebody_else_sets_end_the_governing() -> None:
    played = Played(half, cubic)
    governor = played.governor()
    played.decided(governor)
    played.others = HIGHEST
    for _ in range(1000):
        played.step(governor)
    assert played.looks()[-1]["given_up"] > played.looks()[-1]["last_step"]
    assert_says(played.notes[0], "policy0/scaling_max_freq", 2000000)


def test_a_clock_that_is_not_taken_ends_the_governing_and_not_the_training() -> None:
    played = Played(half, cubic)
    governor = played.governor()

    def refuse(values: Any) -> None:
        raise RecordingError(f"{CAP} does not take it")

    played.cap = refuse  # type: ignore[method-assign]
    for _ in range(200):
        played.step(governor)
    assert not governor.looking
    assert "gave up" in played.notes[0]
    assert played.looks()[-1]["last_step"] is not None
    assert played.traced == ["paused", "resumed"]


def test_what_is_no_training_has_no_cap() -> None:
    played = Played(half, cubic)
    governor = played.governor()
    played.decided(governor)
    cap = played.set_to[-1]
    with governor.released():
        assert played.set_to[-1] == HIGHEST > cap
    assert played.set_to[-1] == cap
    assert [share for _, share in played.info.conditions["governor"]["caps"]][-1] == cap / HIGHEST


def test_a_training_that_ends_first_says_so() -> None:
    played = Played(half, cubic)
    governor = played.governor()
    for _ in range(30):
        played.step(governor)
    governor.close()
    assert "ended before" in played.looks()[-1]["reason"]
    assert played.looks()[-1]["last_step"] == 29


def test_modelled_times_make_no_measured_slowdown() -> None:
    played = Played(half, cubic, status=Status.MODELLED)
    look = played.decided(played.governor())
    assert look["slower"]["status"] == "measured"
    assert look["saving"]["status"] == "modelled"


# --- the fit ------------------------------------------------------------------------------------


def test_the_fit_finds_the_laws_that_blocks_were_made_by() -> None:
    shares = (1.0, 0.9, 0.8, 0.7, 0.6)
    blocks = [
        Block(share=s, steps=10, seconds=10 * half(s), joules=10 * half(s) * cubic(s))
        for s in shares
    ]
    law = fit(blocks)
    assert law.time == pytest.approx((0.01, 0.01))
    assert law.power == pytest.approx((2.0, 0.0, 8.0), abs=1e-9)
    assert law.step_j(0.5) == pytest.approx(0.03 * 3.0)
    assert choose(law, 0.1, [0.5, 0.8, 0.9, 1.0]) == 0.9
    assert choose(law, 0.1, [0.8, 1.0]) is None


@pytest.mark.parametrize("allowed", [0.01, 0.1, 0.5])
def test_the_survey_spans_what_may_be_chosen(allowed: float) -> None:
    offered = [n / 1000 for n in range(200, 1001)]
    shares = survey_shares(allowed, offered)
    # Where all of a step goes with the clock, and where 15 % of it does.
    assert shares[0] == pytest.approx(1 / (1 + allowed), abs=1e-3)
    assert shares[-1] == pytest.approx(max(0.15 / (0.15 + allowed), 0.2), abs=1e-3)
    assert list(shares) == sorted(shares, reverse=True)

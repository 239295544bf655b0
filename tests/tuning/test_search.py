"""The search finds the best of a known landscape through noise and drift, and claims nothing where nothing is better."""

from __future__ import annotations

import math
from itertools import product

import pytest
from tests.refusals import refused
from tests.tuning.made import MadeBench
from tests.wording import assert_says

from wattstep.tune.search import Search
from wattstep.tune.space import DEFAULT, Candidate, Value
from wattstep.tune.turns import BEGIN_STEPS, CURVE_STEPS, Ask, Turn
from wattstep.tune.verdict import Tuned

VALUES: dict[str, tuple[Value, ...]] = {
    "threads": (1,),
    "channels_last": (True,),
    "optimizer_kernel": ("fused", "foreach"),
    "allocator": ("keep", "keep-huge"),
    "compiled": (True,),
    "interop_threads": (1,),
}
FACTORS = {
    ("threads", 1): 1.3,
    ("channels_last", True): 0.9,
    ("optimizer_kernel", "fused"): 0.95,
    ("optimizer_kernel", "foreach"): 1.02,
    ("allocator", "keep"): 0.85,
    ("allocator", "keep-huge"): 0.8,
    ("compiled", True): 1.1,
    ("interop_threads", 1): 1.0,
}


BEST = {"channels_last": True, "optimizer_kernel": "fused", "allocator": "keep-huge"}


def every() -> list[Candidate]:
    """The whole product: 2 · 2 · 3 · 3 · 2 · 2 = 144 ways."""
    ways = []
    for chosen in product(*([None, *values] for values in VALUES.values())):
        candidate = DEFAULT
        for name, value in zip(VALUES, chosen, strict=True):
            candidate = candidate if value is None else candidate.with_value(name, value)
        ways.append(candidate)
    return ways


def test_the_best_of_144_ways_is_found_without_noise() -> None:
    bench = MadeBench(FACTORS)
    tuned = Search(VALUES, bench).run()
    assert tuned.chosen is not None
    # 0.9 · 0.95 · 0.8, by hand; threads between operations change nothing, and the plainer way is first.
    assert dict(tuned.chosen.candidate.changes) == BEST
    assert tuned.chosen.ratio.value == pytest.approx(0.684)


@pytest.mark.parametrize("seed", range(10))
def test_within_5_percent_of_the_best_through_noise_drift_and_pairs_that_do_not_add_up(
    seed: int,
) -> None:
    bench = MadeBench(
        FACTORS,
        together={
            frozenset({"channels_last", "compiled"}): 0.8,
            frozenset({"channels_last", "optimizer_kernel"}): 1.04,
        },
        noise=0.05, of_process=0.01, drift=0.001, seed=seed,
    )  # fmt: skip
    tuned = Search(VALUES, bench).run()
    best = min(map(bench.cost, every()))  # by exhausting all 144
    assert tuned.chosen is not None
    # Compiling alone costs 10 %, and gains 12 % beside channels last.
    assert bench.cost(tuned.chosen.candidate) <= best * 1.05


def test_it_takes_less_than_a_tenth_of_the_steps_of_an_exhaustive_search() -> None:
    bench = MadeBench(FACTORS, noise=0.03)
    tuned = Search(VALUES, bench).run()
    # Exhausting: each of 144 in 10 turns of 20 steps, as long as the search's own turns are here.
    assert tuned.steps == sum(ask.steps for ask in bench.asks)
    assert tuned.steps < 144 * 10 * 20 / 10


def test_where_nothing_is_better_the_default_is_kept_but_for_1_in_20_false_alarms() -> None:
    null = dict.fromkeys(FACTORS, 1.0)
    alarms = 0
    for seed in range(200):
        bench = MadeBench(null, noise=0.1, of_process=0.03, drift=0.0005, seed=seed)
        alarms += Search(VALUES, bench).run().chosen is not None
    # A claim is one side of a 95 % interval, 2.5 % of 200 = 5; 12 or more of 200 at 2.5 % has a chance of 0.5 %.
    assert alarms < 12


def test_threads_that_are_a_trap_are_left_first_and_the_rest_is_told_beside_them() -> None:
    factors = {**FACTORS, ("threads", 1): 0.01}
    bench = MadeBench(factors, noise=0.05, step_s=1.0)
    tuned = Search(VALUES, bench).run()
    assert tuned.chosen is not None
    # Threads between operations change nothing: with them or without.
    assert dict(tuned.chosen.candidate.changes).items() >= {"threads": 1, **BEST}.items()
    assert float(tuned.chosen.ratio) == pytest.approx(0.00684, rel=0.1)
    single = DEFAULT.with_value("threads", 1).with_value("compiled", True)
    assert tuned.seen[single] == pytest.approx(0.011, rel=0.2)  # against the default, not the base


POLICIES: dict[str, tuple[Value, ...]] = {
    **VALUES, "policy": ("default", "per-kind", "fill", "co-run", "critical-path")
}  # fmt: skip


@pytest.mark.parametrize("policy", [0.8, 0.95])
def test_knobs_that_exclude_each_other_cost_no_other_combination(policy: float) -> None:
    factors = {**FACTORS, **{("policy", each): policy for each in POLICIES["policy"]}}
    factors["interop_threads", 1] = 0.97
    apart = frozenset({"channels_last", "policy"})
    bench = MadeBench(factors, apart=apart)
    tuned = Search(POLICIES, bench).run()
    # 0.95 · 0.8 · 0.97 and the better one of the two: 0.8 or 0.95 by a policy, 0.9 by channels last.
    assert tuned.chosen is not None
    assert tuned.chosen.ratio.value == pytest.approx(0.95 * 0.8 * 0.97 * min(policy, 0.9))
    tried = {ask.candidate for ask in bench.asks if apart <= dict(ask.candidate.changes).keys()}
    assert len(tried) <= 12


def test_two_combinations_that_are_left_of_the_most_promising_take_their_turns() -> None:
    # By their parts six of the first eight have a policy, which excludes channels last.
    factors = {
        ("channels_last", True): 0.95, ("optimizer_kernel", "fused"): 0.97,
        ("optimizer_kernel", "foreach"): 0.9, ("allocator", "keep"): 0.9, ("allocator", "keep-huge"): 0.901,
        ("policy", "default"): 0.975, ("policy", "critical-path"): 0.976, ("interop_threads", 1): 0.97,
    }  # fmt: skip
    values: dict[str, tuple[Value, ...]] = {}
    for name, value in factors:
        values[name] = (*values.get(name, ()), value)
    tuned = Search(values, MadeBench(factors, apart=frozenset({"channels_last", "policy"}))).run()
    assert tuned.chosen is not None
    assert tuned.chosen.ratio.value == pytest.approx(0.95 * 0.9 * 0.9 * 0.97)


def test_drift_alone_makes_nothing_better() -> None:
    bench = MadeBench(dict.fromkeys(FACTORS, 1.0), drift=0.002)
    tuned = Search(VALUES, bench).run()
    for measured in tuned.measured:
        # Forth and back, so that linear drift cancels; 1 % is what the curvature of 0.2 % a turn leaves.
        assert float(measured.ratio) == pytest.approx(1.0, abs=0.01)


def test_what_learns_something_else_is_refused_by_name_unless_losses_are_allowed() -> None:
    def bench() -> MadeBench:
        return MadeBench(FACTORS, curves={"channels_last": 1e-3})

    tuned = Search(VALUES, bench()).run()
    (candidate,) = tuned.refused
    assert candidate.text == "channels last"
    assert_says(tuned.refused[candidate], "step 1", "2.001", "not 2")
    assert tuned.chosen is not None
    assert dict(tuned.chosen.candidate.changes) == {
        "optimizer_kernel": "fused",
        "allocator": "keep-huge",
    }
    allowed = Search(VALUES, bench(), allow={"losses"}).run()
    assert not allowed.refused
    assert allowed.chosen is not None
    assert "channels last" in allowed.chosen.candidate.text


@pytest.mark.parametrize(
    ("knob", "allow"), [("channels_last", "losses"), ("precision", "precision")]
)
def test_losses_that_are_no_numbers_are_refused_whatever_is_allowed(knob: str, allow: str) -> None:
    values = {**VALUES, "precision": ("bf16",)}
    factors = {**FACTORS, ("precision", "bf16"): 0.5}
    tuned = Search(values, MadeBench(factors, curves={knob: math.nan}), allow={allow}).run()
    (candidate,) = tuned.refused
    assert [name for name, _ in candidate.changes] == [knob]
    assert_says(tuned.refused[candidate], "step 1", "nan")
    assert tuned.chosen is not None
    assert knob not in dict(tuned.chosen.candidate.changes)


LOW: dict[tuple[str, Value], float] = {
    ("precision", "bf16"): 0.5,
    ("allocator", "keep"): 0.8,
    ("optimizer_kernel", "fused"): 0.9,
}
LOW_VALUES: dict[str, tuple[Value, ...]] = {
    "precision": ("bf16",), "allocator": ("keep",), "optimizer_kernel": ("fused",)
}  # fmt: skip


def low(bench: MadeBench) -> Tuned:
    return Search(LOW_VALUES, bench, allow={"precision"}).run()


def test_what_is_added_to_a_permitted_precision_is_compared_with_that_precision_alone() -> None:
    values = {name: LOW_VALUES[name] for name in ("precision", "allocator")}
    tuned = Search(values, MadeBench(LOW, curves={"precision": 0.1}), allow={"precision"}).run()
    assert tuned.chosen is not None
    assert dict(tuned.chosen.candidate.changes) == {"precision": "bf16", "allocator": "keep"}
    assert tuned.compared == BEGIN_STEPS
    assert tuned.uncompared == (DEFAULT.with_value("precision", "bf16"),)  # with nothing added
    plain = Search({"allocator": ("keep",)}, MadeBench(LOW), allow={"precision"}).run()
    assert (plain.compared, plain.uncompared) == (BEGIN_STEPS, ())


def test_what_learns_something_else_in_a_permitted_precision_is_refused() -> None:
    # An optimizer left out, say: 0.01 of a loss of 2.1, where rounding of bfloat16 makes 30 times 1e-4.
    curves = {"precision": 0.1, "precision+optimizer_kernel": 0.01}
    tuned = low(MadeBench(LOW, curves=curves, roundings={"precision": 1e-4}))
    assert tuned.chosen is not None
    assert dict(tuned.chosen.candidate.changes) == {"precision": "bf16", "allocator": "keep"}
    both = DEFAULT.with_value("precision", "bf16").with_value("optimizer_kernel", "fused")
    assert_says(tuned.refused[both], "2.11", "2.1", "bf16")
    assert DEFAULT.with_value("optimizer_kernel", "fused") not in tuned.refused


def test_what_a_permitted_precision_would_hide_is_seen_without_it() -> None:
    # Two knobs that learn something else together: 0.01, where rounding of bfloat16 explains 30 times 1e-3.
    curves = {"precision": 0.1, "allocator+optimizer_kernel": 0.01}
    bench = MadeBench(LOW, curves=curves, roundings={"precision": 1e-3})
    tuned = low(bench)
    assert tuned.chosen is not None
    assert dict(tuned.chosen.candidate.changes) == {"precision": "bf16", "allocator": "keep"}
    pair = DEFAULT.with_value("allocator", "keep").with_value("optimizer_kernel", "fused")
    assert_says(tuned.refused[pair.with_value("precision", "bf16")], "2.01", "bf16")
    asked = [ask for ask in bench.asks if ask.candidate == pair]
    assert len(asked) == len(
        {ask.key for ask in asked}
    )  # none twice, which a resumed tune would not tell apart


def test_what_has_no_room_but_in_a_permitted_precision_is_held_against_that_alone() -> None:
    class Narrow(MadeBench):
        def measure(self, ask: Ask) -> Turn:
            names = {name for name, _ in ask.candidate.changes}
            if names == {"allocator", "optimizer_kernel"}:
                return Turn(refused="no memory is left")
            return super().measure(ask)

    tuned = low(Narrow(LOW, curves={"precision": 0.1}))
    assert tuned.chosen is not None
    assert set(dict(tuned.chosen.candidate.changes)) == set(LOW_VALUES)


def test_differences_that_rounding_explains_are_none() -> None:
    # One rounding moves the loss by 1e-7: 30 times that is 3e-6, and the floor is 1e-5 of a loss of 2.
    tuned = Search(VALUES, MadeBench(FACTORS, curves={"channels_last": 1.9e-5})).run()
    assert not tuned.refused
    tuned = Search(VALUES, MadeBench(FACTORS, curves={"channels_last": 2.1e-5})).run()
    assert [each.text for each in tuned.refused] == ["channels last"]


def test_what_cannot_be_trained_is_refused_with_its_reason_and_the_rest_goes_on() -> None:
    bench = MadeBench(FACTORS, refused={"allocator": "memory ran out"})
    tuned = Search(VALUES, bench).run()
    assert set(tuned.refused.values()) == {"memory ran out"}
    assert tuned.chosen is not None
    assert set(dict(tuned.chosen.candidate.changes)) == {"channels_last", "optimizer_kernel"}


def test_a_default_that_cannot_be_trained_ends_the_search() -> None:
    class Broken:
        def measure(self, ask: Ask) -> Turn:
            return Turn(refused="nodata")

    with refused("not-trainable", "nodata"):
        Search(VALUES, Broken()).run()


def test_energy_that_nothing_tells_is_no_goal() -> None:
    with refused("tune-needs-power", "--power-model"):
        Search(VALUES, MadeBench(FACTORS), goal="energy").run()


def test_every_candidate_begins_anew_and_finalists_are_compared_for_longer() -> None:
    bench = MadeBench(FACTORS)
    Search(VALUES, bench).run()
    begun = {ask.candidate for ask in bench.asks if ask.begin}
    assert begun == {ask.candidate for ask in bench.asks}
    assert {ask.steps for ask in bench.asks if ask.begin} == {BEGIN_STEPS, CURVE_STEPS}
    keys = [ask.key for ask in bench.asks]
    assert len(set(keys)) == len(keys)  # by which a killed tune goes on


class Clock:
    """Seconds that pass with each look, and so with each ask."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.1
        return self.now


def test_shares_grow_and_the_same_turns_lead_to_the_same_answer() -> None:
    shares: list[float] = []
    first = Search(
        VALUES, MadeBench(FACTORS, noise=0.1, seed=3), tell=lambda _, share: shares.append(share), clock=Clock(),
    ).run()  # fmt: skip
    again = Search(VALUES, MadeBench(FACTORS, noise=0.1, seed=3)).run()
    assert first == again
    assert 0 < shares[0] < 0.1
    assert shares[-1] == 0.99


def test_what_was_measured_before_is_no_share_of_what_is_left() -> None:
    shares: list[float] = []
    still = 5.0  # as fast as what is read from a file
    Search(
        VALUES, MadeBench(FACTORS), tell=lambda _, share: shares.append(share), clock=lambda: still
    ).run()
    assert set(shares[:-1]) == {0.0}


def test_threads_that_everybody_had_by_then_and_that_crash_are_left() -> None:
    factors = {**FACTORS, ("threads", 1): 0.01}
    # It begins, takes three turns alone, and crashes in a turn beside others.
    bench = MadeBench(factors, noise=0.02, step_s=0.5, crashing={"threads": 12})
    tuned = Search(VALUES, bench).run()
    assert any("signal 11" in why for why in tuned.refused.values())
    assert tuned.chosen is not None
    assert dict(tuned.chosen.candidate.changes) == BEST


@pytest.mark.parametrize("turns", [0, 1, 5, 12, 30, 50])
def test_a_knob_that_crashes_at_any_time_is_refused_and_the_rest_is_found(turns: int) -> None:
    bench = MadeBench(FACTORS, noise=0.02, crashing={"allocator": turns})
    tuned = Search(VALUES, bench).run()
    assert any("signal 11" in why for why in tuned.refused.values())
    assert tuned.chosen is not None
    # What does nothing may be beside them.
    assert bench.cost(tuned.chosen.candidate) == pytest.approx(0.9 * 0.95)


def test_a_default_that_crashes_ends_the_search_at_any_time() -> None:
    class Dying:
        def __init__(self, turns: int) -> None:
            self._bench, self._turns = MadeBench(FACTORS), turns

        def measure(self, ask: Ask) -> Turn:
            self._turns -= ask.candidate == DEFAULT
            return Turn(refused="killed") if self._turns < 0 else self._bench.measure(ask)

    for turns in (0, 1, 2, 3, 5, 8, 10):
        with refused("not-trainable", "killed"):
            Search(VALUES, Dying(turns)).run()


def test_noise_as_large_as_any_gain_makes_no_claim_that_is_none() -> None:
    worse = dict.fromkeys(FACTORS, 1.05)
    claims = [
        Search(VALUES, MadeBench(worse, noise=0.1, bursts=0.5, of_process=0.1, seed=seed)).run().chosen
        for seed in range(40)
    ]  # fmt: skip
    # Of 40 at 2.5 % at most, 5 or more have a chance of 0.3 %.
    assert sum(chosen is not None for chosen in claims) < 5


def test_a_machine_that_grows_slower_or_jumps_makes_nothing_better() -> None:
    null = dict.fromkeys(FACTORS, 1.0)
    claims = [
        Search(VALUES, MadeBench(null, noise=0.05, drift=0.01, walk=0.05, seed=seed)).run().chosen
        for seed in range(40)
    ]
    assert sum(chosen is not None for chosen in claims) < 5


def test_what_a_begin_takes_longer_is_stated_with_the_step_from_which_on_it_has_paid() -> None:
    bench = MadeBench({("compiled", True): 0.5}, noise=0.01, begin_s={"compiled": 12.0})
    tuned = Search({"compiled": (True,)}, bench).run()
    assert tuned.chosen is not None
    begin, earned = tuned.chosen.begin, tuned.chosen.earned
    assert begin.low is not None
    assert begin.high is not None
    assert begin.low <= 12.0 <= begin.high
    # 12 s over the half of 20 ms.
    assert float(earned) == pytest.approx(1200, rel=0.02)
    assert earned.low is not None
    assert earned.high is not None
    assert earned.low < 1200 < earned.high
    assert tuned.measured[0].begin.missing
    plain = Search({"compiled": (True,)}, MadeBench({("compiled", True): 0.5}, noise=0.01)).run()
    assert plain.chosen is not None
    assert_says(plain.chosen.earned.reason or "", "no longer")
    slower = MadeBench({("compiled", True): 1.005}, noise=0.001, begin_s={"compiled": 12.0})
    compiled = Search({"compiled": (True,)}, slower).run().measured[1]
    assert_says(compiled.earned.reason or "", "not shorter")


def test_energy_is_of_the_status_of_its_power_and_a_turn_without_samples_is_none() -> None:
    bench = MadeBench(FACTORS, noise=0.01, unpowered=7)
    tuned = Search(VALUES, bench, goal="energy").run()
    assert tuned.chosen is not None
    assert dict(tuned.chosen.candidate.changes) == BEST
    assert tuned.chosen.ratio.status.value == "modelled"  # as the bench's joules are
    assert tuned.chosen.energy.status.value == "modelled"
    assert tuned.chosen.step_time.status.value == "measured"
    assert tuned.chosen.ratio.n < 6


def test_a_plan_begins_with_the_steps_that_it_takes_before_it_holds() -> None:
    bench = MadeBench({("policy", "default"): 0.8})
    tuned = Search({"policy": ("default",)}, bench).run()
    assert tuned.chosen is not None
    begins = {ask.steps for ask in bench.asks if ask.begin and ask.candidate != DEFAULT}
    assert begins == {BEGIN_STEPS + 2}

"""The best plan on a device of round numbers is the one that is worked out by hand, and no other."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import exp, log
from statistics import NormalDist
from typing import Any

import pytest
from tests.planning.made import GPU_W, SAMPLE_S, capture, device, plan, twice
from tests.predicting.steps import step
from tests.refusals import refused

from wattstep.errors import InvalidValueError
from wattstep.plan import Estimate, Plan
from wattstep.plan.budget import parse_period
from wattstep.plan.costs import chance_of
from wattstep.schema.figure import Figure, Status
from wattstep.schema.step_graph import StepFamily
from wattstep.schema.workload import Preparation

CHECKED = 1e-4  # traffic and the zeros that gradients are set to take next to nothing


def costs(estimate: Estimate, *names: str) -> list[float]:
    return [float(estimate.figures[name]) for name in names]


def one(made: Plan, text: str) -> Estimate:
    (match,) = (each for each in made.estimates if each.configuration.text == text)
    return match


@pytest.mark.parametrize("name", ["batch 16", "batch 4 × 4", "batch 1 × 16"])
def test_time_energy_battery_and_heat_of_a_session_are_as_worked_out(name: str) -> None:
    made = plan(device(), samples=64)
    seconds, watts = 64 * SAMPLE_S, 1.0 + GPU_W
    time, energy, battery, temperature = costs(
        one(made, name), "time", "energy", "battery", "temperature"
    )
    assert time == pytest.approx(seconds, rel=CHECKED)
    assert energy == pytest.approx(seconds * watts, rel=CHECKED)
    assert battery == pytest.approx(seconds * watts / 10_000, rel=CHECKED)
    # From 20 + 10 × 1 °C towards 20 + 10 × watts, by 1 - 1/e in 100 s.
    end = 20 + 10 * watts - 10 * (watts - 1) * exp(-seconds / 100)
    assert temperature == pytest.approx(end, rel=CHECKED)


def test_each_batch_has_its_gaps_and_the_update_one_more() -> None:
    made = plan(device(gap_s=0.5), samples=64)
    for batch, accumulate in ((16, 1), (8, 2), (4, 4), (1, 16)):
        name = f"batch {batch}" + f" × {accumulate}" * (accumulate > 1)
        (seconds,) = costs(one(made, name), "step_time")
        assert seconds == pytest.approx(16 * SAMPLE_S + 0.5 * (3 * accumulate + 1), rel=CHECKED)


def test_half_the_clock_is_chosen_where_little_else_draws_power_and_no_other() -> None:
    # A second at full clock takes 1 + 5.11 W; two at half, with a quarter of the power, 2 × (1 + 1.28) W.
    little = plan(device(idle_w=1.0)).chosen
    assert little is not None
    assert little.configuration.mode == "half"
    # With 5 W beside it: 5 + 5.11 against 2 × (5 + 1.28).
    much = plan(device(idle_w=5.0)).chosen
    assert much is not None
    assert much.configuration.mode is None


def test_a_mode_that_is_none_of_the_maker_s_is_said_with_how_it_is_set() -> None:
    plain = device(idle_w=1.0)
    by_root = replace(
        plain,
        modes={name: replace(mode, set_by="root alone") for name, mode in plain.modes.items()},
    )
    for one_device, said in ((plain, False), (by_root, True)):
        (line,) = (line for line in plan(one_device).risks if "mode half" in line)
        assert ("root alone" in line) == said


def test_a_limit_of_time_takes_the_slow_mode_away() -> None:
    seconds = 64 * SAMPLE_S
    half = plan(device(), budget=f"{3 * seconds:.0f} s").chosen
    full = plan(device(), budget=f"{1.7 * seconds:.0f} s").chosen
    assert half is not None
    assert full is not None
    assert (half.configuration.mode, full.configuration.mode) == ("half", None)


def test_probabilities_are_those_of_the_interval() -> None:
    made = plan(device(), budget="40 s")
    figure = one(made, "batch 16").figures["time"]
    assert figure.high is not None
    deviation = log(figure.high / float(figure)) / NormalDist().inv_cdf(0.95)
    by_hand = NormalDist().cdf(log(40 / float(figure)) / deviation)
    (verdict,) = (each for each in made.verdicts(one(made, "batch 16")) if each.name == "time")
    assert verdict.chance == pytest.approx(by_hand, rel=1e-3)
    assert not verdict.holds


def test_probabilities_of_temperatures_go_by_degrees() -> None:
    warm = Figure(value=40.0, unit="°C", low=36.0, high=45.0, status=Status.PREDICTED)
    assert chance_of(warm, 45.0) == pytest.approx(0.95, abs=1e-3)
    assert chance_of(warm, 36.0) == pytest.approx(0.05, abs=1e-3)
    assert chance_of(warm, 40.0) == pytest.approx(0.5)
    sure = replace(warm, low=40.0, high=40.0)
    assert [chance_of(sure, most) for most in (39.9, 40.0)] == [0.0, 1.0]


def test_starting_the_framework_counts_where_the_file_has_it() -> None:
    started = (
        'start = { value = 30.0, low = 30.0, high = 30.0, basis = "datasheet", source = "made" }'
    )
    with_it, without = plan(device(extra=started)), plan(device())
    for name, more in (("time", 30.0), ("energy", 30.0 * 1.0)):  # at the idle device's 1 W
        begun, bare = (float(one(each, "batch 16").figures[name]) for each in (with_it, without))
        assert begun - bare == pytest.approx(more)
    assert any("starting the framework" in line for line in without.risks)
    assert not any("starting the framework" in line for line in with_it.risks)


def _brute_force(made: Plan, cost: Callable[[Estimate], float]) -> float | None:
    """The least cost of what keeps all limits, asked of each configuration by itself."""
    kept = []
    for each in made.estimates:
        checks = [each.fits_with >= 0.98]
        for limit in made.budget.limits:
            checks.append(chance_of(each.figures[limit.kind], limit.most) >= made.sure)
        if all(checks):
            kept.append(cost(each))
    return min(kept, default=None)


BUDGETS = ["", "100 s", "60 s", "46 °C", "2.4 %", "1200 J, 100 s", "1.05 GB"]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("least", ["energy", "time", "memory"])
def test_brute_force_finds_nothing_better(budget: str, least: str) -> None:
    made = plan(device(gap_s=0.1), budget=budget, least=least)
    best = _brute_force(made, lambda each: float(each.figures[least]))
    if best is None:
        assert made.chosen is None
    else:
        assert made.chosen is not None
        assert best <= float(made.chosen.figures[least]) <= best * 1.01


@pytest.mark.parametrize("least", ["energy", "time"])
def test_a_tighter_budget_never_gives_a_cheaper_plan(least: str) -> None:
    before = 0.0
    for seconds in (1000, 200, 100, 80):  # the half clock goes first, then many small batches
        made = plan(device(gap_s=0.1), budget=f"{seconds} s", least=least)
        assert made.chosen is not None
        cost = float(made.chosen.figures[least])
        assert cost >= before * 0.99
        before = cost


def test_the_front_is_what_none_beats() -> None:
    made = plan(device(gap_s=0.1))
    front = made.front
    points = [costs(each, "time", "energy", "memory") for each in made.estimates]
    for each in front:
        mine = costs(each, "time", "energy", "memory")
        assert not any(
            all(a <= b for a, b in zip(other, mine, strict=True)) and other != mine
            for other in points
        )
    assert [float(each.figures["time"]) for each in front] == sorted(
        float(each.figures["time"]) for each in front
    )
    times = {tuple(costs(each, "time", "energy", "memory")) for each in front}
    assert len(times) == len(front)


def test_nothing_that_fits_says_what_is_lacking_and_what_would_do() -> None:
    made = plan(device(), budget="20 s")
    assert made.chosen is None
    enough = next(line for line in made.remedies if "of time" in line)
    again = float(enough.split(" s ")[0].split()[-1])
    assert plan(device(), budget=f"{1.01 * again:.3f} s").chosen is not None
    assert plan(device(), budget=f"{0.97 * again:.3f} s").chosen is None
    fewer = next(line for line in made.remedies if "samples a session" in line)
    samples = int(fewer.split()[0])
    assert plan(device(), samples=samples, budget="20 s").chosen is not None


@pytest.mark.parametrize(
    "budget", ["900 ms, 100 mJ", "20 s, 1 J, 1 GB", "0.1 min", "0.001 Wh, 26 °C"]
)
def test_a_larger_budget_that_is_named_would_do_as_it_is_written(budget: str) -> None:
    """All limits that are missed at once, none of them in a form that --budget does not read."""
    made = plan(device(), budget=budget)
    assert made.chosen is None
    line = next(line for line in made.remedies if line.startswith("a budget of "))
    larger = dict(re.findall(r"([\d.]+ \S+) of \w+ in place of ([\d.]+ [^\s,]+)", line))
    by_old = {old: new for new, old in larger.items()}
    whole = ", ".join(by_old.get(part, part) for part in budget.split(", "))
    assert whole != budget
    assert plan(device(), budget=whole).chosen is not None


def test_sessions_that_are_too_close_are_to_be_further_apart() -> None:
    made = plan(device(), every_s=40.0)
    line = next(line for line in made.remedies if "--every" in line)
    assert "a budget" not in line  # one beyond --every is refused
    assert plan(device(), every_s=parse_period(line.split("'")[1])).chosen is not None


def test_a_session_is_over_before_the_next_begins() -> None:
    assert plan(device(), every_s=3600.0).chosen is not None
    assert plan(device(), every_s=40.0).chosen is None  # it takes 44 s
    day = plan(device(), every_s=3600.0, budget="").repeated
    assert any("24 sessions" in line for line in day)


def test_a_full_battery_has_so_many_sessions() -> None:
    made = plan(device(), least="time")
    (line,) = (each for each in made.repeated if "battery" in each)
    assert f"{int(10_000 / (64 * SAMPLE_S * (1 + GPU_W)))} (" in line  # whole ones
    (line,) = (
        each for each in plan(device(), samples=6400, least="time").repeated if "batt" in each
    )
    assert " 0 (0 to 0) " in line  # a third of one at the most


# --- what changes the mathematics --------------------------------------------------------------------


def _freezing(preparation: Preparation, precision: str) -> StepFamily:
    """Half of the work where a part trains alone; checkpointing forward twice."""
    if preparation.lora is not None:
        raise InvalidValueError("no linear layers", id="no-linear-layers")
    family = capture(preparation, precision)
    factor = 0.5 if preparation.train_last else (4 / 3 if preparation.checkpointing else 1.0)

    def scaled(graph: Any) -> Any:
        shapes = {
            i: replace(shape, images=shape.images * factor)
            for i, shape in graph.convolutions.items()
        }
        return replace(graph, flops=graph.flops * factor, convolutions=shapes)

    return StepFamily(small=scaled(family.small), large=scaled(family.large))


def test_what_trains_differently_is_taken_only_where_the_budget_needs_it() -> None:
    seconds = 64 * SAMPLE_S
    loose = plan(device(), allow=("freeze", "lora"), taking=_freezing, budget="1000 s").chosen
    tight = plan(
        device(), allow=("freeze", "lora"), taking=_freezing, budget=f"{0.8 * seconds:.1f} s"
    )
    closed = plan(device(), taking=_freezing, budget=f"{0.8 * seconds:.1f} s")
    assert loose is not None
    assert tight.chosen is not None
    assert loose.configuration.train_last is None
    assert tight.chosen.configuration.train_last == 1
    assert closed.chosen is None
    assert [why for _, why in tight.refused] == ["no linear layers"]


def test_only_what_trains_the_same_is_searched_unless_it_is_allowed() -> None:
    same = plan(device())
    assert {each.configuration.samples_per_update for each in same.estimates} == {16}
    assert {each.configuration.train_last for each in same.estimates} == {None}
    other = plan(device(), allow=("batch",))
    sizes = {each.configuration.samples_per_update for each in other.estimates}
    assert sizes == {1, 2, 4, 8, 16, 32, 64}


def test_a_step_is_captured_once_for_all_batches_and_modes() -> None:
    asked: list[Preparation] = []

    def counting(preparation: Preparation, precision: str) -> StepFamily:
        asked.append(preparation)
        return capture(preparation, precision)

    made = plan(device(), allow=("batch",), taking=counting)
    # One batch or two added up, with checkpointing and without.
    assert len(asked) == made.captures == 4
    assert len(made.estimates) == 2 * 2 * sum(n.bit_length() for n in (1, 2, 4, 8, 16, 32, 64))


# --- why not -----------------------------------------------------------------------------------------


def test_why_not_explains_one_configuration() -> None:
    made = plan(device(), least="time", budget="80 s")
    _, (line,) = made.why_not("mode=half")
    assert "time" in line
    assert "80 s" in line
    estimate, lines = made.why_not("batch=32")
    assert estimate.configuration.batch == 32
    assert any("--allow batch" in line for line in lines)
    assert made.chosen is not None
    _, (line,) = made.why_not(
        f"batch={made.chosen.configuration.batch},checkpointing=off,mode=none"
    )
    assert "the recommended plan" in line


@pytest.mark.parametrize(
    "text",
    [
        "batch=none at all",
        "batches=4",
        "batch=0",
        "checkpointing=perhaps",
        "batch=none",
        "batch=2,batch=4",
    ],
)
def test_what_is_no_configuration_is_refused(text: str) -> None:
    with refused("malformed-configuration"):
        plan(device()).why_not(text)


def test_others_lose_in_a_line_a_kind() -> None:
    made = plan(device(gap_s=0.1), budget="120 s")
    kinds = [each.what for each in made.losing]
    assert len(kinds) == 3  # another batch, checkpointing, another mode
    assert all(each.why for each in made.losing)


def test_what_cannot_be_asked_is_refused() -> None:
    with refused("out-of-range", "100 %"):
        plan(device(), sure=1.0)
    with refused("unknown-cost", "energy, time, memory"):
        plan(device(), least="effort")
    with refused("nothing-to-plan"):

        def failing(preparation: Preparation, precision: str) -> StepFamily:
            raise InvalidValueError("it cannot be captured")

        plan(device(), taking=failing)


def test_the_made_step_with_two_batches_has_twice_the_work_and_one_update() -> None:
    assert twice(4).flops.sum() == 2 * step(4).flops.sum()
    assert twice(4).names.count("aten::add_") == 1

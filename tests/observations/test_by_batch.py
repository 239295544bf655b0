"""Observations 3, 8, 10 and 11, which set batch sizes against each other, on figures with known growth."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from tests.observations.made import figure, observed, series, verdict_of
from tests.wording import assert_says, saying

from wattstep.insight.observe.deciding import UNTESTABLE
from wattstep.insight.observe.evidence import Observed
from wattstep.schema.figure import Status, missing

# --- 10: throughput ------------------------------------------------------------------------------


def test_throughput_that_doubles_with_four_times_the_batch_has_exponent_a_half() -> None:
    found = verdict_of(10, series("lenet", "throughput", {4: 100.0, 16: 200.0, 64: 400.0}))
    (case,) = found.cases
    assert found.verdict == "holds"
    assert case.figures()["exponent"].value == pytest.approx(0.5)
    assert case.figures()["growth"].value == pytest.approx(4.0)
    assert case.case.batches == "4 to 64"
    assert not found.weak


def test_one_process_each_is_judged_with_an_assumed_spread_that_is_said() -> None:
    """16 times over 16 times the batch is beyond 1.96 * 0.45 * √2 = 1.25 in logarithms, 3 times is not."""
    clear = verdict_of(10, series("lenet", "throughput", {4: [100.0], 64: [1600.0]}))
    assert clear.verdict == "holds"
    found = verdict_of(10, series("lenet", "throughput", {4: [100.0], 64: [300.0]}))
    growth = found.cases[0].figures()["growth"]
    assert growth.low == pytest.approx(3 * math.exp(-1.96 * 0.45 * math.sqrt(2)), rel=1e-3)
    assert found.verdict == "undecided"
    assert_says(found.advice, "3 processes")
    assert "weaker" in found.notes[0]
    assert "assumed" in found.notes[0]
    assert found.weak
    assert found.document()["one_process"] is True


def test_throughput_that_stands_still_or_falls_does_not_grow() -> None:
    assert (
        verdict_of(10, series("a", "throughput", {4: 100.0, 64: 100.0})).verdict == "does not hold"
    )
    assert (
        verdict_of(10, series("a", "throughput", {4: 100.0, 64: 30.0})).verdict == "does not hold"
    )


def test_one_model_that_does_not_grow_is_enough_and_is_named() -> None:
    runs = series("lenet", "throughput", {4: 100.0, 64: 400.0})
    runs += series("dqn", "throughput", {4: 100.0, 64: 80.0})
    found = verdict_of(10, runs)
    assert found.verdict == "does not hold"
    assert "not in dqn" in found.sentences[0]


def test_one_process_that_other_work_disturbed_decides_nothing() -> None:
    clear = series("lenet", "throughput", {4: [100.0], 64: [1600.0]}, disturbed=0.4)
    found = verdict_of(10, clear)
    assert found.verdict == "undecided"
    assert "nothing else running" in found.advice
    thrice = series("lenet", "throughput", {4: 100.0, 64: 1600.0}, disturbed=0.4)
    assert verdict_of(10, thrice).verdict == "holds"


def test_growth_within_its_interval_is_undecided_and_says_what_would_decide() -> None:
    found = verdict_of(10, series("lenet", "throughput", {4: 100.0, 64: 110.0}, relative=0.2))
    assert found.verdict == "undecided"
    assert found.advice


def test_of_several_processes_their_spread_decides_not_their_own_intervals() -> None:
    """Own intervals of 0.1 % say growth; three processes between 50 and 300 do not."""
    values = {4: [100.0, 60.0, 170.0], 64: [120.0, 50.0, 300.0]}
    assert verdict_of(10, series("a", "throughput", values, relative=0.001)).verdict == "undecided"


def test_a_fall_on_the_way_is_told_and_does_not_decide() -> None:
    found = verdict_of(10, series("lenet", "throughput", {4: 100.0, 16: 400.0, 64: 300.0}))
    assert found.verdict == "holds"
    assert saying(found.notes, "falls", "batch 16 to 64")


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        ([], "no runs"),
        (series("lenet", "throughput", {4: 100.0}), "one batch size"),
        ([observed(batch=None), observed(batch=None, number=1)], "size is not"),
        ([observed(batch=4), observed(batch=64)], "not tell it"),
        (
            [observed(batch=b, metrics={"throughput": missing("samples/s", "no clean step")})
             for b in (4, 64)],
            "no clean step",
        ),
        (
            series("lenet", "throughput", {4: 100.0}, threads=1)
            + series("lenet", "throughput", {64: 400.0}, threads=2),
            "one batch size",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_not_tested_and_says_why(
    runs: list[Observed], reason: str
) -> None:
    found = verdict_of(10, runs)
    assert found.verdict == UNTESTABLE
    assert reason in found.sentences[0].lower()


def test_disturbed_runs_are_marked() -> None:
    values = {"throughput": figure(100.0, 1.0, "samples/s")}
    more = {"throughput": figure(400.0, 1.0, "samples/s")}
    runs = [observed(batch=4, metrics=values, disturbed=0.4), observed(batch=64, metrics=more)]
    assert any(
        "1 of 2 runs disturbed" in note and "40 %" in note for note in verdict_of(10, runs).notes
    )


# --- 8: energy -----------------------------------------------------------------------------------


def energy(values: Mapping[int, float], **changes: object) -> list[Observed]:
    return series("lenet", "energy_per_step", values, unit="J", **changes)  # type: ignore[arg-type]


def test_energy_between_none_and_in_proportion_holds_with_the_papers_own_numbers() -> None:
    """10.5 times for 16 times the samples: exponent ln 10.5 / ln 16 = 0.848."""
    found = verdict_of(8, energy({4: 1.0, 64: 10.5}))
    assert found.verdict == "holds"
    assert found.cases[0].figures()["exponent"].value == pytest.approx(0.848, abs=1e-3)
    assert found.about.published[1].high == pytest.approx(math.log(10.5) / math.log(16), abs=1e-3)
    assert found.about.published[1].value == pytest.approx(math.log(2.2) / math.log(16), abs=1e-3)


@pytest.mark.parametrize("largest", [1.0, 16.0, 20.0, 0.5])
def test_energy_in_proportion_or_constant_does_not_hold(largest: float) -> None:
    assert verdict_of(8, energy({4: 1.0, 64: largest})).verdict == "does not hold"


def test_energy_near_proportion_is_undecided() -> None:
    assert verdict_of(8, energy({4: 1.0, 64: 15.0}, relative=0.1)).verdict == "undecided"


def test_modelled_energy_gives_a_marked_verdict() -> None:
    runs = series("lenet", "energy_per_step", {4: 1.0, 64: 8.0}, unit="J", status=Status.MODELLED)
    found = verdict_of(8, runs)
    assert (found.verdict, found.marked) == ("holds", "modelled sensors")
    assert found.document()["on"] == "modelled sensors"


def test_energy_by_a_power_model_says_what_it_is() -> None:
    power = figure(3.0, 0.1, "W", Status.MODELLED, "power model vcpu: 0.7 to 3.5 W a core")
    runs = [
        observed(
            batch=batch, power_model={"name": "vcpu"}, number=number,
            metrics={"energy_per_step": figure(joules, 0.01, "J", Status.MODELLED),
                     "mean_power": power},
        )
        for batch, joules in ((4, 1.0), (64, 8.0))
        for number in range(3)
    ]  # fmt: skip
    found = verdict_of(8, runs)
    assert found.verdict == "holds"
    assert saying(found.notes, "computed from", "cores")


def test_replayed_energy_and_no_power_sensor_cannot_be_tested() -> None:
    replayed = verdict_of(8, energy({4: 1.0, 64: 8.0}, target="replay:tx2.log"))
    assert replayed.verdict == UNTESTABLE
    assert "do not follow" in replayed.sentences[0]
    gap = {"energy_per_step": missing("J", "no power sensor was found")}
    without = verdict_of(8, [observed(batch=4, metrics=gap), observed(batch=64, metrics=gap)])
    (sentence,) = without.sentences
    assert_says(sentence, "power sensor")


# --- 11: models differ ---------------------------------------------------------------------------


def models(relative: float, **largest: float | list[float]) -> list[Observed]:
    """From 100 samples a second at batch 4 to so many at 64."""
    runs: list[Observed] = []
    for name, value in largest.items():
        start = [100.0] * len(value) if isinstance(value, list) else 100.0
        runs += series(name, "throughput", {4: start, 64: value}, relative)
    return runs


def test_models_with_the_papers_growth_differ() -> None:
    """15.3, 6.1 and 1.7 times: exponents 0.984, 0.652, 0.191, furthest apart by 0.793."""
    found = verdict_of(11, models(0.01, dqn=1530.0, resnet50=610.0, densenet40=170.0))
    assert found.verdict == "holds"
    widest = max(abs(each.figures()["difference"].value or 0.0) for each in found.cases)
    assert widest == pytest.approx((math.log(15.3) - math.log(1.7)) / math.log(16), rel=1e-3)
    assert_says(found.sentences[0], "densenet40 (e = 0.19)", "most in dqn (e = 0.98)")
    assert found.figures["q"].value > 1000  # type: ignore[operator]
    assert found.figures["i_squared"].value == pytest.approx(1.0, abs=0.01)


def test_cochrans_q_by_hand() -> None:
    """Exponents 0.5 and 0.6, errors e: Q = (0.1 / e)² / 2; three processes of each."""
    found = verdict_of(11, models(0.01, a=400.0, b=100 * 16**0.6))
    error = 0.01 * math.sqrt(2 / 3) / 1.96 / math.log(16)
    assert found.figures["q"].value == pytest.approx(0.01 / error**2 / 2, rel=1e-3)


def test_models_that_grow_alike_do_not_differ() -> None:
    found = verdict_of(11, models(0.01, a=400.0, b=404.0, c=398.0))
    assert found.verdict == "does not hold"


def test_models_with_wide_intervals_are_undecided() -> None:
    assert verdict_of(11, models(0.2, a=400.0, b=500.0)).verdict == "undecided"


def test_one_model_or_other_conditions_cannot_differ() -> None:
    one = verdict_of(11, models(0.01, a=400.0))
    assert one.verdict == UNTESTABLE
    assert "one model only" in one.sentences[0].lower()
    apart = series("a", "throughput", {4: 100.0, 64: 400.0}, threads=1)
    apart += series("b", "throughput", {4: 100.0, 64: 900.0}, threads=2)
    assert verdict_of(11, apart).verdict == UNTESTABLE


def test_models_are_compared_over_the_batch_sizes_that_they_share() -> None:
    runs = series("a", "throughput", {1: 10.0, 4: 100.0, 64: 400.0})
    runs += series("b", "throughput", {4: 100.0, 64: 1600.0})
    (case,) = verdict_of(11, runs).cases
    assert case.case.batches == "4 to 64"
    assert case.case.figures["first"].value == pytest.approx(0.5)


# --- 3: GPU utilization by batch size ------------------------------------------------------------


def loads(
    gpu: tuple[float, float], cpu: tuple[float, float], half: float = 0.005, **changes: object
) -> list[Observed]:
    """Utilization at batch 4 and 64, three processes of each."""
    return [
        observed(
            batch=batch,
            metrics={"gpu_utilization": figure(g, half), "cpu_utilization": figure(c, half)},
            number=number,
            **changes,  # type: ignore[arg-type]
        )
        for batch, g, c in zip((4, 64), gpu, cpu, strict=True)
        for number in range(3)
    ]


def test_a_gpu_that_gains_ten_points_beside_an_even_cpu_holds() -> None:
    """SqueezeNet of the paper: 71.4 to 84.5 %; its CPU 2.1 points."""
    found = verdict_of(3, loads((0.714, 0.845), (0.20, 0.221)))
    assert found.verdict == "holds"
    assert found.cases[0].figures()["gpu_change"].value == pytest.approx(0.131)


def test_an_even_gpu_or_a_cpu_that_changes_does_not_hold() -> None:
    assert verdict_of(3, loads((0.80, 0.81), (0.20, 0.20))).verdict == "does not hold"
    assert verdict_of(3, loads((0.70, 0.85), (0.20, 0.40))).verdict == "does not hold"


def test_a_change_at_the_margin_is_undecided() -> None:
    assert verdict_of(3, loads((0.70, 0.76), (0.2, 0.2), half=0.03)).verdict == "undecided"


def test_without_a_gpu_the_half_about_the_cpu_is_shown_and_does_not_decide() -> None:
    gap = missing("ratio", "no GPU load was sampled")
    runs = [
        observed(batch=b, metrics={"gpu_utilization": gap, "cpu_utilization": figure(c, 0.01)})
        for b, c in ((4, 0.25), (64, 0.26))
    ]
    found = verdict_of(3, runs)
    assert found.verdict == UNTESTABLE
    assert found.cases[0].figures()["cpu_change"].value == pytest.approx(0.01)


def test_a_gpu_beside_a_training_on_the_cpu_takes_no_part() -> None:
    found = verdict_of(3, loads((0.3, 0.5), (0.2, 0.2), processor="cpu"))
    assert "takes no part" in found.sentences[0]
    assert (
        "do not follow"
        in verdict_of(3, loads((0.3, 0.5), (0.2, 0.2), target="replay:x")).sentences[0]
    )

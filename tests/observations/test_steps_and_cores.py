"""Observations 2, 4 and 7, on loads and power whose course within a step is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.observations.made import (
    core,
    gpu_load,
    observed,
    on_gpu,
    rail,
    recorded,
    steady,
    steady_core,
    thrice,
    verdict_of,
)
from tests.run.made import BEGIN, MS, Sampled, process_cpu

from wattstep.insight.observe.deciding import UNTESTABLE
from wattstep.insight.observe.evidence import Observed
from wattstep.schema.channel import Channel
from wattstep.schema.run_info import RunInfo

STEP = 100 * MS
PHASES = (("forward", 50 * MS), ("backward", 50 * MS))
DICE = np.random.default_rng(5).integers(0, 2, 100_000)


def in_turn(high: int, low: int):  # type: ignore[no-untyped-def]
    """High in the first half of every step, low in the second; never twice the same value."""
    return lambda t: (high if (t - BEGIN) % STEP < STEP // 2 else low) + t // (5 * MS) % 2


def thrown(high: int, low: int):  # type: ignore[no-untyped-def]
    """High or low by chance, every 20 ms anew: it has nothing to do with steps."""
    return lambda t: (high if DICE[(t - BEGIN) // (20 * MS)] else low) + t // (5 * MS) % 2


def run(path: Path, number: int, sampled: list[Sampled], **made: object) -> Observed:
    settings = {"phases": PHASES, "steps": 60, "trace": "none", **made}
    return recorded(path, number, sampled, on_gpu, **settings)


# --- 2: utilization ------------------------------------------------------------------------------


def test_a_load_with_the_course_of_the_step_repeats(tmp_path: Path) -> None:
    sampled = [Sampled(channel=gpu_load(), raw=in_turn(90, 20), every_ns=5 * MS)]
    found = verdict_of(2, thrice(run(tmp_path / "r", 2, sampled)))
    assert found.verdict == "holds"
    assert found.cases[0].figures()["gpu_alike"].value == pytest.approx(1.0, abs=0.05)


def test_a_load_that_moves_by_chance_does_not_repeat(tmp_path: Path) -> None:
    sampled = [Sampled(channel=gpu_load(), raw=thrown(90, 20), every_ns=5 * MS)]
    found = verdict_of(2, thrice(run(tmp_path / "r", 2, sampled)))
    assert found.cases[0].figures()["gpu_alike"].value == pytest.approx(0.0, abs=0.15)
    assert found.verdict == "does not hold"


def test_chance_that_other_work_brought_is_not_held_against_the_training(tmp_path: Path) -> None:
    sampled = [Sampled(channel=gpu_load(), raw=thrown(90, 20), every_ns=5 * MS)]
    disturbed = replace(run(tmp_path / "r", 2, sampled), disturbed=0.8)
    assert verdict_of(2, thrice(disturbed)).verdict == "undecided"


def test_a_load_that_hardly_moves_has_no_course_that_could_repeat(tmp_path: Path) -> None:
    found = verdict_of(
        2, thrice(run(tmp_path / "r", 2, [steady_core(0, 0.9), steady_core(1, 0.2)]))
    )
    assert found.verdict == UNTESTABLE
    assert "hardly moves" in found.sentences[0]


def test_a_course_within_three_points_is_too_small_to_hold(tmp_path: Path) -> None:
    """51 and 48 % in turns, every step the same: 1.5 points about the mean."""
    still = [Sampled(channel=gpu_load(), raw=in_turn(51, 48), every_ns=5 * MS)]
    assert verdict_of(2, thrice(run(tmp_path / "r", 2, still))).verdict == UNTESTABLE


def test_steps_that_are_too_short_and_nothing_sampled_cannot_be_tested(tmp_path: Path) -> None:
    slow = [replace(steady_core(0, 0.9), every_ns=30 * MS)]
    assert "too short" in verdict_of(2, thrice(run(tmp_path / "short", 2, slow))).sentences[0]
    assert verdict_of(2, thrice(run(tmp_path / "none", 2, []))).verdict == UNTESTABLE
    few = [Sampled(channel=gpu_load(), raw=in_turn(90, 20), every_ns=5 * MS)]
    found = verdict_of(2, thrice(run(tmp_path / "few", 2, few, steps=4)))
    assert "counted steps" in found.sentences[0]


# --- 7: power ------------------------------------------------------------------------------------


def watts(course: object) -> list[Sampled]:
    return [Sampled(channel=rail("system", "power_total"), raw=course, every_ns=5 * MS)]  # type: ignore[arg-type]


def test_power_with_the_course_of_the_step_repeats(tmp_path: Path) -> None:
    found = verdict_of(7, thrice(run(tmp_path / "r", 7, watts(in_turn(9000, 3000)))))
    assert found.verdict == "holds"
    assert found.cases[0].figures()["total_alike"].value == pytest.approx(1.0, abs=0.05)


def test_power_that_moves_by_chance_does_not_repeat(tmp_path: Path) -> None:
    found = verdict_of(7, thrice(run(tmp_path / "r", 7, watts(thrown(9000, 3000)))))
    assert found.cases[0].figures()["total_alike"].value == pytest.approx(0.0, abs=0.15)
    assert found.verdict == "does not hold"


def test_steady_power_has_no_course_and_rails_are_looked_at_one_by_one(tmp_path: Path) -> None:
    sampled = [
        *watts(lambda t: 6000 + (t - BEGIN) // (5 * MS) % 3),
        Sampled(channel=rail("cpu"), raw=in_turn(3000, 1000), every_ns=5 * MS),
    ]
    found = verdict_of(7, thrice(run(tmp_path / "r", 7, sampled)))
    assert found.verdict == "holds"
    figures = found.cases[0].figures()
    assert "hardly moves" in (figures["total_alike"].reason or "")
    assert figures["cpu_alike"].value == pytest.approx(1.0, abs=0.05)


def test_modelled_power_no_power_and_a_sensor_that_averages_cannot_be_tested(
    tmp_path: Path,
) -> None:
    model = {"name": "vcpu", "idle_watts_a_core": 0.5, "busy_watts_a_core": 3.0, "source": "made"}
    own = Sampled(channel=process_cpu(), raw=lambda t: t // 2)
    modelled = run(tmp_path / "model", 7, [steady_core(0, 0.9), own], power_model=model)
    assert "circular" in verdict_of(7, thrice(modelled)).sentences[0]
    none = run(tmp_path / "none", 7, [steady_core(0, 0.9)])
    assert "no power sensor" in verdict_of(7, thrice(none)).sentences[0].lower()
    averaging = replace(rail("system", "power_total"), window_s=0.422)
    slow = run(tmp_path / "slow", 7, [Sampled(channel=averaging, raw=in_turn(9000, 3000))])
    assert "too short" in verdict_of(7, thrice(slow)).sentences[0]
    played = observed(target="replay:tx2.log")
    assert "do not follow" in verdict_of(7, thrice(played)).sentences[0]


# --- 4: kinds of cores ---------------------------------------------------------------------------


def clusters(own: RunInfo) -> RunInfo:
    device = {
        "model": "board", "cores": 4,
        "clusters": [{"kind": "A57", "cores": [0, 1]}, {"kind": "Denver2", "cores": [2, 3]}],
    }  # fmt: skip
    return replace(own, device=device)


def kinds(path: Path, shares: tuple[float, float, float, float]) -> Observed:
    sampled = [steady_core(number, share) for number, share in enumerate(shares)]
    return recorded(path, 4, sampled, clusters, steps=60, trace="none")


def test_kinds_that_differ_by_thirty_points_are_used_differently(tmp_path: Path) -> None:
    """(0.6 + 0.4) / 2 less (0.3 + 0.1) / 2."""
    found = verdict_of(4, thrice(kinds(tmp_path / "r", (0.6, 0.4, 0.3, 0.1))))
    assert found.verdict == "holds"
    assert found.cases[0].figures()["difference"].value == pytest.approx(0.30, abs=1e-3)
    assert "A57 and Denver2" in found.sentences[0]


def test_kinds_that_are_used_alike_do_not_hold(tmp_path: Path) -> None:
    found = verdict_of(4, thrice(kinds(tmp_path / "r", (0.6, 0.4, 0.52, 0.5))))
    assert found.verdict == "does not hold"
    assert found.cases[0].figures()["difference"].value == pytest.approx(-0.01, abs=1e-3)


def test_kinds_are_compared_at_the_same_time(tmp_path: Path) -> None:
    """Both go up and down together, by far more than they differ."""

    def busy(share: float) -> Sampled:
        def raw(t: int) -> int:
            rounds, rest = divmod(t, 2000 * MS)
            return round((rounds * 1000 * MS + min(rest, 1000 * MS)) * share / 1000)

        return Sampled(channel=core(int(share * 10) % 4), raw=raw)

    sampled = [busy(0.8), busy(0.9), busy(0.6), busy(0.7)]
    numbered = [replace(s, channel=core(n)) for n, s in enumerate(sampled)]
    run_ = recorded(tmp_path / "r", 4, numbered, clusters, steps=300, phases=PHASES, trace="none")
    figure = verdict_of(4, thrice(run_)).cases[0].figures()["difference"]
    assert figure.value == pytest.approx(0.1, abs=0.01)


def test_one_kind_of_cores_and_no_load_cannot_be_tested(tmp_path: Path) -> None:
    def one_kind(own: RunInfo) -> RunInfo:
        return replace(own, device={"cores": 2, "clusters": [{"kind": "x", "cores": [0, 1]}]})

    alone = recorded(tmp_path / "one", 4, [steady_core(0, 0.5)], one_kind, steps=30)
    assert "one kind of" in verdict_of(4, thrice(alone)).sentences[0]
    none = recorded(tmp_path / "none", 4, [], clusters, steps=30)
    assert verdict_of(4, thrice(none)).verdict == UNTESTABLE


def test_a_gpu_at_rest_is_no_part_of_what_repeats(tmp_path: Path) -> None:
    sampled = [steady(gpu_load(), 0)]
    idle = recorded(tmp_path / "r", 2, sampled, phases=PHASES, steps=60, trace="none")
    assert verdict_of(2, thrice(idle)).verdict == UNTESTABLE


def test_channels_are_what_they_say() -> None:
    assert isinstance(core(0), Channel)

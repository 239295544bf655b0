"""Observations 1, 5 and 6, on loads and rails that are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.observations.made import (
    core,
    figure,
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
from tests.run.made import BEGIN, MS, Sampled
from tests.wording import assert_says, saying

from wattstep.insight.observe.deciding import UNTESTABLE
from wattstep.insight.observe.evidence import Observed
from wattstep.schema.figure import Status, missing

# --- 1: the GPU far above the CPU ----------------------------------------------------------------

LONG = (("forward", 900 * MS), ("backward", 900 * MS))  # nine windows of 100 ms each
TURN = 300 * MS


def turns(opposed: bool) -> list[Sampled]:
    """A GPU at 90 and 60 % in turn, and two cores at 10 and 40 %, against it or with it."""

    def high(t: int) -> bool:
        return (t - BEGIN) // TURN % 2 == 0

    def busy(t: int) -> int:
        """Busy time in µs of a core that is at 10 % in one turn and at 40 % in the next."""
        rounds, rest = divmod(t - BEGIN + 2 * TURN, 2 * TURN)
        shares = (0.1, 0.4) if opposed else (0.4, 0.1)
        begun = min(rest, TURN) * shares[0] + max(rest - TURN, 0) * shares[1]
        return round((rounds * TURN * sum(shares) + begun) / 1000)

    gpu = Sampled(channel=gpu_load(), raw=lambda t: 90 if high(t) else 60, every_ns=10 * MS)
    return [gpu, *(Sampled(channel=core(n), raw=busy, every_ns=10 * MS) for n in (0, 1))]


def first(path: Path, sampled: list[Sampled]) -> Observed:
    return recorded(path, 1, sampled, on_gpu, phases=LONG, steps=30, trace="none")


def test_a_busy_gpu_that_takes_turns_with_the_cpu_holds(tmp_path: Path) -> None:
    """75 % and 25 % on average: 50 points apart; loads that go in opposite steps correlate by -1."""
    found = verdict_of(1, thrice(first(tmp_path / "r", turns(opposed=True))))
    figures = found.cases[0].figures()
    assert found.verdict == "holds"
    assert figures["gap"].value == pytest.approx(0.5, abs=0.02)
    assert figures["correlation"].value == pytest.approx(-1.0, abs=0.02)


def test_a_busy_gpu_that_goes_with_the_cpu_does_not_hold(tmp_path: Path) -> None:
    found = verdict_of(1, thrice(first(tmp_path / "r", turns(opposed=False))))
    assert found.verdict == "does not hold"
    assert found.cases[0].figures()["correlation"].value == pytest.approx(1.0, abs=0.02)


def test_steady_loads_never_take_turns_and_leave_it_open(tmp_path: Path) -> None:
    far = [steady(gpu_load(), 80), steady_core(0, 0.3), steady_core(1, 0.1)]
    found = verdict_of(1, thrice(first(tmp_path / "far", far)))
    assert found.verdict == "undecided"
    assert_says(found.advice, "a part", "not be tested")
    assert found.cases[0].figures()["gap"].value == pytest.approx(0.6, abs=1e-3)
    assert any("never changes" in note for note in found.notes)
    near = [steady(gpu_load(), 25), steady_core(0, 0.3), steady_core(1, 0.1)]
    assert verdict_of(1, thrice(first(tmp_path / "near", near))).verdict == "does not hold"


def test_without_a_gpu_or_with_an_idle_one_it_cannot_be_tested(tmp_path: Path) -> None:
    alone = first(tmp_path / "alone", [steady_core(0, 0.3)])
    assert "no gpu load" in verdict_of(1, thrice(alone)).sentences[0].lower()
    screen = recorded(
        tmp_path / "screen",
        1,
        [steady(gpu_load(), 30), steady_core(0, 0.9)],
        steps=30,
        trace="none",
    )
    assert "takes no part" in verdict_of(1, thrice(screen)).sentences[0]


def test_replayed_loads_are_marked(tmp_path: Path) -> None:
    gpu, *cores = turns(opposed=True)
    sampled = [replace(gpu, channel=gpu_load("replayed")), *cores]
    run = recorded(
        tmp_path / "r", 1, sampled, phases=LONG, steps=30, trace="none",
        change=lambda own: replace(own, target="replay:tx2.log", processor="cpu"),
    )  # fmt: skip
    found = verdict_of(1, thrice(run))
    assert (found.verdict, found.marked) == ("holds", "replayed sensors")


# --- 5: domains ----------------------------------------------------------------------------------


def domains(half: float = 0.01, **loads: float) -> list[Observed]:
    return [
        observed(name.replace("_", "-"), 64, {"gpu_utilization": figure(load, half)}, number=number)
        for name, load in loads.items()
        for number in range(3)
    ]


def test_the_papers_lstm_and_vision_model_differ() -> None:
    found = verdict_of(5, domains(char_cnn=0.25, resnet50=0.95))
    assert found.verdict == "holds"
    assert found.cases[0].figures()["difference"].value == pytest.approx(0.70)


def test_domains_with_equal_loads_do_not_differ() -> None:
    found = verdict_of(5, domains(char_cnn=0.90, resnet50=0.93, dqn=0.91))
    assert found.verdict == "does not hold"
    assert len(found.cases) == 3


def test_loads_near_the_margin_are_undecided() -> None:
    assert verdict_of(5, domains(half=0.05, char_cnn=0.80, resnet50=0.96)).verdict == "undecided"


def test_one_domain_unknown_workloads_and_other_batches_cannot_be_tested() -> None:
    one = verdict_of(5, domains(vgg16=0.9, resnet50=0.5))
    assert "different application domains" in one.sentences[0]
    own = verdict_of(5, domains(mine=0.9, resnet50=0.5))
    assert own.verdict == UNTESTABLE
    assert saying(own.sentences, "domain", "not known")
    other = observed("resnet50", 4, {"gpu_utilization": figure(0.95, 0.01)})
    assert verdict_of(5, [*domains(char_cnn=0.25), *thrice(other)]).verdict == UNTESTABLE
    gap = {"gpu_utilization": missing("ratio", "no GPU load was sampled")}
    assert verdict_of(5, thrice(observed("lenet", 4, gap))).verdict == UNTESTABLE


# --- 6: what draws most --------------------------------------------------------------------------


def powers(path: Path, workload: str, gpu: int, cpu: int, memory: int) -> Observed:
    """A run whose parts draw so many mW, and the board 1 W more than all of them."""
    sampled = [
        steady(rail("gpu"), gpu), steady(rail("cpu"), cpu), steady(rail("memory"), memory),
        steady(rail("system", "power_total"), gpu + cpu + memory + 1000), steady(gpu_load(), 80),
    ]  # fmt: skip
    return recorded(
        path, 6, sampled, lambda own: replace(own, workload=workload, processor="cuda"), steps=30
    )


def test_a_gpu_with_the_papers_ratios_draws_most(tmp_path: Path) -> None:
    """4 W beside 1 W of the CPU and 2 W of memory, of 8 W in all."""
    vision = powers(tmp_path / "r", "resnet50", 4000, 1000, 2000)
    found = verdict_of(6, thrice(vision, powers(tmp_path / "l", "char-cnn", 1500, 1000, 2000)))
    figures = found.cases[0].figures()
    assert found.verdict == "holds"
    assert figures["over_cpu"].value == pytest.approx(4.0)
    assert figures["over_other"].value == pytest.approx(2.0)
    assert figures["gpu_share"].value == pytest.approx(0.5)


def test_memory_should_draw_most_with_an_lstm(tmp_path: Path) -> None:
    held = verdict_of(6, thrice(powers(tmp_path / "a", "char-cnn", 1500, 1000, 2000)))
    assert held.cases[0].verdict == "holds"
    assert held.verdict == "undecided"  # what draws most without an LSTM was not seen
    assert "record both" in held.advice
    assert held.cases[0].figures()["over_other"].value == pytest.approx(2 / 1.5)
    failed = verdict_of(6, thrice(powers(tmp_path / "b", "char-cnn", 3000, 1000, 2000)))
    assert failed.verdict == "does not hold"


def test_a_cpu_that_draws_most_does_not_hold(tmp_path: Path) -> None:
    found = verdict_of(6, thrice(powers(tmp_path / "r", "resnet50", 2000, 3000, 1000)))
    assert found.verdict == "does not hold"


def test_without_rails_or_by_a_power_model_it_cannot_be_tested(tmp_path: Path) -> None:
    total = [steady(rail("system", "power_total"), 5000)]
    run = recorded(tmp_path / "total", 6, total, on_gpu, steps=30)
    assert "no rails" in verdict_of(6, thrice(run)).sentences[0].lower()
    two = [steady(rail("gpu"), 2000), steady(rail("cpu"), 1000), *total]
    run = recorded(tmp_path / "two", 6, two, on_gpu, steps=30)
    assert_says(verdict_of(6, thrice(run)).sentences[0].lower(), "no rail", "memory")
    model = {"name": "vcpu", "idle_watts_a_core": 0.5, "busy_watts_a_core": 3.0, "source": "made"}
    run = recorded(
        tmp_path / "model", 6, [steady_core(0, 0.9), steady_core(1, 0.1)], steps=30,
        power_model=model,
    )  # fmt: skip
    assert "circular" in verdict_of(6, thrice(run)).sentences[0]


def test_a_rail_that_cannot_be_read_leaves_it_open(tmp_path: Path) -> None:
    """A memory rail that fails at every read has no samples: it is as if it were not there."""
    ratio = {"6": {"gpu/cpu": figure(4.0, 0.1, "1"), "gpu/memory": figure(1.0, None, "1")}}
    run = observed("resnet50", metrics={"gpu_utilization": figure(0.9, 0.01)}, extra=ratio)
    assert verdict_of(6, thrice(run)).verdict == "undecided"
    assert Status.MEASURED is verdict_of(6, thrice(run)).status

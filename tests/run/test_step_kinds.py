"""Steps that take turns: each operation counts as often as its kind of step comes, whatever was traced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.run.made import told
from tests.run.taking_turns import US, Step, write_steps
from tests.wording import saying

from wattstep.record.tracing.schedule import Schedule, TraceMode
from wattstep.run import load

MS = 1000 * US
# Two networks in turn: the first takes 3 ms, the second 7 ms, and each has an optimizer of its own.
FIRST = Step(
    phases=(
        ("forward", (("conv", 1 * MS),)),
        ("backward", (("conv_backward", 1500 * US),)),
        ("optimizer", (("adam", 500 * US),)),
    ),
    watts={"conv": 10.0, "conv_backward": 10.0, "adam": 10.0},
)
SECOND = Step(
    phases=(
        ("forward", (("linear", 2 * MS),)),
        ("backward", (("linear_backward", 4 * MS),)),
        ("optimizer", (("sgd", 1 * MS),)),
    ),
    watts={"linear": 2.0, "linear_backward": 2.0, "sgd": 2.0},
)
OPERATIONS = {
    "conv": 1e-3, "conv_backward": 1.5e-3, "adam": 0.5e-3,
    "linear": 2e-3, "linear_backward": 4e-3, "sgd": 1e-3,
}  # fmt: skip


def scheduled(steps: int, mode: str = "every:3") -> Callable[[int], bool]:
    schedule = Schedule(TraceMode.parse(mode), 3)
    found = set()
    for index in range(steps):
        if index >= schedule.next_step:
            found.add(index)
            schedule.after_window(index, 10**6)
        else:
            schedule.clean_step(10**6)
    return found.__contains__


def times(document: dict[str, Any]) -> dict[str, float]:
    return {row["name"]: row["time"]["value"] for row in document["operations"]}


@pytest.mark.parametrize("turn", ["AB", "AAB", "AAAAAB", "ABB"])
def test_an_operation_of_one_kind_counts_as_often_as_its_kind_comes(
    tmp_path: Path, turn: str
) -> None:
    steps = [FIRST if turn[n % len(turn)] == "A" else SECOND for n in range(240)]
    document = load(write_steps(tmp_path / "run", steps, scheduled(240))).document()
    share = turn.count("A") / len(turn)
    found = times(document)
    for name, seconds in OPERATIONS.items():
        part = share if name in ("conv", "conv_backward", "adam") else 1 - share
        # Clean steps need not be just so many of each kind: one of 150 more is 1 %.
        assert found[name] == pytest.approx(part * seconds, rel=0.06)
    calls = {row["name"]: row["calls"]["value"] for row in document["operations"]}
    assert calls["conv"] + calls["linear"] == pytest.approx(1.0)
    assert calls["adam"] == pytest.approx(share, abs=0.03)
    flops = {row["name"]: row["flops"]["value"] for row in document["operations"]}
    assert flops["adam"] == pytest.approx(1000 * share, abs=30)
    whole = sum(found.values()) + sum(rest["time"]["value"] for rest in document["rests"].values())
    assert whole == pytest.approx(document["metrics"]["step_time"]["value"], rel=1e-9)


def test_kinds_of_steps_are_told_with_their_times_and_a_note(tmp_path: Path) -> None:
    steps = [FIRST if n % 2 == 0 else SECOND for n in range(120)]
    document = load(write_steps(tmp_path / "run", steps, scheduled(120))).document()
    first, second = document["step_kinds"]
    assert (first["kind"], second["kind"]) == ("A", "B")
    assert first["time"]["value"] == pytest.approx(3e-3)
    assert second["time"]["value"] == pytest.approx(7e-3)
    assert first["share"]["value"] == pytest.approx(0.5, abs=0.05)
    assert first["traced"] + second["traced"] == document["steps"]["traced"]
    assert saying(document["status_notes"], "(AB; A takes 3 ms, B takes 7 ms)")
    of = {row["name"]: row["step_kinds"] for row in document["operations"]}
    assert of == {name: "A" if n < 3 else "B" for n, name in enumerate(OPERATIONS)}


def test_steps_that_are_alike_have_no_kinds(tmp_path: Path) -> None:
    document = load(write_steps(tmp_path / "run", [FIRST] * 60, scheduled(60))).document()
    assert document["step_kinds"] == []
    assert "step_kinds" not in document["operations"][0]


def test_operations_that_run_now_and_then_make_no_kinds(tmp_path: Path) -> None:
    """A copy of 2 % of the step in some steps: alike but for it, 3 traced ones of 10 have it."""
    (name, operations), *others = FIRST.phases
    copying = Step(phases=((name, (*operations, ("copy_", 60 * US))), *others))
    draw = np.random.default_rng(7).random(240) < 0.3
    steps = [copying if copies else FIRST for copies in draw]
    document = load(write_steps(tmp_path / "run", steps, scheduled(240))).document()
    assert document["step_kinds"] == []
    assert not any("kinds" in note for note in document["status_notes"])


def test_steps_that_run_the_same_are_of_one_kind_however_long_they_take(tmp_path: Path) -> None:
    """Something else on the machine makes the third and fifth of five steps slow."""
    slow = Step(
        phases=tuple((name, tuple((n, 2 * ns) for n, ns in ran)) for name, ran in FIRST.phases)
    )
    steps = [slow if n % 5 in (2, 4) else FIRST for n in range(300)]
    run = write_steps(tmp_path / "run", steps, lambda n: n > 3 and n % 15 in (5, 12))
    assert load(run).document()["step_kinds"] == []


def test_a_kind_that_was_never_traced_is_named_and_takes_its_time(tmp_path: Path) -> None:
    """As windows in lock step with the training would have it."""
    steps = [FIRST if n % 2 == 0 else SECOND for n in range(240)]
    run = write_steps(tmp_path / "run", steps, lambda n: n > 3 and n % 6 == 4)
    document = load(run).document()
    found = times(document)
    assert set(found) == {"conv", "conv_backward", "adam"}
    clean = [n for n in range(3, 240) if n % 6 not in (4, 5)]
    share = sum(n % 2 == 0 for n in clean) / len(clean)
    assert found["conv"] == pytest.approx(1e-3 * share, rel=1e-6)
    rest = document["rests"]["steps that were not traced"]["time"]["value"]
    assert rest == pytest.approx((1 - share) * 7e-3, rel=1e-6)
    assert saying(document["status_notes"], "none of kind B")


def test_the_optimizer_of_every_fourth_step_counts_a_quarter(tmp_path: Path) -> None:
    """Gradients of four batches: three steps have no optimizer, and another sequence of phases."""
    without = Step(phases=FIRST.phases[:2])
    steps = [FIRST if n % 4 == 3 else without for n in range(240)]
    document = load(write_steps(tmp_path / "run", steps, scheduled(240))).document()
    assert times(document)["adam"] == pytest.approx(0.125e-3, rel=0.05)
    assert times(document)["conv"] == pytest.approx(1e-3, rel=1e-3)


def test_where_kinds_take_turns_the_step_is_told_and_single_operations_say_why_not(
    tmp_path: Path,
) -> None:
    """10 W in steps of 3 ms, 2 W in those of 7 ms: 22 mJ on the mean; read every 50 µs."""
    steps = [FIRST if n % 2 == 0 else SECOND for n in range(240)]
    run = write_steps(tmp_path / "run", steps, scheduled(240), sample_ns=50 * US)
    document = load(run).document()
    for table in ("operations", "layers", "phases", "kinds"):
        for row in document[table]:
            assert row["energy"]["value"] is None
            assert "of several kinds" in row["energy"]["reason"]
    whole = document["metrics"]["energy_per_step"]
    assert whole["low"] <= 0.022 <= whole["high"]
    assert told(document) == pytest.approx(whole["value"], rel=1e-3)


def test_kinds_that_follow_no_turn_are_told_all_the_same(tmp_path: Path) -> None:
    draw = np.random.default_rng(4).random(240) < 0.4
    steps = [SECOND if second else FIRST for second in draw]
    document = load(write_steps(tmp_path / "run", steps, scheduled(240))).document()
    assert len(document["step_kinds"]) == 2
    assert any("follow no turn" in note for note in document["status_notes"])
    for row in document["operations"]:
        part = (
            draw.mean() if row["name"] in ("linear", "linear_backward", "sgd") else 1 - draw.mean()
        )
        truth = part * OPERATIONS[row["name"]]
        assert row["time"]["low"] <= truth <= row["time"]["high"]

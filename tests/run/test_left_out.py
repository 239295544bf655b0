"""Traced steps that do not stand for clean ones: left out and counted; few of them are said at the table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.run.taking_turns import US, Step, write_steps
from tests.run.test_step_kinds import MS, scheduled, times
from tests.wording import assert_says, saying

from wattstep.record.tracing.giving_way import waited_most
from wattstep.run import load

SMALL = (("aten::ones_like", 20 * US), ("aten::conv2d", 600 * US), ("aten::mm", 380 * US))


def step(stuck_ns: int = 0, waited_ns: int | None = None) -> Step:
    """A step of 1 ms; where it is stuck, its smallest operation takes the blame."""
    operations = [(name, ns + (stuck_ns if n == 0 else 0)) for n, (name, ns) in enumerate(SMALL)]
    return Step(phases=(("forward", operations),), waited_ns=waited_ns)


@pytest.mark.parametrize("told", [True, False])
def test_one_preempted_traced_step_does_not_make_a_table(tmp_path: Path, told: bool) -> None:
    """64 steps of 1 ms; of some traced ones the first was kept from running for 24 ms in a small operation.

    The thread's own account tells it, or that no clean step ever took so long.
    """
    traced = scheduled(64, "every:9")
    first = next(n for n in range(64) if traced(n))
    stuck = step(24 * MS, 24 * MS if told else None)
    steps = [stuck if n == first else step(0, 0 if told else None) for n in range(64)]
    document = load(write_steps(tmp_path / "run", steps, traced)).document()
    assert times(document) == pytest.approx({name: ns * 1e-9 for name, ns in SMALL}, rel=0.02)
    count = document["steps"]["traced"]
    assert document["operations"][0]["time"]["n"] == count - 1
    assert_says(document["operations_notes"][0], f"1 of {count} traced steps")
    assert document["metrics"]["trace_inflation"]["value"] < 1.1


def test_a_slow_step_that_comes_in_clean_ones_too_is_kept(tmp_path: Path) -> None:
    """One step in ten takes three times as long: so it was, and nothing waited."""
    draw = np.random.default_rng(3)
    slow = draw.random(300) < 0.1
    steps = [step(2 * MS if each else 0, 0) for each in slow]
    document = load(write_steps(tmp_path / "run", steps, scheduled(300, "every:9"))).document()
    assert document["operations"][0]["time"]["n"] == document["steps"]["traced"]


def test_where_every_traced_step_waits_that_is_how_it_runs(tmp_path: Path) -> None:
    steps = [step(0, 300 * US)] * 64
    document = load(write_steps(tmp_path / "run", steps, scheduled(64))).document()
    assert document["operations"][0]["time"]["n"] == document["steps"]["traced"]
    assert not document["operations_notes"]


def test_what_no_traced_step_showed_widens_every_interval_and_is_said(tmp_path: Path) -> None:
    """One clean step in ten takes 3 ms instead of 1, none of the traced ones."""
    draw = np.random.default_rng(3)
    traced = scheduled(120, "every:19")
    slow = [not traced(n) and draw.random() < 0.1 for n in range(120)]
    steps = [step(2 * MS if each else 0, 0) for each in slow]
    document = load(write_steps(tmp_path / "run", steps, traced)).document()
    assert saying(document["operations_notes"], "not known", "widens")
    clean = [n for n in range(3, 120) if not traced(n) and not traced(n - 1)]
    truth = np.mean([SMALL[0][1] * 1e-9 + (2e-3 if slow[n] else 0) for n in clean])
    row = next(row for row in document["operations"] if row["name"] == "aten::ones_like")
    assert row["time"]["low"] <= truth <= row["time"]["high"]


def test_few_traced_steps_are_said_at_the_table(tmp_path: Path) -> None:
    steps = [step(0, 0)] * 40
    document = load(write_steps(tmp_path / "run", steps, lambda n: n in (10, 20, 31))).document()
    (note,) = document["operations_notes"]
    assert_says(note, "3 traced steps", "narrow intervals")


def test_the_thread_that_waited_longest_counts() -> None:
    before, after = {7: (100.0, 3), 8: (0.0, 0)}, {7: (400.0, 5), 8: (900.0, 0), 9: (5000.0, 0)}
    assert waited_most(before, after) == (900.0, 2)


def test_without_an_account_of_the_kernel_waiting_counts_where_the_thread_had_to_give_way() -> None:
    """Wall less CPU time: 600 ns, of a thread that slept by itself, and of one that was preempted."""
    assert waited_most({-7: (100.0, 3)}, {-7: (700.0, 3)}) == (0.0, 0)
    assert waited_most({-7: (100.0, 3)}, {-7: (700.0, 4)}) == (600.0, 1)

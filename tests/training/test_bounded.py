"""What comes beside the measured steps is bounded in time, by a clock that the steps move."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.refusals import refused
from tests.wording import saying

from wattstep.train.loop import FEWEST_STEPS, MOST_TIMES, _Loop
from wattstep.train.settings import TrainingSettings

LOOP = "wattstep.train.loop"


class Slow:
    """A recorder, its steps and an engine in one: each step takes so many seconds of a clock of its own."""

    can_trace = True

    def __init__(self, path: Path, step_s: float) -> None:
        self.path, self._step_s = path, step_s
        self.lost: range | tuple[int, ...] = ()  # steps without a finite loss
        self.info = SimpleNamespace(
            reads=(), power_model=None, calibration=None, warmup=0, asked={}, options={}
        )
        self.now_ns = self.index = self.traced_steps = 0
        self.problem = None
        self.notes: list[str] = []
        self.followed = False
        self._next = False

    def clock(self) -> int:
        return self.now_ns

    @contextmanager
    def exclude(self, name: str) -> Iterator[None]:
        self.followed = True
        yield

    @property
    def steps(self) -> Slow:
        return self

    phases_on = True

    def begin(self) -> int:
        return self.now_ns

    def step(self, phase: Any) -> float:
        self.now_ns += round(self._step_s * 1e9)
        return (math.nan, 2e30)[self.index % 2] if self.index in self.lost else 1.0

    def end(self, begun_ns: int, loss: float) -> None:
        self.index += 1
        self.traced_steps += self._next
        self._next = False

    def mark(self, name: str) -> None: ...

    def due(self) -> None: ...

    def scheduling(self) -> None: ...

    def trace_next(self) -> None:
        self._next = True

    def note(self, text: str) -> None:
        self.notes.append(text)

    def memory(self, *sizes: Any) -> Any:
        return {}


def run(
    path: Path, step_s: float, monkeypatch: pytest.MonkeyPatch, warmup: int = 0,
    lost: range | tuple[int, ...] = (), **asked: Any,
) -> Slow:  # fmt: skip
    slow: Any = Slow(path, step_s)
    slow.lost = lost
    monkeypatch.setattr(f"{LOOP}.track_step", lambda engine, device: {})
    settings = TrainingSettings(workload="lenet", warmup=warmup, **asked)
    _Loop(settings, slow, slow, lambda progress: None, None, clock=slow.clock).run()
    return slow  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("step_s", "warmup"),
    [(0.1, 3), (0.3, 3), (0.5, 3), (0.9, 3), (1.5, 0), (2.0, 0)],
)
def test_a_run_of_4_s_on_a_crowded_machine_takes_no_more_than_three_times_as_long(
    step_s: float, warmup: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the warm-up; 20 steps of 0.9 s and 10 windows would have taken 54 s."""
    slow = run(tmp_path, step_s, monkeypatch, warmup, seconds=4.0)
    assert slow.now_ns * 1e-9 <= MOST_TIMES * 4
    assert slow.index >= warmup + FEWEST_STEPS
    assert slow.traced_steps >= 1


def test_what_a_crowded_machine_leaves_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of 3 s: three that count and one that is traced, whatever they take."""
    slow = run(tmp_path, 3.0, monkeypatch, seconds=4.0)
    assert (slow.now_ns * 1e-9, slow.index, slow.traced_steps) == (12.0, 4, 1)
    assert any("3 clean steps, not 20" in note for note in slow.notes)
    assert any("traced steps: 1, not 10" in note for note in slow.notes)
    assert saying(slow.notes, "memory by category")
    assert not slow.followed


def test_time_for_which_the_machine_idles_is_not_taken_from_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def idles(settings: Any, recorder: Slow, *more: Any) -> None:
        recorder.now_ns += 30 * 10**9

    monkeypatch.setattr(f"{LOOP}._stay_idle", idles)
    assert run(tmp_path, 0.01, monkeypatch, seconds=4.0).followed


def test_a_run_of_quick_steps_leaves_nothing_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = run(tmp_path, 0.01, monkeypatch, seconds=4.0)
    assert slow.traced_steps == 10
    assert slow.followed
    assert slow.notes == []


def test_steps_that_were_asked_for_by_number_are_all_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = run(tmp_path, 3.0, monkeypatch, steps=30)
    assert slow.index >= 30
    assert slow.now_ns * 1e-9 <= 2 * 30 * 3


@pytest.mark.parametrize("first", [1, 9])
def test_a_training_that_diverges_in_its_first_ten_steps_is_refused(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refused("diverging-training", "lenet", f"step {first + 1}", "lr="):
        run(tmp_path, 0.01, monkeypatch, seconds=4.0, lost=range(first, 10**6))


def test_a_training_that_diverges_at_once_is_a_result_of_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = run(tmp_path, 0.01, monkeypatch, seconds=4.0, lost=range(1, 10**6), keeps_diverging=True)
    assert slow.index == 3
    assert saying(slow.notes, "step 1", "diverged")


def test_a_training_that_diverges_later_ends_there_and_is_traced_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = run(tmp_path, 0.01, monkeypatch, seconds=4.0, lost=range(50, 10**6))
    assert (slow.index, slow.traced_steps) == (52, 0)  # the second loss of the kind tells it
    assert saying(slow.notes, "step 50", "diverged")


def test_a_loss_that_is_not_finite_once_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of scaled gradients that overflow: the step is skipped."""
    slow = run(tmp_path, 0.01, monkeypatch, seconds=4.0, lost=(3, 60, 90))
    assert slow.notes == []
    assert slow.index > 400

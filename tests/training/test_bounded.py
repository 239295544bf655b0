"""What comes beside the measured steps is bounded in time, by a clock that the steps move."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wattstep.training import BESIDE_S, FEWEST_STEPS, MOST_TIMES, TrainingSettings, _Loop


class Slow:
    """A recorder and an engine in one: each step takes so many seconds of a clock of its own."""

    def __init__(self, path: Path, step_s: float) -> None:
        self.path, self._step_s = path, step_s
        self.info = SimpleNamespace(reads=(), power_model=None, calibration=None)
        self.now_ns = self.index = self.windows = 0
        self.problem = None
        self.notes: list[str] = []
        self.followed = False
        self._next = False

    def clock(self) -> int:
        return self.now_ns

    @contextmanager
    def apart(self, name: str) -> Iterator[None]:
        self.followed = True
        yield

    @contextmanager
    def recorded(self, samples: float) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(loss=1.0)
        self.index += 1
        self.windows += self._next
        self._next = False

    def step(self, phase: Any = None, samples: float = 0) -> Any:
        if samples:
            return self.recorded(samples)
        self.now_ns += round(self._step_s * 1e9)
        return 1.0

    def phase(self, name: str) -> None: ...

    def trace_next(self) -> None:
        self._next = True

    def note(self, text: str) -> None:
        self.notes.append(text)

    def memory(self, *sizes: Any) -> Any:
        return {}


def run(path: Path, step_s: float, monkeypatch: pytest.MonkeyPatch, **asked: Any) -> Slow:
    slow: Any = Slow(path, step_s)
    monkeypatch.setattr("wattstep.training.track_step", lambda engine: {})
    settings = TrainingSettings(workload="lenet", warmup=0, **asked)
    _Loop(settings, slow, slow, lambda progress: None, None, clock=slow.clock).run()
    return slow  # type: ignore[no-any-return]


def test_a_run_of_4_s_on_a_crowded_machine_ends_in_proportion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of 3 s: 20 of them and 10 windows would have taken 3 minutes."""
    slow = run(tmp_path, 3.0, monkeypatch, seconds=4.0)
    assert slow.now_ns * 1e-9 <= MOST_TIMES * 4 + 3 + max(BESIDE_S, MOST_TIMES * 4 + 3)
    assert slow.index >= FEWEST_STEPS
    assert any("steps count, not 20" in note for note in slow.notes)
    assert any("steps were traced, not 10" in note for note in slow.notes)
    assert any("memory by category is not known" in note for note in slow.notes)
    assert not slow.followed


def test_a_run_of_quick_steps_leaves_nothing_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = run(tmp_path, 0.01, monkeypatch, seconds=4.0)
    assert slow.windows == 10
    assert slow.followed
    assert slow.notes == []


def test_steps_that_were_asked_for_by_number_are_all_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = run(tmp_path, 3.0, monkeypatch, steps=30)
    assert slow.index >= 30
    assert slow.now_ns * 1e-9 <= 2 * 30 * 3

"""The load that moves an emulated board: one busy core stays one, however full the machine is."""

from __future__ import annotations

import itertools
import time

import pytest

from wattstep.record.hosts.emulation import load

MS = 1_000_000


class Clocks:
    """A machine on which one process is busy on one core, and whoever watches it is interrupted."""

    def __init__(self, before_ns: list[int]) -> None:
        self.now_ns = 0
        self._before_ns = iter(before_ns)

    def monotonic_ns(self) -> int:
        self.now_ns += 1_000
        return self.now_ns

    def used_ns(self, pid: int) -> int:
        self.now_ns += next(self._before_ns)
        return self.now_ns


def watched(monkeypatch: pytest.MonkeyPatch, before_ns: list[int]) -> list[float]:
    clocks = Clocks(before_ns)
    monkeypatch.setattr(time, "monotonic_ns", clocks.monotonic_ns)
    monkeypatch.setattr(time, "clock_gettime_ns", clocks.used_ns)
    monkeypatch.setattr(load, "_descendants", lambda pid, us: [])
    training = load.Training(7, 8)
    found = []
    for _ in range(20):
        clocks.now_ns += 10 * MS
        found.append(training.busy_cores()[2])
    return found


def test_a_watcher_that_is_interrupted_once_in_two_readings_sees_one_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interrupted = list(itertools.islice(itertools.cycle([60 * MS, 1_000]), 200))
    assert watched(monkeypatch, interrupted) == pytest.approx([1.0] * 20, abs=0.01)


def test_readings_that_are_all_interrupted_are_wrong_by_half_of_the_shortest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = watched(monkeypatch, [6 * MS] * 200)
    # Five readings of 6 ms each, and 10 ms: 40 ms between two of them, each known to within 3 ms.
    assert found == pytest.approx([1.0] * 20, abs=6 / 40)

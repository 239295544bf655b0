"""Blocks in the order A B B A, and the interval of B against A; A against A beside it."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from wattstep import engines, workloads
from wattstep.record.recorder import _release
from wattstep.schema.workload import Preparation

Block = Callable[[], float]  # seconds a step


def compare(plain: Block, other: Block, quadruples: int) -> dict[str, list[float]]:
    """Log ratios of quadruples: A B B A ("recorded") and A A A A ("control"), taken in turn."""
    ratios: dict[str, list[float]] = {"recorded": [], "control": []}
    for _ in range(quadruples):
        for name, second in (("recorded", other), ("control", plain)):
            a1, b1, b2, a2 = plain(), second(), second(), plain()
            ratios[name].append(math.log((b1 + b2) / (a1 + a2)))
    return ratios


def interval(ratios: list[float], seed: int = 0) -> tuple[float, float, float]:
    """Median of the cost as a share, with a 95 % bootstrap interval over quadruples."""
    values = np.array(ratios)
    draws = np.random.default_rng(seed).integers(0, len(values), (4000, len(values)))
    medians = np.median(values[draws], axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return tuple(math.expm1(x) for x in (float(np.median(values)), float(low), float(high)))  # type: ignore[return-value]


def shown(ratios: list[float]) -> str:
    """For a table."""
    middle, low, high = interval(ratios)
    return f"{middle:+7.2%} ({low:+.2%} to {high:+.2%})"


def abandon(recorder: Any) -> int:
    """Ends a recording without writing its tables; returns how many ticks were sampled."""
    recorder._sampling.stop()
    recorder._state = "closed"
    recorder.steps.close()
    ticks = (recorder.path / "journal" / "ticks.bin").stat().st_size // 32
    recorder._lock.release()
    _release(recorder)
    return int(ticks)


class Blocks:
    """Steps of one workload, and blocks of so many seconds of them."""

    def __init__(self, name: str, threads: int, seconds: float) -> None:
        self.engine: Any = engines.find("torch").prepare(
            workloads.find(name), Preparation(batch_size=4), threads=threads
        )
        for _ in range(5):
            self.engine.step()
        begin = time.perf_counter()
        count = 0
        while time.perf_counter() - begin < 1.0:
            self.engine.step()
            count += 1
        self.steps = max(3, round(seconds * count / (time.perf_counter() - begin)))
        self.settling = max(3, self.steps // 5)

    def plain(self) -> float:
        step = self.engine.step
        gc.collect()  # what a start leaves to be collected is no cost of the steps
        for _ in range(self.settling):
            step()
        begin = time.perf_counter()
        for _ in range(self.steps):
            step()
        return (time.perf_counter() - begin) / self.steps

"""How often 95 % intervals hold where there is little to go by: few traced steps, short runs, rare slow steps, kinds that take turns.

Runs with known truths are written as a recorder writes them, closed, opened, and their tables held
against the truth of the process that made them (not of the steps that happened to be drawn). The
interval score (Gneiting and Raftery 2007) is over the truth: the width, and 40 times by how much
the truth is missed.

    python benchmarks/few.py [RUNS] [SCENARIO ...]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.run.taking_turns import US, Step, write_steps

from wattstep.record.tracing.schedule import Schedule, TraceMode
from wattstep.run import load
from wattstep.schema.figure import Figure

FORWARD = {"conv": 400e-6, "relu": 40e-6, "linear": 160e-6}
BACKWARD = {"conv_backward": 700e-6, "sum": 100e-6}
OTHER = {"matmul": 900e-6, "softmax": 100e-6, "adam": 300e-6}


@dataclass(frozen=True)
class Scenario:
    """Steps that are drawn at random.

    Attributes:
        factors: Draws for so many steps and operations what each takes over its usual time.
        expected: What it takes on average, by operation: 1 where not said.
        windows: Traced steps; 0: none.
        clean: Clean steps between two of them, or of a run without.
        turn: Kinds of steps: "A" has the operations of one network, "B" those of another.
        preempted: Share of traced steps that wait for a core.
    """

    factors: Callable[[np.random.Generator, int, int], np.ndarray]
    expected: Mapping[str, float] = field(default_factory=dict)
    windows: int = 0
    clean: int = 9
    turn: str = "A"
    preempted: float = 0.0


def apart(draw: np.random.Generator, steps: int, operations: int) -> np.ndarray:
    """Each operation varies by itself, by 10 %."""
    return 1 + 0.1 * draw.standard_normal((steps, operations))


def together(draw: np.random.Generator, steps: int, operations: int) -> np.ndarray:
    """All of a step vary alike, by 10 %, and each by 2 %."""
    return (1 + 0.1 * draw.standard_normal((steps, 1))) * (
        1 + 0.02 * draw.standard_normal((steps, operations))
    )


def autoregressive(rho: float) -> Callable[[np.random.Generator, int, int], np.ndarray]:
    """All of a step vary alike, by 10 %, and are like those of the step before."""

    def drawn(draw: np.random.Generator, steps: int, operations: int) -> np.ndarray:
        fresh = draw.standard_normal(steps)
        state = np.empty(steps)
        state[0] = fresh[0]
        for n in range(1, steps):
            state[n] = rho * state[n - 1] + np.sqrt(1 - rho**2) * fresh[n]
        noise = 1 + 0.02 * draw.standard_normal((steps, operations))
        return (1 + 0.1 * state[:, None]) * noise

    return drawn


def slow_steps(draw: np.random.Generator, steps: int, operations: int) -> np.ndarray:
    """One step in ten takes three times as long, all of it."""
    slow = np.where(draw.random((steps, 1)) < 0.1, 3.0, 1.0)
    return slow * (1 + 0.02 * draw.standard_normal((steps, operations)))


def slow_operation(draw: np.random.Generator, steps: int, operations: int) -> np.ndarray:
    """One step in ten takes three times as long, all of it in the first operation."""
    found = 1 + 0.02 * draw.standard_normal((steps, operations))
    whole = sum(FORWARD.values()) + sum(BACKWARD.values())
    found[:, 0] += np.where(draw.random(steps) < 0.1, 2 * whole / FORWARD["conv"], 0.0)
    return found


WHOLE = sum(FORWARD.values()) + sum(BACKWARD.values())
SLOW_OPERATION = {"conv": 1 + 0.1 * 2 * WHOLE / FORWARD["conv"]}
SLOW_STEPS = dict.fromkeys((*FORWARD, *BACKWARD), 1.2)
SCENARIOS: dict[str, Scenario] = {}
for n in (2, 3, 5, 10, 15):
    SCENARIOS[f"apart, {n} traced"] = Scenario(apart, windows=n)
    SCENARIOS[f"together, {n} traced"] = Scenario(together, windows=n)
    SCENARIOS[f"slow step in ten, {n} traced"] = Scenario(slow_steps, SLOW_STEPS, windows=n)
    SCENARIOS[f"slow operation in ten, {n} traced"] = Scenario(
        slow_operation, SLOW_OPERATION, windows=n
    )
    SCENARIOS[f"AR(0.9), {n} traced"] = Scenario(autoregressive(0.9), windows=n)
for n in (10, 15):
    for turn in ("AB", "AAB"):
        SCENARIOS[f"turns {turn}, {n} traced"] = Scenario(apart, windows=n, turn=turn)
    SCENARIOS[f"a third preempted, {n} traced"] = Scenario(apart, windows=n, preempted=0.33)
for n in (5, 10, 30, 60):
    for rho in (0.0, 0.5, 0.9):
        SCENARIOS[f"AR({rho:g}), {n} steps"] = Scenario(autoregressive(rho), clean=n)
WARMUP = 3


def traced_steps(scenario: Scenario) -> tuple[set[int], int]:
    """Which steps are traced, and how many there are."""
    if not scenario.windows:
        return set(), WARMUP + scenario.clean
    schedule = Schedule(TraceMode.parse(f"every:{scenario.clean}"), WARMUP)
    found: set[int] = set()
    while len(found) < scenario.windows:
        index = int(schedule.next_step)
        found.add(index)
        schedule.after_window(index, 10**6)
    return found, max(found) + scenario.clean


def make(path: Path, scenario: Scenario, seed: int) -> dict[tuple[str, str], float]:
    """Writes a run; what its operations, phases and steps take on average in truth."""
    draw = np.random.default_rng(seed)
    traced, count = traced_steps(scenario)
    kinds = {
        "A": (("forward", FORWARD), ("backward", BACKWARD)),
        "B": (("forward", OTHER),),
    }
    factors = scenario.factors(draw, count, max(len(FORWARD) + len(BACKWARD), len(OTHER)))
    steps = []
    for index in range(count):
        phases, at = [], 0
        waited = 0
        for phase, usual in kinds[scenario.turn[index % len(scenario.turn)]]:
            operations = []
            for name, seconds in usual.items():
                operations.append((name, round(max(seconds * factors[index, at], 1e-6) * 1e9)))
                at += 1
            if index in traced and not waited and draw.random() < scenario.preempted:
                waited = round(draw.exponential(20e-3) * 1e9) + 500 * US
                which = int(draw.integers(len(operations)))
                operations[which] = operations[which][0], operations[which][1] + waited
            phases.append((phase, operations))
        steps.append(Step(phases=phases, waited_ns=waited))
    write_steps(path, steps, traced.__contains__)
    truth: dict[tuple[str, str], float] = {("step", "step"): 0.0}
    for kind in "AB":
        part = scenario.turn.count(kind) / len(scenario.turn)
        for phase, usual in kinds[kind] if part else ():
            for name, seconds in usual.items():
                value = part * seconds * scenario.expected.get(name, 1.0)
                truth["operations", name] = value
                truth["phases", phase] = truth.get(("phases", phase), 0.0) + value
                truth["step", "step"] += value
    return truth


def found_in(path: Path) -> dict[tuple[str, str], Figure]:
    """The figures of a run that have a truth."""
    run = load(path)
    found = {("step", "step"): run.breakdown.step_time}
    for row in run.breakdown.operations():
        found["operations", row.name] = row.figure("time")
    for row in run.breakdown.phases():
        found["phases", row.phase] = row.figure("time")
    return found


def score(figure: Figure, truth: float) -> float:
    """The interval score over the truth."""
    assert figure.low is not None
    assert figure.high is not None
    missed = max(figure.low - truth, truth - figure.high, 0.0)
    return (figure.high - figure.low + 40 * missed) / truth


def main() -> None:
    """Prints a table: a row a scenario, by level the share that holds, the score, and what has none."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    asked = sys.argv[2:]
    levels = ("operations", "phases", "step")
    print(f"{runs} runs each; held %, median width ±%, interval score; without an interval %")
    overall: list[bool] = []
    for name, scenario in SCENARIOS.items():
        if asked and not any(part in name for part in asked):
            continue
        held: dict[str, list[bool]] = {level: [] for level in levels}
        scores: dict[str, list[float]] = {level: [] for level in levels}
        widths: dict[str, list[float]] = {level: [] for level in levels}
        without = dict.fromkeys(levels, 0)
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(runs):
                path = Path(folder) / str(seed)
                truth = make(path, scenario, seed)
                figures = found_in(path)
                for (level, key), value in truth.items():
                    figure = figures.get((level, key))
                    if figure is None or figure.low is None or figure.high is None:
                        without[level] += scenario.windows > 0 or level == "step"
                        continue
                    held[level].append(figure.low <= value <= figure.high)
                    scores[level].append(score(figure, value))
                    widths[level].append((figure.high - figure.low) / 2 / value)
        parts = [
            f"{level} {100 * np.mean(held[level]):5.1f} ±{100 * np.median(widths[level]):.1f} "
            f"({np.mean(scores[level]):.2f}; {without[level]} without)"
            for level in levels
            if held[level] or without[level]
        ]
        overall += [each for level in levels for each in held[level]]
        print(f"{name:32s} {'   '.join(parts)}", flush=True)
    print(f"overall {100 * np.mean(overall):.1f} of {len(overall)}")


if __name__ == "__main__":
    main()

"""Programs at random: operations of all lengths beside a sensor's window, in layers, phases, and steps of several kinds."""

from __future__ import annotations

from typing import Any

import numpy as np

from truth_programs import REST_PHASES, WARMUP, Items, Program, Row, sequence_of

Array = np.ndarray[Any, Any]
LEAST_CLEAN = 3  # steps between two traced ones
LEAST_STEPS, MOST_ITEMS = 40, 60_000
LONGEST_STEP_S = (1.0, 20.0)  # anything between
LONGEST_S = 600.0  # of a recording that has not the least number of steps by then
LEAST_S = 20e-6  # no operation is shorter


def between(rng: np.random.Generator, low: float, high: float) -> float:
    """A number whose logarithm is evenly spread."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


KINDS = ("convolution", "matmul", "elementwise", "normalization", "copy", "reduction")
MARKS = ("all", "layers", "some", "none")


def random_program(rng: np.random.Generator, window_s: float, networks: int = 1) -> Program:
    """A program with operations of 0.1 to 500 windows of the sensor.

    Args:
        rng: What chooses.
        window_s: What the sensor averages over, or how often it has a new value.
        networks: How many kinds of steps come in turn.
    """
    lengths = [_operation_lengths(rng, window_s) for _ in range(networks)]
    phases = _phases(rng, min(len(seconds) for seconds in lengths))
    rows: list[Row] = []
    base = between(rng, 0.5, 5)
    prefixes = [f"net{n}." for n in range(networks)] if networks > 1 else [""]
    kinds = [
        _sequence(rng, rows, phases, seconds, base, prefix)
        for seconds, prefix in zip(lengths, prefixes, strict=True)
    ]
    step_s = float(np.mean([kind.seconds.sum() for kind in kinds]))
    most = MOST_ITEMS // max(len(kind.row) for kind in kinds)
    wanted = between(rng, 20, 120) / step_s
    if rng.random() < 0.5:  # a few hundred, however long that takes
        wanted = min(max(wanted, rng.integers(150, 600)), LONGEST_S / step_s)
    steps = int(np.clip(wanted, LEAST_STEPS, max(most, LEAST_STEPS)))
    jitter = between(rng, 0.005, 0.2)
    return Program(
        rows=tuple(rows), phases=phases, kinds=tuple(kinds), steps=steps,
        traced=traced_steps(rng, steps), jitter=jitter, speed=between(rng, 0.001, 0.05),
        memory=float(rng.uniform(0, 0.95)), power_noise=float(rng.choice([0, 0.01, 0.03])),
        ramp=float(rng.choice([0, 0, 0.1, 0.3])), between_s=between(rng, 1e-6, 0.02 * step_s + 2e-6),
        base_watts=base, event_s=between(rng, 0.3e-6, 3e-6), marks=str(rng.choice(MARKS)),
        settling=float(rng.uniform(0, 0.05)),
    )  # fmt: skip


def traced_steps(rng: np.random.Generator, steps: int) -> tuple[int, ...]:
    """Ten to thirty, the first ten of them soon or all of them anywhere, never close together."""
    wanted = min(int(rng.integers(10, 31)), (steps - WARMUP) // (LEAST_CLEAN + 3))
    first, apart = WARMUP + LEAST_CLEAN, LEAST_CLEAN + 1
    places = np.sort(rng.choice(steps - first - apart * wanted, wanted, replace=False))
    if rng.random() < 0.5:
        soon = np.arange(min(10, wanted)) * int(rng.integers(0, 3))
        places[: len(soon)] = np.minimum(places[: len(soon)], soon)
        places = np.sort(places)
    return tuple(int(n) for n in first + places + apart * np.arange(wanted))


def _phases(rng: np.random.Generator, operations: int) -> tuple[str, ...]:
    """Of a step; each but that of the data has an operation at least."""
    turn = ("forward", "backward", "optimizer")[: int(rng.choice([2, 3, 3]))]
    turns = turn * int(rng.choice([1, 1, 1, 2]))
    turns = turns[:operations]
    return ("data", *turns) if rng.random() < 0.5 else turns


def _sequence(
    rng: np.random.Generator, rows: list[Row], phases: tuple[str, ...], seconds: Array,
    base: float, prefix: str,
) -> Items:  # fmt: skip
    """One kind of step; its rows are put to the others."""
    count = len(seconds)
    working = [turn for turn, name in enumerate(phases) if name not in REST_PHASES]
    more = rng.choice(working, count - len(working))
    turn_of = np.sort(np.concatenate([working, more]).astype(np.int64))
    layers = np.sort(rng.integers(0, max(1, count // int(rng.integers(2, 6))), count))
    kind_of = rng.integers(0, len(KINDS), count)
    of_kind = base + 8 * np.exp(0.6 * rng.standard_normal(len(KINDS)))
    watts = base + (of_kind[kind_of] - base) * np.exp(0.4 * rng.standard_normal(count))
    watts[rng.random(count) < 0.05] = base
    first = len(rows)
    rows += [
        Row(
            name=f"{prefix}op{n}", kind=KINDS[kind_of[n]], phase=phases[turn_of[n]],
            layer=f"{prefix}layer{layers[n]}",
        )
        for n in range(count)
    ]  # fmt: skip
    calls = rng.integers(1, 4, count) if rng.random() < 0.3 else np.ones(count, int)
    instances = np.repeat(np.arange(count), calls)
    instances = instances[np.lexsort([rng.random(len(instances)), turn_of[instances]])]
    items: list[tuple[int, int, float, float]] = []
    share = between(rng, 0.001, 0.05)
    for turn, phase in enumerate(phases):
        rest = _rest(rows, phase)
        here = instances[turn_of[instances] == turn]
        if phase in REST_PHASES:
            items.append((rest, turn, rng.uniform(0, 0.1) * seconds.sum() + 1e-6, 1.5 * base))
        else:  # what comes before the first operation of a phase
            items.append((rest, turn, between(rng, 1e-6, 1e-5), base))
        for n in here:
            items.append((first + int(n), turn, float(seconds[n] / calls[n]), float(watts[n])))
            gap = share * seconds[n] / calls[n] * rng.exponential() + 1e-6
            items.append((rest, turn, float(gap), base))
    return sequence_of(items)


def _rest(rows: list[Row], phase: str) -> int:
    row = Row(phase=phase)
    if row not in rows:
        rows.append(row)
    return rows.index(row)


def _operation_lengths(rng: np.random.Generator, window_s: float) -> Array:
    """2 to 60 of them; all of one size, about one size, or of all sizes."""
    count, longest = round(between(rng, 2, 60)), between(rng, *LONGEST_STEP_S)
    most = min(500.0, longest / window_s / 2)
    if rng.random() < 0.3:
        windows = np.exp(rng.uniform(np.log(0.1), np.log(most), count))
    else:
        windows = between(rng, 0.1, most) * np.exp(rng.uniform(0, 1.2) * rng.standard_normal(count))
    seconds = np.maximum(np.clip(windows, 0.1, most) * window_s, LEAST_S)
    while seconds.sum() > longest and len(seconds) > 2:
        seconds = np.delete(seconds, rng.integers(len(seconds)))
    result: Array = seconds
    return result

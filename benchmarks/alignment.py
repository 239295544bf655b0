"""How well a sensor's clock is brought to a trace's by load: seeded pairs whose truth is known.

    python benchmarks/alignment.py [--count 40] [--only NAME] [--seed 1] [--json]

Each scenario makes recordings of a training (steps with a pause in each, starts, evaluations) and of
a sensor (rate, averaging, update interval, noise, quantum, a slow drift of its value) whose clock
has an offset of up to hours and a rate of up to 100 ppm off; before and after the trace the machine
does other things. Errors are those of the map, at five moments of the overlap.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wattstep.importing.clocks.alignment import AlignmentError
from wattstep.importing.clocks.alignment_load import from_load, load_of_intervals

GOOD_S = 0.020
Array = np.ndarray


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What a pair of recordings is like.

    Attributes:
        step_s: Least and most length of a step.
        seconds: Of the trace.
        rate_hz: Least and most rate of the sensor.
        average_s: What the sensor averages over before each value; 0: it is instant.
        update_s: How often its value changes; 0: with each read.
        noise: Standard deviation, relative to what full load adds.
        quantum: Smallest step of the value, relative to what full load adds.
        ppm: Largest difference of the rates.
        pauses: Whether there are evaluations and starts.
        jump_s: By how much the sensor's clock is set in the middle.
        bend_ppm: By how much its rate changes within the trace.
        regular: Steps are of one length exactly.
        kind: "load", "constant" (always busy), "unrelated" (the sensor sees another machine),
            "noise" (the sensor sees nothing).
        documented: Whether the averaging is known.
        kinds: Kinds of work in each step, one after the other; what they add to power differs by
            up to a factor of four.
        names: How many names the trace has for the kinds; 0: one each.
        pauses_within: Share of a step's work that is pauses between its kinds; where there are
            some, what the kinds add differs by up to a factor of ten.
    """

    step_s: tuple[float, float] = (0.05, 0.5)
    seconds: tuple[float, float] = (60, 300)
    rate_hz: tuple[float, float] = (100, 100)
    average_s: float = 0.0
    update_s: float = 0.0
    noise: float = 0.2
    quantum: float = 0.0
    ppm: float = 100
    pauses: bool = True
    jump_s: float = 0.0
    bend_ppm: float = 0.0
    regular: bool = False
    kind: str = "load"
    documented: bool = False
    kinds: int = 1
    names: int = 0
    pauses_within: float = 0.0


BASE = Scenario()
SEVERAL = Scenario(kinds=3, names=1, pauses_within=0.3)
SCENARIOS: dict[str, Scenario] = {
    "steps 5 ms, 1 kHz": replace(BASE, step_s=(0.005, 0.005), rate_hz=(1000, 1000)),
    "steps 50-500 ms, 1 kHz": replace(BASE, rate_hz=(1000, 1000)),
    "steps 50-500 ms, 100 Hz": BASE,
    "steps 50-500 ms, 10 Hz": replace(BASE, rate_hz=(10, 10)),
    "steps 50-500 ms, 1 Hz": replace(BASE, rate_hz=(1, 1), seconds=(200, 600)),
    "steps 5 s, 100 Hz": replace(BASE, step_s=(5, 5), seconds=(200, 600)),
    "any steps, any rate": replace(BASE, step_s=(0.005, 5), rate_hz=(1, 1000), seconds=(60, 600)),
    "noise 3 times the signal": replace(BASE, noise=3.0),
    "quantum half of the signal": replace(BASE, quantum=0.5, noise=0.1),
    "average 422 ms, 10 Hz": replace(BASE, average_s=0.422, rate_hz=(10, 10)),
    "average 422 ms, 100 Hz": replace(BASE, average_s=0.422),
    "average 422 ms, documented": replace(BASE, average_s=0.422, documented=True),
    "average 1 s, 1 Hz": replace(BASE, average_s=1.0, rate_hz=(1, 1), seconds=(200, 600)),
    "updates of 100 ms, read at 100 Hz": replace(BASE, update_s=0.1),
    "half an hour": replace(BASE, seconds=(1800, 1800)),
    "rate bends by 60 ppm": replace(BASE, bend_ppm=60, seconds=(600, 600), ppm=40),
    "clock set by 1 to 30 s": replace(BASE, jump_s=30, seconds=(120, 300)),
    "no pauses": replace(BASE, pauses=False),
    "no pauses, regular steps": replace(BASE, pauses=False, regular=True),
    "4 kinds of work, 1 kHz": replace(BASE, kinds=4, rate_hz=(1000, 1000)),
    "4 kinds of work, 100 Hz": replace(BASE, kinds=4),
    "4 kinds of work, 10 Hz": replace(BASE, kinds=4, rate_hz=(10, 10)),
    "4 kinds of work, no pauses": replace(BASE, kinds=4, pauses=False),
    "4 kinds of work, regular steps": replace(BASE, kinds=4, pauses=False, regular=True),
    "4 kinds of work, not told apart": replace(BASE, kinds=4, names=1),
    "3 stretches a step, no names, 1 kHz": replace(SEVERAL, rate_hz=(1000, 1000)),
    "3 stretches a step, no names, 100 Hz": SEVERAL,
    "3 stretches a step, no names, 10 Hz": replace(SEVERAL, rate_hz=(10, 10)),
    "3 stretches a step, no names, no pauses": replace(SEVERAL, pauses=False),
    "5 stretches a step, no names, 100 Hz": replace(SEVERAL, kinds=5),
    "5 stretches a step, two names, 100 Hz": replace(SEVERAL, kinds=5, names=2),
    "4 kinds of work, another machine": replace(BASE, kinds=4, kind="unrelated"),
    "always busy": replace(BASE, kind="constant"),
    "sensor of another machine": replace(BASE, kind="unrelated"),
    "white noise": replace(BASE, kind="noise"),
}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two recordings, and what is true: the trace's time of moments of the sensor's clock."""

    start_ns: Array
    end_ns: Array
    kind: Array
    t_ns: Array
    watts: Array
    window_s: float | None
    at_ns: Array
    truth_ns: Array


def busy(scenario: Scenario, seconds: float, random: np.random.Generator) -> tuple[Array, Array]:
    """Starts and ends of work, in s."""
    low, high = scenario.step_s
    step = float(np.exp(random.uniform(np.log(low), np.log(high))))
    spread = 0.0 if scenario.regular else 0.04
    lengths = step * np.exp(random.normal(0, spread, int(seconds / step) + 2))
    if scenario.pauses:  # evaluations, savings, starts
        often = random.uniform(6, 25)
        many = max(2, int(seconds / often))
        lengths[random.integers(0, len(lengths), many)] += random.uniform(0.2, 4, many)
    ends = np.cumsum(lengths)
    share = random.uniform(0.6, 0.95)
    starts = ends - step * share
    keep = ends < seconds
    return starts[keep], ends[keep]


def pair(scenario: Scenario, random: np.random.Generator) -> Pair:
    """Recordings of one seeded training."""
    seconds = random.uniform(*scenario.seconds)
    starts, ends = busy(scenario, seconds, random)
    before, after = random.uniform(0, 60), random.uniform(0, 60)
    other = [busy(replace(scenario, step_s=(0.5, 4)), x, random) for x in (before, after)]
    seen_starts = np.concatenate([other[0][0] - before, starts, other[1][0] + seconds])
    seen_ends = np.concatenate([other[0][1] - before, ends, other[1][1] + seconds])
    if scenario.kind == "constant":
        starts, ends = starts[:1], ends[-1:]
    if scenario.kind == "unrelated":
        seen_starts, seen_ends = busy(BASE, seconds + before + after, random)
        seen_starts, seen_ends = seen_starts - before, seen_ends - before
    apart = np.random.default_rng(
        int(seconds * 1e6)
    )  # beside: the other scenarios stay as they are
    shares = apart.dirichlet(np.full(scenario.kinds, 3.0))
    adds = apart.uniform(0.25, 1.0, scenario.kinds) if scenario.kinds > 1 else np.ones(1)
    pauses = np.zeros(scenario.kinds)
    if scenario.pauses_within:
        adds = np.exp(apart.uniform(np.log(0.1), 0.0, scenario.kinds))
        pauses = apart.dirichlet(np.full(scenario.kinds, 2.0)) * scenario.pauses_within
        shares = shares * (1 - scenario.pauses_within)
    hertz = float(np.exp(random.uniform(*np.log(scenario.rate_hz))))
    ticks = np.arange(-before, seconds + after, 1 / hertz)
    ticks = np.sort(ticks + random.uniform(-0.02, 0.02, len(ticks)) / hertz)
    starts, ends, kind = divided(starts, ends, shares, pauses)
    seen_starts, seen_ends, seen_kind = divided(seen_starts, seen_ends, shares, pauses)
    watts = sensed(scenario, ticks, seen_starts, seen_ends, adds[seen_kind], random)
    ppm = random.uniform(-scenario.ppm, scenario.ppm)
    offset = random.uniform(-4 * 3600, 4 * 3600)
    jump = random.choice([-1, 1]) * random.uniform(1, scenario.jump_s) if scenario.jump_s else 0.0
    jump_at = random.uniform(0.35, 0.65) * seconds

    def clock(t: Array) -> Array:
        bend = scenario.bend_ppm * 1e-6 / (2 * seconds) * np.clip(t, 0, seconds) ** 2
        return t * (1 + ppm * 1e-6) + bend + offset + np.where(t >= jump_at, jump, 0.0)

    said = clock(ticks)
    kept = np.concatenate([[True], said[1:] > np.maximum.accumulate(said)[:-1]])
    epoch = 1_790_000_000 * 10**9
    moments = np.linspace(0.02, 0.98, 5) * seconds
    # A clock that is set back reads the same twice, and the log holds what came first.
    first = [clock(np.array([m]))[0] > said[ticks < m].max(initial=-np.inf) for m in moments]
    moments = moments[first]
    return Pair(
        start_ns=np.rint(starts * 1e9).astype(np.int64),
        end_ns=np.rint(ends * 1e9).astype(np.int64),
        kind=kind % scenario.names if scenario.names else kind,
        t_ns=epoch + np.rint(said[kept] * 1e9).astype(np.int64),
        watts=watts[kept],
        window_s=scenario.average_s if scenario.documented else None,
        at_ns=epoch + np.rint(clock(moments) * 1e9).astype(np.int64),
        truth_ns=np.rint(moments * 1e9).astype(np.int64),
    )


def divided(starts: Array, ends: Array, shares: Array, pauses: Array) -> tuple[Array, Array, Array]:
    """Work as one stretch of each kind after the other with its pause, and the kind of each."""
    edges = np.append(0.0, np.cumsum(np.column_stack([shares, pauses])))
    length = (ends - starts)[:, None]
    begins, finishes = (
        starts[:, None] + length * edges[:-1:2],
        starts[:, None] + length * edges[1::2],
    )
    return begins.ravel(), finishes.ravel(), np.tile(np.arange(len(shares)), len(starts))


def sensed(
    scenario: Scenario,
    ticks: Array,
    starts: Array,
    ends: Array,
    adds: Array,
    random: np.random.Generator,
) -> Array:
    """What a sensor says at these moments, relative to what full load adds."""
    edges = np.column_stack([starts, np.maximum(ends, starts + 1e-6)]).ravel()
    edges = np.maximum.accumulate(edges)
    level = np.column_stack([adds, np.zeros_like(adds)]).ravel()[:-1]
    total = np.concatenate([[0.0], np.cumsum(np.diff(edges) * level)])
    at = ticks
    if scenario.update_s:
        at = np.floor(ticks / scenario.update_s) * scenario.update_s
    width = max(scenario.average_s, 1e-4)
    level = (np.interp(at, edges, total) - np.interp(at - width, edges, total)) / width
    if scenario.kind == "noise":
        level = np.zeros_like(level)
    slow = random.uniform(-0.2, 0.2) * (ticks - ticks[0]) / (ticks[-1] - ticks[0])
    noise = random.normal(0, scenario.noise, len(ticks))
    if scenario.update_s:  # one error for each new value
        _, where = np.unique(at, return_inverse=True)
        noise = noise[: where.max() + 1][where]
    value = 1.0 + level + slow + noise
    if scenario.quantum:
        value = np.round(value / scenario.quantum) * scenario.quantum
    return value


def outcome(scenario: Scenario, seed: list[int]) -> dict[str, Any]:
    """What came of one pair: errors and their bounds in s, or why it was refused."""
    made = pair(scenario, np.random.default_rng(seed))
    began = time.process_time()
    try:
        load = load_of_intervals(made.start_ns, made.end_ns)
        kinds = [made.kind == kind for kind in np.unique(made.kind)]
        groups = [load_of_intervals(made.start_ns[k], made.end_ns[k]) for k in kinds]
        load = replace(load, groups=tuple(groups) if len(groups) > 1 else ())
        found = from_load(load, made.t_ns, made.watts, window_s=made.window_s)
    except AlignmentError as error:
        return {"refused": str(error), "cpu_s": time.process_time() - began}
    errors = (found.map(made.at_ns) - made.truth_ns) * 1e-9
    bounds = found.uncertainty_at(made.at_ns) * 1e-9
    return {
        "errors": errors.tolist(),
        "bounds": bounds.tolist(),
        "cpu_s": time.process_time() - began,
        "facts": dict(found.facts),
    }


def summary(name: str, outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of one scenario."""
    taken = [each for each in outcomes if "errors" in each]
    errors = np.abs([error for each in taken for error in each["errors"]])
    bounds = np.array([bound for each in taken for bound in each["bounds"]])
    good = bounds <= GOOD_S
    return {
        "scenario": name,
        "pairs": len(outcomes),
        "refused": (len(outcomes) - len(taken)) / len(outcomes),
        "covered": float((errors <= bounds).mean()) if len(errors) else None,
        "neither": float(((errors > bounds) & (errors > GOOD_S)).mean()) if len(errors) else None,
        "median_error_s": float(np.median(errors)) if len(errors) else None,
        "worst_error_s": float(errors.max()) if len(errors) else None,
        "median_bound_s": float(np.median(bounds)) if len(errors) else None,
        "claims": float(good.mean()) if len(errors) else 0.0,
        "median_claimed_error_s": float(np.median(errors[good])) if good.any() else None,
        "worst_claimed_error_s": float(errors[good].max()) if good.any() else None,
        "cpu_s": float(np.median([each["cpu_s"] for each in outcomes])),
    }


def campaign(count: int, only: str | None, seed: int) -> list[dict[str, Any]]:
    """All scenarios, so many pairs of each."""
    rows = []
    for number, (name, scenario) in enumerate(SCENARIOS.items()):
        if only is None or only in name:
            outcomes = [outcome(scenario, [seed, number, i]) for i in range(count)]
            rows.append(summary(name, outcomes))
    return rows


HEAD = (
    "| scenario | refused | within the interval | error: median, worst | interval: median ± | "
    "claims ≤ 20 ms: share, median error, worst |\n|---|---|---|---|---|---|"
)


def line(row: dict[str, Any]) -> str:
    """One row of the table, times in ms."""
    if row["covered"] is None:
        return f"| {row['scenario']} | {row['refused']:.0%} | - | - | - | - |"
    ms = {
        key: f"{row[key] * 1e3:.1f}" if row[key] is not None else "-"
        for key in row
        if key[-2:] == "_s"
    }
    claims = f"{row['claims']:.0%}"
    if row["claims"]:
        claims += f", {ms['median_claimed_error_s']} ms, {ms['worst_claimed_error_s']} ms"
    return (
        f"| {row['scenario']} | {row['refused']:.0%} | {row['covered']:.1%} | "
        f"{ms['median_error_s']} ms, {ms['worst_error_s']} ms | {ms['median_bound_s']} ms | {claims} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="pairs of each scenario")
    parser.add_argument("--only", help="scenarios whose name holds this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = campaign(given.count, given.only, given.seed)
    if given.json:
        print(json.dumps(rows, indent=1))
        return
    print(HEAD)
    for row in rows:
        print(line(row))


if __name__ == "__main__":
    main()

"""Whether a document's figures are true: random programs of known energy, from a written run to its document.

    python benchmarks/truth.py [--part named|random|all] [--scenario NAME ...] [--programs 20]
        [--first 0] [--processes 1] [--json FILE] [--tabulate FILE ...]

Programs (`truth_programs.py`) have operations of 0.1 to 500 windows of the sensor
(`truth_sensors.py`). Each is written as a run (`truth_runs.py`), opened, and every figure of energy
and time in its document is laid beside the truth, which is integrated from the program's own power
(`truth_scores.py`). Nothing is shared with the attribution.

A figure is covered where its interval holds what the mean clean step truly took. Rounding by the
sensor is excused where the figure states it as systematic, and no further than half of the sensor's
smallest step. Score: interval score (Gneiting and Raftery 2007, eq. 43), relative to the mean truth
of its table; less is better. Missing with a reason is no failure.

Exit code 1: intervals of energy, or of time, hold less than 93 % of what is told, or less than 90 %
in a scenario, beyond what chance allows: 1.645 standard errors, programs being what is counted; or
a promise is broken (a figure without interval, one missing without reason, two energies of one
operation, a row that never ran or that is not there, a document that cannot be made).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import wattstep
from truth_programs import (
    Program,
    Row,
    between,
    random_program,
    run_program,
    sequence_of,
    traced_steps,
)
from truth_runs import write
from truth_scores import Judge
from truth_sensors import Sensor, samples

OVERALL, EACH = 0.93, 0.90
DEVIATIONS = 1.645  # one-sided 95 %
LONGEST_STALL_S = 10.0
WINDOWS = ((0, 1), (1, 10), (10, 100), (100, 1000))  # lengths of operations
LEVELS = ("operations", "layers", "phases", "kinds", "groups", "rests", "steps")
Rng = np.random.Generator

# --- sensors at random ---------------------------------------------------------------------------


def worn(sensor: Sensor, rng: Rng) -> Sensor:
    """The same with what real ones have: delay, ticks that are not even, noise, rounding."""
    counter = sensor.way == "counter"
    noise = float(rng.choice([0.0, 0.002, 0.01, 0.05]))
    return replace(
        sensor,
        delay_s=float(rng.choice([0.0, rng.uniform(0, 0.02)])),
        dither=float(rng.choice([0.01, 0.05])),
        late=float(rng.choice([0.0, 0.01])),
        unsteady=float(rng.choice([0.0, 0.002, 0.01])),
        noise=min(noise, 0.01) if counter else noise,
        quantum=sensor.quantum if counter else between(rng, 1e-3, 0.5),
    )


def freely(rng: Rng, window_s: float) -> float:
    """New values by the sensor's own clock, or whenever it is read (0)."""
    return window_s if rng.random() < 0.5 else 0.0


def averaging(rng: Rng, window_s: float, read_s: float = 0.010, **more: Any) -> Sensor:
    refresh = freely(rng, max(window_s, read_s)) if window_s >= read_s else 0.0
    return worn(Sensor(window_s=window_s, read_s=read_s, refresh_s=refresh, **more), rng)


def counter(rng: Rng, refresh_s: float, quantum: float, documented: bool) -> Sensor:
    sensor = Sensor(
        way="counter", refresh_s=refresh_s, quantum=quantum, documented=documented, window_s=0
    )
    return worn(sensor, rng)


def instant(rng: Rng, least_s: float, most_s: float) -> Sensor:
    refresh = between(rng, least_s, most_s)
    read = 0.001 if refresh < 0.01 and rng.random() < 0.5 else 0.010
    return worn(Sensor(way="instant", refresh_s=refresh, read_s=read, documented=False), rng)


def hidden(rng: Rng) -> Sensor:
    """Averages over what it does not say, at its own pace, a fraction of that, or at each read."""
    window = between(rng, 0.010, 0.200)
    refresh = float(rng.choice([0.0, window, max(window / 4, 0.005)]))
    return worn(Sensor(window_s=window, refresh_s=refresh, documented=False), rng)


def smoothing(rng: Rng) -> Sensor:
    constant = between(rng, 0.005, 0.200)
    documented = bool(rng.random() < 0.3)
    return worn(Sensor(way="exponential", window_s=constant, documented=documented), rng)


def usual(rng: Rng) -> Sensor:
    """One of those that a program's own oddities are looked at with."""
    return SENSORS[str(rng.choice(["average 10 ms", "average 100 ms", "counter 1 ms"]))](rng)


SENSORS: dict[str, Callable[[Rng], Sensor]] = {
    "average 10 ms": lambda rng: averaging(rng, 0.010),
    "average 100 ms": lambda rng: averaging(rng, 0.100),
    "average 30 ms, read every 10 ms": lambda rng: averaging(rng, 0.030),
    "average 2 ms, read every 10 ms": lambda rng: averaging(rng, 0.002),
    "instant, new every 1 to 20 ms": lambda rng: instant(rng, 0.001, 0.020),
    "instant, new every 20 ms to 1 s": lambda rng: instant(rng, 0.020, 1.0),
    "hidden average of 10 to 200 ms": hidden,
    "1 Hz": lambda rng: worn(
        Sensor(
            way=str(rng.choice(["average", "instant"])), window_s=1.0, refresh_s=1.0,  # type: ignore[arg-type]
            documented=False,
        ), rng,
    ),
    "constant": lambda rng: replace(worn(Sensor(documented=False), rng), constant=True),
    "counter 1 ms": lambda rng: counter(rng, 0.001, 61e-6, True),
    "counter 1 ms, undocumented": lambda rng: counter(rng, 0.001, 61e-6, False),
    "counter 100 ms": lambda rng: counter(rng, 0.100, 1e-3, True),
    "counter 100 ms, undocumented": lambda rng: counter(rng, 0.100, 1e-3, False),
    "clipped": lambda rng: replace(
        averaging(rng, 0.010, documented=bool(rng.random() < 0.5)), clip=rng.uniform(0.7, 0.95)
    ),
    "exponential": smoothing,
    "one sample of 1 GW": lambda rng: replace(averaging(rng, 0.010), outlier=True),
}  # fmt: skip


# --- programs that are odd -----------------------------------------------------------------------


def carrying(program: Program, rng: Rng) -> Program:
    named = [row.name != "" for row in program.rows]
    items = program.kinds[0]
    typical = float(np.median(items.seconds[[named[row] for row in items.row]]))
    return replace(program, carried_s=between(rng, 0.1, 1.0) * typical, ramp=0.0)


def drifting(program: Program, rng: Rng) -> Program:
    return replace(program, drift=rng.uniform(0.02, 0.10), warming=between(rng, 0.1, 1.0))


def preempted(program: Program, rng: Rng) -> Program:
    traced = program.traced[: int(rng.integers(2, 8))] if rng.random() < 0.5 else program.traced
    step_s = float(program.kinds[0].seconds.sum())
    return replace(program, traced=traced, stall=min(between(rng, 2, 60), LONGEST_STALL_S / step_s))


PROGRAMS: dict[str, tuple[int, Callable[[Program, Rng], Program]]] = {
    "power carried over": (1, carrying),
    "drift": (1, drifting),
    "two kinds of steps": (2, lambda program, _: program),
    "one traced step preempted": (1, preempted),
}
SCENARIOS = (*SENSORS, *PROGRAMS)

# --- named cases ---------------------------------------------------------------------------------


def in_turn(
    watts: Sequence[float], seconds: Sequence[float], rng: Rng, record_s: float = 60.0, **more: Any
) -> Program:
    """Operations one after another, the first half of them forward, the others backward."""
    count = len(watts)
    phases = ("forward", "backward")
    rows = tuple(
        Row(name=f"op{n}", kind="other", layer=f"layer{n}", phase=phases[2 * n // count])
        for n in range(count)
    )
    rests = tuple(Row(phase=phase) for phase in phases)
    items = []
    for n in range(count):
        turn = 2 * n // count
        items += [(n, turn, seconds[n], watts[n]), (count + turn, turn, 2e-5, min(watts))]
    steps = int(np.clip(record_s / sum(seconds), 60, 3000))
    settings = {"jitter": 0.01, "speed": 0.005, "base_watts": min(watts), **more}
    return Program(
        rows=(*rows, *rests), phases=phases, kinds=(sequence_of(items),), steps=steps,
        traced=traced_steps(rng, steps), **settings,
    )  # fmt: skip


def pair(seconds: float, sensor: Sensor) -> Callable[[Rng], tuple[Program, Sensor]]:
    """10 and 2 W in turn."""
    return lambda rng: (in_turn((10.0, 2.0), (seconds, seconds), rng), sensor)


def seventeen(rng: Rng) -> tuple[Program, Sensor]:
    watts, seconds = rng.uniform(2, 10, 17), np.exp(rng.uniform(np.log(0.001), np.log(0.2), 17))
    sensor = Sensor(documented=False, constant=True)
    return in_turn(watts.tolist(), seconds.tolist(), rng), sensor


AVERAGE = Sensor()
NAMED: dict[str, Callable[[Rng], tuple[Program, Sensor]]] = {
    "10 ms, operations of 20 ms": pair(0.020, AVERAGE),
    "10 ms, operations of 50 ms": pair(0.050, AVERAGE),
    "10 ms, operations of 200 ms": pair(0.200, AVERAGE),
    "100 ms, operations of 150 ms": pair(0.150, replace(AVERAGE, window_s=0.1, read_s=0.1)),
    "10 ms late by 5 ms, operations of 20 ms": pair(0.020, replace(AVERAGE, delay_s=0.005)),
    "1 Hz, operations of 4 ms": pair(
        0.004, Sensor(way="instant", refresh_s=1.0, documented=False, noise=0.01)
    ),
    "constant, 17 operations": seventeen,
}  # fmt: skip

# --- one program ---------------------------------------------------------------------------------


def made(part: str, name: str, seed: int) -> tuple[Program, Sensor, Rng]:
    """The same for the same seed, whatever else runs."""
    known = list(NAMED if part == "named" else SCENARIOS)
    rng = np.random.default_rng([seed, known.index(name), len(part)])
    if part == "named":
        return *NAMED[name](rng), rng
    networks, changed = PROGRAMS.get(name, (1, lambda program, _: program))
    sensor = SENSORS.get(name, usual)(rng)
    program = random_program(rng, sensor.resolved_s, networks)
    if name not in PROGRAMS and rng.random() < 0.3:
        program = drifting(program, rng)
    return changed(program, rng), sensor, rng


def trial(job: tuple[str, str, int]) -> dict[str, Any]:
    """One program from its making to the comparison of its document."""
    program, sensor, rng = made(*job)
    happened = run_program(program, rng)
    mean_w = happened.step_joules / happened.step_seconds
    sampled = samples(sensor, happened.curve, rng, mean_w)
    result: dict[str, Any] = {
        "part": job[0], "scenario": job[1], "seed": job[2], "operations": sum(
            row.name != "" for row in program.rows
        ), "steps": program.steps, "traced": len(program.traced), "step_s": happened.step_seconds,
        "sensor": asdict(sensor), "compared": [], "violations": [],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as above:
        folder = Path(above) / "run"
        write(folder, happened, sensor, sampled)
        begun = time.perf_counter()
        try:
            judged = Judge(wattstep.load(folder).document(), happened, sensor)
        except Exception:
            result["violations"] = [f"raised: {traceback.format_exc(limit=-3)}"]
        else:
            result["compared"] = [asdict(one) for one in judged.compared]
            result["violations"] = judged.violations
        result["seconds"] = time.perf_counter() - begun
    return result


# --- tables --------------------------------------------------------------------------------------


class Tally:
    """Figures of several programs together.

    Args:
        trials: The programs.
        wanted: Which figures.
    """

    def __init__(
        self, trials: Iterable[dict[str, Any]], wanted: Callable[[dict[str, Any]], bool]
    ) -> None:
        by_program = [[one for one in t["compared"] if wanted(one)] for t in trials]
        every = [one for figures in by_program for one in figures]
        told = [one for one in every if one["value"] is not None]
        self.told, self.missing = len(told), len(every) - len(told)
        self.held = sum(one["covered"] for one in told)
        counts = [[one["covered"] for one in of if one["value"] is not None] for of in by_program]
        self._programs = [(sum(of), len(of)) for of in counts if of]
        scores = [one["score"] for one in told if np.isfinite(one["score"])]
        self.score = float(np.mean(scores)) if scores else float("nan")
        known = [one for one in told if one["truth"] > 0]
        self.error = _median([abs(one["value"] / one["truth"] - 1) for one in known])
        bound = [one for one in known if one["low"] is not None and one["high"] is not None]
        self.width = _median([(one["high"] - one["low"]) / one["truth"] for one in bound])

    @property
    def coverage(self) -> float:
        return self.held / self.told if self.told else float("nan")

    @property
    def by_chance(self) -> float:
        """1.645 standard errors of the coverage: figures of a program err together."""
        if not self.told:
            return 0.0
        share = min(self.coverage, 0.95)
        binomial = share * (1 - share) / self.told
        n = len(self._programs)
        if n < 2:
            return float(DEVIATIONS * np.sqrt(binomial))
        off = [held - self.coverage * told for held, told in self._programs]
        clustered = n / (n - 1) * float(np.sum(np.square(off))) / self.told**2
        return float(DEVIATIONS * np.sqrt(max(binomial, clustered)))

    def below(self, least: float) -> bool:
        return bool(self.told) and self.coverage + self.by_chance < least

    def words(self, least: float) -> str:
        held, chance = 100 * self.coverage, 100 * self.by_chance
        return f"{held:.1f} % held, {chance:.1f} by chance, {100 * least:.0f} % promised"

    def row(self, least: float) -> str:
        if not self.told:
            return f"0 | {self.missing} | | | |"
        mark = " **below**" if self.below(least) else ""
        return (
            f"{self.told} | {self.missing} | {100 * self.coverage:.1f} % ± {100 * self.by_chance:.1f}"
            f"{mark} | {self.score:.3g} | {100 * self.error:.2g} % | {100 * self.width:.2g} %"
        )


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else float("nan")


def of_energy(one: dict[str, Any]) -> bool:
    return one["quantity"] != "time"


def of_time(one: dict[str, Any]) -> bool:
    return one["quantity"] == "time"


def in_level(level: str, of: Callable[[dict[str, Any]], bool]) -> Callable[[dict[str, Any]], bool]:
    return lambda one: one["level"] == level and of(one)


def lasting(
    low: float, high: float, of: Callable[[dict[str, Any]], bool]
) -> Callable[[dict[str, Any]], bool]:
    return lambda one: one["level"] == "operations" and low <= one["windows"] < high and of(one)


HEAD = "| {} | told | missing | held ± chance | score | median error | median width |\n" + "|---" * 7 + "|"  # fmt: skip


def report(trials: list[dict[str, Any]]) -> bool:
    """Prints the tables, and what is not as it should be; whether all is."""
    below: list[str] = []
    for part in dict.fromkeys(t["part"] for t in trials):
        mine = [t for t in trials if t["part"] == part]
        if part == "named":
            _named_figures(mine)
        below += _tables(part, mine)
    kept = _reasons(trials)
    print(f"\nbelow what is promised: {len(below)}")
    for line in below:
        print(f"  {line}")
    return kept and not below


def _tables(part: str, trials: list[dict[str, Any]]) -> list[str]:
    """Prints energy and time by scenario, table, and length; what is below."""
    below = []
    for title, of in (("energy", of_energy), ("time", of_time)):
        scenarios = {
            name: Tally([t for t in trials if t["scenario"] == name], of)
            for name in dict.fromkeys(t["scenario"] for t in trials)
        }
        parts = {f"*{level}*": Tally(trials, in_level(level, of)) for level in LEVELS}
        for low, high in WINDOWS:
            name = f"*operations of {low} to {high} windows*"
            parts[name] = Tally(trials, lasting(low, high, of))
        every = {"**all**": Tally(trials, of)}
        print(f"\n{part}: {title}\n\n{HEAD.format('scenario')}")
        for least, tallies in ((EACH, scenarios), (EACH, parts), (OVERALL, every)):
            for name, tally in tallies.items():
                print(f"| {name} | {tally.row(least)} |")
                if tallies is not parts and tally.below(least):
                    below.append(f"{part}, {title}: {name.strip('*')} ({tally.words(least)})")
    return below


def _named_figures(trials: list[dict[str, Any]]) -> None:
    print("\n| case | seed | row | truth in mJ | told |\n|---|---|---|---|---|")
    for t in trials:
        for one in t["compared"]:
            if one["quantity"] != "energy" or one["level"] not in ("operations", "phases", "steps"):
                continue
            if t["operations"] > 4 and one["level"] == "operations" and one["value"] is None:
                continue
            told = f"missing: {one['reason'][:80]}"
            if one["value"] is not None:
                ends = [float("nan") if e is None else 1e3 * e for e in (one["low"], one["high"])]
                held = "" if one["covered"] else " **not held**"
                told = f"{1e3 * one['value']:.4g} ({ends[0]:.4g} to {ends[1]:.4g}){held}"
            print(f"| {t['scenario']} | {t['seed']} | {one['what']} | {1e3 * one['truth']:.4g} | {told} |")  # fmt: skip


def _reasons(trials: list[dict[str, Any]]) -> bool:
    """Prints why figures are missing, and broken promises; whether there are none of these."""
    reasons = Counter(
        _plain(one["reason"]) for t in trials for one in t["compared"] if one["value"] is None
    )
    print("\nmissing, because")
    for reason, count in reasons.most_common(15):
        print(f"  {count:6d}  {reason}")
    broken = [(t, text) for t in trials for text in t["violations"]]
    kinds = Counter(_plain(text) for _, text in broken)
    print(f"\nbroken promises: {len(broken)}")
    for kind, count in kinds.most_common(15):
        where = next(t for t, text in broken if _plain(text) == kind)
        print(f"  {count:6d}  {kind} (as in {where['scenario']}, seed {where['seed']})")
    return not broken


def _plain(text: str) -> str:
    """Without the numbers and names that differ from one to the next."""
    words = ["#" if any(c.isdigit() for c in word) else word for word in text.split()]
    short = [word for n, word in enumerate(words) if n == 0 or (word, words[n - 1]) != ("#", "#")]
    return " ".join(short)[:160]


def jobs(args: argparse.Namespace) -> list[tuple[str, str, int]]:
    parts = {"named": tuple(NAMED), "random": SCENARIOS}
    chosen = parts if args.part == "all" else {args.part: parts[args.part]}
    known = [(part, name) for part, names in chosen.items() for name in names]
    if args.scenario:
        unknown = set(args.scenario) - {name for _, name in known}
        if unknown:
            sys.exit(f"no such scenario: {', '.join(sorted(unknown))}; there are {known}")
        known = [(part, name) for part, name in known if name in args.scenario]
    seeds = range(args.first, args.first + args.programs)
    return [(part, name, seed) for seed in seeds for part, name in known]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("named", "random", "all"), default="all")
    parser.add_argument("--scenario", nargs="+", metavar="NAME")
    parser.add_argument("--programs", type=int, default=20, help="of each scenario")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path, help="every figure and its truth, a program a line")
    parser.add_argument("--tabulate", type=Path, nargs="+", help="such files, instead of running")
    args = parser.parse_args()
    return 0 if report(read(args.tabulate) if args.tabulate else ran(args)) else 1


def read(files: Sequence[Path]) -> list[dict[str, Any]]:
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def ran(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Runs the programs; what is done stands in the file at once."""
    todo = jobs(args)
    trials = []
    if args.json:
        args.json.write_text("")
    with multiprocessing.get_context("spawn").Pool(args.processes) as pool:
        for done, result in enumerate(pool.imap(trial, todo), 1):
            trials.append(result)
            held = Tally([result], of_energy)
            print(
                f"{done}/{len(todo)} {result['scenario']}, seed {result['seed']}: "
                f"{held.held} of {held.told} held, {held.missing} missing, "
                f"{result['seconds']:.1f} s", file=sys.stderr,
            )  # fmt: skip
            if args.json:
                with args.json.open("a") as file:
                    file.write(json.dumps(result) + "\n")
    return trials


if __name__ == "__main__":
    sys.exit(main())

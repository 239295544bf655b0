"""What `wattstep tune` finds beside an exhaustive search, and what it gains on the workloads of Liu et al.

    python benchmarks/tune.py exhaustive lenet resnet8 -o DIR [--turn threads,channels-last]
    python benchmarks/tune.py table --batch 4,16,64 -o DIR [--allow precision]
    python benchmarks/tune.py drawn --spaces 200

`exhaustive` tunes, then gives every way of the same knobs as many steps as the tune gave its own choice, all in one
sitting, in rounds that go back and forth, and says how far that choice is from the best. The choice is one of the ways
there, and has one turn a round as each of them. Which way is the best is told by every other round, what the choice
takes beside it by the rounds between, and the other way round: the luck of the best of many is in neither. Knobs are
those of `SPACE`, whose ways take six processes, which stay; with plans of operations they would be dozens, begun anew
in every round. Ways with a value that the tune refused, as one that learns something else, are none.
`table` tunes cell by cell, and tells the part of scheduling apart: the best of the policies alone, by the turns of the
search, and what no plan goes below by the operations of a run of its own (critical path, or work over cores).
Both go on where they were stopped; what is done is not done again.
`drawn` tunes spaces whose truths are drawn, on made-up machines (`tests/tuning/made.py`), and trains nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np

from wattstep.train.settings import TrainingSettings
from wattstep.tune.folder import KeptBench, TuneFolder
from wattstep.tune.processes import WorkloadBench
from wattstep.tune.space import DEFAULT, OF_PROCESS, Candidate, Value, parse_allowed
from wattstep.tune.tuning import Question, TuneReport, tune
from wattstep.tune.turns import BEGIN_STEPS, Ask, Bench, Turn

OF_LIU = ("char-cnn", "dcgan", "inceptionv1", "resnet50")
SPACE: Final = "threads,channels-last,optimizer-kernel,allocator,interop-threads"


class Counting:
    """A bench that counts steps, and those of each candidate, whether they are new or kept.

    Args:
        bench: Makes them.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.own_steps: Counter[Candidate] = Counter()
        self.steps = 0

    def measure(self, ask: Ask) -> Turn:
        """As `Bench.measure`."""
        turn = self._bench.measure(ask)
        self.own_steps[ask.candidate] += turn.taken
        self.steps += turn.taken
        return turn


def values_of(settings: TrainingSettings, turned: str) -> dict[str, tuple[Value, ...]]:
    """Values that are searched here of some knobs."""
    from wattstep import engines
    from wattstep.train.environment.crowding import usable_cores
    from wattstep.tune.space import Place, parse_turned, searched

    cores = tuple(range(usable_cores()))
    options = engines.find(settings.engine).options
    place = Place(
        cores=cores, threads=len(cores), options=options, turned=parse_turned(turned)
    )  # fmt: skip
    return searched(place)[0]


def exhaust(
    values: dict[str, tuple[Value, ...]],
    bench: Counting,
    beside: Candidate,
    turns: int,
    steps: int,
    most_s: float,
    refused_before: Iterable[Candidate] = (),
) -> dict[Candidate, list[float]]:
    """Logarithm of every way's cost beside one of them, by round, without those that hold what was refused before.

    That one takes further turns before and after the ways of each process. It is what the tune chose: the default may
    be in a trap in which a step takes any time.
    """
    ways: dict[str, list[Candidate]] = {}
    for chosen in product(*([None, *each] for each in values.values())):
        candidate = DEFAULT
        for name, value in zip(values, chosen, strict=True):
            candidate = candidate.with_value(name, value)
        held = set(candidate.changes)
        if not candidate.makes_sense or any(held >= {*each.changes} for each in refused_before):
            continue
        process = json.dumps([each for each in candidate.changes if each[0] in OF_PROCESS])
        ways.setdefault(process, []).append(candidate)
    refused = set()

    def turn_s(round_: int, turn: int, candidate: Candidate) -> float:
        measured = bench.measure(
            Ask(
                stage="one by one", round=round_, turn=turn, candidate=candidate, steps=steps,
                most_s=most_s,
            )
        )  # fmt: skip
        if measured.refused:
            refused.add(candidate)
            return math.nan
        return measured.step_s

    for candidate in (each for group in ways.values() for each in group):
        bench.measure(
            Ask(
                stage="one by one", round=-1, candidate=candidate,
                steps=BEGIN_STEPS + candidate.settling, begin=True,
            )
        )  # fmt: skip
    logs: dict[Candidate, list[float]] = {}
    number = 0
    for round_ in range(turns):
        for group in ways.values() if round_ % 2 == 0 else reversed(ways.values()):
            before = turn_s(number, 0, beside)
            order = group if round_ % 2 == 0 else group[::-1]
            costs = [turn_s(number, turn, each) for turn, each in enumerate(order, 1)]
            base = (before + turn_s(number, len(order) + 1, beside)) / 2
            for candidate, cost in zip(order, costs, strict=True):
                logs.setdefault(candidate, []).append(math.log(cost / base))
            number += 1
        print(f"round {round_ + 1} of {turns}", file=sys.stderr, flush=True)
    return {candidate: each for candidate, each in logs.items() if candidate not in refused}


def from_the_best(logs: dict[Candidate, list[float]], chosen: Candidate) -> dict[str, Any]:
    """By how much one of the ways takes longer than the best of all, with an interval of 95 % by resampling rounds."""
    named: list[Candidate] = []
    beyond: list[float] = []
    for half in (0, 1):
        best = min(logs, key=lambda each: statistics.median(logs[each][half::2]))
        named.append(best)
        other = slice(1 - half, None, 2)
        beyond += [
            own - its for own, its in zip(logs[chosen][other], logs[best][other], strict=True)
        ]
    draw = np.random.default_rng(0)
    medians = np.median(draw.choice(beyond, (2000, len(beyond))), axis=1)
    low, high = np.exp(np.percentile(medians, (2.5, 97.5))) - 1
    ranked = sorted(logs, key=lambda each: statistics.median(logs[each]))
    return {
        "best": [each.text for each in named],
        "value": math.exp(statistics.median(beyond)) - 1,
        "low": float(low),
        "high": float(high),
        "rank": ranked.index(chosen) + 1,
    }


def against_exhaustive(name: str, batch: int, out: Path, turned: str) -> dict[str, object]:
    """A tune and an exhaustive search of one workload, side by side."""
    from wattstep.tune.search import Search

    settings = TrainingSettings(workload=name, batch_size=batch, trace="none")
    values = values_of(settings, turned)
    began = time.monotonic()
    with (
        TuneFolder(out / f"{name}-{batch}-tune", {"values": str(values)}, "cpu", print) as folder,
        WorkloadBench(settings) as bench,
    ):
        counting = Counting(KeptBench(folder, bench))
        tuned = Search(values, counting).run()
        last = {
            key.split("/", 3)[3]: turn
            for key, turn in folder.turns.items()
            if key.startswith("verdict/")
        }
    tuned_s = time.monotonic() - began
    named = tuned.measured[1].candidate if len(tuned.measured) > 1 else DEFAULT
    chosen = tuned.chosen.candidate if tuned.chosen else DEFAULT
    steps, chosen_s = len(last[chosen.text].seconds), last[chosen.text].step_s
    turns = math.ceil(counting.own_steps[named] / steps)
    print(f"{name}: tuned in {tuned_s:.0f} s, {chosen.text}", file=sys.stderr, flush=True)
    began = time.monotonic()
    with (
        TuneFolder(out / f"{name}-{batch}-all", {"values": str(values)}, "cpu", print) as folder,
        WorkloadBench(settings) as bench,
    ):
        every = Counting(KeptBench(folder, bench))
        logs = exhaust(
            values, every, chosen, turns, steps, max(1.0, 4 * steps * chosen_s), tuned.refused
        )
        there = [
            turn.step_s
            for key, turn in folder.turns.items()
            if key.endswith(f"/{DEFAULT.text}") and "/-1/" not in key
        ]
    return {
        "workload": name,
        "batch": batch,
        "space": {knob: list(each) for knob, each in values.items()},
        "default_step_s": [float(tuned.measured[0].step_time), statistics.median(there)],
        "chosen": chosen.text,
        "named": named.text,
        "verdict": tuned.chosen.ratio.to_dict() if tuned.chosen else None,
        "from_the_best": from_the_best(logs, chosen),
        "ways": len(logs),
        "refused": {each.text: why for each, why in tuned.refused.items()},
        "turns_of_each": turns,
        "steps": [counting.steps, every.steps],
        "share_of_steps": counting.steps / every.steps,
        "seconds": [tuned_s, time.monotonic() - began],
    }


def cell(name: str, batch: int, out: Path, allow: frozenset[str]) -> TuneReport:
    """One cell of the table: all that tune may do, with what a user allows."""
    settings = TrainingSettings(workload=name, batch_size=batch, trace="none")

    def tell(stage: str, share: float) -> None:
        print(f"{name}, batch {batch}: {stage} ({100 * share:.0f} %)", file=sys.stderr, flush=True)

    folder = out / "-".join([name, str(batch), *sorted(allow)])
    return tune(Question(settings=settings, allow=allow), folder, tell, print)


def by_scheduling(name: str, batch: int, report: TuneReport) -> str:
    """What a policy alone takes of the default's step, and what no plan goes below, of all operations in turn."""
    alone = {
        candidate: ratio
        for candidate, ratio in report.tuned.seen.items()
        if [knob for knob, _ in candidate.changes] == ["policy"]
    }
    best = min(alone, key=lambda candidate: alone[candidate], default=None)
    words = "no policy was tried" if best is None else f"{best.text}: {100 * alone[best]:.1f} %"
    with tempfile.TemporaryDirectory() as folder:
        command = f"-m wattstep run {name} --batch {batch} --policy critical-path --trace none --steps 30 --json -o {folder}"
        run = subprocess.run(
            [sys.executable, *command.split()], stdout=subprocess.PIPE, env=dict(os.environ)
        )  # fmt: skip
    if run.returncode:
        return words
    document = json.loads(run.stdout)["runs"][0]
    facts, figures = document["schedule"], document["metrics"]
    default = facts["default"]["value"] - facts["beside_s"]
    return (
        f"{words}; no plan below {100 * facts['bound_s'] / default:.1f} % of one operation after the other; "
        f"critical-path's step is {figures['over_bound']['value']:.3f} times that"
    )


def table(names: Sequence[str], batches: Sequence[int], out: Path, allow: frozenset[str]) -> None:
    """The table, small batches first; a line a cell, then the mean of those that are there."""
    reductions = []
    for batch, name in product(batches, names):
        report = cell(name, batch, out, allow)
        chosen, default = report.tuned.chosen, report.tuned.measured[0]
        ratio = 1.0 if chosen is None else float(chosen.ratio)
        reductions.append(1 - ratio)
        what = "keep the default" if chosen is None else f"{chosen.candidate.text}: {chosen.ratio}"
        print(
            f"{name} | {batch} | {default.step_time} | {100 * (1 - ratio):.1f} % | {what} | "
            f"{by_scheduling(name, batch, report)}",
            flush=True,
        )
    mean = statistics.fmean(reductions)
    print(f"mean over {len(reductions)} cells | {100 * mean:.1f} %")


def drawn(spaces: int) -> None:
    """The table of docs/tune.md: a line for each noise."""
    from tests.tuning.ended import MANY_WAYS, NEAR, ended

    def percent(are: Iterable[bool]) -> str:
        return f"{100 * statistics.fmean(are):.0f} %"

    for bursts in (0.01, 0.03, 0.08):
        ends = [ended(seed, bursts) for seed in range(spaces)]
        many = [each for each in ends if each.ways >= MANY_WAYS]
        columns = (
            f"{100 * bursts:.0f} %",
            percent(each.away < NEAR for each in ends),
            percent(each.claimed < NEAR for each in ends),
            percent(each.at_equal_steps < NEAR for each in ends),
            f"{100 * statistics.median(each.share for each in many):.1f} %",
            percent(each.share < 0.1 for each in many),
            f"{statistics.median(each.steps for each in ends):,.0f}",
        )
        print(f"| {' | '.join(columns)} |", flush=True)


def main() -> None:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("exhaustive", "table", "drawn"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--batch", default="4")
    parser.add_argument("--turn", default=SPACE, help="knobs of `exhaustive`")
    parser.add_argument("--allow", default="", help="of `table`, as tune's own")
    parser.add_argument("--spaces", type=int, default=200)
    parser.add_argument("-o", "--out", type=Path)
    arguments = parser.parse_intermixed_args()
    if arguments.what == "drawn":
        drawn(arguments.spaces)
        return
    if arguments.out is None:
        parser.error("-o DIR: where what was measured is kept")
    batches = [int(each) for each in arguments.batch.split(",")]
    if arguments.what == "table":
        table(arguments.names or OF_LIU, batches, arguments.out, parse_allowed(arguments.allow))
        return
    for name, batch in product(arguments.names or ("lenet", "resnet8"), batches):
        document = against_exhaustive(name, batch, arguments.out, arguments.turn)
        print(json.dumps(document, indent=1), flush=True)


if __name__ == "__main__":
    main()

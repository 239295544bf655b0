"""What `wattstep tune` finds beside an exhaustive search, and what it gains on the workloads of Liu et al.

    python benchmarks/tune.py exhaustive lenet resnet8 -o DIR
    python benchmarks/tune.py table --batch 4,16,64 -o DIR
    python benchmarks/tune.py drawn --spaces 200

`exhaustive` tunes, then gives every way of the same knobs (without the compiler, whose first step takes longer than
all others together) as many steps as the tune gave its own choice, and says how far that choice is from the best.
`table` tunes cell by cell. Both go on where they were stopped; what is done is not done again. `drawn` tunes spaces
whose truths are drawn, on made-up machines (`tests/tuning/made.py`), and trains nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

from wattstep.train.settings import TrainingSettings
from wattstep.tune.folder import KeptBench, TuneFolder
from wattstep.tune.processes import WorkloadBench
from wattstep.tune.space import DEFAULT, OF_PROCESS, Candidate, Value
from wattstep.tune.tuning import Question, TuneReport, tune
from wattstep.tune.turns import BEGIN_STEPS, Ask, Bench, Turn

OF_LIU = ("char-cnn", "dcgan", "inceptionv1", "resnet50")


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


def values_of(settings: TrainingSettings, without: Sequence[str]) -> dict[str, tuple[Value, ...]]:
    """Values that are searched here, but for some knobs'."""
    from wattstep import engines
    from wattstep.train.environment.crowding import usable_cores
    from wattstep.tune.space import Place, searched

    cores = tuple(range(usable_cores()))
    place = Place(cores=cores, threads=len(cores), options=engines.find(settings.engine).options)
    values, _ = searched(place)
    return {name: each for name, each in values.items() if name not in without}


def exhaust(
    values: dict[str, tuple[Value, ...]],
    bench: Counting,
    beside: Candidate,
    turns: int,
    steps: int,
    most_s: float,
) -> dict[Candidate, float]:
    """Cost of every way beside one of them: median over rounds.

    That one takes a turn before and after the ways of each process. It is what the tune chose: the default may be
    in a trap in which a step takes any time.
    """
    ways: dict[str, list[Candidate]] = {}
    for chosen in product(*([None, *each] for each in values.values())):
        candidate = DEFAULT
        for name, value in zip(values, chosen, strict=True):
            candidate = candidate.with_value(name, value)
        if not candidate.makes_sense:
            continue
        process = json.dumps([each for each in candidate.changes if each[0] in OF_PROCESS])
        ways.setdefault(process, []).append(candidate)
    logs: dict[Candidate, list[float]] = {}
    number = 0
    for group in ways.values():
        for candidate in group:
            bench.measure(
                Ask(
                    stage="one by one", round=-1, candidate=candidate,
                    steps=BEGIN_STEPS + candidate.settling, begin=True,
                )
            )  # fmt: skip
    for round_ in range(turns):
        for group in ways.values() if round_ % 2 == 0 else reversed(ways.values()):
            costs: dict[Candidate, list[float]] = {}
            for turn, candidate in enumerate(
                [beside, *(group if round_ % 2 == 0 else reversed(group)), beside]
            ):
                measured = bench.measure(
                    Ask(
                        stage="one by one", round=number, turn=turn, candidate=candidate, steps=steps,
                        most_s=most_s,
                    )
                )  # fmt: skip
                if not measured.refused:
                    costs.setdefault(candidate, []).append(measured.step_s)
            number += 1
            base = statistics.fmean(costs[beside])
            for candidate, seconds in costs.items():
                if candidate in group:
                    logs.setdefault(candidate, []).append(
                        math.log(statistics.fmean(seconds) / base)
                    )
        print(f"round {round_ + 1} of {turns}", file=sys.stderr, flush=True)
    return {candidate: math.exp(statistics.median(each)) for candidate, each in logs.items()}


def against_exhaustive(
    name: str, batch: int, out: Path, without: Sequence[str]
) -> dict[str, object]:
    """A tune and an exhaustive search of one workload, side by side."""
    from wattstep.tune.search import Search

    settings = TrainingSettings(workload=name, batch_size=batch, trace="none")
    values = values_of(settings, without)
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
    best = tuned.measured[1].candidate if len(tuned.measured) > 1 else DEFAULT
    chosen = tuned.chosen.candidate if tuned.chosen else DEFAULT
    steps, chosen_s = len(last[chosen.text].seconds), last[chosen.text].step_s
    turns = math.ceil(counting.own_steps[best] / steps)
    default_s = float(tuned.measured[0].step_time)
    began = time.monotonic()
    with (
        TuneFolder(out / f"{name}-{batch}-all", {"values": str(values)}, "cpu", print) as folder,
        WorkloadBench(settings) as bench,
    ):
        every = Counting(KeptBench(folder, bench))
        costs = exhaust(values, every, chosen, turns, steps, max(1.0, 4 * steps * chosen_s))
    least = min(costs, key=lambda each: costs[each])
    return {
        "workload": name,
        "batch": batch,
        "default_step_s": default_s,
        "chosen": chosen.text,
        "verdict": tuned.chosen.ratio.to_dict() if tuned.chosen else None,
        "chosen_cost": costs[chosen],
        "best": least.text,
        "best_cost": costs[least],
        "from_the_best": costs[chosen] / costs[least] - 1,
        "ways": len(costs),
        "turns_of_each": turns,
        "steps": [counting.steps, every.steps],
        "share_of_steps": counting.steps / every.steps,
        "seconds": [tuned_s, time.monotonic() - began],
    }


def cell(name: str, batch: int, out: Path) -> TuneReport:
    """One cell of the table: all that tune may do."""
    settings = TrainingSettings(workload=name, batch_size=batch, trace="none")

    def tell(stage: str, share: float) -> None:
        print(f"{name}, batch {batch}: {stage} ({100 * share:.0f} %)", file=sys.stderr, flush=True)

    return tune(Question(settings=settings), out / f"{name}-{batch}", tell, print)


def table(names: Sequence[str], batches: Sequence[int], out: Path) -> None:
    """The table, small batches first; a line a cell, then the mean of those that are there."""
    reductions = []
    for batch, name in product(batches, names):
        report = cell(name, batch, out)
        chosen, default = report.tuned.chosen, report.tuned.measured[0]
        ratio = 1.0 if chosen is None else float(chosen.ratio)
        reductions.append(1 - ratio)
        what = "keep the default" if chosen is None else f"{chosen.candidate.text}: {chosen.ratio}"
        print(
            f"{name} | {batch} | {default.step_time} | {100 * (1 - ratio):.1f} % | {what}",
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
    parser.add_argument("--without", default="compiled", help="knobs, by their settings' names")
    parser.add_argument("--spaces", type=int, default=200)
    parser.add_argument("-o", "--out", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "drawn":
        drawn(arguments.spaces)
        return
    if arguments.out is None:
        parser.error("-o DIR: where what was measured is kept")
    batches = [int(each) for each in arguments.batch.split(",")]
    if arguments.what == "table":
        table(arguments.names or OF_LIU, batches, arguments.out)
        return
    for name, batch in product(arguments.names or ("lenet", "resnet8"), batches):
        document = against_exhaustive(name, batch, arguments.out, arguments.without.split(","))
        print(json.dumps(document, indent=1), flush=True)


if __name__ == "__main__":
    main()

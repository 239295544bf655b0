"""Saving and slowdown of the governor on an emulated board: pairs of runs with and without it, in turn.

    python benchmarks/governor.py [--pairs 8] [--steps 3000] [--slow 0.2] [--slowdown 10%]

wattstep's own comparison says what the runs differ by; beside it stands the journal of what the
emulated board truly drew in the steps that count, and what the governor itself said when it decided.
A run looks what caps do for ten to forty seconds first, whose steps do not count.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

import wattstep
from wattstep.record.hosts.emulation.truth import read_truth
from wattstep.run import Run
from wattstep.schema.condition_documents import GovernorLook
from wattstep.schema.figure import Figure


def true_energy(run: Run, rail: str) -> float:
    """Energy of a mean clean step in J, as the emulated board truly drew it at a rail."""
    columns, rows = read_truth(run.path)
    place = [column.name for column in columns].index(f"{rail}.true")
    t_ns = np.array([row[0] for row in rows])
    gained = [row[place] * 1e-6 * (row[0] - before[0]) * 1e-9 for before, row in pairwise(rows)]
    total = np.concatenate([[0.0], np.cumsum(gained)])
    steps = run.series.steps
    begin, end = steps.stretches().T
    joules = np.interp(end, t_ns, total) - np.interp(begin, t_ns, total)
    watts = float(joules.sum()) / (float((end - begin).sum()) * 1e-9)
    return watts * float(steps.seconds[steps.clean].mean())


def train(folder: Path, name: str, arguments: argparse.Namespace, *, governed: bool) -> Run:
    """A run of its own process."""
    return wattstep.train(
        arguments.workload,
        batch_size=arguments.batch,
        steps=arguments.steps,
        threads=1,
        trace="none",
        target=f"emulate:{arguments.board},slow={arguments.slow:g}{arguments.options}",
        out=folder / name,
        **({"governor": "energy", "slowdown": arguments.slowdown} if governed else {}),
    )


def told(name: str, run: Run, rail: str) -> str:
    """A run in a line: its figures, and the truth of its energy."""
    energy, time = (run.metrics.figure(each) for each in ("energy_per_step", "step_time"))
    return f"{name}: {time}; {energy}, in truth {1e3 * true_energy(run, rail):.2f} mJ"


def look(run: Run) -> GovernorLook:
    """The first decision of a run's governor."""
    return (run.info.conditions.get("governor") or {})["looks"][0]


def percent(figure: Figure | None, sign: float = 1.0) -> str:
    """A ratio's distance from 1, or a share, in percent with its interval."""
    if figure is None or figure.value is None:
        return "not known"
    ends = [100 * sign * end for end in (figure.low, figure.high) if end is not None]
    interval = f" ({min(ends):.1f} to {max(ends):.1f})" if len(ends) == 2 else ""
    return f"{100 * sign * figure.value:.1f} %{interval}"


def change(ratio: Figure) -> Figure:
    """A ratio less 1."""
    parts = {key: None if end is None else end - 1 for key, end in
             (("value", ratio.value), ("low", ratio.low), ("high", ratio.high))}  # fmt: skip
    return Figure(**{**vars(ratio), **parts})


def mean(values: Sequence[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> None:
    """Trains, compares, and prints the table of docs/governor.md."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--workload", default="lenet")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--board", default="jetson-tx2")
    parser.add_argument("--options", default=",processor=gpu", help="further options of the board")
    parser.add_argument("--rail", default="VDD_IN", help="that carries all of it")
    parser.add_argument("--slow", type=float, default=0.2)
    parser.add_argument("--slowdown", default="10%")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3000)
    arguments = parser.parse_args()
    runs: dict[bool, list[Run]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(arguments.pairs):
            for governed in (False, True) if pair % 2 == 0 else (True, False):
                name = f"{'governed' if governed else 'plain'}-{pair}"
                runs[governed].append(train(Path(folder), name, arguments, governed=governed))
                print(told(name, runs[governed][-1], arguments.rail), flush=True)
        report(runs, arguments)


def report(runs: dict[bool, list[Run]], arguments: argparse.Namespace) -> None:
    """Prints the table."""
    compared = wattstep.compare(
        [run.path for run in runs[False]], [run.path for run in runs[True]], across=["clocks"]
    )
    print("| | slower | less energy a step |\n|---|---|---|")
    for run in runs[True]:
        first = look(run)
        said = [Figure.from_dict(first[key]) for key in ("slower", "saving") if key in first]
        cells = " | ".join(map(percent, said)) if said else f"{first.get('reason')} | "
        cap = first["cap_hz"][0] / first["highest_hz"][0]
        print(f"| the governor, of its blocks: cap {100 * cap:.0f} % | {cells} |")
    time, energy = compared.metrics["step_time"], compared.metrics["energy_per_step"]  # type: ignore[union-attr]
    print(
        f"| wattstep compare, {arguments.pairs} pairs ({time.verdict}, {energy.verdict}) | "
        f"{percent(change(time.ratio))} | {percent(change(energy.ratio), -1.0)} |"
    )
    true = {kind: mean([true_energy(run, arguments.rail) for run in runs[kind]]) for kind in runs}
    clock = {
        kind: mean([float(run.series.steps.seconds[run.series.steps.clean].mean()) for run in runs[kind]])
        for kind in runs
    }  # fmt: skip
    print(
        f"| truth: the board's journal, the clock | {100 * (clock[True] / clock[False] - 1):.1f} % | "
        f"{100 * (1 - true[True] / true[False]):.1f} % |"
    )


if __name__ == "__main__":
    main()

"""Whether a document's figures are true: random programs of known energy, from a written run to its document.

    python benchmarks/truth.py [--part named|random|imported|all] [--scenario NAME ...] [--programs 20]
        [--first 0] [--processes 1] [--json FILE] [--tabulate FILE ...]

Programs (`truth_programs.py`, at random: `truth_random.py`) have operations of 0.1 to 500 windows
of a sensor (`truth_sensors.py`; which: `truth_scenarios.py`). Each is written as a run
(`truth_runs.py`), opened, and every figure of energy and time in its document is laid beside the
truth, which is integrated from the program's own power (`truth_scores.py`, `truth_tables.py`).
Nothing is shared with the attribution. In the part "imported" every step of the program stands in
a Kineto trace, and the sensor in a log beside it (`truth_imported.py`), which are imported.

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
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import truth_imported
import wattstep
from truth_programs import run_program
from truth_runs import write
from truth_scenarios import NAMED, SCENARIOS, made
from truth_scores import Judge
from truth_sensors import samples
from truth_tables import Tally, of_energy, report


def trial(job: tuple[str, str, int]) -> dict[str, Any]:
    """One program from its making to the comparison of its document."""
    imported = job[0] == "imported"
    if imported:
        program, case, rng = truth_imported.case_of(*job[1:])
        sensor = case.sensor
        happened = truth_imported.all_traced(run_program(program, rng))
    else:
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
        begun = time.perf_counter()
        try:
            if imported:
                truth_imported.write(folder, happened, case, sampled, rng)
            else:
                write(folder, happened, sensor, sampled)
            judged = Judge(wattstep.load(folder).document(), happened, sensor)
        except Exception:
            result["violations"] = [f"raised: {traceback.format_exc(limit=-3)}"]
        else:
            result["compared"] = [asdict(one) for one in judged.compared]
            result["violations"] = judged.violations
        result["seconds"] = time.perf_counter() - begun
    return result


def jobs(args: argparse.Namespace) -> list[tuple[str, str, int]]:
    parts = {"named": tuple(NAMED), "random": SCENARIOS, "imported": tuple(truth_imported.CASES)}
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
    parser.add_argument("--part", choices=("named", "random", "imported", "all"), default="all")
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

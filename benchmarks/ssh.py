"""A training over ssh beside the same one here: its figures, and what a run takes besides.

A real OpenSSH server on loopback stands for the board, so that both train on the same machine:

    python benchmarks/ssh.py --rounds 5 --steps 300
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
from scipy import stats
from tests.fleet.remote.server import Server, serving

from wattstep import load
from wattstep.schema.figure import Figure

FIGURES = ("step_time", "process_cpu_cores")


def run(out: Path, steps: int, *more: str, environment: dict[str, str] | None = None) -> float:
    """Wall time of one `wattstep run` in seconds."""
    command = [sys.executable, "-m", "wattstep", "run", "lenet", "--steps", str(steps), "--threads",
               "1", "--quiet", "--json", "--out", str(out.parent), "--name", out.name, *more]  # fmt: skip
    began = time.monotonic()
    subprocess.run(
        command, check=True, env={**os.environ, **(environment or {})},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return time.monotonic() - began


def compare(
    server: Server, folder: Path, rounds: int, steps: int, options: str
) -> dict[str, object]:
    """Rounds of here, there, here again; figures of each run with their intervals.

    Two runs on one machine differ by more than the steps of either tell: what a run over ssh
    differs by is held against what a second run here differs by.
    """
    elsewhere = {"WATTSTEP_SSH_CONFIG": str(server.client_config)}
    target = f"{server.target}{options}"
    seconds, figures = [], []
    for number in range(rounds):
        out = {name: folder / f"{name}{options}-{number}" for name in ("here", "there", "again")}
        # In turn first and last, so that what drifts falls on each alike.
        order = list(out) if number % 2 == 0 else list(reversed(out))
        took = {
            name: run(out[name], steps, "--target", target, environment=elsewhere)
            if name == "there"
            else run(out[name], steps)
            for name in order
        }
        seconds.append(took)
        figures.append({name: load(path).metrics() for name, path in out.items()})
    added = [took["there"] - (took["here"] + took["again"]) / 2 for took in seconds]
    return {
        "options": options or "none: everything is removed at the end",
        "rounds": rounds,
        "wall_here_s": statistics.median((took["here"] + took["again"]) / 2 for took in seconds),
        "wall_there_s": statistics.median(took["there"] for took in seconds),
        "added_first_s": added[0],
        "added_later_s": statistics.median(added[1:]) if rounds > 1 else None,
        **{name: against(figures, name) for name in FIGURES},
    }


def against(figures: list[dict[str, dict[str, Figure]]], name: str) -> dict[str, object]:
    """One figure there and here again, each against here."""
    rows = [{run: found[name] for run, found in each.items()} for each in figures]

    def apart(other: str) -> int:
        return sum(
            row["here"].low > row[other].high or row[other].low > row["here"].high for row in rows
        )

    def ratios(other: str) -> list[float]:
        return [row[other].value / row["here"].value for row in rows]

    return {
        "here": [row["here"].value for row in rows],
        "there": [row["there"].value for row in rows],
        "there_by_here": over_processes(ratios("there")),
        "here_again_by_here": over_processes(ratios("again")),
        "intervals_apart_there": apart("there"),
        "intervals_apart_here_again": apart("again"),
    }


def over_processes(ratios: list[float]) -> dict[str, float]:
    """Geometric mean and its 95 % interval (Student's t): each process counts once."""
    logs = np.log(ratios)
    half = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    low, mean, high = np.exp(logs.mean() + half * np.array([-1.0, 0.0, 1.0])).tolist()
    return {
        "mean": mean,
        "low": low,
        "high": high,
        "furthest": max(ratios, key=lambda r: abs(r - 1)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "board") as server:
        for options in (",keep=yes", ""):
            found = compare(server, Path(name), arguments.rounds, arguments.steps, options)
            print(json.dumps(found, indent=1), flush=True)


if __name__ == "__main__":
    main()

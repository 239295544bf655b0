"""A training over ssh beside the same one here: its figures, and what a run takes besides.

A real OpenSSH server on loopback stands for the board, so that both train on the same machine:

    python benchmarks/ssh.py --pairs 5 --steps 60
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
from tests.fleet.remote.server import Server, serving

from wattstep import load


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
    server: Server, folder: Path, pairs: int, steps: int, options: str
) -> dict[str, object]:
    """Interleaved pairs; figures of each run with their intervals."""
    elsewhere = {"WATTSTEP_SSH_CONFIG": str(server.client_config)}
    target = f"{server.target}{options}"
    rows = []
    for pair in range(pairs):
        here, there = folder / f"here{options}-{pair}", folder / f"there{options}-{pair}"
        seconds = run(here, steps), run(there, steps, "--target", target, environment=elsewhere)
        times = [load(path).metrics()["step_time"] for path in (here, there)]
        apart = times[0].low > times[1].high or times[1].low > times[0].high
        rows.append((*seconds, *(time.value for time in times), apart))
    added = [there - here for here, there, *_ in rows]
    return {
        "options": options or "none: everything is removed at the end",
        "pairs": pairs,
        "wall_here_s": statistics.median(row[0] for row in rows),
        "wall_there_s": statistics.median(row[1] for row in rows),
        "added_first_s": added[0],
        "added_later_s": statistics.median(added[1:]) if pairs > 1 else None,
        "step_time_here_s": statistics.median(row[2] for row in rows),
        "step_time_there_s": statistics.median(row[3] for row in rows),
        "step_times_s": [row[2:4] for row in rows],
        "pairs_whose_intervals_do_not_overlap": sum(row[4] for row in rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "board") as server:
        for options in (",keep=yes", ""):
            found = compare(server, Path(name), arguments.pairs, arguments.steps, options)
            print(json.dumps(found, indent=1), flush=True)


if __name__ == "__main__":
    main()

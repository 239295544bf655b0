"""Faults at random moments, for so many minutes, and what became of each: `make torture MINUTES=30`.

Trainer, sampler, collector, converter, sweep and server are killed, stopped and starved, disks fill up at
random bytes, files are cut anywhere, cables are pulled, connections and workers end. Afterwards the run opens
or is refused by name, has lost no more than is promised, says so where a figure lacks something, and no
process is left. docs/torture.md says what is promised of each. Lanes, each a process with faults of its own,
go side by side: most of a fault is waiting.

    python -m tests.torture --minutes 2 --only "disk" --lanes 4
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from tests.torture.campaign import Row, torture


def table(rows: dict[str, Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| fault | times | opened again | refused by name | steps lost, most | samples lost, most | unexplained |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {name} | {row.times} | {row.opened} | {row.refused} | {row.lost_steps} | {row.lost_s:.2f} s | "
        f"{len(row.unexplained)} |"
        for name, row in rows.items()
    ]
    return "\n".join(lines)


def main() -> None:
    """Prints the table; exit code 1 where something is unexplained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="faults whose name holds this")
    parser.add_argument("--lanes", type=int, default=1, help="faults that go side by side")
    given = parser.parse_args()
    os.environ.setdefault("WATTSTEP_FAIL_LOUDLY", "1")
    lane = partial(
        torture, lanes=given.lanes, minutes=given.minutes, seed=given.seed, only=given.only
    )
    with ProcessPoolExecutor(given.lanes, mp_context=get_context("spawn")) as pool:
        rows, *others = pool.map(lane, range(given.lanes))
    for each in others:
        for name, row in each.items():
            rows[name].add(row)
    print(table(rows), flush=True)
    sys.exit(1 if any(row.unexplained for row in rows.values()) else 0)


if __name__ == "__main__":
    main()

"""Faults in random order, and what becomes of each: a lane of the campaign."""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.torture import elsewhere, recording
from tests.torture.promises import MARK, Told, UnexplainedError, expect, left_behind, wait_for


@dataclass(kw_only=True)
class Row:
    """All faults of one sort."""

    times: int = 0
    opened: int = 0
    refused: int = 0
    lost_steps: int = 0
    lost_s: float = 0.0
    unexplained: list[str] = field(default_factory=list)

    def add(self, other: Row) -> None:
        """Those of another lane, too."""
        self.times += other.times
        self.opened += other.opened
        self.refused += other.refused
        self.lost_steps = max(self.lost_steps, other.lost_steps)
        self.lost_s = max(self.lost_s, other.lost_s)
        self.unexplained += other.unexplained


# Files of all processes of a user, beside each other: a lock of ours, and what is others'.
KEPT: Final = ("wattstep-measuring.lock", "torchinductor_", "dask-scratch-space", "adb.")

# How often each comes, beside the others.
FAULTS: Final[dict[str, tuple[Callable[[random.Random, Path], Told], int]]] = {
    "trainer killed": (recording.kill_trainer, 4),
    "trainer and sampler killed": (recording.kill_all, 4),
    "sampler killed": (recording.kill_sampler, 3),
    "collector killed": (recording.kill_collector, 2),
    "Ctrl-C": (recording.interrupt, 2),
    "converter killed": (recording.kill_converter, 3),
    "sweep killed": (elsewhere.kill_sweep, 1),
    "server killed": (elsewhere.kill_server, 1),
    "server's child killed": (elsewhere.kill_server_child, 1),
    "disk full at a random byte": (recording.fill_disk, 4),
    "files cut at random": (recording.cut_files, 6),
    "descriptors, memory or processes exhausted": (recording.starve, 3),
    "inodes exhausted": (recording.few_inodes, 2),
    "suspended and resumed": (recording.suspend, 2),
    "clock set": (recording.set_clock, 1),
    "cables pulled": (recording.pull_cables, 3),
    "two recorders at once": (recording.two_recorders, 1),
    "six recorders at once": (recording.six_recorders, 1),
    "ssh children killed": (elsewhere.cut_ssh, 1),
    "adb children killed": (elsewhere.cut_adb, 1),
    "Dask workers killed": (elsewhere.kill_dask, 1),
    "four workers, killed again and again": (elsewhere.kill_workers, 1),
}


def torture(lane: int, lanes: int, minutes: float, seed: int, only: str | None) -> dict[str, Row]:
    """Faults in random order until the time is over; what became of them.

    Args:
        lane: Takes each of the faults whose number, divided by `lanes`, leaves this.
        lanes: How many go side by side.
        minutes: How long.
        seed: Of the order, and of each fault.
        only: Part of the name of the faults that count; None: all.
    """
    # A shell lets what it starts in the background ignore Ctrl-C, and so would all trainers.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    names = [name for name in FAULTS if only is None or only.lower() in name.lower()]
    weights = [FAULTS[name][1] for name in names]
    rng = random.Random(seed)
    rows = {name: Row() for name in names}
    until = time.monotonic() + 60 * minutes
    number = 0
    while time.monotonic() < until:
        name = rng.choices(names, weights)[0]
        if number % lanes == lane:
            one(name, rows[name], f"{seed} {number}")
        number += 1
    return rows


def one(name: str, row: Row, seed: str) -> None:
    """One fault; what became of it goes into its row."""
    row.times += 1
    os.environ[MARK] = mark = seed.replace(" ", "-")
    with tempfile.TemporaryDirectory(prefix="wattstep-torture-") as made:
        temporary = Path(made, "tmp")
        temporary.mkdir()
        os.environ["TMPDIR"] = str(temporary)
        try:
            told = FAULTS[name][0](random.Random(f"{name} {seed}"), Path(made))
            wait_for(lambda: not left_behind(mark), f"left behind: {left_behind(mark)}")
            left = [each.name for each in temporary.iterdir() if not each.name.startswith(KEPT)]
            expect(not left, f"files left behind: {left}")
        except Exception as error:
            words = (
                str(error)
                if isinstance(error, UnexplainedError)
                else traceback.format_exc(limit=-4)
            )
            row.unexplained.append(f"{name}, {seed}: {words}")
            print(row.unexplained[-1], file=sys.stderr, flush=True)
            return
    row.opened += told.opened
    row.refused += not told.opened
    row.lost_steps = max(row.lost_steps, told.lost_steps)
    row.lost_s = max(row.lost_s, told.lost_s)

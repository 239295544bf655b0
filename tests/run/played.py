"""Steps recorded beside a log that is played in place of sensors."""

from __future__ import annotations

import time
from pathlib import Path

from tests.waiting import until

import wattstep
from wattstep.schema.journal import JOURNAL
from wattstep.store.files import read_info

STEPS = 30


def record_played(path: Path, target: str, rows: int, samples: int = 1) -> None:
    """Records steps of 20 ms until a log was played to its end, and some more.

    Args:
        path: Of the run.
        target: A replay that has an end.
        rows: Of the log. However late its process begins, all of them are in the run.
        samples: Of a step.
    """
    with wattstep.Recorder(path, trace="none", target=target) as recorder:
        (read,) = (read for read in read_info(path).reads if read.sensor == "replay")
        journal = path / JOURNAL / f"samples-{read.number:02d}.bin"
        whole = rows * 8 * (2 + len(read.channels))

        def step() -> None:
            with recorder.step(samples=samples):
                time.sleep(0.02)

        def at_its_end() -> bool:
            step()
            return journal.exists() and journal.stat().st_size == whole

        until(at_its_end)
        for _ in range(STEPS):
            step()

"""Labeling beside the foreground job, within a budget of its frames' delay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wattstep.labeling.pacing import Pacer
from wattstep.train.foreground.contest import renice
from wattstep.train.foreground.job import ForegroundJob

NICE = 19  # the least that a process may ask for


@contextmanager
def paced(budget_ms: float) -> Iterator[Pacer]:
    """The foreground job, started at this process's priority, and what holds labeling back beside it.

    From then on all threads of this process have nice 19.

    Args:
        budget_ms: By which the mean frame may be delayed.

    Raises:
        RecordingError: The job cannot be run.
    """
    with ForegroundJob() as job:
        renice(NICE)
        yield Pacer(job, budget_ms * 1e-3, NICE)

"""Description of a run that every export holds, and the summary of what was written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wattstep.run.run import Run
from wattstep.schema.run_report import RunFacts, RunReport
from wattstep.schema.version import VERSION

Progress = Callable[[str, float], None]  # told what is written, and how far all of it is (0 to 1)


@dataclass(frozen=True, kw_only=True)
class Written:
    """Summary of an export.

    Attributes:
        counts: Numbers by kind: operations, steps, samples, ...
        notes: Notes for the reader, as of what was left out.
    """

    counts: Mapping[str, int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class About:
    """Description of a run, in words.

    Attributes:
        facts: By name.
        statuses: Numbers of channels that are measured, replayed, modelled.
    """

    facts: Mapping[str, str]
    statuses: tuple[str, ...]


def about_run(run: Run | RunReport) -> About:
    """Description of a run for readers of an export."""
    info: RunFacts = run if isinstance(run, RunReport) else run.info
    path = Path(run.run) if isinstance(run, RunReport) else run.path.resolve()
    channels = run.channels if isinstance(run, RunReport) else run.tables.channels().values()
    absent = {} if isinstance(run, RunReport) else run.info.absent
    statuses = Counter(channel.status for channel in channels)
    counts = tuple(f"{count} channels {status}" for status, count in statuses.items())
    clock = "CLOCK_MONOTONIC of the machine that trained, in ns"
    if info.imported:
        clock = "that of the trace that was imported, in ns"
    facts = {
        "wattstep": VERSION,
        "run": path.name,
        "workload": info.workload,
        "engine": info.engine,
        "batch_size": "" if info.batch_size is None else str(info.batch_size),
        "state": info.state,
        "created": info.created,
        "target": info.target,
        "clock": clock,
        "channels": "; ".join(counts),
        **{f"missing: {name}": reason for name, reason in absent.items()},
        **{f"note {n}": text for n, text in enumerate(info.notes, 1)},
    }
    return About(facts={name: text for name, text in facts.items() if text}, statuses=counts)


def failed(run: Run | RunReport) -> tuple[str, ...]:
    """A line for each part of its figures that failed inside, and is left out."""
    return tuple(f"left out: {one.part}: {one.reason}" for one in run.failures)


def first_ns(run: Run) -> int:
    """The earliest time of anything in the run; 0 where there is nothing."""
    times = [int(t_ns[0]) for t_ns, _, _ in run.series.samples.values() if len(t_ns)]
    for table in ("steps", "spans", "operations"):
        for batch in run.tables.batches(table, ["start_ns"]):
            if len(batch):
                times.append(int(np.min(batch.column(0).to_numpy())))
    for table in ("memory", "evaluations"):
        if run.tables.count(table):
            times.append(int(np.min(run.tables.table(table, ["t_ns"])["t_ns"].to_numpy())))
    return min(times, default=0)

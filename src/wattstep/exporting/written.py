"""What every export says of its run, and what it says of itself once it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from wattstep.records.version import VERSION
from wattstep.run.run import Run

Progress = Callable[[str, float], None]  # told what is written, and how far all of it is (0 to 1)


@dataclass(frozen=True, kw_only=True)
class Written:
    """What was written.

    Attributes:
        counts: How many of what: operations, steps, samples, ...
        notes: What a reader must know, as what was left out.
    """

    counts: Mapping[str, int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class About:
    """What a run is, in words.

    Attributes:
        facts: By name.
        statuses: How many channels are measured, replayed, modelled.
    """

    facts: Mapping[str, str]
    statuses: tuple[str, ...]


def about_run(run: Run) -> About:
    """What a reader of an export must know of the run."""
    info = run.info
    statuses = Counter(channel.status for channel in run.tables.channels().values())
    told = tuple(f"{count} channels {status}" for status, count in statuses.items())
    clock = "CLOCK_MONOTONIC of the machine that trained, in ns"
    if info.imported:
        clock = "that of the trace that was imported, in ns"
    facts = {
        "wattstep": VERSION,
        "run": run.path.resolve().name,
        "workload": info.workload,
        "engine": info.engine,
        "batch_size": "" if info.batch_size is None else str(info.batch_size),
        "state": info.state,
        "created": info.created,
        "target": info.target,
        "clock": clock,
        "channels": "; ".join(told),
        **{f"missing: {name}": reason for name, reason in info.absent.items()},
        **{f"note {n}": text for n, text in enumerate(info.notes, 1)},
    }
    return About(facts={name: text for name, text in facts.items() if text}, statuses=told)


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

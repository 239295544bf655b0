"""What compiling a model took: time, and memory at most."""

from __future__ import annotations

import numpy as np

from wattstep.run.memory import added_by_children, samples_of
from wattstep.run.metrics import Parts
from wattstep.schema.condition_documents import CompilingFacts
from wattstep.schema.figure import CLOCK, Figure, Status, missing

NOT_TOLD = "torch did not tell when it compiled"


def compile_time(run: Parts) -> Figure | None:
    """Sum of the stretches in which torch compiled in s; None: nothing was compiled."""
    facts = _facts(run)
    if facts is None:
        return missing("s", NOT_TOLD) if run.info.options.get("compiled") else None
    seconds = sum(end - begin for begin, _, end, _ in facts["stretches"]) * 1e-9
    return Figure(
        value=seconds, unit="s", n=len(facts["stretches"]), status=Status.MEASURED, source=CLOCK,
        method="loading the compiler, and from the begin of each compilation to its end, as torch "
        f"tells them; {_cached(facts)}",
    )  # fmt: skip


def compile_memory(run: Parts) -> Figure | None:
    """Highest growth of memory while torch compiled in B, what earlier compilations left included."""
    facts = _facts(run)
    if facts is None:
        return missing("B", NOT_TOLD) if run.info.options.get("compiled") else None
    own_ns, own = samples_of(run.series, "resident_memory")
    children = added_by_children(run.series)
    kept = most = 0.0
    for begin, before, end, after in facts["stretches"]:
        mine = own[(own_ns >= begin) & (own_ns <= end)]
        within = (children.t_ns >= begin) & (children.t_ns <= end)
        with_children = children.value[within]
        if within.any() and len(own):
            known = np.isfinite(own)
            times = (own_ns[known] - begin).astype(float)
            with_children = with_children + np.interp(
                (children.t_ns[within] - begin).astype(float), times, own[known]
            )
        highest = max(np.nanmax(mine, initial=after), with_children.max(initial=after))
        most = max(most, kept + float(highest) - before)
        kept += after - before
    return Figure(
        value=most, unit="B", n=len(facts["stretches"]), status=Status.MEASURED,
        source="/proc/PID/statm, /proc/PID/smaps_rollup",
        method="highest resident memory of the training and the compiler's processes in a "
        "compilation, less that of the training before it, plus what earlier compilations left; "
        f"processes that lived shorter than between two reads may be missing; {_cached(facts)}",
    )  # fmt: skip


def _facts(run: Parts) -> CompilingFacts | None:
    return run.info.conditions.get("compiling")


def _cached(facts: CompilingFacts) -> str:
    """How much of it the compiler had done before."""
    if not facts["from_cache"]:
        return f"none of {facts['graphs']} graphs was in the compiler's cache"
    return (
        f"{facts['from_cache']} of {facts['graphs']} graphs came from the compiler's cache on disk: "
        "compiled anew it takes longer"
    )

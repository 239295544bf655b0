"""Processors that had little to do: idle cores, what ran at the same time, and what they could have done."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from wattstep.attribution.gaps import joined
from wattstep.insight.explain.device_gaps import (
    WORKING,
    by_window,
    host_activity,
    traced_step_s,
    traced_steps,
    work_of_device,
)
from wattstep.insight.explain.operations import (
    Work,
    attributed,
    ceilings_of,
    nothing_traced,
    work_of,
)
from wattstep.insight.explain.section import Row, Section, Table
from wattstep.insight.explain.threads import (
    LEAST_TAKEN,
    Cores,
    cores_of,
    fewer_threads,
    more_threads,
)
from wattstep.run import Run
from wattstep.schema.ceilings import Ceilings, spoken_threads
from wattstep.schema.figure import Figure, Missing, Status, missing
from wattstep.schema.figures import Metrics
from wattstep.stats.speedup import Saving

TITLE: Final = "Processors that had little to do"
TRIAL: Final = (
    "In a trial on four cores, one of them taken by another process, four threads took 241 ms a "
    "step where three took 4.1 ms: each operation waits for the thread whose core is taken."
)


def processors(run: Run) -> Section:
    """Idle time of each core and GPU, and how much work could have moved there."""
    cores, metrics = cores_of(run), run.metrics
    rows = _cores(metrics)
    gpu = metrics.get("gpu_utilization")
    untold = nothing_traced(run)
    if not rows and (gpu is None or gpu.missing) and untold:
        reason = metrics["cpu_utilization"].reason or "nothing was sampled"
        return Section(name="processors", title=TITLE, reason=f"{reason}; and {untold}")
    figures: dict[str, Figure] = {
        "cores_used": cores.used, "other_cpu": cores.others, "cores_free": cores.free,
        "cores_idle": cores.idle,
    }  # fmt: skip
    if gpu is not None and not gpu.missing:
        figures["gpu_utilization"] = gpu
    sentences = _sentences(cores)
    work = work_of(run)
    if isinstance(work, Missing):
        sentences.append(f"What could have run elsewhere cannot be determined: {work}.")
    else:
        savings, saving_sentences = _moving(run, work, cores)
        figures |= savings
        sentences += saving_sentences
    tables = [Table(name="cores", title="Cores", columns=_CORE_COLUMNS, rows=rows)] if rows else []
    tables += _at_once(run)
    return Section(
        name="processors",
        title=TITLE,
        sentences=tuple(sentences),
        figures=figures,
        tables=tuple(tables),
    )


_CORE_COLUMNS: Final = {"core": "core", "busy": "busy", "idle": "idle", "state": "samples idle"}


def _cores(metrics: Metrics) -> tuple[dict[str, Any], ...]:
    """A row for each core."""
    busy, state = metrics.listed("cpu_core_utilization"), metrics.listed("idle_state_ratio")
    rows = []
    for number, figure in enumerate(busy):
        rows.append(
            {
                "core": f"core {number}", "busy": figure, "idle": _complement(figure),
                "state": state[number] if number < len(state) else None,
            }
        )  # fmt: skip
    return tuple(rows)


def _complement(busy: Figure) -> Figure:
    """Complement of a ratio to 1, with its interval."""
    if busy.value is None:
        return busy
    return Figure(
        value=1 - busy.value,
        unit=busy.unit,
        low=None if busy.high is None else 1 - busy.high,
        high=None if busy.low is None else 1 - busy.low,
        confidence=busy.confidence,
        n=busy.n,
        status=busy.status,
        source=busy.source,
        method=f"1 less the share of busy time; {busy.method}",
    )


def _sentences(cores: Cores) -> list[str]:
    if cores.used.value is None or cores.free.value is None:
        reason = cores.used.reason if cores.used.missing else cores.free.reason
        return [f"How many cores the training used and left idle cannot be determined: {reason}."]
    threads = "" if cores.threads is None else f", with {spoken_threads(cores.threads)}"
    lines = [
        f"The training kept {cores.used.value:.2g} of {cores.count} cores busy{threads}; "
        f"{cores.taken_words}; {cores.idle.value or 0.0:.2g} stayed idle."
    ]
    if cores.crowded:
        rather = (
            ", or without the other process" if (cores.others.value or 0) >= LEAST_TAKEN else ""
        )
        lines.append(
            f"{cores.crowded_words}. {TRIAL} Train with {spoken_threads(cores.fitting)}{rather}."
        )
    return lines


def _moving(run: Run, work: Work, cores: Cores) -> tuple[dict[str, Figure], list[str]]:
    """Predicted savings, and sentences, of more or fewer threads."""
    if cores.crowded:
        return _with_fewer(run, work, cores)
    if cores.free.value is None or cores.threads is None:
        reason = cores.free.reason if cores.free.missing else "the run does not say its threads"
        return {"saved_by_threads": missing("s", reason or "")}, []
    threads = min(cores.fitting, cores.count)
    if threads <= cores.threads:
        return {}, ["No more cores were free than threads ran."]
    ceilings = ceilings_of(run)
    saving = more_threads(run, work, ceilings if isinstance(ceilings, Ceilings) else None, threads)
    figure = saving_figure(saving, "operations that are cut for threads, scaled with the ceilings")
    step = run.breakdown.step_time.value or np.nan
    return {"saved_by_threads": figure}, [
        f"{100 * saving.high / step:.0f} % of a step at most could be saved by moving work to the idle "
        f"cores, with {spoken_threads(threads)}; {100 * saving.value / step:.0f} % is expected from the ceilings."
    ]


def _with_fewer(run: Run, work: Work, cores: Cores) -> tuple[dict[str, Figure], list[str]]:
    saving, most = fewer_threads(run, work, cores.fitting)
    step = run.breakdown.step_time.value or np.nan
    if saving is not None:
        words = "steps in which others took no core, beside all"
        return {"saved_by_threads": saving_figure(saving, words)}, [
            f"With {spoken_threads(cores.fitting)} a step should take {100 * saving.value / step:.0f} % less, as "
            "the steps did in which nothing else took a core."
        ]
    reason = "no step was undisturbed, so how fast fewer threads would be is unknown"
    threads = spoken_threads(cores.fitting)
    message = f"What training with {threads} brings is not known: {reason}"
    if most is not None:
        message += f"; {100 * most / step:.0f} % of a step at most, by the ceilings of {threads}"
    return {"saved_by_threads": missing("s", reason)}, [f"{message}. Measure it."]


def saving_figure(saving: Saving, words: str) -> Figure:
    """A saving as a figure; nobody ran it."""
    return Figure(
        value=saving.value,
        unit="s",
        low=saving.low,
        high=saving.high,
        status=Status.PREDICTED,
        source="measured shares of the step",
        method=f"{words}; the upper end is Amdahl's bound",
    )


def _at_once(run: Run) -> list[Table]:
    """When host and devices work at the same time, where the trace tells both."""
    breakdown = run.breakdown
    if nothing_traced(run) or not breakdown.others:
        return []
    names = ("host and GPU", "only the host", "only a GPU", "neither")
    parts: dict[str, list[float]] = {name: [] for name in names}
    for step in traced_steps(breakdown):
        # Of a host that runs ahead, what it does at this place of its own step.
        ahead = step.begin_ns - int(step.edges_ns[0])
        host = host_activity(breakdown, step)[WORKING].later(ahead)
        host = host.within(step.begin_ns, step.end_ns)
        gpu = joined(
            [work_of_device(breakdown, step, device) for device in breakdown.others]
        ).union()
        both = host.both(gpu).total_s
        length = (step.end_ns - step.begin_ns) * 1e-9
        values = (both, host.total_s - both, gpu.total_s - both)
        for name, value in zip(names, (*values, length - sum(values)), strict=True):
            parts[name].append(value)
    step_s = traced_step_s(breakdown)
    rows: list[Row] = []
    for name, values_of in parts.items():
        seconds = by_window(breakdown, np.array(values_of))
        time = attributed(breakdown, seconds, "time in which both, one or none carries out work")
        rows.append({"who": name, "time": time, "share": time.share_of(step_s)})
    columns = {"who": "who works", "time": "time", "share": "of the step"}
    return [Table(name="at_once", title="At the same time", columns=columns, rows=tuple(rows))]

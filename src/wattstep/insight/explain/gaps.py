"""Time of a step in which no operation runs, by what goes on instead; the causes add up to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from wattstep.attribution.quantities import AttributedQuantity
from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.insight.explain.device_gaps import DATA, FRAMEWORK, OPTIMIZER, device_tables
from wattstep.insight.explain.operations import attributed, nothing_traced
from wattstep.insight.explain.section import Section, Table
from wattstep.recorded.steps import Steps
from wattstep.run import Run
from wattstep.schema.arrays import BoolArray, FloatArray
from wattstep.schema.figure import CLOCK, Figure, Status, missing
from wattstep.schema.operation_kinds import WORKER_WAIT
from wattstep.stats.statistics import mean_figure, ratio_figure

TITLE: Final = "Gaps: time in which no operation runs"
GAME: Final = "the game"
EVALUATION: Final = "evaluation"
WORKERS: Final = "workers of the plan, waiting for each other"
KEPT: Final = "not running: other processes, the host of this machine, or a wait"
CAUSES: Final[Mapping[str, str]] = {
    FRAMEWORK: "idle_framework", DATA: "idle_data", GAME: "idle_game", OPTIMIZER: "idle_optimizer",
    EVALUATION: "idle_evaluation", WORKERS: "idle_workers", KEPT: "idle_not_running",
}  # fmt: skip
WAITS: Final = (DATA, GAME, EVALUATION)  # where the training may rest of its own accord
_OF_PHASE: Final = {"data": DATA, "game": GAME, "optimizer": OPTIMIZER, "evaluation": EVALUATION}
OF_OPTIMIZER: Final = "Optimizer."
INTERVALS: Final = 2  # of the sampler: the CPU time of what is shorter cannot be determined
MOSTLY_STEPS: Final = 0.9  # of the time between two readings of the CPU clock
NO_GC: Final = (
    "Garbage collection and the interpreter's lock leave no mark in a trace: what they take is in "
    "the code where they struck."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Idle:
    """Time without operations, by cause.

    Attributes:
        seconds: By cause, of each traced step as it lies on the mean step, shape (windows,).
        cpu_s: CPU time in it, likewise; None where it was not sampled.
    """

    seconds: Mapping[str, FloatArray]
    cpu_s: Mapping[str, FloatArray] | None


def idle_of(breakdown: RunBreakdown) -> Idle:
    """Time that no operation covers: unattributed time of phases, and the own time of scopes, by cause."""
    compensated = breakdown.compensated
    cpu = breakdown.quantity("cpu_time")
    time = _sums(breakdown, compensated.time_s, compensated.unattributed_s)
    return Idle(seconds=time, cpu_s=None if cpu is None else _of(breakdown, cpu))


def _of(breakdown: RunBreakdown, quantity: AttributedQuantity) -> dict[str, FloatArray]:
    return _sums(breakdown, quantity.rows, quantity.unattributed)


def _sums(
    breakdown: RunBreakdown, rows: FloatArray, unattributed: FloatArray
) -> dict[str, FloatArray]:
    """Sums of rows that are scopes, and of rests, by cause and window."""
    causes, windows = list(CAUSES), len(unattributed)
    seconds = {cause: np.zeros(windows) for cause in causes}
    for phase, name in enumerate(breakdown.compensated.traced.names):
        seconds[_OF_PHASE.get(name, FRAMEWORK)] += unattributed[:, phase]
    scope = np.flatnonzero(~breakdown.is_operation)
    code = _cause_codes(breakdown)[scope]
    cell = breakdown.rows.window[scope].astype(np.int64) * len(causes) + code
    sums = np.bincount(cell, rows[scope], minlength=windows * len(causes))
    for number, cause in enumerate(causes):
        seconds[cause] += sums.reshape(windows, len(causes))[:, number]
    return seconds


def _cause_codes(breakdown: RunBreakdown) -> Any:
    """For each traced row the position in `CAUSES` of what its own time is for, if it is a scope."""
    order = list(CAUSES)
    phase, name = breakdown.label("phase"), breakdown.label("name")
    of_phase = np.array([order.index(_OF_PHASE.get(str(t), FRAMEWORK)) for t in phase.texts])
    of_name = np.array([str(text).startswith(OF_OPTIMIZER) for text in name.texts], bool)
    waits = name.named(WORKER_WAIT)
    # A scope without a phase of its own belongs to the phase in which it begins.
    names = breakdown.compensated.traced.names
    of_step = np.array([order.index(_OF_PHASE.get(text, FRAMEWORK)) for text in names])
    own = np.where(phase.named(""), of_step[breakdown.compensated.phase], of_phase[phase.code])
    own = np.where(of_name[name.code], order.index(OPTIMIZER), own)
    return np.where(waits, order.index(WORKERS), own)


def gaps(run: Run) -> Section:
    """Time of a mean step in which no operation runs, and why; on GPUs, why each has nothing to do."""
    breakdown = run.breakdown
    if reason := nothing_traced(run):
        return Section(name="gaps", title=TITLE, reason=reason)
    idle, step = idle_of(breakdown), breakdown.step_time
    not_running = not_running_time(run)
    parts = idle_by_cause(run, idle, not_running)
    whole = np.sum(list(parts.values()), axis=0)
    total = attributed(breakdown, whole, "time of a step that no operation covers")
    figures: dict[str, Figure] = {"idle_time": total}
    figures |= {
        CAUSES[cause]: _figure(values, breakdown) for cause, values in parts.items() if values.any()
    }
    figures["not_running_time"] = not_running
    figures |= _surroundings(run)
    rows = [_row(cause, values, idle, run) for cause, values in parts.items() if values.any()]
    rows.sort(key=lambda row: -(row["time"].value or 0.0))
    columns = {"cause": "cause", "time": "time", "share": "of the step", "off_cpu": "not running"}
    tables = [Table(name="causes", title="By cause", columns=columns, rows=tuple(rows))]
    tables += [_scopes(breakdown)] if _module_code(breakdown).any() else []
    tables += _workers(breakdown)
    more, device_sentences = device_tables(run) if breakdown.others else ((), ())
    return Section(
        name="gaps",
        title=TITLE,
        sentences=(*_sentences(parts, step, run), *device_sentences, NO_GC),
        figures=figures,
        tables=(*tables, *more),
    )


def _figure(values: FloatArray, breakdown: RunBreakdown) -> Figure:
    return attributed(breakdown, values, "time that no operation covers, by its phase or scope")


def _row(cause: str, values: FloatArray, idle: Idle, run: Run) -> dict[str, Any]:
    time, step = _figure(values, run.breakdown), run.breakdown.step_time.value or np.nan
    return {
        "cause": cause,
        "time": time,
        "share": time.share_of(step),
        "off_cpu": _off_cpu(cause, values, idle, run),
    }


def _off_cpu(cause: str, values: FloatArray, idle: Idle, run: Run) -> Figure:
    """Of a cause's time, that in which the training ran on no core."""
    if cause == KEPT:
        return _figure(values, run.breakdown)
    if reason := _cannot_tell(cause, values, idle, run):
        return missing("s", reason)
    assert idle.cpu_s is not None
    waited = np.maximum(idle.seconds[cause] - idle.cpu_s[cause], 0.0)
    return attributed(run.breakdown, waited, "time less the CPU time that was sampled in it")


def _cannot_tell(cause: str, values: FloatArray, idle: Idle, run: Run) -> str | None:
    """Reason why it is not known whether the training ran during a cause; None where it is."""
    if idle.cpu_s is None:
        return "CPU time of the training was not sampled"
    if run.info.threads != 1:
        return "with several threads, CPU time does not tell which of them waited"
    least = INTERVALS * run.info.interval_s
    if values.mean() < least:
        return f"shorter than {INTERVALS} samples of CPU time ({least * 1e3:.3g} ms)"
    return None


def not_running_time(run: Run) -> Figure:
    """Time of a clean step in which a training with one thread ran on no core."""
    steps, clean = run.breakdown.steps, run.breakdown.clean
    if run.info.threads != 1:
        return missing(
            "s", "CPU time shows when a training did not run only where it has one thread"
        )
    waited = (steps.seconds - _cpu_of_steps(steps, *run.tables.cpu_ns()))[clean]
    waited = np.maximum(waited[np.isfinite(waited)], 0.0)
    if len(waited) <= len(clean) / 2:
        return _from_samples(run)
    figure = mean_figure(waited, "s", "monotonic clock, CPU clock of the process", Status.MEASURED)
    return replace(figure, method=f"step time less CPU time of the process; {figure.method}")


def _cpu_of_steps(steps: Steps, begin_ns: FloatArray, end_ns: FloatArray) -> FloatArray:
    """CPU time in s of each step, from a clock that was read at some of their begins and ends.

    What it shows between two readings belongs to the steps there by their time; NaN where more than
    steps lies between them.
    """
    at_s = np.stack([steps.start_ns, steps.end_ns], axis=1).ravel() * 1e-9
    cpu_s = np.stack([begin_ns, end_ns], axis=1).ravel() * 1e-9
    ends_s = np.cumsum(steps.seconds)
    in_steps_s = np.stack([ends_s - steps.seconds, ends_s], axis=1).ravel()
    read = np.flatnonzero(np.isfinite(cpu_s))
    if len(read) < 2:
        return np.full(len(ends_s), np.nan)
    between_s = np.diff(at_s[read])
    within = (between_s > 0) & (np.diff(in_steps_s[read]) >= MOSTLY_STEPS * between_s)
    share = np.full(len(between_s), np.nan)
    np.divide(np.diff(cpu_s[read]), between_s, out=share, where=within)
    share = np.concatenate([[np.nan], share, [np.nan]])  # before the first reading, after the last
    cpu_of_steps: FloatArray = (
        steps.seconds * share[np.searchsorted(read, 2 * np.arange(len(ends_s)), side="right")]
    )
    return cpu_of_steps


def _from_samples(run: Run) -> Figure:
    """Time of a step in which the training did not run, from the share of a core that samples saw it use."""
    cores: Figure | None = run.metrics.figure("process_cpu_cores")
    if cores is None or cores.value is None:
        reason = None if cores is None else cores.reason
        return missing("s", reason or "CPU time of the training was not sampled")
    step = run.breakdown.step_time.value or np.nan

    def idle(busy: float | None) -> float | None:
        return None if busy is None else max(1.0 - busy, 0.0) * step

    return replace(
        cores,
        value=idle(cores.value),
        low=idle(cores.high),
        high=idle(cores.low),
        unit="s",
        method=f"what its one thread left of a core, for as long as a step; {cores.method}",
    )


def idle_by_cause(
    run: Run, idle: Idle | None = None, not_running: Figure | None = None
) -> dict[str, FloatArray]:
    """Time in s without operations by cause, of each traced step as it lies on the mean step.

    The time in which the training was kept from running is a cause of its own, taken out of others.

    What others take strikes operations and gaps alike: of the time in which the training did not
    run, less its own waits for data or a game, gaps have the share that they have of the step.
    Waits that are too short to tell from work are taken to be waits throughout.
    """
    idle = idle_of(run.breakdown) if idle is None else idle
    not_running = not_running_time(run) if not_running is None else not_running
    parts = {cause: values.copy() for cause, values in idle.seconds.items()}
    waits = [cause for cause in WAITS if parts[cause].any()]
    if not_running.value is None:
        return parts
    own = sum(_own_wait(cause, idle, run) for cause in waits)
    of_waits = sum(float(parts[cause].mean()) for cause in waits)
    off_core = max(not_running.value - own, 0.0)
    outside = (run.breakdown.step_time.value or np.nan) - of_waits
    share = min(off_core / outside, 1.0) if outside > 0 else 0.0
    for cause, values in parts.items():
        if cause not in (*WAITS, KEPT):
            parts[KEPT] = parts[KEPT] + share * values
            parts[cause] = (1 - share) * values
    return parts


def _own_wait(cause: str, idle: Idle, run: Run) -> float:
    """Time in s in which the training rests of its own accord; where that cannot be determined, all."""
    seconds = idle.seconds[cause]
    if idle.cpu_s is None or _cannot_tell(cause, seconds, idle, run):
        return float(seconds.mean())
    return float(np.maximum(seconds - idle.cpu_s[cause], 0.0).mean())


def _surroundings(run: Run) -> dict[str, Figure]:
    """CPU time of others by samples, and time between steps, which is no part of them."""
    metrics, steps = run.metrics, run.breakdown.steps
    figures: dict[str, Figure] = {
        name: metrics[name] for name in ("other_cpu", "steal") if name in metrics
    }
    counted = steps.counted
    gaps = counted.steps - 1 + steps.line.follows[counted.at]
    if gaps.any():
        any_of = gaps > 0
        if steps.thinned is None:
            gap = mean_figure(counted.gap_s[any_of], "s", CLOCK, Status.MEASURED)
        else:
            known = counted.within(any_of)
            above, below = known.together(known.gap_s, gaps[any_of])
            gap = known.figure(ratio_figure(above, below, "s", CLOCK, Status.MEASURED))
        figures["between_steps_time"] = replace(
            gap, method=f"from the end of a step to the begin of the next; {gap.method}"
        )
    recorded = float(steps.end_ns[-1] - steps.start_ns[0]) * 1e-9
    for name, spans in steps.rest_ns.items():
        seconds = float((spans[:, 1] - spans[:, 0]).sum()) * 1e-9
        if name == EVALUATION and recorded > 0:
            figures["evaluation_share"] = Figure(
                value=seconds / recorded, unit="ratio", n=len(spans), status=Status.MEASURED,
                source=CLOCK, method="time of evaluations between steps over all time",
            )  # fmt: skip
    return figures


def _module_code(breakdown: RunBreakdown) -> BoolArray:
    """Mask of the traced rows that are code of modules around operations."""
    return ~breakdown.is_operation & ~breakdown.label("name").named(WORKER_WAIT)


def _scopes(breakdown: RunBreakdown) -> Table:
    """The own time of scopes: module code by layer."""
    scope = _module_code(breakdown)
    layer = breakdown.label("layer").renamed("", "(no module)")
    windows = len(breakdown.compensated.unattributed_s)
    window = breakdown.rows.window
    rows: list[dict[str, Any]] = []
    for code, text in enumerate(layer.texts):
        mine = scope & (layer.code == code)
        if not mine.any():
            continue
        seconds = np.bincount(window[mine], breakdown.compensated.time_s[mine], minlength=windows)
        time = attributed(breakdown, seconds.astype(np.float64), "own time of the module's code")
        if time.value:
            rows.append({"layer": str(text), "time": time, "share": _of_step(time, breakdown)})
    rows.sort(key=lambda row: -(row["time"].value or 0.0))
    columns = {"layer": "module", "time": "own code", "share": "of the step"}
    return Table(name="modules", title="Code of modules", columns=columns, rows=tuple(rows))


def _workers(breakdown: RunBreakdown) -> list[Table]:
    """What each worker of a plan does of the steps; none where there is no plan of several."""
    waits = breakdown.label("name").named(WORKER_WAIT)
    if not waits.any():
        return []
    rows, operations = breakdown.rows, breakdown.outermost & breakdown.is_operation
    lasted = breakdown.steps.seconds[breakdown.window_steps]
    seconds = (rows.end_ns - rows.start_ns) * 1e-9

    def share(chosen: BoolArray) -> Figure:
        sums = np.bincount(rows.window[chosen], seconds[chosen], minlength=len(lasted))
        return mean_figure(sums / lasted, "ratio", breakdown.traced_by, Status.MEASURED)

    def row(number: int) -> dict[str, Any]:
        mine = rows.thread == number
        busy, waited = share(mine & operations), share(mine & waits)
        return {"worker": f"worker {number}", "operations": busy, "waiting": waited}

    numbers = np.unique(rows.thread[waits]).tolist()
    columns = {"worker": "worker", "operations": "in operations", "waiting": "waiting for others"}
    title = "Workers of the plan, of traced steps"
    return [Table(name="workers", title=title, columns=columns, rows=tuple(map(row, numbers)))]


def _of_step(time: Figure, breakdown: RunBreakdown) -> Figure:
    return time.share_of(breakdown.step_time.value or np.nan)


def _sentences(parts: Mapping[str, FloatArray], step: Figure, run: Run) -> list[str]:
    length = step.value or np.nan
    shares = {cause: float(values.mean()) / length for cause, values in parts.items()}
    whole = sum(shares.values())
    most = max(shares, key=lambda cause: shares[cause])
    lines = [f"{100 * whole:.1f} % of a step has no operation running."]
    if whole > 0:
        lines[0] += f" The largest part of that, {100 * shares[most] / whole:.0f} %, is {most}."
    if shares[KEPT] > 0.01:
        kept = "" if run.series.steps.thinned is None else " that were kept one by one"
        disturbed = int((run.conditions.disturbed & run.breakdown.steps.clean).sum())
        evidence = (
            f"other processes or the host took processor time in {disturbed} of "
            f"{len(run.breakdown.clean)} clean steps{kept}"
            if disturbed
            else "the samples show no other process that took a core"
        )
        lines.append(
            f"{100 * shares[KEPT]:.1f} % of a step are gaps in which the training did not run: {evidence}."
        )
    return lines

"""The report of a run: everything that JSON, the console and the HTML report show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.recorded.imported import scope_of, with_scope
from wattstep.recorded.log_notes import cut_short, standing_still, unread
from wattstep.recorded.reading import Tables
from wattstep.recorded.series import Series
from wattstep.recorded.steps import Steps
from wattstep.run.completion import evaluations
from wattstep.run.energy import CANARY, IDLE, STABILIZING, outside, rails
from wattstep.run.step_flags import StepFlags, step_flags_report
from wattstep.run.sustained import sustained_course
from wattstep.schema.arrays import IntArray
from wattstep.schema.channel import RECORDING_CPU, Channel
from wattstep.schema.failures import Failures
from wattstep.schema.figure import CLOCK, Figure, Missing, Status, missing
from wattstep.schema.figures import Metrics
from wattstep.schema.report_rows import (
    NotMeasured,
    OutsideSteps,
    PlanCompared,
    PlannedRow,
    RecordFacts,
    RunConditions,
    SampledChannel,
    StepCounts,
)
from wattstep.schema.run_documents import PlannedFacts
from wattstep.schema.run_info import RunInfo
from wattstep.schema.run_report import RunReport
from wattstep.schema.spelling import rounded

RESTARTED: Final = "where the sampler was started again"
STOOD_STILL: Final = "where the sampler stood still (suspended, or the machine was too busy for it)"
MOST_GAPS: Final = 3  # that are told one by one
STOPPED: Final = 50  # times as long as half of the steps is a step in which the process was stopped
STOPPED_S: Final = 1.0  # at least, lasts that
CLOCK_SET_S: Final = 2.0  # by which the time of day may go on otherwise: NTP steps by less, or once
CLOCK_RATE: Final = 1e-3  # of a recording, by which NTP may slew


def make_report(
    path: Path,
    tables: Tables,
    series: Series,
    breakdown: RunBreakdown,
    metrics: Metrics,
    conditions: StepFlags,
    failures: Failures,
) -> RunReport:
    """Of a recorded run. A part that fails inside is empty and noted in `failures`."""
    part = failures.guard
    scope = scope_of(series.steps, series.imported)
    no_notes: tuple[str, ...] = ()
    made = replace(
        _described(path, tables, series, metrics),
        notes=(
            *_notes(tables, series),
            *part("status_notes", lambda: tuple(breakdown.notes), no_notes),
        ),
        operations_of=breakdown.operations_of,
        evaluations=part("evaluations", lambda: evaluations(tables), ()),
        steps=part("steps", lambda: _step_counts(series, conditions), StepCounts()),
        step_kinds=part("step_kinds", lambda: tuple(breakdown.kinds_of_steps()), ()),
        conditions=part("conditions", lambda: _conditions(tables, series, conditions), None),
        forecast=tables.info.conditions.get("forecast"),
        planned=part("planned", lambda: compare_planned(tables.info.planned, metrics), None),
        course=part("curve", lambda: sustained_course(series, conditions), None),
        operations=part("operations", lambda: tuple(breakdown.operations()), ()),
        operations_notes=part("operations_notes", lambda: tuple(breakdown.operations_notes), ()),
        layers=part("layers", lambda: tuple(breakdown.layers()), ()),
        phases=part("phases", lambda: tuple(breakdown.phases()), ()),
        updates=part("updates", lambda: tuple(breakdown.updates()), ()),
        kinds=part("kinds", lambda: tuple(breakdown.kinds()), ()),
        unattributed=part("rests", breakdown.unattributed, {}),
        outside_steps=part("rests_outside_steps", lambda: _outside(series), {}),
        not_resolved=part("not_resolved", breakdown.not_resolved, {}),
        energy_groups=part("energy_groups", lambda: tuple(breakdown.energy_groups()), ()),
        energy_by_rail=part("energy_by_rail", lambda: with_scope(rails(series), scope), {}),
        energy_outside=part("energy_outside", lambda: with_scope(outside(series), scope), {}),
        left_out=part("left_out", lambda: _left_out(series), ()),
        missing=part("missing", lambda: _missing(tables, breakdown, metrics), ()),
        recording=part("recording", lambda: _recording(tables, series), {}),
        channels=part("channels", lambda: _channels(series), ()),
        record=part("record", lambda: _record(tables.info, series, conditions), None),
    )
    return replace(made, failures=tuple(failures))


def make_headline(
    path: Path,
    tables: Tables,
    series: Series,
    breakdown: RunBreakdown | None,
    metrics: Metrics,
    conditions: StepFlags,
) -> RunReport:
    """Part of the report that comparisons need; without a breakdown without operations."""
    report = replace(
        _described(path, tables, series, metrics), record=_record(tables.info, series, conditions)
    )
    reason = "not asked for" if breakdown is None else breakdown.reason
    if breakdown is None or reason is not None:
        return replace(report, missing=(NotMeasured(what="operations", reason=reason or ""),))
    rows = tuple(breakdown.operations())
    return replace(report, operations=rows, operations_of=breakdown.operations_of)


def _described(path: Path, tables: Tables, series: Series, metrics: Metrics) -> RunReport:
    """Description of the run, and its metrics."""
    info = tables.info
    return RunReport(
        run=str(path),
        schema=info.schema_version,
        state=info.state,
        created=info.created,
        workload=info.workload,
        title=info.title,
        engine=info.engine,
        batch_size=info.batch_size,
        threads=info.threads,
        precision=info.precision,
        processor=info.processor,
        seed=info.seed,
        device=info.device,
        target=info.target,
        power_model=info.power_model,
        imported=info.imported,
        figures_of=series.steps.figures_of,
        data=info.data,
        model=info.model,
        options=info.options,
        schedule=info.schedule,
        metrics=metrics,
        environment=info.environment,
    )


def compare_planned(planned: PlannedFacts, metrics: Metrics) -> PlanCompared | None:
    """What the plan of a run predicted beside what came; None where it followed none.

    Args:
        planned: As the run's description has it.
        metrics: Of the run.
    """
    if not planned:
        return None
    return PlanCompared(
        device=planned["device"],
        mode=planned.get("mode"),
        configuration=planned.get("configuration", ""),
        changed=tuple(planned.get("changed") or ()),
        rows=tuple(
            _planned_row(name, Figure.from_dict(facts), metrics)
            for name, facts in planned.get("figures", {}).items()
        ),
    )


def _planned_row(name: str, predicted: Figure, metrics: Metrics) -> PlannedRow:
    measured = metrics.figure(name) or missing(predicted.unit, "the run has no such figure")
    inside = None
    if measured.value is not None:
        assert predicted.low is not None
        assert predicted.high is not None
        inside = predicted.low <= measured.value <= predicted.high
    return PlannedRow(metric=name, predicted=predicted, measured=measured, inside=inside)


def _record(info: RunInfo, series: Series, flags: StepFlags) -> RecordFacts:
    energy, sensors, half_step_w = series.energy, "", 0.0
    if not isinstance(energy, Missing):
        channels = sorted(f"{c.name} {c.source}" for c in series.power_channels())
        sensors = f"{channels}; calibration {info.calibration}; model {info.power_model}"
        half_step_w = energy.half_step_w
    steps, counted = series.steps, series.steps.counted
    sizes = np.unique(steps.samples[steps.clean])
    if (thinned := steps.thinned) is not None:
        sizes = np.unique(np.concatenate([sizes, thinned.samples_least, thinned.samples_most]))
    alike = len(sizes) == 1 and bool(np.isfinite(sizes[0]))
    return RecordFacts(
        interval_s=info.interval_s,
        trace=info.trace,
        calibration=info.calibration,
        canary=info.canary,
        gaps=info.gaps,
        lost=info.lost,
        samples=float(sizes[0]) if alike else None,
        sensors=sensors,
        half_step_w=half_step_w,
        marred={name: flags.share(counted, name) for name in ("throttled", "disturbed")},
    )


def _conditions(tables: Tables, series: Series, flags: StepFlags) -> RunConditions:
    excluded = tuple(map(str, tables.info.options.get("exclude") or ()))
    return step_flags_report(flags, series.steps, excluded, tables.info.conditions)


def _notes(tables: Tables, series: Series) -> list[str]:
    notes = list(tables.info.notes)
    if settled := series.steps.settled:
        notes.append(
            f"{settled} more first steps count as warm-up: until then the step time of "
            f"{series.steps.device} had not settled (kernels loaded and tried out on first use, memory "
            "that the allocator takes, graphs that are captured)"
        )
    begin = series.steps.start_ns[0] if len(series.steps.index) else None
    if begin is not None:
        for part, t_ns in tables.info.lost.items():
            notes.append(f"{part}: nothing recorded from {(t_ns - begin) * 1e-9:.1f} s on")
        notes += [_gap_note(series.steps, gap, RESTARTED) for gap in tables.info.gaps]
        silent = [gap for gap in series.silent_ns() if not _within(gap, tables.info.gaps)]
        notes += [_gap_note(series.steps, gap, STOOD_STILL) for gap in silent[:MOST_GAPS]]
        if len(silent) > MOST_GAPS:
            notes.append(f"{len(silent) - MOST_GAPS} more such gaps in the samples")
        notes += filter(None, [_stopped_note(series.steps), _clock_note(tables.info)])
    if (on_host := _on_host(series.steps)) is not None:
        notes.append(on_host)
    if series.gpu_note is not None:
        notes.append(series.gpu_note)
    notes += filter(None, [series.thinned, series.steps.thinned_note])
    return notes + cut_short(series) + unread(series) + standing_still(series) + series.doubtful


def _on_host(steps: Steps) -> str | None:
    """That some steps that count lie on the host's own clock, though others are a device's."""
    if steps.host_ns is None:
        return None
    count = int((steps.clean & np.isnan(steps.host_ns[:, 0])).sum())
    if not count:
        return None
    return (
        f"{count} of {int(steps.clean.sum())} steps that count are the host's: {steps.device} was not "
        "followed then (nothing of the training lay on it yet, or it was lost)"
    )


def _within(gap: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    """True if a gap overlaps one of others."""
    return any(gap[0] < end and begin < gap[1] for begin, end in others)


def _stopped_note(steps: Steps) -> str | None:
    """That steps took so long that their process was likely stopped, or waited for something else."""
    counted = steps.counted
    if steps.absent or not counted.count:
        return None
    clean = np.flatnonzero(steps.clean)
    seconds, index, at_least = steps.seconds[clean], steps.index[clean], ""
    if (thinned := steps.thinned) is not None:  # of each stretch the longest is known
        seconds = np.concatenate([seconds, thinned.most_ns * 1e-9])
        index = np.concatenate([index, thinned.index])
        at_least = "at least "
    usual = float(np.median(steps.seconds[clean])) if len(clean) else np.inf
    long = np.flatnonzero(seconds > max(STOPPED * usual, STOPPED_S))
    if not len(long) or len(long) > counted.count / STOPPED:
        return None
    first = long[np.argmin(index[long])]
    near = "" if first < len(clean) else " or one of those after it"
    return (
        f"{at_least}{len(long)} of {counted.count} steps that count took {STOPPED} times as long as half of "
        f"them, or more (step {index[first]}{near}: {rounded(float(seconds[first]))} s): was the process stopped, or "
        "the machine asleep? They are in the means"
    )


def _clock_note(info: RunInfo) -> str | None:
    """That the time of day went on otherwise than the time that is measured: asleep, or set."""
    if len(info.clocks) < 2:
        return None
    (begin_ns, offset_ns), (end_ns, last_ns) = info.clocks[0], info.clocks[-1]
    ahead_s, lasted_s = (last_ns - offset_ns) * 1e-9, (end_ns - begin_ns) * 1e-9
    if abs(ahead_s) <= max(CLOCK_SET_S, CLOCK_RATE * lasted_s):
        return None
    return (
        f"the time of day went {'on' if ahead_s > 0 else 'back'} by {rounded(abs(ahead_s))} s beside the "
        f"{rounded(lasted_s)} s that were measured: the machine slept meanwhile, or its clock was set; no figure "
        "counts that time"
    )


def _gap_note(steps: Steps, gap: tuple[int, int], why: str) -> str:
    """Note on a gap in sampling, and on the steps that it touches."""
    low, high = gap
    line = steps.line
    touched = np.flatnonzero((line.start_ns < high) & (line.end_ns > low))
    which = "no step lies in it"
    if len(touched):
        first, last = line.first[touched[0]], line.last[touched[-1]]
        which = f"step {first} touches it"
        if first != last:
            which = f"{len(touched)} steps touch it, from step {first} to {last}"
            if (steps_of := line.steps) is not None and (steps_of[touched] > 1).any():
                which = f"it lies between steps {first} and {last}"
    return (
        f"nothing was sampled for {(high - low) * 1e-9:.2f} s from "
        f"{(low - steps.start_ns[0]) * 1e-9:.1f} s on, {why}: {which}"
    )


def _step_counts(series: Series, flags: StepFlags) -> StepCounts:
    steps = series.steps
    if steps.absent or series.imported.trace_is_one_step:
        return StepCounts(recorded=0)
    all_counted = steps.with_left_out.counted
    disturbed, throttled = (flags.count(all_counted, name) for name in ("disturbed", "throttled"))
    clean = steps.counted.count
    return StepCounts(
        recorded=steps.recorded,
        warmup=int(steps.warmup.sum()),
        clean=0 if steps.only_traced else clean,
        traced=int(steps.traced.sum()),
        settling=int((steps.after_traced & ~steps.warmup & ~steps.traced).sum()),
        exploring=None if steps.looking is None else int(steps.looking.sum()),
        disturbed=None if flags.unseen else disturbed,
        throttled=throttled or None,
        left_out=all_counted.count - clean or None,
    )


def _left_out(series: Series) -> tuple[str, ...]:
    """Consumers that the total of energy does not contain, in the words of its channels."""
    energy = series.energy
    return () if isinstance(energy, Missing) or energy.note is None else (energy.note,)


def _outside(series: Series) -> dict[str, OutsideSteps]:
    """Stretches with a name outside of steps (startup, evaluation): time and energy of all of them."""
    table = {}
    for name, spans in series.steps.rest_ns.items():
        if not len(spans) or name in (*IDLE.values(), STABILIZING, CANARY):  # no part of training
            continue
        seconds = (spans[:, 1] - spans[:, 0]) * 1e-9
        table[name] = OutsideSteps(
            total=Figure(
                value=float(seconds.sum()), unit="s", n=len(spans), status=series.steps.status,
                source=CLOCK, method="sum of stretches outside of the steps",
            ),
            energy=_energy_outside(series, spans),
        )  # fmt: skip
    return table


def _energy_outside(series: Series, spans: IntArray) -> Figure:
    """Energy of stretches outside of the steps, all together."""
    energy = series.energy
    if isinstance(energy, Missing):
        return missing("J", energy)
    gains, covered = energy.curve.difference(spans[:, 0], spans[:, 1])
    if reason := energy.too_short(float((spans[:, 1] - spans[:, 0]).mean()) * 1e-9, "one of them"):
        return missing("J", reason)
    gain = float(np.nansum(gains))
    seconds = float((covered * (spans[:, 1] - spans[:, 0])).sum()) * 1e-9
    return Figure(
        value=gain, unit="J", n=len(spans), status=energy.status, source=energy.source,
        method="sum of stretches outside of the steps",
        systematic=energy.systematic_at(gain / seconds) if seconds else None,
    )  # fmt: skip


def _missing(tables: Tables, breakdown: RunBreakdown, metrics: Metrics) -> tuple[NotMeasured, ...]:
    rows = [NotMeasured(what=name, reason=reason) for name, reason in tables.info.absent.items()]
    if breakdown.reason is not None and not tables.summaries:
        rows.append(NotMeasured(what="operations", reason=breakdown.reason))
    for name in metrics:
        figure = metrics.figure(name)
        if figure is not None and figure.missing:
            rows.append(NotMeasured(what=name, reason=figure.reason or ""))
    return tuple(rows)


def _recording(tables: Tables, series: Series) -> dict[str, str | Figure]:
    """Statistics of the sampler; unknown for runs of other tools."""
    info = tables.info
    if info.imported and "sampler.lateness" not in series.samples:
        return {}
    parts: dict[str, str | Figure] = {
        "interval": f"{info.interval_s * 1e3:g} ms",
        "scheduling": info.scheduling,
        "traced steps": f"{int(series.steps.traced.sum())} ({info.trace})",
    }
    if "sampler.lateness" in series.samples:
        t_ns, late = series.raw("sampler.lateness")
        late = late[np.isfinite(late)]
        lost, busy = (series.totals(f"sampler.{name}") for name in ("lost_ticks", "busy_time"))
        assert lost is not None
        assert busy is not None
        source = "the sampler's own clock"
        parts["ticks"] = Figure(
            value=float(lost.reads), unit="count", status=Status.COUNTED, source=source
        )
        parts["lost ticks"] = Figure(
            value=lost.total / max(lost.reads + lost.total, 1),
            unit="ratio",
            status=Status.MEASURED,
            source=source,
        )
        parts["lateness, 99th percentile"] = Figure(
            value=float(np.percentile(late, 99)), unit="s", n=len(late), status=Status.MEASURED,
            source=source,
        )  # fmt: skip
        span = float(t_ns[-1] - t_ns[0]) * 1e-9
        parts["sampler, share of one core while reading"] = Figure(
            value=busy.total / span if span > 0 else 0.0, unit="ratio", n=busy.reads,
            status=Status.MEASURED, source=source,
        )  # fmt: skip
    for role in RECORDING_CPU:
        used = series.one(role)
        if used is not None and used.t_ns[-1] > used.t_ns[0]:
            span = float(used.t_ns[-1] - used.t_ns[0]) * 1e-9
            who = role.partition("_")[0]
            parts[f"{who}, share of one core"] = Figure(
                value=float(used.total[-1]) / span, unit="ratio", status=Status.MEASURED,
                source=f"process clock of the {who}",
            )  # fmt: skip
    return parts


def _channels(series: Series) -> tuple[SampledChannel, ...]:
    return tuple(_channel(series, name, channel) for name, channel in series.channels.items())


def _channel(series: Series, name: str, channel: Channel) -> SampledChannel:
    """Description of a channel with its refresh interval and resolution."""
    row = SampledChannel(
        name=name, unit=channel.unit, kind=channel.kind, domain=channel.domain, role=channel.role,
        source=channel.source, status=channel.status, window=channel.window_s,
        observed_share=channel.observed_share, resolution=channel.resolution, note=channel.note,
    )  # fmt: skip
    if name not in series.samples:
        return row
    _, value, errno = series.samples[name]
    updates = series.refresh(channel)
    cost = f"cost:{name}"
    thinned = failed = 0
    if (stretches := series.stretches.get(name)) is not None:
        thinned = int(stretches.reads[stretches.known].sum())
        failed = int(stretches.reads[stretches.errno != 0].sum())
    return replace(
        row,
        samples=int(np.isfinite(value).sum()) + thinned,
        failed_reads=int((errno != 0).sum()) + failed,
        update_interval=updates.interval.value,
        refresh=updates.interval,
        resolution_seen=updates.resolution,
        repeated_share=updates.repeated,
        read_cost=float(np.median(series.raw(cost)[1])) if cost in series.samples else None,
    )

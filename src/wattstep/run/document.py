"""The document of a run: everything that JSON, the console and the HTML report show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from wattstep.analysis.steps import IntArray, Steps
from wattstep.records.channel import Channel
from wattstep.records.failures import Failures
from wattstep.records.figure import Figure, Status, missing
from wattstep.run.completion import evaluations
from wattstep.run.conditions import OURS, Conditions, as_document
from wattstep.run.energy import CANARY, IDLE, STABILIZING, outside, rails
from wattstep.run.imported import scope_of, told
from wattstep.run.operations import RunBreakdown
from wattstep.run.reading import Tables
from wattstep.run.series import Series
from wattstep.run.sustained import sustained_curve


def make_document(
    path: Path,
    tables: Tables,
    series: Series,
    breakdown: RunBreakdown,
    metrics: Mapping[str, Any],
    conditions: Conditions,
    failures: Failures,
) -> dict[str, Any]:
    """JSON-ready; see ARCHITECTURE.md for the fields. A part that fails inside is empty and noted in `failures`."""
    info = tables.info
    scope = scope_of(series.steps, series.imported)

    def part(name: str, work: Callable[[], Any], otherwise: Any) -> Any:
        return failures.guard(name, lambda: _plain(work()), otherwise)

    def stated() -> dict[str, Any]:
        excluded = _excluded(info.options)
        return as_document(conditions, series.steps, excluded, info.conditions)

    figures = {
        "evaluations": part("evaluations", lambda: evaluations(tables), []),
        "steps": part("steps", lambda: _step_counts(series, conditions), {}),
        "step_kinds": part("step_kinds", breakdown.kinds_of_steps, []),
        "conditions": part("conditions", stated, {}),
        "forecast": info.conditions.get("forecast"),
        "curve": part("curve", lambda: sustained_curve(series, conditions), None),
        "metrics": _plain(metrics),
        "operations": part("operations", breakdown.operations, []),
        "operations_notes": part("operations_notes", lambda: breakdown.operations_notes, []),
        "layers": part("layers", breakdown.layers, []),
        "phases": part("phases", breakdown.phases, []),
        "updates": part("updates", breakdown.updates, []),
        "kinds": part("kinds", breakdown.kinds, []),
        "rests": part("rests", breakdown.rests, {}),
        "rests_outside_steps": part("rests_outside_steps", lambda: _outside(series), {}),
        "not_resolved": part("not_resolved", breakdown.not_resolved, {}),
        "energy_groups": part("energy_groups", breakdown.energy_groups, []),
        "energy_by_rail": part("energy_by_rail", lambda: told(rails(series), scope), {}),
        "energy_outside": part("energy_outside", lambda: told(outside(series), scope), {}),
        "left_out": part("left_out", lambda: _left_out(series), []),
        "missing": part("missing", lambda: _missing(tables, breakdown, metrics), []),
        "recording": part("recording", lambda: _recording(tables, series), {}),
        "channels": part("channels", lambda: _channels(series), []),
    }
    return {
        "run": str(path),
        "schema": info.schema_version,
        "state": info.state,
        "created": info.created,
        "status_notes": _notes(tables, series) + part("status_notes", lambda: breakdown.notes, []),
        "workload": info.workload,
        "title": info.title,
        "engine": info.engine,
        "batch_size": info.batch_size,
        "threads": info.threads,
        "precision": info.precision,
        "processor": info.processor,
        "seed": info.seed,
        "device": dict(info.device),
        "target": info.target,
        "power_model": None if info.power_model is None else dict(info.power_model),
        "imported": dict(info.imported),
        "figures_of": series.steps.figures_of,
        "operations_of": breakdown.operations_of,
        "data": None if info.data is None else asdict(info.data),
        "model": dict(info.model),
        "options": dict(info.options),
        **figures,
        "environment": dict(info.environment),
        "failures": failures.documents(),
    }


def _plain(thing: Any) -> Any:
    """Figures as mappings, numpy's scalars as Python's."""
    if isinstance(thing, Figure):
        return thing.to_dict()
    if isinstance(thing, Mapping):
        return {key: _plain(value) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_plain(value) for value in thing]
    if isinstance(thing, np.generic):
        return thing.item()
    return thing


def _notes(tables: Tables, series: Series) -> list[str]:
    notes = list(tables.info.notes)
    if tables.info.state == "recovered":
        notes.insert(0, "this run was never closed: it was recovered from its journals")
    if tables.info.state == "recording":
        notes.insert(0, "this run is still being recorded")
    begin = series.steps.start_ns[0] if len(series.steps.index) else None
    if begin is not None:
        for part, t_ns in tables.info.lost.items():
            notes.append(f"{part}: nothing recorded from {(t_ns - begin) * 1e-9:.1f} s on")
        notes += [_gap_note(series.steps, gap) for gap in tables.info.gaps]
    return notes


def _gap_note(steps: Steps, gap: tuple[int, int]) -> str:
    """How long nothing was sampled, and which steps that touches."""
    low, high = gap
    touched = np.flatnonzero((steps.start_ns < high) & (steps.end_ns > low))
    which = "no step lies in it"
    if len(touched):
        first, last = steps.index[touched[[0, -1]]]
        which = f"step {first} touches it"
        if first != last:
            which = f"{len(touched)} steps touch it, from step {first} to {last}"
    return (
        f"nothing was sampled for {(high - low) * 1e-9:.2f} s from "
        f"{(low - steps.start_ns[0]) * 1e-9:.1f} s on, where the sampler was started again: {which}"
    )


def _step_counts(series: Series, conditions: Conditions) -> dict[str, int]:
    steps = series.steps
    if steps.absent or series.imported.trace_is_one_step:
        return {"recorded": 0}
    all_clean = replace(steps, excluded=None).clean
    counts = {
        "recorded": len(steps.index),
        "warmup": int(steps.warmup.sum()),
        "clean": 0 if steps.only_traced else int(steps.clean.sum()),
        "traced": int(steps.traced.sum()),
        "settling": int((steps.settling & ~steps.warmup & ~steps.traced).sum()),
    }
    if not conditions.unseen:
        counts["disturbed"] = int(conditions.disturbed[all_clean].sum())
    throttled = int(conditions.throttled[all_clean].sum())
    left_out = int(all_clean.sum()) - int(steps.clean.sum())
    return {
        **counts,
        **({"throttled": throttled} if throttled else {}),
        **({"left out": left_out} if left_out else {}),
    }


def _excluded(options: Mapping[str, Any]) -> list[str]:
    return [str(name) for name in options.get("exclude") or ()]


def _left_out(series: Series) -> list[str]:
    """What the total of energy does not contain, in the words of its channels."""
    energy = series.energy
    return [] if isinstance(energy, str) or energy.note is None else [energy.note]


def _outside(series: Series) -> dict[str, Any]:
    """Stretches with a name outside of steps (startup, evaluation): time and energy of all of them."""
    table: dict[str, Any] = {}
    for name, spans in series.steps.rest_ns.items():
        if not len(spans) or name in (*IDLE.values(), STABILIZING, CANARY):  # no part of training
            continue
        seconds = (spans[:, 1] - spans[:, 0]) * 1e-9
        table[name] = {
            "total": Figure(
                value=float(seconds.sum()), unit="s", n=len(spans), status=Status.MEASURED,
                source="monotonic clock", method="sum of stretches outside of the steps",
            ),
            "energy": _energy_outside(series, spans),
            "outside_steps": True,
        }  # fmt: skip
    return table


def _energy_outside(series: Series, spans: IntArray) -> Figure:
    """Energy of stretches outside of the steps, all together."""
    energy = series.energy
    if isinstance(energy, str):
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


def _missing(
    tables: Tables, breakdown: RunBreakdown, metrics: Mapping[str, Any]
) -> list[dict[str, str]]:
    rows = [{"what": name, "reason": reason} for name, reason in tables.info.absent.items()]
    if breakdown.reason is not None and not tables.summaries:
        rows.append({"what": "operations", "reason": breakdown.reason})
    for name, figure in metrics.items():
        if isinstance(figure, Figure) and figure.missing:
            rows.append({"what": name, "reason": figure.reason or ""})
    return rows


def _recording(tables: Tables, series: Series) -> dict[str, Any]:
    """What the sampler did and what it took; of other tools nothing is known."""
    info = tables.info
    if info.imported and "sampler.lateness" not in series.samples:
        return {}
    parts: dict[str, Any] = {
        "interval": f"{info.interval_s * 1e3:g} ms",
        "scheduling": info.scheduling,
        "traced steps": f"{int(series.steps.traced.sum())} ({info.trace})",
    }
    if "sampler.lateness" in series.samples:
        t_ns, late = series.raw("sampler.lateness")
        lost = float(series.raw("sampler.lost_ticks")[1].sum())
        source = "the sampler's own clock"
        parts["ticks"] = Figure(
            value=float(len(late)), unit="count", status=Status.COUNTED, source=source
        )
        parts["lost ticks"] = Figure(
            value=lost / max(len(late) + lost, 1),
            unit="ratio",
            status=Status.MEASURED,
            source=source,
        )
        parts["lateness, 99th percentile"] = Figure(
            value=float(np.percentile(late, 99)), unit="s", n=len(late), status=Status.MEASURED,
            source=source,
        )  # fmt: skip
        busy = series.raw("sampler.busy_time")[1]
        span = float(t_ns[-1] - t_ns[0]) * 1e-9
        parts["sampler, share of one core while reading"] = Figure(
            value=float(busy.sum()) / span if span > 0 else 0.0, unit="ratio", n=len(busy),
            status=Status.MEASURED, source=source,
        )  # fmt: skip
    for role in OURS:
        used = series.one(role)
        if used is not None and used.t_ns[-1] > used.t_ns[0]:
            span = float(used.t_ns[-1] - used.t_ns[0]) * 1e-9
            who = role.partition("_")[0]
            parts[f"{who}, share of one core"] = Figure(
                value=float(used.total[-1]) / span, unit="ratio", status=Status.MEASURED,
                source=f"process clock of the {who}",
            )  # fmt: skip
    return parts


def _channels(series: Series) -> list[dict[str, Any]]:
    return [_channel(series, name, channel) for name, channel in series.channels.items()]


def _channel(series: Series, name: str, channel: Channel) -> dict[str, Any]:
    """What a channel is, and what its samples can carry.

    `update_interval` is in s, the bound where only that is known; `refresh` says how it was found.
    """
    row: dict[str, Any] = {
        "name": name,
        "unit": channel.unit,
        "kind": channel.kind,
        "domain": channel.domain,
        "role": channel.role,
        "source": channel.source,
        "status": channel.status,
        "window": channel.window_s,
        "observed_share": channel.observed_share,
        "resolution": channel.resolution,
        "note": channel.note,
        "samples": 0,
        "failed_reads": 0,
        "update_interval": None,
        "refresh": None,
        "resolution_seen": None,
        "repeated_share": None,
        "read_cost": None,
    }
    if name not in series.samples:
        return row
    _, value, errno = series.samples[name]
    found = series.refresh(channel)
    row |= {
        "samples": int(np.isfinite(value).sum()),
        "failed_reads": int((errno != 0).sum()),
        "update_interval": found.interval.value,
        "refresh": _plain(found.interval),
        "resolution_seen": found.quantum,
        "repeated_share": found.repeated,
    }
    if f"cost:{name}" in series.samples:
        row["read_cost"] = float(np.median(series.raw(f"cost:{name}")[1]))
    return row

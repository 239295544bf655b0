"""The document of a run: everything that JSON, the console and the HTML report show."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wattstep.records.figure import Figure, Status, missing
from wattstep.run import metrics as metric_parts
from wattstep.run.operations import RunBreakdown
from wattstep.run.reading import Tables
from wattstep.run.series import Series


def make_document(
    path: Path,
    tables: Tables,
    series: Series,
    breakdown: RunBreakdown,
    metrics: Mapping[str, Any],
) -> dict[str, Any]:
    """JSON-ready; see ARCHITECTURE.md for the fields."""
    info = tables.info
    data = info.to_dict()["data"]
    return {
        "run": str(path),
        "schema": info.schema_version,
        "state": info.state,
        "created": info.created,
        "status_notes": _notes(tables, series),
        "workload": info.workload,
        "title": info.title,
        "engine": info.engine,
        "batch_size": info.batch_size,
        "threads": info.threads,
        "precision": info.precision,
        "processor": info.processor,
        "seed": info.seed,
        "device": dict(info.device),
        "data": data,
        "model": dict(info.model),
        "steps": _step_counts(tables, series),
        "metrics": _plain(metrics),
        "operations": _plain(breakdown.operations()),
        "layers": _plain(breakdown.layers()),
        "phases": _plain(breakdown.phases()),
        "kinds": _plain(breakdown.kinds()),
        "rests": _plain({**breakdown.rests(), **_outside(series, breakdown)}),
        "energy_by_rail": _plain(metric_parts.rails(series, breakdown)),
        "missing": _missing(tables, breakdown, metrics),
        "recording": _plain(_recording(tables, series)),
        "environment": dict(info.environment),
        "channels": _channels(series),
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
    return notes


def _step_counts(tables: Tables, series: Series) -> dict[str, int]:
    steps = series.steps
    return {
        "recorded": len(steps.index),
        "warmup": int(steps.warmup.sum()),
        "clean": int(steps.clean.sum()),
        "traced": int(steps.traced.sum()),
        "settling": int((steps.settling & ~steps.warmup & ~steps.traced).sum()),
        "disturbed": int(metric_parts.disturbed(tables, series)[steps.clean].sum()),
    }


def _outside(series: Series, breakdown: RunBreakdown) -> dict[str, Any]:
    """Stretches with a name outside of steps (evaluation), per clean step on average."""
    steps = series.steps
    table: dict[str, Any] = {}
    for name, spans in steps.rest_ns.items():
        if not len(spans):
            continue
        seconds = (spans[:, 1] - spans[:, 0]) * 1e-9
        table[name] = {
            "time": Figure(
                value=float(seconds.sum()) / max(len(steps.index), 1),
                unit="s",
                n=len(spans),
                status=Status.MEASURED,
                source="monotonic clock",
                method=f"{len(spans)} stretches outside of the steps, over all steps",
            ),
            "total": Figure(
                value=float(seconds.sum()), unit="s", n=len(spans), status=Status.MEASURED,
                source="monotonic clock",
            ),
            "outside_steps": True,
        }  # fmt: skip
        energy = series.energy
        if isinstance(energy, str):
            table[name]["energy"] = missing("J", energy)
        else:
            gains, _ = energy.curve.difference(spans[:, 0], spans[:, 1])
            table[name]["energy"] = Figure(
                value=float(np.nansum(gains)) / max(len(steps.index), 1), unit="J",
                status=energy.status, source=energy.source,
            )  # fmt: skip
    return table


def _missing(
    tables: Tables, breakdown: RunBreakdown, metrics: Mapping[str, Any]
) -> list[dict[str, str]]:
    rows = [{"what": name, "reason": reason} for name, reason in tables.info.absent.items()]
    if breakdown.reason is not None:
        rows.append({"what": "operations", "reason": breakdown.reason})
    for name, figure in metrics.items():
        if isinstance(figure, Figure) and figure.missing:
            rows.append({"what": name, "reason": figure.reason or ""})
    return rows


def _recording(tables: Tables, series: Series) -> dict[str, Any]:
    """What the sampler did and what it took."""
    info = tables.info
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
    used = series.one("sampler_cpu_time")
    if used is not None and used.t_ns[-1] > used.t_ns[0]:
        span = float(used.t_ns[-1] - used.t_ns[0]) * 1e-9
        parts["sampler, share of one core"] = Figure(
            value=float(used.total[-1]) / span, unit="ratio", status=Status.MEASURED,
            source="process clock of the sampler",
        )  # fmt: skip
    return parts


def _channels(series: Series) -> list[dict[str, Any]]:
    rows = []
    for name, channel in series.channels.items():
        row: dict[str, Any] = {
            "name": name,
            "unit": channel.unit,
            "kind": channel.kind,
            "domain": channel.domain,
            "role": channel.role,
            "source": channel.source,
            "samples": 0,
            "failed_reads": 0,
            "update_interval": None,
            "read_cost": None,
        }
        if name in series.samples:
            _, value, errno = series.samples[name]
            row["samples"] = int(np.isfinite(value).sum())
            row["failed_reads"] = int((errno != 0).sum())
            row["update_interval"] = series.update_interval_s(name)
            if f"cost:{name}" in series.samples:
                row["read_cost"] = float(np.median(series.raw(f"cost:{name}")[1]))
        rows.append(row)
    return rows

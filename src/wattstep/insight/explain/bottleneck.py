"""What holds the steps of a training on a GPU back, phase by phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from wattstep.attribution.gaps import DISPATCH, LAUNCHED, WAITING, Spans, joined
from wattstep.attribution.gpu_idle import LAUNCH_NS
from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.insight.explain.device_gaps import (
    DATA,
    TracedStep,
    gap_spans,
    host_activity,
    spans_of,
    traced_steps,
)
from wattstep.insight.explain.operations import not_negative, not_seen
from wattstep.insight.explain.section import Section, Table
from wattstep.run import Run
from wattstep.schema.arrays import IntArray
from wattstep.schema.figure import Figure, Status
from wattstep.schema.operation_kinds import DENSE
from wattstep.stats.statistics import mean_figure

NAME: Final = "bottleneck"
TITLE: Final = "What holds each phase back"
COMPUTE: Final = "compute"
TRAFFIC: Final = "memory traffic"
LAUNCHES: Final = "launches"
HOST: Final = "host"
DATA_LOADING: Final = "data"
# Held back for longer after its launch than launching costs: by the driver, by another device or
# process, or by whatever else the trace does not show.
WAITS: Final = "other waits"
BOUNDS: Final = (COMPUTE, TRAFFIC, LAUNCHES, HOST, DATA_LOADING, WAITS)
NO_GPU: Final = "no work ran on a GPU in this run"
# Kernels of these kinds do many operations a byte; all others, and copies, are held back by memory.
# What keeps an idle device waiting; whatever else the host does is its own matter.
OF_CAUSE: Final[Mapping[str, str]] = {
    LAUNCHED: LAUNCHES,
    DISPATCH: LAUNCHES,
    WAITING: HOST,
    DATA: DATA_LOADING,
}
UNKNOWN: Final = "(no phase)"


def bottleneck(run: Run) -> Section:
    """Time of each phase on each GPU: dense kernels, other kernels and copies, and idle time by cause.

    An idle stretch belongs to the phase of the work that ends it, which is what the device waits for.

    Args:
        run: Any run whose traced steps have work on a GPU.
    """
    breakdown = run.breakdown
    if reason := not_seen(run):
        return Section(name=NAME, title=TITLE, reason=reason)
    if not breakdown.others:
        return Section(name=NAME, title=TITLE, reason=NO_GPU)
    tables, sentences = [], []
    for device in breakdown.others:
        parts = [_step(breakdown, step, device) for step in traced_steps(breakdown)]
        rows = _rows(parts, breakdown)
        tables.append(
            Table(
                name=device,
                title=f"Time of each phase on {device} by what it is bound by",
                columns={
                    "phase": "phase", "bound": "bound by", "time": "time", "share": "of it",
                    **{name: name for name in BOUNDS},
                },
                rows=rows,
            )
        )  # fmt: skip
        sentences += [_sentence(device, row) for row in rows]
    return Section(name=NAME, title=TITLE, sentences=tuple(sentences), tables=tuple(tables))


def _step(breakdown: RunBreakdown, step: TracedStep, device: str) -> dict[str, dict[str, float]]:
    """Seconds of a step by phase and what binds it; they add up to the step."""
    rows = step.rows[breakdown.processor.at(step.rows).named(device)]
    phases = _phases(breakdown, rows)
    dense_rows = np.isin(_texts(breakdown, "kind", rows), DENSE)
    dense = spans_of(breakdown, rows[dense_rows], step).union()
    by_phase: dict[str, dict[str, float]] = {}
    taken = Spans.of([], [])
    for phase in dict.fromkeys(phases):
        mine = phases == phase
        own_dense = spans_of(breakdown, rows[mine & dense_rows], step).without(taken)
        others = spans_of(breakdown, rows[mine & ~dense_rows], step).without(dense).without(taken)
        taken = joined([taken, own_dense, others]).union()
        by_phase[phase] = dict.fromkeys(BOUNDS, 0.0)
        by_phase[phase][COMPUTE] = own_dense.total_s
        by_phase[phase][TRAFFIC] = others.total_s
    host = host_activity(breakdown, step)
    starts, last = breakdown.rows.start_ns[rows], phases[-1] if len(phases) else UNKNOWN
    order = np.argsort(starts, kind="stable")
    for cause, spans in gap_spans(breakdown, step, host, device).items():
        # The next work after a gap is what it is waited for; what comes after the last is its own.
        at = np.searchsorted(starts[order], spans.end_ns, side="left")
        for number, begin, end in zip(at, spans.start_ns, spans.end_ns, strict=True):
            waiting = str(phases[order[number]]) if number < len(order) else str(last)
            held = cause == LAUNCHED and end - begin > LAUNCH_NS
            bound = WAITS if held else OF_CAUSE.get(cause, HOST)
            by_phase.setdefault(waiting, dict.fromkeys(BOUNDS, 0.0))[bound] += (end - begin) * 1e-9
    return by_phase


def _phases(breakdown: RunBreakdown, rows: IntArray) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    return np.array([text or UNKNOWN for text in _texts(breakdown, "phase", rows)], str)


def _texts(breakdown: RunBreakdown, column: str, rows: IntArray) -> list[str]:
    names = breakdown.label(column)
    return [str(names.texts[code]) for code in names.code[rows].tolist()]


def _rows(
    parts: list[dict[str, dict[str, float]]], breakdown: RunBreakdown
) -> list[dict[str, Figure | str]]:
    rows: list[dict[str, Figure | str]] = []
    none = dict.fromkeys(BOUNDS, 0.0)
    for phase in dict.fromkeys(name for part in parts for name in part):
        seconds = np.array([[part.get(phase, none)[name] for name in BOUNDS] for part in parts])
        means = seconds.mean(axis=0)
        if not means.any():
            continue
        most = int(np.argmax(means))
        time = _figure(seconds.sum(axis=1), breakdown)
        rows.append(
            {
                "phase": phase,
                "bound": BOUNDS[most],
                "time": time,
                "share": replace(
                    _figure(seconds[:, most], breakdown), value=float(means[most] / means.sum()),
                    unit="ratio", low=None, high=None, confidence=None,
                ),
                **{
                    name: _figure(seconds[:, at], breakdown) for at, name in enumerate(BOUNDS)
                },
            }
        )  # fmt: skip
    return rows


def _figure(
    seconds: np.ndarray[tuple[int], np.dtype[np.float64]], breakdown: RunBreakdown
) -> Figure:
    figure = mean_figure(seconds, "s", breakdown.step_time.source or "", Status.ATTRIBUTED)
    return not_negative(
        figure,
        "time of kernels by their kind (convolutions, matrix products, attention: compute; others "
        "and copies: memory traffic), and idle time by what the trace shows meanwhile",
    )


def _sentence(device: str, row: Mapping[str, Figure | str]) -> str:
    share = row["share"]
    assert isinstance(share, Figure)
    return f"{row['phase']} on {device} is bound by {row['bound']} ({share.value or 0.0:.0%} of its time)."

"""What holds the steps of a training on a GPU back, phase by phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from wattstep.attribution.gaps import COPY, DISPATCH, LAUNCHED, SYNCHRONISATION, Spans, joined
from wattstep.attribution.gpu_idle import LAUNCH_NS
from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.insight.explain.device_gaps import (
    DATA,
    UNTRACED,
    TracedStep,
    by_window,
    copies_of_device,
    gap_spans,
    host_activity,
    spans_of,
    traced_steps,
)
from wattstep.insight.explain.gpu_roofline import bound_by_compute, gpu_ceilings
from wattstep.insight.explain.operations import not_negative, not_seen
from wattstep.insight.explain.section import Section, Table
from wattstep.run import Run
from wattstep.schema.arrays import IntArray
from wattstep.schema.figure import Figure, Missing, Status
from wattstep.schema.operation_kinds import DENSE
from wattstep.stats.statistics import mean_figure

NAME: Final = "bottleneck"
TITLE: Final = "What holds each phase back"
COMPUTE: Final = "compute"
TRAFFIC: Final = "memory traffic"
LAUNCHES: Final = "launches"
HOST: Final = "host"
DATA_LOADING: Final = "data"
COPIES: Final = "copies"
SYNC: Final = "synchronisation"
# Held back for longer after its launch than launching costs: by the driver, by another device or
# process, or by whatever else the trace does not show.
WAITS: Final = "other waits"
BOUNDS: Final = (COMPUTE, TRAFFIC, COPIES, LAUNCHES, HOST, DATA_LOADING, SYNC, WAITS)
BY_KIND: Final = (
    "kernels by their kind (convolutions, matrix products, attention and recurrent: compute; others: "
    "memory traffic)"
)
NO_GPU: Final = "no work ran on a GPU in this run"
# What keeps an idle device waiting; whatever else the host does is its own matter.
OF_CAUSE: Final[Mapping[str, str]] = {
    LAUNCHED: LAUNCHES,
    DISPATCH: LAUNCHES,
    SYNCHRONISATION: SYNC,
    COPY: COPIES,
    DATA: DATA_LOADING,
}
UNKNOWN: Final = "(no phase)"


def bottleneck(run: Run) -> Section:
    """Time of each phase on each GPU: kernels by what binds them, copies, and idle time by cause.

    Computing binds a kernel, or memory traffic: by the roofline, where its FLOPs and bytes and the
    ceilings of the GPU are known, else by its kind. A copy to or from the host counts where nothing
    else runs; within the GPU it is memory traffic. An idle stretch belongs to the phase of the work that ends it, which is what the device waits for.

    Args:
        run: Any run whose traced steps have work on a GPU.
    """
    breakdown = run.breakdown
    if reason := not_seen(run):
        return Section(name=NAME, title=TITLE, reason=reason)
    if not breakdown.others:
        return Section(name=NAME, title=TITLE, reason=NO_GPU)
    tables, sentences = [], []
    binding = _Binding(run)
    for device in breakdown.others:
        parts = [_step(breakdown, step, device, binding) for step in traced_steps(breakdown)]
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
    sentences.append(binding.words)
    return Section(name=NAME, title=TITLE, sentences=tuple(sentences), tables=tuple(tables))


class _Binding:
    """Which work computing binds, and by what that was told."""

    def __init__(self, run: Run) -> None:
        breakdown = run.breakdown
        self.compute = np.zeros(len(breakdown.rows.window), bool)
        on_gpu = np.flatnonzero(~breakdown.rows.on_host)
        dense = np.isin(breakdown.label("kind").texts.astype(str), DENSE)
        self.compute[on_gpu] = dense[breakdown.label("kind").code[on_gpu]]
        copied = copies_of_device(breakdown, on_gpu)
        kernels = on_gpu[~copied]
        ceilings = gpu_ceilings(run)
        if isinstance(ceilings, Missing):
            self.words = f"{BY_KIND}: {ceilings}."
        else:
            computes, known = bound_by_compute(run, ceilings, kernels)
            self.compute[kernels[known]] = computes[known]
            seconds = (breakdown.rows.end_ns - breakdown.rows.start_ns)[kernels]
            share = seconds[known].sum() / max(seconds.sum(), 1)
            self.words = (
                f"What binds kernels is told by the roofline for {100 * share:.0f} % of their time "
                f"({ceilings.source}; FLOPs and least bytes of the operation that launched each); of "
                f"the rest, whose FLOPs or bytes are not known: {BY_KIND}."
            )
        self.words = self.words[:1].upper() + self.words[1:]


def _step(
    breakdown: RunBreakdown, step: TracedStep, device: str, binding: _Binding
) -> dict[str, dict[str, float]]:
    """Seconds of a step by phase and what binds it; they add up to the step."""
    work = step.rows[breakdown.processor.at(step.rows).named(device)]
    rows = work[~copies_of_device(breakdown, work)]
    phases = _phases(breakdown, rows)
    dense_rows = binding.compute[rows]
    dense = _within(rows[dense_rows], step).union()
    by_phase: dict[str, dict[str, float]] = {}
    taken = Spans.of([], [])
    for phase in dict.fromkeys(phases):
        mine = phases == phase
        own_dense = _within(rows[mine & dense_rows], step).without(taken)
        others = _within(rows[mine & ~dense_rows], step).without(dense).without(taken)
        taken = joined([taken, own_dense, others]).union()
        by_phase[phase] = dict.fromkeys(BOUNDS, 0.0)
        by_phase[phase][COMPUTE] = own_dense.total_s
        by_phase[phase][TRAFFIC] = others.total_s
    host = host_activity(breakdown, step)
    phases, starts = _phases(breakdown, work), step.start_ns[work]
    last = phases[-1] if len(phases) else UNKNOWN
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


def _within(rows: IntArray, step: TracedStep) -> Spans:
    """When rows ran within a step on the device."""
    return spans_of(rows, step).within(step.begin_ns, step.end_ns)


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
        seconds = by_window(
            breakdown,
            np.array([[part.get(phase, none)[name] for name in BOUNDS] for part in parts]),
        )
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
    source = breakdown.step_time.source if breakdown.timeline.cost is None else UNTRACED
    figure = mean_figure(seconds, "s", source or "", Status.ATTRIBUTED)
    return not_negative(
        figure,
        "time of kernels by what binds them, of copies beside which nothing runs, and idle time by "
        "what the trace shows meanwhile",
    )


def _sentence(device: str, row: Mapping[str, Figure | str]) -> str:
    share = row["share"]
    assert isinstance(share, Figure)
    return f"{row['phase']} on {device} is bound by {row['bound']} ({100 * (share.value or 0.0):.0f} % of its time)."

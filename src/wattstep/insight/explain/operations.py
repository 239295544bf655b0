"""The operations of a step with what they compute and move, for the sections that ask what bounds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.attribution.traffic import is_choice, is_node, is_view, moved_bytes
from wattstep.device.roofline import BOUNDS, Bound, Placed, place
from wattstep.recorded.instruments import TORCH
from wattstep.run import Run
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.ceilings import Ceilings
from wattstep.schema.figure import Figure, Missing, Status
from wattstep.schema.operation_kinds import DENSE
from wattstep.schema.report_rows import CostRow
from wattstep.stats.statistics import mean_figure
from wattstep.store.ceilings import find

NARROW: Final = DENSE  # kinds that autocast narrows


@dataclass(frozen=True, kw_only=True, eq=False)
class Work:
    """The rows of the table of operations, and what each computes and moves; arrays of shape (n,).

    Attributes:
        rows: The longest first.
        group: The row of the table of each traced row that is a part of an operation, shape (r,).
        members: Those traced rows, shape (r,).
        seconds: Time of each in a step in s, counted in full where several ran at once.
        flops: FLOPs in a step; NaN where not counted.
        moved: Bytes in a step at least; NaN where not known.
        touched: Bytes of one call.
        asks: Whether it has a device do its work.
    """

    rows: Sequence[CostRow]
    group: IntArray
    members: IntArray
    seconds: FloatArray
    flops: FloatArray
    moved: FloatArray
    touched: FloatArray
    asks: BoolArray


NOT_SEEN = "no kernels of the device were seen: its phases and layers are by events alone"


def nothing_traced(run: Run) -> str | None:
    """Reason why nothing can be said of the operations of a step; None where it can."""
    seconds = run.breakdown.step_time.value
    return not_seen(run) or (None if seconds else "its steps have no length")


def not_seen(run: Run) -> str | None:
    """Reason why what a step consists of was not traced; None where it was."""
    if run.breakdown.reason is not None:
        return run.breakdown.reason
    # The host's operations are not what the step of a device consists of.
    return None if run.breakdown.by_events is None else NOT_SEEN


def work_of(run: Run) -> Work | Missing:
    """The operations of a run, or why there are none."""
    breakdown = run.breakdown
    if reason := nothing_traced(run):
        return Missing(reason)
    rows = breakdown.operations()
    if not rows:
        return Missing("no operation was traced")
    labels = ("name", "layer", "phase", *(["processor"] if breakdown.others else []))
    at = {tuple(row.labels[key] for key in labels): position for position, row in enumerate(rows)}
    alike = breakdown.alike
    table = np.full(max(alike.shown) + 1, -1, np.int64)
    for key, shown in alike.shown.items():
        table[key] = at.get(tuple(shown[label] for label in labels), -1)
    members = np.flatnonzero(breakdown.is_operation)
    group = table[alike.key[members]]
    return Work(
        rows=rows,
        group=group,
        members=members,
        seconds=_values(rows, "busy_time"),
        flops=_values(rows, "flops"),
        moved=(moved := _moved(breakdown, group, members, len(rows))),
        touched=moved / np.maximum(_values(rows, "calls"), 1e-9),
        asks=_asks(breakdown, group, members, len(rows)),
    )


def _asks(breakdown: RunBreakdown, group: IntArray, members: IntArray, count: int) -> BoolArray:
    """Mask of the rows of the table of which a part launched work of a device, shape (rows,)."""
    asked = np.zeros(len(breakdown.launch), bool)
    asked[breakdown.outer[breakdown.launch[breakdown.launch >= 0]]] = True
    asks: BoolArray = np.bincount(group[asked[members]], minlength=count) > 0
    return asks


def _values(rows: Sequence[CostRow], name: str) -> FloatArray:
    values = [row.figure(name).value for row in rows]
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def moved_by_row(breakdown: RunBreakdown) -> FloatArray:
    """Bytes that each traced row and all inside it move at least; NaN where not known."""
    traced = breakdown.rows
    names = breakdown.label("name")
    texts = [str(text) for text in names.texts]
    node = is_node(texts)[names.code]
    given = np.where(node, np.nan, breakdown.numbers("bytes"))
    made = breakdown.allocated
    return moved_bytes(
        traced.parent,
        given,
        np.zeros(len(given)) if made is None else made,
        is_view(texts)[names.code],
        is_choice(texts)[names.code] & (made is not None),
    )


def _moved(breakdown: RunBreakdown, group: IntArray, members: IntArray, count: int) -> FloatArray:
    """Bytes in a step that the operations of each row of the table move at least."""
    moved = moved_by_row(breakdown)
    own = breakdown.outer[members] == members
    known = own & np.isfinite(moved[members])
    sums = np.bincount(group[known], moved[members[known]], minlength=count)
    some = np.bincount(group[known], minlength=count) > 0
    return np.where(some, sums / len(breakdown.compensated.unattributed_s), np.nan)


def ceilings_of(run: Run) -> Ceilings | Missing:
    """The measured ceilings that fit the run, or why there are none and what to do."""
    info = run.info
    if info.processor not in (None, "cpu"):
        return Missing(f"ceilings are those of torch on CPUs, the run used {info.processor}")
    device = info.device.get("emulated_on", info.device)
    ceilings = find(device, info.engine, info.threads)
    if not isinstance(ceilings, Missing) or info.threads is None or " " not in info.engine:
        return ceilings
    framework = run.breakdown.instruments.framework
    if framework != TORCH:  # `ceilings --for` would be refused
        return Missing(f"{ceilings}; no command measures those of {framework}")
    where = f"wattstep ceilings --for {run.path}"
    return Missing(f"{ceilings}: measure them on the machine that trained, by {where}")


def under_ceilings(run: Run, work: Work, ceilings: Ceilings) -> Placed:
    """Each row of the table under the ceilings of its precision and of the memory that it touches."""
    on_cpu = np.array([row.processor == "cpu" for row in work.rows])
    peaks = {name: _value(ceilings.peak(name)) for name in ("fp32", "bf16")}
    peak = np.array([peaks[precision_of(run, row.kind)] for row in work.rows])
    bandwidth = np.array([_value(ceilings.level(touched).best) for touched in work.touched])
    nothing = np.full(len(work.rows), np.nan)
    return place(
        work.seconds,
        work.flops,
        work.moved,
        np.where(on_cpu, peak, nothing),
        np.where(on_cpu, bandwidth, nothing),
    )


def precision_of(run: Run, kind: str) -> str:
    """In which precision operations of a kind are computed."""
    if run.info.precision == "bf16" or (run.info.precision == "amp" and kind in NARROW):
        return "bf16"
    return "fp32"


def _value(figure: Figure | None) -> float:
    return np.nan if figure is None or figure.value is None else figure.value


def time_by_bound(run: Run, work: Work, placed: Placed) -> dict[Bound, Figure]:
    """Time of a step in operations of each bound; with what lies between operations, the step."""
    code = np.array([BOUNDS.index(bound) for bound in placed.bound])
    windows = len(run.breakdown.compensated.unattributed_s)
    window, time = (
        run.breakdown.rows.window[work.members],
        run.breakdown.compensated.time_s[work.members],
    )
    times: dict[Bound, Figure] = {}
    for number, bound in enumerate(BOUNDS):
        mine = code[work.group] == number
        sums = np.bincount(window[mine], time[mine], minlength=windows).astype(np.float64)
        times[bound] = attributed(run.breakdown, sums, "time of operations by what bounds them")
    return times


def attributed(breakdown: RunBreakdown, seconds: FloatArray, words: str, unit: str = "s") -> Figure:
    """The mean over traced steps of a part of them, as they lie on the mean clean step."""
    # Traced steps lie apart: as good as independent.
    figure = mean_figure(seconds, unit, breakdown.tracer, Status.ATTRIBUTED, block=1)
    return not_negative(figure, words)


def not_negative(figure: Figure, words: str) -> Figure:
    """A figure of traced steps of something that cannot be below 0, with how it was made."""
    method = "; ".join(part for part in (words, figure.method) if part)
    low = None if figure.low is None else max(figure.low, 0.0)
    return replace(figure, low=low, method=method.replace("over steps", "over traced steps"))

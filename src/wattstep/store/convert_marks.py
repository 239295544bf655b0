"""The journal of marks becomes steps, spans, memory and evaluations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wattstep.errors import DamagedRunError
from wattstep.schema.journal import MARKS, Mark
from wattstep.schema.run_info import RunInfo
from wattstep.store.budget import LEAST, multiple, too_large
from wattstep.store.device_clock import ANCHORED, DevicePassage, DeviceTimes
from wattstep.store.folder import Folder
from wattstep.store.journal_rows import known_codes, whole_rows
from wattstep.store.mark_rows import MARK, Ints, begins_and_ends, ended_steps, samples_of_steps
from wattstep.store.step_thinning import columns_of_steps
from wattstep.store.tables import HOST_MARKS
from wattstep.store.thinned_marks import mark_parts

MOST_LATE_NS = 2.0**62  # a device's event, after the host's mark
ON_DEVICE = (Mark.DEVICE, Mark.DEVICE_ANCHOR, Mark.DEVICE_END, Mark.DEVICE_COST)
WITHIN_STEPS = (Mark.PHASE, Mark.LAYER_START, Mark.LAYER_END, Mark.UPDATE)


def _mark_blocks(journal: Folder) -> Iterator[npt.NDArray[Any]]:
    """As `_of_whole_steps`, of the journal's rows; of thinned pieces those that stayed."""
    return _of_whole_steps(whole_rows(journal, MARKS, MARK))


def _of_whole_steps(blocks: Iterable[npt.NDArray[Any]]) -> Iterator[npt.NDArray[Any]]:
    """Marks in blocks that no step lies across: each ends with a step's end, or before a start."""
    carry = np.empty(0, MARK)
    for block in blocks:
        block = np.concatenate([carry, begins_and_ends(block[block["kind"] != 0])])
        ends = np.flatnonzero(block["kind"] == Mark.STEP_END)
        starts = np.flatnonzero(block["kind"] == Mark.STEP_START)
        cut = len(block)
        if len(ends):
            cut = int(ends[-1]) + 1
        elif len(starts):
            cut = int(starts[-1])
        carry = block[cut:]
        yield block[:cut]
    yield carry


def device_times(journal: Folder) -> DeviceTimes | None:
    """When a device came to the marks; None where the host did all the work.

    Raises:
        DamagedRunError: An event of the device is garbled.
    """

    def read() -> Iterator[npt.NDArray[Any]]:
        for marks in whole_rows(journal, MARKS, MARK):
            rows = marks[np.isin(marks["kind"], ON_DEVICE)]
            late_ns = rows["value"][np.isin(rows["kind"], ANCHORED)]
            if not (np.abs(late_ns) < MOST_LATE_NS).all():  # NaN, too
                garbled = "an event of the device has no time"
                raise DamagedRunError(
                    f"the journal of {journal.path.parent} is garbled: {garbled}",
                    id="damaged-journal",
                )
            if len(rows):
                yield rows

    return DeviceTimes(read) if any(True for _ in read()) else None


def step_columns(
    journal: Folder,
    info: RunInfo,
    names: list[str],
    device: DeviceTimes | None,
    thinned: Callable[[dict[str, Any]], None],
) -> Iterator[dict[str, Any]]:
    """Rows of steps, each with its inner marks.

    Args:
        journal: Folder of the journals.
        info: Of the run.
        names: By code.
        device: When a device came to the marks; None where the host did all the work.
        thinned: Is given rows of stretches in place of steps. What is old enough depends on when one
            looks, so the same look tells which steps stay.

    Raises:
        DamagedRunError: The names of the marks of a block take more than any table may.
    """
    texts = np.array(names, dtype=object)
    lengths = np.array([len(name) for name in names], dtype=np.int64)
    allowed = round(multiple() * LEAST)
    passage = None if device is None else device.passage()

    def left() -> Iterator[npt.NDArray[Any]]:
        for marks, stretches in mark_parts(journal, info):
            if len(stretches):
                thinned(_stretch_columns(stretches))
            yield marks

    for marks in _of_whole_steps(left()):
        kind = marks["kind"]
        starts, ends = ended_steps(marks)
        if device is not None and passage is not None and len(ends):
            passage.go_on(int(marks["t"][starts].min()), int(marks["t"][ends].max()))
            reached = _reached(device, passage, marks["t"][starts], marks["t"][ends])
            starts, ends = starts[reached], ends[reached]
        if not len(ends):
            continue
        inner = np.isin(kind, WITHIN_STEPS)
        positions = np.flatnonzero(inner)
        low, high = np.searchsorted(positions, starts), np.searchsorted(positions, ends)
        chosen = np.concatenate([positions[a:b] for a, b in zip(low, high, strict=True)])
        inside = marks[chosen.astype(np.int64)]
        within = np.repeat(np.arange(len(starts)), high - low)
        first, last = marks[starts], marks[ends]
        start_ns, end_ns, mark_ns = first["t"], last["t"], inside["t"]
        on_device = np.zeros(len(starts), bool)
        if passage is not None:
            start_ns, on_device = passage.of(start_ns)
            end_ns, _ = passage.of(end_ns)
            start_ns = np.maximum.accumulate(start_ns)  # streams may overtake each other
            end_ns = np.maximum(end_ns, start_ns)
            mark_ns, known = passage.of(mark_ns)
            known |= ~on_device[within]  # a mark without an event would lie on another timeline
            mark_ns = np.clip(mark_ns, start_ns[within], end_ns[within])[known]
            inside, within = inside[known], within[known]
        codes = known_codes(inside["code"], names)
        if (taken := int(lengths[codes].sum())) > allowed:  # each stands there once a mark
            raise too_large(f"{MARKS} with its names of {journal.path.parent}", taken, allowed)
        counts = np.bincount(within, minlength=len(starts))
        offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
        samples = samples_of_steps(marks, starts, ends, first["value"])

        def listed(values: Any, kind: pa.DataType, offsets: pa.Array = offsets) -> pa.Array:
            return pa.ListArray.from_arrays(offsets, pa.array(values, type=kind))

        mark_host_ns = {}
        if passage is not None:
            mark_host_ns = {HOST_MARKS: listed(inside["t"], pa.int64())}
        yield {
            "index": first["index"].astype(np.int64),
            "start_ns": start_ns,
            "end_ns": end_ns,
            "cpu_start_ns": pa.array(first["cpu"], mask=first["cpu"] == 0),
            "cpu_end_ns": pa.array(last["cpu"], mask=last["cpu"] == 0),
            "samples": pa.array(samples, from_pandas=True),
            "loss": pa.array(last["value"], from_pandas=True),
            "warmup": first["index"] < info.first_step + info.warmup,
            "traced": first["code"] == 1,
            "mark_ns": listed(mark_ns, pa.int64()),
            "mark_kind": listed(inside["kind"].astype(np.int8), pa.int8()),
            "mark_name": listed(texts[codes], pa.string()),
            "waited_ns": _waited(marks, starts, ends),
            "host_start_ns": pa.array(first["t"], mask=~on_device),
            "host_end_ns": pa.array(last["t"], mask=~on_device),
            **mark_host_ns,
        }


def _stretch_columns(stretches: Ints) -> dict[str, Any]:
    columns: dict[str, Any] = columns_of_steps(stretches)
    for name in ("samples", "samples_least", "samples_most"):
        columns[name] = pa.array(columns[name], from_pandas=True)  # NaN: not known
    columns["loss_last"] = pa.array(columns["loss_last"], from_pandas=True)
    return columns


def _reached(
    device: DeviceTimes, passage: DevicePassage, start_ns: Ints, end_ns: Ints
) -> npt.NDArray[np.bool_]:
    """Mask of the steps that the device is known to have come to, or that need none."""
    known = passage.of(start_ns)[1] & passage.of(end_ns)[1]
    reached: npt.NDArray[np.bool_] = known | ~device.expects(start_ns)
    device.lost += int((~reached).sum())
    return reached


def _waited(marks: npt.NDArray[Any], starts: Ints, ends: Ints) -> pa.Array:
    """Waiting time of a thread in each step, where that was marked."""
    at = np.flatnonzero(marks["kind"] == Mark.WAITED)
    last = np.searchsorted(at, ends) - 1
    there = (last >= 0) & (at[last] > starts) if len(at) else np.zeros(len(ends), bool)
    value = marks["value"][at[last]] if len(at) else np.zeros(len(ends))
    known = there & np.isfinite(value)
    return pa.array(np.where(known, value, 0.0).astype(np.int64), mask=~known)


def span_columns(
    journal: Folder, names: list[str], device: DeviceTimes | None
) -> Iterator[dict[str, Any]]:
    """Tracing windows and named rests; one that never ended is closed by the last mark.

    Where steps lie on a device's timeline, a span begins when the device has done what came before.
    """
    opened: dict[str, tuple[int, str]] = {}
    rows: list[tuple[int, int, str, str]] = []
    begin = {int(Mark.WINDOW_START): "window", int(Mark.REST_START): "rest"}
    end = {int(Mark.WINDOW_END): "window", int(Mark.REST_END): "rest"}
    t_last = 0
    for marks in _mark_blocks(journal):
        t_last = int(marks["t"][-1]) if len(marks) else t_last
        chosen = marks[np.isin(marks["kind"], [*begin, *end])]
        for mark, code in zip(chosen, known_codes(chosen["code"], names), strict=True):
            kind = int(mark["kind"])
            if kind in begin:
                name = names[code] if kind == Mark.REST_START else "tracing"
                opened[begin[kind]] = (int(mark["t"]), name)
            elif end[kind] in opened:
                start, name = opened.pop(end[kind])
                rows.append((start, int(mark["t"]), end[kind], name))
    rows += [(start, t_last, kind, name) for kind, (start, name) in opened.items()]
    if device is not None:
        passage, rows = device.passage(), sorted(rows)
        begins = []
        for start, *_ in rows:
            passage.go_on(start, start)
            begins.append(passage.after(start))
        rows = [
            (begin, max(begin, end), kind, name)
            for begin, (_, end, kind, name) in zip(begins, rows, strict=True)
        ]
    if rows:
        columns = zip(*rows, strict=True)
        yield dict(zip(("start_ns", "end_ns", "kind", "name"), map(list, columns), strict=True))


def memory_columns(journal: Folder, names: list[str]) -> Iterator[dict[str, Any]]:
    """Rows of memory."""
    fixed = {
        (int(Mark.PEAK), 0): "peak_resident",
        (int(Mark.PEAK), 1): "peak_resident_with_tracing",
        (int(Mark.PEAK), 2): "peak_resident_apart",
        (int(Mark.RESIDENT), 0): "resident_before_tracing",
        (int(Mark.RESIDENT), 1): "resident_after_tracing",
    }
    for marks in _mark_blocks(journal):
        rows = marks[np.isin(marks["kind"], [Mark.MEMORY, Mark.PEAK, Mark.RESIDENT])]
        if len(rows):
            yield {
                "t_ns": rows["t"],
                "category": [
                    names[code]
                    if row["kind"] == Mark.MEMORY
                    else fixed[int(row["kind"]), int(row["code"])]
                    for row, code in zip(rows, known_codes(rows["code"], names), strict=True)
                ],
                "bytes": rows["value"].astype(np.int64),
            }


def evaluation_columns(journal: Folder, names: list[str]) -> Iterator[dict[str, Any]]:
    """Rows of what the model came to."""
    for marks in _mark_blocks(journal):
        rows = marks[marks["kind"] == Mark.EVALUATION]
        if len(rows):
            yield {
                "t_ns": rows["t"],
                "step": rows["index"].astype(np.int64),
                "measure": [names[code] for code in known_codes(rows["code"], names)],
                "value": rows["value"],
            }

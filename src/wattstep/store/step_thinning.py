"""Steps beyond a stated age as stretches: what totals and means need of them, in a fraction of the room.

A stretch stands for steps that follow each other without a pause, warm-up or trace among them: how many
they are, from when to when they ran, the sum of their times, the shortest and the longest, their samples
and losses. A step stays a single one where it tells something by itself: at the beginning and the end of
a run, around tracing windows and rests, beside a pause, or where its loss becomes or ceases to be a
number. Slow ones go as others do: those that stay are like all. What was marked within steps (phases,
layers) goes with them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wattstep.schema.journal import Mark
from wattstep.store.mark_rows import MARK, Ints, begins_and_ends, ended_steps, samples_of_steps
from wattstep.store.thinning import LEAST_GONE, LEAST_ROWS, PAUSE, STRETCH_NS, Age

MARK_WORDS: Final = MARK.itemsize // 8
# Words of a stretch behind its begin, its end and the number of its first step.
COLUMNS: Final = (
    "steps", "marks", "sum_ns", "least_ns", "most_ns", "squares", "samples", "samples_least", "samples_most",
    "losses", "loss_sum", "loss_last",
)  # fmt: skip
FLOATS: Final = frozenset(
    {"squares", "samples", "samples_least", "samples_most", "loss_sum", "loss_last"}
)
STEP_WORDS: Final = MARK_WORDS + len(COLUMNS)
FLOAT_COLUMNS: Final = (2, *(MARK_WORDS + n for n, name in enumerate(COLUMNS) if name in FLOATS))
# What may lie within a step that goes.
_WITHIN: Final = (Mark.PHASE, Mark.LAYER_START, Mark.LAYER_END, Mark.UPDATE, Mark.SAMPLES)
# Of the timeline of a device: its marks stand for those of steps, one by one.
_OF_DEVICES: Final = (Mark.DEVICE, Mark.DEVICE_ANCHOR, Mark.DEVICE_END, Mark.DEVICE_COST)
Mask = npt.NDArray[np.bool_]
NO_STRETCHES: Final = np.empty((0, STEP_WORDS), np.int64)


def thin_steps(
    marks: npt.NDArray[Any], age: Age, first_counted: int
) -> tuple[npt.NDArray[Any], Ints, Ints]:
    """Marks that stay as they are, and stretches in place of steps.

    Args:
        marks: Rows of the journal, in order, shape (n,).
        age: What is old enough.
        first_counted: Number of the first step behind the warm-up.

    Returns:
        Marks (all of them where little would go), and rows of stretches, shape (s, `STEP_WORDS`): begin
        and end in ns, number of the first step, nothing, then `COLUMNS`, of which those in `FLOATS`
        are bits of a float64. Of each stretch, how many of the marks that stay are before it.
    """
    if of_device(marks):
        return marks, NO_STRETCHES, np.empty(0, np.int64)
    marks = marks[marks["kind"] != 0]
    rows = begins_and_ends(marks)
    starts, ends = ended_steps(rows)
    if len(starts) < LEAST_ROWS:
        return marks, NO_STRETCHES, np.empty(0, np.int64)
    start_ns, end_ns = rows["t"][starts], rows["t"][ends]
    goes = _go(rows, starts, ends, age, first_counted)
    begins = _begins(rows, starts, ends)
    cut = np.append(True, np.diff(start_ns // STRETCH_NS) != 0)
    if (with_cpu := rows["cpu"][starts] != 0).any():
        cut = _next(cut, with_cpu)  # whose reads of the clock tell what its stretches took
        goes &= ~cut
    begins |= cut
    first = np.flatnonzero(goes & (begins | ~np.append(False, goes[:-1])))
    last = np.flatnonzero(goes & np.append(begins[1:] | ~goes[1:], True))
    long = last - first >= LEAST_ROWS
    first, last = first[long], last[long]
    goes = _within(len(starts), first, last)
    old = (start_ns >= age.since_ns) & (end_ns <= age.until_ns)
    # Steps here and there take more room than all of them, one like the other.
    if not len(first) or np.count_nonzero(goes) < LEAST_GONE * np.count_nonzero(old):
        return marks, NO_STRETCHES, np.empty(0, np.int64)
    stretches = _stretches(rows, starts, ends, first, last)
    left = ~_gone(marks, rows, starts[first], ends[last])
    before = np.cumsum(left, dtype=np.int64)[_of_mark(marks, starts[first])]
    return marks[left], stretches, before


def of_device(marks: npt.NDArray[Any]) -> bool:
    """True if some tell of the timeline of a device, of which no steps are thinned."""
    return bool(np.isin(marks["kind"], _OF_DEVICES).any())


def _go(rows: npt.NDArray[Any], starts: Ints, ends: Ints, age: Age, first_counted: int) -> Mask:
    """Mask of the steps that tell nothing by themselves."""
    start_ns, end_ns, index = rows["t"][starts], rows["t"][ends], rows["index"][starts]
    goes = (start_ns >= age.since_ns) & (end_ns <= age.until_ns) & (end_ns >= start_ns)
    goes &= (index >= first_counted) & (rows["code"][starts] == 0)
    for low_ns, high_ns in age.kept_ns:
        low, high = np.searchsorted(end_ns, low_ns), np.searchsorted(start_ns, high_ns, "right")
        goes[low:high] = False
    others = np.flatnonzero(~np.isin(rows["kind"], [*_WITHIN, Mark.STEP_START, Mark.STEP_END]))
    goes &= np.searchsorted(others, starts) == np.searchsorted(others, ends)
    # A value that may be of another kind: on either side of it both stay.
    known = np.isfinite(rows["value"][ends])
    known_samples = np.isfinite(samples_of_steps(rows, starts, ends, rows["value"][starts]))
    split = _begins(rows, starts, ends)[1:]
    split |= (known[1:] != known[:-1]) | (known_samples[1:] != known_samples[:-1])
    goes[1:] &= ~split
    goes[:-1] &= ~split
    return goes


def _begins(rows: npt.NDArray[Any], starts: Ints, ends: Ints) -> Mask:
    """Mask of the steps that do not follow the one before directly: something lies between, or a pause."""
    start_ns, end_ns, index = rows["t"][starts], rows["t"][ends], rows["index"][starts]
    usual = float(np.median(np.diff(start_ns))) if len(starts) > 1 else 0.0
    apart = start_ns[1:] - end_ns[:-1]
    begins = np.ones(len(starts), bool)
    begins[1:] = (starts[1:] != ends[:-1] + 1) | (apart < 0) | (apart > PAUSE * usual)
    begins[1:] |= index[1:].astype(np.int64) != index[:-1].astype(np.int64) + 1
    return begins


def _next(cut: Mask, wanted: Mask) -> Mask:
    """Mask of the first wanted one at or behind each cut."""
    places = np.flatnonzero(wanted)
    at = np.searchsorted(places, np.flatnonzero(cut))
    mask = np.zeros(len(cut), bool)
    mask[places[at[at < len(places)]]] = True
    return mask


def _within(count: int, first: Ints, last: Ints) -> Mask:
    change = np.zeros(count + 1, np.int64)
    change[first] += 1
    change[last + 1] -= 1
    inside: Mask = np.cumsum(change)[:-1] > 0
    return inside


def _stretches(rows: npt.NDArray[Any], starts: Ints, ends: Ints, first: Ints, last: Ints) -> Ints:
    """Rows of stretches from one step to another."""
    start_ns, end_ns = rows["t"][starts], rows["t"][ends]
    lasting, loss = end_ns - start_ns, rows["value"][ends]
    samples = samples_of_steps(rows, starts, ends, rows["value"][starts])
    edges = np.stack([first, last + 1], axis=1).ravel()

    def over(ufunc: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        beyond = np.append(values, values[-1:])  # a slice may end behind the last
        sums: npt.NDArray[Any] = np.array(ufunc.reduceat(beyond, edges)[::2])
        return sums

    finite = np.isfinite(loss)
    columns = {
        "steps": last - first + 1,
        "marks": (ends[last] - starts[first] + 1) - 2 * (last - first + 1),
        "sum_ns": over(np.add, lasting),
        "least_ns": over(np.minimum, lasting),
        "most_ns": over(np.maximum, lasting),
        "squares": over(np.add, (lasting * 1e-9) ** 2),
        "samples": over(np.add, samples),
        "samples_least": over(np.minimum, samples),
        "samples_most": over(np.maximum, samples),
        "losses": over(np.add, finite.astype(np.int64)),
        "loss_sum": over(np.add, np.where(finite, loss, 0.0)),
        "loss_last": loss[last],
    }
    stretches = np.zeros((len(first), STEP_WORDS), np.int64)
    stretches[:, 0], stretches[:, 1] = start_ns[first], end_ns[last]
    stretches[:, 2] = rows["index"][starts[first]]
    for at, name in enumerate(COLUMNS, MARK_WORDS):
        column = columns[name]
        stretches[:, at] = column.astype(np.float64).view(np.int64) if name in FLOATS else column
    return stretches


def _gone(marks: npt.NDArray[Any], rows: npt.NDArray[Any], first: Ints, last: Ints) -> Mask:
    """Mask of the marks from one position to another of the rows that they stand for."""
    gone: Mask = _within(len(rows), first, last)[_rows_of(marks)]
    return gone


def _rows_of(marks: npt.NDArray[Any]) -> Ints:
    """Where each mark begins among the rows: one that is a whole step stands for two."""
    whole = (marks["kind"] == Mark.STEP).astype(np.int64)
    at: Ints = np.cumsum(1 + whole) - 1 - whole
    return at


def _of_mark(marks: npt.NDArray[Any], rows: Ints) -> Ints:
    """The mark of each of some rows."""
    at: Ints = np.searchsorted(_rows_of(marks), rows, side="right") - 1
    return at


def columns_of_steps(stretches: Ints) -> dict[str, npt.NDArray[Any]]:
    """Columns of stretches by name."""
    columns: dict[str, npt.NDArray[Any]] = {
        "begin_ns": stretches[:, 0],
        "end_ns": stretches[:, 1],
        "index": stretches[:, 2],
    }
    for at, name in enumerate(COLUMNS, MARK_WORDS):
        column = np.ascontiguousarray(stretches[:, at])
        columns[name] = column.view(np.float64) if name in FLOATS else column
    return columns

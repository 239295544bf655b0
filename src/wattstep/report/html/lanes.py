"""The whole run for the timeline of a page: columns of integers, deflated, within a budget of characters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup

from wattstep.report.html.charts import color_of, phases_of
from wattstep.report.html.page import packed, packed_json
from wattstep.report.values import brief, plain, quantity
from wattstep.report.wording import begun
from wattstep.run.lanes import Lane, OperationLanes, StepLane
from wattstep.run.three_steps import SHOWN
from wattstep.run.timeline import Timeline
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

LANES_SCRIPTS = ("lanes_data.js", "lanes_drawing.js", "lanes.js")
BUDGET = (
    6_000_000  # characters of all runs of a page; the rest of a page takes one of the 15 at most
)
LEAST_BUDGET = 300_000  # that is left to them where the rest of a page takes more
CHANNELS_SHARE = 0.5  # of the budget, at most; operations get what is left
DIGITS = 5  # of the largest value of a channel
SAMPLE_NS = 1000  # what times of samples are rounded to
MANY = 20_000  # operations: with more, their times are rounded
ROUNDED_NS = 100  # to this, a tenth of the least that can be in view
MOST_LABELS = 8000  # names with layer and phase, the most frequent ones
MOST_TEXT = 120  # characters of a name
MOST_PHASES = 12  # in the legend
MOST_ROWS = 64  # threads times depths
MOST_STEPS = 200_000  # drawn one by one
TRIES = 6  # to meet the budget; each is a tenth below what would have met it
FLAGS = ("traced", "warmup", "throttled", "disturbed")
THINNED = "thinned"  # of what stands for steps that were not kept as single ones

Document = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A run for the page.

    Attributes:
        document: Description of the columns; JSON-ready.
        blobs: The columns by part ("steps", "channels", "operations"), as base64 of deflated bytes.
        notes: Notes on what was rounded, thinned or left out.
    """

    document: Document
    blobs: Mapping[str, str]
    notes: Sequence[str]


def lanes_section(id: str, timeline: Timeline | None, budget: int = BUDGET) -> Document | None:
    """Variables of the template `lanes.html`; None where there is nothing to see.

    Args:
        id: Of the run in the page.
        timeline: The run.
        budget: Characters that it may take.
    """
    if timeline is None or not (len(timeline.steps.index) or timeline.channels):
        return None
    encoded = encode(timeline, budget)
    return {
        "id": f"{id}-lanes",
        "document": packed_json(encoded.document),
        "blobs": {f"{id}-lanes-{part}": Markup(text) for part, text in encoded.blobs.items()},
        "notes": [f"{begun(plain(note))}." for note in encoded.notes],
        "steps": len(timeline.steps.index),
        "operations": len(timeline.operations.start_ns),
        "zooms": list(encoded.document["zooms"]),
        "groups": list(dict.fromkeys(lane.group for lane in timeline.channels)),
        "phases": _phases(timeline),
    }


def _phases(timeline: Timeline) -> list[tuple[str, str]]:
    """Names and colours of the phases, in the order of a step."""
    phases = [str(text) for text in timeline.steps.phase.texts]
    phases += [phase for _, _, phase in timeline.operations.labels]
    return [(_name(phase), color_of(phase)) for phase in phases_of(phases)[:MOST_PHASES]]


def encode(timeline: Timeline, budget: int = BUDGET) -> Encoded:
    """A run for the page, in about so many characters at most."""
    notes, base = list(timeline.notes), timeline.base_ns
    steps, blobs = Columns(), {}
    document: Document = {
        "steps": _steps(steps, timeline.steps, base, notes),
        "zooms": _zooms(timeline, base),
    }
    blobs["steps"] = steps.text()
    left = budget - len(blobs["steps"])
    document["channels"], blobs["channels"] = _fitting_channels(
        timeline.channels, base, min(left, round(CHANNELS_SHARE * budget)), notes
    )
    left -= len(blobs["channels"])
    document["operations"], blobs["operations"] = _fitting_operations(
        timeline.operations, base, left, notes
    )
    return Encoded(document=document, blobs=blobs, notes=notes)


def _zooms(timeline: Timeline, base: int) -> Document:
    """Parts that have a button, from when to when in s."""
    closer = timeline.three_steps
    shown = len(closer.steps)
    spans = {
        "Three steps" if shown == SHOWN else "A step": closer.span_ns,
        "A traced step": closer.traced_ns,
    }
    return {name: [(t - base) * 1e-9 for t in span] for name, span in spans.items() if span}


# --- columns ----------------------------------------------------------------------------------


class Columns:
    """Columns of integers one after the other; `lanes_data.js` reads them.

    A column is kept as differences (or as it is), less their median, folded to numbers that are not
    negative (0, -1, 1, -2, ...), byte by byte: first the lowest of all, then the next.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0

    def add(self, values: IntArray, *, differences: bool = True) -> Document:
        """Appends a column; what is returned says where it is and how to read it."""
        stored = np.diff(values, prepend=0) if differences else values
        first = int(stored[0]) if differences and len(stored) else 0
        remaining = stored[1:] if differences else stored
        middle = int(np.median(remaining)) if len(remaining) else 0
        remaining = remaining - middle
        folded = ((remaining << 1) ^ (remaining >> 63)).astype("<u8")
        planes = max(-(-int(folded.max(initial=0)).bit_length() // 8), 1)
        data = folded.view(np.uint8).reshape(-1, 8)[:, :planes].T.tobytes()
        at, self._length = self._length, self._length + len(data)
        self._parts.append(data)
        return {
            "at": at,
            "count": len(values),
            "planes": planes,
            "middle": middle,
            "first": first,
            "differences": differences,
        }

    def text(self) -> str:
        """All columns, deflated, in base64."""
        return packed(b"".join(self._parts))


def _shorter(values: IntArray) -> bool:
    """True if differences are smaller than the values themselves beside their median."""
    if len(values) < 3:
        return False
    steps = np.diff(values)
    beside = np.abs(values - np.int64(np.median(values))).mean()
    return bool(np.abs(steps - np.int64(np.median(steps))).mean() < beside)


# --- steps ------------------------------------------------------------------------------------


def _steps(columns: Columns, steps: StepLane, base: int, notes: list[str]) -> Document:
    shown, each = _merged(steps)
    if each > 1:
        notes.append(
            f"{len(steps.index):,} steps are too many to draw one by one: {each} of them are one "
            "here, without their phases"
        )
    names = FLAGS if shown.many is None else (*FLAGS, THINNED)
    flags = sum(
        np.asarray(shown.many if name == THINNED else getattr(shown, name)).astype(np.int64) << bit
        for bit, name in enumerate(names)
    ) + np.zeros(len(shown.index), np.int64)
    per_step = np.bincount(shown.phase_step, minlength=len(shown.index)).astype(np.int64)
    return {
        "each": each,
        "flags": names,
        "index": columns.add(shown.index),
        "start": columns.add(shown.start_ns - base),
        "length": columns.add(shown.end_ns - shown.start_ns, differences=False),
        "flag": columns.add(flags, differences=False),
        "phases": columns.add(per_step, differences=False),
        "phase_start": columns.add(
            shown.phase_ns - shown.start_ns[shown.phase_step], differences=False
        ),
        "phase": columns.add(shown.phase.code.astype(np.int64), differences=False),
        "phase_names": [_name(text) for text in shown.phase.texts],
        "phase_colors": [color_of(str(text)) for text in shown.phase.texts],
    }


def _merged(steps: StepLane) -> tuple[StepLane, int]:
    """Steps as they are, or so many as one that few enough are left, and how many that is."""
    count = len(steps.index)
    each = -(-count // MOST_STEPS)
    if each <= 1:
        return steps, 1
    first = np.arange(0, count, each)
    last = np.append(first[1:], count) - 1

    def any_of(flag: BoolArray) -> BoolArray:
        return np.logical_or.reduceat(flag, first)

    none = np.zeros(0, np.int64)
    merged = replace(
        steps,
        index=steps.index[first],
        start_ns=steps.start_ns[first],
        end_ns=steps.end_ns[last],
        phase_step=none,
        phase_ns=none,
        phase=steps.phase.at(none),
        clean=steps.clean[first],
        traced=any_of(steps.traced),
        warmup=any_of(steps.warmup),
        throttled=any_of(steps.throttled),
        disturbed=any_of(steps.disturbed),
        many=None if steps.many is None else any_of(steps.many),
    )
    return merged, each


# --- channels ---------------------------------------------------------------------------------


def _fitting_channels(
    channels: Sequence[Lane], base: int, budget: int, notes: list[str]
) -> tuple[list[Document], str]:
    whole = sum(len(lane.t_ns) for lane in channels)
    if whole:
        notes.append(
            f"times of samples are to {SAMPLE_NS / 1000:g} µs, values to {DIGITS} digits of the "
            "largest of their channel"
        )

    def encoded(most: int) -> tuple[list[Document], str, int]:
        columns = Columns()
        lanes = [
            thinned(lane, cap) for lane, cap in zip(channels, _caps(channels, most), strict=True)
        ]
        documents = [_channel(columns, lane, base) for lane in lanes]
        return documents, columns.text(), sum(len(lane.t_ns) for lane in lanes)

    documents_of, text, drawn = _fit(encoded, whole, budget)
    if drawn < whole:
        notes.append(
            f"{drawn:,} of {whole:,} samples are drawn: the lowest and the highest of each stretch "
            "of the channels that have most"
        )
    return documents_of, text


def _fit(
    encoded: Callable[[int], tuple[Any, str, int]], whole: int, budget: int
) -> tuple[Any, str, int]:
    """The most that meets the budget, of what takes a number of things to keep."""
    most = whole
    document, text, drawn = encoded(most)
    for _ in range(TRIES):
        if len(text) <= budget or not most:
            break
        most = int(0.9 * most * max(budget, 0) / len(text))
        document, text, drawn = encoded(most)
    return document, text, drawn


def _caps(channels: Sequence[Lane], most: int) -> list[int]:
    """Most samples that each channel may keep, so that short ones keep all and the others equally many."""
    lengths = sorted(len(lane.t_ns) for lane in channels)
    cap, left = 0, most
    for position, length in enumerate(lengths):
        cap = left // (len(lengths) - position)
        if length > cap:
            break
        left -= length
        cap = length
    return [max(cap, 2)] * len(channels)


def thinned(lane: Lane, most: int) -> Lane:
    """A channel with so many samples at most: the lowest and the highest of each stretch, as read."""
    count = len(lane.t_ns)
    if count <= most:
        return lane
    stretches = max(most // 2, 1)
    number = np.arange(count) * stretches // count
    order = np.lexsort((lane.value, number))  # NaN comes last
    first = np.searchsorted(number, np.arange(stretches))
    known = np.bincount(number, np.isfinite(lane.value), minlength=stretches).astype(np.int64)
    last = first + np.maximum(known, 1) - 1
    rows = np.unique(np.concatenate([order[first], order[last]]))
    return replace(lane, t_ns=lane.t_ns[rows], value=lane.value[rows])


def _channel(columns: Columns, lane: Lane, base: int) -> Document:
    power, number = _integers(lane.value)
    times = int(np.gcd.reduce(number)) or 1 if len(number) else 1
    number = number // times
    return {
        "name": _name(lane.name),
        "group": lane.group,
        "unit": plain(lane.unit),
        "status": lane.status,
        "source": _name(lane.source),
        "held": lane.held,
        "t": columns.add(_rounded(lane.t_ns - base, SAMPLE_NS)),
        "every_ns": SAMPLE_NS,
        "value": columns.add(number, differences=_shorter(number)),
        "power": power,
        "times": times,
        "gaps": columns.add(np.flatnonzero(~np.isfinite(lane.value))),
    }


def _integers(value: FloatArray) -> tuple[int, IntArray]:
    """Values as whole numbers of a power of ten; gaps are 0."""
    known = np.where(np.isfinite(value), value, 0.0)
    top = float(np.abs(known).max(initial=0.0))
    power = (math.floor(math.log10(top)) if top else 0) - DIGITS + 1
    scaled = known * 10.0**-power if power < 0 else known / 10.0**power
    return power, np.rint(scaled).astype(np.int64)


def _rounded(t_ns: IntArray, every: int) -> IntArray:
    rounded: IntArray = (t_ns + every // 2) // every
    return rounded


# --- operations -------------------------------------------------------------------------------


def _fitting_operations(
    operations: OperationLanes, base: int, budget: int, notes: list[str]
) -> tuple[Document, str]:
    rows = operations.rows[:MOST_ROWS]
    inside = operations.row < len(rows)
    if not inside.all():
        notes.append(
            f"{int((~inside).sum()):,} operations beyond {MOST_ROWS} threads and depths are left out"
        )
    length = operations.end_ns - operations.start_ns
    whole = int(inside.sum())
    every = ROUNDED_NS if whole > MANY else 1
    if every > 1:
        notes.append(f"times of operations are to {every} ns")
    labels, label = _labels(operations, notes)

    def encoded(most: int) -> tuple[Document, str, int]:
        columns, chosen = Columns(), inside
        if most < whole:
            least = np.partition(length[inside], whole - most - 1)[whole - most - 1]
            chosen = inside & (length > least)
        start = _rounded(operations.start_ns[chosen] - base, every)
        end = _rounded(operations.end_ns[chosen] - base, every)
        document = {
            **labels,
            "every_ns": every,
            "rows": [[_row(thread), depth] for thread, depth in rows],
            "counts": np.bincount(operations.row[chosen], minlength=len(rows)).tolist(),
            # From the end of the one before: small numbers, where operations follow each other.
            "gap": columns.add(start - np.append(0, end[:-1])[: len(start)], differences=False),
            "length": columns.add(end - start, differences=False),
            "label": columns.add(label[chosen], differences=False),
        }
        return document, columns.text(), int(chosen.sum())

    encoded_operations, text, drawn = _fit(encoded, whole, budget)
    if drawn < whole:
        least_s = float(np.sort(length[inside])[whole - drawn]) * 1e-9 if drawn else math.inf
        what = f"those of {quantity(least_s, 's')} and more" if drawn else "none fits into the page"
        notes.append(f"{drawn:,} of {whole:,} operations are drawn: {what}")
    return encoded_operations, text


def _row(thread: int | str) -> str:
    return _name(f"thread {thread}" if isinstance(thread, int) else thread)


def _labels(operations: OperationLanes, notes: list[str]) -> tuple[Document, IntArray]:
    """Names, layers and phases as lists of texts, and the label of each operation."""
    label = np.asarray(operations.label, np.int64)
    known = list(operations.labels)
    if len(known) > MOST_LABELS:
        often = np.argsort(-np.bincount(label, minlength=len(known)), kind="stable")[:MOST_LABELS]
        new = np.full(len(known), MOST_LABELS, np.int64)
        new[often] = np.arange(MOST_LABELS)
        notes.append(f"{len(known) - MOST_LABELS:,} rarer names of operations are left out")
        known, label = [known[n] for n in often], new[label]
        known.append(("(a rarer operation)", "", ""))
    texts: dict[str, int] = {}
    numbers = [[texts.setdefault(_name(text), len(texts)) for text in each] for each in known]
    colors = {text: color_of(text) for _, _, text in known}
    return {
        "texts": list(texts),
        "labels": numbers,
        "colors": {str(texts[_name(text)]): color for text, color in colors.items()},
    }, label


def _name(text: object) -> str:
    """A text that is data and nothing else, and no longer than a page has room for."""
    return brief(text, MOST_TEXT)

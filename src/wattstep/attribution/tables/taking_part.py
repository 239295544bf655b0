"""Traced rows that a quantity can belong to: a GPU's rail feeds work on the GPU, a CPU's what the host does."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from wattstep.attribution.codes import Codes
from wattstep.attribution.gpu_copies import ACROSS, WITHIN
from wattstep.attribution.quantities import Taking
from wattstep.attribution.sharing import Sharing
from wattstep.attribution.tables.layouts import Labelled
from wattstep.attribution.traced_rows import CompensatedRows, TracedRows
from wattstep.recorded.curves import Curve
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.channel import Channel

Side = Literal["all", "device", "host", "memory"]
_SIDES: Final[dict[str, Side]] = {"gpu": "device", "cpu": "host", "memory": "memory"}
CARD: Final = re.compile(r"(gpu\d+)\.")
_OTHER_GPU: Final = "uncore"  # RAPL's word for the processor's own graphics, on which no CUDA runs
WORDS: Final = {
    "device": "0 by what the rail feeds: the GPU, and this runs on the CPU",
    "host": "0 by what the rail feeds: the CPU, and this runs on a GPU",
    "card": "0 by what the rail feeds: another GPU than this runs on",
}


def side_of(channels: Collection[Channel]) -> Side:
    """What may take the energy of these channels together: all kinds, where they feed several parts."""
    domains = {channel.domain for channel in channels}
    if len(domains) != 1 or any(_OTHER_GPU in channel.name for channel in channels):
        return "all"
    return _SIDES.get(domains.pop(), "all")


def cards_of(channels: Collection[Channel], processors: Collection[str]) -> Collection[str]:
    """The GPUs of the trace that these channels feed; all of them where their names do not tell."""
    cards = {match[1] for channel in channels if (match := CARD.match(channel.name))}
    return cards & set(processors) or processors


@dataclass(frozen=True, kw_only=True, eq=False)
class TakingPart:
    """The rows that take part, on the mean clean step as if there were no others.

    Attributes:
        at: Their positions among all rows, in order, shape (m,).
        rows: They alone.
        compensated: The same on the mean clean step: what none of them covers is unattributed.
        sharing: Of curves among them.
        words: Why another row takes nothing.
    """

    at: IntArray
    rows: TracedRows
    compensated: CompensatedRows
    sharing: Sharing
    words: str

    def taking(self, count: int) -> Taking:
        """As the tables need it.

        Args:
            count: Number of all rows.
        """
        return Taking(
            chosen=self._scattered(np.ones(len(self.at), bool), count),
            time_s=self._scattered(self.compensated.time_s, count),
            unattributed_s=self.compensated.unattributed_s,
            off_by_cost=bool(self.compensated.correction.error_s.any()),
            words=self.words,
        )

    def folded(self, curve: Curve, count: int) -> tuple[FloatArray, FloatArray]:
        """As `Sharing.folded`, of all rows."""
        rows, unattributed = self.sharing.folded(curve)
        return self._scattered(rows, count), unattributed

    def recorded(self, curve: Curve, rate: float, count: int) -> tuple[FloatArray, FloatArray]:
        """As `Sharing.recorded`, of all rows."""
        rows, unattributed = self.sharing.recorded(curve, rate)
        return self._scattered(rows, count), unattributed

    def labelled(self, labelled: Labelled) -> Labelled:
        """The labels of the rows that take part."""
        position = np.full(len(labelled.outer), -1, np.int64)
        position[self.at] = np.arange(len(self.at))
        return replace(
            labelled,
            rows=self.rows,
            compensated=self.compensated,
            outer=position[labelled.outer[self.at]],
            operation=labelled.operation[self.at],
            outermost=labelled.outermost[self.at],
            kind=labelled.kind[self.at],
        )

    def _scattered(self, values: np.ndarray, count: int) -> np.ndarray:
        scattered = np.zeros(count, values.dtype)
        scattered[self.at] = values
        return scattered


def rows_of(rows: TracedRows, chosen: BoolArray) -> TracedRows:
    """Some rows alone; what encloses one of them, and is not among them, is left out.

    Args:
        rows: All.
        chosen: Which of them, shape (n,).
    """
    at = np.flatnonzero(chosen)
    position = np.full(len(chosen) + 1, -1, np.int64)  # the last: of no parent
    position[at] = np.arange(len(at))
    return replace(
        rows,
        window=rows.window[at],
        start_ns=rows.start_ns[at],
        end_ns=rows.end_ns[at],
        self_ns=rows.self_ns[at],
        thread=rows.thread[at],
        parent=position[rows.parent[at]].astype(rows.parent.dtype),
        scope=rows.scope[at],
        layer=rows.layer[at],
        on_gpu=None if rows.on_gpu is None else rows.on_gpu[at],
        waits=None if rows.waits is None else rows.waits[at],
        cores=None if rows.cores is None else rows.cores[at],
    )


def bytes_of_rows(
    size: FloatArray,
    *,
    on_gpu: BoolArray,
    outer: Codes,
    own: BoolArray,
    launch: IntArray,
    idle: BoolArray,
    lasting_s: FloatArray,
    copies: IntArray,
    shared: bool = True,
) -> FloatArray:
    """Bytes of the host's memory that each row moved itself, NaN where not known, shape (n,).

    Copies have bytes, and read and write each of them. Kernels have those of the operation that
    launched them, less what its copies moved, by how long each lasts; that operation moves nothing
    itself. What an operation of the CPU moves stands with its outermost row. Where the GPU has a
    memory of its own, its work moves only what is copied from or to the host's.

    Args:
        size: Bytes by the trace, NaN where not known, shape (n,).
        on_gpu: Work on a GPU.
        outer: The outermost operation that each row belongs to.
        own: Which rows are such.
        launch: The row that asked for each row's work, or -1.
        idle: Calls and scopes, which move nothing.
        lasting_s: How long each row lasts.
        copies: As `copies_of`, shape (n,).
        shared: Whether the GPU works in the host's memory.
    """
    count = len(size)
    moved = np.where(own, size, np.where(np.isfinite(size[outer]), 0.0, np.nan))
    moved[idle & ~on_gpu] = 0.0
    gpu = np.flatnonzero(on_gpu)
    copied = size[gpu] * np.where(copies[gpu] >= WITHIN, 2, 1)
    asker = np.where(launch[gpu] >= 0, outer[launch[gpu]], -1)
    moved[asker[asker >= 0]] = 0.0  # on the host it only asks
    if not shared:
        moved[gpu] = np.where(copies[gpu] == ACROSS, size[gpu], 0.0)
        return moved
    moved[gpu] = copied
    sized = (copies[gpu] > 0) & (asker >= 0) & np.isfinite(copied)
    taken = np.bincount(asker[sized], copied[sized], minlength=count)
    kernel = ~np.isfinite(size[gpu]) & (asker >= 0)
    rows, askers = gpu[kernel], asker[kernel]
    whole = np.bincount(askers, lasting_s[rows], minlength=count)[askers]
    share = np.divide(lasting_s[rows], whole, out=np.zeros(len(rows)), where=whole > 0)
    moved[rows] = np.maximum(size[askers] - taken[askers], 0.0) * share
    return moved

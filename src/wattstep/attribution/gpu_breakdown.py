"""Breakdown of each GPU's time: idle time, kinds of work and how they overlap, and the time of each kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wattstep.errors import InvalidValueError
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

COMPUTATION: Final = "computation"
COMMUNICATION: Final = "communication"
MEMORY: Final = "memory"
KINDS: Final = (COMPUTATION, COMMUNICATION, MEMORY)
OTHERS: Final = "others"
# What vendors' profilers call sending between GPUs, and copying and filling without a kernel.
_BY_NAME: Final[Mapping[str, re.Pattern[str]]] = {
    COMMUNICATION: re.compile(r"[nr]ccl"),
    MEMORY: re.compile(r"(?i)(\[CUDA )?mem(cpy|set)|hipmem(cpy|set)|copy(host|device)|dma"),
}
Whole = NDArray[np.integer[Any]]


def kind_of_work(name: str) -> str:
    """Kind (of `KINDS`) of a piece of work by the beginning of its name; else computation."""
    for kind, beginning in _BY_NAME.items():
        if beginning.match(name):
            return kind
    return COMPUTATION


@dataclass(frozen=True, kw_only=True, eq=False)
class Work:
    """Work on some processors; arrays have shape (n,), in any order.

    Attributes:
        name: Position in `names`.
        names: Texts.
        processor: Position in `processors`.
        processors: What they are called: "gpu0", or "rank 1, gpu0".
        kind: Position in `KINDS`.
        start_ns: Begin.
        end_ns: End.
        stretch: Number of the stretch without a gap in the recording that it belongs to.

    Raises:
        InvalidValueError: Columns differ in length, or work ends before it begins.
    """

    name: Whole
    names: Sequence[str]
    processor: Whole
    processors: Sequence[str]
    kind: Whole
    start_ns: IntArray
    end_ns: IntArray
    stretch: Whole

    def __post_init__(self) -> None:
        columns = (self.name, self.processor, self.kind, self.end_ns, self.stretch)
        if any(len(column) != len(self) for column in columns):
            raise InvalidValueError("columns of work differ in length", id="unequal-lengths")
        if backwards := int((self.end_ns < self.start_ns).sum()):
            raise InvalidValueError(
                f"{backwards} pieces of work end before they begin", id="backward-interval"
            )

    def __len__(self) -> int:
        return len(self.start_ns)

    def take(self, rows: BoolArray | IntArray) -> Work:
        """Selection of some rows."""
        columns = ("name", "processor", "kind", "start_ns", "end_ns", "stretch")
        return replace(self, **{column: getattr(self, column)[rows] for column in columns})


@dataclass(frozen=True, kw_only=True)
class Occupancy:
    """The time of one processor from its first work to its last.

    Attributes:
        processor: Which.
        pieces: How much work there was.
        total_ns: From the begin of the first to the end of the last, of all stretches together.
        together_ns: Time in which work of exactly these kinds ran at once, each instant counted
            once; kinds in the order of `KINDS`. What never happened is not there.
    """

    processor: str
    pieces: int
    total_ns: int
    together_ns: Mapping[tuple[str, ...], int]

    @property
    def busy_ns(self) -> int:
        """Time in which anything ran."""
        return sum(self.together_ns.values())

    @property
    def idle_ns(self) -> int:
        """Time in which nothing ran."""
        return self.total_ns - self.busy_ns

    @property
    def compute_ns(self) -> int:
        """Time in which anything was computed, whatever ran beside it."""
        return sum(ns for kinds, ns in self.together_ns.items() if COMPUTATION in kinds)

    @property
    def other_ns(self) -> int:
        """Time in which something ran and nothing was computed."""
        return self.busy_ns - self.compute_ns


def occupancies(work: Work) -> tuple[Occupancy, ...]:
    """Breakdown of the time of each processor with work, in their order."""
    return tuple(
        _occupancy(processor, [mine.take(rows) for rows in _groups(mine.stretch)])
        for processor, mine in _by_processor(work)
    )


def _by_processor(work: Work) -> Iterator[tuple[str, Work]]:
    for rows in _groups(work.processor):
        yield work.processors[int(work.processor[rows[0]])], work.take(rows)


def _groups(codes: Whole) -> list[IntArray]:
    """Rows of each code that there is, codes in order."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(codes) else []


def _occupancy(processor: str, stretches: Sequence[Work]) -> Occupancy:
    by_mask = sum(map(_time_by_mask, stretches))
    together = {
        tuple(kind for bit, kind in enumerate(KINDS) if mask >> bit & 1): int(ns)
        for mask, ns in enumerate(np.asarray(by_mask).tolist())
        if mask and ns
    }
    return Occupancy(
        processor=processor,
        pieces=sum(map(len, stretches)),
        total_ns=sum(int(one.end_ns.max() - one.start_ns.min()) for one in stretches),
        together_ns=together,
    )


def _time_by_mask(work: Work) -> IntArray:
    """Time in ns in which each combination of kinds ran, bit by bit in the order of `KINDS`."""
    t_ns = np.concatenate([work.start_ns, work.end_ns])
    order = np.argsort(t_ns, kind="stable")
    change = np.repeat(np.array([1, -1]), len(work))[order]
    kind = np.tile(work.kind, 2)[order]
    mask = np.zeros(len(order), np.int64)
    for bit in range(len(KINDS)):
        mask |= (np.cumsum(np.where(kind == bit, change, 0)) > 0).astype(np.int64) << bit
    time = np.zeros(1 << len(KINDS), np.int64)
    np.add.at(time, mask[:-1], np.diff(t_ns[order]))
    return time


@dataclass(frozen=True, kw_only=True)
class KernelTime:
    """All calls of one kernel on one processor.

    Attributes:
        processor: Where.
        name: Of the kernel, or `OTHERS`.
        kind: Of `KINDS`.
        calls: How many.
        total_ns: Their durations added up; calls that overlap count each.
        least_ns: The shortest.
        most_ns: The longest.
        squares: Sum of squared deviations from the mean in ns².
    """

    processor: str
    name: str
    kind: str
    calls: int
    total_ns: int
    least_ns: int
    most_ns: int
    squares: float

    @property
    def mean_ns(self) -> float:
        """The mean duration."""
        return self.total_ns / self.calls

    @property
    def deviation_ns(self) -> float | None:
        """Standard deviation of the durations (n - 1); None of a single call."""
        return float(np.sqrt(self.squares / (self.calls - 1))) if self.calls > 1 else None


def kernel_times(work: Work) -> tuple[KernelTime, ...]:
    """Each kernel of each processor, most time first; names of two kinds are two kernels."""
    if not len(work):
        return ()
    key = (work.processor.astype(np.int64) * len(work.names) + work.name) * len(KINDS) + work.kind
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    length = (work.end_ns - work.start_ns)[order]
    calls = np.diff(first, append=len(order))
    total = np.add.reduceat(length, first)
    columns = zip(
        order[first].tolist(),
        calls.tolist(),
        total.tolist(),
        np.minimum.reduceat(length, first).tolist(),
        np.maximum.reduceat(length, first).tolist(),
        _squares(length, first, calls, total).tolist(),
        strict=True,
    )
    times = [
        KernelTime(
            processor=work.processors[int(work.processor[row])],
            name=work.names[int(work.name[row])],
            kind=KINDS[int(work.kind[row])],
            calls=count,
            total_ns=total_ns,
            least_ns=least,
            most_ns=most,
            squares=squares,
        )
        for row, count, total_ns, least, most, squares in columns
    ]
    return tuple(sorted(times, key=lambda one: (-one.total_ns, one.processor, one.name, one.kind)))


def _squares(length: IntArray, first: IntArray, calls: IntArray, total: IntArray) -> FloatArray:
    """Sum of squared deviations of each group; from the mean, so that nothing is lost by size."""
    away = length - np.repeat(total / calls, calls)
    squares: FloatArray = np.add.reduceat(away * away, first)
    return squares


def with_others(kernels: Sequence[KernelTime], most: int) -> tuple[KernelTime, ...]:
    """The kernels with most time of each processor and kind, and the rest of them as one.

    Args:
        kernels: As `kernel_times` gives them, or a part in the same order.
        most: How many keep their name, of each processor and kind.
    """
    groups: dict[tuple[str, str], list[KernelTime]] = {}
    for one in kernels:
        groups.setdefault((one.processor, one.kind), []).append(one)
    named = [one for group in groups.values() for one in group[:most]]
    others = [pooled(group[most:]) for group in groups.values() if len(group) > most]
    return (*sorted(named, key=lambda one: -one.total_ns), *others)


def pooled(kernels: Sequence[KernelTime]) -> KernelTime:
    """All calls of some kernels of one processor and kind as those of one."""
    calls = sum(one.calls for one in kernels)
    total = sum(one.total_ns for one in kernels)
    between = sum(one.calls * (one.mean_ns - total / calls) ** 2 for one in kernels)
    return replace(
        kernels[0],
        name=OTHERS,
        calls=calls,
        total_ns=total,
        least_ns=min(one.least_ns for one in kernels),
        most_ns=max(one.most_ns for one in kernels),
        squares=sum(one.squares for one in kernels) + between,
    )

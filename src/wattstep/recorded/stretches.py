"""Stretches that stand for samples which were thinned (`--keep raw=1h`): what is still known of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: Final = {"total": "sum"}  # by field, where their names differ


@dataclass(frozen=True, kw_only=True, eq=False)
class Stretches:
    """Stretches of a channel in the order of time, none within another; all arrays have shape (s,).

    Attributes:
        begin_ns: Time of the first read.
        end_ns: Of the last, later than the first.
        reads: How many reads they stand for beside those that are samples.
        errno: Error number of all reads; 0: they gave values.
        first: First value; NaN where reads failed, as all below.
        last: Last value.
        least: Lowest value.
        most: Highest value.
        total: Sum of the values of `reads`.
        integral: Of the value over the time, in its unit times s.
    """

    begin_ns: IntArray
    end_ns: IntArray
    reads: IntArray
    errno: IntArray
    first: FloatArray
    last: FloatArray
    least: FloatArray
    most: FloatArray
    total: FloatArray
    integral: FloatArray

    @property
    def known(self) -> BoolArray:
        """Mask of those that have values."""
        finite: BoolArray = np.isfinite(self.first) & np.isfinite(self.last)
        return finite & np.isfinite(self.integral) & np.isfinite(self.total)

    @property
    def middle_ns(self) -> IntArray:
        """Middle of their times in ns."""
        return self.begin_ns + (self.end_ns - self.begin_ns) // 2

    @property
    def mean(self) -> FloatArray:
        """Mean of the values that were read."""
        means: FloatArray = self.total / np.maximum(self.reads, 1)
        return means

    @property
    def first_of_hole(self) -> BoolArray:
        """Mask of those that follow no other directly: samples come before."""
        return np.append(True, self.begin_ns[1:] != self.end_ns[:-1])[: len(self.begin_ns)]

    def any_within(self, t_ns: IntArray) -> bool:
        """Whether one of some times lies within a stretch, and not at its begin or end."""
        at = np.searchsorted(self.begin_ns, t_ns) - 1
        return bool(((at >= 0) & (t_ns < self.end_ns[at])).any())

    def marks(self, t_ns: IntArray, value: FloatArray) -> BoolArray:
        """Mask of samples that stand for nothing but that single ones were not kept; see `with_holes`."""
        marks: BoolArray = np.isin(t_ns, self.begin_ns + 1) & np.isnan(value)
        return marks

    def sharing(self, other: Stretches) -> Stretches:
        """The same, with the columns of another where they are equal, so that they are in memory once."""
        alike = {
            name: getattr(other, name)
            for name in ("begin_ns", "end_ns", "reads", "errno")
            if np.array_equal(getattr(self, name), getattr(other, name))
        }
        return replace(self, **alike)

    def since(self, t_ns: int) -> Stretches:
        """Those that begin then or later."""
        later = self.begin_ns >= t_ns
        return Stretches(**{field.name: getattr(self, field.name)[later] for field in fields(self)})

    def followed_by(self, others: Stretches) -> Stretches:
        """These and later ones."""
        return Stretches(
            **{
                field.name: np.concatenate([getattr(self, field.name), getattr(others, field.name)])
                for field in fields(self)
            }
        )

    def beside(self, t_ns: IntArray, value: FloatArray) -> tuple[IntArray, FloatArray]:
        """Samples, and the first and the last of each stretch among them.

        Args:
            t_ns: Times of samples.
            value: The samples.
        """
        times = np.concatenate([t_ns, self.begin_ns, self.end_ns])
        values = np.concatenate([value, self.first, self.last])
        times, first = np.unique(times, return_index=True)
        return times, values[first]

    def magnitudes(self) -> Stretches:
        """The same of the values without their sign, which does not change within one."""
        low, high = np.abs(self.least), np.abs(self.most)
        return replace(
            self, first=np.abs(self.first), last=np.abs(self.last), least=np.fmin(low, high),
            most=np.fmax(low, high), total=np.abs(self.total), integral=np.abs(self.integral),
        )  # fmt: skip


def stretches_of(table: pa.Table) -> tuple[dict[str, Stretches], str]:
    """Stretches by channel, and what is wrong with the table: "" where nothing is.

    Args:
        table: `thinned` of a run.
    """
    from wattstep.recorded.table_checks import coded  # loads Arrow

    names, codes = coded(table["channel"])
    columns = {
        field.name: table[COLUMNS.get(field.name, field.name)].to_numpy(zero_copy_only=False)
        for field in fields(Stretches)
    }
    found: dict[str, Stretches] = {}
    before: Stretches | None = None
    order = np.lexsort((columns["begin_ns"], codes))
    bounds = np.searchsorted(codes[order], np.arange(len(names) + 1))
    for code, name in enumerate(names):
        at = order[bounds[code] : bounds[code + 1]]
        mine = Stretches(**{key: column[at] for key, column in columns.items()})
        if before is not None:  # channels of one read have many columns in common
            mine = mine.sharing(before)
        before = mine
        if (mine.end_ns <= mine.begin_ns).any() or (mine.begin_ns[1:] < mine.end_ns[:-1]).any():
            return {}, "rows of it overlap, or end before they begin"
        if (mine.reads < 1).any():
            return {}, "a row of it stands for no read"
        if (mine.reads > mine.end_ns - mine.begin_ns).any():
            return {}, "a row of it stands for more reads than it lasts ns"
        if len(at):
            found[name] = mine
    return found, ""


def with_holes(
    samples: tuple[IntArray, FloatArray, NDArray[np.int16]], stretches: Stretches | None
) -> tuple[IntArray, FloatArray, NDArray[np.int16]]:
    """Samples of a channel, with one that has no value where single ones were not kept.

    Args:
        samples: Times, values and error numbers.
        stretches: Of the channel.
    """
    if stretches is None:
        return samples
    t_ns, value, errno = samples
    holes = stretches.begin_ns[stretches.first_of_hole] + 1
    at = np.searchsorted(t_ns, holes)
    free = (at >= len(t_ns)) | (t_ns[np.minimum(at, len(t_ns) - 1)] != holes)
    at, holes = at[free], holes[free]
    return np.insert(t_ns, at, holes), np.insert(value, at, np.nan), np.insert(errno, at, 0)


@dataclass(frozen=True, kw_only=True)
class Totals:
    """All values of a channel in some time together: how many, their sum, the least and the most."""

    reads: int
    total: float
    least: float
    most: float

    @property
    def mean(self) -> float:
        """Their mean."""
        return self.total / self.reads


def totals(parts: Sequence[tuple[IntArray, FloatArray, FloatArray, FloatArray]]) -> Totals | None:
    """Totals of values; None where there is none.

    Args:
        parts: Reads, sums, least and most values.
    """
    reads, total, least, most = (np.concatenate(each) for each in zip(*parts, strict=True))
    if not len(reads):
        return None
    return Totals(
        reads=int(reads.sum()), total=float(total.sum()), least=float(least.min()),
        most=float(most.max()),
    )  # fmt: skip

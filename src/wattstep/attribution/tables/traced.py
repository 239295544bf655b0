"""The columns of the traced operations as arrays, as small as they can be: there may be millions of rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wattstep.attribution.codes import Codes
from wattstep.attribution.gaps import is_wait
from wattstep.attribution.tables.naming import Names, names_of
from wattstep.attribution.traced_rows import TracedRows
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

NAMES = ("name", "kind", "layer", "phase", "processor", "shapes")
NUMBERS = ("allocated", "flops", "bytes")
LAUNCH = "launch"  # runs of before November 2026 have none
PLAIN = ("step", "start_ns", "end_ns", "self_ns", "thread", "parent", "outermost")
COLUMNS = (*NAMES, *NUMBERS, LAUNCH, *PLAIN)


class TracedColumns:
    """Traced operations: names and threads as numbers, other columns read when they are asked for.

    Args:
        table: `operations.parquet`, rows of a step together, steps in order. Give it away: each
            column is dropped when its array is there.
    """

    def __init__(self, table: pa.Table) -> None:
        self._left = {name: table[name] for name in COLUMNS if name in table.column_names}
        self._chosen: pa.Array | None = None
        self._named: dict[str, Names] = {}
        self._numbers: dict[str, FloatArray] = {}
        step = self._left["step"].to_numpy()
        begins = np.append(True, step[1:] != step[:-1])[: len(step)]
        self._first = np.flatnonzero(begins)
        self._step = step[self._first]
        self._rows = len(step)
        del self._left["step"]

    @property
    def steps(self) -> IntArray:
        """Indices of the steps that hold operations, in order."""
        numbers: IntArray = np.unique(self._step)
        return numbers

    def of_steps(self, steps: IntArray) -> TracedColumns:
        """The operations of these steps alone; from then on only what is returned can be used.

        Args:
            steps: Indices of steps.
        """
        taken = np.isin(self._step, steps)
        if taken.all():  # a filter would copy what may be a gigabyte
            return self
        lengths = np.diff(self._first, append=self._rows)
        rows = np.repeat(taken, lengths)
        self._keep_known(rows)
        if self._chosen is not None:
            before = self._chosen.to_numpy(zero_copy_only=False).copy()
            before[before] = rows
            rows = before
        self._chosen = pa.array(rows)
        lengths = lengths[taken]
        self._step, self._rows = self._step[taken], int(lengths.sum())
        self._first = np.cumsum(lengths) - lengths
        return self

    def _keep_known(self, known: BoolArray) -> None:
        """Of what was asked for before, only these rows are left."""
        self._named = {name: names.at(np.flatnonzero(known)) for name, names in self._named.items()}
        self._numbers = {name: values[known] for name, values in self._numbers.items()}
        if "outermost" in self.__dict__:
            self.__dict__["outermost"] = self.outermost[known]

    def _take(self, name: str) -> pa.ChunkedArray:
        column = self._left.pop(name)
        return column if self._chosen is None else column.filter(self._chosen)

    def ran_in(
        self, steps: IntArray, names: Sequence[str], layers_of: str
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """The outermost operations of some steps.

        Args:
            steps: Indices of the steps, each once; one at least.
            names: Columns of names that tell operations apart.
            layers_of: In this phase the layer does, too.

        Returns:
            Of each operation the position of its step among these, a number that is the same for
            those with the same names, and what it lasted in s, shape (n,) each.
        """
        order = np.argsort(steps)
        place = np.searchsorted(steps, self._step, sorter=order)
        position = order[np.minimum(place, len(steps) - 1)]
        theirs = steps[position] == self._step
        lengths = np.diff(self._first, append=self._rows)
        own = np.repeat(theirs, lengths) & self.outermost
        code = np.zeros(self._rows, np.int64)
        for name in names:
            column = self.names(name)
            code *= len(column.texts)
            code += column.code
        layer, phase = self.names("layer"), self.names("phase")
        code *= len(layer.texts) + 1
        code += np.where(phase.texts[phase.code] == layers_of, layer.code + 1, 0)
        lasting = (self._peek("end_ns") - self._peek("start_ns")).astype(np.float64) * 1e-9
        return np.repeat(position, lengths)[own], code[own], lasting[own]

    def _peek(self, name: str) -> IntArray:
        """A column of numbers that stays to be taken."""
        column = self._left[name]
        numbers: IntArray = (
            column if self._chosen is None else column.filter(self._chosen)
        ).to_numpy()
        return numbers

    def names(self, name: str) -> Names:
        """A column of names; "" for none."""
        if name not in self._named:
            self._named[name] = names_of(self._take(name))
        return self._named[name]

    def numbers(self, name: str) -> FloatArray:
        """A column of numbers, NaN where not known, shape (n,)."""
        if name not in self._numbers:
            column = self._take(name)
            values = np.broadcast_to(np.float64(np.nan), len(column))  # takes no memory
            if column.null_count < len(column):
                values = np.asarray(column.to_numpy(), dtype=np.float64)
            self._numbers[name] = values
        return self._numbers[name]

    @property
    def tells_allocations(self) -> bool:
        """True if the trace has the memory that operations allocated."""
        return bool(np.isfinite(self.numbers("allocated")).any())

    @cached_property
    def allocated(self) -> FloatArray:
        """Bytes that each row allocated less what it freed, 0 where that is not known."""
        if not self.tells_allocations:
            return np.broadcast_to(np.float64(0), self._rows)
        return np.nan_to_num(self.numbers("allocated"))

    @cached_property
    def outermost(self) -> BoolArray:
        """Mask of rows that are an operation's own, not one inside another."""
        values: BoolArray = self._take("outermost").to_numpy()
        return values

    @cached_property
    def launch(self) -> IntArray:
        """The row that asked for each row (work on a GPU); -1 where that is not known, shape (n,)."""
        if LAUNCH not in self._left:
            return np.broadcast_to(np.int64(-1), self._rows)
        column = self._take(LAUNCH)
        if column.null_count == len(column):
            return np.broadcast_to(np.int64(-1), self._rows)
        launches: IntArray = column.fill_null(-1).to_numpy().astype(np.int64)
        first = np.repeat(self._first, np.diff(self._first, append=self._rows))
        return np.where(launches >= 0, launches + first, -1)

    @cached_property
    def _thread(self) -> tuple[Codes, IntArray]:
        coded = pc.dictionary_encode(self._take("thread")).combine_chunks()
        return coded.indices.to_numpy(), coded.dictionary.to_numpy()

    @property
    def threads(self) -> IntArray:
        """The numbers that threads have outside, by their position."""
        return self._thread[1]

    def rows(self, steps: IntArray) -> TracedRows:
        """Prepares their layout, once.

        Args:
            steps: Indices of the steps that are windows, in order; all others' rows were left out.
        """
        lengths = np.diff(self._first, append=self._rows)
        number = np.searchsorted(steps, self._step).astype(np.int32)
        window = np.repeat(number, lengths)
        layer, kind, ran = self.names("layer"), self.names("kind"), self.names("processor")
        on_gpu = ~(ran.named("cpu") | ran.named(""))
        parent = self._take("parent").fill_null(-1).to_numpy()
        first = np.repeat(self._first.astype(np.int32), lengths)
        parent = np.where(parent >= 0, parent + first, np.int32(-1))
        return TracedRows(
            window=window,
            start_ns=self._take("start_ns").to_numpy(),
            end_ns=self._take("end_ns").to_numpy(),
            self_ns=self._take("self_ns").to_numpy(),
            thread=self._thread[0],
            parent=parent,
            scope=kind.named("scope"),
            layer=layer.code,
            layers=layer.texts,
            on_gpu=on_gpu if on_gpu.any() else None,
            waits=self._waits(on_gpu),
        )

    def _waits(self, on_gpu: BoolArray) -> BoolArray | None:
        """Calls that wait for a GPU; None where none works."""
        if not on_gpu.any():
            return None
        names = self.names("name")
        waiting = np.array([is_wait(str(text)) for text in names.texts], bool)
        waits: BoolArray = waiting[names.code] & ~on_gpu
        return waits if waits.any() else None


def outermost_above(above: Codes, outermost: BoolArray) -> Codes:
    """The outermost operation that each row belongs to; itself for scopes without one.

    Args:
        above: The row that each lies in, or -1.
        outermost: Whether no other operation encloses it.
    """
    climbing = np.flatnonzero(~outermost & (above >= 0))
    outer = np.arange(len(above), dtype=np.int32 if len(above) < 2**31 else np.int64)
    outer[climbing] = above[climbing]
    while len(climbing):  # each time twice as far
        further = outer[outer[climbing]]
        moved = further != outer[climbing]
        outer[climbing] = further
        climbing = climbing[moved]
    return outer

"""Columns of names as numbers: a trace has millions of rows, and few names, some of them very long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wattstep.attribution.codes import MOST_FLAGS, Codes, compact
from wattstep.attribution.traced_rows import Labels
from wattstep.schema.arrays import BoolArray, IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Names:
    """A column of names.

    Attributes:
        code: Of each row, a position in `texts`, shape (n,).
        texts: The names, of dtype object.
    """

    code: Codes
    texts: Labels

    @property
    def rows(self) -> Labels:
        """The name of each row; all rows of a name share one text."""
        named: Labels = self.texts[self.code]
        return named

    def at(self, rows: Codes) -> Names:
        """The names of these rows, in this order."""
        return replace(self, code=self.code[rows])

    def of(self, row: int) -> str:
        """The name of one row."""
        return str(self.texts[self.code[row]])

    def named(self, name: str) -> BoolArray:
        """Mask of the rows that have this name."""
        matching: BoolArray = (self.texts == name)[self.code]
        return matching

    def renamed(self, old: str, new: str) -> Names:
        """Copy with another text for one name."""
        texts = self.texts.copy()
        texts[texts == old] = new
        return replace(self, texts=texts)

    @property
    def ranks(self) -> IntArray:
        """Of each text, its position among all in the order of the alphabet; equal ones share one."""
        _, rank = np.unique(self.texts.astype(str), return_inverse=True)
        return rank.astype(np.int64)


def names_of(column: pa.ChunkedArray) -> Names:
    """A column of texts as names; "" for none."""
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    whole = column.unify_dictionaries().combine_chunks()
    texts = np.array([*(text or "" for text in whole.dictionary.to_pylist()), ""], dtype=object)
    none = pa.scalar(len(texts) - 1, whole.indices.type)
    return Names(code=whole.indices.fill_null(none).to_numpy(), texts=texts)


@dataclass(frozen=True, kw_only=True, eq=False)
class Combined:
    """Combinations of names in one column.

    Attributes:
        key: Of each row the number of its combination, in the order of the alphabet of the names,
            shape (n,).
        shown: The names of each combination, by its key.
    """

    key: Codes
    shown: Mapping[int, Mapping[str, str]]


def combined(
    labels: Mapping[str, Names], extra: Mapping[str, Names], chosen: BoolArray
) -> Combined:
    """Combinations of some columns.

    Args:
        labels: The columns.
        extra: Columns that are shown with a combination, of the first chosen row that has it.
        chosen: Which rows are shown; the others have keys, too.
    """
    code, size = np.zeros(len(chosen), np.int64), 1
    for names in labels.values():
        code *= len(names.texts)
        code += names.ranks[names.code]
        size *= len(names.texts)
        if size > MOST_FLAGS:  # small again: products stay in range
            used, code = compact(code)
            size = len(used)
    used, code = compact(code)
    first = _first_of(code, chosen, len(used))
    columns = {**labels, **extra}
    shown = {
        number: {name: column.texts[column.code[at]] for name, column in columns.items()}
        for number, at in enumerate(first.tolist())
        if at >= 0
    }
    return Combined(key=code.astype(np.int32), shown=shown)


def _first_of(code: IntArray, chosen: BoolArray, count: int) -> IntArray:
    """The first chosen row of each number below a count, -1 where there is none."""
    first = np.full(count, -1, np.int64)
    where = np.flatnonzero(chosen)[::-1]
    first[code[where]] = where  # of several rows the last that is written stays
    return first

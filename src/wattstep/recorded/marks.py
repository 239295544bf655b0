"""Marks within steps, as arrays."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wattstep.recorded.phases import Phases, common_phases
from wattstep.recorded.steps import Steps
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.journal import Mark
from wattstep.store.tables import HOST_MARKS


class Marks:
    """Marks within steps, flat: row of the step, time, kind and name.

    Attributes:
        host_ns: When the host came to each, where a device runs behind it; None: not known.
    """

    def __init__(self, table: pa.Table) -> None:
        lists = table["mark_ns"].combine_chunks()
        lengths = np.diff(lists.offsets.to_numpy())
        self.step = np.repeat(np.arange(len(table)), lengths)
        self.t_ns: IntArray = lists.flatten().to_numpy()
        # Of no marks all is known.
        self.host_ns: IntArray | None = None if len(self.t_ns) else self.t_ns
        if HOST_MARKS in table.column_names:  # runs of before December 2026 have none
            host_ns = table[HOST_MARKS].combine_chunks().flatten().to_numpy()
            self.host_ns = host_ns if len(host_ns) == len(self.t_ns) else None
        self.kind = table["mark_kind"].combine_chunks().flatten().to_numpy()
        # One string for each name, not one for each mark.
        names = pc.dictionary_encode(table["mark_name"].combine_chunks().flatten())
        texts = np.array([*names.dictionary.to_pylist(), ""], dtype=object)
        self.name = texts[names.indices.to_numpy()]

    def phases(self, steps: Steps, chosen: IntArray, names: tuple[str, ...] | None) -> tuple[
        Phases, IntArray
    ]:  # fmt: skip
        """Phases of those of the chosen steps that have this sequence of them.

        Args:
            steps: All steps.
            chosen: Rows of steps.
            names: The sequence, or None for the most common one.

        Returns:
            The phases and the rows of the steps that have them. The first phase begins with the
            step: the mark comes a moment later.
        """
        return self._phases(self.t_ns, steps.start_ns, steps.end_ns, chosen, names)

    def host_phases(
        self, steps: Steps, chosen: IntArray, names: tuple[str, ...]
    ) -> tuple[Phases, IntArray] | None:
        """As `phases`, on the host; None where nothing says when it came to them."""
        if self.host_ns is None or steps.host_ns is None:
            return None
        begin, end = steps.host_ns.T
        known = chosen[np.isfinite(begin[chosen]) & np.isfinite(end[chosen])]
        return self._phases(self.host_ns, begin, end, known, names)

    def _phases(
        self,
        t_ns: IntArray,
        begin_ns: IntArray | FloatArray,
        end_ns: IntArray | FloatArray,
        chosen: IntArray,
        names: tuple[str, ...] | None,
    ) -> tuple[Phases, IntArray]:
        is_phase = self.kind == Mark.PHASE
        step, t_ns, name = self.step[is_phase], t_ns[is_phase], self.name[is_phase]
        low = np.searchsorted(step, chosen)
        high = np.searchsorted(step, chosen, side="right")
        sequences = [tuple(name[a:b]) for a, b in zip(low, high, strict=True)]
        if names is None:
            names = common_phases([sequence for sequence in sequences if sequence])
        fitting = [n for n, sequence in enumerate(sequences) if sequence == names and names]
        edges = np.array(
            [
                [begin_ns[chosen[n]], *t_ns[low[n] + 1 : high[n]], end_ns[chosen[n]]]
                for n in fitting
            ],
            dtype=np.int64,
        ).reshape(-1, len(names) + 1)
        return Phases(names=names, edges_ns=edges), chosen[np.array(fitting, dtype=np.int64)]

    def sequences(self, chosen: IntArray) -> tuple[IntArray, IntArray]:
        """Steps with marks of phases, and a number of the sequence of each.

        Args:
            chosen: Rows of steps.
        """
        is_phase = self.kind == Mark.PHASE
        step, name = self.step[is_phase], self.name[is_phase]
        low = np.searchsorted(step, chosen)
        high = np.searchsorted(step, chosen, side="right")
        number: dict[tuple[str, ...], int] = {}
        marked = np.flatnonzero(high > low)
        numbers = [
            number.setdefault(tuple(name[low[n] : high[n]]), len(number)) for n in marked.tolist()
        ]
        return chosen[marked], np.array(numbers, dtype=np.int64)

    def layer_spans(self, row: int, begin_ns: int, end_ns: int) -> list[tuple[str, int, int]]:
        """Name, begin and end in ns of each marked layer within a part of a step, in order.

        Args:
            row: Of the step.
            begin_ns: Begin of the part.
            end_ns: Its end.
        """
        first, last = self.layer_pairs.T
        t_ns = self.t_ns
        within = (self.step[first] == row) & (t_ns[first] >= begin_ns) & (t_ns[last] <= end_ns)
        return [
            (str(self.name[a]), int(t_ns[a]), int(t_ns[b]))
            for a, b in self.layer_pairs[within].tolist()
        ]

    @cached_property
    def layer_pairs(self) -> IntArray:
        """Positions of the marks of each layer's begin and end, shape (p, 2).

        A mark without its other half (a forward that raised) is left out.
        """
        at = np.flatnonzero((self.kind == Mark.LAYER_START) | (self.kind == Mark.LAYER_END))
        step, kind, name = self.step[at], self.kind[at], self.name[at]
        pair = np.flatnonzero(
            (kind[:-1] == Mark.LAYER_START)
            & (kind[1:] == Mark.LAYER_END)
            & (step[:-1] == step[1:])
            & (name[:-1] == name[1:])
        )
        return np.stack([at[pair], at[pair + 1]], axis=1)

    def layers(self, rows: IntArray, begin_ns: IntArray, end_ns: IntArray) -> dict[str, float]:
        """Mean time in s of each marked layer within a part of those steps that carry layer marks.

        Args:
            rows: Rows of steps, in order.
            begin_ns: Begin of the part in each of them.
            end_ns: Its end.
        """
        begins, ends = self.layer_pairs.T
        at = np.minimum(np.searchsorted(rows, self.step[begins]), max(len(rows) - 1, 0))
        if not len(rows) or not len(begins):
            return {}
        t_ns = self.t_ns[begins]
        inside = (rows[at] == self.step[begins]) & (t_ns >= begin_ns[at]) & (t_ns < end_ns[at])
        begins, ends = begins[inside], ends[inside]
        steps = max(len(np.unique(self.step[begins])), 1)
        seconds, name = (self.t_ns[ends] - self.t_ns[begins]) * 1e-9, self.name[begins]
        return {layer: float(seconds[name == layer].sum()) / steps for layer in dict.fromkeys(name)}

"""Rows of operations, layers and phases with their figures, and the rests that no operation covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from wattstep.attribution.codes import Codes, compact
from wattstep.attribution.quantities import (
    RAIL,
    AttributedQuantity,
    Bounded,
    Side,
    holding,
    takes_nothing,
)
from wattstep.attribution.window_means import CONFIDENCE, ONE_WINDOW, Windows
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import Figure, Status, missing, weakest
from wattstep.schema.figures import Entry, Figures

NOTHING = 1e-9  # of a step: what rounding leaves
NOT_RESOLVED = "all that is shorter than the source can tell apart, in one sum"
NOT_SINGLE = "all that samples do not tell of single rows, in one sum"
LOOSE = "all that is shorter than the source or looser than its clock can tell apart, in one sum"
ONE_CLOCKS = "one traced step"
MOST_CELLS = 1 << 20  # groups times windows whose sums are in memory at once


@dataclass(frozen=True, kw_only=True, eq=False)
class Breakdown:
    """Everything that tables of operations are made of.

    Attributes:
        window: Of each row, shape (n,).
        stand: How windows stand for clean steps.
        phase: Of each row, shape (n,).
        phase_names: Of the columns of the rests.
        together: Whether all phases were scaled to the clean step together, not one by one.
        relative: Half width of the relative interval of what was scaled to, shape (parts,).
        cost_s: How far what an event cost when it was traced may be off, in s, shape (phases,).
        events: How many events each row directly encloses, whose cost was taken off it, shape (n,).
        unattributed_off_s: How far the rest of each phase may be off for that, a window, shape (phases,).
        step_s: Mean clean step in s.
        cores: That utilization refers to.
        whose: Whose cores these are, where that is a question: " of the machine that ran it", or "".
        quantities: By name: "time", "busy_time", and where known "energy", "cpu_time".
        absent: Why a quantity is missing, by name.
        allocated: Bytes allocated less freed by each row.
        flops: Of each row, NaN where not known.
        size: Bytes read by each row, NaN where not known.
        outermost: Whether the row is an operation's own, not one inside another.
    """

    window: Codes
    stand: Windows
    phase: Codes
    phase_names: tuple[str, ...]
    together: bool
    relative: FloatArray
    cost_s: FloatArray
    events: FloatArray
    unattributed_off_s: FloatArray
    step_s: float
    cores: int
    whose: str
    quantities: Mapping[str, AttributedQuantity]
    absent: Mapping[str, str]
    allocated: FloatArray
    allocator: str
    flops: FloatArray
    size: FloatArray
    outermost: BoolArray

    @property
    def windows(self) -> int:
        """Number of traced steps."""
        return self.stand.count

    def rows(self, key: Codes, chosen: BoolArray, part: Codes | None = None) -> dict[int, Figures]:
        """Figures of the row of each key, the longest first.

        Energy of what is shorter than its source can tell apart is missing there; `unresolved` has
        it in one sum.

        Args:
            key: Number of the table's row that each row belongs to, not negative, shape (n,).
            chosen: Rows that take part.
            part: What a key lasts in one piece in: each of these numbers is one; None: a call.
        """
        if not chosen.any():
            return {}
        keys, group = compact(key[chosen])
        cells = _Windows(group, self.window[chosen], len(keys), self.stand, self.relative)
        columns = self._columns[chosen]
        parts = {
            name: cells.means(quantity.rows[chosen], columns, self._wholes[name])
            for name, quantity in self.quantities.items()
        }
        seconds, _ = parts["time"]
        off = self._off_by_cost(
            self._by_phase(group, chosen, self.quantities["time"].rows, len(keys)),
            self.cost_s * self._by_phase(group, chosen, self.events, len(keys)),
        )
        relative = np.divide(off, seconds, out=np.zeros(len(keys)), where=seconds > 0)
        moved = {
            name: quantity.moved.by_group(group, chosen, len(keys))
            for name, quantity in self.quantities.items()
            if quantity.moved is not None
        }
        sides = {
            name: Side.of(quantity.taking, group, chosen, len(keys), self.windows)
            for name, quantity in self.quantities.items()
            if quantity.taking is not None
        }
        bounds = {
            name: Bounded.of(quantity.bounds, group, chosen, len(keys), self.windows)
            for name, quantity in self.quantities.items()
            if quantity.bounds is not None
        }
        calls = self._calls(group, chosen, len(keys))
        pieces = self._pieces(group, chosen, len(keys), part)
        factor = self.stand.factor[self.window[chosen]]
        allocated = self.allocated[chosen] * factor
        memory = np.bincount(group, allocated, minlength=len(keys)) / self.windows
        flops = _known_sums(group, self.flops[chosen] * factor, len(keys)) / self.windows
        size = np.where(self.outermost[chosen], self.size[chosen], np.nan)
        size = _known_sums(group, size * factor, len(keys)) / self.windows
        table: dict[int, Figures] = {}
        for position in np.argsort(-seconds, kind="stable"):
            row: dict[str, Figure] = {}
            row["calls"] = Figure(
                value=float(calls[position]), unit="count", status=Status.COUNTED,
                n=self.windows, source="trace",
            )  # fmt: skip
            for name, quantity in self.quantities.items():
                values, half_widths = parts[name]
                taking, others = quantity.taking, sides.get(name)
                if others is not None and not others.takes[position]:
                    assert taking is not None
                    row[name] = takes_nothing(quantity, taking, self.windows)
                    continue
                if quantity.shared and (taking is None or taking.off_by_cost):
                    half_widths = np.hypot(half_widths, relative * values)
                row[name] = self._resolved(
                    quantity, float(values[position]), float(half_widths[position]),
                    float((seconds if others is None else others.seconds)[position]),
                    float(pieces[position]), moved[name][position] if name in moved else None,
                )  # fmt: skip
                if name in bounds:
                    row[name] = bounds[name].bounded(row[name], int(position))
            row["share"] = self._share(row["time"])
            self._utilization(row)
            entries = _rails_together(row)
            entries["memory"] = Figure(
                value=float(memory[position]), unit="B", status=Status.MEASURED,
                n=self.windows, source=self.allocator, method="allocated less freed, a step",
            )  # fmt: skip
            entries["flops"] = _counted(flops[position], "FLOP", "not counted for this operation")
            entries["bytes"] = _counted(size[position], "B", "no tensors as arguments")
            if "energy" in self.absent:
                entries["energy"] = missing("J", self.absent["energy"])
            table[int(keys[position])] = Figures(entries)
        return table

    def _calls(self, group: IntArray, chosen: BoolArray, count: int) -> FloatArray:
        own = self.outermost[chosen]
        factor = self.stand.factor[self.window[chosen][own]]
        return np.bincount(group[own], factor, minlength=count) / self.windows

    @cached_property
    def _columns(self) -> Codes:
        """Separately scaled part that each row is in."""
        return np.zeros_like(self.phase) if self.together else self.phase

    @cached_property
    def _wholes(self) -> dict[str, FloatArray | None]:
        """Cost of all rows and rests by quantity, window and part, shape (windows, parts)."""
        return {
            name: self._whole(quantity) if quantity.shared else None
            for name, quantity in self.quantities.items()
        }

    def _by_phase(
        self, group: IntArray, chosen: BoolArray, values: FloatArray, groups: int
    ) -> FloatArray:
        """Sums of rows by group and phase, a window, shape (groups, phases)."""
        phases = len(self.phase_names)
        cell = group * phases + self.phase[chosen]
        sums = np.bincount(cell, values[chosen], minlength=groups * phases)
        return sums.reshape(groups, phases) / self.windows

    def _off_by_cost(self, seconds: FloatArray, off_s: FloatArray) -> FloatArray:
        """Error of groups by that of an event's cost, in s, shape (groups,).

        Of an event that cost more, its own group has less, and the rest of its phase is stretched.

        Args:
            seconds: Of each group and phase, shape (groups, phases).
            off_s: How far what was taken off it may be off, likewise.
        """
        whole = self._whole(self.quantities["time"]).sum(axis=0) / self.windows
        if self.together:
            return np.zeros(len(seconds))
        phases = len(self.phase_names)
        all_events = np.bincount(self.phase, self.events, minlength=phases) / self.windows
        all_off = self.cost_s * all_events + self.unattributed_off_s
        share = np.divide(seconds, whole, out=np.zeros_like(seconds), where=whole > 0)
        change = share * all_off - off_s
        # A traced step that is slow for another reason seems to cost more in all of its phases: what
        # they leave open does not cancel.
        off: FloatArray = np.abs(change).sum(axis=1)
        return off

    def _whole(self, quantity: AttributedQuantity) -> FloatArray:
        windows, phases = quantity.unattributed.shape
        cell = self.window.astype(np.int64) * phases + self.phase
        sums = np.bincount(cell, quantity.rows, minlength=windows * phases)
        whole: FloatArray = sums.reshape(windows, phases) + quantity.unattributed
        return whole.sum(axis=1, keepdims=True) if self.together else whole

    def _pieces(
        self, group: IntArray, chosen: BoolArray, count: int, part: Codes | None
    ) -> FloatArray:
        """In how many pieces a step each group lasts."""
        if part is None:
            calls = self._calls(group, chosen, count)
            return np.where(calls > 0, calls, 1.0)
        parts, code = compact(part[chosen])
        pairs, _ = compact(group * len(parts) + code)
        return np.bincount(pairs // len(parts), minlength=count).astype(np.float64)

    def unresolved(
        self, key: Codes, chosen: BoolArray, part: Codes | None, unattributed: Sequence[str]
    ) -> Figures:
        """Cost that rows and rests leave out because their source cannot tell it apart, by quantity.

        Args:
            key: As for `rows`.
            chosen: As for `rows`.
            part: As for `rows`.
            unattributed: As for `unattributed`.
        """
        table = {}
        grouped = self._grouped(key, chosen, part)
        for name, quantity in self.quantities.items():
            values, seconds, moved = self._left_out(quantity, grouped, chosen)
            for columns in unattributed_columns(unattributed).values():
                if self._unresolved_of(quantity, columns):
                    values = values + quantity.unattributed[:, columns].sum(axis=1)
                    seconds = seconds + self._idle_of(quantity)[:, columns].sum(axis=1)
                    if quantity.moved is not None:
                        moved = moved + quantity.moved.of_unattributed(columns)
            if values.any():
                words = NOT_RESOLVED if quantity.moved is None else LOOSE
                words = NOT_SINGLE if quantity.only_whole else words
                method = f"{words}; {quantity.method}"
                whole = replace(quantity, method=method)
                _, half_widths = self.stand.means(values[None, :] / self.stand.factor)
                wide = float(
                    np.hypot(half_widths[0], values.mean() * self.relative.max(initial=0.0))
                )
                table[name] = self._figure(
                    whole, float(values.mean()), wide, float(seconds.mean()), moved
                )
        return Figures(_rails_together(table))

    def _grouped(self, key: Codes, chosen: BoolArray, part: Codes | None) -> _Grouped:
        """The groups of the chosen rows and how long a piece of each lasts."""
        keys, group = compact(key[chosen])
        time = self.quantities["time"].rows[chosen]
        lasting = np.bincount(group, time, minlength=len(keys)) / self.windows
        pieces = self._pieces(group, chosen, len(keys), part)
        return _Grouped(
            group=group, count=len(keys), time=time, seconds=lasting / pieces, pieces=pieces
        )

    def _left_out(
        self, quantity: AttributedQuantity, grouped: _Grouped, chosen: BoolArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Cost of rows that have no figure of their own, of a quantity.

        Returns:
            In each window, shape (windows,); their time, likewise; and what they take when the
            samples are moved, shape (shifts,), nothing where there is one clock.
        """
        sensor, moved = quantity.sensor, quantity.moved
        none = np.zeros(0 if moved is None else len(moved.sums))
        if sensor is None or not chosen.any():
            return np.zeros(self.windows), np.zeros(self.windows), none
        group, values, time = grouped.group, quantity.rows[chosen], grouped.time
        lasting = grouped.seconds
        if quantity.taking is not None:
            time = quantity.taking.time_s[chosen]
            lasting = np.bincount(group, time, minlength=grouped.count) / self.windows
            lasting /= grouped.pieces
        least, _ = sensor.shortest
        lost = lasting < (np.inf if quantity.only_whole else least)
        if moved is not None:
            means = np.bincount(group, values, minlength=grouped.count) / self.windows
            shifts = moved.by_group(group, chosen, grouped.count)
            lost |= moved.clock.loose(means, shifts, self._least(quantity))
            none = shifts[lost].sum(axis=0)
        if not lost.any():
            return np.zeros(self.windows), np.zeros(self.windows), none
        mine, window = lost[group], self.window[chosen]
        sums = (
            np.bincount(window[mine], each[mine], minlength=self.windows).astype(np.float64)
            for each in (values, time)
        )
        return next(sums), next(sums), none

    def _least(self, quantity: AttributedQuantity) -> float:
        """Rounding error: nothing beside all of a quantity that a window has."""
        whole = float(np.abs(quantity.rows).sum() + np.abs(quantity.unattributed).sum())
        return NOTHING * whole / self.windows

    def _resolved(
        self,
        quantity: AttributedQuantity,
        value: float,
        half_width: float,
        seconds: float,
        pieces: float,
        moved: FloatArray | None,
    ) -> Figure:
        """The figure of a row, or why its source cannot tell it from what ran beside it."""
        sensor = quantity.sensor
        reason = quantity.only_whole
        if sensor and not reason:
            reason = sensor.too_short(seconds / pieces, "this")
        if reason := reason or self._loose(quantity, value, moved):
            return missing(quantity.unit, reason)
        return self._figure(quantity, value, half_width, seconds, moved)

    def _loose(
        self, quantity: AttributedQuantity, value: float, moved: FloatArray | None
    ) -> str | None:
        """Reason why a value is not told that would be another by other clocks; None where it is."""
        if quantity.moved is None or moved is None:
            return None
        clock = quantity.moved.clock
        if not clock.loose(np.array([value]), moved[None, :], self._least(quantity))[0]:
            return None
        return clock.reason(value, moved, quantity.unit)

    def _unresolved_of(self, quantity: AttributedQuantity, columns: Sequence[int]) -> str | None:
        """Reason why the unattributed cost of some phases cannot be distinguished; None where it can."""
        if quantity.sensor is None:
            return None
        seconds = self._seconds_of(columns, quantity)
        if abs(seconds) <= NOTHING * self.step_s:  # a rest that is not there takes no energy
            return None
        if quantity.only_whole:
            return quantity.only_whole
        if reason := quantity.sensor.too_short(seconds / len(columns), "this"):
            return reason
        value = float(quantity.unattributed[:, columns].sum(axis=1).mean())
        moved = None if quantity.moved is None else quantity.moved.of_unattributed(columns)
        return self._loose(quantity, value, moved)

    def _unattributed_off_s(self, columns: Sequence[int]) -> float:
        """Error of an unattributed time by that of an event's cost, in s."""
        seconds, off_s = np.zeros((2, 1, len(self.phase_names)))
        seconds[0, columns] = self.quantities["time"].unattributed[:, columns].mean(axis=0)
        off_s[0, columns] = self.unattributed_off_s[columns]
        return float(self._off_by_cost(seconds, off_s)[0])

    def _seconds_of(self, columns: Sequence[int], quantity: AttributedQuantity) -> float:
        return float(self._idle_of(quantity)[:, columns].sum(axis=1).mean())

    def _idle_of(self, quantity: AttributedQuantity) -> FloatArray:
        """Time of the rests in s, as far as a quantity has them: of a GPU's, that it was idle."""
        if quantity.taking is not None:
            return quantity.taking.unattributed_s
        return self.quantities["time"].unattributed

    def unattributed(self, names: Sequence[str]) -> dict[str, Figures]:
        """Unattributed costs by name.

        Args:
            names: Name of the rest for each phase.
        """
        table: dict[str, Figures] = {}
        for name, columns in unattributed_columns(names).items():
            row: dict[str, Figure] = {}
            all_off_s = self._unattributed_off_s(columns)
            for key, quantity in self.quantities.items():
                if key == "busy_time":
                    continue
                unattributed = quantity.unattributed[:, columns]
                seconds, taking = self._seconds_of(columns, quantity), quantity.taking
                off_s = all_off_s if taking is None or taking.off_by_cost else 0.0
                if reason := self._unresolved_of(quantity, columns):
                    row[key] = missing(quantity.unit, reason)
                    continue
                by_column = np.zeros((1, quantity.unattributed.shape[1]))
                by_column[0, columns] = unattributed.sum(axis=0)
                whole = self._whole(quantity)
                if self.together:
                    by_column = by_column.sum(axis=1, keepdims=True)
                mean, half_widths = self.stand.shares(
                    unattributed.sum(axis=1)[None, :], by_column, whole, self.relative
                )
                # A rest that the cost leaves no time may have some all the same.
                rate = 1.0 if key == "time" else mean[0] / seconds if seconds > 0 else 0.0
                wide = float(np.hypot(half_widths[0], off_s * rate))
                row[key] = self._figure(
                    quantity, float(mean[0]), wide, seconds,
                    None if quantity.moved is None else quantity.moved.of_unattributed(columns),
                )  # fmt: skip
                if quantity.bounds is not None:
                    others = quantity.bounds.unattributed[:, :, columns].sum(axis=2)
                    row[key] = holding(row[key], others.mean(axis=1))
            row["share"] = self._share(row["time"])
            if "energy" in self.absent:
                row["energy"] = missing("J", self.absent["energy"])
            row.pop("cpu_time", None)
            table[name] = Figures(_rails_together(row))
        return table

    def _figure(
        self,
        quantity: AttributedQuantity,
        value: float,
        half_width: float,
        seconds: float,
        moved: FloatArray | None,
    ) -> Figure:
        sensor = quantity.sensor
        low = high = None
        if self.windows > 1 and np.isfinite(half_width):
            less = more = 0.0
            # Longer steps than any that was traced: who knows what ran in them.
            if quantity.shared and self.stand.unseen:
                less, more = self.stand.unseen * value, self.stand.unseen * self._total(quantity)
            low, high = max(value - half_width - less, min(value, 0.0)), value + half_width + more
        by = f"Student's t over {self.windows} traced steps"
        if low is None:
            by = ONE_WINDOW if quantity.moved is None else ONE_CLOCKS
        figure = Figure(
            value=value,
            unit=quantity.unit,
            low=low,
            high=high,
            confidence=CONFIDENCE if low is not None else None,
            n=self.windows,
            method=f"{quantity.method}; {by}",
            systematic=sensor.systematic_at(value / seconds) if sensor and seconds else None,
            status=quantity.status,
            source=quantity.source,
        )
        if quantity.moved is None or moved is None:
            return figure
        # What a sensor mixes into one traced step is in no clock's interval: the step's own has it.
        if low is None and sensor and sensor.sensed:
            return replace(figure, method=f"{quantity.method}; {ONE_WINDOW}")
        return quantity.moved.clock.widened(figure, moved)

    def _total(self, quantity: AttributedQuantity) -> float:
        """Cost of a mean clean step, of a quantity."""
        return float(quantity.rows.sum() + quantity.unattributed.sum()) / self.windows

    def _share(self, time: Figure) -> Figure:
        """Of the step; of a step without length nothing is a share."""
        if not self.step_s:
            return missing("ratio", "the step has no length")
        return time.share_of(self.step_s)

    def _utilization(self, row: dict[str, Figure]) -> None:
        """CPU time over wall time of all cores: equation 2 of the TX2 paper, for an operation."""
        cpu, time = row.pop("cpu_time", None), row["time"]
        if cpu is None or not time.value or cpu.value is None:
            reason = self.absent.get("cpu_time", "the operation takes no time")
            if cpu is not None and cpu.missing:
                reason = cpu.reason or reason
            row["cpu_utilization"] = missing("ratio", reason)
            return
        row["cpu_utilization"] = Figure(
            value=min(cpu.value / time.value / self.cores, 1.0),
            unit="ratio",
            status=weakest([cpu.status, time.status]),
            n=self.windows,
            source=cpu.source,
            method=f"CPU time of the process over wall time of {self.cores} cores{self.whose}",
        )


def unattributed_columns(names: Sequence[str]) -> dict[str, list[int]]:
    """The phases of each rest."""
    columns: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        columns.setdefault(name, []).append(position)
    return columns


def _rails_together(row: Mapping[str, Figure]) -> dict[str, Entry]:
    """The figures of a row, those of rails in one mapping: machines may have several."""
    entries: dict[str, Entry] = {key: row[key] for key in row if not key.startswith(RAIL)}
    rails = {key.removeprefix(RAIL): row[key] for key in row if key.startswith(RAIL)}
    return {**entries, "energy_by_rail": rails} if rails else entries


@dataclass(frozen=True, kw_only=True, eq=False)
class _Grouped:
    """Chosen rows by the row of a table that they belong to.

    Attributes:
        group: Of each chosen row.
        count: How many groups there are.
        time: Of each chosen row in s.
        seconds: How long a piece of each group lasts in s, shape (count,).
        pieces: In how many of them it lasts, shape (count,).
    """

    group: IntArray
    count: int
    time: FloatArray
    seconds: FloatArray
    pieces: FloatArray


class _Windows:
    """Sums of each group in each window, for as many groups at a time as fit into memory."""

    def __init__(
        self, group: IntArray, window: Codes, groups: int, stand: Windows, relative: FloatArray
    ) -> None:
        self._stand, self._group, self._relative = stand, group, relative
        self._shape = (groups, stand.count)
        self._cell = group * stand.count
        self._cell += window
        self._at_once = max(MOST_CELLS // stand.count, 1)
        # Groups that fit at once need not be brought together.
        self._order = np.argsort(group, kind="stable") if groups > self._at_once else None
        if self._order is not None:
            self._cell = self._cell[self._order]

    def means(
        self, values: FloatArray, column: Codes, whole: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Means over the windows and half widths of their intervals, shape (groups,) each.

        Args:
            values: Of each row.
            column: The part that it is in, of those that were scaled by themselves.
            whole: All that is in those, shape (windows, parts); None: nothing was scaled.
        """
        groups, windows = self._shape
        if whole is not None:
            parts = whole.shape[1]
            cell = self._group * parts + column
            by_column = np.bincount(cell, values, minlength=groups * parts).reshape(groups, parts)
        if self._order is not None:
            values = values[self._order]
        means, half_widths = np.zeros(groups), np.zeros(groups)
        for first in range(0, groups, self._at_once):
            last = min(first + self._at_once, groups)
            low, high = 0, len(values)
            if self._order is not None:  # sorted by group is enough for the ends of groups
                low, high = np.searchsorted(self._cell, [first * windows, last * windows])
            cell = self._cell[low:high] - first * windows if first else self._cell[low:high]
            flat = np.bincount(cell, values[low:high], minlength=(last - first) * windows)
            sums = flat.reshape(last - first, windows).astype(np.float64)
            if whole is None:
                means[first:last], half_widths[first:last] = self._stand.means(sums)
            else:
                mine = by_column[first:last].astype(np.float64)
                means[first:last], half_widths[first:last] = self._stand.shares(
                    sums, mine, whole, self._relative
                )
        return means, half_widths


def _known_sums(group: IntArray, values: FloatArray, groups: int) -> FloatArray:
    """Sums of what is known; NaN where nothing is."""
    known = np.isfinite(values)
    sums = np.bincount(group[known], values[known], minlength=groups)
    some = np.bincount(group[known], minlength=groups) > 0
    return np.where(some, sums, np.nan)


def _counted(value: float, unit: str, reason: str) -> Figure:
    if not np.isfinite(value):
        return missing(unit, reason)
    return Figure(
        value=float(value), unit=unit, status=Status.COUNTED, source="shapes in the trace"
    )

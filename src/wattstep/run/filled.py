"""Tables of a run whose short rows have their energy by regression, and the groups that no table tells apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from wattstep.analysis.power import EnergySource
from wattstep.analysis.steps import IntArray
from wattstep.records.figure import Figure, Status, missing
from wattstep.run.below_sampling import Regressed, process_of, regressed
from wattstep.run.filling import Filler, left_over, scaled_to, together

if TYPE_CHECKING:
    from wattstep.run.operations import RunBreakdown

OPERATIONS = "operations"
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A table with what regression tells.

    Attributes:
        rows: All of them, "key" among their columns.
        left: Energy in J that rows, rests and groups leave out; None: nothing.
        shown: Kinds that have a figure of their own.
        energy: What was told by regression, in J.
    """

    rows: list[Row]
    left: Figure | None
    shown: IntArray
    energy: float


class FilledTables:
    """Fills the tables of a breakdown; nothing is computed before it is asked for.

    Args:
        breakdown: The tables as samples alone have them.
        source: Of the energy, or why there is none.
    """

    def __init__(self, breakdown: RunBreakdown, source: EnergySource | str) -> None:
        self._breakdown = breakdown
        self._source = source
        self._tables: dict[str, Filled] = {}

    @cached_property
    def regressed(self) -> Regressed | str:
        """The regression of this run, or why there is none."""
        if isinstance(self._source, str):
            return self._source
        found = process_of(self._breakdown, self._source)
        return found if isinstance(found, str) else regressed([found], self._source)

    @cached_property
    def _filler(self) -> Filler | str:
        found = self.regressed
        if isinstance(found, str):
            return found
        assert isinstance(self._source, EnergySource)
        filler = Filler(found, self._source)
        return filler.reason or filler

    @property
    def _foreign(self) -> bool:
        """Whether the samples have a clock of their own: how far it is off is said instead."""
        return not isinstance(self._source, str) and self._source.clock is not None

    def table(self, name: str) -> Filled:
        """A table; that of operations comes first, the others share its rests."""
        if name not in self._tables:
            self._tables[name] = self._filled(name)
        return self._tables[name]

    # --- what samples alone do not tell -------------------------------------------------------

    def _short(self, name: str) -> Figure | None:
        """The energy of all in a table that is too short for its source; None where nothing is."""
        return self._breakdown.plain.too_short(name).get("energy")

    def _members(self, name: str) -> dict[int, IntArray]:
        """The kinds of each row of a table whose energy is missing, by its key."""
        number = self._numbers
        short = {row["key"] for row in self._breakdown.plain.rows(name) if row["energy"].missing}
        found = {key: number[codes] for key, codes in self._breakdown.plain.codes(name).items()}
        return {key: kinds[kinds >= 0] for key, kinds in found.items() if key in short}

    @cached_property
    def _rest_members(self) -> dict[str, IntArray]:
        """Likewise of the rests, by name."""
        number = self._numbers
        rests = self._breakdown.plain.rests()
        found = {
            name: number[np.array(columns)]
            for name, columns in self._breakdown.plain.rest_columns.items()
            if rests[name]["energy"].missing
        }
        return {name: kinds[kinds >= 0] for name, kinds in found.items()}

    @cached_property
    def _numbers(self) -> IntArray:
        """The position in the regression of each code of the breakdown, -1 for none."""
        assert isinstance(self.regressed, Regressed)
        (process,) = self.regressed.processes
        number = np.full(self._breakdown.plain.code_count, -1, np.int64)
        number[process.code] = np.arange(len(process.code))
        return number

    # --- filling ------------------------------------------------------------------------------

    def _filled(self, name: str) -> Filled:
        rows = [dict(row) for row in self._breakdown.plain.rows(name)]
        short = self._short(name)
        if short is None or short.value is None or self._foreign:
            return _as_it_was(rows, short)
        filler = self._filler
        if isinstance(filler, str):
            return _as_it_was([_with_reason(row, filler) for row in rows], short)
        members = self._members(name)
        scale = self._scale(filler, name, short.value, members)
        if isinstance(scale, str):
            return _as_it_was([_with_reason(row, scale) for row in rows], short)
        tell = filler.apart if name == OPERATIONS else filler.figures
        shown, energy = [], 0.0
        for row in rows:
            if row["key"] not in members:
                continue
            mine = members[row["key"]]
            row["energy"], row["power"] = tell(mine, scale, row["energy"].reason or "")
            if not row["energy"].missing:
                shown.append(mine)
                energy += row["energy"].value
        kinds = together(shown)
        left = None if name == OPERATIONS else left_over(short, energy + self._told_rests())
        return Filled(rows=rows, left=left, shown=kinds, energy=energy)

    def _scale(
        self, filler: Filler, name: str, whole: float, members: dict[int, IntArray]
    ) -> float | str:
        """By what the regression is scaled in a table, so that with all else it makes the step."""
        if name == OPERATIONS:
            kinds = together([*members.values(), *self._rest_members.values()])
            return scaled_to(whole, filler.energy_of(kinds))
        rests = self.rests
        untold = [m for rest, m in self._rest_members.items() if rests[rest]["energy"].missing]
        parts = [*members.values(), *untold]
        return scaled_to(whole - self._told_rests(), sum(filler.own(part) for part in parts))

    def _told_rests(self) -> float:
        """Energy in J of rests that were told by regression."""
        rests = self.rests
        return sum(rests[rest]["energy"].value or 0.0 for rest in self._rest_members)

    @cached_property
    def _operations_scale(self) -> float | None:
        """By what the regression is scaled in the table of operations; None: it tells nothing."""
        short = self._short(OPERATIONS)
        if short is None or short.value is None or self._foreign:
            return None
        if isinstance(self._filler, str):
            return None
        scale = self._scale(self._filler, OPERATIONS, short.value, self._members(OPERATIONS))
        return None if isinstance(scale, str) else scale

    @cached_property
    def rests(self) -> dict[str, Row]:
        """What no operation covers, by name."""
        rests = {name: dict(row) for name, row in self._breakdown.plain.rests().items()}
        scale, filler = self._operations_scale, None
        if scale is None or isinstance(filler := self._filler, str):
            return rests
        for name, kinds in self._rest_members.items():
            before = rests[name]["energy"].reason or ""
            rests[name]["energy"], _ = filler.apart(kinds, scale, before)
        return rests

    @cached_property
    def groups(self) -> list[Row]:
        """What cannot be told apart, the costliest first; with rows and rests it makes the step."""
        scale = self._operations_scale
        if scale is None or isinstance(filler := self._filler, str):
            return []
        rests = self.rests
        told = [m for rest, m in self._rest_members.items() if not rests[rest]["energy"].missing]
        shown = together([self.table(OPERATIONS).shown, *told])
        members = [*self._members(OPERATIONS).values(), *self._rest_members.values()]
        return filler.groups(np.setdiff1d(together(members), shown), scale)

    def rests_and_left(self) -> dict[str, dict[str, Any]]:
        """The rests, and as "not_resolved" what they, operations and groups leave out."""
        table: dict[str, dict[str, Any]] = {**self.rests}
        if left := self.not_resolved()["operations"]:
            none = Figure(
                value=0.0, unit="s", status=Status.ATTRIBUTED, source="torch profiler",
                method="their time stands with the operations and rests themselves",
            )  # fmt: skip
            told = replace(none, unit="J", method="regression tells all of it")
            table["not_resolved"] = {
                "time": none, "share": none.scaled(1.0, "ratio"), "energy": told, **left
            }  # fmt: skip
        return table

    def not_resolved(self) -> dict[str, dict[str, Any]]:
        """By table: the energy that its rows, the rests and groups of operations leave out."""
        found: dict[str, dict[str, Any]] = {}
        for table in ("operations", "layers", "phases", "kinds"):
            left = self.table(table).left
            others = {
                key: row
                for key, row in self._breakdown.plain.too_short(table).items()
                if key != "energy"
            }
            found[table] = {**({} if left is None else {"energy": left}), **others}
        return found


def _as_it_was(rows: list[Row], short: Figure | None) -> Filled:
    return Filled(rows=rows, left=short, shown=np.zeros(0, np.int64), energy=0.0)


def _with_reason(row: Row, reason: str) -> Row:
    """A row whose energy is missing says why regression does not tell it either."""
    energy: Figure = row["energy"]
    if not energy.missing:
        return row
    words = f"{energy.reason}; regression: {reason}"
    return {**row, "energy": replace(energy, reason=words), "power": missing("W", words)}

"""Tables of a run with the energy of their rows by regression, and the groups that no table tells apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from wattstep.analysis.power import EnergySource
from wattstep.analysis.steps import IntArray
from wattstep.records.figure import Figure, Status, missing
from wattstep.run.below_sampling import Regressed, process_of, regressed
from wattstep.run.filling import Filler, left_over, together

if TYPE_CHECKING:
    from wattstep.run.operations import RunBreakdown

OPERATIONS = "operations"
BY_MODEL = (
    "a power model has the power of what runs: operations get it by the time that they take, and "
    "nothing need be taken apart"
)
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A table with what regression tells.

    Attributes:
        rows: All of them, "key" among their columns.
        left: Energy in J that rows, rests and groups leave out; None: nothing.
        shown: Kinds that have a figure of their own.
    """

    rows: list[Row]
    left: Figure | None
    shown: IntArray


class FilledTables:
    """Fills the tables of a breakdown; nothing is computed before it is asked for.

    Every table takes its energies from the one regression, so that what a table says of an
    operation is what the others say of it.

    Args:
        breakdown: The tables as samples alone have them.
        source: Of the energy, or why there is none.
        rail: The rail whose energy it is, or None: that of the machine.
        machine: Of a rail, the tables of the machine, whose sensor it has.
    """

    def __init__(
        self, breakdown: RunBreakdown, source: EnergySource | str, rail: str | None = None,
        machine: FilledTables | None = None,
    ) -> None:  # fmt: skip
        self._breakdown = breakdown
        self._source = source
        self._rail = rail
        self._machine = machine
        self._tables: dict[str, Filled] = {}

    @cached_property
    def regressed(self) -> Regressed | str:
        """The regression of this run, or why there is none."""
        if isinstance(self._source, str):
            return self._source
        if not self._source.sensed:
            return BY_MODEL
        found = process_of(self._breakdown, self._source)
        if isinstance(found, str):
            return found
        total = self._machine.regressed if self._machine else None
        return regressed(
            [found], self._source, total.regression if isinstance(total, Regressed) else None
        )

    @cached_property
    def filler(self) -> Filler | str:
        """What regression tells; why it tells nothing."""
        found, whole = self.regressed, self._short(OPERATIONS)
        if isinstance(found, str):
            return found
        assert isinstance(self._source, EnergySource)
        assert whole is not None
        assert whole.value is not None
        members = [*self._members(OPERATIONS).values(), *self._rest_members.values()]
        filler = Filler(found, self._source, whole.value, together(members))
        return filler.reason or filler

    def table(self, name: str) -> Filled:
        """A table; that of operations comes first, the others share its rests."""
        if name not in self._tables:
            self._tables[name] = self._filled(name)
        return self._tables[name]

    # --- what samples alone do not tell -------------------------------------------------------

    def energy_of(self, row: Row) -> Figure:
        """The energy of a row of any table."""
        figure: Figure = row["energy"] if self._rail is None else row["energy_by_rail"][self._rail]
        return figure

    def _put(self, row: Row, energy: Figure, power: Figure) -> Row:
        """The row with this energy."""
        if self._rail is None:
            return {**row, "energy": energy, "power": power}
        return {**row, "energy_by_rail": {**row["energy_by_rail"], self._rail: energy}}

    def _short(self, name: str) -> Figure | None:
        """The energy of all in a table that samples alone do not tell; None where nothing is."""
        return self._of_sums(self._breakdown.plain.too_short(name))

    def _of_sums(self, sums: Row) -> Figure | None:
        found = sums if self._rail is None else sums.get("energy_by_rail", {})
        figure: Figure | None = found.get(self._rail or "energy")
        return figure

    def _members(self, name: str) -> dict[int, IntArray]:
        """The kinds of each row of a table whose energy is missing, by its key."""
        number, plain = self._numbers, self._breakdown.plain
        short = {row["key"] for row in plain.rows(name) if self.energy_of(row).missing}
        found = {key: number[codes] for key, codes in plain.codes(name).items()}
        return {key: kinds[kinds >= 0] for key, kinds in found.items() if key in short}

    @cached_property
    def _rest_members(self) -> dict[str, IntArray]:
        """Likewise of the rests, by name."""
        number = self._numbers
        rests = self._breakdown.plain.rests()
        found = {
            name: number[np.array(columns)]
            for name, columns in self._breakdown.plain.rest_columns.items()
            if self.energy_of(rests[name]).missing
        }
        return {name: kinds[kinds >= 0] for name, kinds in found.items()}

    @cached_property
    def _numbers(self) -> IntArray:
        """The position in the regression of each code of the breakdown, -1 for none."""
        assert isinstance(self.regressed, Regressed)
        (process,) = self.regressed.processes
        position = {kind: at for at, kind in enumerate(self.regressed.kinds)}
        number = np.full(self._breakdown.plain.code_count, -1, np.int64)
        # A phase that comes twice in a step has one rest.
        number[process.code] = [position[kind] for kind in process.kinds]
        return number

    # --- filling ------------------------------------------------------------------------------

    @cached_property
    def _by_samples(self) -> bool:
        """Whether samples alone tell it: another clock than that of the trace, or a model of cores."""
        return isinstance(self._source, str) or not self._source.by_regression

    def _filled(self, name: str) -> Filled:
        rows = [dict(row) for row in self._breakdown.plain.rows(name)]
        short = self._short(name)
        if short is None or short.value is None or self._by_samples:
            return _as_it_was(rows, short)
        filler = self.filler
        if isinstance(filler, str):
            return _as_it_was([self._with_reason(row, filler) for row in rows], short)
        members = self._members(name)
        tell = filler.apart if name == OPERATIONS else filler.figures
        told = {key: tell(kinds) for key, kinds in members.items()}
        rows = [self._put(row, *told[row["key"]]) if row["key"] in told else row for row in rows]
        energies = {key: energy.value for key, (energy, _) in told.items() if energy.value}
        left = left_over(short, sum(energies.values()) + self._told_rests())
        shown = together(members[key] for key in energies)
        return Filled(rows=rows, left=None if name == OPERATIONS else left, shown=shown)

    def _with_reason(self, row: Row, reason: str) -> Row:
        """A row whose energy is missing says why regression does not tell it either."""
        energy = self.energy_of(row)
        if not energy.missing:
            return row
        words = f"{energy.reason}; regression: {reason}"
        return self._put(row, replace(energy, reason=words), missing("W", words))

    def _told_rests(self) -> float:
        """Energy in J of rests that were told by regression."""
        return sum(self.energy_of(self.rests[rest]).value or 0.0 for rest in self._rest_members)

    @property
    def _tells(self) -> Filler | None:
        """What regression tells of rests and groups; None where it tells nothing."""
        short = self._short(OPERATIONS)
        if self._by_samples or short is None or short.value is None:
            return None
        return None if isinstance(self.filler, str) else self.filler

    @cached_property
    def rests(self) -> dict[str, Row]:
        """What no operation covers, by name."""
        rests = {name: dict(row) for name, row in self._breakdown.plain.rests().items()}
        if filler := self._tells:
            for name, kinds in self._rest_members.items():
                energy, power = filler.apart(kinds)
                rests[name] = self._put(rests[name], energy, power)
                rests[name].pop("power", None)
        return rests

    @cached_property
    def groups(self) -> list[Row]:
        """What cannot be told apart, the costliest first; with rows and rests it makes the step."""
        filler = self._tells
        if filler is None:
            return []
        told = [
            m
            for rest, m in self._rest_members.items()
            if not self.energy_of(self.rests[rest]).missing
        ]
        shown = together([self.table(OPERATIONS).shown, *told])
        members = [*self._members(OPERATIONS).values(), *self._rest_members.values()]
        return filler.groups(np.setdiff1d(together(members), shown))

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
    return Filled(rows=rows, left=short, shown=np.zeros(0, np.int64))

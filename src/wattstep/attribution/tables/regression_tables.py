"""Tables of a run with the energy of their rows by regression, and the groups that no table tells apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from wattstep.attribution.quantities import RAIL
from wattstep.attribution.tables.regression_input import (
    RegressionResult,
    process_of,
    regression_result,
)
from wattstep.attribution.tables.regression_rows import NEVER, RegressionRows, left_over, together
from wattstep.attribution.tables.traced_steps import TracedSteps
from wattstep.recorded.power import EnergySource
from wattstep.schema.arrays import IntArray
from wattstep.schema.figure import Figure, Missing, Status, missing
from wattstep.schema.figures import Figures
from wattstep.schema.report_rows import CostRow, EnergyGroup

OPERATIONS = "operations"
BY_MODEL = (
    "a power model has the power of what runs: operations get it by the time that they take, and "
    "nothing need be taken apart"
)


@dataclass(frozen=True, kw_only=True)
class RegressionTable:
    """A table with what regression tells.

    Attributes:
        rows: By key, as in `PlainTables`.
        left: Energy in J that rows, rests and groups leave out; None: nothing. The groups of a
            rail, which no table shows, are in it.
        shown: Kinds that have a figure of their own.
    """

    rows: Mapping[int, CostRow]
    left: Figure | None
    shown: IntArray


class RegressionTables:
    """Fills the tables of traced steps; nothing is computed before it is asked for.

    Every table takes its energies from the one regression, so that what a table says of an
    operation is what the others say of it.

    Args:
        steps: The tables as samples alone have them.
        source: Of the energy, or why there is none.
        rail: The rail whose energy it is, or None: that of the machine.
        machine: Of a rail, the tables of the machine, whose sensor it has.
    """

    def __init__(
        self, steps: TracedSteps, source: EnergySource | Missing, rail: str | None = None,
        machine: RegressionTables | None = None,
    ) -> None:  # fmt: skip
        self._steps = steps
        self._source = source
        self._rail = rail
        self._machine = machine
        self._tables: dict[str, RegressionTable] = {}

    @property
    def _quantity(self) -> str:
        return "energy" if self._rail is None else f"{RAIL}{self._rail}"

    @cached_property
    def regression_result(self) -> RegressionResult | Missing:
        """The regression of this run, or why there is none."""
        if isinstance(self._source, Missing):
            return self._source
        if not self._source.sensed:
            return Missing(BY_MODEL)
        if self._machine is not None and _same_samples(self._source, self._machine._source):
            return self._machine.regression_result
        result = process_of(self._steps, self._source, quantity=self._quantity)
        if isinstance(result, Missing):
            return result
        total = self._machine.regression_result if self._machine else None
        return regression_result(
            [result],
            self._source,
            total.regression if isinstance(total, RegressionResult) else None,
        )

    @cached_property
    def regression_rows(self) -> RegressionRows | Missing:
        """Regression of the run, or the reason why there is none."""
        result, whole = self.regression_result, self._short(OPERATIONS)
        if isinstance(result, Missing):
            return result
        assert isinstance(self._source, EnergySource)
        assert whole is not None
        assert whole.value is not None
        members = [*self._members(OPERATIONS).values(), *self._unattributed_members.values()]
        regression_rows = RegressionRows(
            result,
            self._source,
            whole.value,
            together(members),
            self._steps.tracer,
            self._steps.by_time_alone(self._quantity),
        )
        reason = regression_rows.reason
        return regression_rows if reason is None else Missing(reason)

    def table(self, name: str) -> RegressionTable:
        """A table; that of operations comes first, the others share its rests."""
        if name not in self._tables:
            self._tables[name] = self._with_regression(name)
        return self._tables[name]

    # --- what samples alone do not tell -------------------------------------------------------

    def energy_of(self, figures: Figures) -> Figure:
        """The energy of a row of any table, or of a rest."""
        if self._rail is not None:
            return figures.parts("energy_by_rail")[self._rail]
        energy: Figure = figures["energy"]
        return energy

    def _put(self, row: CostRow, energy: Figure, power: Figure) -> CostRow:
        """The row with this energy; rows have one power, that of the machine."""
        figures = self._with_energy(row.figures, energy)
        return replace(row, figures=figures if self._rail else figures.updated(power=power))

    def _with_energy(self, figures: Figures, energy: Figure) -> Figures:
        if self._rail is None:
            return figures.updated(energy=energy)
        return with_rail(figures, self._rail, energy)

    def _short(self, name: str) -> Figure | None:
        """The energy of all in a table that samples alone do not tell; None where nothing is."""
        return self._of_sums(self._steps.plain.too_short(name))

    def _of_sums(self, sums: Figures) -> Figure | None:
        if self._rail is None:
            return sums.figure("energy")
        return sums.parts("energy_by_rail").get(self._rail)

    def _members(self, name: str) -> dict[int, IntArray]:
        """The kinds of each row of a table whose energy is missing, by its key."""
        number, plain = self._numbers, self._steps.plain
        rows = plain.rows(name)
        short = {key for key, row in rows.items() if self.energy_of(row.figures).missing}
        members = {key: number[codes] for key, codes in plain.codes(name).items()}
        return {key: kinds[kinds >= 0] for key, kinds in members.items() if key in short}

    @cached_property
    def _unattributed_members(self) -> dict[str, IntArray]:
        """Unattributed energies by regression, by name."""
        number = self._numbers
        unattributed = self._steps.plain.unattributed()
        members = {
            name: number[np.array(columns)]
            for name, columns in self._steps.plain.unattributed_columns.items()
            if self.energy_of(unattributed[name]).missing
        }
        return {name: kinds[kinds >= 0] for name, kinds in members.items()}

    @cached_property
    def _numbers(self) -> IntArray:
        """The position in the regression of each code of the breakdown, -1 for none."""
        assert isinstance(self.regression_result, RegressionResult)
        (process,) = self.regression_result.processes
        position = {kind: at for at, kind in enumerate(self.regression_result.kinds)}
        number = np.full(self._steps.plain.code_count, -1, np.int64)
        # A phase that comes twice in a step has one rest.
        number[process.code] = [position[kind] for kind in process.kinds]
        return number

    # --- filling ------------------------------------------------------------------------------

    @cached_property
    def _by_samples(self) -> bool:
        """True if samples alone tell it: by a model of cores."""
        return isinstance(self._source, Missing) or not self._source.by_regression

    def _with_regression(self, name: str) -> RegressionTable:
        rows = self._steps.plain.rows(name)
        short = self._short(name)
        if short is None or short.value is None or self._by_samples:
            return _as_it_was(rows, short)
        regression_rows = self.regression_rows
        if isinstance(regression_rows, Missing):
            reason = regression_rows
            with_reasons = {key: self._with_reason(row, reason) for key, row in rows.items()}
            return _as_it_was(with_reasons, short)
        members = self._members(name)
        tell = regression_rows.apart if name == OPERATIONS else regression_rows.figures
        figures = {key: tell(kinds) for key, kinds in members.items()}
        rows = {
            key: self._put(row, *figures[key]) if key in figures else row
            for key, row in rows.items()
        }
        energies = {key: energy.value for key, (energy, _) in figures.items() if energy.value}
        left = left_over(short, sum(energies.values()) + self._resolved_unattributed())
        shown = together(members[key] for key in energies)
        in_groups = name == OPERATIONS and self._rail is None
        return RegressionTable(rows=rows, left=None if in_groups else left, shown=shown)

    def _with_reason(self, row: CostRow, reason: str) -> CostRow:
        """A row whose energy is missing says why regression does not tell it either."""
        energy = self.energy_of(row.figures)
        if not energy.missing:
            return row
        words = f"{energy.reason}; regression: {reason}"
        return self._put(row, replace(energy, reason=words), missing("W", words))

    def _resolved_unattributed(self) -> float:
        """Energy in J of rests that were told by regression."""
        return sum(
            self.energy_of(self.unattributed[rest]).value or 0.0
            for rest in self._unattributed_members
        )

    @property
    def _tells(self) -> RegressionRows | None:
        """Energies by regression of unattributed time and groups; None where there are none."""
        short = self._short(OPERATIONS)
        if self._by_samples or short is None or short.value is None:
            return None
        return None if isinstance(self.regression_rows, Missing) else self.regression_rows

    @cached_property
    def unattributed(self) -> Mapping[str, Figures]:
        """Unattributed costs by name."""
        unattributed = self._steps.plain.unattributed()
        if regression_rows := self._tells:
            for name, kinds in self._unattributed_members.items():
                energy, _ = regression_rows.apart(kinds)
                unattributed[name] = self._with_energy(unattributed[name], energy)
        for name, figures in unattributed.items():
            # By the time of nothing: what the tracer's cost hides has an energy that is not known.
            if not self._by_samples and self.energy_of(figures).high == 0:
                unattributed[name] = self._with_energy(figures, missing("J", NEVER))
        return unattributed

    @cached_property
    def groups(self) -> list[EnergyGroup]:
        """Groups that cannot be distinguished, the costliest first; with rows and unattributed energies they make the step."""
        regression_rows = self._tells
        if regression_rows is None:
            return []
        rows = [
            m
            for rest, m in self._unattributed_members.items()
            if not self.energy_of(self.unattributed[rest]).missing
        ]
        shown = together([self.table(OPERATIONS).shown, *rows])
        members = [*self._members(OPERATIONS).values(), *self._unattributed_members.values()]
        return regression_rows.groups(np.setdiff1d(together(members), shown))

    def unattributed_and_left(self) -> dict[str, Figures]:
        """The rests, and as "not_resolved" what they, operations and groups leave out."""
        table = {**self.unattributed}
        if left := self.not_resolved()["operations"]:
            table["not_resolved"] = no_time(left, self._steps.instruments.profiler)
        return table

    def not_resolved(self) -> dict[str, Figures]:
        """By table: the energy that its rows, the rests and groups of operations leave out."""
        tables = {}
        for table in ("operations", "layers", "phases", "kinds"):
            left = self.table(table).left
            others = {
                key: row
                for key, row in self._steps.plain.too_short(table).items()
                if key != "energy"
            }
            tables[table] = Figures({**({} if left is None else {"energy": left}), **others})
        return tables


def _same_samples(one: EnergySource, other: EnergySource | Missing) -> bool:
    """True if both are one and the same channel's, as of a rail that feeds the whole machine."""
    return (
        not isinstance(other, Missing)
        and np.array_equal(one.curve.t_ns, other.curve.t_ns)
        and np.array_equal(one.curve.total, other.curve.total)
    )


def with_rail(figures: Figures, rail: str, energy: Figure) -> Figures:
    """Copy with another energy of a rail."""
    return figures.updated(energy_by_rail={**figures.parts("energy_by_rail"), rail: energy})


def no_time(left: Figures, source: str) -> Figures:
    """Unattributed costs of energies alone, which are left; `source` is of the times that stand elsewhere."""
    none = Figure(
        value=0.0, unit="s", status=Status.ATTRIBUTED, source=source,
        method="their time stands with the operations and rests themselves",
    )  # fmt: skip
    nothing_left = replace(none, unit="J", method="regression tells all of it")
    return Figures(
        {"time": none, "share": none.scaled(1.0, "ratio"), "energy": nothing_left, **left}
    )


def _as_it_was(rows: Mapping[int, CostRow], short: Figure | None) -> RegressionTable:
    return RegressionTable(rows=rows, left=short, shown=np.zeros(0, np.int64))

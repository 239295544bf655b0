"""Tables of the operations of a run: time, energy and CPU time of a mean clean step, attributed."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from wattstep.attribution.quantities import RAIL
from wattstep.attribution.tables.by_events import EventTables, event_tables
from wattstep.attribution.tables.operation_table import with_power
from wattstep.attribution.tables.regression_tables import RegressionTables, no_time, with_rail
from wattstep.attribution.tables.total_by_rails import TotalByRails, fits, rails_of_total
from wattstep.attribution.tables.totals import total_rows
from wattstep.attribution.tables.traced_steps import TracedSteps
from wattstep.schema.figure import Figure, Missing, missing
from wattstep.schema.figures import Figures
from wattstep.schema.report_rows import CostRow, EnergyGroup

NOT_RESOLVED = "not_resolved"
BY_EVENTS = ("operations", "layers", "phases")  # tables that events give
_UNMARKED = missing("s", "its operations run within phases of another name")


class RunBreakdown(TracedSteps):
    """Tables of a run's clean steps by its traced ones.

    What samples alone do not tell of short rows, regression over many steps does.
    """

    @cached_property
    def regression_tables(self) -> RegressionTables:
        """The tables with what regression over many steps tells of short rows."""
        if self.reason is not None:
            return RegressionTables(self, Missing(self.reason))
        energy = self._series.energy
        quantities, absent = self._quantities
        if "energy" not in quantities:
            energy = Missing(absent["energy"])
        return RegressionTables(self, energy)

    @cached_property
    def _regression_tables_of_rails(self) -> dict[str, RegressionTables]:
        """Regression tables of each rail that was attributed."""
        shared = self._quantities[0]
        return {
            name: RegressionTables(self, source, name, self.regression_tables)
            for name, source in self._series.rails.items()
            if f"{RAIL}{name}" in shared
        }

    @cached_property
    def by_events(self) -> EventTables | None:
        """Layers and phases by events in a device's queue; None: kernels were seen, or no device trains.

        Where a device was followed and its kernels could not be traced, operations of the host tell
        nothing of how long it works for them.
        """
        if self.reason is not None or self.others or self.steps.only_traced:
            return None
        return event_tables(
            self._tables.marks, self.steps, self.clean, self.phase_spans, self._step_s,
            {"": self._series.energy, **self._series.rails},
        )  # fmt: skip

    @property
    def operations_notes(self) -> list[str]:
        """As `TracedSteps.operations_notes`; of events, that they are."""
        return super().operations_notes if self.by_events is None else self.by_events.notes()

    @cached_property
    def _known_rows(self) -> dict[str, list[CostRow]]:
        """Rows of the tables that were asked for."""
        return {}

    def _rows(self, table: str) -> list[CostRow]:
        if table not in self._known_rows:
            self._known_rows[table] = self._rows_of(table)
        return list(self._known_rows[table])

    def _rows_of(self, table: str) -> list[CostRow]:
        if self.reason is not None:
            return []
        if (events := self.by_events) is not None:
            rows_of = {
                "operations": events.operations,
                "layers": events.layer_rows,
                "phases": events.phase_rows,
            }
            return [with_power(row) for row in rows_of[table]()] if table in rows_of else []
        rows = dict(self.regression_tables.table(table).rows)
        for name, regression_tables in self._regression_tables_of_rails.items():
            for key, row in regression_tables.table(table).rows.items():
                energy = regression_tables.energy_of(row.figures)
                rows[key] = replace(rows[key], figures=with_rail(rows[key].figures, name, energy))
        if (total := self.total_by_rails) is not None:
            rows = {
                key: replace(row, figures=total.with_energy(row.figures))
                for key, row in rows.items()
            }
        if self.step_kinds.count > 1:
            kinds = self._kinds_of_rows(table)
            rows = {key: replace(row, step_kinds=kinds[key]) for key, row in rows.items()}
        return [with_power(row) for row in rows.values()]

    def _kinds_of_rows(self, table: str) -> dict[int, str]:
        """In which kinds of steps each row of a table runs: "A", "A, B"."""
        kinds = self.step_kinds
        key = self._labels.of(table)[0].key[self._operation].astype(np.int64)
        kind = kinds.of_step[self.window_steps][self.rows.window[self._operation]]
        kinds_by_row: dict[int, list[str]] = {}
        for pair in np.unique(key * kinds.count + kind).tolist():
            kinds_by_row.setdefault(pair // kinds.count, []).append(kinds.names[pair % kinds.count])
        return {number: ", ".join(names) for number, names in kinds_by_row.items()}

    def operations(self) -> list[CostRow]:
        """By operation, layer and phase, of a mean step; else totals, where a tool gave such.

        By layer and phase alone, where a device trains whose kernels could not be seen.
        """
        if self._of_totals:
            return total_rows(self._tables.summaries, self._traced_by)
        return self._rows("operations")

    def layers(self) -> list[CostRow]:
        """By layer."""
        return self._rows("layers")

    def phases(self) -> list[CostRow]:
        """By phase: of its operations, and `span`, from its begin to its end in clean steps."""
        rows, spans = self._rows("phases"), self.phase_spans
        if spans is None or self.by_events is not None:
            return rows
        return [
            replace(row, figures=row.figures.updated(span=spans.of_phase(row.phase) or _UNMARKED))
            for row in rows
        ]

    def updates(self) -> list[CostRow]:
        """By update of parameters and phase, from marks of clean steps; see `PhaseSpans.rows`."""
        return [] if self.phase_spans is None else self.phase_spans.rows()

    def kinds(self) -> list[CostRow]:
        """By kind of operation."""
        return self._rows("kinds")

    def energy_groups(self) -> list[EnergyGroup]:
        """Operations and rests whose energy is known together only, the costliest first."""
        if self._without_operations or self.total_by_rails is not None:
            return []
        return self.regression_tables.groups

    @property
    def _without_operations(self) -> bool:
        """True if nothing is told of single operations."""
        return self.reason is not None or self.by_events is not None

    def unattributed(self) -> dict[str, Figures]:
        """Unattributed: module code and the framework between operations, data, game.

        "not_resolved" holds the energy of operations and rests that are too short for the sensor
        and were told by no regression, so that operations, rests and groups together make the step;
        their time stands in their own rows.
        """
        if self.by_events is not None:
            of_rows = self.not_resolved()["operations"]
            source = self.instruments.profiler
            return {NOT_RESOLVED: no_time(of_rows, source)} if of_rows else {}
        if self._without_operations:
            return {}
        unattributed = self.regression_tables.unattributed_and_left()
        unattributed.update(self._rests)
        left = unattributed.get(NOT_RESOLVED)
        if left is not None:
            left = self._with_left_of_rails(left, "operations")
            unattributed[NOT_RESOLVED] = left
        if left is not None and self.total_by_rails is not None:
            of_total = self._left_of_total("operations")
            if of_total is None and not left.parts("energy_by_rail"):
                del unattributed[NOT_RESOLVED]
            else:
                nothing = missing("J", "its rails tell all of it")
                unattributed[NOT_RESOLVED] = left.updated(energy=of_total or nothing)
        return unattributed

    @cached_property
    def _rests(self) -> dict[str, Figures]:
        """Unattributed time by name, without what is not resolved."""
        rests = dict(self.regression_tables.unattributed)
        for name, regression_tables in self._regression_tables_of_rails.items():
            for rest, figures in regression_tables.unattributed.items():
                rests[rest] = with_rail(rests[rest], name, regression_tables.energy_of(figures))
        total = self.total_by_rails
        return {
            name: figures if total is None else total.with_energy(figures)
            for name, figures in rests.items()
        }

    def not_resolved(self) -> dict[str, Figures]:
        """By table: the energy that its rows, the rests and groups of operations leave out."""
        if (events := self.by_events) is not None:
            return {name: events.not_resolved(self._rows(name)) for name in BY_EVENTS}
        if self._without_operations:
            return {}
        tables = {
            table: self._with_left_of_rails(left, table)
            for table, left in self.regression_tables.not_resolved().items()
        }
        if self.total_by_rails is None:
            return tables
        for table, left in tables.items():
            of_total = self._left_of_total(table)
            energy = {} if of_total is None else {"energy": of_total}
            others = {key: entry for key, entry in left.items() if key != "energy"}
            tables[table] = Figures({**energy, **others})
        return tables

    def _with_left_of_rails(self, left: Figures, table: str) -> Figures:
        """With the energy of rails that rows of a table and rests leave out; groups of rails are in it."""
        if "energy_by_rail" not in left:
            return left
        by_rail: dict[str, Figure] = {
            name: figure
            for name, tables in self._regression_tables_of_rails.items()
            if (figure := tables.table(table).left) is not None
        }
        total = self.total_by_rails
        if total is not None and len(total.names) == 1 and (of_total := self._left_of_total(table)):
            by_rail[total.names[0]] = of_total
        return left.updated(energy_by_rail=by_rail)

    # --- the machine by its rails ---------------------------------------------------------------

    @cached_property
    def total_by_rails(self) -> TotalByRails | None:
        """What the machine's rows are sums of, where a GPU worked and rails tell what feeds it.

        None where the total has no such rails: then its rows are told by its own samples alone.
        """
        quantities, _ = self._quantities
        whole = quantities.get("energy")
        if self.reason is not None or whole is None or self.side("energy") != "all":
            return None
        windows = len(whole.unattributed)

        def step_j(name: str) -> float:
            quantity = quantities[name]
            return float(quantity.rows.sum() + quantity.unattributed.sum()) / windows

        parts = {
            name: step_j(f"{RAIL}{name}")
            for name in rails_of_total(self._series.total_channels, self._series.channels)
            if f"{RAIL}{name}" in quantities and self.side(f"{RAIL}{name}") != "all"
        }
        if not any(self.side(f"{RAIL}{name}") == "device" for name in parts):
            return None
        if not fits(step_j("energy"), parts.values()):
            return None
        return TotalByRails(
            names=tuple(channel.name for channel in self._series.total_channels),
            step_j=step_j("energy"),
            parts=parts,
            step_s=self._step_s,
            source=whole.source,
            status=whole.status,
        )

    def _left_of_total(self, table: str) -> Figure | None:
        """Energy of the machine that rows of a table and rests leave out."""
        assert self.total_by_rails is not None
        rows = (row.figures for row in self._rows(table))
        return self.total_by_rails.left([*rows, *self._rests.values()])

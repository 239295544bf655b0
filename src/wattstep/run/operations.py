"""Operations of a run: traced rows laid onto its clean steps, with time, energy and CPU time shared out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wattstep.analysis.breakdown import RAIL, Breakdown, Quantity
from wattstep.analysis.curves import Curve
from wattstep.analysis.folding import fold
from wattstep.analysis.laying import LaidRows, Phases, TracedRows, lay, match_layers, share_curve
from wattstep.analysis.power import EnergySource
from wattstep.analysis.statistics import mean_figure
from wattstep.analysis.steps import FloatArray, IntArray
from wattstep.records.figure import Figure, Status, weakest
from wattstep.records.journal import Mark
from wattstep.run.reading import Tables
from wattstep.run.series import Series

NO_LAYER = "(no single layer)"
BESIDE = 4  # clean steps on either side of a window that it is compared with
PHASE_RESTS = ("data", "game", "evaluation")  # what is uncovered there is no framework's work
Row = dict[str, Any]


class RunBreakdown:
    """What the traced steps of a run say of its clean ones.

    `reason` says why there are no operations, and is None where there are.
    """

    def __init__(self, tables: Tables, series: Series) -> None:
        self._tables = tables
        self._series = series
        self.steps = series.steps
        self.clean = np.flatnonzero(self.steps.clean)

    @cached_property
    def step_time(self) -> Figure:
        """Mean clean step."""
        return mean_figure(self.steps.seconds[self.clean], "s", "monotonic clock", Status.MEASURED)

    @cached_property
    def reason(self) -> str | None:
        """Why there are no operations."""
        if self._tables.info.trace == "none":
            return "tracing was off (--trace none)"
        if not len(self.clean):
            return "no clean step was recorded"
        if not self._table.num_rows or not len(self._windows):
            return "no step was traced to its end"
        return None

    @cached_property
    def _table(self) -> pa.Table:
        return self._tables.table("operations")

    @cached_property
    def _windows(self) -> IntArray:
        """Rows of the traced steps that have operations, in order."""
        traced = np.flatnonzero(self.steps.traced)
        recorded = np.unique(self._table["step"].to_numpy())
        return traced[np.isin(self.steps.index[traced], recorded)]

    @cached_property
    def _phases(self) -> tuple[Phases, IntArray, FloatArray]:
        """Phases of traced steps, the rows of those steps, and the shares of clean steps."""
        marks = self._tables.marks
        clean, rows = marks.phases(self.steps, self.clean, None)
        if not len(rows):  # no marks of phases: the step is one phase
            return self._whole(self._windows), self._windows, np.ones(1)
        traced, windows = marks.phases(self.steps, self._windows, clean.names)
        if not len(windows):
            return self._whole(self._windows), self._windows, np.ones(1)
        durations = clean.durations_s.sum(axis=0)
        return traced, windows, durations / durations.sum()

    def _whole(self, rows: IntArray) -> Phases:
        edges = np.stack([self.steps.start_ns[rows], self.steps.end_ns[rows]], axis=1)
        return Phases(names=("step",), edges_ns=edges)

    @cached_property
    def _chosen(self) -> pa.Table:
        """Operations of the windows that take part, in the order of windows."""
        _, windows, _ = self._phases
        wanted = pa.array(self.steps.index[windows])
        return self._table.filter(pc.is_in(self._table["step"], wanted))

    def label(self, name: str) -> np.ndarray[Any, Any]:
        """A column of names, one for each traced row; "" for none."""
        values = self._chosen[name].cast(pa.string()).to_pylist()
        return np.array(["" if value is None else value for value in values], dtype=object)

    @cached_property
    def rows(self) -> TracedRows:
        """The traced rows, windows counted from 0."""
        table = self._chosen
        _, window = np.unique(table["step"].to_numpy(), return_inverse=True)
        first = np.searchsorted(window, np.arange(window.max() + 2))
        parent = table["parent"].fill_null(-1).to_numpy().astype(np.int64)
        return TracedRows(
            window=window.astype(np.int64),
            start_ns=table["start_ns"].to_numpy(),
            end_ns=table["end_ns"].to_numpy(),
            self_ns=table["self_ns"].to_numpy(),
            thread=table["thread"].to_numpy(),
            parent=np.where(parent >= 0, parent + first[window], -1),
            scope=self.label("kind") == "scope",
            layer=self.label("layer"),
        )

    @cached_property
    def laid(self) -> LaidRows:
        """The rows on the mean clean step."""
        traced, windows, share = self._phases
        laid = lay(self.rows, traced, self._beside(windows), share, self._step_s)
        return match_layers(self.rows, laid, traced.names, self._layer_shares(traced.names))

    @property
    def _step_s(self) -> float:
        value = self.step_time.value
        assert value is not None
        return value

    def _layer_shares(self, names: Sequence[str]) -> dict[str, float]:
        """Share of the forward phase of each top-level layer, in clean steps that carry marks."""
        marks = self._tables.marks
        marked = np.intersect1d(self.clean, marks.step[marks.kind == Mark.LAYER_START])
        if not len(marked) or "forward" not in names:
            return {}
        phases, rows = marks.phases(self.steps, marked, tuple(names))
        if not len(rows):
            return {}
        forward = list(names).index("forward")
        begin, end = phases.edges_ns[:, forward], phases.edges_ns[:, forward + 1]
        length = float(phases.durations_s[:, forward].mean())
        times = marks.layers(rows, begin, end)
        return {name: value / length for name, value in times.items()}

    def _beside(self, windows: IntArray) -> FloatArray:
        """Median of the clean steps around each window in s."""
        seconds = self.steps.seconds
        at = np.searchsorted(self.clean, windows)
        return np.array(
            [
                float(np.median(seconds[self.clean[max(0, n - BESIDE) : n + BESIDE]]))
                if len(self.clean[max(0, n - BESIDE) : n + BESIDE])
                else self._step_s
                for n in at
            ]
        )

    # --- quantities -------------------------------------------------------------------------

    def fold(self, curve: Curve, gauge: tuple[IntArray, FloatArray] | None = None) -> Curve | None:
        """A curve over the mean clean step, or None where nothing was sampled in clean steps."""
        start, end = self.steps.start_ns[self.clean], self.steps.end_ns[self.clean]
        return fold(curve, start, end, self._step_s, gauge)

    @cached_property
    def _quantities(self) -> tuple[dict[str, Quantity], dict[str, str]]:
        laid = self.laid
        spread = self.step_time
        relative = 0.0
        if spread.low is not None and spread.high is not None:
            relative = (spread.high - spread.low) / 2 / self._step_s
        time = Quantity(
            unit="s",
            rows=laid.time_s,
            rests=laid.rest_s,
            relative=relative,
            status=Status.ATTRIBUTED,
            source="torch profiler, monotonic clock",
            method="traced time less the cost of its events, laid onto clean steps",
        )
        busy = replace(time, rows=laid.busy_s, rests=np.zeros_like(laid.rest_s))
        quantities = {"time": time, "busy_time": busy}
        absent: dict[str, str] = {}
        energy = self._series.energy
        if isinstance(energy, str):
            absent["energy"] = energy
        else:
            self._share("energy", energy, time, quantities, absent)
        for name, rail in self._series.rails.items():
            self._share(f"{RAIL}{name}", rail, time, quantities, absent)
        if self._series.process_cpu is None:
            absent["cpu_time"] = "the CPU time of the process was not sampled"
        else:
            curve, source = self._series.process_cpu
            cpu = EnergySource(curve=curve, status=Status.MEASURED, source=source)
            self._share("cpu_time", cpu, time, quantities, absent)
        return quantities, absent

    def _share(
        self,
        name: str,
        source: EnergySource,
        time: Quantity,
        quantities: dict[str, Quantity],
        absent: dict[str, str],
    ) -> None:
        """Shares a sampled quantity out among the rows, or says why it cannot be."""
        folded = self.fold(source.curve, source.gauge)
        if folded is None:
            absent[name] = f"no samples of {source.source} in clean steps"
            return
        rows, rests = share_curve(self.rows, self.laid, folded)
        quantities[name] = replace(
            time,
            unit=source.curve.unit,
            rows=rows,
            rests=rests,
            status=weakest([source.status, Status.ATTRIBUTED]),
            source=source.source,
            method="what clean steps gained, folded by phase and shared out by time",
        )

    @cached_property
    def _breakdown(self) -> Breakdown:
        quantities, absent = self._quantities
        table = self._chosen

        def floats(name: str) -> FloatArray:
            return np.asarray(table[name].to_numpy(zero_copy_only=False), dtype=np.float64)

        traced, _, _ = self._phases
        return Breakdown(
            window=self.rows.window,
            windows=len(traced.edges_ns),
            phase_names=traced.names,
            step_s=self._step_s,
            cores=int(self._tables.info.device.get("cores") or 1),
            quantities=quantities,
            absent=absent,
            allocated=floats("allocated"),
            flops=floats("flops"),
            size=floats("bytes"),
            outermost=table["outermost"].to_numpy(zero_copy_only=False),
        )

    @cached_property
    def _outer(self) -> IntArray:
        """The outermost operation that each row belongs to; itself for scopes without one."""
        outermost = self._breakdown.outermost
        parent = self.rows.parent
        at = np.arange(len(parent))
        while True:
            climb = ~outermost[at] & (parent[at] >= 0)
            if not climb.any():
                return at
            at = np.where(climb, parent[at], at)

    @cached_property
    def _operation(self) -> np.ndarray[Any, Any]:
        """Whether a row is an operation's (not a scope's own time)."""
        result: np.ndarray[Any, Any] = self._breakdown.outermost[self._outer]
        return result

    # --- tables -----------------------------------------------------------------------------

    def operations(self) -> list[Row]:
        """By operation, layer and phase."""
        if self.reason is not None:
            return []
        outer = self._outer
        layer = np.where(self.rows.layer == "", NO_LAYER, self.rows.layer)
        return self._breakdown.rows(
            {
                "name": self.label("name")[outer],
                "layer": layer[outer],
                "phase": self.label("phase")[outer],
            },
            self._operation,
            {"kind": self.label("kind")[outer]},
        )

    def layers(self) -> list[Row]:
        """By layer."""
        return self._by("layer")

    def phases(self) -> list[Row]:
        """By phase."""
        return self._by("phase")

    def kinds(self) -> list[Row]:
        """By kind of operation."""
        return self._by("kind")

    def _by(self, name: str) -> list[Row]:
        if self.reason is not None:
            return []
        labels = self.label(name)[self._outer]
        if name == "layer":
            labels = np.where(labels == "", NO_LAYER, labels)
        return self._breakdown.rows({name: labels}, self._operation, {})

    def rests(self) -> dict[str, dict[str, Figure]]:
        """What no operation covers: module code and the framework between operations, data, game."""
        if self.reason is not None:
            return {}
        names = [
            name if name in PHASE_RESTS else "framework" for name in self._breakdown.phase_names
        ]
        breakdown = self._breakdown
        windows, phases = breakdown.windows, len(breakdown.phase_names)
        scope = ~self._operation
        cell = self.rows.window * phases + self.laid.phase
        quantities = {}
        for name, quantity in breakdown.quantities.items():
            own = np.bincount(cell[scope], quantity.rows[scope], minlength=windows * phases)
            quantities[name] = replace(
                quantity, rests=quantity.rests + own.reshape(windows, phases)
            )
        return replace(breakdown, quantities=quantities).rests(names)


class OperationTable:
    """Operations as the caller likes them: a list of rows of Figures, or a table of numbers.

    Tables hold the values in SI units, and the status of time and energy beside them.
    """

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_arrow(self) -> pa.Table:
        """As an Arrow table."""
        columns: dict[str, list[Any]] = {}
        for row in self.rows:
            for key, value in row.items():
                plain = value.value if isinstance(value, Figure) else value
                columns.setdefault(key, []).append(plain)
                if key in ("time", "energy"):
                    columns.setdefault(f"{key}_status", []).append(value.status.value)
        return pa.table(columns)

    def to_pandas(self) -> Any:
        """As a pandas DataFrame (pandas must be installed)."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """As a polars DataFrame (polars must be installed)."""
        import polars  # type: ignore[import-not-found,unused-ignore]

        return polars.from_arrow(self.to_arrow())

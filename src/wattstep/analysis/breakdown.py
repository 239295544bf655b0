"""Rows of operations, layers and phases with their figures, and the rests that no operation covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattstep.analysis.steps import BoolArray, FloatArray, IntArray
from wattstep.records.figure import Figure, Status, missing, weakest

RESAMPLES = 300
RAIL = "energy of "  # how quantities that are single rails begin
CONFIDENCE = 0.95
Labels = NDArray[np.object_]


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Something that is shared out among rows.

    Attributes:
        unit: SI unit.
        rows: What each row takes in its window, shape (n,).
        rests: What the rests take, shape (windows, phases).
        relative: Half width of the relative interval of the whole.
        status: Of the parts.
        source: Of the whole.
        method: How the parts came about.
    """

    unit: str
    rows: FloatArray
    rests: FloatArray
    relative: float
    status: Status
    source: str
    method: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Breakdown:
    """Everything that tables of operations are made of.

    Attributes:
        window: Of each row, shape (n,).
        windows: How many there are.
        phase_names: Of the columns of the rests.
        step_s: Mean clean step in s.
        cores: That utilization refers to.
        quantities: By name: "time", "busy_time", and where known "energy", "cpu_time".
        absent: Why a quantity is missing, by name.
        allocated: Bytes allocated less freed by each row.
        flops: Of each row, NaN where not known.
        size: Bytes read by each row, NaN where not known.
        outermost: Whether the row is an operation's own, not one inside another.
    """

    window: IntArray
    windows: int
    phase_names: tuple[str, ...]
    step_s: float
    cores: int
    quantities: Mapping[str, Quantity]
    absent: Mapping[str, str]
    allocated: FloatArray
    flops: FloatArray
    size: FloatArray
    outermost: BoolArray

    def rows(
        self, labels: Mapping[str, Labels], chosen: BoolArray, extra: Mapping[str, Labels]
    ) -> list[dict[str, Any]]:
        """One row for each combination of labels, the longest first.

        Args:
            labels: Arrays of shape (n,), by name, whose combinations make the rows.
            chosen: Rows that take part.
            extra: Labels that go with a combination and do not split it.
        """
        if not chosen.any():
            return []
        group, first = _groups([labels[name] for name in labels], chosen)
        count = int(group.max()) + 1
        window = self.window[chosen]
        sums = {
            name: _sums(group, window, quantity.rows[chosen], count, self.windows)
            for name, quantity in self.quantities.items()
        }
        calls = np.bincount(group, self.outermost[chosen], minlength=count) / self.windows
        memory = np.bincount(group, self.allocated[chosen], minlength=count) / self.windows
        flops = _known_sums(group, self.flops[chosen], count) / self.windows
        size = _known_sums(group, np.where(self.outermost, self.size, np.nan)[chosen], count)
        intervals = {name: _intervals(values) for name, values in sums.items()}
        table = []
        for position in np.argsort(-sums["time"].mean(axis=1), kind="stable"):
            row: dict[str, Any] = {
                name: values[chosen][first[position]]
                for name, values in {**labels, **extra}.items()
            }
            row["calls"] = Figure(
                value=float(calls[position]), unit="count", status=Status.COUNTED,
                n=self.windows, source="trace",
            )  # fmt: skip
            for name, quantity in self.quantities.items():
                row[name] = self._figure(
                    quantity, float(sums[name][position].mean()), intervals[name][position]
                )
            row["share"] = row["time"].scaled(1 / self.step_s, "ratio")
            self._utilization(row)
            _gather_rails(row)
            row["memory"] = Figure(
                value=float(memory[position]), unit="B", status=Status.MEASURED,
                n=self.windows, source="torch allocator", method="allocated less freed, a step",
            )  # fmt: skip
            row["flops"] = _counted(flops[position], "FLOP", "not counted for this operation")
            row["bytes"] = _counted(size[position] / self.windows, "B", "no tensors as arguments")
            if "energy" in self.absent:
                row["energy"] = missing("J", self.absent["energy"])
            table.append(row)
        return table

    def rests(self, names: Sequence[str]) -> dict[str, dict[str, Figure]]:
        """What no operation covers, by name.

        Args:
            names: Name of the rest for each phase.
        """
        table: dict[str, dict[str, Figure]] = {}
        for name in dict.fromkeys(names):
            columns = [position for position, other in enumerate(names) if other == name]
            row: dict[str, Figure] = {}
            for key, quantity in self.quantities.items():
                if key == "busy_time":
                    continue
                values = quantity.rests[:, columns].sum(axis=1)
                row[key] = self._figure(
                    quantity, float(values.mean()), _intervals(values[None, :])[0]
                )
            row["share"] = row["time"].scaled(1 / self.step_s, "ratio")
            if "energy" in self.absent:
                row["energy"] = missing("J", self.absent["energy"])
            row.pop("cpu_time", None)
            _gather_rails(row)
            table[name] = row
        return table

    def _figure(self, quantity: Quantity, value: float, interval: FloatArray) -> Figure:
        below, above = interval
        low = high = None
        if self.windows > 1:
            # The uncertainty of the whole adds to that of the share; neither goes below 0.
            low = max(value - float(np.hypot(value - below, value * quantity.relative)), 0.0)
            high = value + float(np.hypot(above - value, value * quantity.relative))
        return Figure(
            value=value,
            unit=quantity.unit,
            low=low,
            high=high,
            confidence=CONFIDENCE if low is not None else None,
            n=self.windows,
            method=f"{quantity.method}; bootstrap over {self.windows} traced steps",
            status=quantity.status,
            source=quantity.source,
        )

    def _utilization(self, row: dict[str, Any]) -> None:
        """CPU time over wall time of all cores: equation 2 of the TX2 paper, for an operation."""
        cpu: Figure | None = row.pop("cpu_time", None)
        time: Figure = row["time"]
        if cpu is None or not time.value or cpu.value is None:
            reason = self.absent.get("cpu_time", "the operation takes no time")
            row["cpu_utilization"] = missing("ratio", reason)
            return
        row["cpu_utilization"] = Figure(
            value=min(cpu.value / time.value / self.cores, 1.0),
            unit="ratio",
            status=weakest([cpu.status, time.status]),
            n=self.windows,
            source=cpu.source,
            method=f"CPU time of the process over wall time of {self.cores} cores",
        )


def _gather_rails(row: dict[str, Any]) -> None:
    """Rails go into one mapping, for machines that have several."""
    rails = {key.removeprefix(RAIL): row.pop(key) for key in list(row) if key.startswith(RAIL)}
    if rails:
        row["energy_by_rail"] = rails


def _groups(labels: Sequence[Labels], chosen: BoolArray) -> tuple[IntArray, IntArray]:
    """Number of the combination of each chosen row, and a row that shows each combination."""
    codes = np.zeros(int(chosen.sum()), np.int64)
    for values in labels:
        _, inverse = np.unique(values[chosen].astype(str), return_inverse=True)
        codes = codes * (int(inverse.max()) + 1) + inverse
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    return group.astype(np.int64), first.astype(np.int64)


def _sums(
    group: IntArray, window: IntArray, values: FloatArray, groups: int, windows: int
) -> FloatArray:
    flat = np.bincount(group * windows + window, values, minlength=groups * windows)
    return flat.reshape(groups, windows).astype(np.float64)


def _known_sums(group: IntArray, values: FloatArray, groups: int) -> FloatArray:
    """Sums of what is known; NaN where nothing is."""
    known = np.isfinite(values)
    sums = np.bincount(group[known], values[known], minlength=groups)
    some = np.bincount(group[known], minlength=groups) > 0
    return np.where(some, sums, np.nan)


def _intervals(values: FloatArray) -> FloatArray:
    """Ends of the interval of the mean over windows, shape (groups, 2), by the bootstrap."""
    windows = values.shape[1]
    draws = np.random.default_rng(0).integers(0, windows, (RESAMPLES, windows))
    weights = np.zeros((windows, RESAMPLES))
    np.add.at(weights, (draws.ravel(), np.repeat(np.arange(RESAMPLES), windows)), 1 / windows)
    tail = 100 * (1 - CONFIDENCE) / 2
    ends: FloatArray = np.percentile(values @ weights, [tail, 100 - tail], axis=1).T
    return ends


def _counted(value: float, unit: str, reason: str) -> Figure:
    if not np.isfinite(value):
        return missing(unit, reason)
    return Figure(
        value=float(value), unit=unit, status=Status.COUNTED, source="shapes in the trace"
    )

"""Every figure of a run's document beside the truth: covered or not, how wide, how far off; and broken promises."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from truth_programs import REST, Happened, Row
from truth_sensors import Sensor

ALPHA = 0.05
SAME = 1e-6  # of the step: what is nearer than that to the end of an interval lies in it
TABLES: Mapping[str, Callable[[Any], tuple[str, ...]]] = {
    "operations": lambda row: (row["name"], row["layer"], row["phase"]),
    "layers": lambda row: (row["layer"],),
    "phases": lambda row: (row["phase"],),
    "kinds": lambda row: (row["kind"],),
}
NOT_TRACED = "steps that were not traced"
ONE = "one traced step: no interval is known"
MEMBER = re.compile(r"^(\S+)")


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One figure and its truth.

    Attributes:
        level: Table: "operations", "layers", "phases", "kinds", "rests", "groups", "steps".
        quantity: "energy", "power" or "time".
        what: Which row.
        truth: In the figure's unit.
        value: What was told, None where it is missing.
        low: Lower end of its interval, None where there is none.
        high: Upper end.
        reason: Why it is missing.
        method: How it was computed.
        covered: Whether the interval holds the truth.
        score: Interval score over the mean truth of the level.
        windows: How long it lasts in windows of the sensor.
    """

    level: str
    quantity: str
    what: str
    truth: float
    value: float | None
    low: float | None
    high: float | None
    reason: str
    method: str
    covered: bool
    score: float
    windows: float


@dataclass(frozen=True, kw_only=True)
class Known:
    """What a row truly takes of the mean clean step."""

    seconds: float
    joules: float


class Judge:
    """Compares the document of a run with what happened.

    Args:
        document: Of the run.
        happened: The truth.
        sensor: Whose rounding is excused as far as the figure states it.

    Attributes:
        compared: One entry a figure.
        violations: What should not be in any document.
    """

    def __init__(self, document: Mapping[str, Any], happened: Happened, sensor: Sensor) -> None:
        self._document, self._happened, self._sensor = document, happened, sensor
        self.compared: list[Compared] = []
        self.violations: list[str] = []
        for table in TABLES:
            self._table(table)
        self._rests()
        self._groups()
        self._steps()
        self.violations += self._twice()
        told = document["steps"].get("clean")
        if told != happened.clean:
            self.violations.append(f"{told} clean steps for {happened.clean}")

    # --- tables -------------------------------------------------------------------------------

    def _table(self, table: str) -> None:
        truths: dict[tuple[str, ...], Known] = {}
        for row, known in self._named():
            key = TABLES[table](vars(row))
            before = truths.get(key, Known(seconds=0, joules=0))
            truths[key] = _sum(before, known)
        rows = self._document[table]
        told = {TABLES[table](row): row for row in rows}
        if len(told) < len(rows):
            self.violations.append(f"{table}: rows that nothing tells apart")
        for key in truths.keys() - told.keys():
            self.violations.append(f"{table}: {' '.join(key)} is not there")
        for key in told.keys() - truths.keys():
            self.violations.append(f"{table}: {' '.join(key)} never ran")
        mean = _mean([truths[key] for key in truths])
        for key in truths.keys() & told.keys():
            self._row(table, " ".join(key), told[key], truths[key], mean)

    def _row(
        self, level: str, what: str, row: Mapping[str, Any], truth: Known, mean: Known
    ) -> None:  # fmt: skip
        for quantity, true, unit in (
            ("energy", truth.joules, mean.joules),
            ("time", truth.seconds, mean.seconds),
        ):
            if quantity in row:
                self._figure(level, quantity, what, row[quantity], true, unit, truth.seconds)

    def _named(self) -> Iterator[tuple[Row, Known]]:
        for n, row in enumerate(self._happened.program.rows):
            if row.name and n in self._traced:
                yield row, self._known(n)

    def _known(self, n: int) -> Known:
        happened = self._happened
        return Known(seconds=float(happened.seconds[n]), joules=float(happened.joules[n]))

    @cached_property
    def _traced(self) -> frozenset[int]:
        """Rows of kinds of steps that were traced; of others a document can name none."""
        kinds = {step.kind for step in self._happened.steps if step.traced}
        return frozenset(
            int(row) for kind in kinds for row in self._happened.program.kinds[kind].row
        )

    def _rest_of(self, n: int, row: Row) -> str:
        """What the document calls the time of what is no row of its own."""
        if n not in self._traced:
            return NOT_TRACED
        unmarked = self._happened.program.marks == "none"  # then a step is one phase, and no more
        return REST if unmarked and row.rest not in self._document["rests"] else row.rest

    def _rests(self) -> None:
        truths: dict[str, Known] = {}
        for n, row in enumerate(self._happened.program.rows):
            if not row.name or n not in self._traced:
                name = self._rest_of(n, row)
                truths[name] = _sum(truths.get(name, Known(seconds=0, joules=0)), self._known(n))
        for name in truths.keys() - self._document["rests"].keys():
            self.violations.append(f"rests: {name} is not there")
        mean = _mean(list(truths.values()))
        for name, row in self._document["rests"].items():
            if name != "not_resolved" and not row.get("outside_steps"):
                truth = truths.get(name, Known(seconds=0, joules=0))
                self._row("rests", name, row, truth, mean)

    def _groups(self) -> None:
        """Operations whose energy is told together; those with a rest among them are left out."""
        truths = {row.name: known for row, known in self._named()}
        for group in self._document.get("energy_groups", ()):
            names = [MEMBER.match(member) for member in group["members"]]
            known = [truths.get(name[1]) for name in names if name is not None]
            if all(known) and len(known) == len(group["members"]):
                total = Known(seconds=0, joules=0)
                for one in known:
                    assert one is not None
                    total = _sum(total, one)
                what = ", ".join(group["members"])
                self._figure(
                    "groups", "energy", what, group["energy"], total.joules, total.joules,
                    total.seconds,
                )  # fmt: skip

    def _steps(self) -> None:
        happened, metrics = self._happened, self._document["metrics"]
        seconds, joules = happened.step_seconds, happened.step_joules
        for name, quantity, truth in (
            ("energy_per_step", "energy", joules),
            ("mean_power", "power", happened.watts),
            ("step_time", "time", happened.expected_s),
        ):
            if self._sensor.constant and name == "mean_power":
                continue  # it shows the mean of steps: in the gaps between them it is wrong itself
            self._figure("steps", quantity, name, metrics[name], truth, truth, seconds)

    # --- figures ------------------------------------------------------------------------------

    def _figure(
        self, level: str, quantity: str, what: str, figure: Mapping[str, Any], truth: float,
        unit: float, seconds: float,
    ) -> None:  # fmt: skip
        value, low, high = figure["value"], figure["low"], figure["high"]
        reason = figure.get("reason") or ""
        if value is None and not reason:
            self.violations.append(f"{level}: {quantity} missing without a reason ({what})")
        if value is not None and low is None and ONE in (figure.get("method") or ""):
            value, reason = None, ONE  # no interval is claimed, and that is said
        if value is not None and (low is None or high is None):
            self.violations.append(f"{level}: {quantity} has no interval ({what})")
        covered, score = False, np.nan
        if value is not None:
            a, b = (value, value) if low is None or high is None else (low, high)
            excused = self._excused(figure, quantity, seconds)
            covered = a - excused <= truth <= b + excused
            beyond = max(a - excused - truth, truth - b - excused, 0.0)
            score = (b - a + 2 / ALPHA * beyond) / unit if unit else np.nan
        self.compared.append(
            Compared(
                level=level, quantity=quantity, what=what, truth=truth, value=value, low=low,
                high=high, reason=reason, method=figure.get("method") or "", covered=covered, score=float(score),
                windows=seconds / self._sensor.resolved_s,
            )
        )  # fmt: skip

    def _excused(self, figure: Mapping[str, Any], quantity: str, seconds: float) -> float:
        """Rounding by the sensor, as far as the figure states it; and what no clock tells."""
        happened, sensor = self._happened, self._sensor
        whole = happened.step_seconds if quantity == "time" else happened.step_joules
        if quantity == "power":
            whole /= happened.step_seconds
        same = SAME * whole
        if quantity == "time" or sensor.way == "counter":
            return same
        rounding = sensor.quantum / 2 * (1.0 if quantity == "power" else seconds)
        return same + min(rounding, (figure["systematic"] or 0.0) * abs(figure["value"]))

    def _twice(self) -> Iterator[str]:
        """Operations that have another energy as the only one of their phase or layer."""
        for table, column in (("phases", "phase"), ("layers", "layer")):
            for row in self._document[table]:
                its = [o for o in self._document["operations"] if o[column] == row[column]]
                if len(its) != 1:
                    continue
                one, other = its[0]["energy"], row["energy"]
                both = [(one[end], other[end]) for end in ("value", "low", "high")]
                if any(not _same(a, b) for a, b in both):
                    yield f"{table}: {its[0]['name']} has {_said(one)} and as {row[column]} {_said(other)}"


def _said(figure: Mapping[str, Any]) -> str:
    if figure["value"] is None:
        return "nothing"
    ends = [figure[end] for end in ("value", "low", "high")]
    value, low, high = (float("nan") if end is None else end for end in ends)
    return f"{value:.6g} J ({low:.6g} to {high:.6g})"


def _same(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


def _sum(a: Known, b: Known) -> Known:
    return Known(seconds=a.seconds + b.seconds, joules=a.joules + b.joules)


def _mean(known: list[Known]) -> Known:
    if not known:
        return Known(seconds=0, joules=0)
    return Known(
        seconds=float(np.mean([one.seconds for one in known])),
        joules=float(np.mean([one.joules for one in known])),
    )

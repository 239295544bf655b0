"""Rows whose energy samples are too coarse for, taken from the regression over many steps; groups that cannot be distinguished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from wattstep.attribution.regression.outcome import Group
from wattstep.attribution.tables.regression_input import RegressionResult
from wattstep.recorded.power import EnergySource
from wattstep.schema.arrays import IntArray
from wattstep.schema.figure import Figure, Missing, Status, missing, weakest
from wattstep.schema.report_rows import EnergyGroup
from wattstep.schema.spelling import rounded

TARGET = 0.2  # of a value: half of an interval that is no wider makes a figure of its own
MOST_APART = 2.0  # times: regression and integration that differ by more do not speak of the same
NEVER = "it takes no time in the traced steps"
LEAST = 1e-9  # of what is to be told: rounding
SCALED = (
    "scaled by {:.4f}, so that the parts add up to the step; the interval holds what it was "
    "before, too"
)
DISAGREES = (
    "the regression over many steps gives {:.3g} J for what integration gives {:.3g} J for: it is "
    "not believed"
)
LEFT = "everything that regression did not resolve, as one sum"


class RegressionRows:
    """Energy and power of rows, from a regression.

    Args:
        regression_result: The regression.
        source: Of the energy.
        whole: What all that is asked for takes of a mean clean step in J, as integration has it.
        kinds: What is asked for.
        traced_by: What traced the kinds.
        remark: What is said of each figure beside, or "".
    """

    def __init__(
        self,
        regression_result: RegressionResult,
        source: EnergySource,
        whole: float,
        kinds: IntArray,
        traced_by: str,
        remark: str = "",
    ) -> None:
        self._of = regression_result
        self._source, self._traced_by = source, traced_by
        self._groups = list(regression_result.regression.groups)
        self._group = np.full(len(regression_result.kinds), -1, np.int64)
        for number, group in enumerate(self._groups):
            self._group[group.members] = number
        steps = sum(len(process.sampled.start_ns) for process in regression_result.processes)
        self._rests_on = (
            f"{regression_result.regression.observations:,} samples over {steps:,} steps"
            + (f"; {remark}" if remark else "")
        )
        self._scale = scaled_to(whole, self.energy_of(kinds))

    @property
    def reason(self) -> str | None:
        """Reason why nothing can be told."""
        if self._of.regression.reason is not None:
            return self._of.regression.reason
        return self._scale if isinstance(self._scale, Missing) else None

    def energy_of(self, kinds: IntArray) -> float:
        """Energy of kinds in a mean clean step in J, those of a group by their time."""
        energy = 0.0
        for number in np.unique(self._group[kinds]).tolist():
            if number < 0:
                continue
            group = self._groups[number]
            mine = np.intersect1d(group.members, kinds)
            all_s = float(self._of.seconds[group.members].sum())
            share = float(self._of.seconds[mine].sum()) / all_s if all_s > 0 else 0.0
            energy += share * (group.energy.value or 0.0)
        return energy

    def apart(self, members: IntArray) -> tuple[Figure, Figure]:
        """Energy and power of kinds that no group holds together with others; else missing.

        Args:
            members: The kinds.
        """
        if (cut := self._cut(members)) is not None:
            reason = f"not resolvable: {self.words(*cut)}"
            return missing("J", reason), missing("W", reason)
        return self.figures(members)

    def figures(self, members: IntArray) -> tuple[Figure, Figure]:
        """Energy and power of kinds together; missing with the reason where they cannot be determined.

        Args:
            members: The kinds.
        """
        if not len(members):
            return missing("J", NEVER), missing("W", NEVER)
        power, energy = self._of.regression.combined(members)
        if energy.missing or power.missing:
            reason = f"not resolvable: {energy.reason or power.reason}"
            return missing("J", reason), missing("W", reason)
        energy, power = self.reconciled(energy), self.reconciled(power)
        if not resolved(energy):
            reason = f"not resolvable: regression over many steps gives it no closer than {_between(energy)}"
            if self._source.limit:
                reason += f"; {self._source.limit}"
            return missing("J", reason), missing("W", reason)
        return energy, power

    def _cut(self, members: IntArray) -> tuple[Group, int] | None:
        """A group that these kinds are only a part of, and how many others it has."""
        counts = Counter(self._group[np.unique(members)].tolist())
        for number in sorted(counts):
            group = self._groups[number]
            others = len(group.members) - counts[number]
            if number >= 0 and others:
                return group, others
        return None

    def reconciled(self, figure: Figure) -> Figure:
        """A figure of the regression, brought to what integration says of the whole."""
        scale = self._factor
        scaled = figure.scaled(scale, figure.unit)
        if scaled.low is not None and figure.low is not None:
            # Which of both is right is not known: the interval holds what either says.
            scaled = replace(scaled, low=min(scaled.low, figure.low))
        if scaled.high is not None and figure.high is not None:
            scaled = replace(scaled, high=max(scaled.high, figure.high))
        watts = scaled.value if scaled.unit == "W" else None
        return replace(
            scaled,
            method=f"{figure.method}; {self._rests_on}; {SCALED.format(scale)}",
            status=weakest([Status.ATTRIBUTED, self._source.status]),
            source=self._source.source,
            systematic=self._source.systematic
            if watts is None
            else self._source.systematic_at(watts),
        )

    @property
    def _factor(self) -> float:
        assert not isinstance(self._scale, Missing)
        return self._scale

    def words(self, group: Group, others: int) -> str:
        """Rest of a group that a part of it cannot be distinguished from, and their common energy."""
        energy = group.energy.scaled(self._factor, "J")
        together = "" if energy.value is None else f"; together {_amount(energy)}"
        named = self._of.label(group)
        return (
            f"cannot be distinguished from {others} other{'s' if others > 1 else ''} of {named}"
            f"{together}"
        )

    def groups(self, kinds: IntArray) -> list[EnergyGroup]:
        """Groups of several kinds, and kinds that were not told closely enough, the costliest first.

        Args:
            kinds: What has no figure of its own: whole groups, as `apart` cuts none.
        """
        rows = [self._row(group, kinds) for group in self._groups]
        shown = [row for row in rows if row is not None]
        return sorted(shown, key=lambda row: -(row.energy.value or 0.0))

    def _row(self, group: Group, kinds: IntArray) -> EnergyGroup | None:
        """A group as a row; None where none of it is asked for."""
        mine = np.intersect1d(group.members, kinds)
        if not len(mine) or group.energy.missing or group.power.missing:
            return None
        energy, power = self.reconciled(group.energy), self.reconciled(group.power)
        return EnergyGroup(
            name=self._of.label(group),
            level=self._of.levels.level_names[group.level],
            members=tuple(self._of.levels.names[member] for member in mine),
            resolved=resolved(energy),
            time=Figure(
                value=float(self._of.seconds[mine].sum()), unit="s", status=Status.ATTRIBUTED,
                source=self._traced_by,
            ),
            power=power,
            energy=energy,
        )  # fmt: skip


def scaled_to(whole: float, total: float) -> float | Missing:
    """By what the regression is scaled so that it makes the step, or why not.

    Args:
        whole: Energy in J as integration has it.
        total: The same as regression has it.
    """
    if whole <= 0 or total <= 0 or not 1 / MOST_APART <= whole / total <= MOST_APART:
        return Missing(DISAGREES.format(total, whole))
    return whole / total


def resolved(energy: Figure) -> bool:
    """True if an interval is as narrow as was asked for."""
    if energy.value is None or energy.low is None or energy.high is None:
        return False
    return (energy.high - energy.low) / 2 <= TARGET * abs(energy.value)


def left_over(whole: Figure, given: float) -> Figure | None:
    """Remainder of the energy of all that is short, beside its figures; None if there is none.

    Args:
        whole: As integration has it.
        given: What was told of it in J.
    """
    if whole.value is None or abs(whole.value - given) <= LEAST * abs(whole.value):
        return None
    share = max((whole.value - given) / whole.value, 0.0)  # rounding apart, never below
    return replace(whole.scaled(share, whole.unit), method=LEFT)


def together(parts: Iterable[IntArray]) -> IntArray:
    """All kinds of some, each once."""
    return np.unique(np.concatenate([np.zeros(0, np.int64), *parts]))


def _amount(energy: Figure) -> str:
    value, unit = _joules(energy.value or 0.0)
    if energy.low is None or energy.high is None:
        return f"{rounded(value)} {unit}"
    factor = value / energy.value if energy.value else 1.0
    return f"{rounded(value)} {unit} ({rounded(energy.low * factor)} to {rounded(energy.high * factor)})"


def _between(energy: Figure) -> str:
    if energy.low is None or energy.high is None:
        return "no interval"
    value, unit = _joules(max(abs(energy.low), abs(energy.high)))
    factor = value / max(abs(energy.low), abs(energy.high), 1e-300)
    return f"{rounded(energy.low * factor)} to {rounded(energy.high * factor)} {unit}"


def _joules(value: float) -> tuple[float, str]:
    for factor, unit in ((1.0, "J"), (1e3, "mJ")):
        if abs(value) * factor >= 1:
            return value * factor, unit
    return value * 1e6, "µJ"

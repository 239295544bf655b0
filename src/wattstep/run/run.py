"""Opens a run and answers what it cost."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Any

from wattstep.attribution.tables.operation_table import OperationTable
from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.recorded.reading import Tables
from wattstep.recorded.series import Series, real_cores
from wattstep.run import metrics as metric_parts
from wattstep.run.report import make_headline, make_report
from wattstep.run.step_flags import StepFlags, find_step_flags
from wattstep.run.timeline import Timeline, make_timeline
from wattstep.schema import views
from wattstep.schema.failures import Failures
from wattstep.schema.figures import Metrics
from wattstep.schema.run_report import RunReport
from wattstep.schema.settings import EXCLUDABLE


class Run:
    """Recorded run; everything is computed from its files, on first use.

    Args:
        path: Folder of the run.

    Attributes:
        failures: Parts of its figures that failed inside, as far as they were asked for.

    Raises:
        DamagedRunError: It is no run or cannot be read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.tables = Tables(self.path)
        self.info = self.tables.info
        self.failures = Failures()

    def __repr__(self) -> str:
        info = self.info
        return f"Run({str(self.path)!r}, {info.workload[:80]!r}, {info.state!r})"

    def summary(self) -> str:
        """The run on one screen, as `wattstep show` prints it: figures, bars, advice, cautions."""
        return views.show("summary", self)

    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        return views.show("run_in_notebook", self)

    @cached_property
    def _sampled(self) -> Series:
        """All samples, every step among the clean ones that may be."""
        return Series(self.tables)

    @cached_property
    def conditions(self) -> StepFlags:
        """Flags of steps that were throttled or disturbed, with the evidence."""
        return find_step_flags(
            self._sampled, real_cores(self.info.device), self.info.conditions.get("governor")
        )

    @cached_property
    def excluded(self) -> tuple[str, ...]:
        """Flags ("throttled", "disturbed") whose steps the run was asked to leave out."""
        asked = self.info.options.get("exclude") or ()
        return tuple(name for name in EXCLUDABLE if name in asked)

    @cached_property
    def series(self) -> Series:
        """Samples as curves by role."""
        if not self.excluded:
            return self._sampled
        left_out = self.conditions.steps(self.excluded)
        return self._sampled.leaving_out(left_out, " or ".join(self.excluded))

    @cached_property
    def breakdown(self) -> RunBreakdown:
        """Operations on the scale of clean steps."""
        return RunBreakdown(self.tables, self.series)

    @cached_property
    def metrics(self) -> Metrics:
        """Figures by name; some are lists (one a core) or mappings (one a category)."""
        return metric_parts.compute(
            self.tables, self.series, self.breakdown, self.conditions, self.failures
        )

    def lean_breakdown(self, shared: Collection[str]) -> RunBreakdown:
        """As `breakdown`, with only these quantities beside time ("energy"), and sooner."""
        return RunBreakdown(self.tables, self.series, shared)

    def headline_report(self, *, operations: bool = False) -> RunReport:
        """Part of `report` for comparisons, sooner: speed, energy, peak memory, temperature.

        Args:
            operations: Whether time and energy of operations are told, too, and what part of a step
                only moves data.
        """
        breakdown = self.lean_breakdown(("energy",)) if operations else self.breakdown
        headline = metric_parts.headline(
            self.tables, self.series, breakdown, self.conditions, operations=operations
        )
        told = breakdown if operations else None
        return make_headline(self.path, self.tables, self.series, told, headline, self.conditions)

    def operations(self) -> OperationTable:
        """A row for each operation, layer and phase, of a mean clean step."""
        return OperationTable(self.breakdown.operations())

    def report(self) -> RunReport:
        """Everything that reports show."""
        return make_report(
            self.path,
            self.tables,
            self.series,
            self.breakdown,
            self.metrics,
            self.conditions,
            self.failures,
        )

    def document(self) -> dict[str, Any]:
        """As `report`, JSON-ready."""
        return self.report().to_dict()

    def timeline(self) -> Timeline:
        """The whole run as columns: every step, sample and traced operation instance."""
        return make_timeline(self.tables, self.series, self.breakdown, self.conditions)

    lanes = timeline  # what it was called before


def load(path: str | Path) -> Run:
    """Opens a run; one that was never closed is recovered from its journals.

    Raises:
        DamagedRunError: It is no run or cannot be read.
    """
    return Run(path)

"""Opens a run and answers what it cost."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Any

from wattstep.records.failures import Failures
from wattstep.run import metrics as metric_parts
from wattstep.run.conditions import EXCLUDABLE, Conditions, find_conditions
from wattstep.run.document import make_document
from wattstep.run.lanes import Lanes, make_lanes
from wattstep.run.operation_table import OperationTable
from wattstep.run.operations import RunBreakdown
from wattstep.run.reading import Tables
from wattstep.run.series import Series, real_cores
from wattstep.run.timeline import make_timeline


class Run:
    """One recorded run; everything is computed from its files, on first use.

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

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        # Reports lie above this package: they are called by name, as `import wattstep` does it.
        pages = importlib.import_module("wattstep.reports.pages.notebook")
        return str(pages.picture(self))

    @cached_property
    def _sampled(self) -> Series:
        """All samples, every step among the clean ones that may be."""
        return Series(self.tables)

    @cached_property
    def conditions(self) -> Conditions:
        """Which steps were throttled or disturbed, with the evidence."""
        return find_conditions(self._sampled, real_cores(self.info.device))

    @cached_property
    def excluded(self) -> tuple[str, ...]:
        """Which of "throttled" and "disturbed" steps the run was asked to leave out."""
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
        """Operations laid onto clean steps."""
        return RunBreakdown(self.tables, self.series)

    @cached_property
    def _metrics(self) -> dict[str, Any]:
        return metric_parts.compute(
            self.tables, self.series, self.breakdown, self.conditions, self.failures
        )

    def metrics(self) -> dict[str, Any]:
        """Figures by name; some are lists (one a core) or mappings (one a category)."""
        return dict(self._metrics)

    def lean_breakdown(self, shared: Collection[str]) -> RunBreakdown:
        """The same as `breakdown`, with only these quantities beside time ("energy"), and sooner."""
        return RunBreakdown(self.tables, self.series, shared)

    def headline(self) -> dict[str, Any]:
        """The metrics by which runs are compared, and the temperature, without the others' cost."""
        return metric_parts.headline(self.tables, self.series, self.breakdown, self.conditions)

    def operations(self) -> OperationTable:
        """A row for each operation, layer and phase, of a mean clean step."""
        return OperationTable(self.breakdown.operations())

    def document(self) -> dict[str, Any]:
        """Everything that reports show, JSON-ready."""
        return make_document(
            self.path,
            self.tables,
            self.series,
            self.breakdown,
            self._metrics,
            self.conditions,
            self.failures,
        )

    def timeline(self) -> dict[str, Any]:
        """Three steps, with what was sampled and what ran, JSON-ready."""
        return make_timeline(self.tables, self.series, self.breakdown)

    def lanes(self) -> Lanes:
        """The whole run as columns: every step, sample and traced operation instance."""
        return make_lanes(self.tables, self.series, self.breakdown, self.conditions)


def load(path: str | Path) -> Run:
    """Opens a run; one that was never closed is recovered from its journals.

    Raises:
        DamagedRunError: It is no run or cannot be read.
    """
    return Run(path)

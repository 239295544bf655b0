"""Figures of runs as rows of tables: worked out by the run itself, and kept in the user's cache folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from wattstep.errors import DamagedRunError
from wattstep.report.query.runs import QueriedRun
from wattstep.schema.failures import contained
from wattstep.schema.figure import Missing
from wattstep.schema.figures import Figures
from wattstep.schema.run_report import RunReport
from wattstep.store.cache import cached_of_run

AT_ONCE: Final = 2  # much of a run is worked out outside of Python's lock; more would take memory
Rows = dict[str, list[dict[str, Any]]]


def figures(
    runs: Sequence[QueriedRun], warn: Callable[[str], None]
) -> tuple[Rows, list[tuple[QueriedRun, str]]]:
    """The rows of all tables of figures, and the runs that have none, with the reason.

    Args:
        runs: Runs that can be read.
        warn: Called with a line of progress for each run that is to be worked out.
    """

    def one(run: QueriedRun) -> Rows | Missing:
        try:
            return _rows_of(run, warn)
        except DamagedRunError as error:
            return Missing(str(error))
        except Exception as error:
            return Missing(f"it failed: {contained(error)}")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(one, runs))
    merged: Rows = {}
    unreadable: list[tuple[QueriedRun, str]] = []
    for run, rows in zip(runs, results, strict=True):
        if isinstance(rows, Missing):
            unreadable.append((run, rows))
            continue
        for table, of_run in rows.items():
            merged.setdefault(table, []).extend({"run": run.name, **row} for row in of_run)
    return merged, unreadable


def rows_of(report: RunReport) -> Rows:
    """The rows of a run, by table."""
    metrics = [
        {"metric": name, "key": key, **figure.to_dict()}
        for name, key, figure in report.metrics.each()
    ]
    operations = [
        {"name": row.labels.get("name"), "kind": row.labels.get("kind"),
         "layer": row.labels.get("layer"), "phase": row.labels.get("phase"), **of}
        for row in report.operations
        for of in _quantities(row.figures)
    ]  # fmt: skip
    return {
        "metrics": metrics,
        "operation_table": operations,
        "layers": [
            {"layer": row.layer, **of} for row in report.layers for of in _quantities(row.figures)
        ],
        "phases": [
            {"phase": row.phase, **of} for row in report.phases for of in _quantities(row.figures)
        ],
        "rests": [
            {"rest": name, **of}
            for name, figures in report.unattributed.items()
            for of in _quantities(figures)
        ],
        "rests_outside_steps": [
            {"rest": name, "quantity": quantity, **figure.to_dict()}
            for name, span in report.outside_steps.items()
            for quantity, figure in (("total", span.total), ("energy", span.energy))
        ],
    }


def _quantities(figures: Figures) -> Iterator[dict[str, Any]]:
    """A row of each figure; of a mapping of them, as the energy by rail, "energy_by_rail.NAME"."""
    for name, key, figure in figures.each():
        yield {"quantity": name if key is None else f"{name}.{key}", **figure.to_dict()}


def _rows_of(run: QueriedRun, warn: Callable[[str], None]) -> Rows:
    if run.report is not None:
        return rows_of(run.report)

    def compute() -> Rows:
        from wattstep.run import load  # half a second of imports, where nothing was kept

        warn(f"working out {run.name}")
        return rows_of(load(run.path).report())

    rows: Rows = cached_of_run("figures", run.path, compute)
    return rows

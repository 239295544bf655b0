"""A study of very many predicted trainings on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wattstep.plan.study_folder import Best, Row, StudyDocument
from wattstep.schema.spelling import spell

INDENT = (0, 0, 0, 2)


def print_study(
    path: Path, document: StudyDocument, best: Iterable[Best], console: Console
) -> None:
    """Prints what fits of each workload on each device, and what takes least a sample.

    Args:
        path: Of the study's folder.
        document: `study.json`.
        best: As of `best_of`.
        console: Where to print.
    """
    console.print()
    console.print(Text(f"{document['configurations']:,} configurations, predicted", style="bold"))
    table = Table(box=None, pad_edge=False)
    table.add_column("workload")
    table.add_column("device")
    table.add_column("fit", justify="right")
    table.add_column("up to batch", justify="right")
    table.add_column("least a sample", justify="right")
    table.add_column("with")
    for row in best:
        fit = f"{row['fitting']:,} of {row['configurations']:,}"
        if row["best"] is None:
            table.add_row(row["workload"], row["device"], fit, "none", "", "")
            continue
        table.add_row(
            row["workload"], row["device"], fit, f"{row['largest_batch']:,}", _least(row["best"]), _words(row["best"])
        )  # fmt: skip
    console.print(Padding(table, INDENT))
    notes = [
        "Fit: with 98 % probability each. Least: energy of a sample, time where the device's power is not known.",
        *(f"! {where}: {reason}" for where, reason in document["refused"].items()),
        f"All rows with their intervals: {path}/piece-*.parquet",
    ]
    for note in notes:
        console.print(Padding(Text(note), INDENT))


def _least(best: Row) -> str:
    samples = best["batch"] * best["accumulate"]
    joules, low, high = (
        best["energy_per_step"], best["energy_per_step_low"], best["energy_per_step_high"],
    )  # fmt: skip
    if joules is None or low is None or high is None:
        ends = best["step_time"], best["step_time_low"], best["step_time_high"]
        spelt = spell(ends[0] / samples, "s", ends[1] / samples, ends[2] / samples, None)
    else:
        spelt = spell(joules / samples, "J", low / samples, high / samples, None)
    return f"~ {spelt.value} ({spelt.interval})"


def _words(best: Row) -> str:
    batch = f"batch {best['batch']:,}"
    if best["accumulate"] > 1:
        batch += f" × {best['accumulate']:,}"
    words = [batch, best["precision"]]
    words += ["checkpointing"] * best["checkpointing"]
    words += [f"mode {best['mode']}"] * (best["mode"] is not None)
    return ", ".join(words)

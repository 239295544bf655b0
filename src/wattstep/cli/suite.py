"""`wattstep suite`: the workloads and their facts."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Any, Optional

import typer

from wattstep.cli.options import Json


def suite(
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[NAME]", help="One workload; all where not given."),
    ] = None,
    json: Json = False,
) -> None:
    """List the workloads and what is known of them."""
    from wattstep import workloads

    names = workloads.names() if name is None else [name]
    facts: list[dict[str, Any]] = [asdict(workloads.find(one).facts) for one in names]
    if json:
        from wattstep.reports.json_document import dump

        dump({"workloads": facts}, sys.stdout)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "title", "domain", "dominant layer", "data set", "input", box=None)
    for row in facts:
        shape = "×".join(map(str, row["input_shape"]))
        table.add_row(
            row["name"], row["title"], row["domain"], row["dominant_layer"], row["dataset"], shape
        )
    console = Console()
    console.print(table)
    if name is not None:
        console.print(f"\n{facts[0]['task']}\n{facts[0]['source']}", markup=False, highlight=False)

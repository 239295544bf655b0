"""`wattstep engines`: which frameworks can train here, and a training written for one of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.options import Json, Quiet
from wattstep.cli.settings_options import with_settings
from wattstep.errors import InvalidValueError


@with_settings(
    "batch", "engine", "classes", "image_size", "rate_rule", "optimizer", "seed", "data_dir", "out", "json", "quiet",
)  # fmt: skip
def engines(
    action: Annotated[
        str,
        typer.Argument(
            autocompletion=lambda: ["list", "export"],
            metavar="[list|export]",
            help="list; or export, which writes a training for an engine.",
        ),
    ] = "list",
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(
            autocompletion=completing.workloads, metavar="[NAME]", help="With export: the workload."
        ),
    ] = None,
    batch: Annotated[int, typer.Option(help="With export: samples of a step.", metavar="N")] = 4,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--out", "-o", help="With export: the folder. [default: NAME-ENGINE]", metavar="DIR"
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """List the engines, or export a training for one: model, weights, batches, and what it must give."""
    if action == "list":
        _list(json)
    elif action == "export":
        if name is None:
            raise InvalidValueError(
                "which workload? wattstep engines export NAME --engine ENGINE (wattstep suite lists them)",
                id="nothing-to-train",
            )
        _export(name, batch, out, given, json, quiet)
    else:
        raise InvalidValueError(
            f"{action} is neither list nor export: wattstep engines export NAME --engine ENGINE",
            id="unknown-action",
        )


def _list(as_json: bool) -> None:
    from wattstep.train.doctor import frameworks

    rows = frameworks()
    if as_json:
        from wattstep.report.json_document import dump

        dump({"engines": rows}, sys.stdout)
        return
    from rich.text import Text

    from wattstep.cli.screen import plain_table, screen
    from wattstep.report.terminal.folding import print_table

    table = plain_table("engine", "here", "trains", "of the suite")
    table.columns[0].no_wrap = True
    for row in rows:
        known = row["trained"]
        right = sum(1 for reason in known.values() if not reason)
        table.add_row(
            row["engine"],
            Text(row["version"] or row["reason"] or ""),
            "what is exported for it" if row["exports"] else "workloads as they are",
            f"{right} of {len(known)}" if known else "–",
        )
    print_table(table, screen())


def _export(
    name: str, batch: int, out: Path | None, given: dict[str, Any], as_json: bool, quiet: bool
) -> None:
    from wattstep import engines, workloads
    from wattstep.cli.progress import stages_of
    from wattstep.train.settings import TrainingSettings

    settings = TrainingSettings(workload=name, batch_size=batch, **given)
    engine = engines.find(settings.engine)
    place = out or Path(f"{name}-{engine.name}")
    with stages_of("exporting", quiet=quiet or as_json) as tell:
        engine.export(workloads.find(name), settings.preparation, place, tell)
    if as_json:
        from wattstep.report.json_document import dump

        dump({"folder": str(place), "engine": engine.name, "workload": name}, sys.stdout)
    else:
        print(f"{place}: wattstep run --from {place}")

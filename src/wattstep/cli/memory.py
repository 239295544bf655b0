"""`wattstep memory`: what the memory of a training is for, by batch size, and where its life needs most."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from wattstep.cli.options import (
    Accumulate,
    Batches,
    Classes,
    Data,
    ImageSize,
    Json,
    MemoryLimit,
    Precision,
    Quiet,
    Seed,
    Threads,
    find_memory_limit,
    parse_batches,
)
from wattstep.cli.saying import say
from wattstep.errors import RecordingError


def memory(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Workloads; see suite.")],
    batch: Batches = "4",
    processor: Annotated[
        str, typer.Option(help="cpu, or cuda for the memory of a GPU.", metavar="NAME")
    ] = "cpu",
    precision: Precision = "fp32",
    accumulate: Accumulate = 1,
    classes: Classes = None,
    image_size: ImageSize = None,
    threads: Threads = None,
    seed: Seed = 0,
    data: Data = None,
    evaluation: Annotated[
        bool, typer.Option(help="Whether the stage of evaluation is measured, too.")
    ] = True,
    memory_limit: MemoryLimit = None,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--output", "-o", help="An HTML file with charts.", metavar="FILE"),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure memory by category and batch size, and by stage of a training's life."""
    from wattstep import workloads
    from wattstep.fleet.footprints import measure_in_child
    from wattstep.footprint import FootprintSettings
    from wattstep.footprint.document import describe_life

    for name in names:
        workloads.check_name(name)
    limit = find_memory_limit(memory_limit)
    wanted = [
        FootprintSettings(
            workload=name,
            batch_size=size,
            accumulate=accumulate,
            precision=precision,
            processor=processor,
            threads=threads,
            seed=seed,
            data_dir=None if data is None else str(data),
            classes=classes,
            image_size=image_size,
            evaluation=evaluation,
        )
        for name in names
        for size in parse_batches(batch)
    ]
    documents: list[dict[str, Any]] = []
    try:
        for settings in wanted:
            title = f"{settings.workload}, batch {settings.batch_size}"
            life = measure_in_child(settings, _progress(title, quiet), limit)
            described = None if limit is None else limit.described
            documents.append(describe_life(settings, life, described))
    finally:  # one that fails does not take those before it away
        if documents:
            _show(documents, json, output)


def _progress(title: str, quiet: bool) -> Any:
    def tell(stage: str) -> None:
        if not quiet:
            say(f"{title}: {stage}")

    return tell


def _show(documents: list[dict[str, Any]], as_json: bool, output: Path | None) -> None:
    if output is not None:
        from wattstep.reports.pages.memory import write_footprints

        try:
            write_footprints(documents, output)
        except OSError as error:
            raise RecordingError(
                f"{output} cannot be written: {error.strerror or error}"
            ) from error
    if as_json:
        from wattstep.reports.json_document import dump

        dump({"memory": documents}, sys.stdout)
        return
    from rich.console import Console

    from wattstep.reports.consoles.memory import print_footprints

    console = Console()
    print_footprints(documents, console)
    if output is not None:
        console.print(f"report: {output.absolute().as_uri()}", soft_wrap=True, highlight=False)

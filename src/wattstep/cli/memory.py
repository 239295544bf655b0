"""`wattstep memory`: what the memory of a training is for, by batch size, and where its life needs most."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.options import (
    OUTPUT,
    Batches,
    Full,
    Json,
    MemoryLimit,
    Quiet,
    find_memory_limit,
    parse_batches,
)
from wattstep.cli.settings_options import with_settings
from wattstep.errors import RecordingError

if TYPE_CHECKING:
    from wattstep.schema.footprint import Footprint


@with_settings(
    "batch", "engine", "processor", "precision", "channels_last", "compiled", "accumulate",
    "checkpointing", "train_last", "lora", "optimizer", "offload",
    "classes", "image_size", "threads", "seed", "data_dir", "evaluation", "memory_limit", "output", "json", "quiet",
)  # fmt: skip
def memory(
    names: Annotated[
        list[str],
        typer.Argument(
            autocompletion=completing.workloads, metavar="NAME...", help="Workloads; see suite."
        ),
    ],
    batch: Batches = "4",
    processor: Annotated[
        str, typer.Option(help="cpu, or cuda for the memory of a GPU.", metavar="NAME")
    ] = "cpu",
    evaluation: Annotated[
        bool, typer.Option(help="Whether the stage of evaluation is measured, too.")
    ] = True,
    memory_limit: MemoryLimit = None,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(*OUTPUT, help="An HTML file with charts.", metavar="FILE"),
    ] = None,
    full: Full = False,
    json: Json = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Measure memory by category and batch size, and by stage of a training's life."""
    from wattstep import workloads
    from wattstep.cli.progress import bar_of
    from wattstep.train.child.footprints import measure_in_child
    from wattstep.train.memory import FootprintSettings
    from wattstep.train.memory.document import describe_life

    for name in names:
        workloads.check_name(name)
    limit = find_memory_limit(memory_limit)
    wanted = [
        FootprintSettings(
            workload=name,
            batch_size=size,
            processor=processor,
            evaluation=evaluation,
            **given,
        )
        for name in names
        for size in parse_batches(batch)
    ]
    footprints: list[Footprint] = []
    try:
        with bar_of("measuring memory", quiet=quiet) as show:
            for number, settings in enumerate(wanted):
                title = f"{settings.workload}, batch {settings.batch_size}"

                def tell(
                    stage: str, title: str = title, share: float = number / len(wanted)
                ) -> None:
                    show(f"{title}: {stage}", share if len(wanted) > 1 else None)

                life = measure_in_child(settings, tell, limit)
                described = None if limit is None else limit.described
                footprints.append(describe_life(settings, life, described))
    finally:  # one that fails does not take those before it away
        if footprints:
            _show(footprints, full, json, output)


def _show(footprints: list[Footprint], full: bool, as_json: bool, output: Path | None) -> None:
    if output is not None:
        from wattstep.report.html.memory import write_footprints

        try:
            write_footprints(footprints, output)
        except OSError as error:
            raise RecordingError(
                f"{output} cannot be written: {error.strerror or error}"
            ) from error
    if as_json:
        from wattstep.report.json_document import dump

        dump({"memory": [one.to_dict() for one in footprints]}, sys.stdout)
        return
    from wattstep.cli.screen import screen
    from wattstep.report.terminal.memory import print_footprints

    console = screen()
    print_footprints(footprints, console, full)
    if output is not None:
        console.print(f"report: {output.absolute().as_uri()}", soft_wrap=True, highlight=False)

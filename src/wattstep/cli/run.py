"""`wattstep run`: train and record; prints the table, writes the run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from wattstep.cli.options import (
    Interval,
    Json,
    Name,
    Out,
    PowerModel,
    Quiet,
    Trace,
    Warmup,
    run_folder,
)
from wattstep.errors import InvalidValueError


def run(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Workloads; see suite.")],
    batch: Annotated[str, typer.Option(help="Batch sizes, e.g. 4,16.", metavar="N,...")] = "4",
    steps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            help="Measured steps after the warm-up; traced ones come on top.", metavar="N"
        ),
    ] = None,
    seconds: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Measured time, at least 20 steps. [default: 15]", metavar="S"),
    ] = None,
    warmup: Warmup = 3,
    threads: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Threads of an operation. [default: the framework's choice]"),
    ] = None,
    engine: Annotated[str, typer.Option(help="Framework.")] = "torch",
    processor: Annotated[str, typer.Option(help="cpu.")] = "cpu",
    interval: Interval = "10ms",
    trace: Trace = "auto",
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    data: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Folder with official data; stand-ins without it.", metavar="DIR"),
    ] = None,
    power_model: PowerModel = None,
    out: Out = Path("runs"),
    name: Name = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train workloads, record what that costs, and print it."""
    from wattstep import workloads
    from wattstep.cli.progress import TrainingProgress
    from wattstep.cli.showing import show_runs
    from wattstep.fleet.local import train_in_child
    from wattstep.store.files import new_name
    from wattstep.training import TrainingSettings

    batches = _batches(batch)
    for workload in names:
        workloads.check_name(workload)
    if name is not None and len(names) * len(batches) > 1:
        raise InvalidValueError("--name names one run: give one workload and one batch size")
    all_settings = [
        TrainingSettings(
            workload=workload,
            batch_size=size,
            steps=steps,
            seconds=seconds,
            warmup=warmup,
            threads=threads,
            engine=engine,
            processor=processor,
            interval=interval,
            trace=trace,
            seed=seed,
            data_dir=None if data is None else str(data),
            power_model=power_model,
            out=run_folder(out, name, new_name(workload)),
        )
        for workload in names
        for size in batches
    ]
    paths: list[Path] = []
    try:
        for settings in all_settings:
            title = f"{settings.workload}, batch {settings.batch_size}"
            with TrainingProgress(title, quiet=quiet) as progress:
                paths.append(train_in_child(settings, progress.update, progress.warn))
    finally:  # one that fails does not take those before it away
        if paths:
            show_runs(paths, json)


def _batches(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidValueError(
            f"--batch {text!r}: whole numbers with commas between them, e.g. 4,16"
        ) from None
    for size in sizes:
        if size < 1:
            raise InvalidValueError(f"--batch {size}: it must be at least 1")
    return sizes

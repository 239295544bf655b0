"""`wattstep study`: computing against moving data, measured on the CPU and on an OpenCL device; very many predicted trainings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from wattstep.cli.options import OUT, Json, Quiet
from wattstep.errors import InvalidValueError

STUDIES = ("data-movement", "plans")
NETS = "mlp-16,mlp-16-deep,mlp-256,mlp"
BATCHES = "32,1,256,8,64,2,128,4,16"
OUTS = {"data-movement": Path("runs/data-movement"), "plans": Path("study")}


def study(
    what: Annotated[
        str,
        typer.Argument(
            metavar="|".join(STUDIES),
            help="What is studied: computing against moving data, measured here; or plans: every workload by every "
            "batch, accumulation, device, power mode and precision, predicted.",
        ),
    ],
    nets: Annotated[
        Optional[str],  # noqa: UP045 - typer reads the annotation on Python 3.10 too
        typer.Option(
            help=f"Workloads, with commas. [default: {NETS}; of plans it has to be named]",
            metavar="NAME,...",
        ),
    ] = None,
    batch: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Batch sizes, with commas, in the order in which they are trained; of plans ranges, too: 1-64. "
            f"[default: {BATCHES}; of plans 1-64]",
            metavar="N,...",
        ),
    ] = None,
    on: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--on", help="Of plans: devices, see devices.", metavar="DEVICE,..."),
    ] = None,
    accumulate: Annotated[
        str,
        typer.Option(help="Of plans: batches of an update, as --batch.", metavar="N,..."),
    ] = "1",
    precision: Annotated[
        str, typer.Option(help="Of plans: of the training, with commas.", metavar="KIND,...")
    ] = "fp32",
    checkpointing: Annotated[
        bool,
        typer.Option(
            "--checkpointing", help="Of plans: with activation checkpointing as well as without."
        ),
    ] = False,
    scheduler: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Of plans: a Dask scheduler, on whose workers it is predicted.",
            metavar="tcp://...",
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="Measured time of each training.", metavar="S")
    ] = 3.0,
    processor: Annotated[
        str,
        typer.Option(
            help="opencl, or opencl:1 for the second device; several with commas.",
            metavar="NAME,...",
        ),
    ] = "opencl",
    within: Annotated[
        float,
        typer.Option(
            help="No further training begins after so long; the same command goes on.", metavar="S"
        ),
    ] = 1200.0,
    threads: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Of the CPU's trainings. [default: torch's choice]", metavar="N"),
    ] = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            *OUT,
            help="Folder of the study; one that was ended goes on. [default: runs/data-movement; of plans study]",
            metavar="DIR",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train nets on the CPU and on OpenCL, with values that cross or stay; or predict very many trainings."""
    from wattstep.cli.options import parse_batches
    from wattstep.cli.saying import say
    from wattstep.insight.compare.data_movement import Asked
    from wattstep.sweep.data_movement import study as make

    if not within > 0:
        raise InvalidValueError(f"--within {within:g}: it must be more than 0", id="out-of-range")
    if what not in STUDIES:
        raise InvalidValueError(f"no study {what!r}: there is {', '.join(STUDIES)}", id="no-study")
    out = out or OUTS[what]
    if what == "plans":
        from wattstep.cli.study_plans import study_plans

        study_plans(
            nets, on, batch or "1-64", accumulate, precision, checkpointing=checkpointing, scheduler=scheduler, out=out,
            json=json, quiet=quiet,
        )  # fmt: skip
        return
    asked = Asked(
        nets=[name.strip() for name in (nets or NETS).split(",")], batches=parse_batches(batch or BATCHES),
        seconds=seconds, threads=threads,
        processors=list(dict.fromkeys(name.strip() for name in processor.split(","))),
    )  # fmt: skip

    def begin(name: str, number: int, of: int) -> None:
        if not quiet:
            say(f"{name} ({number} of {of})")

    made = make(
        asked, out, begin, lambda progress: None, say if not quiet else lambda text: None, within
    )
    from wattstep.report.html.data_movement import FILE, write_study_page

    write_study_page(made, out / FILE)
    if json:
        from wattstep.report.json_document import dump

        dump(made.document(), sys.stdout)
        return
    from wattstep.cli.screen import screen
    from wattstep.report.terminal.data_movement import print_study

    print_study(made, screen())
    print(f"\nThe page: {out / FILE}")

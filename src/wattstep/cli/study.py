"""`wattstep study data-movement`: computing against moving data, on the CPU and on an OpenCL device."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Optional

import typer

from wattstep.cli.options import OUT, Json, Quiet
from wattstep.errors import InvalidValueError

STUDIES = ("data-movement",)


def study(
    what: Annotated[str, typer.Argument(metavar="data-movement", help="What is studied.")],
    nets: Annotated[
        str, typer.Option(help="Workloads, with commas.", metavar="NAME,...")
    ] = "mlp-16,mlp-16-deep,mlp-256,mlp",
    batch: Annotated[
        str, typer.Option(help="Batch sizes, with commas.", metavar="N,...")
    ] = "1,4,16,64,256",
    seconds: Annotated[
        float, typer.Option(help="Measured time of each training.", metavar="S")
    ] = 3.0,
    processor: Annotated[
        str, typer.Option(help="opencl, or opencl:1 for the second device.", metavar="NAME")
    ] = "opencl",
    threads: Annotated[
        Optional[int],  # noqa: UP045 - typer reads the annotation on Python 3.10 too
        typer.Option(help="Of the CPU's trainings. [default: torch's choice]", metavar="N"),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(*OUT, help="Folder of the study; one that was ended goes on.", metavar="DIR"),
    ] = Path("runs/data-movement"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train nets on the CPU and on OpenCL, with values that cross at every operation or stay."""
    from wattstep.cli.options import parse_batches
    from wattstep.cli.saying import say
    from wattstep.insight.compare.data_movement import Asked
    from wattstep.sweep.data_movement import study as make

    if what not in STUDIES:
        raise InvalidValueError(f"no study {what!r}: there is {', '.join(STUDIES)}", id="no-study")
    asked = Asked(
        nets=[name.strip() for name in nets.split(",")], batches=parse_batches(batch),
        seconds=seconds, processor=processor, threads=threads,
    )  # fmt: skip

    def begin(name: str, number: int, of: int) -> None:
        if not quiet:
            say(f"{name} ({number} of {of})")

    made = make(asked, out, begin, lambda progress: None, say if not quiet else lambda text: None)
    if json:
        print(json_module.dumps(made.document()))
        return
    from wattstep.cli.screen import screen
    from wattstep.report.terminal.data_movement import print_study

    print_study(made, screen())

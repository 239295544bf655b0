"""`wattstep study data-movement`: computing against moving data, on the CPU and on an OpenCL device."""

from __future__ import annotations

import sys
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
        str,
        typer.Option(
            help="Batch sizes, with commas, in the order in which they are trained.",
            metavar="N,...",
        ),
    ] = "32,1,256,8,64,2,128,4,16",
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
        Optional[int],  # noqa: UP045 - typer reads the annotation on Python 3.10 too
        typer.Option(help="Of the CPU's trainings. [default: torch's choice]", metavar="N"),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            *OUT,
            help="Folder of the study and its page; one that was ended goes on.",
            metavar="DIR",
        ),
    ] = Path("runs/data-movement"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train nets on the CPU and on OpenCL, with values that cross at every operation or stay."""
    from wattstep.cli.options import parse_batches
    from wattstep.cli.saying import say
    from wattstep.insight.compare.data_movement import Asked
    from wattstep.sweep.data_movement import study as make

    if not within > 0:
        raise InvalidValueError(f"--within {within:g}: it must be more than 0", id="out-of-range")
    if what not in STUDIES:
        raise InvalidValueError(f"no study {what!r}: there is {', '.join(STUDIES)}", id="no-study")
    asked = Asked(
        nets=[name.strip() for name in nets.split(",")], batches=parse_batches(batch),
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

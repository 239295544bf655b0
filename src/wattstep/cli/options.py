"""Options that mean the same in every command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from wattstep.errors import InvalidValueError, RunExistsError

Json = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output, nothing else there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Interval = Annotated[
    str, typer.Option(help="Period of the sampler, 1ms at the finest.", metavar="DURATION")
]
Trace = Annotated[
    str, typer.Option(help="Which steps are traced: auto, none or every:N.", metavar="MODE")
]
Warmup = Annotated[int, typer.Option(help="First steps that do not count.", metavar="N")]
PowerModel = Annotated[
    Optional[str],  # noqa: UP045 - typer reads the annotation on Python 3.10 too
    typer.Option(
        "--power-model",
        help="Where no power sensor is: vcpu, or linear:IDLE,BUSY in watts a core. "
        "The figures are then marked as modelled.",
        metavar="MODEL",
    ),
]
Out = Annotated[
    Path, typer.Option("--out", help="Folder in which runs are written.", metavar="DIR")
]
Name = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--name", help="Name of the run; made from workload and time where not given."),
]


def run_folder(out: Path, name: str | None, made_up: str) -> str:
    """Where a run goes.

    Raises:
        InvalidValueError: `out` is a run itself, or `name` is no plain name.
        RunExistsError: It is taken.
    """
    if (out / "run.json").exists():
        raise InvalidValueError(
            f"{out} is a run already: --out names the folder in which runs are written"
        )
    if name is not None and (Path(name).name != name or name in ("", ".", "..")):
        raise InvalidValueError(f"--name {name!r}: a plain name is wanted; --out takes the folder")
    folder = out / (name or made_up)
    if folder.exists():
        raise RunExistsError(f"{folder} exists already: choose another --name, or remove it first")
    return str(folder)

"""`wattstep profile`: record somebody's own training script, unchanged."""

from __future__ import annotations

import sys
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
from wattstep.errors import DamagedRunError, InvalidValueError

# What follows the script's name is the script's.
CONTEXT = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
}


def profile(
    context: typer.Context,
    script: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="SCRIPT [ARGS...]", help="The script, and its own arguments."),
    ] = None,
    module: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("-m", help="Run a module instead: -m package -- args.", metavar="MODULE"),
    ] = None,
    step_marker: Annotated[
        str,
        typer.Option(
            help="What ends a step: optimizer (the first one's step), backward, "
            "or call:MODULE:FUNCTION.",
            metavar="MARKER",
        ),
    ] = "optimizer",
    warmup: Warmup = 3,
    interval: Interval = "10ms",
    trace: Trace = "auto",
    power_model: PowerModel = None,
    out: Out = Path("runs"),
    name: Name = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Record a training script of your own, without a change to it."""
    from wattstep.cli.showing import show_runs
    from wattstep.profiling import ProfileSettings, profile_in_child, rank_suffix, run_name

    arguments = [*context.args]
    if module is not None:
        target = module
        if script is not None:
            arguments = [script, *arguments]
        arguments = arguments[1:] if arguments[:1] == ["--"] else arguments
    elif script is not None:
        target = script
    else:
        raise InvalidValueError("what is to be profiled? wattstep profile SCRIPT [ARGS...]")
    settings = ProfileSettings(
        script=target,
        module=module is not None,
        arguments=tuple(arguments),
        step_marker=step_marker,
        warmup=warmup,
        interval=interval,
        trace=trace,
        power_model=power_model,
        script_output="stderr" if json else "stdout",
    )
    folder = run_folder(out, name and name + rank_suffix(), run_name(settings))
    code, path = profile_in_child(settings, folder)
    try:
        if json or not quiet:
            show_runs([path], json)
    except DamagedRunError as error:
        if code == 0:
            raise
        print(f"wattstep: {error}", file=sys.stderr)
    raise typer.Exit(code)

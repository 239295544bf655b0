"""`wattstep live`: watch a run while another process records it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from wattstep.cli.options import Json
from wattstep.cli.saying import say


def live(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="[RUN]", help="A run, or a folder of runs: the newest that is being recorded."
        ),
    ] = Path("runs"),
    once: Annotated[
        bool, typer.Option("--once", help="One picture of this moment, of a closed run as well.")
    ] = False,
    json: Json = False,
) -> None:
    """Watch a run that is being recorded: speed, power, heat, memory, time and joules left.

    Ctrl-C ends the view; the run goes on. --json prints one picture of this moment.
    """
    from rich.console import Console

    from wattstep.cli.live_view import a_moment, picture, tell, watch
    from wattstep.errors import DamagedRunError, InvalidValueError
    from wattstep.live.finding import find_run
    from wattstep.live.monitor import LiveMonitor

    path = find_run(run)
    monitor = LiveMonitor(path)
    snapshot = monitor.look()
    if not snapshot.workload and snapshot.problems:
        raise DamagedRunError(snapshot.problems[0])
    if json:
        from wattstep.report.json_document import dump

        dump({"snapshot": snapshot.to_dict()}, sys.stdout)
    elif once:
        console = Console()
        console.print(picture(snapshot, console))
    elif snapshot.over:
        raise InvalidValueError(
            f"{path} is {snapshot.state}, nothing goes on there: wattstep live {path} --once shows "
            "it as it stands, wattstep report all of it"
        )
    else:
        screen = Console(stderr=True)
        if screen.is_terminal:
            last = watch(monitor, screen, a_moment)
        else:
            last = tell(monitor, lambda line: say(line))
        if last.over:
            say(f"wattstep: {path}: the recording is over ({last.state})")

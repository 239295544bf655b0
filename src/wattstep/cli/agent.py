"""`wattstep agent`: the one file that records on boards with an old Python, and the run from what it recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from wattstep.cli.options import OUTPUT, Json
from wattstep.errors import InvalidValueError


def agent(
    output: Annotated[
        Path,
        typer.Option(
            *OUTPUT, help="The file to write, or with --join the new run.", metavar="FILE"
        ),
    ],
    look: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="What the board has: what `python3 wattstep_agent.py look` printed there.",
            metavar="FILE",
        ),
    ] = None,
    join: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="The folder that the agent recorded into.", metavar="FOLDER"),
    ] = None,
    json: Json = False,
) -> None:
    """Record on a board where nothing may be installed, Python 3.6 and later: one file."""
    if look is not None and join is not None:
        raise InvalidValueError(
            "--look makes a file for a board, --join a run: one at a time", id="one-at-a-time"
        )
    if join is not None:
        from wattstep.cli.showing import show_runs
        from wattstep.remote.agent.joining import join as join_recording

        show_runs([join_recording(join, output)], json)
        return
    path = _write(output, look)
    if json:
        from json import dumps

        print(dumps({"agent": str(path)}))
    elif look is None:
        print(
            f"{path}: it can look only. On the board: python3 {path.name} look > look.json; then "
            f"here: wattstep agent --look look.json -o {path}"
        )
    else:
        print(f"{path}: on the board: python3 {path.name} run SCRIPT ARGS...")


def _write(output: Path, look: Path | None) -> Path:
    from wattstep.remote.agent.looking import parse_look
    from wattstep.remote.agent.making import bare_agent, make_agent

    try:
        text = bare_agent() if look is None else make_agent(parse_look(look.read_bytes()))
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidValueError(
            f"{error.filename}: {(error.strerror or '').lower()}", id="unusable-file"
        ) from error
    return output

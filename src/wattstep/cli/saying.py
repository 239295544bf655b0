"""Lines on standard error: whatever is in them steers no terminal, and each stays one line."""

from __future__ import annotations

import sys
from typing import Final, NoReturn

import typer

from wattstep.errors import WattstepError
from wattstep.report.values import plain
from wattstep.schema.failures import Failures

REFUSED: Final = 2


def say(text: object) -> None:
    """Prints one line on standard error, at once.

    Args:
        text: Text of the line; names, paths and errors of unknown origin may be in it.
    """
    print(plain(text), file=sys.stderr, flush=True)


def refuse(error: WattstepError) -> NoReturn:
    """Ends the command with the line of the error."""
    say(f"wattstep: {error}")
    raise typer.Exit(REFUSED)


def say_failures(failures: Failures) -> None:
    """Prints a line for each part that failed, and how many there were."""
    for failure in failures:
        say(f"wattstep: failed: {failure.part}: {failure.reason}")
    if len(failures):
        parts = "1 part" if len(failures) == 1 else f"{len(failures)} parts"
        say(f"wattstep: {parts} failed inside, the others are whole; please report it")

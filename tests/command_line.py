"""The command line within this process, told as a child would be: for all that need no process of their own."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

import typer.testing  # noqa: F401 - typer loads before standard streams are replaced

from wattstep.cli import run_command_line

Command = Callable[..., tuple[int, str, str]]  # its words; exit code, output and errors


def wattstep(
    *arguments: object, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> CompletedProcess[str]:
    """Runs a command.

    Args:
        arguments: What stands behind `wattstep`.
        cwd: Where it is called; None: here.
        env: Variables that it has besides those of this process.

    Returns:
        Exit code, standard output and standard error.
    """
    command = ["wattstep", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", command),
        mock.patch.dict(os.environ, env or {}),
        _within(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = run_command_line()
    return CompletedProcess(command, code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _within(folder: Path) -> Iterator[None]:
    """As `contextlib.chdir` of Python 3.11."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)

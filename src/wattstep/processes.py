"""How parts of wattstep are started in child processes of their own."""

from __future__ import annotations

import sys
from pathlib import Path

_START = (
    "import sys, importlib; sys.path[:] = sys.argv.pop(1).splitlines(); "
    "module, function = sys.argv.pop(1).split(':'); "
    "raise SystemExit(getattr(importlib.import_module(module), function)())"
)


def child_command(entry: str, *arguments: str) -> list[str]:
    """The command that calls `entry` ("module:function") in a child with the same import path.

    `-m` would put the user's working directory first, and a file of theirs could shadow a library;
    here the child searches exactly where the parent does. The function finds `arguments` from
    `sys.argv[1]` on; what it returns is the exit code.
    """
    paths = "\n".join(str(Path(entry or ".").absolute()) for entry in sys.path)
    return [sys.executable, "-c", _START, paths, entry, *arguments]

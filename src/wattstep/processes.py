"""How parts of wattstep are started in child processes of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

_START = """\
import sys
try:
    import importlib
    sys.path[:] = sys.argv.pop(1).splitlines()
    module, function = sys.argv.pop(1).split(":")
    code = getattr(importlib.import_module(module), function)()
except KeyboardInterrupt:
    code = 130
raise SystemExit(code)
"""


def child_command(entry: str, *arguments: str) -> list[str]:
    """The command that calls `entry` ("module:function") in a child with the same import path.

    `-m` would put the user's working directory first, and a file of theirs could shadow a library;
    here the child searches exactly where the parent does. The function finds `arguments` from
    `sys.argv[1]` on; what it returns is the exit code.
    """
    paths = "\n".join(str(Path(entry or ".").absolute()) for entry in sys.path)
    return [sys.executable, "-c", _START, paths, entry, *arguments]


def outwait(child: subprocess.Popen[Any]) -> int:
    """The exit code of a child, which gets Ctrl-C as well and may take its time to end."""
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            continue


@contextmanager
def ends_with_us(child: subprocess.Popen[Any]) -> Iterator[None]:
    """Passes SIGTERM on to a child, which would go on without us (torchrun ends ranks so)."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return

    def pass_on(number: int, _: FrameType | None) -> None:
        child.send_signal(number)

    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

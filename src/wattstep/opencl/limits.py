"""Work with a driver in a process of its own: one that hangs is ended, and one that crashes takes nothing else with it."""

from __future__ import annotations

import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import IO, Any, Final

from wattstep.schema.processes import child_command, ending_words, listen, outwait

SILENT_S: Final = 120.0  # a driver that compiles a kernel for longer hangs
TAIL: Final = 4096  # bytes of what a driver printed that are looked into


def run_limited(
    entry: str,
    arguments: Sequence[str],
    hear: Callable[[Any], None],
    silent_s: float = SILENT_S,
    limit_s: float = math.inf,
) -> str:
    """Runs a function in a child process until it ends, says nothing for too long, or its time is up.

    Args:
        entry: The function, "module:function"; it finds the descriptor for its news, then `arguments`,
            from `sys.argv[1]` on, and returns an exit code.
        arguments: See `entry`.
        hear: Told each of its news, a JSON object a line.
        silent_s: Seconds without news after which it is killed.
        limit_s: Seconds after which it is killed, whatever it says.

    Returns:
        "" where it ended well; else how it ended, with the last that it printed.

    Raises:
        KeyboardInterrupt: Ctrl-C came; the child got it as well.
    """
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as output:
        try:
            child = subprocess.Popen(
                child_command(entry, str(writing), *arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[writing],
                env=dict(os.environ),
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        why = ""
        until = time.monotonic() + limit_s

        def look(silent: float) -> None:
            nonlocal why
            if why:
                return
            if silent > silent_s:
                why = f"it said nothing for {silent_s:g} s, and was ended"
            elif time.monotonic() > until:
                why = f"it was not done after {limit_s:.3g} s, and was ended"
            if why:
                child.kill()

        try:
            stopped = listen(reading, hear, look)
        except BaseException:  # what hears it has had enough
            child.kill()
            raise
        finally:
            code, late = outwait(child)
        if stopped or late:
            raise KeyboardInterrupt
        if why:
            return why
        if code == 0:
            return ""
        last = _last_line(output)
        return f"its process {ending_words(code)}{f': {last}' if last else ''}"


def _last_line(output: IO[bytes]) -> str:
    output.seek(0, os.SEEK_END)
    output.seek(max(output.tell() - TAIL, 0))
    lines = output.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")

"""`python -m wattstep` and the `wattstep` command."""

from __future__ import annotations

import signal
import sys

# Until there is something to end, Ctrl-C ends the process without a traceback.
_INTERRUPTIBLE = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _INTERRUPTIBLE:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from wattstep.schema.extras import staying  # noqa: E402


def main() -> None:
    """Runs the command line."""
    with staying():
        from wattstep.cli import run_command_line

    if _INTERRUPTIBLE:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = run_command_line()
    if _INTERRUPTIBLE:  # how it ended is decided
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


if __name__ == "__main__":
    main()

"""`python -m wattstep` and the `wattstep` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line."""
    from wattstep.cli import run_command_line

    sys.exit(run_command_line())


if __name__ == "__main__":
    main()

"""`python -m wattstep` and the `wattstep` command."""

from __future__ import annotations

import sys

from wattstep.schema.extras import staying


def main() -> None:
    """Runs the command line."""
    with staying():
        from wattstep.cli import run_command_line

    sys.exit(run_command_line())


if __name__ == "__main__":
    main()

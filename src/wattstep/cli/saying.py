"""Lines on standard error: whatever is in them steers no terminal, and each stays one line."""

from __future__ import annotations

import sys

from wattstep.reports.values import plain


def say(text: object) -> None:
    """Prints one line on standard error, at once.

    Args:
        text: What it says; names, paths and errors of unknown origin may be in it.
    """
    print(plain(text), file=sys.stderr, flush=True)

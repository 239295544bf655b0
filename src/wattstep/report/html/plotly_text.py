"""Text for plotly, which would otherwise take tags in it for markup."""

from __future__ import annotations

from wattstep.report.values import plain


def inert(text: object) -> str:
    """Text of unknown origin whose tags mean nothing; it has no place in a template of plotly's."""
    return plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

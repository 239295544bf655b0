"""SQL over recorded runs: their files and their figures as tables, read-only."""

from __future__ import annotations

from wattstep.report.query.asking import Answer, ask, query

__all__ = ["Answer", "ask", "query"]

"""Writes the part of docs/query.md that lists tables and columns.

    python docs/query_tables.py docs/query.md

What stands between the two marks is made from `src/wattstep/report/query/tables.py`; the rest is kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

from wattstep.report.query.tables import TABLES

BEGIN, END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"


def listed() -> str:
    """Every table with its columns, as Markdown."""
    parts = []
    for table in TABLES:
        rows = [f"| `{c.name}` | {c.type} | {c.unit} | {c.meaning} |" for c in table.columns]
        head = ["| column | type | unit | meaning |", "|---|---|---|---|"]
        parts.append(
            "\n".join([f"### `{table.name}`", "", f"A row is {table.meaning}.", "", *head, *rows])
        )
    return "\n" + "\n\n".join(parts) + "\n\n"


def document(text: str) -> str:
    """The document with the list as it should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + listed() + END + after


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(document(path.read_text(encoding="utf-8")), encoding="utf-8")

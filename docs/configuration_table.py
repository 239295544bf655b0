"""Writes the table of the fields by which runs are alike into the page that is given: `python docs/configuration_table.py docs/comparing.md`.

What stands between the two marks is made from `src/wattstep/schema/configuration.py`; the rest is kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

from wattstep.schema.configuration import FIELDS, Rule

BEGIN, END = "<!-- fields: begin -->\n", "<!-- fields: end -->\n"
MEANS = {
    Rule.REFUSE: "another configuration",
    Rule.ENERGY: "another one for energy and power",
    Rule.WARN: "the same one, with a warning",
}


def table() -> str:
    """The fields as a table of Markdown."""
    rows = [
        f"| {field.words.removeprefix('the ')} | {MEANS[field.rule]} | "
        f"{f'`{field.facet}`' if field.facet else ''} | {'yes' if field.chosen else ''} |"
        for field in FIELDS.values()
    ]
    return "\n".join(
        ["| runs that differ in | are | `--across` | a setting that a folder may vary |", "|---|---|---|---|", *rows]
    )  # fmt: skip


if __name__ == "__main__":
    page = Path(sys.argv[1])
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(f"{before}{BEGIN}{table()}\n{END}{rest.partition(END)[2]}", encoding="utf-8")

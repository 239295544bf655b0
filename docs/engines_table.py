"""Writes the table of docs/engines.md: which workload trains on which engine, and why not.

    python docs/engines_table.py docs/engines.md

From `wattstep.engines.trained`, which `benchmarks/engines_trained.py` writes; nothing is typed in.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from wattstep import workloads
from wattstep.engines.trained import UNKNOWN, read_trained

BEGIN: Final = "<!-- trained: begin -->"
END: Final = "<!-- trained: end -->"


def main() -> None:
    """Writes the page named on the command line."""
    page = Path(sys.argv[1])
    page.write_text(document(page.read_text(encoding="utf-8")), encoding="utf-8")


def document(text: str) -> str:
    """The page with today's table between its marks."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table(read_trained())}{END}{tail}"


def table(trained: Mapping[str, Mapping[str, str]]) -> str:
    """A row for each workload, then the reasons."""
    names = sorted(trained)
    counts = [sum(1 for reason in trained[name].values() if not reason) for name in names]
    lines = [
        "| workload | " + " | ".join(names) + " |",
        "|---|" + "---|" * len(names),
    ]
    notes: dict[str, int] = {}
    for workload in workloads.names():
        cells = []
        for name in names:
            reason = trained[name].get(workload)
            if reason is None:
                cells.append("not tried")
            elif reason:
                verdict = UNKNOWN if reason.startswith(UNKNOWN) else "no"
                cells.append(
                    f"{verdict} [{notes.setdefault(_short(reason, workload), len(notes) + 1)}]"
                )
            else:
                cells.append("yes")
        lines.append(f"| {workload} | " + " | ".join(cells) + " |")
    total = [f"{count} of {len(trained[name])}" for name, count in zip(names, counts, strict=True)]
    lines += ["| **all** | " + " | ".join(total) + " |", ""]
    lines += [f"{number}. {reason}" for reason, number in notes.items()]
    return "\n".join(lines) + "\n"


def _short(reason: str, workload: str) -> str:
    """A reason that several workloads share, without the workload's own name."""
    text = reason.replace(f" {workload} ", " it ").removeprefix(f"{workload} ")
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()

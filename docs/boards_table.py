"""Writes docs/boards.md: the boards that are known by a table, and what their rails mean.

    python docs/boards_table.py docs/boards.md

The rows are those of `wattstep boards --json`, run here; nothing is typed in.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HEAD = """\
# Boards

Written by `python docs/boards_table.py docs/boards.md` from `wattstep boards --json`, which reads \
the tables in `src/wattstep/boards`. A table says what the power rails of a board mean, which of \
them make its total, of what kinds its cores are, and which thermal zones are no sensors. The facts \
are from public documents and other people's recordings, named with each board; **none of these \
boards was at hand**: the code that reads them was tried on trees built from these facts and on \
the emulator.

## How a board's power is read

- Rails are found **by their labels**, in every layout of the drivers: NVIDIA's iio driver \
`ina3221x` of JetPack 4 (power in mW), Linux' hwmon driver `ina3221` of JetPack 5 and later (voltage \
times current), the INA238 of a Thor. Buses and devices are numbered anew by every release, and no \
number is relied on. A chip that several paths lead to is read once.
- The **total** is what the table says and never the sum of everything: the input rail where there \
is one (it contains the others), else the rails that add up to the module. If one of these cannot \
be read, there is no total, and the others say so.
- A **combined** rail stays combined: how much of VDD_CPU_GPU_CV is the GPU's cannot be read.
- A rail that no table knows is shown with the domain `unknown`, and is in no total. On a board \
without a table that is so for every rail.
- A rail that fails (EIO, EAGAIN, ENODATA) is a gap in itself; all others go on.
- Power below zero stays below zero: an idle Thor was seen at -392 mW.
- The **step** is the smallest change that a rail can show: 40 µV across its shunt, times the \
voltage. Where the driver names the shunt, it is worked out; else it is the step that was seen in \
recordings. Energy finer than that is not in the data.
- What a value **averages over** depends on the driver: NVIDIA's of JetPack 4 over 422 ms unless the \
device tree says otherwise, Linux' own over its `update_interval`, which its `samples` are part of.

## Totals

| name | board | total | leaves out | averages over | cores | memory seen |
|---|---|---|---|---|---|---|
"""
RAILS = """
## Rails

"total": in the total. "part": contained in the total, or known beside it; never added to it. \
"outside": of the carrier board.

| board | rail | also called | feeds | use | step |
|---|---|---|---|---|---:|
"""
SOURCES = """
## Sources

"""
END = """
A board is missing, or a table is wrong? `docs/adding-a-board.md` says what to do: one TOML file and \
one fixture.
"""
USES = {"power_total": "total", "power_part": "part", "power_outside": "outside"}


def main() -> None:
    """Writes the document to the file that is named."""
    command = [sys.executable, "-m", "wattstep", "boards", "--json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["boards"]
    Path(sys.argv[1]).write_text(document(rows), encoding="utf-8")


def document(rows: list[dict[str, Any]]) -> str:
    """The text, from the rows of the command."""
    text = HEAD + "".join(map(_line, rows)) + RAILS
    text += "".join(_rail(row, rail) for row in rows for rail in row["rails"])
    text += SOURCES + "".join(f"- `{row['name']}`: {row['source']}\n" for row in rows)
    return text + END


def _line(row: dict[str, Any]) -> str:
    sizes = sorted({row["memory"] or 0, *row["memory_variants"]} - {0})
    cells = (
        f"`{row['name']}`",
        row["title"],
        " + ".join(row["total"]) or f"none: {row['no_total']}",
        row["leaves_out"] or "–",
        f"{row['window_s'] * 1e3:g} ms" if row["window_s"] else "as the driver says",
        "; ".join(f"{len(c['cores'])} {c['kind']}" for c in row["clusters"]) or "–",
        ", ".join(f"{size / 1e9:.2f} GB" for size in sizes) or "–",
    )
    return f"| {' | '.join(cells)} |\n"


def _rail(row: dict[str, Any], rail: dict[str, Any]) -> str:
    cells = (
        f"`{row['name']}`",
        rail["label"],
        ", ".join(rail["aliases"]) or "–",
        ", ".join(rail["parts"]),
        USES[rail["role"]] + (f", within {rail['within']}" if rail["within"] else ""),
        f"{rail['quantum_w'] * 1e3:g} mW" if rail["quantum_w"] else "–",
    )
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    main()

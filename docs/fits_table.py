"""Writes docs/what-fits.md from a sweep.

wattstep sweep all --batch 1,4,16 --memory-limit 8GiB --seconds 5 --out tx2-like
python docs/fits_table.py tx2-like docs/what-fits.md
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from wattstep.report.sweep_table import Cell, facts, fit_table, unfit
from wattstep.sweep.folder import load_sweep

HEAD = """\
# What fits into 8 GiB

Written by `python docs/fits_table.py` from a sweep over the whole suite on two virtual cores \
(AMD EPYC under KVM, fp32, torch on the CPU), unattended:

```
wattstep sweep all --batch 1,4,16 --memory-limit 8GiB --steps 3 --warmup 1
```

The whole of it takes **11 min 26 s** here; with `--seconds 5` in place of the three steps it took \
22 min 12 s, with the same outcomes.

Peak resident memory and step time of each configuration, in a fresh process each, as \
[sweeps.md](sweeps.md) says. The last column is the paper's, on its board of 8 GB that CPU, GPU \
and system share, with TensorFlow 1.13 and batch sizes up to 64.

"""
AFTER = """
Where the paper says "never starts" and it trains here, that is a finding: another framework, on \
another processor, at CIFAR-10's 32×32 (the paper does not state its image size). What takes the \
memory here stands in [memory.md](memory.md). The limit bounds the training alone; on a board the \
system (1.4 to 1.6 GiB on a TX2) and the GPU's libraries come on top. Step times are of three \
steps each: take them as an order of magnitude.
"""


def main() -> None:
    """Writes the page of the sweep named on the command line."""
    sweep = load_sweep(Path(sys.argv[1]), warn=lambda text: print(text, file=sys.stderr))
    Path(sys.argv[2]).write_text(document(sweep), encoding="utf-8")


def document(sweep: dict[str, Any]) -> str:
    """Text of docs/what-fits.md from the JSON document of a sweep."""
    table = fit_table(sweep)
    names = ["workload", *(f"batch {batch}" for batch in table.batches), "successful training?"]
    lines = [_line([*names, "in the paper"]), _line(["---"] * (len(names) + 1))]
    for row in table.rows:
        cells = [_cell(cell) for cell in row.cells]
        lines.append(_line([f"`{row.title}`", *cells, row.verdict, row.paper]))
    text = HEAD + "".join(lines) + "\n"
    text += "".join(f"- {name}: {words}\n" for name, words in facts(sweep) if name != "Machine")
    for name, reason, evidence in unfit(sweep):
        text += f"- `{name}`: {reason} ({'; '.join(evidence)})\n"
    return text + AFTER


def _cell(cell: Cell) -> str:
    return ", ".join(cell.words)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    main()

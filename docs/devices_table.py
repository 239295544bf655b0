"""Writes docs/devices.md: the devices that predictions know, and what their values rest on.

    python docs/devices_table.py docs/devices.md

The rows are those of `wattstep devices --json`, run here; nothing is typed in.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from wattstep.devices.table import BASES
from wattstep.schema.spelling import quantity, spell

HEAD = """\
# Devices

Written by `python docs/devices_table.py docs/devices.md` from `wattstep devices --json`, which \
reads the files in `src/wattstep/devices`. A device's file says what a prediction needs of it: \
memory, processors with their peak rates, power by part, heat, power modes, battery. **No value is a \
plain number**: each has a range that holds the true value in 90 % of cases, a source, and a basis:

- **datasheet**: the maker's figure, or arithmetic on it (cores × operations in a cycle × clock);
- **published measurement**: somebody measured it on such a device and says how;
- **calibration**: fitted to recordings of the device;
- **estimate**: nobody published it. Its ends are 1.5 times apart or more (10 °C for a temperature); \
a narrower one is refused.

`wattstep devices` lists them, `wattstep devices jetson-tx2` shows each value with its range, basis \
and source, `--json` has both. A name may be short (`tx2`, `orin-nano`, `rpi5`, `sd855`). None of \
these devices was at hand.

| name | device | memory | usable | FP32 at most | bandwidth | idle | full |
|---|---|---|---|---|---|---|---|
"""
BASIS = """
A prediction is as sure as these values. How many of them rest on what, and what a device lacks:

| name | {bases} | missing |
|---|{rules}---|
"""
END = """
What a board's table says already (memory, clusters and their clocks, the GPU's and the memory's \
clock, modes, where throttling begins, what the total of its rails leaves out) is read from there \
([boards](boards.md)) and stands as `boards/NAME.toml` among the sources.

## What the values mean

| key | value |
|---|---|
| `memory.size` | bytes that the operating system manages |
| `memory.usable` | bytes beyond the idle system's that a training can take before memory runs out |
| `memory.bandwidth` | rate at the memory's pins, at `memory.clock`, which predictions use: the fitted efficiencies are of it; `processors.*.bandwidth` is what one processor alone gets of it |
| `floors.FRAMEWORK.memory` | what a framework takes before the network matters: of the whole `system`, or resident in the `process` |
| `floors.FRAMEWORK.start` | time from the start of its process to the first step of a small network |
| `processors.*.peak` | operations a second of all its cores at `max_hz`, by precision |
| `processors.*.launch` | time that starting one operation takes |
| `processors.*.link` | rate of copies between the host's memory and a GPU's own |
| `storage.read`, `storage.write` | rate at which a large file comes from the disk, and gets onto it (`storage.title` says which kind); what a card or drive of the kind does, since nobody published a training's |
| `power.idle`, `power.full` | in all, as the device's own total (or a meter in its supply) counts |
| `power.parts.*` | at the rails of `cpu`, `gpu`, `memory`, `soc`, and the `rest`: idle, and what full load adds. All = (cpu + gpu + memory + soc) / `efficiency` + rest |
| `power.clock_exponent` | the power of their clock that what CPU and GPU add goes with |
| `thermal.*` | kelvin above the air for each watt, time constant, where throttling begins, the air assumed |
| `modes.*` | highest clocks, cores in use, the budget that names the mode, and what was drawn in it: in all (`full`), and by a part beyond idle (`dynamic`); `set_by`: how a device gets into it, where that is no mode of its maker's |
| `kinds.FRAMEWORK.KIND.*` | what a fit to measured trainings found for a kind of operations, in the fit's own terms, and where it was `fitted` |

Parts that share a rail (VDD_CPU_GPU_CV) are divided by estimate: the rail says their sum.

## A device of your own

A TOML file: `wattstep devices path/to/mine.toml` shows it, and what it lacks with what would tell \
it. The least that is read:

```toml
title = "A board of mine"

[memory]
unified = true  # CPU and GPU use the same
size = { value = 4.1e9, low = 4.0e9, high = 4.1e9, basis = "datasheet", source = "4 GB, less what firmware keeps" }

[processors.cpu]
kind = "cpu"
title = "4 Cortex-A55"
cores = 4
per_cycle = { fp32 = 8 }
max_hz = { value = 1.8e9, low = 1.8e9, high = 1.8e9, basis = "datasheet", source = "cpufreq" }
peak.fp32 = { value = 5.76e10, low = 4.5e10, high = 5.76e10, basis = "datasheet", source = "4 cores x 8 x 1.8 GHz" }

[power]

[thermal]
```

In Python, `wattstep.devices.find("tx2")` is the same record: `.memory.usable.low`, `.missing`, \
`.values()`.

Begin with the file of the nearest device; `board = "NAME"` reads a board's table. SI units, \
temperatures in °C. Keys are the fields of the classes in `src/wattstep/devices/table.py`; what is \
wrong is refused with file, key and reason.

**To add a device to wattstep**: put the file into `src/wattstep/devices`, add its bandwidth (width × \
transfers) and, where they are known, its peaks to the tables at the head of \
`tests/devices/test_devices.py`, worked out by hand, and write this document anew. The tests hold \
each file to its own arithmetic: peaks against cores and clocks, idle parts against the idle total, \
full load against what the parts can draw.
"""


def main() -> None:
    """Writes the document to the file that is named."""
    command = [sys.executable, "-m", "wattstep", "devices", "--json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["devices"]
    Path(sys.argv[1]).write_text(document(rows), encoding="utf-8")


def document(rows: list[dict[str, Any]]) -> str:
    """The text, from the rows of the command."""
    text = HEAD + "".join(map(_line, rows))
    text += BASIS.format(bases=" | ".join(BASES), rules="---:|" * len(BASES))
    text += "".join(map(_counts, rows))
    return text + END


def _line(row: dict[str, Any]) -> str:
    peaks = [f"processors.{name}.peak.fp32" for name in row["processors"]]
    peak = max(
        (row["values"][key] for key in peaks if key in row["values"]),
        key=lambda value: value["value"],
    )
    keys = ("memory.bandwidth", "power.idle", "power.full")
    cells = (
        f"`{row['name']}`", row["title"], _ranged(row["values"]["memory.size"]),
        _ranged(row["values"]["memory.usable"]), _ranged(peak),
        *(_ranged(row["values"][key]) for key in keys),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |\n"


def _ranged(value: dict[str, Any]) -> str:
    """A value with its range: "13.0 W (9.0 to 16.0)"."""
    if value["low"] == value["high"]:
        return quantity(value["value"], value["unit"])
    spelling = spell(value["value"], value["unit"], value["low"], value["high"])
    return f"{spelling.value} ({spelling.interval})"


def _counts(row: dict[str, Any]) -> str:
    counts = Counter(value["basis"] for value in row["values"].values())
    cells = (f"`{row['name']}`", *(str(counts[basis]) for basis in BASES))
    return f"| {' | '.join(cells)} | {', '.join(row['missing']) or 'nothing'} |\n"


if __name__ == "__main__":
    main()

"""`wattstep doctor`: what this machine can measure, at what cost, and what it cannot and why."""

from __future__ import annotations

import sys
from typing import Any

from wattstep.cli.options import Interval, Json


def doctor(interval: Interval = "10ms", json: Json = False) -> None:
    """Show what this machine can measure, at what cost, and what it cannot and why."""
    from wattstep.diagnosis import diagnose

    if not json:
        print("sampling for two seconds ...", file=sys.stderr)
    found = diagnose(interval)
    if json:
        from wattstep.reports.json_document import dump

        dump(found, sys.stdout)
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    device = found["device"]
    virtual = {True: "virtual", False: "not virtual", None: "unknown whether virtual"}
    console.print(
        f"{device['cpu']}, {device['cores']} cores, {_size(device['memory'])}, "
        f"{device['system']}, Linux {device['kernel']}, {virtual[device['virtual']]}",
        markup=False, highlight=False,
    )  # fmt: skip
    table = Table(
        "channel", "value", "smallest change", "new value every", "read takes", box=None,
        title="What is sampled", title_justify="left",
    )  # fmt: skip
    absent = Table("sensor", "reason", box=None, title="What is not", title_justify="left")
    for sensor in found["sensors"]:
        if not sensor["present"]:
            absent.add_row(sensor["name"], sensor["reason"])
        for row in sensor["channels"]:
            table.add_row(
                row["name"],
                _value(row["value"], row["unit"]),
                _value(row["resolution_seen"], row["unit"]),
                _value(row["update_interval"], "s"),
                _value(row["read_cost"], "s"),
            )
    console.print(table)
    console.print()
    console.print(absent)
    console.print("\nThe sampler", style="italic")
    for name, thing in found["sampler"].items():
        shown = thing if isinstance(thing, str) else _value(thing["value"], thing["unit"])
        console.print(f"  {name}: {shown}", markup=False, highlight=False)
    console.print(
        f"  an hour of samples takes {_size(found['disk_bytes_an_hour'])} on disk while it records; "
        "marks add 64 bytes a step and up to 10 kB a second",
        highlight=False,
    )


def _size(size: float | None) -> str:
    return "unknown memory" if size is None else _value(size, "B")


def _value(value: float | None, unit: str) -> str:
    """A plain number with its unit, in a range that reads well; "-" for none."""
    from wattstep.reports.values import quantity

    return "-" if value is None else quantity(value, unit)

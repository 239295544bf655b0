"""`wattstep devices`: what is known of a device for predictions, each value with its range and source."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.options import Json

if TYPE_CHECKING:
    from wattstep.devices.table import Device, Value


def devices(
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(
            autocompletion=completing.devices,
            metavar="[NAME]",
            help="One device, or a TOML file of your own; all where not given.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the devices that predictions know: memory, peak rates, power, and what is missing."""
    from wattstep import devices as files

    names = files.names() if name is None else [name]
    shown = [files.find(one) for one in names]
    if json:
        from wattstep.report.json_document import dump

        dump({"devices": [row(device) for device in shown]}, sys.stdout)
    elif name is None:
        _show_all(shown)
    else:
        _show_one(shown[0])


def row(device: Device) -> dict[str, Any]:
    """A device as JSON has it: what names and counts it, then each value by its key."""
    return {
        "name": device.name,
        "title": device.title,
        "board": device.board.name if device.board else None,
        "aliases": list(device.aliases),
        "note": device.note,
        "unified_memory": device.memory.unified,
        "floors": {name: floor.counted for name, floor in device.floors.items()},
        "processors": {
            name: {
                "kind": one.kind,
                "title": one.title,
                "cores": one.cores or None,
                "per_cycle": dict(one.per_cycle),
            }
            for name, one in device.processors.items()
        },
        "leaves_out": device.power.leaves_out,
        "no_total": device.power.no_total,
        "values": {key: {**asdict(value), "unit": unit} for key, unit, value in device.values()},
        "modes": {
            name: {"cores": dict(mode.cores), "set_by": mode.set_by}
            for name, mode in device.modes.items()
        },
        "fitted": {
            framework: {kind: one.fitted for kind, one in kinds.items()}
            for framework, kinds in device.kinds.items()
        },
        "missing": dict(device.missing),
    }


def peak_of(device: Device) -> tuple[str, Value] | None:
    """The processor with the highest rate in FP32, and this rate; None: no processor has one."""
    peaks = [
        (name, one.peak["fp32"]) for name, one in device.processors.items() if "fp32" in one.peak
    ]
    return max(peaks, key=lambda peak: peak[1].value, default=None)


def brief(value: Value | None, unit: str) -> str:
    """A value without its range: "13.0 W", an estimate as "~13.0 W"; "–" where there is none."""
    from wattstep.schema.spelling import quantity

    if value is None:
        return "–"
    return ("~" if value.basis == "estimate" else "") + quantity(value.value, unit)


def _show_all(shown: Sequence[Device]) -> None:
    from wattstep.cli.screen import plain_table, screen
    from wattstep.report.terminal.folding import print_table

    headings = ("name", "memory", "usable", "FP32 at most", "bandwidth", "idle", "full", "missing")
    table = plain_table(*headings)
    table.columns[0].no_wrap = True
    for device in shown:
        peak = peak_of(device)
        memory, power = device.memory, device.power
        table.add_row(
            device.name, brief(memory.size, "B"), brief(memory.usable, "B"),
            f"{brief(peak[1], 'FLOP/s')} {peak[0]}" if peak else "–", brief(memory.bandwidth, "B/s"),
            brief(power.idle, "W"), brief(power.full, "W"), ", ".join(device.missing) or "nothing",
        )  # fmt: skip
    console = screen()
    print_table(table, console)
    console.print()
    console.print(
        "~ is an estimate. Ranges and sources: wattstep devices NAME", markup=False, highlight=False
    )


def _show_one(device: Device) -> None:
    from wattstep.cli.screen import plain_table, screen
    from wattstep.report.terminal.folding import print_table

    console = screen()
    console.print(f"{device.name}: {device.title}", style="bold", markup=False, highlight=False)
    for line in _facts(device):
        console.print(line, markup=False, highlight=False)
    table = plain_table("", "value", "90 % range", "basis", "source")
    table.columns[0].no_wrap = True
    for section, values in groupby(device.values(), key=lambda each: _section(each[0])):
        table.add_row(section, "", "", "", _about(device, section), style="bold")
        for key, unit, value in values:
            table.add_row("  " + key.removeprefix(f"{section}."), *_cells(value, unit))
    table.add_row("missing", "", "", "", "" if device.missing else "nothing", style="bold")
    for key, supplied_by in device.missing.items():
        table.add_row(f"  {key}", "", "", "", f"what would tell: {supplied_by}")
    console.print()
    print_table(table, console)


def _facts(device: Device) -> Iterator[str]:
    if device.aliases:
        yield f"also called {', '.join(device.aliases)}"
    if device.note:
        yield device.note
    if device.power.no_total:
        yield device.power.no_total
    if device.power.leaves_out:
        yield f"power leaves out {device.power.leaves_out}"


def _section(key: str) -> str:
    """What a key stands below: "memory", "processors.gpu", "power", 'modes."15W"'."""
    first, _, rest = key.partition(".")
    if first in ("processors", "modes"):
        return f"{first}.{_head(rest)}"
    if first == "kinds":
        framework = _head(rest)
        return f"{first}.{framework}.{_head(rest[len(framework) + 1 :])}"
    return first


def _head(key: str) -> str:
    """The first word of a key, which may stand in quotes and have dots of its own."""
    return key[: key.index('"', 1) + 1] if key.startswith('"') else key.partition(".")[0]


def _about(device: Device, section: str) -> str:
    """What a section's title says beside its key."""
    from wattstep.devices.table import quoted

    for name, processor in device.processors.items():
        if section == f"processors.{quoted(name)}":
            return processor.title
    for name, mode in device.modes.items():
        if section == f"modes.{quoted(name)}":
            cores = (f"{count} cores of {one}" for one, count in mode.cores.items())
            return ", ".join([*cores, *filter(None, [mode.set_by])])
    for framework, kinds in device.kinds.items():
        for kind, fit in kinds.items():
            if section == f"kinds.{quoted(framework)}.{quoted(kind)}":
                return f"fitted on {fit.fitted}" if fit.fitted else ""
    return ""


def _cells(value: Value, unit: str) -> tuple[str, str, str, str]:
    from wattstep.schema.spelling import spell

    spelling = spell(value.value, unit, value.low, value.high)
    interval = "exact" if value.low == value.high else spelling.interval
    return spelling.value, interval, value.basis.removesuffix(" measurement"), value.source

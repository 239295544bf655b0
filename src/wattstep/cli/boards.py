"""`wattstep boards`: the boards whose rails, cores and zones are known, and which of them this machine is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.options import Json

if TYPE_CHECKING:
    from rich.table import Table

    from wattstep.boards.table import Board


def boards(
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(
            autocompletion=completing.boards,
            metavar="[NAME]",
            help="One board; all where not given.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the boards that are known by a table: what makes their total, cores, memory."""
    from wattstep import boards as tables

    here = tables.identify(Path("/"))
    names = tables.names() if name is None else [name]
    rows = [row(tables.find(one)) for one in names]
    if json:
        from wattstep.report.json_document import dump

        dump({"this_machine": here.name if here else None, "boards": rows}, sys.stdout)
    elif name is None:
        _show_all(rows, here)
    else:
        _show_one(rows[0], here)


def row(board: Board) -> dict[str, Any]:
    """A board's table as JSON has it, with the meaning of each rail."""
    from wattstep.boards.rails import meaning

    facts = asdict(board)
    readable = [rail.label for rail in board.rails]
    for rail in facts["rails"]:
        what = meaning(board, rail["label"], readable)
        rail |= {"domain": what.domain, "role": what.role, "note": what.note}
    return {**facts, "cores": sum(len(cluster.cores) for cluster in board.clusters) or None}


def total_of(facts: dict[str, Any]) -> str:
    """Power rails that make the total, in a few words; where there is none, that there is none."""
    rails = facts["total"]
    if len(rails) > 6:
        return f"{len(rails)} rails of its power manager"
    return " + ".join(rails) if rails else "none: no power sensor"


def cores_of(facts: dict[str, Any]) -> str:
    """The cores by kind, e.g. "4 Cortex-A57, 2 Denver2"."""
    count: dict[str, int] = {}
    for cluster in facts["clusters"]:
        count[cluster["kind"]] = count.get(cluster["kind"], 0) + len(cluster["cores"])
    return ", ".join(f"{cores} {kind}" for kind, cores in count.items()) or "–"


def memory_of(facts: dict[str, Any]) -> str:
    """Usable memory in GB, of each module that was seen."""
    sizes = sorted({facts["memory"] or 0, *facts["memory_variants"]} - {0})
    return ", ".join(f"{size / 1e9:.2f} GB" for size in sizes) or "–"


def _show_all(rows: Sequence[dict[str, Any]], here: Board | None) -> None:
    from wattstep.cli.screen import plain_table, screen
    from wattstep.report.terminal.folding import print_table

    table = plain_table("name", "total", "cores", "memory")
    table.columns[0].no_wrap = True
    for facts in rows:
        table.add_row(facts["name"], total_of(facts), cores_of(facts), memory_of(facts))
    console = screen()
    print_table(table, console)
    console.print()
    console.print(f"{_this_machine(here)} More: wattstep boards NAME", highlight=False)


def _this_machine(here: Board | None) -> str:
    if here is None:
        return "This machine is none of them: its rails, if it has any, are shown as unknown."
    return f"This machine is {here.name}."


def _show_one(facts: dict[str, Any], here: Board | None) -> None:
    from rich.console import Console

    from wattstep.cli.screen import plain_table
    from wattstep.report.terminal.folding import print_table

    console = Console(highlight=False, markup=False)
    console.print(f"{facts['name']}: {facts['title']}", style="bold")
    if here is not None and here.name == facts["name"]:
        console.print("This machine is one.")
    lines = {
        "total": " + ".join(facts["total"]) or f"none: {facts['no_total']}",
        "leaves out": facts["leaves_out"],
        "averages over": _number(facts["window_s"], "s"),
        "cores": cores_of(facts),
        "memory": memory_of(facts),
        "GPU": _number(facts["gpu"].get("max_hz"), "Hz"),
        "memory clock": _memory_clock(facts["memory_controller"]),
        "source": facts["source"],
    }
    summary = plain_table("", "")
    summary.show_header = False
    for key, text in lines.items():
        if text:
            summary.add_row(key, text)
    print_table(summary, console)
    for title, table in _parts(facts):
        if table.row_count:
            console.print(f"\n{title}", style="italic")
            print_table(table, console)


def _parts(facts: dict[str, Any]) -> list[tuple[str, Table]]:
    from wattstep.cli.screen import plain_table

    rails = plain_table("rail", "also called", "feeds", "use", "step")
    for rail in facts["rails"]:
        use = {"power_total": "total", "power_outside": "outside the module"}
        rails.add_row(
            rail["label"], ", ".join(rail["aliases"]), ", ".join(rail["parts"]),
            use.get(rail["role"], "part"), _number(rail["quantum_w"], "W"),
        )  # fmt: skip
    clusters = plain_table("cores", "kind", "lowest clock", "highest clock")
    for cluster in facts["clusters"]:
        clusters.add_row(
            ", ".join(map(str, cluster["cores"])), cluster["kind"],
            _number(cluster["min_hz"], "Hz"), _number(cluster["max_hz"], "Hz"),
        )  # fmt: skip
    zones = plain_table("zone", "use", "throttles at", "ends at")
    for zone in facts["zones"]:
        ends = (_number(zone[key], "°C") for key in ("throttle_c", "critical_c"))
        zones.add_row(zone["type"], zone["use"], *ends)
    modes = plain_table("mode", "cores", "GPU", "memory", "named")
    for mode in facts["modes"]:
        limits = (("gpu_hz", "Hz"), ("memory_hz", "Hz"), ("watts", "W"))
        modes.add_row(mode["name"], mode["cores"], *(_number(mode[k], unit) for k, unit in limits))
    return [("Rails", rails), ("Clusters", clusters), ("Zones", zones), ("Power modes", modes)]


def _memory_clock(controller: dict[str, Any]) -> str:
    clock, bits = controller.get("max_hz"), controller.get("bus_bits")
    return _number(clock, "Hz") + (f", {bits} bits" if bits else "")


def _number(value: float | None, unit: str) -> str:
    from wattstep.report.values import quantity

    return "" if value is None else quantity(value, unit)

"""`wattstep doctor`: what this machine can measure, at what cost, and what it cannot and why."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

from rich.text import Text

from wattstep.cli.options import Full, Json, Quiet
from wattstep.cli.settings_options import with_settings
from wattstep.schema.diagnosis import (
    ChannelFacts,
    Diagnosis,
    EngineFacts,
    PowerTotal,
    ProcessorFacts,
    SensorFacts,
)
from wattstep.schema.run_documents import DeviceFacts

if TYPE_CHECKING:
    from rich.console import Console

    from wattstep.record.hosts import Target as Parsed

COUNTED: Final = (
    "s",
    "B",
    "J",
    "events",
    "processes",
)  # totals since the start tell nobody anything
MOST_VALUES: Final = 6
_OF_CORE: Final = re.compile(r"^cpu\d+\.")


@with_settings("interval", "target", "full", "json", "quiet")
def doctor(
    interval: str,
    target: str | None,
    full: Full = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what this machine, or a target, can measure, at what cost, and what it cannot and why."""
    from wattstep.cli.progress import stages_of
    from wattstep.record.hosts import parse_target
    from wattstep.train.doctor import diagnose

    parsed = parse_target(target)
    with stages_of("looking for sensors, and sampling for two seconds", quiet=quiet or json):
        diagnosis = (
            _diagnose_there(parsed, interval)
            if parsed.scheme == "ssh"
            else diagnose(interval, target=target)
        )
    if json:
        from wattstep.report.json_document import dump

        dump(diagnosis, sys.stdout)
    else:
        _show(diagnosis, full)


def _diagnose_there(target: Parsed, interval: str) -> Diagnosis:
    """By a board, of itself."""
    from wattstep.remote.ssh.board import open_execution_host

    with closing(open_execution_host(target, partial(print, file=sys.stderr))) as board:
        return board.diagnose(interval)


def _show(diagnosis: Diagnosis, full: bool) -> None:
    from wattstep.cli.screen import screen

    console = screen()
    lines = [
        *_device(diagnosis["device"]),
        *_gpus(diagnosis.get("processors", ())),
        *_engines(diagnosis.get("engines", ())),
    ]
    for line in (*lines, *diagnosis["notes"], _total(diagnosis["total"])):
        console.print(Text(line))
    (_print_channels if full else _print_sensors)(diagnosis["sensors"], console)
    for name, note in _channel_notes(diagnosis["sensors"], str(diagnosis["total"]["note"] or "")):
        console.print(Text(f"  {name}: {note}"))
    _print_absent(diagnosis["sensors"], console, full)
    for line in (_all_of_sampler if full else _sampler)(diagnosis):
        console.print(Text(line))


def _print_sensors(sensors: Sequence[SensorFacts], console: Console) -> None:
    """A row for each sensor: what it measures, how often there is something new, and what a read costs."""
    from rich.table import Table

    from wattstep.report.terminal.folding import print_table

    table = Table("What is measured", "new value\nevery", "read\ntakes", box=None, pad_edge=False)
    table.padding = (0, 2, 0, 0)
    for sensor in sensors:
        if sensor["present"] and sensor["channels"]:
            every = [c["update_interval"] for c in sensor["channels"] if c["update_interval"]]
            costs = [c["read_cost"] for c in sensor["channels"] if c["read_cost"]]
            values = _values(sensor["channels"])
            table.add_row(
                Text(sensor["description"] + (f": {values}" if values else "")),
                _value(min(every, default=None), "s"),
                _value(sum(costs) if costs else None, "s"),
            )
    console.print()
    print_table(table, console)


def _values(channels: Sequence[ChannelFacts]) -> str:
    """Last values of channels that are read as they are: equal ones of several cores as one."""
    by_name: dict[tuple[str, str], list[float]] = {}
    for channel in channels:
        if channel["value"] is not None and channel["unit"] not in COUNTED:
            name = _OF_CORE.sub("cores ", channel["name"])
            by_name.setdefault((name, channel["unit"]), []).append(channel["value"])
    shown = [
        f"{name} {' to '.join(dict.fromkeys(_value(end, unit) for end in (min(those), max(those))))}"
        for (name, unit), those in by_name.items()
    ]
    more = len(shown) - MOST_VALUES
    return ", ".join(shown[:MOST_VALUES]) + (f" and {more} more" if more > 0 else "")


def _print_channels(sensors: Sequence[SensorFacts], console: Console) -> None:
    """Every channel, a row each."""
    from rich.table import Table

    from wattstep.report.terminal.folding import print_table

    headings = ("value", "smallest change", "new value every", "read takes")
    table = Table("What is sampled", *headings, box=None, pad_edge=False)
    for sensor in sensors:
        for channel in sensor["channels"]:
            table.add_row(
                Text(channel["name"]),
                _value(channel["value"], channel["unit"]),
                _value(channel["resolution_seen"], channel["unit"]),
                _value(channel["update_interval"], "s"),
                _value(channel["read_cost"], "s"),
            )
    console.print()
    print_table(table, console)


def _print_absent(sensors: Sequence[SensorFacts], console: Console, full: bool) -> None:
    """The sensors that are not there, by name; in full by the reason."""
    from rich.table import Table

    from wattstep.report.terminal.folding import print_table

    absent = {each["name"]: each["reason"] or "" for each in sensors if not each["present"]}
    if not absent:
        return
    console.print()
    if not full:
        console.print(Text(f"Not here: {', '.join(absent)} (why: --full)"))
        return
    table = Table("What is not", "reason", box=None, pad_edge=False)
    names: dict[str, list[str]] = {}
    for name, reason in absent.items():
        names.setdefault(reason, []).append(name)
    for reason, those in names.items():
        table.add_row(Text(", ".join(those)), Text(reason))
    print_table(table, console)


def _sampler(diagnosis: Diagnosis) -> list[str]:
    """Rate, lateness and cost of the sampler in a line."""
    words = {
        name: thing if isinstance(thing, str) else _value(thing["value"], thing["unit"])
        for name, thing in diagnosis["sampler"].items()
    }
    lost, late, own, every, scheduled = (
        words.get(name, "-")  # a board's wattstep may be another one
        for name in (
            "lost ticks",
            "lateness, 99th percentile",
            "sampler, share of one core",
            "interval",
            "scheduling",
        )
    )
    return [
        f"The sampler: every {every}, {scheduled}; lost ticks {lost}, 99 of 100 less "
        f"than {late} late; it takes {own} of one core, and {_size(diagnosis['disk_bytes_an_hour'])} on "
        "disk an hour",
    ]


def _all_of_sampler(diagnosis: Diagnosis) -> list[str]:
    lines = ["", "The sampler"]
    for name, thing in diagnosis["sampler"].items():
        shown = thing if isinstance(thing, str) else _value(thing["value"], thing["unit"])
        lines.append(f"  {name}: {shown}")
    return [
        *lines,
        f"  an hour of samples takes {_size(diagnosis['disk_bytes_an_hour'])} on disk while it records; "
        "marks add 32 to 64 bytes a step and up to 10 kB a second",
    ]


def _device(device: DeviceFacts) -> list[str]:
    """Description of the device in one line; a second where its sensors are those of something else."""
    virtual = {True: "virtual", False: "not virtual", None: "unknown whether virtual"}
    facts = [
        device.get("model") if device.get("board") else None,
        device.get("cpu"),
        f"{device['cores']} cores",
        _size(device.get("memory")),
        device.get("system"),
        f"Linux {device['kernel']}" if device.get("kernel") else None,
        virtual[device.get("virtual")],
    ]
    line = ", ".join(fact for fact in facts if fact)
    whose = device.get("sensors_of")
    return [line, f"sensors: {whose}"] if whose else [line]


def _engines(engines: Sequence[EngineFacts]) -> list[str]:
    """Those that are there, and those that are not, in a line."""
    there = [f"{each['engine']} {each['version']}" for each in engines if each["version"]]
    missing = [each["engine"] for each in engines if not each["version"]]
    if not engines:
        return []
    absent = f"; not installed: {', '.join(missing)} (wattstep engines)" if missing else ""
    return [f"engines: {', '.join(there) or 'none'}{absent}"]


def _gpus(processors: Sequence[ProcessorFacts]) -> list[str]:
    """Of each processor beside the CPU, whether engines can use it; a wattstep of before says nothing."""
    from wattstep.engines import DEFAULT

    engines: dict[tuple[str, str], list[str]] = {}
    for each in processors:
        if each["name"] == "cpu" and each["usable"]:
            continue
        engine = each.get("engine", DEFAULT)
        facts = each["facts"]
        words = [
            facts.get("name"),
            f"compute capability {facts['compute_capability']}"
            if "compute_capability" in facts
            else None,
            _size(facts["memory"]) if "memory" in facts else None,
            "of the system's memory" if facts.get("shares_memory") else None,
        ]
        facts_shown = ", ".join(word for word in words if word)
        usable = f"usable ({facts_shown})" if facts_shown else "usable"
        how = usable if each["usable"] else f"not usable: {each['reason']}"
        engines.setdefault((each["name"], how), []).append(engine)
    return [
        f"processor {name}{f' ({of})' if of != DEFAULT else ''}: {how}"
        for (name, how), of in ((key, ", ".join(each)) for key, each in engines.items())
    ]


def _total(total: PowerTotal) -> str:
    if total["source"] is None:
        from wattstep.recorded.series import ASK_DOCTOR

        return f"no total of power: {str(total['note']).removesuffix(ASK_DOCTOR)}"
    status = "" if total["status"] == "measured" else f" ({total['status']})"
    note = f"; {total['note']}" if total["note"] else ""
    return f"power in all{status}: {total['source']}{note}"


def _channel_notes(sensors: list[SensorFacts], of_the_total: str) -> list[tuple[str, str]]:
    """Notes on channels, each text once: with the first channel it is of; without what the total says."""
    notes: dict[str, str] = {}
    for row in (row for sensor in sensors for row in sensor["channels"]):
        note = (row.get("note") or "").removesuffix(of_the_total).removesuffix("; ")
        if note:
            notes.setdefault(note, row["name"])
    return [(name, note) for note, name in notes.items()]


def _size(size: float | None) -> str:
    return "unknown memory" if size is None else _value(size, "B")


def _value(value: float | None, unit: str) -> str:
    """A plain number with its unit, in a range that reads well; "-" for none."""
    from wattstep.report.values import quantity

    return "-" if value is None else quantity(value, unit)

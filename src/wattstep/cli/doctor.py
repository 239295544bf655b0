"""`wattstep doctor`: what this machine can measure, at what cost, and what it cannot and why."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from wattstep.cli.options import Full, Json, Quiet
from wattstep.cli.settings_options import with_settings
from wattstep.schema.diagnosis import Diagnosis, PowerTotal, ProcessorFacts, SensorFacts
from wattstep.schema.run_documents import DeviceFacts

if TYPE_CHECKING:
    from wattstep.record.hosts import Target as Parsed


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
        _show(diagnosis)


def _diagnose_there(target: Parsed, interval: str) -> Diagnosis:
    """By a board, of itself."""
    from wattstep.remote.ssh.board import open_execution_host

    with closing(open_execution_host(target, partial(print, file=sys.stderr))) as board:
        return board.diagnose(interval)


def _show(diagnosis: Diagnosis) -> None:
    from rich.markup import escape
    from rich.table import Table

    from wattstep.cli.screen import screen

    console = screen()
    lines = [*_device(diagnosis["device"]), *_gpus(diagnosis.get("processors", ()))]
    for line in (*lines, *diagnosis["notes"], _total(diagnosis["total"])):
        console.print(line, markup=False, highlight=False)
    table = Table(
        "channel", "value", "smallest change", "new value every", "read takes", box=None,
        title="What is sampled", title_justify="left",
    )  # fmt: skip
    absent = Table("sensor", "reason", box=None, title="What is not", title_justify="left")
    for sensor in diagnosis["sensors"]:
        if not sensor["present"]:
            absent.add_row(escape(sensor["name"]), escape(sensor["reason"] or ""))
        for row in sensor["channels"]:
            table.add_row(
                escape(row["name"]),
                _value(row["value"], row["unit"]),
                _value(row["resolution_seen"], row["unit"]),
                _value(row["update_interval"], "s"),
                _value(row["read_cost"], "s"),
            )
    console.print(table)
    for name, note in _channel_notes(diagnosis["sensors"]):
        console.print(f"  {name}: {note}", markup=False, highlight=False)
    console.print()
    console.print(absent)
    console.print("\nThe sampler", style="italic")
    for name, thing in diagnosis["sampler"].items():
        shown = thing if isinstance(thing, str) else _value(thing["value"], thing["unit"])
        console.print(f"  {name}: {shown}", markup=False, highlight=False)
    console.print(
        f"  an hour of samples takes {_size(diagnosis['disk_bytes_an_hour'])} on disk while it records; "
        "marks add 64 bytes a step and up to 10 kB a second",
        highlight=False,
    )


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


def _gpus(processors: Sequence[ProcessorFacts]) -> list[str]:
    """Of each processor beside the CPU, whether it can be used; a wattstep of before says nothing."""
    from wattstep.engines import DEFAULT

    lines = []
    for each in processors:
        if each["name"] == "cpu" and each["usable"]:
            continue
        engine = each.get("engine", DEFAULT)
        of_engine = "" if engine == DEFAULT else f" ({engine})"
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
        lines.append(f"processor {each['name']}{of_engine}: {how}")
    return lines


def _total(total: PowerTotal) -> str:
    if total["source"] is None:
        from wattstep.recorded.series import ASK_DOCTOR

        return f"no total of power: {str(total['note']).removesuffix(ASK_DOCTOR)}"
    status = "" if total["status"] == "measured" else f" ({total['status']})"
    note = f"; {total['note']}" if total["note"] else ""
    return f"power in all{status}: {total['source']}{note}"


def _channel_notes(sensors: list[SensorFacts]) -> list[tuple[str, str]]:
    """Notes on channels, each text once: with the first channel it is of."""
    notes: dict[str, str] = {}
    for row in (row for sensor in sensors for row in sensor["channels"]):
        if row.get("note"):
            notes.setdefault(row["note"], row["name"])
    return [(name, note) for note, name in notes.items()]


def _size(size: float | None) -> str:
    return "unknown memory" if size is None else _value(size, "B")


def _value(value: float | None, unit: str) -> str:
    """A plain number with its unit, in a range that reads well; "-" for none."""
    from wattstep.report.values import quantity

    return "-" if value is None else quantity(value, unit)

"""Sensors of an Android phone on a cable or in the same network: looked for once, then read by a loop on it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from wattstep.record.sensors.android.look import Dump, LookError, look
from wattstep.record.sensors.android.sections import SECTIONS, Wanted, clusters
from wattstep.record.sensors.android.source import FIRST_ECHO_S, measure_clock
from wattstep.schema.channel import Absent, Channel, Present, SensorRead
from wattstep.schema.run_documents import DeviceFacts

SOURCE = "wattstep.record.sensors.android.source:open_source"
CLOCKS = {
    "epoch": "$EPOCHREALTIME of its shell, in steps of 1 µs",
    "uptime": "/proc/uptime, in steps of 10 ms",
    "date": "the command date, which takes some ms itself",
}


@dataclass(frozen=True, kw_only=True)
class Phone:
    """Description of a phone, and what of it can be read.

    Attributes:
        sensors: As sensors are found: "phone" with all that can be read, since one loop reads all;
            and "phone_PART" with the reason for each part that cannot.
        device: Description as a machine, like `sensors.machine.describe`.
        notes: Facts that the reader must know.
    """

    sensors: dict[str, Present | Absent]
    device: DeviceFacts
    notes: tuple[str, ...]


def probe(serial: str, adb: str = "adb", root: str = "", more: Iterable[Wanted] = ()) -> Phone:
    """The phone with this serial number, which stands only in how its loop is started.

    Args:
        serial: As `adb devices` lists it.
        adb: The command.
        root: Before every path on the phone; "" but in tests.
        more: To be read besides what every phone is asked for.
    """
    shell = (adb, "-s", serial, "shell")
    try:
        dump = look(shell, root)
        clock = measure_clock(shell)
    except OSError as error:
        why = error.strerror if isinstance(error, LookError) else "the connection to it broke"
        return _unreachable(why or "")
    if clock is None:
        return _unreachable(
            f"its shell runs no loop: nothing came back within {FIRST_ECHO_S:.0f} s"
        )
    kind, uncertainty_ns = clock
    note = (
        f"stamped on the phone by {CLOCKS[kind]}; put on this machine's clock by echoes every 2 s, "
        f"within ±{uncertainty_ns / 1e6:.1f} ms when wattstep looked"
    )
    parts = {name: list(find(dump)) for name, find in SECTIONS.items()}
    wanted = [part for results in parts.values() for part in results if isinstance(part, Wanted)]
    reads = _reads([*wanted, *more], shell, root, note, uncertainty_ns)
    return Phone(
        sensors={"phone": Present(reads=reads), **_missing(parts)}, device=describe(dump),
        notes=(f"sensors of a phone over adb: {note}",),
    )  # fmt: skip


def _unreachable(reason: str) -> Phone:
    return Phone(sensors={"phone": Absent(reason=reason)}, device={}, notes=())


def _missing(parts: Mapping[str, Iterable[Wanted | Absent]]) -> dict[str, Absent]:
    """Reasons why parts give nothing, or less than they might, by name."""
    missing = {}
    for name, results in parts.items():
        reasons = dict.fromkeys(part.reason for part in results if isinstance(part, Absent))
        if reasons:
            missing[f"phone_{name}"] = Absent(reason="; ".join(reasons))
        elif not list(results):
            missing[f"phone_{name}"] = Absent(reason="the phone tells nothing of it")
    return missing


def _reads(
    wanted: Iterable[Wanted], shell: tuple[str, ...], root: str, note: str, uncertainty_ns: int
) -> tuple[SensorRead, ...]:
    """In the order in which the push source counts them: the clock first."""
    asked = [
        {
            "kind": each.kind,
            "argument": _below(root, each),
            "every_s": each.every_s,
            "decoder": each.decoder,
            "arguments": list(each.arguments),
        }
        for each in wanted
    ]
    settings = {"shell": list(shell), "reads": asked}
    clock = _own("clock_uncertainty", f"half an echo's way there and back; {note}")
    longest = _own("read_time", "the longest time that one read took; rows are of its middle")
    rows: list[tuple[str, float, tuple[Channel, ...]]] = [("echo", 2.0, (clock, longest))]
    taken: set[str] = set()
    short = f"times within ±{uncertainty_ns / 1e6:.1f} ms, see {clock.name}"
    rows += [(w.argument, w.every_s, _stamped(w.channels, short, taken)) for w in wanted]
    return tuple(
        SensorRead(
            path=f"phone:{path}", parser="feed", channels=channels, least_period_s=every_s,
            push_source=SOURCE, push_settings=settings,
        )
        for path, every_s, channels in rows
    )  # fmt: skip


def _below(root: str, wanted: Wanted) -> str:
    """Argument of a read, with the root before every path."""
    if wanted.kind in ("run", "own"):
        return wanted.argument
    paths = wanted.argument.split() if wanted.kind == "files" else [wanted.argument]
    return " ".join(f"{root}{path}" for path in paths)


def _own(word: str, note: str) -> Channel:
    """Channel of what the loop on the phone says of itself."""
    return Channel(
        name=f"phone.{word}", unit="s", kind="gauge", domain="sampler", role=word,
        source="the loop on the phone", scale=1e-9, note=note,
    )  # fmt: skip


def _stamped(channels: Iterable[Channel], note: str, taken: set[str]) -> tuple[Channel, ...]:
    """The channels with a note about their times; a name that is taken (skin, SKIN) gets a number."""
    made = []
    for channel in channels:
        name, number = channel.name, 2
        while name in taken:
            name, number = f"{channel.name}.{number}", number + 1
        taken.add(name)
        both = f"{channel.note}; {note}" if channel.note else note
        made.append(replace(channel, name=name, note=both))
    return tuple(made)


def describe(dump: Dump) -> DeviceFacts:
    """Description of the phone as a machine; no serial number, no names of its owner."""
    maker, model, soc, hardware, release = (
        dump.text(f"getprop {name}")
        for name in (
            "ro.product.manufacturer", "ro.product.model", "ro.soc.model", "ro.hardware",
            "ro.build.version.release",
        )
    )  # fmt: skip
    kinds = clusters(dump)
    cores = {core for group, _, _ in kinds.values() for core in group}
    lines = re.findall(r"^cpu[0-9]+ ", dump.text("/proc/stat") or "", re.MULTILINE)
    total = (dump.text("/proc/meminfo") or "").partition("MemTotal:")[2].split()[:1]
    return {
        "model": " ".join(part for part in (maker, model) if part) or "unknown phone",
        "cpu": soc or hardware or "unknown",
        "architecture": dump.text("uname -m") or "unknown",
        "cores": len(cores) or len(lines),
        "memory": int(total[0]) * 1024 if total and total[0].isdecimal() else None,
        "kernel": (dump.text("uname -r") or "unknown").split("-")[0],
        "system": f"Android {release}" if release else "Android",
        "virtual": None,
        "hypervisor": None,
        "board": None,
        "power_mode": None,
        "clusters": [
            {
                "kind": f"policy{policy}" if capacity is None else f"capacity {capacity}",
                "cores": list(group),
                "max_hz": highest * 1e3 if highest else None,
            }
            for policy, (group, highest, capacity) in kinds.items()
        ],
        "governors": {
            path.split("/")[-2]: text
            for path, text in dump.matching(r".*/cpufreq/policy[0-9]+/scaling_governor")
        },
    }

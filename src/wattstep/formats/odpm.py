"""`energy_value` of a phone's on-device power meter: energy by rail since boot (Pixel 6 and later)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from wattstep.formats.recording import FormatError, decoded
from wattstep.schema.channel import Domain

# What a rail feeds: boards.md 4.4. Rails that are not here are of the domain "unknown".
RAILS: Final[Mapping[str, tuple[Domain, str]]] = MappingProxyType(
    {
        "S4M_VDD_CPUCL0": ("cpu", "little cores"),
        "S3M_VDD_CPUCL1": ("cpu", "middle cores"),
        "S2M_VDD_CPUCL2": ("cpu", "big cores"),
        "S2S_VDD_G3D": ("gpu", "GPU"),
        "S5S_VDDQ_MEM": ("memory", "DRAM, part a"),
        "S10S_VDD2L": ("memory", "DRAM, part b"),
        "S4S_VDD2H_MEM": ("memory", "DRAM, part c"),
        "S1M_VDD_MIF": ("memory", "memory interface"),
        "S5M_VDD_INT": ("soc", "inside of the SoC"),
        "VSYS_PWR_DISPLAY": ("system", "display"),
        "VDD_TPU": ("soc", "TPU"),
    }
)
_TIME = re.compile(r"t=([0-9]{1,18})")
_CHANNEL = re.compile(r"CH([0-9]{1,3})\(T=([0-9]{1,18})\)\[([^\]]+)\],\s*([0-9]{1,18})")


@dataclass(frozen=True, kw_only=True)
class Meter:
    """Rail of a meter.

    Attributes:
        device: Number of its device in the text, from 0.
        channel: Number on that device.
        name: Of the rail.
        t_ms: When it was accumulated, on the meter's own clock.
        energy_uj: Since boot, in µJ (the file's µWs).
    """

    device: int
    channel: int
    name: str
    t_ms: int
    energy_uj: int


def parse_energy(data: bytes | str) -> tuple[Meter, ...]:
    """The rails of one device, or of several whose files were read one after another.

    Raises:
        FormatError: A line is something else, or stands there twice.
    """
    text = decoded(data)
    device = -1
    meters: dict[tuple[int, int], Meter] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not (line := line.strip()):
            continue
        if _TIME.fullmatch(line):
            device += 1
            continue
        match = _CHANNEL.fullmatch(line)
        if match is None or device < 0:
            raise FormatError("energy_value", number, f"{line[:40]!r}")
        meter = Meter(
            device=device, channel=int(match[1]), t_ms=int(match[2]), name=match[3],
            energy_uj=int(match[4]),
        )  # fmt: skip
        if (device, meter.channel) in meters:
            raise FormatError("energy_value", number, f"CH{meter.channel} stands there twice")
        meters[device, meter.channel] = meter
    if not meters:
        raise FormatError("energy_value", 1, "no rail")
    return tuple(meters.values())

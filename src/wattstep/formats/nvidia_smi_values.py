"""What nvidia-smi says of a GPU in any of its outputs: quantities with their units, and why clocks are lower."""

from __future__ import annotations

import functools
import math
import operator
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from wattstep.formats.recording import FormatError
from wattstep.formats.rows import Row
from wattstep.schema.channel import Channel, Domain

NAME: Final = "nvidia-smi"
KEPT: Final = "{}: kept as a limit"
NO_QUANTITY: Final = "{}: no quantity of a run"
IMPOSSIBLE: Final = "{}: a share below 0 or above 100 %"
NOTHING: Final = frozenset(
    {
        "n/a", "[n/a]", "[not supported]", "not supported", "[unknown error]", "unknown error",
        "[gpu is lost]", "[gpu requires reset]", "[insufficient permissions]", "err!", "[not found]",
        "requested functionality has been deprecated",
    }
)  # fmt: skip
FACTORS: Final[Mapping[str, Mapping[str, float]]] = MappingProxyType(
    {
        "W": {"W": 1.0, "mW": 1e-3},
        "°C": {"C": 1.0},
        "Hz": {"MHz": 1e6, "GHz": 1e9},
        "B": {"MiB": 2.0**20, "KiB": 2.0**10, "GiB": 2.0**30, "MB": 2.0**20},
        "ratio": {"%": 1e-2},
    }
)
# Without a unit in cell and header: what the documentation says.
USUAL: Final[Mapping[str, str]] = MappingProxyType(
    {"W": "W", "°C": "C", "Hz": "MHz", "B": "MiB", "ratio": "%"}
)

# Why clocks are lower than they could be (nvml.h), by the names that nvidia-smi gives them.
BITS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4,
        "hw_slowdown": 0x8, "sync_boost": 0x10, "sw_thermal_slowdown": 0x20,
        "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80,
        "display_clocks_setting": 0x100, "display_clock_setting": 0x100,
    }
)  # fmt: skip
MOST_BITS: Final = 1 << 53  # a float holds no more
HARMLESS: Final = 0x1 | 0x2 | 0x100  # idle, chosen clocks, the display's needs: no throttling


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Channel of a GPU; fields as of `Channel`."""

    word: str
    unit: str
    role: str
    domain: Domain = "gpu"


def _q(word: str, unit: str, role: str, domain: Domain = "gpu") -> Quantity:
    return Quantity(word=word, unit=unit, role=role, domain=domain)


# Power comes under three names: what `power.draw` means changed with the architecture. What is
# taken for the power of the card is decided in `nvidia_smi._power_first`.
QUANTITIES: Final[Mapping[str, Quantity]] = MappingProxyType(
    {
        "instant": _q("instant_power", "W", "power_instant"),
        "draw": _q("power", "W", "power_part"),
        "average": _q("average_power", "W", "power_average"),
        "power_limit": _q("power_limit", "W", "power_limit"),
        "temperature": _q("temperature", "°C", "temperature", "thermal"),
        "memory_temperature": _q("memory_temperature", "°C", "temperature", "thermal"),
        "load": _q("utilization", "ratio", "gpu_utilization"),
        "memory_load": _q(
            "memory_controller_utilization", "ratio", "memory_controller_utilization", "memory"
        ),
        "encoder": _q("encoder_utilization", "ratio", "engine_utilization"),
        "decoder": _q("decoder_utilization", "ratio", "engine_utilization"),
        "jpeg": _q("jpeg_utilization", "ratio", "engine_utilization"),
        "ofa": _q("ofa_utilization", "ratio", "engine_utilization"),
        "total": _q("memory_total", "B", "gpu_memory_total"),
        "used": _q("memory_used", "B", "gpu_memory_used"),
        "free": _q("memory_free", "B", "gpu_memory_free"),
        "reserved": _q("memory_reserved", "B", "gpu_memory_reserved"),
        "sm_clock": _q("frequency", "Hz", "frequency"),
        "memory_clock": _q("memory_frequency", "Hz", "frequency", "memory"),
        "graphics_clock": _q("graphics_frequency", "Hz", "engine_frequency"),
        "video_clock": _q("video_frequency", "Hz", "engine_frequency"),
        "fan": _q("fan_duty", "ratio", "fan_duty"),
    }
)

REASON = re.compile(r"clocks_(?:throttle|event)_reasons?[._](?P<name>\w+)", re.ASCII)
_CELL = re.compile(r"(?P<number>-?[0-9]{1,12}(?:\.[0-9]{1,9})?)(?: ?(?P<unit>%|[A-Za-z]{1,3}))?")


@dataclass(kw_only=True)
class Gpu:
    """State of one GPU while its rows are read."""

    index: int
    rows: list[Row] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)


@dataclass(kw_only=True)
class Log:
    """A file while it is read: GPUs by whatever tells them apart."""

    gpus: dict[str, Gpu] = field(default_factory=dict)
    ignored: Counter[str] = field(default_factory=Counter)
    notes: dict[str, None] = field(default_factory=dict)

    def gpu(self, key: str) -> Gpu:
        """The GPU of this key, numbered in the order in which they come."""
        return self.gpus.setdefault(key, Gpu(index=len(self.gpus)))


def channel_of(index: int, quantity: Quantity, source: str) -> Channel:
    """Channel of a quantity of the GPU with this number."""
    return Channel(
        name=f"gpu{index}.{quantity.word}",
        unit=quantity.unit,
        kind="gauge",
        domain=quantity.domain,
        role=quantity.role,
        source=source,
    )


def si_value(text: str, header_unit: str, unit: str, line: int) -> float:
    """A cell in SI units; NaN where it says that there is nothing.

    Args:
        text: The cell.
        header_unit: What its heading says; "": nothing.
        unit: Of the quantity, in SI.
        line: Where it stands.

    Raises:
        FormatError: It is no number, or its unit is none of this quantity.
    """
    if text.lower() in NOTHING:
        return math.nan
    match = _CELL.fullmatch(text)
    if match is None:
        raise FormatError(NAME, line, f"{text[:30]!r} is no number", id="not-a-number")
    written = match["unit"] or header_unit or USUAL[unit]
    factor = FACTORS[unit].get(written)
    if factor is None:
        raise FormatError(
            NAME, line, f"{text[:30]!r}: {written!r} is no unit of this quantity", id="not-a-unit"
        )
    return float(match["number"]) * factor


def possible(number: float, key: str, name: str, ignored: Counter[str]) -> float:
    """A quantity; no value for a share that cannot be. Fans may turn faster than their 100 %."""
    quantity = QUANTITIES[key]
    if quantity.unit != "ratio" or math.isnan(number):
        return number
    if number < 0 or (number > 1 and quantity.role != "fan_duty"):
        ignored[IMPOSSIBLE.format(name)] += 1
        return math.nan
    return number


def reasons(index: int, bits: float) -> Iterator[tuple[Channel, float]]:
    """All reasons, and those of them that are throttling."""
    for word, role, bits_of_word in (
        ("throttle_reasons", "throttle_reasons", ~HARMLESS),
        ("clock_reasons", "clock_reasons", -1),
    ):
        quantity = Quantity(word=word, unit="events", role=role)
        yield (
            channel_of(index, quantity, "nvidia-smi clocks event reasons"),
            bits if math.isnan(bits) else float(int(bits) & bits_of_word),
        )


def reason_bits(cells: Mapping[str, str], line: int, ignored: Counter[str]) -> float | None:
    """Bits; NaN: the GPU does not tell; None: nobody asked. Reasons of later releases are counted.

    Raises:
        FormatError: A cell is neither a reason nor a set of them.
    """
    bits: list[int] = []
    asked = False
    for name, cell in cells.items():
        match = REASON.fullmatch(name)
        if match is None or match["name"] == "supported":
            continue
        if match["name"] not in ("active", *BITS):
            ignored[NO_QUANTITY.format(name)] += 1
            continue
        asked = True
        if cell.lower() not in NOTHING:
            bits.append(_bits(match["name"], cell, line))
    if not asked:
        return None
    return float(functools.reduce(operator.or_, bits)) if bits else math.nan


def _bits(name: str, text: str, line: int) -> int:
    """Of one column or element: all reasons as a number, or one reason as a word."""
    if name == "active":
        if not re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", text, re.ASCII) or int(text, 16) >= MOST_BITS:
            raise FormatError(NAME, line, f"{text[:30]!r} is no set of reasons")
        return int(text, 16)
    if text not in ("Active", "Not Active"):
        raise FormatError(NAME, line, f"{name}: {text[:30]!r} is neither active nor not")
    return BITS[name] if text == "Active" else 0

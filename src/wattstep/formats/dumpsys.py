"""Output of Android's `dumpsys battery` and `dumpsys thermalservice`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from wattstep.formats.recording import FormatError, decoded

BATTERY_STATUS: Final[Mapping[int, str]] = MappingProxyType(
    {1: "unknown", 2: "charging", 3: "discharging", 4: "not charging", 5: "full"}
)
SEVERITIES: Final = ("none", "light", "moderate", "severe", "critical", "emergency", "shutdown")
# Kinds of temperatures by their number; beyond these vendors have their own.
KINDS: Final[Mapping[str, int]] = MappingProxyType(
    {"CPU": 0, "GPU": 1, "BATTERY": 2, "SKIN": 3, "USB_PORT": 4, "POWER_AMPLIFIER": 5,
     "BCL_VOLTAGE": 6, "BCL_CURRENT": 7, "BCL_PERCENTAGE": 8, "NPU": 9, "TPU": 10, "UNKNOWN": -1}
)  # fmt: skip
LEAST_CELSIUS = -50.0  # no phone works below; -99.9 is a vendor's sign for no reading
_BATTERY_HEAD = "Current Battery Service state:"
_STOPPED = "(UPDATES STOPPED"
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = r"-?[0-9]{1,9}(?:\.[0-9]{1,12})?(?:E-?[0-9])?"
_TEMPERATURE = re.compile(
    rf"\s*Temperature\{{mValue=({_DECIMAL}|NaN), mType=(-?[0-9]{{1,4}}), mName=(.*), "
    r"mStatus=([0-9]{1,4})\}\s*"
)
_COOLING = re.compile(
    r"\s*CoolingDevice\{mValue=(-?[0-9]{1,18}), mType=(-?[0-9]{1,4}), mName=(.*)\}\s*"
)
_THRESHOLD = re.compile(
    r"\s*TemperatureThreshold\{mType=(-?[0-9]{1,4}), mName=(.*), "
    r"mHotThrottlingThresholds=\[([^\]]*)\].*\}\s*"
)
_THRESHOLD_OLD = re.compile(
    r"\s*\{\.type = ([A-Z0-9_]+), \.name = (.*), \.hotThrottlingThresholds = \[([^\]]*)\].*\}\s*"
)


@dataclass(frozen=True, kw_only=True)
class Battery:
    """The live block of `dumpsys battery`.

    Attributes:
        fields: All its lines by key, as they stand there; of a key that stands there twice, the
            first.
        stopped: Somebody has set values by hand: they are not those of the battery.
    """

    fields: Mapping[str, str]
    stopped: bool = False

    @property
    def status(self) -> str | None:
        """Of `BATTERY_STATUS`."""
        return BATTERY_STATUS.get(self._integer("status") or 0)

    @property
    def powered_by(self) -> tuple[str, ...]:
        """Chargers that feed the phone: "AC", "USB", "Wireless", "Dock"."""
        end = " powered"
        return tuple(
            key.removesuffix(end)
            for key, value in self.fields.items()
            if key.endswith(end) and value == "true"
        )

    @property
    def volt(self) -> float | None:
        """Of the battery; old builds say 0 where they know none."""
        millivolt = self._integer("voltage")
        return millivolt * 1e-3 if millivolt else None

    @property
    def celsius(self) -> float | None:
        """Of the battery; old builds say 0 together with a voltage of 0."""
        tenths = self._integer("temperature")
        if tenths is None or (tenths == 0 and self.volt is None):
            return None
        return tenths / 10

    @property
    def level(self) -> float | None:
        """Of 1."""
        level, scale = self._integer("level"), self._integer("scale")
        if level is None or not scale or not 0 <= level <= scale:
            return None
        return level / scale

    def _integer(self, key: str) -> int | None:
        text = self.fields.get(key)
        return int(text) if text is not None else None


_BATTERY_INTEGERS = ("status", "voltage", "temperature", "level", "scale")


@dataclass(frozen=True, kw_only=True)
class Temperature:
    """Temperature of a sensor.

    Attributes:
        name: As the vendor calls it, blanks and all.
        kind: A value of `KINDS`, or a vendor's own.
        celsius: NaN where there is none: the dump says 0.0, NaN or -99.9 then.
        severity: An index of `SEVERITIES`.
    """

    name: str
    kind: int
    celsius: float
    severity: int


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """From which temperature on a severity holds, by index of `SEVERITIES`; NaN: never."""

    name: str
    kind: int
    hot: tuple[float, ...]

    @property
    def throttling(self) -> float | None:
        """Temperature at which throttling begins: the least above the severity "none"."""
        return min((c for c in self.hot[1:] if math.isfinite(c)), default=None)


@dataclass(frozen=True, kw_only=True)
class Thermal:
    """`dumpsys thermalservice`.

    Attributes:
        severity: Of the whole phone, an index of `SEVERITIES`, or None.
        overridden: Somebody has set it by hand.
        ready: Whether there is a thermal HAL.
        current: What the HAL says now.
        cached: What it said once; minutes old on some phones, and not to be used for a reading.
        cooling: State by name of the cooling device; 0: not at work.
        thresholds: Where throttling begins.
    """

    severity: int | None
    overridden: bool
    ready: bool
    current: tuple[Temperature, ...]
    cached: tuple[Temperature, ...]
    cooling: Mapping[str, int]
    thresholds: tuple[Threshold, ...]


def parse_battery(data: bytes | str) -> Battery:
    """The first block of `dumpsys battery`; vendors append histories of old values below it.

    Raises:
        FormatError: There is no such block, or a value in it is none.
    """
    lines = decoded(data).split("\n")
    start = next((i for i, line in enumerate(lines) if line.strip() == _BATTERY_HEAD), None)
    if start is None:
        raise FormatError("dumpsys battery", 1, f"there is no {_BATTERY_HEAD!r}")
    fields: dict[str, str] = {}
    stopped = False
    for number, line in enumerate(lines[start + 1 :], start + 2):
        if not line.startswith(" ") or not line.strip():
            break
        stopped = stopped or line.strip().startswith(_STOPPED)
        key, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or key in fields:
            continue
        if key in _BATTERY_INTEGERS and not _INTEGER.fullmatch(value):
            raise FormatError("dumpsys battery", number, f"{key} is {value[:20]!r}")
        fields[key] = value
    if "status" not in fields:
        raise FormatError("dumpsys battery", start + 1, "the block has no status")
    return Battery(fields=fields, stopped=stopped)


def parse_thermal(data: bytes | str) -> Thermal:
    """`dumpsys thermalservice`, with either way in which releases write thresholds.

    Raises:
        FormatError: It is none, or a temperature, a device or a threshold cannot be read.
    """
    plain: dict[str, str] = {}
    parts: dict[str, list[tuple[int, str]]] = {}
    part = ""
    for number, line in enumerate(decoded(data).split("\n"), 1):
        text = line.strip()
        if "{" in text:
            parts.setdefault(part, []).append((number, text))
        elif text.endswith(":"):
            part = text.rstrip(":")
        elif ": " in text:
            key, _, value = text.partition(": ")
            plain.setdefault(key, value.strip())
    if "Thermal Status" not in plain and "HAL Ready" not in plain:
        raise FormatError("dumpsys thermalservice", 1, "there is no status")
    thresholds = parts.get("Temperature static thresholds from HAL", [])
    cooling = (_cooling(*at) for at in parts.get("Current cooling devices from HAL", []))
    return Thermal(
        severity=_severity(plain.get("Thermal Status", "")),
        overridden=plain.get("IsStatusOverride") == "true",
        ready=plain.get("HAL Ready") == "true",
        current=tuple(_temperature(*at) for at in parts.get("Current temperatures from HAL", [])),
        cached=tuple(_temperature(*at) for at in parts.get("Cached temperatures", [])),
        cooling=dict(cooling),
        thresholds=tuple(_threshold(*at) for at in thresholds),
    )


def _severity(text: str) -> int | None:
    known = _INTEGER.fullmatch(text) and 0 <= int(text) < len(SEVERITIES)
    return int(text) if known else None


def _temperature(number: int, text: str) -> Temperature:
    match = _TEMPERATURE.fullmatch(text)
    if match is None:
        raise FormatError("dumpsys thermalservice", number, f"{text[:40]!r}")
    value, kind, name, severity = match.groups()
    celsius = float(value)
    if celsius == 0.0 or celsius < LEAST_CELSIUS:
        celsius = math.nan
    return Temperature(name=name, kind=int(kind), celsius=celsius, severity=int(severity))


def _cooling(number: int, text: str) -> tuple[str, int]:
    match = _COOLING.fullmatch(text)
    if match is None:
        raise FormatError("dumpsys thermalservice", number, f"{text[:40]!r}")
    return match[3], int(match[1])


def _threshold(number: int, text: str) -> Threshold:
    new, old = _THRESHOLD.fullmatch(text), _THRESHOLD_OLD.fullmatch(text)
    match = new or old
    if match is None:
        raise FormatError("dumpsys thermalservice", number, f"{text[:40]!r}")
    kind, name, hot = match.groups()
    values = [part.strip() for part in hot.split(",") if part.strip()]
    if not all(re.fullmatch(rf"{_DECIMAL}|NaN", value) for value in values):
        raise FormatError("dumpsys thermalservice", number, f"thresholds {hot[:40]!r}")
    return Threshold(
        name=name,
        kind=int(kind) if new else KINDS.get(kind, -1),
        hot=tuple(float(value) for value in values),
    )

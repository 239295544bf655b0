"""Power of a step from what its parts do: each draws its idle power, and the rest in proportion to its load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot

from wattstep.devices.table import Power, Value


@dataclass(frozen=True, kw_only=True)
class Ranged:
    """A number with the ends of its 90 % interval."""

    value: float
    low: float
    high: float


def power_of(power: Power, load: Mapping[str, float]) -> tuple[Ranged, dict[str, Ranged]] | None:
    """Power in all and by part in W, or None where the device's values do not say.

    Args:
        power: Of the device.
        load: Of each part, 0 to 1; a part that is not named is as busy as the busiest.
    """
    parts: dict[str, Ranged] = {}
    for name, part in power.parts.items():
        if part.idle is None or part.dynamic is None:
            return None
        share = min(1.0, load.get(name, max(load.values())))
        parts[name] = _sum(_ends(part.idle), _times(_ends(part.dynamic), share))
    if "gpu" not in parts or "memory" not in parts:
        return None
    at_rails = [part for name, part in parts.items() if name != "rest"]
    total = _sum(*at_rails)
    if power.efficiency is not None:
        total = _times(total, 1 / power.efficiency.value)
    if "rest" in parts:
        total = _sum(total, parts["rest"])
    return total, parts


def _ends(value: Value) -> Ranged:
    return Ranged(value=value.value, low=value.low, high=value.high)


def _times(one: Ranged, factor: float) -> Ranged:
    return Ranged(value=one.value * factor, low=one.low * factor, high=one.high * factor)


def _sum(*terms: Ranged) -> Ranged:
    """Terms are taken to miss independently."""
    value = sum(each.value for each in terms)
    return Ranged(
        value=value,
        low=value - hypot(*(each.value - each.low for each in terms)),
        high=value + hypot(*(each.high - each.value for each in terms)),
    )

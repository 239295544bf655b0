"""Power of a step from what its parts do: each draws its idle power, and the rest in proportion to its load.

A GPU's dynamic power in a device's file is that of a stress test, which computes all the time. Of
that, a kernel draws a part for being there, a part by its arithmetic and a part by what it moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot
from typing import Final

from wattstep.devices.table import Power, Value
from wattstep.predict.work import CODES, DENSE, Work

# Of a GPU's dynamic power, by what a kernel does. Estimates: they were chosen such that both trainings
# of an AGX Orin whose rails are published agree, of which one computes, the other moves (docs/predict.md).
BUSY: Final = 0.2
MOVING: Final = 0.1
ARITHMETIC: Final = 0.7
ACTIVITY_SPREAD: Final = 1.35  # by which the sum may be off, times and divided by
# Multiplications that Winograd's F(2x2, 3x3) saves a dense convolution (Lavin and Gray,
# arXiv 1509.09308): its arithmetic units do less than its FLOPs say.
WINOGRAD: Final = 2.25


@dataclass(frozen=True, kw_only=True)
class Ranged:
    """A number with the ends of its 90 % interval."""

    value: float
    low: float
    high: float

    def corrected(self, factor: float, narrower: float) -> Ranged:
        """So many times as much, its ends (as logarithms) so many times as far away; ends above 0."""
        value = factor * self.value
        return Ranged(
            value=value,
            low=value * (self.low / self.value) ** narrower,
            high=value * (self.high / self.value) ** narrower,
        )


def power_of(power: Power, load: Mapping[str, float]) -> tuple[Ranged, dict[str, Ranged]] | None:
    """Power in all and by part in W, or None where the device's values do not say.

    Args:
        power: Of the device.
        load: Of each part, 0 to 1: "gpu" (time with a kernel), "arithmetic" (of its peak), "memory" (of
            its rate), "cpu"; a part that is not named is as busy as the busiest of these, but for a
            GPU, which is idle.
    """
    parts: dict[str, Ranged] = {}
    if not power.parts and "gpu" not in load and power.idle and power.full:  # of a calibration
        share = load["cpu"]
        return _sum(_times(_ends(power.idle), 1 - share), _times(_ends(power.full), share)), parts
    for name, part in power.parts.items():
        if part.idle is None or part.dynamic is None:
            return None
        share = min(1.0, load.get(name, 0.0 if name == "gpu" else max(load.values())))
        dynamic = _ends(part.dynamic)
        if name == "gpu" and "gpu" in load:
            share = BUSY * load["gpu"] + MOVING * load["memory"] + ARITHMETIC * load["arithmetic"]
            dynamic = Ranged(
                value=dynamic.value,
                low=dynamic.low / ACTIVITY_SPREAD,
                high=dynamic.high * ACTIVITY_SPREAD,
            )
        parts[name] = _sum(_ends(part.idle), _times(dynamic, share))
    if not {"gpu" if "gpu" in load else "cpu", "memory"} <= set(parts):
        return None
    at_rails = [part for name, part in parts.items() if name != "rest"]
    total = _sum(*at_rails)
    if power.efficiency is not None:
        total = _times(total, 1 / power.efficiency.value)
    if "rest" in parts:
        total = _sum(total, parts["rest"])
    return total, parts


def arithmetic(work: Work) -> float:
    """Floating-point operations that the arithmetic units of a GPU really do for a step."""
    done = work.flops.copy()
    done[work.kinds == CODES[DENSE]] /= WINOGRAD
    return float(done.sum())


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

"""Temperatures of an emulated board, and its kernel's throttling: two stages, and a step-wise governor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from wattstep.boards.table import Zone
from wattstep.record.hosts.emulation.power import OUTSIDE, module_watts
from wattstep.record.hosts.emulation.settings import Settings

LEVELS: Final = 6  # states of the cooling device
CAP_A_LEVEL: Final = 0.1  # of the highest clock
GOVERNOR_S: Final = 0.1  # between two steps of the governor
HYSTERESIS_K: Final = 2.0
IGNORED_C: Final = 100.0  # PMIC-Die always says so (boards.md 2.5)
# The board's own sensor lies beside the heat sink, so warm as part of the sink's rise.
BOARD_SHARE: Final = 0.7


def zone_part(zone: Zone) -> str:
    """Part that a zone measures: its name, "board", "all" (an aggregate) or "" (nothing)."""
    name = zone.type.lower()
    if zone.use == "ignore":
        return ""
    if zone.use == "aggregate":
        return "all"
    if name.startswith(("tboard", "tdiode")):
        return "board"
    return next((part for part in ("cpu", "gpu", "cv", "soc") if part in name), "soc")


class Heat:
    """Temperatures of one board: a heat sink for the module, and each part above it.

    It begins in balance with what the board takes at rest.

    Args:
        settings: The board.
        parts: Watts by part at rest.
    """

    def __init__(self, settings: Settings, parts: Mapping[str, float]) -> None:
        self._settings = settings
        self._sink_k = self._sink_target(parts)
        self._dies_k = {part: self._die_target(watts) for part, watts in parts.items()}

    def _sink_target(self, parts: Mapping[str, float]) -> float:
        return self._settings.numbers.resistance_k_w * module_watts(self._settings, parts)

    def _die_target(self, watts: float) -> float:
        return self._settings.numbers.die_resistance_k_w * watts

    def advance(self, parts: Mapping[str, float], seconds: float) -> None:
        """So many seconds at these watts."""
        numbers, faster = self._settings.numbers, self._settings.heat
        share = -math.expm1(-seconds * faster / numbers.time_s)
        self._sink_k += share * (self._sink_target(parts) - self._sink_k)
        share = -math.expm1(-seconds * faster / numbers.die_time_s)
        for part, watts in parts.items():
            self._dies_k[part] += share * (self._die_target(watts) - self._dies_k[part])

    def zones_c(self) -> tuple[float, ...]:
        """Temperature of each zone in the order of the table."""
        return tuple(self._zone_c(zone_part(zone)) for zone in self._settings.board.zones)

    def _zone_c(self, part: str) -> float:
        ambient = self._settings.ambient_c
        if not part:
            return IGNORED_C
        if part == "board":
            return ambient + BOARD_SHARE * self._sink_k
        if part == "all":
            inside = (rise for name, rise in self._dies_k.items() if name not in OUTSIDE)
            return ambient + self._sink_k + max(inside, default=0.0)
        return ambient + self._sink_k + self._dies_k.get(part, 0.0)


class Governor:
    """Lowers the highest clock step by step while a zone is above its trip, and raises it again.

    Attributes:
        level: State of the cooling device; 0: it does not throttle.
        events: Number of times that throttling began.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._trips = tuple(trip_c(settings, zone) for zone in settings.board.zones)
        self._wait_s = 0.0
        self.level = 0
        self.events = 0

    @property
    def cap(self) -> float:
        """Share of the highest clock that is allowed."""
        return 1.0 - CAP_A_LEVEL * self.level

    def advance(self, zones_c: tuple[float, ...], seconds: float) -> None:
        """So many seconds at these temperatures; one step at most."""
        self._wait_s -= seconds
        above = [
            temperature - trip
            for temperature, trip in zip(zones_c, self._trips, strict=True)
            if trip is not None
        ]
        if self._wait_s > 0 or not above:
            return
        self._wait_s = GOVERNOR_S
        if max(above) >= 0:
            self.events += self.level == 0
            self.level = min(self.level + 1, LEVELS)
        elif max(above) < -HYSTERESIS_K:
            self.level = max(self.level - 1, 0)


def trip_c(settings: Settings, zone: Zone) -> float | None:
    """Temperature in °C at which a zone throttles; None: never."""
    if not settings.throttle or zone_part(zone) in ("", "board", "all"):
        return None
    if settings.trip_c is not None:
        return settings.trip_c
    return zone.throttle_c if zone.throttle_c is not None else settings.numbers.trip_c

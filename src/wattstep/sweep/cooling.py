"""Cool-down between configurations: until the hottest thermal zone is back where it began."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wattstep.errors import InvalidValueError
from wattstep.record.sensors import probe, read_integer
from wattstep.record.sensors.thermal import ThermalZones
from wattstep.schema.channel import Present
from wattstep.schema.condition_documents import CooldownFacts

MARGIN_C: Final = 2.0
MOST_S: Final = 300.0  # a board without a fan in a warm room may never come back
LOOK_EVERY_S: Final = 1.0

Sleep = Callable[[float], None]


def hottest_zone(root: Path = Path("/")) -> float | None:
    """Temperature of the hottest thermal zone in °C, or None where none can be read."""
    sensor = probe(ThermalZones(), root, 0)
    if not isinstance(sensor, Present):
        return None
    values = [
        value * read.channels[0].scale
        for read in sensor.reads
        if isinstance(value := read_integer(Path(read.path)), int)
    ]
    return max(values, default=None)


def check_rule(rule: str) -> None:
    """Refuses what is neither auto, none nor seconds.

    Raises:
        InvalidValueError: It is something else.
    """
    if rule not in ("auto", "none"):
        _seconds(rule)


@dataclass(frozen=True, kw_only=True)
class Cooled:
    """Result of a cool-down.

    Attributes:
        seconds: How long it took.
        temperature: Hottest zone afterwards in °C, or None.
        note: Note for a reader, or "".
    """

    seconds: float
    temperature: float | None
    note: str = ""

    def to_dict(self) -> CooldownFacts:
        """JSON-ready, for the run."""
        return {"seconds": self.seconds, "temperature": self.temperature, "note": self.note}


def cool_down(
    rule: str,
    baseline: float | None,
    *,
    read: Callable[[], float | None] = hottest_zone,
    sleep: Sleep = time.sleep,
) -> Cooled:
    """Waits before the next configuration.

    Args:
        rule: "auto", "none" or seconds.
        baseline: Hottest zone before the first configuration in °C; None: there is none yet, or
            no zone can be read.
        read: The hottest zone.
        sleep: Waits.
    """
    if rule == "none" or (rule == "auto" and baseline is None):
        return Cooled(seconds=0.0, temperature=read())
    if rule != "auto":
        sleep(_seconds(rule))
        return Cooled(seconds=_seconds(rule), temperature=read())
    return _until_cool(float(baseline or 0.0), read, sleep)


class BetweenRuns:
    """Cools down before each run of a command but the first.

    Args:
        rule: As `cool_down` takes it.
        read: The hottest zone.
        sleep: Waits.

    Raises:
        InvalidValueError: There is no such rule.
    """

    def __init__(
        self,
        rule: str,
        *,
        read: Callable[[], float | None] = hottest_zone,
        sleep: Sleep = time.sleep,
    ) -> None:
        check_rule(rule)
        self._rule, self._read, self._sleep = rule, read, sleep
        self._baseline = read() if rule == "auto" else None
        self._first = True

    def before_next(self, waits: Callable[[], None]) -> Cooled | None:
        """Cools down; None where nothing was to be waited for.

        Args:
            waits: Called whenever it goes on waiting.
        """
        nothing = self._rule == "none" or (self._rule == "auto" and self._baseline is None)
        if self._first or nothing:
            self._first = False
            return None

        def sleep(seconds: float) -> None:
            waits()
            self._sleep(seconds)

        return cool_down(self._rule, self._baseline, read=self._read, sleep=sleep)


def _until_cool(baseline: float, read: Callable[[], float | None], sleep: Sleep) -> Cooled:
    waited = 0.0
    now = read()
    while now is not None and now > baseline + MARGIN_C:
        if waited >= MOST_S:
            note = (
                f"still {now:.1f} °C after {MOST_S:.0f} s of cool-down, {baseline:.1f} °C at first"
            )
            return Cooled(seconds=waited, temperature=now, note=note)
        sleep(LOOK_EVERY_S)
        waited += LOOK_EVERY_S
        now = read()
    return Cooled(seconds=waited, temperature=now)


def _seconds(rule: str) -> float:
    try:
        seconds = float(rule)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InvalidValueError(
            f"--cooldown {rule}: auto, none, or seconds", id="malformed-cooldown"
        )
    return seconds

"""Settings of an emulated board: the numbers of its table, and the options after `emulate:BOARD`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Final

from wattstep import boards
from wattstep.boards.table import PARTS, Board, Rail
from wattstep.errors import InvalidValueError
from wattstep.schema.settings import parse_duration

TICK_S: Final = 0.01  # the files move so often; a chip without averaging converts in 7 ms
LAYOUTS: Final = ("iio", "ina3221x", "hwmon", "none")
PROCESSORS: Final = ("cpu", "gpu")
QUIRKS: Final = ("eio", "again", "cold")
OPTIONS: Final = (
    "averaging", "layout", "ambient", "scale", "throttle", "heat", "processor", "quirk", "truth",
    "slow",
)  # fmt: skip
_I2C: Final = re.compile(r"\d+-[0-9a-f]{4}")
_AMBIENT_C: Final = (-40.0, 60.0)
_TRIP_C: Final = (-40.0, 150.0)


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The `[emulation]` table of a board. Every default is assumed, of no board in particular.

    Attributes:
        source: Source of the numbers, and which of them are assumed.
        layout: Of the power sensors, of `LAYOUTS`; "none" where no file tells the power.
        idle_w: Watts by part (`boards.table.PARTS`) at rest.
        full_w: Power of each part in W at full load and highest clock; a part that is not named stays at idle.
        volts: By rail label, or "" for all others.
        efficiency: Share of what the input rail takes that arrives at the parts.
        rest_w: Power in W that the input rail carries beside the parts.
        exponent: Power of a busy core goes with its clock to this power (voltage rises with it).
        resistance_k_w: Kelvin for each watt of the module between heat sink and air.
        time_s: Time constant of the heat sink.
        die_resistance_k_w: Kelvin for each watt of a part between the part and the heat sink.
        die_time_s: Time constant of a part.
        trip_c: Temperature at which throttling begins, for zones whose own trip is not known.
    """

    source: str = "assumed"
    layout: str = "hwmon"
    idle_w: Mapping[str, float] = field(
        default_factory=lambda: {"cpu": 0.5, "gpu": 0.3, "memory": 0.4, "soc": 1.0, "system": 1.0}
    )
    full_w: Mapping[str, float] = field(
        default_factory=lambda: {"cpu": 5.0, "gpu": 8.0, "memory": 2.0, "soc": 1.5}
    )
    volts: Mapping[str, float] = field(default_factory=dict)
    efficiency: float = 0.9
    rest_w: float = 0.5
    exponent: float = 2.5
    resistance_k_w: float = 3.0
    time_s: float = 180.0
    die_resistance_k_w: float = 1.0
    die_time_s: float = 4.0
    trip_c: float = 97.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one emulated board.

    Attributes:
        board: Its table.
        numbers: Of its table.
        layout: Of the power sensors.
        averaging_s: Time that the power sensor averages over before each value; at least a tick.
        ambient_c: Air around it in °C.
        scale: All powers are multiplied by it.
        throttle: True if it throttles at all.
        trip_c: Temperature at which throttling begins in all zones; None: where the table says.
        heat: Time constants are divided by it.
        processor: Processor that the training's load moves: "cpu", or "gpu" (with one core that feeds it).
        truth_s: Time between two rows of the journal of the truth.
        quirks: Pairs of a quirk and the rail or zone that has it.
        slow: Part of the training's time that a lowered clock makes longer, from 0 to 1; 0: none.
    """

    board: Board
    numbers: Numbers
    layout: str
    averaging_s: float = TICK_S
    ambient_c: float = 25.0
    scale: float = 1.0
    throttle: bool = True
    trip_c: float | None = None
    heat: float = 1.0
    processor: str = "cpu"
    truth_s: float = 0.1
    quirks: tuple[tuple[str, str], ...] = ()
    slow: float = 0.0

    @cached_property
    def rails(self) -> tuple[Rail, ...]:
        """The rails that are emulated: of an INA3221, and whose parts' watts are known."""
        rails = () if self.layout == "none" else self.board.rails
        return tuple(
            rail
            for rail in rails
            if _I2C.fullmatch(rail.chip) and self._known.issuperset(rail.parts)
        )

    @property
    def _known(self) -> set[str]:
        return {"input", *self.numbers.idle_w, *self.numbers.full_w}

    def with_quirk(self, quirk: str) -> frozenset[str]:
        """The rails and zones that have it."""
        return frozenset(name for kind, name in self.quirks if kind == quirk)


def make_settings(name: str, options: Mapping[str, str]) -> Settings:
    """The board of this name with these options.

    Raises:
        InvalidValueError: There is no such board, its numbers are wrong, or an option cannot be
            used.
    """
    if unknown := set(options) - set(OPTIONS):
        raise InvalidValueError(
            f"emulate:{name}: there is no option {sorted(unknown)[0]!r}: there are "
            f"{', '.join(OPTIONS)}",
            id="unknown-target-option",
        )
    board = boards.find(name)
    numbers = read_numbers(board)
    throttle, trip_c = _throttle(options.get("throttle"))
    settings = Settings(
        board=board,
        numbers=numbers,
        layout=_one_of("layout", options.get("layout", numbers.layout), LAYOUTS),
        averaging_s=_ticks("averaging", options.get("averaging", TICK_S)),
        truth_s=_ticks("truth", options.get("truth", "100ms")),
        ambient_c=_number("ambient", options.get("ambient", "25"), *_AMBIENT_C),
        scale=_number("scale", options.get("scale", "1"), 0.01, 100.0),
        throttle=throttle,
        trip_c=trip_c,
        heat=_number("heat", options.get("heat", "1"), 1.0, 1e4),
        processor=_one_of("processor", options.get("processor", "cpu"), PROCESSORS),
        quirks=_quirks(board, options.get("quirk", "")),
        slow=_number("slow", options.get("slow", "0"), 0.0, 1.0),
    )
    _check_quirks(settings)
    return settings


def read_numbers(board: Board) -> Numbers:
    """The numbers of a board's table; what it leaves out is assumed.

    Raises:
        InvalidValueError: A field is unknown, of the wrong kind, or cannot be.
    """
    names = {item.name for item in fields(Numbers)}
    if unknown := set(board.emulation) - names:
        raise InvalidValueError(
            f"board {board.name}: [emulation] has no {sorted(unknown)}", id="unknown-field"
        )
    values = {key: _checked(board.name, key, value) for key, value in board.emulation.items()}
    return Numbers(**values)


def _checked(board: str, key: str, value: Any) -> Any:
    """A field of the table as it should be."""
    where = f"board {board}: [emulation] {key}"
    if key == "source":
        return str(value)
    if key == "layout":
        return _one_of(where, value, LAYOUTS)
    if key in ("idle_w", "full_w", "volts"):
        if not isinstance(value, Mapping):
            raise InvalidValueError(f"{where} is a table", id="needs-a-table")
        if key != "volts" and (unknown := set(value) - set(PARTS)):
            raise InvalidValueError(
                f"{where}: {sorted(unknown)}: parts are {', '.join(PARTS)}", id="unknown-part"
            )
        return {
            name: _number(f"{where}.{name}", number, 0.0, 1e3) for name, number in value.items()
        }
    least = 0.01 if key in ("efficiency", "time_s", "die_time_s") else 0.0
    return _number(where, value, least, 1.0 if key == "efficiency" else 1e4)


def _one_of(what: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise InvalidValueError(
            f"{what}={value}: there are {', '.join(allowed)}", id="unknown-choice"
        )
    return str(value)


def _number(what: str, value: Any, least: float, most: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidValueError(f"{what}={value} is no number", id="malformed-option") from None
    if not least <= number <= most:
        raise InvalidValueError(
            f"{what}={value}: it goes from {least:g} to {most:g}", id="out-of-range"
        )
    return number


def _ticks(what: str, text: str | float) -> float:
    """A duration of at least one tick."""
    seconds = parse_duration(text)
    if not TICK_S <= seconds <= 60:
        raise InvalidValueError(
            f"{what}={text}: it goes from {TICK_S * 1e3:g}ms to 60s", id="out-of-range"
        )
    return seconds


def _throttle(text: str | None) -> tuple[bool, float | None]:
    if text == "off":
        return False, None
    return True, None if text is None else _number("throttle", text, *_TRIP_C)


def _quirks(board: Board, text: str) -> tuple[tuple[str, str], ...]:
    """`eio:VDD_SYS_SOC+cold:GPU-therm` as pairs."""
    return tuple(_quirk(board, part) for part in text.split("+") if part)


def _quirk(board: Board, text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if kind not in QUIRKS or not colon:
        raise InvalidValueError(
            f"quirk={text}: write KIND:NAME; kinds are {', '.join(QUIRKS)}", id="malformed-quirk"
        )
    zone, rail = board.zone(name), board.rail(name)
    return kind, zone.type if zone else rail.label if rail else name


def _check_quirks(settings: Settings) -> None:
    zones = {zone.type for zone in settings.board.zones}
    rails = {rail.label for rail in settings.rails}
    for kind, name in settings.quirks:
        allowed = zones if kind == "cold" else zones | rails
        if name not in allowed:
            raise InvalidValueError(
                f"quirk={kind}:{name}: nothing emulated is called so: there are "
                f"{', '.join(sorted(allowed)) or 'none'}",
                id="unknown-quirk-target",
            )

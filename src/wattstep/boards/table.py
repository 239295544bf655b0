"""The table of one board: from TOML to a record, with a clear error where it is wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final

from wattstep.errors import InvalidValueError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PARTS = ("cpu", "gpu", "memory", "soc", "cv", "wifi", "carrier", "io", "system", "input")
USES = ("temperature", "aggregate", "ignore")
INA3221_STEPS = 4095  # to the end of its range: 12 bits and a sign (datasheet SBOS576)


@dataclass(frozen=True, kw_only=True)
class Rail:
    """Power rail.

    Attributes:
        label: As current drivers name it, e.g. "VDD_SYS_GPU".
        aliases: What older or newer software calls it.
        parts: What it feeds, of `PARTS`; several where the rail is combined and stays so.
        chip: Where a release was seen to have its INA3221, e.g. "0-0040" (other releases number
            buses otherwise), or the kind of another power monitor ("ina238", "pmic"); empty: not
            known.
        channel: Of the chip, from 0; without a chip it says nothing.
        quantum_w: Smallest step of its power in W that was seen, or None.
        shunt_ohm: Where a document states it, or None.
        within: Label of the rail that feeds it and so contains it; empty: none that is known.
    """

    label: str
    parts: tuple[str, ...]
    chip: str = ""
    channel: int = 0
    aliases: tuple[str, ...] = ()
    quantum_w: float | None = None
    shunt_ohm: float | None = None
    within: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The label and its aliases."""
        return (self.label, *self.aliases)

    @property
    def range_w(self) -> float | None:
        """Highest power in W that its INA3221 can show, at the voltage of that step, or None."""
        if self.quantum_w is None or self.chip in ("ina238", "pmic"):
            return None
        return INA3221_STEPS * self.quantum_w


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Cores of one kind that share a clock.

    Attributes:
        kind: E.g. "Cortex-A57".
        cores: Their numbers.
        policy: Number of their cpufreq policy, or None.
        min_hz: Lowest clock.
        max_hz: Highest clock.
        capacity: Of a core, relative to the board's strongest, or None.
    """

    kind: str
    cores: tuple[int, ...]
    policy: int | None = None
    min_hz: float | None = None
    max_hz: float | None = None
    capacity: float | None = None


@dataclass(frozen=True, kw_only=True)
class Zone:
    """Thermal zone.

    Attributes:
        type: As the kernel names it; `aliases` for other releases.
        use: "temperature"; "aggregate" (of other zones); "ignore" (constant or meaningless).
        throttle_c: Where throttling begins in °C, or None.
        critical_c: Where the board shuts down in °C, or None.
    """

    type: str
    aliases: tuple[str, ...] = ()
    use: str = "temperature"
    throttle_c: float | None = None
    critical_c: float | None = None


@dataclass(frozen=True, kw_only=True)
class Mode:
    """A power mode: a name that caps clocks. Numbers are not stable between releases."""

    name: str
    id: int | None = None
    cores: str = ""
    gpu_hz: float | None = None
    memory_hz: float | None = None
    watts: float | None = None


@dataclass(frozen=True, kw_only=True)
class Board:
    """Facts of one board.

    Attributes:
        name: Of its file, e.g. "jetson-tx2".
        title: For readers.
        source: Where the facts come from.
        compatible: Entries of the device tree's `compatible`; "*" stands for any text, such as the
            carrier board that a module is on.
        models: Parts of the device tree's `model`.
        memory: Usable bytes of the usual module, or None.
        memory_variants: Usable bytes of its other modules that were seen.
        total: Labels of the rails that add up to the module; empty where there is no total.
        no_total: Why there is none.
        leaves_out: What the total does not contain.
        rails: All rails, those of the carrier too.
        window_s: Time that the power sensors average over by default, where documented and the
            same in all releases (a Xavier's depends on the driver).
        clusters: Of the CPU.
        gpu: "name" (of the devfreq device's node), "paths" (of its folder below the root),
            "min_hz", "max_hz"; empty: none that can be read.
        memory_controller: "max_hz", "bus_bits"; empty: not known.
        zones: Thermal zones.
        modes: Power modes.
        emulation: What the emulator needs; see `wattstep.record.hosts.emulation`.
    """

    name: str
    title: str
    source: str
    compatible: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    memory: int | None = None
    memory_variants: tuple[int, ...] = ()
    total: tuple[str, ...] = ()
    no_total: str = ""
    leaves_out: str = ""
    rails: tuple[Rail, ...] = ()
    window_s: float | None = None
    clusters: tuple[Cluster, ...] = ()
    gpu: Mapping[str, Any] = field(default_factory=dict)
    memory_controller: Mapping[str, Any] = field(default_factory=dict)
    zones: tuple[Zone, ...] = ()
    modes: tuple[Mode, ...] = ()
    emulation: Mapping[str, Any] = field(default_factory=dict)

    def rail(self, label: str) -> Rail | None:
        """The rail that any release calls so; None: nobody has seen it on this board."""
        return next((rail for rail in self.rails if label in rail.names), None)

    def zone(self, kind: str) -> Zone | None:
        """The thermal zone that any release calls so."""
        return next((z for z in self.zones if kind in (z.type, *z.aliases)), None)

    def cluster_of(self, core: int) -> Cluster | None:
        """The cluster of a core."""
        return next((cluster for cluster in self.clusters if core in cluster.cores), None)


POWER: Final = ("total", "no_total", "leaves_out", "window_s", "rails")
LISTS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {"rails": Rail, "clusters": Cluster, "zones": Zone, "modes": Mode}
)
# A field's annotation without its brackets to what TOML makes of such a value.
PLAIN: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {"str": str, "int": int, "float": float, "tuple": tuple, "Mapping": dict}
)


def parse_board(data: bytes, name: str) -> Board:
    """A board from its TOML file.

    Raises:
        InvalidValueError: It is no TOML, a field is missing, unknown or of the wrong kind.
    """
    try:
        document = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidValueError(f"board {name}: {error}") from error
    power = document.pop("power", {})
    if not isinstance(power, dict):
        raise InvalidValueError(f"board {name}: power is a table")
    if misplaced := {"name", *POWER} & set(document) | set(power) - {*POWER}:
        raise InvalidValueError(
            f"board {name}: {', '.join(sorted(misplaced))}: [power] holds {', '.join(POWER)}, and "
            "nothing else does; the file's name is the board's"
        )
    values = {"name": name, **document, **power}
    for key, kind in LISTS.items():
        values[key] = _records(name, kind, values.get(key, []))
    board: Board = _record(name, Board, values)
    _check(board)
    return board


def _records(board: str, kind: type[Any], rows: Any) -> list[Any]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidValueError(f"board {board}: {kind.__name__.lower()}s are a list of tables")
    return [_record(board, kind, row) for row in rows]


def _record(board: str, kind: type[Any], row: Mapping[str, Any]) -> Any:
    word = f"board {board}: {kind.__name__.lower()}"
    known = {item.name: str(item.type) for item in fields(kind)}
    if unknown := set(row) - set(known):
        raise InvalidValueError(f"{word} has no {sorted(unknown)}")
    try:
        return kind(**{key: _typed(known[key], value) for key, value in row.items()})
    except TypeError as error:
        raise InvalidValueError(f"{word}: {error}") from error


def _typed(kind: str, value: Any) -> Any:
    """The value as the field wants it: a list as a tuple, a whole number as a float.

    Raises:
        TypeError: It is something else.
    """
    wanted = kind.removesuffix(" | None")
    if wanted.startswith("tuple[") and isinstance(value, list):
        item = wanted.removeprefix("tuple[").removesuffix(", ...]")
        return tuple(_typed(item, each) for each in value)
    if wanted == "float" and type(value) is int:
        return float(value)
    if type(value) is not PLAIN.get(wanted.partition("[")[0], type(value)):
        raise TypeError(f"{value!r} is no {wanted}")
    return value


def _check(board: Board) -> None:
    """Check of a table: unknown parts and uses, a total of rails that are not there."""
    for problem in (*_rail_problems(board), *_total_problems(board), *_other_problems(board)):
        raise InvalidValueError(f"board {board.name}: {problem}")


def _rail_problems(board: Board) -> Iterator[str]:
    names = [name for rail in board.rails for name in rail.names]
    if len(set(names)) < len(names):
        yield "a rail or an alias stands there twice"
    for rail in board.rails:
        if not rail.parts or set(rail.parts) - set(PARTS):
            yield f"{rail.label} feeds {rail.parts}: parts are {', '.join(PARTS)}"
        if rail.within and rail.within not in {other.label for other in board.rails}:
            yield f"{rail.label} is within {rail.within}, which is no rail"


def _total_problems(board: Board) -> Iterator[str]:
    rails = {rail.label: rail for rail in board.rails}
    if missing := set(board.total) - set(rails):
        yield f"the total names {sorted(missing)}, no rails"
    if bool(board.total) == bool(board.no_total):
        yield "say either total or no_total"
    if bool(board.total) != bool(board.leaves_out):
        yield "a total, and only a total, says what it leaves out"
    for rail in (rails[label] for label in board.total if label in rails):
        if rail.within in board.total or (len(board.total) > 1 and "input" in rail.parts):
            yield f"the total counts {rail.label} twice"


def _other_problems(board: Board) -> Iterator[str]:
    for zone in board.zones:
        if zone.use not in USES:
            yield f"zone {zone.type}: use is one of {USES}"
    cores = [core for cluster in board.clusters for core in cluster.cores]
    if len(set(cores)) < len(cores):
        yield "a core is listed in two clusters"

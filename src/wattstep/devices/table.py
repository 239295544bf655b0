"""The record of one device for predictions: values with their range and where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Final, get_type_hints

from wattstep.boards.table import Board

BASES: Final = ("datasheet", "published measurement", "calibration", "estimate")
PRECISIONS: Final = ("fp32", "tf32", "fp16", "bf16", "int8")
PARTS: Final = ("cpu", "gpu", "memory", "soc", "rest")
TORCH: Final = "torch"  # which predictions of a GPU are of
COUNTED: Final = ("system", "process")  # whose memory a floor counts
ESTIMATE_SPREAD: Final = 1.5  # least ratio of an estimate's ends
ESTIMATE_SPAN_C: Final = 10.0  # least distance of the ends of an estimated temperature

_DATASHEET = "the maker's datasheet"
_CEILINGS = "the datasheet, or `wattstep ceilings` on the device"
_METER = "its rails or a power meter, read idle and at full load"
_STEP = "temperature and power recorded while a load begins, lasts and ends"
_KINDS = (
    "a fit to trainings that were measured on the device; of its CPU, where it runs torch: "
    "`wattstep calibrate-device`"
)
_FLOOR = "memory of a process of that framework after one tiny step on the device"


@dataclass(frozen=True, kw_only=True)
class Value:
    """A number with its range and origin.

    Attributes:
        value: The best single number, in SI units (temperatures in °C).
        low: Lower end of a range that holds the true value in 90 % of cases.
        high: Upper end.
        basis: One of `BASES`. An estimate's ends differ by `ESTIMATE_SPREAD` times or more, those
            of an estimated temperature by `ESTIMATE_SPAN_C` or more.
        source: Where the number comes from, with its arithmetic.
    """

    value: float
    low: float
    high: float
    basis: str
    source: str


@dataclass(frozen=True)
class Unit:
    """Annotation of a field that holds a `Value`, or several by name.

    Attributes:
        name: The unit.
        supplied_by: What would supply the value; empty: predictions do without.
    """

    name: str
    supplied_by: str = ""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Main memory.

    Attributes:
        size: Bytes that the operating system manages (MemTotal).
        usable: Bytes beyond the idle system's that a training can take before memory runs out.
        bandwidth: Highest rate in B/s at the memory's pins.
        clock: At which it has this bandwidth, in Hz as the board's memory controller counts it.
        unified: CPU and GPU use the same memory.
    """

    unified: bool
    size: Annotated[Value | None, Unit("B", "MemTotal of /proc/meminfo")] = None
    usable: Annotated[Value | None, Unit("B", "a training that is grown until memory runs out")] = (
        None
    )
    bandwidth: Annotated[Value | None, Unit("B/s", _CEILINGS)] = None
    clock: Annotated[Value | None, Unit("Hz")] = None


@dataclass(frozen=True, kw_only=True)
class Storage:
    """What files lie on.

    Attributes:
        title: For readers, e.g. "eMMC 5.1".
        read: Rate in B/s at which a large file is read that is in no cache.
        write: Rate in B/s at which a large file is written until it is on the disk.
    """

    title: str
    read: Annotated[Value | None, Unit("B/s")] = None
    write: Annotated[Value | None, Unit("B/s")] = None


@dataclass(frozen=True, kw_only=True)
class Floor:
    """Memory that a framework takes before the network matters.

    Attributes:
        memory: Bytes, loaded and after one tiny step.
        counted: One of `COUNTED`: "system" (used by the whole system, minus idle: contexts that a driver holds
            count) or "process" (resident set).
        start: Time in s from the start of its process to the first step: loading the framework, the
            network and the data.
    """

    counted: str
    start: Annotated[Value | None, Unit("s")] = None
    memory: Annotated[Value | None, Unit("B", "a process that made one tiny step")] = None


@dataclass(frozen=True, kw_only=True)
class Processor:
    """A GPU, or CPU cores of one kind that share a clock.

    Attributes:
        kind: "gpu" or "cpu".
        title: For readers, e.g. "4 Cortex-A57".
        cores: CPU cores, or the GPU's lanes for FP32; 0: the maker does not say. Of the board's
            clusters where these say it.
        cluster: Kind of these cores in the board's table; empty: not of a board.
        per_cycle: Operations of one core in a clock cycle by precision (a fused multiply-add is
            2), as its architecture has it. Empty: nobody documents it.
        min_hz: Lowest clock.
        max_hz: Highest clock; `peak` holds there.
        peak: Operations a second of all cores by precision, of `PRECISIONS`.
        bandwidth: Rate in B/s at which this processor alone reads and writes memory at best.
        launch: Time in s that starting one operation takes where nothing else does.
        link: Rate in B/s of copies between the host's memory and a GPU's own; None where they share one.
    """

    kind: str
    title: str
    cores: int = 0
    cluster: str = ""
    per_cycle: Mapping[str, float] = field(default_factory=dict)
    min_hz: Annotated[Value | None, Unit("Hz")] = None
    max_hz: Annotated[Value | None, Unit("Hz", _DATASHEET)] = None
    peak: Annotated[Mapping[str, Value], Unit("FLOP/s")] = field(default_factory=dict)
    bandwidth: Annotated[Value | None, Unit("B/s", _CEILINGS)] = None
    launch: Annotated[Value | None, Unit("s", "steps of a tiny network, timed on the device")] = (
        None
    )
    link: Annotated[Value | None, Unit("B/s")] = None


@dataclass(frozen=True, kw_only=True)
class Part:
    """Power of one part, at its rail.

    Attributes:
        idle: Power in W of the idle system.
        dynamic: Power in W at full load beyond idle.
    """

    idle: Annotated[Value | None, Unit("W", _METER)] = None
    dynamic: Annotated[Value | None, Unit("W", _METER)] = None


@dataclass(frozen=True, kw_only=True)
class Power:
    """Power in all and by part. All = (cpu + gpu + memory + soc) / efficiency + rest.

    Attributes:
        idle: Power in W of the idle device in all, as its total counts it.
        full: Power in W in all that a heavy, lasting load reached.
        clock_exponent: Dynamic power of CPU and GPU goes with their clock to the power of this: the
            voltage follows the clock.
        efficiency: Share of the total that arrives at the rails (converters lose the rest);
            None where the total is the sum of the rails.
        leaves_out: What the total does not contain; the board's words where empty.
        no_total: Why the device itself has no sensor of its total: the values are a meter's in
            its supply; the board's words where empty.
        parts: By name, of `PARTS`.
    """

    idle: Annotated[Value | None, Unit("W", _METER)] = None
    full: Annotated[Value | None, Unit("W", _METER)] = None
    clock_exponent: Annotated[Value | None, Unit("")] = None
    efficiency: Annotated[Value | None, Unit("")] = None
    leaves_out: str = ""
    no_total: str = ""
    parts: Mapping[str, Part] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Thermal:
    """Heat: one resistance and one capacity from the hottest sensor to the air.

    Attributes:
        resistance: Kelvin above the air for each W of the total.
        time_constant: Time in s until 63 % of a change is done.
        throttle: Temperature in °C at which clocks go down.
        ambient: Temperature of the air in °C that predictions assume.
    """

    resistance: Annotated[Value | None, Unit("K/W", _STEP)] = None
    time_constant: Annotated[Value | None, Unit("s", _STEP)] = None
    throttle: Annotated[Value | None, Unit("°C", _DATASHEET)] = None
    ambient: Annotated[Value | None, Unit("°C", "a thermometer")] = None


@dataclass(frozen=True, kw_only=True)
class Battery:
    """Battery.

    Attributes:
        capacity: Energy in J of a full one.
    """

    capacity: Annotated[Value | None, Unit("J", _DATASHEET)] = None


@dataclass(frozen=True, kw_only=True)
class Mode:
    """A power mode. What is None or not named stays as without a mode.

    Attributes:
        cores: Cores in use by processor, the GPU's too; 0: off.
        clocks: Highest clock in Hz by processor.
        memory_clock: Highest clock of the memory in Hz; the bandwidth goes with it.
        cap: Power budget in W that gives the mode its name.
        full: Power in W in all that a heavy, lasting load reached in this mode.
        dynamic: Power in W that full load added to a part's idle power in this mode, by part.
        set_by: How a device is put into it, where that is no mode of its maker's; empty: by the maker's tool.
    """

    cores: Mapping[str, int] = field(default_factory=dict)
    clocks: Annotated[Mapping[str, Value], Unit("Hz")] = field(default_factory=dict)
    memory_clock: Annotated[Value | None, Unit("Hz")] = None
    cap: Annotated[Value | None, Unit("W")] = None
    full: Annotated[Value | None, Unit("W")] = None
    dynamic: Annotated[Mapping[str, Value], Unit("W")] = field(default_factory=dict)
    set_by: str = ""


@dataclass(frozen=True, kw_only=True)
class KindValues:
    """What one kind of operations takes on one framework, in the terms of whoever fitted it.

    Attributes:
        values: By the fit's own names, e.g. "compute_efficiency", "launch_s".
        fitted: Where they were fitted, e.g. "batch 2 to 256, CNNs at 224 px"; a prediction
            beyond says so.
    """

    values: Annotated[Mapping[str, Value], Unit("")] = field(default_factory=dict)
    fitted: str = ""


@dataclass(frozen=True, kw_only=True)
class Device:
    """Facts of one device.

    Attributes:
        name: Of its file, e.g. "jetson-tx2".
        title: For readers.
        board: Its table among `wattstep.boards`, or None (phones, laptops).
        aliases: Other names.
        note: What a reader must know of the device or its values.
        memory: Main memory.
        floors: By framework, e.g. "torch", "torch-1.6", "mnn".
        processors: By a name, e.g. "gpu", "cpu", "cpu-big".
        power: Power.
        thermal: Heat.
        battery: None: it has none.
        storage: None: nobody said what files lie on.
        modes: Power modes by name.
        kinds: By framework, then by kind of operation as `schema/operation_kinds.py` names
            them, or finer; empty: nobody has fitted any.
        file: Path of the file as it was given; empty: it is shipped.
    """

    name: str
    title: str
    board: Board | None = None
    aliases: tuple[str, ...] = ()
    note: str = ""
    memory: Memory
    floors: Mapping[str, Floor] = field(default_factory=dict)
    processors: Mapping[str, Processor]
    power: Power
    thermal: Thermal
    battery: Battery | None = None
    storage: Storage | None = None
    modes: Mapping[str, Mode] = field(default_factory=dict)
    kinds: Mapping[str, Mapping[str, KindValues]] = field(default_factory=dict)
    file: str = ""

    @property
    def called(self) -> str:
        """What commands find it by."""
        return self.file or self.name

    def values(self) -> Iterator[tuple[str, str, Value]]:
        """Each value that is known: its key as in the file, its unit, itself."""
        for key, unit, value in _walk(self):
            if value is not None:
                yield key, unit.name, value

    @property
    def missing(self) -> Mapping[str, str]:
        """What a prediction needs and this device lacks: by key, what would supply it."""
        absent = {
            key: unit.supplied_by
            for key, unit, value in _walk(self)
            if value is None and unit.supplied_by
        }
        for name, processor in self.processors.items():
            if "fp32" not in processor.peak:
                absent[f"processors.{name}.peak.fp32"] = _CEILINGS
        has_gpu = any(processor.kind == "gpu" for processor in self.processors.values())
        for part in PARTS:
            if part not in self.power.parts and (part != "gpu" or has_gpu):
                absent[f"power.parts.{part}"] = _METER
        for framework in self._frameworks(has_gpu):
            if framework not in map(framework_of, self.floors):
                absent[f"floors.{framework}"] = _FLOOR
            if self.kinds and framework != TORCH and framework not in map(framework_of, self.kinds):
                absent[f"kinds.{framework}"] = _KINDS
        if not self.kinds:
            absent["kinds"] = _KINDS
        return absent

    def _frameworks(self, has_gpu: bool) -> list[str]:
        """Those that predictions can be asked for: what the file has anything of, and torch on a GPU."""
        named = {framework_of(key) for key in (*self.floors, *self.kinds)}
        return sorted({*named, TORCH} if has_gpu or not named else named)


def framework_of(key: str) -> str:
    """Framework of a key of a device's file: "torch-compile" of "torch-compile-2.13"."""
    name, _, version = key.rpartition("-")
    return name if version[:1].isdigit() else key


def _walk(record: Any, prefix: str = "") -> Iterator[tuple[str, Unit, Value | None]]:
    """Each field for a value below a record: its key, its unit, the value."""
    units = _units(type(record))  # type: ignore[arg-type]  # a class has a hash
    for item in fields(record):
        key, held = f"{prefix}{item.name}", getattr(record, item.name)
        yield from _below(held, key, units.get(item.name))


def _below(held: Any, key: str, unit: Unit | None) -> Iterator[tuple[str, Unit, Value | None]]:
    if unit is not None and (held is None or isinstance(held, Value)):
        yield key, unit, held
    elif isinstance(held, KindValues):
        yield from _below(held.values, key, _units(KindValues)["values"])
    elif isinstance(held, Mapping):
        for name, one in held.items():
            yield from _below(one, f"{key}.{quoted(name)}", unit)
    elif is_dataclass(held) and not isinstance(held, Board):
        yield from _walk(held, f"{key}.")


@cache
def _units(record: type[Any]) -> Mapping[str, Unit]:
    """The units of a record's fields that hold values."""
    hints = get_type_hints(record, include_extras=True)
    return MappingProxyType(
        {
            name: about
            for name, hint in hints.items()
            for about in getattr(hint, "__metadata__", ())
            if isinstance(about, Unit)
        }
    )


def quoted(key: str) -> str:
    """A key as TOML wants it: in quotes where it is no bare word."""
    return key if key.replace("-", "").replace("_", "").isalnum() else f'"{key}"'

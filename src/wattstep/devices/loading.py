"""A device from its TOML file and its board's table, with errors that name file, key and what is wrong."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from math import inf
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args, get_origin, get_type_hints

from wattstep import boards
from wattstep.boards.table import Board
from wattstep.boards.table import Mode as BoardMode
from wattstep.devices.table import (
    BASES,
    COUNTED,
    ESTIMATE_SPAN_C,
    ESTIMATE_SPREAD,
    PARTS,
    PRECISIONS,
    Device,
    KindValues,
    Memory,
    Mode,
    Power,
    Processor,
    Thermal,
    Value,
    quoted,
)
from wattstep.errors import InvalidValueError
from wattstep.schema.sanitize import brief, plain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R", bound="DataclassInstance")
ENDS = ("value", "low", "high")
WORDS = ("basis", "source")
# Between which a value of a unit must be to be one of a small device: far wider than any is.
PLAUSIBLE: Final = MappingProxyType(
    {
        "B": (1e5, 1e14), "B/s": (1e6, 1e14), "FLOP/s": (1e6, 1e16), "Hz": (1e3, 1e11), "s": (1e-9, 1e6),
        "W": (0.0, 1e5), "K/W": (1e-3, 1e4), "J": (1.0, 1e9), "°C": (-90.0, 200.0),
    }
)  # fmt: skip
# Values of kinds of operations, by the end of their name, that are divided by.
DIVISORS: Final = ("efficiency", "tile", "unaligned")
AMOUNTS: Final = ("_s", "_rows", "_depth", "_parallel", "_times", "libraries", "products", "stays")
WORDS_FOR: Final = MappingProxyType({str: "text", bool: "true or false", int: "whole number"})


class _WrongError(Exception):
    """What is wrong, with its key; the file is added where it is known."""


def parse_device(data: bytes, name: str, file: str) -> Device:
    """A device from its TOML file, with what its board's table says filled in.

    Args:
        data: The file.
        name: The device's.
        file: How errors call the file.

    Raises:
        InvalidValueError: It is no TOML, or a key is missing, unknown or holds what it cannot.
    """
    try:
        document = tomllib.loads(data.decode())
        for key in ("name", "file"):
            if key in document:
                raise _WrongError(f"{key}: the file's name is the device's")
        device = _with_board(_record(Device, {"name": name, **document}, ""))
        for problem in _problems(device):
            raise _WrongError(problem)
    except (
        ValueError,
        RecursionError,
        _WrongError,
    ) as error:  # TOML and UTF-8 raise values' errors
        raise InvalidValueError(f"{file}: {error}", id="damaged-device-file") from error
    return device


def _record(kind: type[Any], table: Any, at: str) -> Any:
    """A dataclass from a table; `at` is the table's key with a dot, or empty."""
    if not isinstance(table, dict):
        raise _WrongError(f"{at.rstrip('.')}: {_shown(table)} is no table")
    if kind is KindValues:
        table = _kind_table(table)
    hints = _hints(kind)  # type: ignore[arg-type]  # a class has a hash
    known = {item.name: item for item in fields(kind)}
    if unknown := sorted(set(table) - set(known)):
        raise _WrongError(f"{at}{quoted(unknown[0])}: no such key; known are {', '.join(known)}")
    for key, item in known.items():
        if key not in table and item.default is MISSING and item.default_factory is MISSING:
            raise _WrongError(f"{at}{key}: it is missing")
    return kind(**{key: _typed(hints[key], raw, f"{at}{key}") for key, raw in table.items()})


@cache
def _hints(kind: type[Any]) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _kind_table(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table of a kind of operations as the record has it: its values below `values`.

    `basis` and `source` beside the values stand for those that do not say theirs.
    """
    common = {word: table[word] for word in WORDS if word in table}
    values = {
        key: {**common, **raw} if isinstance(raw, dict) else raw
        for key, raw in table.items()
        if key not in ("fitted", *WORDS)
    }
    return {"values": values, **({"fitted": table["fitted"]} if "fitted" in table else {})}


def _typed(hint: Any, raw: Any, at: str) -> Any:
    """What a key holds as its field wants it."""
    wanted = next((one for one in get_args(hint) if one is not NoneType), hint)
    if type(None) in get_args(hint):
        return _typed(wanted, raw, at)
    if hint is Value:
        return _value(raw, at)
    if hint is Board:
        return _board(raw, at)
    if is_dataclass(hint):
        return _record(hint, raw, f"{at}.")  # type: ignore[arg-type]  # it is a class
    if get_origin(hint) is Mapping:
        if not isinstance(raw, dict):
            raise _WrongError(f"{at}: {_shown(raw)} is no table")
        one = get_args(hint)[1]
        return {plain(key): _typed(one, each, f"{at}.{quoted(key)}") for key, each in raw.items()}
    if get_origin(hint) is tuple and isinstance(raw, list):
        return tuple(_typed(wanted, each, at) for each in raw)
    if hint is float:
        return _number(raw, at)
    if type(raw) is not hint:
        raise _WrongError(f"{at}: {_shown(raw)} is no {WORDS_FOR.get(hint, 'list')}")
    return plain(raw) if hint is str else raw


def _value(raw: Any, at: str) -> Value:
    example = "{ value = 1.0, low = 0.9, high = 1.1, basis = ..., source = ... }"
    if not isinstance(raw, dict):
        raise _WrongError(f"{at}: {_shown(raw)} has no range and no source: write {example}")
    for key in (*ENDS, *WORDS):
        if key not in raw:
            raise _WrongError(f"{at}.{key}: it is missing; a value is {example}")
    if unknown := sorted(set(raw) - {*ENDS, *WORDS}):
        raise _WrongError(f"{at}.{unknown[0]}: no such key; a value is {example}")
    value, low, high = (_number(raw[key], f"{at}.{key}") for key in ENDS)
    basis, source = (_typed(str, raw[key], f"{at}.{key}") for key in WORDS)
    result = Value(value=value, low=low, high=high, basis=basis, source=source)
    if problem := _value_problem(result):
        raise _WrongError(f"{at}: {problem}")
    return result


def _shown(raw: Any) -> str:
    return brief(repr(raw))


def _number(raw: Any, at: str) -> float:
    if type(raw) in (int, float):
        with suppress(OverflowError):  # a whole number may have any length
            if math.isfinite(raw):
                return float(raw)
    raise _WrongError(f"{at}: {_shown(raw)} is no number")


def _value_problem(value: Value) -> str:
    if not value.low <= value.value <= value.high:
        return f"{value.value:g} is not within {value.low:g} to {value.high:g}"
    if value.basis not in BASES:
        return f"basis {value.basis!r}: it is one of {', '.join(BASES)}"
    if not value.source.strip():
        return "the source is empty"
    return ""


def _board(raw: Any, at: str) -> Board:
    try:
        return boards.find(_typed(str, raw, at))
    except InvalidValueError as error:
        raise _WrongError(f"{at}: {error}") from error


# What the board's table says


def _with_board(device: Device) -> Device:
    """The device with what its board's table says where its own file says nothing."""
    board = device.board
    if board is None:
        return device
    return replace(
        device,
        memory=_filled(
            device.memory,
            size=_of_board(board, board.memory),
            clock=_of_board(board, board.memory_controller.get("max_hz")),
        ),
        processors={
            name: _processor(processor, board, f"processors.{name}")
            for name, processor in device.processors.items()
        },
        power=_power(device.power, board),
        thermal=_thermal(device.thermal, board),
        modes=_modes(device, board),
    )


def _of_board(board: Board, value: float | None) -> Value | None:
    if value is None:
        return None
    source = f"boards/{board.name}.toml"
    exact = float(value)
    return Value(value=exact, low=exact, high=exact, basis="datasheet", source=source)


def _filled(record: R, **values: Value | None) -> R:
    """The record with these values where it has none."""
    return replace(
        record, **{key: value for key, value in values.items() if getattr(record, key) is None}
    )


def _processor(processor: Processor, board: Board, at: str) -> Processor:
    if processor.kind == "gpu":
        clocks = {key: board.gpu.get(key) for key in ("min_hz", "max_hz")}
    elif processor.cluster:
        clusters = [one for one in board.clusters if one.kind == processor.cluster]
        if not clusters:
            kinds = sorted({one.kind for one in board.clusters})
            raise _WrongError(
                f"{at}.cluster: {board.name} has no {processor.cluster!r}, but {', '.join(kinds)}"
            )
        processor = replace(processor, cores=sum(len(one.cores) for one in clusters))
        clocks = {"min_hz": clusters[0].min_hz, "max_hz": clusters[0].max_hz}
    else:
        return processor
    return _filled(processor, **{key: _of_board(board, hz) for key, hz in clocks.items()})


def _power(power: Power, board: Board) -> Power:
    return replace(
        power,
        leaves_out=power.leaves_out or board.leaves_out,
        no_total=power.no_total or board.no_total,
    )


def _thermal(thermal: Thermal, board: Board) -> Thermal:
    """Throttling begins where the first zone's does."""
    limits = [zone.throttle_c for zone in board.zones if zone.throttle_c is not None]
    if not limits:
        return thermal
    return _filled(thermal, throttle=_of_board(board, min(limits)))


def _modes(device: Device, board: Board) -> dict[str, Mode]:
    """The board's modes with what the file says of them, and the file's own."""
    gpus = [name for name, one in device.processors.items() if one.kind == "gpu"]
    modes = {
        mode.name: _mode(device.modes.get(mode.name, Mode()), mode, board, gpus)
        for mode in board.modes
    }
    return {**modes, **{name: mode for name, mode in device.modes.items() if name not in modes}}


def _mode(mode: Mode, stated: BoardMode, board: Board, gpus: list[str]) -> Mode:
    filled = _filled(
        mode,
        memory_clock=_of_board(board, stated.memory_hz),
        cap=_of_board(board, stated.watts),
    )
    clock = _of_board(board, stated.gpu_hz)
    if clock is None:
        return filled
    return replace(filled, clocks={**dict.fromkeys(gpus, clock), **filled.clocks})


# What cannot be


def _problems(device: Device) -> Iterator[str]:
    if not device.processors:
        yield "processors: it has none"
    yield from _range_problems(device)
    yield from _memory_problems(device.memory)
    yield from _power_problems(device.power)
    for name, processor in device.processors.items():
        yield from _processor_problems(processor, f"processors.{name}", device.memory)
    for name, floor in device.floors.items():
        if floor.counted not in COUNTED:
            yield f"floors.{quoted(name)}.counted: {floor.counted!r} is none of {', '.join(COUNTED)}"
    for part in set(device.power.parts) - set(PARTS):
        yield f"power.parts.{quoted(part)}: parts are {', '.join(PARTS)}"
    for name, mode in device.modes.items():
        for own, cores in mode.cores.items():
            if cores < 0:
                yield f"modes.{quoted(name)}.cores.{quoted(own)}: {cores} is below 0"
        for unknown in sorted({*mode.cores, *mode.clocks} - set(device.processors)):
            yield f"modes.{quoted(name)}: {unknown!r} is none of the processors"
        for part in sorted(set(mode.dynamic) - set(PARTS)):
            yield f"modes.{quoted(name)}.dynamic.{quoted(part)}: parts are {', '.join(PARTS)}"
    yield from _implausible(device)


def _range_problems(device: Device) -> Iterator[str]:
    for key, unit, value in device.values():
        if value.low < 0 and unit not in ("°C", ""):
            yield f"{key}: {value.low:g} {unit} is below zero"
        if value.basis == "estimate" and not _is_wide(value, unit):
            wide = f"{ESTIMATE_SPAN_C:g} °C" if unit == "°C" else f"{ESTIMATE_SPREAD:g} times"
            yield (
                f"{key}: an estimate from {value.low:g} to {value.high:g} is too sure: its ends "
                f"differ by {wide} at least"
            )


def _implausible(device: Device) -> Iterator[str]:
    for key, unit, value in device.values():
        low, high = PLAUSIBLE.get(unit, (-inf, inf))
        if not low <= value.low <= value.high <= high:
            yield (
                f"{key}: {value.low:g} to {value.high:g} {unit} is not plausible: "
                f"{low:g} to {high:g} {unit} would be"
            )
        if key.startswith("kinds."):
            if key.endswith(AMOUNTS) and value.low < 0:
                yield f"{key}: {value.low:g} is below zero"
            divides = key.endswith(DIVISORS) or ".interval." in key
            if divides and value.low <= 0:
                yield f"{key}: {value.low:g} to {value.high:g}: it must be above 0"


def _is_wide(value: Value, unit: str) -> bool:
    """True if the range is as wide as an estimate's must be; 0 °C is no nothing to divide by."""
    if unit == "°C":
        return value.high - value.low >= ESTIMATE_SPAN_C
    if value.low <= 0 <= value.high:
        return value.low < value.high
    small, large = sorted((abs(value.low), abs(value.high)))
    return large >= ESTIMATE_SPREAD * small


def _memory_problems(memory: Memory) -> Iterator[str]:
    if memory.size and memory.usable and memory.usable.value > memory.size.value:
        yield "memory.usable: it is more than memory.size"


def _power_problems(power: Power) -> Iterator[str]:
    if power.idle and power.full and power.idle.value > power.full.value:
        yield "power.idle: it is more than power.full"
    if power.efficiency and not 0 < power.efficiency.low <= power.efficiency.high <= 1:
        yield "power.efficiency: it is a share, above 0 and 1 at most"


def _processor_problems(processor: Processor, at: str, memory: Memory) -> Iterator[str]:
    if processor.kind not in ("gpu", "cpu"):
        yield f"{at}.kind: {processor.kind!r} is neither gpu nor cpu"
    if processor.kind == "cpu" and processor.cores < 1:
        yield f"{at}.cores: it is missing, or less than 1"
    if processor.cores < 0:
        yield f"{at}.cores: {processor.cores} is below 0"
    for key in ("peak", "per_cycle"):
        if unknown := sorted(set(getattr(processor, key)) - set(PRECISIONS)):
            yield f"{at}.{key}.{unknown[0]}: precisions are {', '.join(PRECISIONS)}"
    own, pins = processor.bandwidth, memory.bandwidth
    if own and pins and memory.unified and own.value > pins.high:
        yield f"{at}.bandwidth: it is more than memory.bandwidth"

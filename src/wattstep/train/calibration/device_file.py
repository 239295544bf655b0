"""The file of a device that was measured here: TOML as `wattstep.devices` reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median
from types import MappingProxyType
from typing import Any, Final

from wattstep.devices.table import quoted
from wattstep.predict.cpu.memory import THRESHOLD
from wattstep.predict.cpu.time import FILLED
from wattstep.predict.threads import SHARE, THREADS
from wattstep.schema.ceilings import Ceilings
from wattstep.schema.figure import Figure
from wattstep.train.calibration.fitting import MOST_SHARED, Fit, Spread

PRECISIONS: Final = ("fp32", "bf16")
LEAST: Final = 1e-16  # of a value: nothing is free, and a range needs two ends
SHARE_ROOM: Final = (
    0.1  # by which the shares of other trainings may lie beyond those that were measured
)
START_ROOM: Final = 1.5  # times that a larger network may take to start
ROOM: Final = 0.9  # of what is free now that another hour may leave


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a file says of a machine beside its fit.

    Attributes:
        title: Of the device.
        cpu: Of its processor.
        cores: That a training may use.
        size: Bytes that the operating system manages.
        available: Bytes that are available now.
        cache: Bytes of the largest cache.
    """

    title: str
    cpu: str
    cores: int
    size: float
    available: float
    cache: int


def device_toml(
    machine: Machine,
    ceilings: Ceilings | None,
    fit: Fit,
    *,
    engine: str,
    probes: str,
    power: Mapping[str, Any] = MappingProxyType({}),
    storage: Mapping[str, Any] = MappingProxyType({}),
    shares: Sequence[float] = (),
) -> str:
    """The file's text.

    Args:
        machine: The device.
        ceilings: Measured with all cores; None: not measured.
        fit: Its values.
        engine: As its tables name it, "torch-2.13".
        probes: Of the trainings that were measured, in words.
        power: As `power.measure_power` gives it.
        storage: As `storage.measure_storage` gives it.
        shares: As of `fitting.parallel_share`, of each training that was measured with all cores, too.
    """
    return "\n".join(_lines(machine, ceilings, fit, engine, probes, power, storage, shares)) + "\n"


def _lines(
    machine: Machine,
    ceilings: Ceilings | None,
    fit: Fit,
    engine: str,
    probes: str,
    power: Mapping[str, Any],
    storage: Mapping[str, Any],
    shares: Sequence[float],
) -> Iterator[str]:
    measured = "wattstep calibrate-device"
    disturbed = (
        f"other processes took up to {fit.others:.1f} cores while it was measured: ranges are wider for it"
        if fit.others > 0.1
        else ""
    )
    yield f"title = {json.dumps(machine.title)}"
    yield f"note = {json.dumps('; '.join(filter(None, ['measured by `wattstep calibrate-device`, one thread', disturbed])))}"
    yield "\n[memory]\nunified = true"
    yield f"size = {_value(machine.size, machine.size, machine.size, 'MemTotal of /proc/meminfo', 'datasheet')}"
    yield (
        "usable = "
        + _value(
            machine.available, ROOM * machine.available, machine.size,
            "MemAvailable of /proc/meminfo when it was calibrated",
        )
    )  # fmt: skip
    yield f'\n[floors."{engine}"]\ncounted = "process"'
    yield f"memory = {_spread(fit.floor, measured)}"
    if "start" in storage:
        source = "from the start of its process to the end of a LeNet's first step; larger networks take longer"
        yield f"start = {_rounds(storage['start'], source, most=START_ROOM)}"
    yield f'\n[processors.cpu]\nkind = "cpu"\ntitle = {json.dumps(machine.cpu)}\ncores = {machine.cores}'
    yield from _ceilings(ceilings)
    if "read" in storage:
        yield '\n[storage]\ntitle = "disk of the file\'s folder"'
        yield f"read = {_rounds(storage['read'], 'a file of 64 MiB that was in no cache of the system')}"
        yield f"write = {_rounds(storage['write'], 'a file of 64 MiB, until it was on the disk')}"
    yield "\n[power]"
    yield from _figures(power, {"idle": "idle", "full": "full"})
    yield "\n[thermal]"
    yield from _figures(power, {"resistance": "resistance", "time_constant": "time_constant"})
    kinds: dict[str, dict[str, Any]] = {name: dict(values) for name, values in fit.kinds.items()}
    kinds["step"] = dict(fit.step)
    reach = fit.reach["step_time"]
    for name, values in kinds.items():
        yield from _kind(engine, name, probes)
        for key, value in values.items():
            best = max(value, LEAST)
            yield f"{key} = {{ value = {best:.4g}, low = {best * (1 - min(0.9, reach)):.4g}, high = {best * (1 + reach):.4g} }}"
        yield from map(exact, fit.ranges.get(name, {}).items())
        if name == "step":
            yield from map(exact, {"cache": machine.cache, FILLED: 1}.items())
    yield from _kind(engine, "memory", probes)
    for key, spread in fit.memory.items():
        yield f"{quoted(key)} = {{ value = {spread.value:.6g}, low = {spread.low:.6g}, high = {spread.high:.6g} }}"
    yield (
        "threshold = "
        + _value(
            THRESHOLD, 0.6 * THRESHOLD, 1.1 * THRESHOLD,
            "blocks of trainings with and without pages of their own, torch 2.13 on x86-64", "estimate",
        )
    )  # fmt: skip
    if shares:
        yield from _kind(engine, THREADS, probes)
        low, high = (
            max(0.0, min(shares) - SHARE_ROOM), min(MOST_SHARED, max(shares) + SHARE_ROOM),
        )  # fmt: skip
        yield f"{SHARE} = {{ value = {median(shares):.4g}, low = {low:.4g}, high = {high:.4g} }}"
    yield from _kind(engine, "interval", probes)
    for key, value in fit.reach.items():
        yield f"{key} = {{ value = {value:.4g}, low = {value:.4g}, high = {2 * value:.4g} }}"


def _kind(engine: str, name: str, probes: str) -> Iterator[str]:
    return kind_heading(engine, name, probes, "wattstep calibrate-device")


def kind_heading(engine: str, name: str, probes: str, source: str) -> Iterator[str]:
    """Begin of the table of a kind of operations.

    Args:
        engine: As tables name it.
        name: Of the kind.
        probes: Of the trainings that were measured, in words.
        source: The command that measured them.
    """
    yield f'\n[kinds."{engine}".{json.dumps(name)}]'
    yield f"fitted = {json.dumps(probes)}"
    yield f'basis = "calibration"\nsource = {json.dumps(source)}'


def exact(item: tuple[str, float]) -> str:
    """A value that is counted, by its key, as TOML."""
    key, value = item
    return f"{key} = {{ value = {value:.12g}, low = {value:.12g}, high = {value:.12g} }}"


def _ceilings(ceilings: Ceilings | None) -> Iterator[str]:
    if ceilings is None:
        return
    for precision in PRECISIONS:
        figure = ceilings.peak(precision)
        if figure is not None and figure.value:
            source = f"wattstep ceilings with {ceilings.threads} threads"
            yield f"peak.{precision} = {_figure(figure, source)}"
    best = ceilings.memory.best
    if best.value:
        yield f"bandwidth = {_figure(best, 'wattstep ceilings, copy or triad in memory')}"


def _figure(figure: Figure, source: str) -> str:
    assert figure.value is not None
    return _value(figure.value, figure.low or figure.value, figure.high or figure.value, source)


def _figures(power: Mapping[str, Any], keys: Mapping[str, str]) -> Iterator[str]:
    for key, name in keys.items():
        if name in power:
            figure = Figure.from_dict(power[name])
            yield f"{key} = {_figure(figure, f'{figure.status}: {figure.source or figure.method}')}"


def _rounds(values: Sequence[float], source: str, most: float = 1.0) -> str:
    return _value(median(values), min(values), most * max(values), source)


def _spread(spread: Spread, source: str) -> str:
    return _value(spread.value, spread.low, spread.high, source)


def spread(value: float, low: float, high: float, source: str) -> str:
    """A calibrated value with its range, as TOML."""
    return _value(value, low, high, source)


def _value(value: float, low: float, high: float, source: str, basis: str = "calibration") -> str:
    assert isfinite(value)
    return (
        f"{{ value = {value:.6g}, low = {min(low, value):.6g}, high = {max(high, value):.6g}, "
        f"basis = {json.dumps(basis)}, source = {json.dumps(source)} }}"
    )


def chosen(machine: Mapping[str, Any]) -> str:
    """Name of a machine for readers: its board's or maker's where the system tells, else its processor's."""
    model = str(machine.get("model") or "")
    return model if model and "unknown" not in model else str(machine.get("cpu") or "this machine")

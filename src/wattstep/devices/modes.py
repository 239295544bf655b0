"""A device in one of its power modes: fewer cores, lower clocks, less power."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wattstep.devices.table import Device, Mode, Part, Power, Processor, Value
from wattstep.errors import InvalidValueError

ON_CLOCKS = ("cpu", "gpu")  # parts whose dynamic power goes with clock and voltage


def mode_name(device: Device, name: str) -> str:
    """A power mode as the device's file spells it.

    Args:
        device: The device.
        name: Of the mode, in any case.

    Raises:
        InvalidValueError: It has no such mode.
    """
    by_name = {each.lower(): each for each in device.modes}
    if name.lower() not in by_name:
        modes = ", ".join(device.modes) or "none that its file knows"
        raise InvalidValueError(
            f"--mode {name!r}: modes of {device.name} are {modes}", id="unknown-mode"
        )
    return by_name[name.lower()]


def in_mode(device: Device, name: str) -> Device:
    """The device as it is in a power mode.

    Peaks go with cores and clocks, the time to start an operation with the CPU's clock, the memory's
    rate with its own. Dynamic power is the mode's where its file says it, else it goes with cores
    and with the clock to the power of `clock_exponent`.

    Args:
        device: In its fastest mode.
        name: Of the mode, in any case.

    Raises:
        InvalidValueError: It has no such mode, or the mode says nothing of any clock.
    """
    name = mode_name(device, name)
    mode = device.modes[name]
    shares = {each: _share(one, each, mode) for each, one in device.processors.items()}
    memory = _ratio(mode.memory_clock, device.memory.clock)
    by_kind = _by_kind(device, shares)
    host = by_kind.get("cpu", (1.0, 1.0))[1]
    why = f"in mode {name}"
    return replace(
        device,
        title=f"{device.title}, {why}",
        memory=replace(device.memory, bandwidth=_scaled(device.memory.bandwidth, memory, why)),
        processors={
            each: _processor(one, *shares[each], memory, host, why)
            for each, one in device.processors.items()
            if shares[each][0] > 0
        },
        power=_power(device.power, mode, by_kind, memory, why),
    )


def _share(processor: Processor, name: str, mode: Mode) -> tuple[float, float]:
    """Parts of its cores and of its clock that a mode leaves."""
    cores = mode.cores.get(name, processor.cores)
    left = min(1.0, cores / processor.cores) if processor.cores else 1.0
    return left, _ratio(mode.clocks.get(name), processor.max_hz)


def _ratio(value: Value | None, most: Value | None) -> float:
    return 1.0 if value is None or most is None else value.value / most.value


def _scaled(value: Value | None, factor: float, why: str) -> Value | None:
    if value is None or factor == 1.0:
        return value
    ends = (value.value * factor, value.low * factor, value.high * factor)
    source = f"{value.source}; times {factor:.3g} {why}"
    return replace(value, value=ends[0], low=ends[1], high=ends[2], source=source)


def _processor(
    processor: Processor, cores: float, clock: float, memory: float, host: float, why: str
) -> Processor:
    return replace(
        processor,
        cores=round(processor.cores * cores),
        max_hz=_scaled(processor.max_hz, clock, why),
        peak={
            precision: scaled
            for precision, value in processor.peak.items()
            if (scaled := _scaled(value, cores * clock, why)) is not None
        },
        bandwidth=_scaled(processor.bandwidth, memory, why),
        launch=_scaled(processor.launch, 1 / (host if processor.kind == "gpu" else clock), why),
    )


def _by_kind(
    device: Device, shares: Mapping[str, tuple[float, float]]
) -> Mapping[str, tuple[float, float]]:
    """Parts of cores and clock by kind of processor, clusters weighted by their peaks."""
    sums: dict[str, list[float]] = {}
    for name, one in device.processors.items():
        peak = one.peak.get("fp32")
        weight = peak.value if peak is not None else 1.0
        cores, clock = shares[name]
        row = sums.setdefault(one.kind, [0.0, 0.0, 0.0])
        row[0] += weight
        row[1] += weight * cores
        row[2] += weight * cores * clock
    return {
        kind: (cores / whole, clocked / cores if cores else 1.0)
        for kind, (whole, cores, clocked) in sums.items()
    }


def _power(
    power: Power,
    mode: Mode,
    shares: Mapping[str, tuple[float, float]],
    memory: float,
    why: str,
) -> Power:
    exponent = power.clock_exponent
    parts = {}
    for name, part in power.parts.items():
        stated = mode.dynamic.get(name)
        if stated is None and name == "memory":
            stated = _scaled(part.dynamic, memory, why)
        elif stated is None and name in ON_CLOCKS and exponent is not None and part.dynamic:
            cores, clock = shares.get(name, (1.0, 1.0))
            ends = sorted(cores * clock**each for each in (exponent.low, exponent.high))
            dynamic = part.dynamic
            stated = dynamic
            if cores != 1 or clock != 1:
                stated = Value(
                    value=dynamic.value * cores * clock**exponent.value,
                    low=dynamic.low * ends[0],
                    high=dynamic.high * ends[1],
                    basis=dynamic.basis,
                    source=f"{dynamic.source}; with cores and clocks {why}",
                )
        parts[name] = Part(idle=part.idle, dynamic=stated or part.dynamic)
    return replace(power, full=mode.full or power.full, parts=parts)

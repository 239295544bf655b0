"""Power that processors add while they look samples up: as the user states it, or as a device's file has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot, isfinite
from typing import Final

from wattstep import devices
from wattstep.devices.table import Device, Value
from wattstep.errors import InvalidValueError
from wattstep.labeling.placement import CPU
from wattstep.schema.figure import Figure, Status
from wattstep.store import this_device

GPU: Final = "gpu"
STATED: Final = "given by the user"
CONFIDENCE: Final = 0.9  # of the ranges of devices' files


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a processor keeps busy.

    Attributes:
        name: As the user calls it.
        kind: `CPU`, `GPU`, or another of an OpenCL device.
        cores: Of the CPU that are its own, by number; empty: none are.
    """

    name: str
    kind: str
    cores: tuple[int, ...] = ()


def parse_watts(text: str) -> dict[str, float]:
    """Powers of processors from "cpu:0-3=1.2,opencl:0=4".

    Raises:
        InvalidValueError: It is none.
    """
    watts: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            name = ""
        if not name or name in watts:
            raise InvalidValueError(
                f"--power {text}: write watts for each processor once, e.g. cpu:0-3=1.2,opencl:0=4",
                id="malformed-power",
            )
        watts[name] = value
    return watts


def powers_of(
    loads: Sequence[Load], watts: Mapping[str, float], device: str | None
) -> tuple[Figure, ...]:
    """Power in W that each adds to what the idle device takes.

    Args:
        loads: Of the processors.
        watts: What the user states, by name.
        device: Whose file says the others, as commands name it; None: of none.

    Raises:
        InvalidValueError: That of a processor is not known, or what is stated cannot be.
    """
    for name, value in watts.items():
        if name not in {each.name for each in loads}:
            names = ",".join(each.name for each in loads)
            raise InvalidValueError(
                f"power of {name}: it is none of the processors {names}", id="unknown-processor"
            )
        if not (value > 0 and isfinite(value)):
            raise InvalidValueError(
                f"power of {name}: {value:g} W is not above 0", id="out-of-range"
            )
    where = None if device is None else devices.find(this_device.find(device))
    return tuple(
        Figure(value=watts[each.name], unit="W", status=Status.PREDICTED, source=STATED)
        if each.name in watts
        else _of_file(each, where)
        for each in loads
    )


def _of_file(load: Load, device: Device | None) -> Figure:
    """Power by a device's file: of its GPU, or of CPU cores, each of which adds the same."""
    if device is None:
        raise InvalidValueError(
            f"the power of {load.name} is not known: state it, --power {load.name}=WATTS, or name the device, "
            "--device NAME (wattstep devices lists them), or this, once calibrated",
            id="needs-power",
        )
    share, words = 1.0, load.kind
    if load.kind == CPU and load.cores:
        share, words = _part_of_cpu(load, device)
    elif load.kind != GPU:
        raise _unknown(load, device, "how much of the CPU it keeps busy; name cores, as cpu:0-3")
    elif len([each for each in device.processors.values() if each.kind == GPU]) != 1:
        raise _unknown(load, device, "the power of a GPU")
    added = _added(device, load.kind)
    if added is None:
        raise _unknown(
            load, device, f"what a busy {load.kind} adds (power.parts.{load.kind}.dynamic)"
        )
    return Figure(
        value=share * added.value,
        unit="W",
        low=share * added.low,
        high=share * added.high,
        confidence=CONFIDENCE,
        status=Status.PREDICTED,
        source=f"{device.name}, {words} at full load: {added.basis}",
    )


def _part_of_cpu(load: Load, device: Device) -> tuple[float, str]:
    """Which share of all cores those of a cluster are, and in words."""
    kinds = [each.cores for each in device.processors.values() if each.kind == CPU]
    some, every = len(load.cores), sum(kinds)
    if some > every:
        raise InvalidValueError(
            f"{load.name}: {device.name} has {every} CPU cores", id="core-refused"
        )
    if len(kinds) > 1 and some < every:
        raise _unknown(load, device, "the power of each kind of its unequal cores")
    return some / every, f"{some} of {every} CPU cores"


def _added(device: Device, part: str) -> Value | None:
    """What full load of a part adds to the idle device."""
    power = device.power
    idle, full = power.idle, power.full
    if not power.parts and part == CPU and idle and full:  # a calibration knows these alone
        added = full.value - idle.value
        return Value(
            value=added,
            low=max(0.0, added - hypot(full.value - full.low, idle.high - idle.value)),
            high=added + hypot(full.high - full.value, idle.value - idle.low),
            basis=full.basis,
            source=full.source,
        )
    return power.parts[part].dynamic if part in power.parts else None


def _unknown(load: Load, device: Device, what: str) -> InvalidValueError:
    return InvalidValueError(
        f"{device.name} does not say {what}: state it, --power {load.name}=WATTS", id="needs-power"
    )

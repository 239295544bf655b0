"""Fitted values of a device and framework; of one that nobody measured those of another, with a wide spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, hypot, log
from statistics import NormalDist
from typing import Final

from wattstep import devices
from wattstep.devices.table import Device, Floor, Processor, Value, quoted
from wattstep.errors import InvalidValueError
from wattstep.predict.lacking import absent_values, refuse_lacking

BORROWED: Final = ("jetson-tx2", "torch-1.6")  # whose values others take
TORCH: Final = "torch"
# What products and convolutions of a training are computed in, and the bytes of what they take and give.
COMPUTED_IN: Final = {
    "fp32": ("fp32", 4),
    "tf32": ("tf32", 4),
    "bf16": ("bf16", 2),
    "amp": ("bf16", 2),
    "amp-fp16": ("fp16", 2),
}
# Part of the peak of tensor cores that they reach: large products on an AGX Orin reach 0.8 (ApxInf
# PR#74), those of trainings are smaller.
TENSOR_EFFICIENCY: Final = 0.5
# Part of the memory's rate at which an update of all parameters at once streams: the 292 ms of
# TinyLlama's AdamW with its clipping on an AGX Orin (TetraRL), which move 51 GB.
UPDATE_EFFICIENCY: Final = 0.85
PRECISION_SPREAD: Final = log(1.5)  # by which times of a precision may be off that nobody measured
# By which these may be off elsewhere, times and divided by: tensors are the same everywhere.
BORROWED_SPREAD: Final = {"step_time": log(2.0)}
BORROWED_MEMORY_SPREAD: Final = log(1.25)
NORMAL: Final = NormalDist()
NORMAL_90: Final = 1.645  # half of a normal distribution's 90 % interval, in standard deviations


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What a prediction takes from a device.

    Attributes:
        device: The device.
        engine: The framework that values are of.
        gpu: Its processor.
        peak: FLOP/s in fp32.
        tensor: FLOP/s that products and convolutions reach in a lower precision; 0: it is fp32.
        element: Bytes of an element of what these take and give.
        gradients_stay: Whether gradients stay from step to step, as in torch 1.6.
        bandwidth: B/s of its memory.
        usable: Bytes beyond the idle system's that a training can take.
        floor: Bytes of a training without tensors, counted as `usable`.
        values: By kind of kernel and name.
        reach: Half of the 90 % interval by quantity, as a logarithm.
        fitted: Where the values were fitted.
        checked: Whether intervals rest on trainings of this device.
        notes: What a reader must know of them.
    """

    device: Device
    engine: str
    gpu: Processor
    peak: float
    tensor: float
    element: int
    gradients_stay: bool
    bandwidth: float
    usable: Value
    floor: Value
    values: Mapping[str, Mapping[str, float]]
    reach: Mapping[str, float]
    fitted: str
    checked: bool
    notes: tuple[str, ...] = ()


def fitted_values(device: Device, engine: str | None, precision: str) -> Fitted:
    """The values for predictions on a device.

    Args:
        device: The device.
        engine: The framework, as the device's file names it; None: the one that values are of.
        precision: One of `COMPUTED_IN`.

    Raises:
        InvalidValueError: The device has no GPU, lacks a value, or nobody fitted any for this.
    """
    gpus = [each for each in device.processors.values() if each.kind == "gpu"]
    if not gpus:
        raise InvalidValueError(
            f"{device.name} has no GPU: predictions for CPUs wait for a calibration of such a device"
        )
    gpu = gpus[0]
    if precision not in COMPUTED_IN:
        raise InvalidValueError(
            f"--precision {precision}: predictions know {', '.join(COMPUTED_IN)}",
            id="unknown-precision",
        )
    computed_in, element = COMPUTED_IN[precision]
    if computed_in not in gpu.peak:
        raise InvalidValueError(
            f"--precision {precision}: {gpu.title} has no {computed_in}: its peaks are of {', '.join(gpu.peak)}",
            id="precision-not-on-device",
        )
    known = sorted(name for name in {*device.kinds, *device.floors} if _framework(name) == TORCH)
    if engine is not None and known and engine not in known:
        raise InvalidValueError(
            f"--engine {engine!r}: of {device.name} predictions know {', '.join(known)}",
            id="unknown-framework",
        )
    fitted_to = [name for name in device.kinds if _framework(name) == TORCH]
    engine = engine or next(iter([*fitted_to, *known]), TORCH)
    of, name = device, engine
    notes: tuple[str, ...] = ()
    borrowed = engine not in device.kinds
    if borrowed:
        of, name = devices.find(BORROWED[0]), BORROWED[1]
        notes = (
            f"nobody measured {engine} on {device.name}: efficiencies are those of {BORROWED[1]} on "
            f"{of.name}, in proportion to peak and bandwidth, and may be off by a factor of 2",
        )
    peak, bandwidth = gpu.peak.get("fp32"), device.memory.bandwidth
    usable = device.memory.usable
    floor = _floor(device, engine)
    needed = {
        f"processors.{_key_of(device, gpu)}.peak.fp32": peak,
        "memory.bandwidth": bandwidth,
        "memory.usable": usable,
        f"floors.{quoted(engine)}": floor,
    }
    refuse_lacking(device, [key for key, value in needed.items() if value is None])
    assert peak is not None
    assert bandwidth is not None
    assert usable is not None
    assert floor is not None
    assert floor.memory is not None
    kinds = of.kinds[name]
    borrowable = devices.find(BORROWED[0]).kinds[BORROWED[1]]
    refuse_lacking(
        of,
        absent_values(kinds, name, {kind: each.values for kind, each in borrowable.items()}),
        "a fit to trainings that were measured on it tells them",
    )
    values = {
        kind: {key: value.value for key, value in each.values.items()}
        for kind, each in kinds.items()
    }
    starting = _starting(gpu, of)
    values["step"] = {key: seconds * starting for key, seconds in values["step"].items()}
    gradients_stay = engine == BORROWED[1]
    if not gradients_stay:
        values["optimizer"] = {"bandwidth_efficiency": UPDATE_EFFICIENCY}
    reach = {key: value.value for key, value in kinds["interval"].values.items()}
    if borrowed:
        for key in reach:
            reach[key] += BORROWED_SPREAD.get(key, BORROWED_MEMORY_SPREAD)
    if precision != "fp32":
        scaled = "; what scaling its gradients takes is left out" * (computed_in == "fp16")
        notes = (
            *notes,
            f"no training in {precision} was measured: by estimate, its products and convolutions reach half of the peak in {computed_in}{scaled}",
        )
        reach["step_time"] = hypot(reach["step_time"], PRECISION_SPREAD)
    return Fitted(
        device=device,
        engine=engine,
        gpu=gpu,
        peak=peak.value,
        tensor=0.0 if computed_in == "fp32" else TENSOR_EFFICIENCY * gpu.peak[computed_in].value,
        element=element,
        gradients_stay=gradients_stay,
        bandwidth=bandwidth.value,
        usable=usable,
        floor=floor.memory,
        values=values,
        reach=reach,
        fitted=kinds["step"].fitted,
        checked=not borrowed,
        notes=notes,
    )


def _key_of(device: Device, processor: Processor) -> str:
    return next(quoted(key) for key, each in device.processors.items() if each is processor)


def _starting(gpu: Processor, of: Device) -> float:
    """How much longer the host of a device takes to start a kernel than that of which values are."""
    reference = next(each for each in of.processors.values() if each.kind == "gpu")
    if gpu.launch is None or reference.launch is None:
        return 1.0
    return gpu.launch.value / reference.launch.value


def _floor(device: Device, engine: str) -> Floor | None:
    floor = device.floors.get(engine) or device.floors.get(_framework(engine))
    return floor if floor is not None and floor.memory is not None else None


def _framework(engine: str) -> str:
    """Of "torch-1.6": "torch"."""
    return engine.partition("-")[0]


def quantile(value: Value, probability: float) -> float:
    """Below which the true value lies with a probability: its range is the 90 % interval of a logarithm's two normal halves.

    Args:
        value: Above 0, as its ends are.
        probability: Between 0 and 1.
    """
    z = NORMAL.inv_cdf(probability) / NORMAL_90
    return value.value * exp(z * _half(value, above=z > 0))


def chance_below(value: Value, limit: float) -> float:
    """Probability that the true value is `limit` or less; as `quantile`."""
    if limit <= 0:
        return 0.0
    away = log(limit / value.value)
    half = _half(value, above=away > 0)
    if half == 0:
        return 1.0 if away >= 0 else 0.0
    return NORMAL.cdf(away / half * NORMAL_90)


def _half(value: Value, *, above: bool) -> float:
    """Distance of an end, as a logarithm."""
    return log(value.high / value.value) if above else log(value.value / value.low)


def widened(value: float, reach: float) -> tuple[float, float]:
    """Ends of an interval."""
    return value * exp(-reach), value * exp(reach)

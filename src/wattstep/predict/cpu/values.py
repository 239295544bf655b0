"""A device's values for trainings on its CPU, as `wattstep calibrate-device` writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wattstep.devices.table import TORCH, Device, Processor, Value, framework_of, quoted
from wattstep.errors import InvalidValueError
from wattstep.predict.cpu.engines import EXPORTED, GROWTH, TENSORS
from wattstep.predict.cpu.time import FILLED, FRESH, KINDS, NEAR, STARTING, VALUES
from wattstep.predict.lacking import absent_values, refuse_lacking

CALIBRATE: Final = "`wattstep calibrate-device`, run on it, measures them"
INTERVAL: Final = ("system", "reserved", "allocated", "step_time")
MEMORY: Final = ("preparation", "steps", "threshold")
STEP: Final = (*(f"{phase}_start_s" for phase in STARTING), FRESH, "step_s", "cache")


@dataclass(frozen=True, kw_only=True)
class CpuValues:
    """What a prediction takes from a device.

    Attributes:
        device: The device.
        engine: The framework that values are of.
        cpu: Its processor.
        usable: Bytes beyond the idle system's that a training can take.
        floor: Bytes of a process that has loaded the framework.
        values: By kind, of `cpu.time.KINDS`, "step" and "memory".
        reach: Half of the 90 % interval by quantity, as a logarithm.
        fitted: Where the values were fitted.
        checked: Whether intervals rest on trainings of this device.
        notes: What a reader must know of them.
    """

    device: Device
    engine: str
    cpu: Processor
    usable: Value
    floor: Value
    values: Mapping[str, Mapping[str, float]]
    reach: Mapping[str, float]
    fitted: str
    checked: bool = True
    notes: tuple[str, ...] = ()

    @property
    def exported(self) -> bool:
        """True if it trains what torch exported: its batches lie in memory, and are not drawn."""
        return bool(self.values["step"].get(EXPORTED))

    @property
    def filled(self) -> bool:
        """What `work_of` has to count, for values that were fitted to it."""
        return FILLED in self.values["step"]

    @property
    def of_torch(self) -> bool:
        """True if memory is that of torch's own process, whose allocator is replayed."""
        return GROWTH not in self.values["memory"]

    @property
    def libraries(self) -> Mapping[str, float]:
        """Bytes of libraries, by name."""
        own = (*MEMORY, TENSORS, GROWTH)
        return {key: size for key, size in self.values["memory"].items() if key not in own}


def is_calibrated(device: Device) -> bool:
    """True if a device has values of torch on its CPU, and no GPU that would train."""
    has_gpu = any(each.kind == "gpu" for each in device.processors.values())
    return not has_gpu and any(framework_of(name) == TORCH for name in device.kinds)


def cpu_values(device: Device, engine: str | None, precision: str) -> CpuValues:
    """The values for predictions on a device's CPU.

    Args:
        device: The device.
        engine: The framework, with its version ("torch-2.13") or without; None: the one that values are of.
        precision: "fp32".

    Raises:
        InvalidValueError: The device was not calibrated, lacks a value, or not for this.
    """
    cpus = [each for each in device.processors.values() if each.kind == "cpu"]
    if not cpus or not is_calibrated(device):
        raise InvalidValueError(f"{device.name} has no GPU and no values for its CPU: {CALIBRATE}")
    if precision != "fp32":
        raise InvalidValueError(
            f"--precision {precision}: values for CPUs are fitted for fp32 alone"
        )
    chosen = [name for name in device.kinds if (engine or TORCH) in (name, framework_of(name))]
    if not chosen:
        raise InvalidValueError(
            f"--engine {engine}: {device.name} has values of {', '.join(device.kinds)} alone: "
            f"`wattstep calibrate-device --engine {engine}`, run on it, measures that engine",
            id="engine-not-calibrated",
        )
    name = chosen[-1]
    kinds = dict(device.kinds[name])
    for kind, near in NEAR.items():  # of a file from before kinds were told apart
        if kind not in kinds and near in kinds:
            kinds[kind] = kinds[near]
    floor, usable = device.floors.get(name), device.memory.usable
    needed = {
        **dict.fromkeys(KINDS, VALUES),
        "step": STEP,
        "memory": MEMORY,
        "interval": INTERVAL,
    }
    absent = absent_values(kinds, name, needed)
    absent += [] if floor is not None and floor.memory is not None else [f"floors.{quoted(name)}"]
    absent += [] if usable is not None else ["memory.usable"]
    refuse_lacking(device, absent, CALIBRATE)
    assert floor is not None
    assert floor.memory is not None
    assert usable is not None
    return CpuValues(
        device=device,
        engine=name,
        cpu=cpus[0],
        usable=usable,
        floor=floor.memory,
        values={
            kind: {key: value.value for key, value in each.values.items()}
            for kind, each in kinds.items()
        },
        reach={key: value.value for key, value in kinds["interval"].values.items()},
        fitted=kinds["step"].fitted,
    )

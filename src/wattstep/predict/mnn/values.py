"""A device's values for trainings with MNN on its CPU."""

from __future__ import annotations

from typing import Final

from wattstep import devices
from wattstep.devices.modes import in_mode
from wattstep.devices.table import Device
from wattstep.errors import InvalidValueError
from wattstep.predict.cpu.values import INTERVAL, CpuValues, is_calibrated
from wattstep.predict.lacking import absent_values, refuse_lacking

MNN: Final = "mnn"
NEEDED: Final = {
    "step": ("second_per_flop", "second_per_byte", "command_s"),
    "memory": ("copies", "tensors"),
    "interval": INTERVAL,
}


def trains_with_mnn(device: Device, engine: str | None) -> bool:
    """True if MNN on a phone is asked for, or is the only framework that the device's values are of.

    A CPU that was calibrated has values of its own for MNN, or none.
    """
    if engine == MNN:
        return MNN in device.kinds or not is_calibrated(device)
    return engine is None and list(device.kinds) == [MNN]


def _measured() -> list[str]:
    """Devices on which trainings with MNN were measured."""
    return [name for name in devices.names() if MNN in devices.find(name).kinds]


def mnn_values(device: Device, precision: str, mode: str | None) -> CpuValues:
    """The values for predictions of MNN on a device's CPU.

    Args:
        device: The device.
        precision: "fp32".
        mode: Power mode that trainings were measured in; None: whatever they were measured in.

    Raises:
        InvalidValueError: No training with MNN was measured on it, or none in this mode or precision.
    """
    kinds, floor, usable = device.kinds.get(MNN, {}), device.floors.get(MNN), device.memory.usable
    cpus = [each for each in device.processors.values() if each.kind == "cpu"]
    if not kinds or not cpus:
        raise InvalidValueError(
            f"--engine {MNN}: no training with it was measured on {device.name}, so nothing is known of its speed there "
            f"(of {', '.join(_measured())} there is): trainings measured on it would tell, fitted as kinds.{MNN} of its "
            "file; where it runs torch, `wattstep calibrate-device`, and then the same with `--engine mnn`, measures them",
            id="unknown-framework",
        )
    if precision != "fp32":
        raise InvalidValueError(
            f"--precision {precision}: MNN trains in fp32", id="unknown-precision"
        )
    absent = absent_values(kinds, MNN, NEEDED)
    absent += [] if floor is not None and floor.memory is not None else [f"floors.{MNN}"]
    absent += [] if usable is not None else ["memory.usable"]
    refuse_lacking(device, absent)
    assert floor is not None
    assert floor.memory is not None
    assert usable is not None
    values = {
        kind: {key: value.value for key, value in each.values.items()}
        for kind, each in kinds.items()
    }
    notes = []
    if mode is None:
        slower = 1.0
    else:
        device = in_mode(device, mode)
        factors = {name.lower(): factor for name, factor in values.get("time in mode", {}).items()}
        if mode.lower() not in factors:
            modes = ", ".join(kinds["time in mode"].values) if "time in mode" in kinds else "none"
            raise InvalidValueError(
                f"--mode {mode}: trainings with MNN on {device.name} were measured in {modes}",
                id="unknown-mode",
            )
        slower = factors[mode.lower()]
    values["step"] = {key: seconds * slower for key, seconds in values["step"].items()}
    notes.append(
        "time is that of 4 threads; its interval spans phones of this kind and the cores they were given"
    )
    return CpuValues(
        device=device,
        engine=MNN,
        cpu=max(cpus, key=lambda each: each.peak["fp32"].value),
        usable=usable,
        floor=floor.memory,
        values=values,
        reach={key: value.value for key, value in kinds["interval"].values.items()},
        fitted=kinds["step"].fitted,
        notes=tuple(notes),
    )

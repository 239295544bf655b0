"""What a training step will cost on a device that is not here: time, memory and power from its graph and the device's file."""

from __future__ import annotations

from collections.abc import Sequence

from wattstep.devices.modes import in_mode
from wattstep.devices.table import Device
from wattstep.predict.cpu.values import cpu_values
from wattstep.predict.cpu_predictor import CpuPredictor
from wattstep.predict.fitted import fitted_values
from wattstep.predict.mnn.predictor import MnnPredictor
from wattstep.predict.mnn.values import mnn_values, trains_with_mnn
from wattstep.predict.prediction import Prediction
from wattstep.predict.predictor import Predictor
from wattstep.schema.step_graph import StepFamily

__all__ = [
    "AnyPredictor",
    "CpuPredictor",
    "MnnPredictor",
    "Prediction",
    "Predictor",
    "check_device",
    "predictor_for",
    "predictors_for",
    "threads_of",
]

AnyPredictor = Predictor | CpuPredictor | MnnPredictor


def predictor_for(
    captured: StepFamily,
    device: Device,
    *,
    engine: str | None = None,
    precision: str = "fp32",
    mode: str | None = None,
) -> AnyPredictor:
    """What predicts a training on a device: with torch on its GPU, where it has one, else on its CPU; with MNN on its CPU.

    Args:
        captured: Its step at any batch size.
        device: Where it would train.
        engine: Framework, as the device's file names it; None: the one that its values are of.
        precision: Of the training.
        mode: Power mode of the device; None: the one that its file is of.

    Raises:
        InvalidValueError: The device's values do not reach, or it has no such mode.
    """
    if trains_with_mnn(device, engine):
        return MnnPredictor(captured, device, precision=precision, mode=mode)
    kind = Predictor if _has_gpu(device) else CpuPredictor
    return kind(captured, device, engine=engine, precision=precision, mode=mode)


def predictors_for(
    captured: StepFamily,
    on: Sequence[Device],
    *,
    engine: str | None = None,
    precision: str = "fp32",
) -> list[AnyPredictor]:
    """As `predictor_for`, on several devices: what no GPU changes of a step is found once for all.

    Args:
        captured: As of `predictor_for`.
        on: Where it would train.
        engine: As of `predictor_for`.
        precision: Likewise.

    Raises:
        InvalidValueError: The values of a device do not reach.
    """
    made = [predictor_for(captured, each, engine=engine, precision=precision) for each in on]
    of_gpus = [each for each in made if isinstance(each, Predictor)]
    for each in of_gpus[1:]:
        each.share(of_gpus[0])
    return made


def check_device(
    device: Device, *, engine: str | None = None, precision: str = "fp32", mode: str | None = None
) -> None:
    """Refuses what `predictor_for` would refuse once a step was captured, which takes seconds.

    Args:
        device: As of `predictor_for`.
        engine: Likewise.
        precision: Likewise.
        mode: Likewise.

    Raises:
        InvalidValueError: The device's values do not reach, or it has no such mode.
    """
    if trains_with_mnn(device, engine):
        mnn_values(device, precision, mode)
        return
    values = fitted_values if _has_gpu(device) else cpu_values
    values(device if mode is None else in_mode(device, mode), engine, precision)


def threads_of(device: Device, engine: str | None) -> int | None:
    """Threads that a device's values for its CPU are of; None where a GPU trains.

    Args:
        device: As of `predictor_for`.
        engine: Likewise.
    """
    if trains_with_mnn(device, engine):
        return MnnPredictor.threads
    return None if _has_gpu(device) else CpuPredictor.threads


def _has_gpu(device: Device) -> bool:
    return any(each.kind == "gpu" for each in device.processors.values())

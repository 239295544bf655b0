"""Calibrates another engine than torch on a machine that was calibrated, and adds its values to the device's file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from wattstep import devices, engines, workloads
from wattstep.devices.table import Device
from wattstep.errors import InvalidValueError, RecordingError, WattstepError
from wattstep.predict.cpu.engine_memory import memory_amounts
from wattstep.predict.cpu.engines import (
    EXPORTED,
    START,
    TIMES,
    group_seconds,
    group_starts,
    values_of_engine,
    values_to_compare,
)
from wattstep.predict.cpu.measured import ranges_of
from wattstep.predict.cpu.memory import THRESHOLD, replay
from wattstep.predict.cpu.time import FILLED, work_of
from wattstep.predict.cpu.values import CpuValues, cpu_values
from wattstep.schema.engine import Engine
from wattstep.schema.workload import Preparation
from wattstep.store import this_device
from wattstep.train.calibration.device_file import LEAST, exact, kind_heading, spread
from wattstep.train.calibration.engine_fitting import EngineFit, EngineTraining, fit_engine
from wattstep.train.calibration.engine_probe import EngineProbe, engine_probe_in_child
from wattstep.train.child.local_machine import one_at_a_time

# Workloads and batch sizes; what an engine refuses is left out, and said.
PROBES: Final = (
    ("lenet", 4), ("lenet", 32), ("autoencoder", 16), ("resnet8", 4), ("resnet8", 16), ("ds-cnn", 4),
    ("ds-cnn", 16), ("squeezenet", 4), ("mobilenetv1-vww", 4), ("mlp", 16),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CalibratedEngine:
    """An engine whose values were measured.

    Attributes:
        path: Of the device's file.
        engine: As its tables name it.
        trainings: That were measured.
        fit: Its values, with errors of what was left out of them.
        notes: What a reader must know.
    """

    path: Path
    engine: str
    trainings: Sequence[EngineTraining]
    fit: EngineFit
    notes: tuple[str, ...]


def calibrate_engine(
    name: str, out: Path, *, tell: Callable[[str, float], None]
) -> CalibratedEngine:
    """Measures an engine on this machine, and adds it to the machine's file.

    Args:
        name: Of the engine.
        out: Where the file is written; its values of torch are those of the last calibration here.
        tell: Hears what is measured next, and what share is done.

    Raises:
        InvalidValueError: It is torch, trains on no CPU, or this machine was not calibrated.
        RecordingError: Too few trainings could be measured.
    """
    if name == engines.DEFAULT:
        raise InvalidValueError(
            "--engine torch: calibrate-device measures it without --engine", id="needless-option"
        )
    engine = engines.find(name)
    engines.check_predicted(name)
    engine.load()
    kept = Path(this_device.find(this_device.THIS))
    device = devices.find(os.fspath(kept))
    measured: list[EngineProbe] = []
    notes: list[str] = []
    with one_at_a_time():
        for number, (workload, batch_size) in enumerate(PROBES):
            tell(f"{workload} at {batch_size}", number / len(PROBES))
            try:
                measured.append(engine_probe_in_child(name, workload, batch_size))
            except WattstepError as error:
                notes.append(f"left out: {error}")
    tell("fit", 1.0)
    trainings = trainings_of(measured, device, exported=engine.exports)
    fit = fit_engine(trainings)
    key = key_of(engine)
    text = with_engine(
        kept.read_text(encoding="utf-8"), key, trainings, fit, device, engine.exports
    )
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordingError(f"{out} cannot be written: {error.strerror or error}") from error
    devices.find(os.fspath(out))  # which refuses what predictions could not read
    this_device.keep(text)
    return CalibratedEngine(
        path=out, engine=key, trainings=trainings, fit=fit, notes=tuple(dict.fromkeys(notes))
    )


def key_of(engine: Engine) -> str:
    """ "mnn-3.6", as tables of a device's file name it."""
    number = engine.version().partition(" ")[2]
    return f"{engine.name}-{'.'.join(number.split('.')[:2])}"


def trainings_of(
    probes: Sequence[EngineProbe], device: Device, *, exported: bool
) -> list[EngineTraining]:
    """What was measured, with what torch's values on the device say of each.

    Args:
        probes: Of one engine.
        device: Calibrated.
        exported: Whether the engine trains what torch exports.
    """
    values = cpu_values(device, None, "fp32")
    return [_training(probe, values, exported=exported) for probe in probes]


def _training(probe: EngineProbe, values: CpuValues, *, exported: bool) -> EngineTraining:
    family = engines.find(engines.DEFAULT).capture(
        workloads.find(probe.workload), Preparation(batch_size=probe.batch_size), "fp32"
    )
    graph = family.at(probe.batch_size)
    growth = replay(graph, threshold=THRESHOLD)
    if exported:
        graph = replace(graph, data_known=False)
    filled = values.filled and not exported
    work = work_of(graph, cache=values.values["step"]["cache"], filled=filled)
    if not graph.data_known:  # its data phase is no part of the step
        computing = [phase != "data" for phase in graph.phases]
        work = replace(work, kinds=work.kinds[computing], features=work.features[computing])
    torch = values_to_compare(values.values, own_kernels=exported)
    return EngineTraining(
        probe=probe,
        seconds=group_seconds(work, torch),
        starts=group_starts(work, torch),
        amounts=memory_amounts(graph, growth, exported=exported),
        work=work,
    )


def with_engine(
    text: str,
    key: str,
    trainings: Sequence[EngineTraining],
    fit: EngineFit,
    device: Device,
    exported: bool,
) -> str:
    """A device's file with an engine's tables, in the place of those that it had.

    Args:
        text: Of the file.
        key: Of the engine, e.g. "mnn-3.6".
        trainings: That were measured.
        fit: Its values.
        device: As the file describes it.
        exported: Whether the engine trains what torch exports.
    """
    name = re.escape(key.rpartition("-")[0])
    heading = rf'\[(?:kinds|floors)\."{name}-[\d.]+"[^\]]*\]'
    bare = re.sub(rf"\n{heading}\n(?:[^\[\n][^\n]*\n)*", "", text)
    return (
        bare.rstrip("\n") + "\n" + "\n".join(_lines(key, trainings, fit, device, exported)) + "\n"
    )


def _lines(
    key: str, trainings: Sequence[EngineTraining], fit: EngineFit, device: Device, exported: bool
) -> Iterator[str]:
    command = f"wattstep calibrate-device --engine {key.rpartition('-')[0]}"
    probes = ", ".join(f"{each.probe.workload} at {each.probe.batch_size}" for each in trainings)
    words = f"{key}, one thread, fp32, over torch's values: {probes}"
    loaded = [each.probe.loaded for each in trainings]
    yield f'\n[floors."{key}"]\ncounted = "process"'
    yield f"memory = {spread(fit.floor, min(loaded), max(loaded), command)}"
    torch = cpu_values(device, None, "fp32").values
    times, starts, step_s = fit.times.times, fit.times.starts, fit.times.step_s
    compared = values_to_compare(torch, own_kernels=exported)
    kinds: dict[str, Mapping[str, float]] = dict(values_of_engine(compared, times, starts, step_s))
    kinds["step"] = {**kinds["step"], "cache": torch["step"]["cache"]}
    if exported:
        kinds["step"] = {**kinds["step"], EXPORTED: 1.0}
    elif FILLED in torch["step"]:
        kinds["step"] = {**kinds["step"], FILLED: 1.0}
    kinds[TIMES] = {
        **times, **{START + group: each for group, each in starts.items()}, "step_s": step_s
    }  # fmt: skip
    kinds["memory"] = {**fit.memory, "steps": 0.0, "threshold": float(THRESHOLD)}
    kinds["interval"] = fit.reach
    wide = fit.reach["step_time"]
    ranges = ranges_of((each.work, each.probe.batch_size) for each in trainings)
    for kind, values in kinds.items():
        yield from kind_heading(key, kind, words, command)
        for name, value in values.items():
            best = max(value, LEAST)
            off = 0.0 if name in ("cache", EXPORTED, FILLED) else wide
            low, high = best * (1 - min(0.9, off)), best * (1 + off)
            yield f'"{name}" = {{ value = {best:.6g}, low = {low:.6g}, high = {high:.6g} }}'
        yield from map(exact, ranges.get(kind, {}).items())

"""Fits, for another engine, how many times as long as torch's its operations take, and judges it on trainings left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from statistics import median
from typing import Final

import numpy as np
from scipy.optimize import least_squares, nnls

from wattstep.errors import RecordingError
from wattstep.predict.cpu.engine_memory import PREPARATION, MemoryAmounts
from wattstep.predict.cpu.engines import GROUPS, GROWTH, START, TENSORS
from wattstep.schema.arrays import FloatArray
from wattstep.train.calibration.engine_probe import EngineProbe
from wattstep.train.calibration.fitting import LEAST_PROBES, LEAST_REACH, quantile_90

# How much it weighs, against a whole step that is off by all of its time, that a group is e times as far
# from torch as all groups are together.
HOLD: Final = 0.15
STEP_S: Final = 2e-5  # of what a step takes beside its operations, where nothing tells it
# Of memory: how often tensors are there (weights, gradients, momentum), and a step's own; how far the fit
# may leave that weighs as much as a process that is off by this part.
PRIOR: Final = (2.0, 1.0)
PRIOR_WEIGHT: Final = 0.03


@dataclass(frozen=True, kw_only=True)
class EngineTraining:
    """A training that was measured on an engine, with what torch's values say of it.

    Attributes:
        probe: What was measured.
        seconds: Of its groups with torch, as `predict.cpu.engines.group_seconds`.
        starts: Of their operations, as `predict.cpu.engines.group_starts`.
        amounts: What its memory is told by.
    """

    probe: EngineProbe
    seconds: Mapping[str, float]
    starts: Mapping[str, float] = field(default_factory=dict)
    amounts: MemoryAmounts


@dataclass(frozen=True, kw_only=True)
class EngineFit:
    """Values of an engine.

    Attributes:
        times: By group: so many times as long as torch.
        step_s: Of a step beside its operations.
        floor: Bytes of a process that has loaded the engine.
        memory: "preparation" in B; how often tensors and a step's growth are there.
        reach: Half of the 90 % interval by quantity, as a logarithm.
        errors: Of each training by a fit without its workload, predicted over measured as a
            logarithm, by quantity, in the order of trainings.
    """

    times: Mapping[str, float]
    step_s: float
    floor: float
    memory: Mapping[str, float]
    reach: Mapping[str, float]
    errors: Mapping[str, tuple[float, ...]]


def fit_engine(trainings: Sequence[EngineTraining]) -> EngineFit:
    """Values that trainings show.

    Args:
        trainings: Of one engine on one machine.

    Raises:
        RecordingError: They are of too few workloads.
    """
    names = {each.probe.workload for each in trainings}
    if len(names) < LEAST_PROBES:
        raise RecordingError(
            f"{len(names)} workloads were measured: a fit takes {LEAST_PROBES} at least",
            id="too-few-trainings",
        )
    times, step_s = fit_times(trainings)
    floor, memory = fit_memory(trainings)
    errors: dict[str, list[float]] = {"system": [], "step_time": []}
    for one in trainings:
        others = [each for each in trainings if each.probe.workload != one.probe.workload]
        errors["step_time"].append(log(seconds_of(one, *fit_times(others)) / one.probe.seconds))
        errors["system"].append(log(peak_of(one, *fit_memory(others)) / one.probe.peak))
    reach = dict(LEAST_REACH)
    for key, each in errors.items():
        reach[key] = max(reach[key], quantile_90(each))
    return EngineFit(
        times=times, step_s=step_s, floor=floor, memory=memory, reach=reach,
        errors={key: tuple(each) for key, each in errors.items()},
    )  # fmt: skip


def fit_times(trainings: Sequence[EngineTraining]) -> tuple[dict[str, float], float]:
    """Times of groups in torch's, and what a step takes beside them in s.

    Logarithms of steps are fitted, so that each training counts by its part, and held to one common factor;
    where the engine told its operations, the share of each group in all of them, too.
    """
    torch = np.array([[each.seconds[group] for group in GROUPS] for each in trainings])
    steps = np.log([each.probe.seconds for each in trainings])
    common = float(np.median(steps - np.log(torch.sum(axis=1))))
    told = np.array([bool(each.probe.shares) for each in trainings])
    own = [group for group in GROUPS if group != START]
    shares = np.array([[each.probe.shares.get(name, 0.0) for name in own] for each in trainings])
    starts = np.array([[each.starts.get(name, 0.0) for name in own] for each in trainings])
    at = [GROUPS.index(group) for group in own]

    def residuals(values: FloatArray) -> FloatArray:
        groups, step, all_ = values[:-2], values[-2], values[-1]
        times = np.exp(groups)
        predicted = np.log(torch @ times + exp(step))
        held = HOLD * np.append(groups - all_, step - log(STEP_S))
        each = torch[:, at] * times[at] + starts * times[GROUPS.index(START)]
        apart = (each / each.sum(axis=1, keepdims=True) - shares)[told]
        return np.concatenate([predicted - steps, apart.ravel(), held])

    start = np.array([*([common] * len(GROUPS)), log(STEP_S), common])
    fitted = least_squares(residuals, start).x
    times = dict(zip(GROUPS, np.exp(fitted[:-2]).tolist(), strict=True))
    return times, float(np.exp(fitted[-2]))


def seconds_of(training: EngineTraining, times: Mapping[str, float], step_s: float) -> float:
    """Time of a training's step in s, as values predict it."""
    return step_s + sum(times[group] * seconds for group, seconds in training.seconds.items())


def fit_memory(trainings: Sequence[EngineTraining]) -> tuple[float, dict[str, float]]:
    """Bytes of the engine itself, and values of memory beyond it."""
    floor = float(median(each.probe.loaded for each in trainings))
    rows, wanted = [], []
    for each in trainings:
        peak, amounts = each.probe.peak, each.amounts
        rows.append([1e6 / peak, amounts.tensors / peak, amounts.growth / peak])
        wanted.append((peak - floor - amounts.batches) / peak)
    prior = PRIOR_WEIGHT * np.diag([0.0, *(1 / each for each in PRIOR)])
    matrix = np.vstack([np.array(rows), prior])
    solution = nnls(matrix, np.append(wanted, [0.0, PRIOR_WEIGHT, PRIOR_WEIGHT]))[0]
    preparation, tensors, growth = solution.tolist()
    return floor, {PREPARATION: 1e6 * preparation, TENSORS: tensors, GROWTH: growth}


def peak_of(training: EngineTraining, floor: float, memory: Mapping[str, float]) -> float:
    """Peak of a training's process in B, as values predict it."""
    return floor + training.amounts.of(memory)

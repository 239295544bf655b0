"""Fits, for another engine, how many times as long as torch's its operations take, and judges it on trainings left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import Final

import numpy as np
from scipy.optimize import least_squares, nnls

from wattstep.errors import RecordingError
from wattstep.predict.cpu.engine_memory import PREPARATION, MemoryAmounts
from wattstep.predict.cpu.engines import GROUPS, GROWTH, OTHERS, TENSORS
from wattstep.predict.cpu.time import CpuWork
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
        starts: Of its groups, as `predict.cpu.engines.group_starts`.
        amounts: What its memory is told by.
        work: What the operations of its step do.
    """

    probe: EngineProbe
    seconds: Mapping[str, float]
    starts: Mapping[str, float]
    amounts: MemoryAmounts
    work: CpuWork


@dataclass(frozen=True, kw_only=True)
class EngineTimes:
    """How an engine's times are to torch's.

    Attributes:
        times: By group: so many times as long as torch, without the operations' starts.
        starts: By group, of the starts.
        step_s: Of a step beside its operations.
    """

    times: Mapping[str, float]
    starts: Mapping[str, float]
    step_s: float

    def of(self, training: EngineTraining) -> float:
        """Time of a training's step in s."""
        return self.step_s + sum(
            self.times[group] * training.seconds[group]
            + self.starts[group] * training.starts[group]
            for group in GROUPS
        )


@dataclass(frozen=True, kw_only=True)
class EngineFit:
    """Values of an engine.

    Attributes:
        times: Of its operations.
        floor: Bytes of a process that has loaded the engine.
        memory: "preparation" in B; how often tensors and a step's growth are there.
        reach: Half of the 90 % interval by quantity, as a logarithm.
        errors: Of each training by a fit without its workload, predicted over measured as a
            logarithm, by quantity, in the order of trainings.
    """

    times: EngineTimes
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
    floor, memory = fit_memory(trainings)
    errors: dict[str, list[float]] = {"system": [], "step_time": []}
    for one in trainings:
        others = [each for each in trainings if each.probe.workload != one.probe.workload]
        errors["step_time"].append(log(fit_times(others).of(one) / one.probe.seconds))
        errors["system"].append(log(peak_of(one, *fit_memory(others)) / one.probe.peak))
    reach = dict(LEAST_REACH)
    for key, each in errors.items():
        reach[key] = max(reach[key], quantile_90(each))
    return EngineFit(
        times=fit_times(trainings), floor=floor, memory=memory, reach=reach,
        errors={key: tuple(each) for key, each in errors.items()},
    )  # fmt: skip


def fit_times(trainings: Sequence[EngineTraining]) -> EngineTimes:
    """Times in torch's.

    Logarithms of steps are fitted, so that each training counts by its part, and held to one common factor;
    where the engine told its operations, the share of each group in all of them, too. What it writes out
    as operations of other groups, and never tells, has the factors of the others.
    """
    torch = np.array([[each.seconds[group] for group in GROUPS] for each in trainings])
    begun = np.array([[each.starts[group] for group in GROUPS] for each in trainings])
    steps = np.log([each.probe.seconds for each in trainings])
    shares = np.array([[each.probe.shares.get(name, 0.0) for name in GROUPS] for each in trainings])
    told = shares.any(axis=1)
    others, count = GROUPS.index(OTHERS), len(GROUPS)
    hidden = torch[told].any(axis=0) & ~shares[told].any(axis=0)
    group_at = np.where(hidden, others, np.arange(count))
    into = np.eye(count)[group_at]  # sums what is told as one

    def residuals(values: FloatArray) -> FloatArray:
        times, starts = values[:count][group_at], values[count : 2 * count][group_at]
        step, all_times, all_starts = values[2 * count :]
        each = torch * np.exp(times) + begun * np.exp(starts)
        predicted = np.log(each.sum(axis=1) + exp(step))
        apart = (each / each.sum(axis=1, keepdims=True) @ into - shares)[told]
        held = [
            times - all_times,
            starts - all_starts,
            [step - log(STEP_S), all_starts - all_times],
        ]
        return np.concatenate([predicted - steps, apart.ravel(), HOLD * np.concatenate(held)])

    common = float(np.median(steps - np.log((torch + begun).sum(axis=1))))
    begin = [*[common] * 2 * count, log(STEP_S), common, common]
    fitted = np.exp(least_squares(residuals, begin).x)
    return EngineTimes(
        times=dict(zip(GROUPS, fitted[:count][group_at].tolist(), strict=True)),
        starts=dict(zip(GROUPS, fitted[count : 2 * count][group_at].tolist(), strict=True)),
        step_s=float(fitted[2 * count]),
    )


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

"""Fits a CPU's values to probes, and says by leaving each out how far predictions of the others were off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot, log
from statistics import median
from typing import Any, Final

import numpy as np
from scipy.optimize import brentq, nnls

from wattstep.errors import RecordingError
from wattstep.predict.cpu.measured import LEAST_ROWS, ranges_of
from wattstep.predict.cpu.time import (
    CODES,
    FRESH,
    KINDS,
    LOOK,
    NEAR,
    STARTING,
    VALUES,
    CpuWork,
    operation_seconds,
)
from wattstep.schema.arrays import BoolArray, FloatArray
from wattstep.train.calibration.load import DISTURBED
from wattstep.train.calibration.probe import Probe

LEAST_PROBES: Final = 4
MOST_SHARED: Final = 0.99  # part of an operation that threads divide: something always is left
LEAST_S: Final = 2e-7  # of an operation: what the clock tells apart
MOST_CLOCK: Final = 0.5  # part of an operation's time that is the clock's
UNITS: Final = np.array([1e-6, 1e-10, 1e-10, 1e-10])  # of `VALUES`, so that all are of like size
LEAST_VALUES: Final = np.array([5e-7, 1e-12, 1e-11, 3e-11])  # of all kinds together
# How much what all kinds have in common weighs against a kind's own operations: as much as one that
# takes this part of a step, squared.
PRIOR: Final = 0.002
# How much a value that is twice that of single operations weighs against a whole step that is off by all of its time.
HOLD: Final = 0.3
LEAST_START: Final = np.array(
    [1e-7, 1e-7, 1e-7, 5e-11, 1e-6]
)  # of what is between operations, and of steps
STEP: Final = (*(f"{phase}_start_s" for phase in STARTING), FRESH, "step_s")
STEP_UNITS: Final = np.array([1e-6, 1e-6, 1e-6, 1e-10, 1e-5])
DISTURBED_SPREAD: Final = log(1.1)
# Half intervals of memory: at least what trainings of this suite were off on the machine on which the
# model was made (docs/predict.md), since a few small probes cannot tell.
LEAST_REACH: Final = {
    "system": log(1.09),
    "reserved": log(1.2),
    "allocated": log(1.03),
    "step_time": log(1.1),
}


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A value with the range that probes show."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Values of a CPU.

    Attributes:
        floor: Bytes of a process that has loaded the framework.
        memory: "preparation", "steps" and libraries by name, in B.
        kinds: By kind and name of `VALUES`.
        step: "forward_start_s", ..., "step_s".
        reach: Half of the 90 % interval by quantity, as a logarithm.
        errors: Signed errors of predictions of probes that were left out of the fit, by quantity.
        ranges: As of `predict.cpu.measured.ranges_of`.
        others: Most cores that other processes took meanwhile.
    """

    floor: Spread
    memory: Mapping[str, Spread]
    kinds: Mapping[str, Mapping[str, float]]
    step: Mapping[str, float]
    reach: Mapping[str, float]
    errors: Mapping[str, tuple[float, ...]]
    ranges: Mapping[str, Mapping[str, float]]
    others: float


def fit(probes: Sequence[Probe]) -> Fit:
    """Values that probes show.

    Args:
        probes: Of one machine and engine, with one number of threads; some with their operations.

    Raises:
        RecordingError: They are too few.
    """
    names = {probe.settings.workload for probe in probes if probe.timed}
    if len(names) < LEAST_PROBES:
        raise RecordingError(
            f"{len(names)} trainings were measured: a fit takes {LEAST_PROBES} at least",
            id="too-few-trainings",
        )
    kinds, step = fit_time(probes)
    floor, memory = fit_memory(probes)
    errors: dict[str, list[float]] = {"system": [], "step_time": []}
    for name in sorted(names):
        others = [probe for probe in probes if probe.settings.workload != name]
        their_kinds, their_step = fit_time(others)
        their_floor, their_memory = fit_memory(others)
        for probe in probes:
            if probe.settings.workload == name:
                time, size = (
                    seconds_of(probe, their_kinds, their_step),
                    peak_of(probe, their_floor.value, _values(their_memory)),
                )
                errors["step_time"].append(log(time / probe.seconds))
                errors["system"].append(log(size / probe.steady))
    others_cores = max(probe.others for probe in probes)
    reach = dict(LEAST_REACH)
    for key, each in errors.items():
        reach[key] = max(reach[key], quantile_90(each))
    if others_cores > DISTURBED:
        reach["step_time"] = hypot(reach["step_time"], DISTURBED_SPREAD)
    return Fit(
        floor=floor, memory=memory, kinds=kinds, step=step, reach=reach,
        errors={key: tuple(each) for key, each in errors.items()}, others=others_cores,
        ranges=ranges_of((probe.work, probe.settings.batch_size) for probe in probes if probe.timed),
    )  # fmt: skip


def _values(spreads: Mapping[str, Spread]) -> dict[str, float]:
    return {key: each.value for key, each in spreads.items()}


def quantile_90(errors: Sequence[float]) -> float:
    """Within which nine in ten of further ones are: the next larger of those seen, as there are few."""
    sizes = sorted(abs(each) for each in errors)
    return sizes[min(len(sizes) - 1, int(0.9 * (len(sizes) + 1)))]


# --- memory ------------------------------------------------------------------------------------


def fit_memory(probes: Sequence[Probe]) -> tuple[Spread, dict[str, Spread]]:
    """What processes take beside tensors and the allocator's replay."""
    plain = [probe for probe in probes if not probe.libraries] or list(probes)
    smallest = sorted(probes, key=lambda p: p.growth_steady)[: max(LEAST_PROBES, len(probes) // 2)]
    memory = {
        "preparation": _spread([p.prepared - p.framework - p.tensors for p in plain]),
        # Pages of kernels and what they keep: of small trainings, in which little else is there.
        "steps": _spread([p.steady - p.prepared - p.growth_steady for p in smallest]),
    }
    base = memory["preparation"].value
    # Of a library that comes with another one, what it adds to that.
    for name in sorted({name for p in probes for name in p.libraries}, key=_rarity(probes)):
        with_it = [p for p in probes if name in p.libraries and set(p.libraries) <= {*memory, name}]
        rests = [
            p.prepared - p.framework - p.tensors - base
            - sum(memory[each].value for each in p.libraries if each != name)
            for p in with_it
        ]  # fmt: skip
        if rests:
            memory[name] = _spread([max(0.0, rest) for rest in rests])
    return _spread([p.framework for p in probes]), memory


def _rarity(probes: Sequence[Probe]) -> Any:
    """Libraries that many load come first: others come with them."""
    return lambda name: -sum(name in p.libraries for p in probes)


def _spread(values: Sequence[float]) -> Spread:
    return Spread(value=float(median(values)), low=min(values), high=max(values))


def peak_of(probe: Probe, floor: float, memory: Mapping[str, float]) -> float:
    """Peak of steady steps of a probe in B, as values predict it."""
    return (
        floor + memory["preparation"] + memory["steps"] + probe.tensors + probe.growth_steady
        + sum(memory.get(name, 0.0) for name in probe.libraries)
    )  # fmt: skip


# --- time --------------------------------------------------------------------------------------


def fit_time(probes: Sequence[Probe]) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Rooflines of kinds, and what the framework takes between operations."""
    timed = [probe for probe in probes if probe.timed]
    works, measured = [probe.work for probe in timed], operations_alone(timed)
    features = _steeper(np.concatenate([work.features for work in works]))
    seconds = np.concatenate(measured)
    codes = np.concatenate([work.kinds for work in works])
    # What an operation may be off by grows with the root of its time; each training counts the same.
    whole = np.concatenate([np.full(len(each), each.sum()) for each in measured])
    weights = 1 / np.sqrt(seconds * whole)
    computes = codes != CODES[LOOK]
    common = _roofline(features, seconds, weights, computes, None)
    common = np.maximum(common, LEAST_VALUES)
    kinds: dict[str, FloatArray] = {}
    for kind in sorted(CODES, key=lambda kind: kind in NEAR):  # what others lean on comes first
        near = kinds.get(NEAR.get(kind, ""))
        own = common if near is None else np.maximum(near, LEAST_VALUES)
        mine = codes == CODES[kind]
        if mine.sum() >= LEAST_ROWS:
            own = _roofline(features, seconds, weights, mine, own)
        kinds[kind] = own
    return _to_whole_steps(probes, kinds, _between(timed, works, measured))


def _steeper(features: FloatArray) -> FloatArray:
    """Features of `CpuWork` of which the last two are all bytes, and those that are in no cache.

    Values of these two say what a byte takes in the cache, and what it takes more beyond: never less.
    """
    steeper: FloatArray = features.copy()
    steeper[:, 2] += steeper[:, 3]
    return steeper


def operations_alone(probes: Sequence[Probe]) -> list[FloatArray]:
    """Time in s of each operation of each training, without what timing it adds.

    With their clock attached, operations of small trainings take longer together than a step without. What they have
    more is the clock's, the same of each, but of none more than half of its time (`MOST_CLOCK`).

    Args:
        probes: Whose operations were timed.
    """
    return [_without_clock(probe.operation_seconds, probe.seconds) for probe in probes]


def _without_clock(seconds: FloatArray, step: float) -> FloatArray:
    """Times that together are the step, or what is left of them at the least."""

    def left(clock: float) -> FloatArray:
        without: FloatArray = np.maximum(seconds - np.minimum(clock, MOST_CLOCK * seconds), LEAST_S)
        return without

    most = float(MOST_CLOCK * seconds.max())
    if left(0.0).sum() <= step:
        return left(0.0)
    if left(most).sum() >= step:
        return left(most)
    return left(brentq(lambda clock: left(clock).sum() - step, 0.0, most, xtol=1e-12))


def _roofline(
    features: FloatArray,
    seconds: FloatArray,
    weights: FloatArray,
    mine: BoolArray,
    prior: FloatArray | None,
) -> FloatArray:
    """Non-negative values whose sum of products with the features is the time."""
    matrix = features[mine] * UNITS * weights[mine][:, None]
    wanted = seconds[mine] * weights[mine]
    if prior is not None:
        matrix = np.vstack([matrix, np.diag(PRIOR * UNITS / prior)])
        wanted = np.concatenate([wanted, np.full(len(prior), PRIOR)])
    solution: FloatArray = nnls(matrix, wanted)[0] * UNITS
    return solution


def _between(
    probes: Sequence[Probe], works: Sequence[CpuWork], operations: Sequence[FloatArray]
) -> dict[str, float]:
    """Time of each operation's start by phase, and of each step: what no operation covers."""
    rows, rests = [], []
    for probe, work, seconds in zip(probes, works, operations, strict=True):
        step = probe.seconds
        starts = [work.starts[phase] for phase in STARTING]
        rows.append(np.array([*starts, probe.fresh, 1.0]) * STEP_UNITS / step)
        rests.append((step - float(seconds.sum())) / step)
    solution = nnls(np.array(rows), np.array(rests))[0] * STEP_UNITS
    return dict(zip(STEP, solution.tolist(), strict=True))


def _to_whole_steps(
    probes: Sequence[Probe], kinds: Mapping[str, FloatArray], step: Mapping[str, float]
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Values with which whole steps take their time: as near to those of single operations as they allow."""
    prior = np.maximum(np.array([kinds[kind] for kind in KINDS]), LEAST_VALUES).ravel()
    start = np.maximum([step[name] for name in STEP], LEAST_START)
    prior = np.concatenate([prior, start])
    rows = []
    for probe in probes:
        work = probe.work
        amounts = np.zeros((len(KINDS), len(VALUES)))
        np.add.at(amounts, work.kinds, _steeper(work.features))
        starts = [work.starts[phase] for phase in STARTING]
        rows.append(
            np.concatenate([amounts.ravel(), starts, [probe.fresh, 1.0]]) * prior / probe.seconds
        )
    matrix = np.vstack([np.array(rows), np.diag(np.full(len(prior), HOLD))])
    wanted = np.concatenate([np.ones(len(rows)), np.full(len(prior), HOLD)])
    solution = nnls(matrix, wanted, maxiter=50 * len(prior))[0] * prior
    split = len(KINDS) * len(VALUES)
    fitted = solution[:split].reshape(len(KINDS), len(VALUES))
    fitted[:, 3] += fitted[:, 2]  # beyond the cache: in all
    return (
        {
            kind: dict(zip(VALUES, fitted[code].tolist(), strict=True))
            for kind, code in CODES.items()
        },
        dict(zip(STEP, solution[split:].tolist(), strict=True)),
    )


def parallel_share(
    one: Probe, many: Probe, kinds: Mapping[str, Mapping[str, float]]
) -> float | None:
    """Part of what operations take beside their start that threads divide among them; None: nothing was timed.

    Args:
        one: A training with one thread.
        many: The same with more.
        kinds: As of `fit_time`.
    """
    work, threads = one.work, many.settings.threads
    starts = np.array([kinds[kind]["launch_s"] for kind in KINDS])[work.kinds]
    computing = float(np.maximum(one.operation_seconds - starts, 0.0).sum())
    if computing <= 0 or threads < 2:
        return None
    alone = one.seconds - computing
    left = (many.seconds - alone) / computing
    return float(np.clip((1 - left) / (1 - 1 / threads), 0.0, MOST_SHARED))


def seconds_of(
    probe: Probe, kinds: Mapping[str, Mapping[str, float]], step: Mapping[str, float]
) -> float:
    """Time of a probe's step in s, as values predict it."""
    work = probe.work
    between = sum(work.starts[phase] * step[f"{phase}_start_s"] for phase in STARTING)
    fresh = probe.fresh * step[FRESH]
    return float(operation_seconds(work, kinds).sum()) + between + fresh + step["step_s"]

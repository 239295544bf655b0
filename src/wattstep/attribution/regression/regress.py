"""Regression of sampled energy on operation times: power and energy of operations shorter than a sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wattstep.attribution.regression.axis import axis_of
from wattstep.attribution.regression.drift import drift
from wattstep.attribution.regression.explained import Explaining
from wattstep.attribution.regression.fewer import apart, in_fewer
from wattstep.attribution.regression.figures import Answer, answer
from wattstep.attribution.regression.fit import Fitting
from wattstep.attribution.regression.locking import locked
from wattstep.attribution.regression.memory import changes, memories_of, plausible
from wattstep.attribution.regression.observed import Observed, observe
from wattstep.attribution.regression.outcome import Memory, Regression
from wattstep.attribution.regression.parts import in_parts, joined
from wattstep.attribution.regression.problem import Kinds, Sampled
from wattstep.attribution.regression.rate import rate_of
from wattstep.attribution.regression.sensor import Sensor, find_sensor
from wattstep.attribution.regression.spread import spread_of
from wattstep.errors import InvalidValueError
from wattstep.schema.arrays import FloatArray
from wattstep.schema.figure import Missing, Status, missing

LEAST_ROWS = 8  # samples in clean steps: fewer tell nothing
LEAST_STEPS = 3
LEAST_TRACED = 2
ROUNDS = 2
ROUNDING = 1e-9  # of the highest power: differences that are none
SLIGHT = 0.1  # of the noise: slow change that need not be taken off
UNEXPLAINED = (
    f"no sensor explains the samples, or fewer than {LEAST_ROWS} lie wholly within clean steps: "
    "sample faster, or record more steps"
)
LEAST_TO_FIND = 60  # samples that come more slowly than steps, for a delay to be found from them
TOO_FEW = (
    "{} samples, fewer than one a step, do not tell how late the sensor is: any delay of seconds "
    "may fit them by chance; record more steps, or name the delay"
)
LATE = 40.0  # -2 log likelihood: a delay is clearly better than none
UNLIKELY = 0.002  # a delay and window that are less likely than this are left out


def regress(
    processes: Sequence[Sampled],
    kinds: Kinds,
    *,
    target: float = 0.20,
    confidence: float = 0.95,
    seed: int = 0,
    source: str = "samples",
    status: Status = Status.ATTRIBUTED,
    time_error: float | None = None,
    delay: float | None = None,
    window: float | None = None,
    prompt: bool = False,
    like: Regression | None = None,
) -> Regression:
    """Energy and power of kinds of operations from samples that are longer than they.

    Args:
        processes: Samples, clean steps and traced steps of one process or several alike.
        kinds: What is to be told apart.
        target: Half of an interval over its value, at most, for kinds to be told from all others.
        confidence: Of the intervals.
        seed: Of what is drawn.
        source: Sensor or model behind the samples.
        status: Of the figures; a modelled power gives modelled energies.
        time_error: Relative error (one standard deviation) of the kinds' times in traced steps
            against clean ones; None: what the samples speak for.
        delay: Of the sensor in s, where it is documented; None: found from the samples.
        window: That the sensor averages over in s, likewise.
        prompt: Whether every read finds a new value: the sensor may well have no delay, whatever
            the samples speak for, unless they do clearly.
        like: The regression of other samples of the same sensor (the sum of its rails): its delay
            and window are taken from there; of many kinds, memories too.

    Returns:
        Groups of kinds; or why there are none.

    Raises:
        InvalidValueError: Counters and gauges together, or levels that do not fit the kinds.
    """
    _check(processes, kinds)
    used = [each for each in processes if len(each.start_ns) and np.isfinite(each.value).any()]
    reason = _unusable(used, kinds)
    if reason is not None:
        return _nothing(reason)
    parts = in_parts(used, kinds, window or 0.0)
    whole, kinds, used = kinds, parts.kinds, list(parts.processes)
    observed = observe(used, axis_of(used, len(kinds.names)))
    watts = np.concatenate([each.watts for each in observed.readings] or [np.zeros(1)])
    if np.ptp(watts) <= ROUNDING * np.abs(watts).max():
        return _nothing("all samples are equal: they tell nothing of what differs within a step")
    if observed.kind_seconds().sum() <= 0:
        return _nothing("no operation takes any time in the traced steps")
    fewer = in_fewer(observed, kinds)
    observed, kinds, covariance = fewer.observed, fewer.kinds, fewer.covariance
    root: FloatArray = np.linalg.cholesky(covariance).astype(np.float64)
    documented = (delay, window)
    # Of many kinds each memory takes long: those that the same sensor's other samples left.
    known = like.memories if like is not None and fewer.grouped else ()
    if like is not None and not like.delay.missing:
        delay, window = like.delay.value, like.window.value or window
    gauged = observed
    observed, sensors = _settled(gauged, kinds, root, delay, window)
    if window is None and not gauged.counter:
        averaged = gauged.since_before()
        if _explains_better(averaged, observed, sensors, root):
            observed, sensors = _settled(averaged, kinds, root, delay, window)
    if not sensors:
        return _nothing(UNEXPLAINED)
    explaining = Explaining(observed, root)
    if delay is None and not prompt and observed.spacing_s > observed.seconds:
        taken = len(observed.rows(sensors[0].delay, sensors[0].window).watts)
        if taken < LEAST_TO_FIND:
            return _nothing(TOO_FEW.format(taken))
    if prompt and delay is None:
        sensors = _prompt(explaining, sensors)
    fitting = Fitting(observed, covariance, seed)
    free = (delay is None, window is None and not observed.counter)
    answers: list[Answer] = []
    memories: list[Memory] = []
    seconds = observed.kind_seconds()
    error = time_error
    for sensor in sensors:
        begun = explaining.explain(sensor.delay, sensor.window)
        if sensor.weight < UNLIKELY or begun is None or len(begun.rows.watts) < LEAST_ROWS:
            continue
        other = None
        if not answers:
            memories = memories_of(observed, root, begun, *documented, known)
            other = changes(observed, begun, memories)
        if isinstance(other, Missing):
            return _nothing(other)
        fit = fitting.fit(begun, sensor, error, free)
        error = fit.time_error
        spread = spread_of(fit, observed, seconds, confidence, seed)
        each = apart(Answer(fit=fit, spread=spread, other=other), fewer, confidence, seed)
        answers.append(joined(each, parts, fewer.seconds))
    if not answers:
        return _nothing(
            f"fewer than {LEAST_ROWS} samples lie wholly within clean steps: sample faster, or "
            "record more steps"
        )
    lasting = np.bincount(parts.whole, fewer.seconds, minlength=len(whole.names))
    regression = answer(
        answers, observed, lasting.astype(np.float64), whole, target=target, confidence=confidence, source=source,
        status=status, locked=locked(observed, answers[0].fit.sensor.delay),
    )  # fmt: skip
    return replace(regression, memories=tuple(plausible(memories)))


def _explains_better(
    averaged: Observed, observed: Observed, sensors: list[Sensor], root: FloatArray
) -> bool:
    """True if means since the value before explain the samples clearly better than any one window.

    Windows differ where samples do not come evenly, so that one for all of them is wrong by some.
    """
    mean = Explaining(averaged, root).explain(0.0, 0.0)
    if mean is None:
        return False
    if not sensors:
        return True
    best = Explaining(observed, root).explain(sensors[0].delay, sensors[0].window)
    # There is one value less than of moments: compared by the value.
    whole = averaged.count / max(observed.count, 1)
    return best is None or mean.total < whole * best.total - LATE


def _prompt(explaining: Explaining, sensors: list[Sensor]) -> list[Sensor]:
    """No delay beside the likeliest ones, unless these are clearly better."""
    best = explaining.explain(sensors[0].delay, sensors[0].window) if sensors else None
    none = explaining.explain(0.0, best.window) if best else None
    if best is None or none is None or best.total < none.total - LATE:
        return sensors
    return [Sensor(delay=0.0, window=none.window, weight=1.0), *sensors]


def _settled(
    observed: Observed, kinds: Kinds, root: FloatArray, delay: float | None, window: float | None
) -> tuple[Observed, list[Sensor]]:
    """Slow change taken off, and what delays and windows are likely then."""
    # First as far as it shows without knowing what runs: beside much of it no sensor is found.
    rows, level = observed.rows(0.0, 0.0), observed
    if len(rows.watts):
        mean = np.full(len(rows.watts), float(rows.watts.mean()))
        level = observed.without(rows, drift(rows.watts, mean, rows.process, rows.step))
    sensors = find_sensor(level, kinds, root, delay, window)
    rate = rate_of(level, root, sensors[0]) if sensors else 0.0
    if rate:
        observed, level = observed.at_rate(rate), level.at_rate(rate)
        sensors = find_sensor(level, kinds, root, delay, window)
    for _ in range(ROUNDS):
        settled_sensors = (
            Explaining(observed, root).explain(sensors[0].delay, sensors[0].window)
            if sensors
            else None
        )
        if settled_sensors is None:
            break
        explained = settled_sensors.rows.weights @ (observed.table() @ settled_sensors.watts)
        slow = drift(
            settled_sensors.rows.watts,
            explained,
            settled_sensors.rows.process,
            settled_sensors.rows.step,
        )
        if slow.std() <= SLIGHT * math.sqrt(settled_sensors.evidence.noise):
            break
        observed = observed.without(settled_sensors.rows, slow)
        # What moved slowly hid where the sensor looks.
        sensors = find_sensor(observed, kinds, root, delay, window)
    return observed, sensors


def _check(processes: Sequence[Sampled], kinds: Kinds) -> None:
    if len({each.counter for each in processes}) > 1:
        raise InvalidValueError(
            "counters of energy and gauges of power cannot be joined", id="mixed-kinds"
        )
    if any(len(level) != len(kinds.names) for level in kinds.levels):
        raise InvalidValueError("each level must say the group of each kind", id="missing-level")
    if len({len(each.edges) for each in processes}) > 1:
        raise InvalidValueError("processes must have the same phases")


def _unusable(used: Sequence[Sampled], kinds: Kinds) -> str | None:
    """Reason why nothing can be told, where that is plain to see."""
    if not len(kinds.names):
        return "no operation is to be told apart"
    if not used:
        return "there is no process with clean steps and samples"
    traced = sum(len(each.layouts) for each in used)
    if not traced:
        return "no step was traced, so what ran when is unknown"
    if traced < LEAST_TRACED:
        return "one step was traced: how long operations take from step to step is not known"
    if sum(len(each.start_ns) for each in used) < LEAST_STEPS:
        return f"fewer than {LEAST_STEPS} clean steps: regression needs many"
    return None


def _nothing(reason: str) -> Regression:
    return Regression(
        groups=(), kinds=(), step_energy=missing("J", reason), delay=missing("s", reason),
        window=missing("s", reason), locked="", notes=(), observations=0, time_error=math.nan,
        reason=reason,
    )  # fmt: skip

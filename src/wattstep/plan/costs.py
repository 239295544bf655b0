"""What a session of training costs in one configuration: time, energy, battery, heat and memory, from its predicted step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil, exp, hypot, log
from typing import Any, Final

from wattstep.devices.table import Device, Value
from wattstep.errors import WattstepError
from wattstep.plan.budget import Limit
from wattstep.plan.space import Configuration
from wattstep.predict import AnyPredictor, Prediction, predictor_for
from wattstep.predict.fitted import NORMAL, NORMAL_90, chance_below
from wattstep.predict.life import start_of
from wattstep.predict.power import Ranged
from wattstep.predict.prediction import CONFIDENCE
from wattstep.predict.thermal import temperature_after
from wattstep.schema.figure import Figure, Missing, Status, missing
from wattstep.schema.step_graph import StepFamily
from wattstep.schema.workload import Preparation

Capture = Callable[[Preparation, str], StepFamily]

SESSION: Final = "updates of a session, as long as predicted each"
# Figures of an estimate that are of a step, under the names of metrics of a run that can be set beside them.
OF_STEP: Final = (
    "step_time", "throughput", "energy_per_step", "energy_per_sample", "mean_power", "peak_memory",
    "device_peak_memory",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Session:
    """A session of training, once or again and again.

    Attributes:
        samples: Trained on each time.
        every_s: Time in s from the begin of one to that of the next; None: there is one.
    """

    samples: int
    every_s: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """What a configuration costs.

    Attributes:
        configuration: The way to train.
        prediction: Of its step with one batch, or with two that are added up.
        updates: Of a session.
        figures: By name, of a session (time, energy, battery, temperature, memory) and `OF_STEP`, each predicted or missing.
        fits_with: Probability that the device's memory suffices.
    """

    configuration: Configuration
    prediction: Prediction
    updates: int
    figures: Mapping[str, Figure]
    fits_with: float

    def chance(self, limit: Limit) -> float:
        """Probability that a limit holds, from the figure's 90 % interval; 0 where the figure is missing."""
        return chance_of(self.figures[limit.kind], limit.most)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        chosen = vars(self.configuration)
        return {
            "configuration": dict(chosen),
            "text": self.configuration.text,
            "updates": self.updates,
            "fits_with": self.fits_with,
            "figures": {name: figure.to_dict() for name, figure in self.figures.items()},
        }


def chance_of(figure: Figure, most: float) -> float:
    """Probability that what a figure tells is `most` or less; 0 of a missing one.

    Its interval holds 90 % of two normal halves: of the logarithm, but where it is a temperature.
    """
    if figure.value is None:
        return 0.0
    low = figure.value if figure.low is None else figure.low
    high = figure.value if figure.high is None else figure.high
    if figure.unit != "°C":
        return chance_below(
            Value(value=figure.value, low=low, high=high, basis="", source=""), most
        )
    half = high - figure.value if most > figure.value else figure.value - low
    if half <= 0:
        return 1.0 if most >= figure.value else 0.0
    return NORMAL.cdf((most - figure.value) / half * NORMAL_90)


def bound_for(figure: Figure, probability: float) -> float:
    """What a figure exceeds with no more than 1 - `probability`; the inverse of `chance_of`, not of a missing one."""
    value, z = float(figure), NORMAL.inv_cdf(probability) / NORMAL_90
    end = _end(figure, "high" if z > 0 else "low")
    if figure.unit == "°C":
        return value + abs(end - value) * z
    return value * exp(abs(log(end / value)) * z)


class Estimator:
    """Estimates configurations: a step is captured once for all batch sizes, devices' modes share its memory.

    Args:
        capture: The training's step for a preparation and a precision, at any batch size.
        preparation: What all configurations have in common.
        device: Where it would train.
        engine: Framework, as the device's file names it; None: the one that its values are of.
        session: What is trained.
    """

    def __init__(
        self,
        capture: Capture,
        preparation: Preparation,
        device: Device,
        engine: str | None,
        session: Session,
    ) -> None:
        self.device, self.session = device, session
        self._capture, self._preparation, self._engine = capture, preparation, engine
        self._captured: dict[Any, StepFamily | WattstepError] = {}
        self._predictors: dict[Any, AnyPredictor] = {}
        self._predictions: dict[Any, Prediction] = {}

    @property
    def captures(self) -> int:
        """Steps that were captured."""
        return sum(isinstance(each, StepFamily) for each in self._captured.values())

    @property
    def predictions(self) -> int:
        """Steps that were predicted."""
        return len(self._predictions)

    def at(self, configuration: Configuration) -> Estimate:
        """The estimate of a configuration.

        Raises:
            WattstepError: It cannot be trained so, or the device's values do not reach.
        """
        one = self._predicted(configuration, 1)
        if configuration.accumulate == 1:
            return self._estimate(configuration, one, 1.0, 1.0)
        # Each further batch takes as much as the second one adds.
        two, more = self._predicted(configuration, 2), configuration.accumulate - 1
        first, second = one.time.total, two.time.total
        longer = (first + more * (second - first)) / second
        costlier = longer
        if one.power is not None and two.power is not None:
            begin, end = one.power[0].value * first, two.power[0].value * second
            costlier = (begin + more * (end - begin)) / end
        return self._estimate(configuration, two, longer, costlier)

    def _predicted(self, configuration: Configuration, accumulate: int) -> Prediction:
        plain = replace(configuration, accumulate=accumulate)
        if plain not in self._predictions:
            self._predictions[plain] = self._predictor(plain).at(plain.batch)
        return self._predictions[plain]

    def _predictor(self, configuration: Configuration) -> AnyPredictor:
        key = replace(configuration, batch=1)
        if key not in self._predictors:
            if configuration.threads is not None:
                as_it_is = self._predictor(replace(configuration, threads=None))
                self._predictors[key] = as_it_is.with_threads(configuration.threads)
            elif configuration.mode is not None:
                as_it_is = self._predictor(replace(configuration, mode=None))
                self._predictors[key] = as_it_is.in_mode(configuration.mode)
            else:
                self._predictors[key] = predictor_for(
                    self._family(key),
                    self.device,
                    engine=self._engine,
                    precision=configuration.precision,
                )
        return self._predictors[key]

    def _family(self, key: Configuration) -> StepFamily:
        """The captured step; a refusal is not asked for twice."""
        if key not in self._captured:
            try:
                self._captured[key] = self._capture(key.prepared(self._preparation), key.precision)
            except WattstepError as error:  # a part that is not installed, too
                self._captured[key] = error
        family = self._captured[key]
        if isinstance(family, WattstepError):
            raise family
        return family

    def _estimate(
        self, configuration: Configuration, step: Prediction, longer: float, costlier: float
    ) -> Estimate:
        """From the prediction of a step of which the whole one takes so many times as long and as much energy."""
        updates = ceil(self.session.samples / configuration.samples_per_update)
        step_time = step.step_time.scaled(longer, "s")
        energy = _times(step.energy_per_step, costlier)
        power = None
        if step.power is not None:
            part = costlier / longer
            power = Ranged(
                **{end: getattr(step.power[0], end) * part for end in ("value", "low", "high")}
            )
        samples = configuration.samples_per_update
        figures = {
            **session_figures(step, step_time, energy, power, updates),
            "memory": step.system_memory,
            "step_time": step_time,
            "throughput": _figure(
                Ranged(
                    value=samples / float(step_time),
                    low=samples / _end(step_time, "high"),
                    high=samples / _end(step_time, "low"),
                ),
                "samples/s",
                step.step_time,
                "from the step time",
            ),
            "energy_per_step": energy,
            "energy_per_sample": _times(energy, 1 / samples),
            "mean_power": _times(step.mean_power, costlier / longer),
            # On a CPU memory in use is resident in the process; of a GPU the run knows its allocator's.
            **(
                {"peak_memory": step.system_memory}
                if step.processor == "cpu"
                else {"device_peak_memory": step.reserved_memory}
            ),
        }
        return Estimate(
            configuration=configuration,
            prediction=step,
            updates=updates,
            figures=figures,
            fits_with=step.fits_with,
        )


def session_figures(
    step: Prediction, step_time: Figure, energy: Figure, power: Ranged | None, updates: int
) -> dict[str, Figure]:
    """Time, energy, share of the battery and temperature at the end of a session.

    Where the device throttles within it, the rest takes as much longer as a step of a training that
    lasts, at the power that suits the limit. Starting the framework counts where the device's file
    says what it takes, at the idle device's power.

    Args:
        step: Whose device and heat it is.
        step_time: Of an update, in s.
        energy: Of an update, in J, or missing.
        power: Mean during updates, in W; None: not known.
        updates: Of the session.
    """
    device = step.device
    cold = _ranged(step_time.scaled(updates, "s"))
    busy, rest = _throttled(step, cold)
    begin = start_of(device, step.engine)
    time = busy if begin is None else _sum(busy, _as_ranged(begin))
    figures = {"time": _figure(time, "s", step_time, SESSION)}
    if energy.value is None or power is None:
        figures["energy"] = energy
    else:
        joules = _ranged(energy.scaled(updates, "J"))
        if rest > 0:  # at less power than before
            joules = _scaled(joules, _throttled_energy(device, power, cold.value, busy.value, rest))
            joules = _widened(joules, busy, cold)
        if begin is not None and device.power.idle is not None:
            joules = _sum(joules, _product(_as_ranged(begin), _as_ranged(device.power.idle)))
        figures["energy"] = _figure(joules, "J", energy, SESSION)
    figures["battery"] = _battery(device, figures["energy"])
    warm = (
        Missing("the device's power is not known")
        if power is None
        else temperature_after(device, power, busy.value)
    )
    figures["temperature"] = (
        missing("°C", warm)
        if isinstance(warm, Missing)
        else _figure(
            warm, "°C", step_time, "one thermal resistance and capacity, from the idle device on"
        )
    )
    return figures


def _throttled(step: Prediction, cold: Ranged) -> tuple[Ranged, float]:
    """Time of a session that takes `cold` on a device that stays cold, and that within which it is throttled."""
    limit, slowdown = step.heat.to_limit, step.heat.slowdown
    if isinstance(limit, Missing) or isinstance(slowdown, Missing):
        return cold, 0.0

    def taken(seconds: float, until: float, slower: float) -> float:
        return seconds if seconds <= until else until + (seconds - until) * slower

    value = taken(cold.value, limit.value, slowdown.value)
    latest = taken(cold.value, limit.low, slowdown.high)
    soonest = taken(cold.value, limit.high, slowdown.low)
    down = hypot(log(cold.value / cold.low), log(value / soonest))
    up = hypot(log(cold.high / cold.value), log(latest / value))
    return (
        Ranged(value=value, low=value * exp(-down), high=value * exp(up)),
        max(0.0, value - limit.value),
    )


def _throttled_energy(
    device: Device, power: Ranged, cold: float, busy: float, rest: float
) -> float:
    """Energy of a session within which a device is throttled for `rest` s, over that of one that is not."""
    thermal = device.thermal
    assert thermal.throttle is not None
    assert thermal.ambient is not None
    assert thermal.resistance is not None
    allowed = (thermal.throttle.value - thermal.ambient.value) / thermal.resistance.value
    joules = power.value * (busy - rest) + min(power.value, allowed) * rest
    return joules / (power.value * cold)


def _battery(device: Device, energy: Figure) -> Figure:
    """Share of a full battery."""
    capacity = None if device.battery is None else device.battery.capacity
    if capacity is None:
        return missing("ratio", f"{device.name} has no battery, or its file does not say")
    if energy.value is None:
        return missing("ratio", energy.reason or "its energy is not known")
    value = energy.value / capacity.value
    down = hypot(log(energy.value / _end(energy, "low")), log(capacity.high / capacity.value))
    up = hypot(log(_end(energy, "high") / energy.value), log(capacity.value / capacity.low))
    share = Ranged(value=value, low=value * exp(-down), high=value * exp(up))
    return _figure(share, "ratio", energy, "energy over the capacity of the battery")


def _figure(ranged: Ranged, unit: str, like: Figure, method: str) -> Figure:
    return Figure(
        value=ranged.value, unit=unit, low=ranged.low, high=ranged.high, confidence=CONFIDENCE,
        status=Status.PREDICTED, source=like.source, method=method,
    )  # fmt: skip


def _end(figure: Figure, end: str) -> float:
    number = getattr(figure, end)
    return float(figure) if number is None else float(number)


def _ranged(figure: Figure) -> Ranged:
    return Ranged(value=float(figure), low=_end(figure, "low"), high=_end(figure, "high"))


def _as_ranged(value: Value) -> Ranged:
    return Ranged(value=value.value, low=value.low, high=value.high)


def _times(figure: Figure, factor: float) -> Figure:
    return figure if figure.missing else figure.scaled(factor, figure.unit)


def _scaled(one: Ranged, factor: float) -> Ranged:
    return Ranged(value=one.value * factor, low=one.low * factor, high=one.high * factor)


def _sum(one: Ranged, other: Ranged) -> Ranged:
    """Terms are taken to miss independently."""
    value = one.value + other.value
    return Ranged(
        value=value,
        low=value - hypot(one.value - one.low, other.value - other.low),
        high=value + hypot(one.high - one.value, other.high - other.value),
    )


def _product(one: Ranged, other: Ranged) -> Ranged:
    """Logarithms of factors are taken to miss independently."""
    value = one.value * other.value
    down = hypot(log(one.value / one.low), log(other.value / other.low))
    up = hypot(log(one.high / one.value), log(other.high / other.value))
    return Ranged(value=value, low=value * exp(-down), high=value * exp(up))


def _widened(joules: Ranged, busy: Ranged, cold: Ranged) -> Ranged:
    """By what throttling adds to the uncertainty of the time."""
    factors = []
    for end in ("low", "high"):
        mine = abs(log(getattr(busy, end) / busy.value))
        before = abs(log(getattr(cold, end) / cold.value))
        factors.append((mine**2 - before**2) ** 0.5 if mine > before else 0.0)
    down = hypot(log(joules.value / joules.low), factors[0])
    up = hypot(log(joules.high / joules.value), factors[1])
    return Ranged(value=joules.value, low=joules.value * exp(-down), high=joules.value * exp(up))

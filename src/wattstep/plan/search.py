"""The plan: all configurations estimated, the best that keeps the budget, the front, and why others lose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import floor, inf, log
from typing import Any, Final

from wattstep.devices.modes import mode_name
from wattstep.errors import InvalidValueError, WattstepError
from wattstep.plan.budget import DAY_S, SPELT_IN, Budget, Limit, spelt_up
from wattstep.plan.costs import Estimate, Estimator, Session, bound_for
from wattstep.plan.space import (
    ALLOWED,
    DIMENSIONS,
    UNTIMED,
    Configuration,
    Question,
    configurations,
    parse_configuration,
)
from wattstep.predict.life import start_of
from wattstep.predict.prediction import SURE
from wattstep.schema.figure import Figure
from wattstep.schema.spelling import quantity, spell
from wattstep.stats.front import non_dominated

LEAST: Final = ("energy", "time", "memory")  # what a plan may be the least of
NO_LIMITS: Final = Budget()
FRONT: Final = ("time", "energy", "memory")
_UNTIL_NEXT: Final = "until the next session"
DEVICE_MEMORY: Final = "memory of the device"
NEAR: Final = 0.01  # part of a cost by which two plans differ that nobody would tell apart


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a configuration keeps one limit.

    Attributes:
        name: What is limited.
        bound: The most, with its unit.
        chance: Probability that it holds, 0 to 1.
        sure: Probability that is asked for.
        figure: What is limited, as it is predicted.
        most: The bound in the figure's unit.
        unit: In which the bound is written, of `UNITS`.
    """

    name: str
    bound: str
    chance: float
    sure: float
    figure: Figure
    most: float
    unit: str

    @property
    def holds(self) -> bool:
        """True if it is as sure as is asked for."""
        return self.chance >= self.sure

    @property
    def enough(self) -> float:
        """The bound that would hold as surely as is asked for, in the figure's unit."""
        return bound_for(self.figure, self.sure)

    @property
    def affordable(self) -> bool:
        """True if there is a bound that would do, as a budget may have it."""
        return self.figure.value is not None and (self.name != "battery" or self.enough <= 1)

    @property
    def budget(self) -> str:
        """`enough` as `--budget` takes it, in the unit of the bound, rounded up."""
        return spelt_up(self.enough, self.unit)

    @property
    def short(self) -> float:
        """How many times the bound would have to be as large; 0 where it holds."""
        return 0.0 if self.holds else max(1.0, self.enough / self.most)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "limit": self.name, "bound": self.bound, "probability": self.chance, "asked": self.sure,
            "holds": self.holds,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Losing:
    """Why a kind of configurations is not recommended.

    Attributes:
        what: Value of a dimension, in words.
        best: The best of them, in words.
        why: In a sentence.
    """

    what: str
    best: str
    why: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """What was searched, and what came of it.

    Attributes:
        workload: Name.
        title: In words.
        question: Device, samples and what may change.
        session: What is trained, how often.
        budget: Limits of a session.
        sure: Probability with which each limit has to hold.
        least: What the recommended plan is the least of, of `LEAST`.
        estimates: Of all configurations, plain ones first.
        refused: Configurations that cannot be trained so, with the reason.
        captures: Steps that were captured.
        estimator: Estimates further configurations.
    """

    workload: str
    title: str
    question: Question
    session: Session
    budget: Budget
    sure: float
    least: str
    estimates: tuple[Estimate, ...]
    refused: tuple[tuple[Configuration, str], ...]
    captures: int
    estimator: Estimator

    # --- what holds ------------------------------------------------------------------------------

    def verdicts(self, estimate: Estimate) -> tuple[Verdict, ...]:
        """The device's memory, the budget's limits, and that a session is over before the next."""
        memory = Verdict(
            name=DEVICE_MEMORY,
            bound=quantity(estimate.prediction.memory.usable, "B"),
            chance=estimate.fits_with,
            sure=SURE,
            figure=estimate.figures["memory"],
            most=estimate.prediction.memory.usable,
            unit="GB",
        )
        limits = list(self.budget.limits)
        every = self.session.every_s
        if every is not None and self.budget.of("time") is None:
            limits.append(Limit(kind="time", most=every, text=_UNTIL_NEXT))
        return (
            memory,
            *(
                Verdict(
                    name=limit.kind,
                    bound=limit.spelt,
                    chance=estimate.chance(limit),
                    sure=self.sure,
                    figure=estimate.figures[limit.kind],
                    most=limit.most,
                    unit=limit.unit,
                )
                for limit in limits
            ),
        )

    def keeps(self, estimate: Estimate) -> bool:
        """True if every limit holds as surely as is asked for."""
        return all(each.holds for each in self.verdicts(estimate))

    def rank(self, estimate: Estimate) -> tuple[float, ...]:
        """The smaller the better: of what keeps all limits what changes least of the training, then by cost.

        What does not keep them comes after, by how much larger a limit would have to be.
        """
        short = max(each.short for each in self.verdicts(estimate))
        others = [name for name in LEAST if name != self.least]
        costs = [self._cost(estimate, name) for name in (self.least, *others)]
        return (short, len(self._changes(estimate.configuration)), *costs)

    @property
    def chosen(self) -> Estimate | None:
        """The recommended configuration; None: no one keeps all limits."""
        return self.nearest if self.keeps(self.nearest) else None

    @cached_property
    def nearest(self) -> Estimate:
        """The recommended one, or the one that comes nearest to the limits.

        Of those whose cost nobody would tell from the least the best in the next, and so on; of those
        that are left the plainest.
        """
        best = min(self.estimates, key=self.rank)
        if not self.keeps(best):
            return best
        group = self.rank(best)[:2]
        near = [each for each in self.estimates if self.rank(each)[:2] == group]
        for name in (self.least, *(each for each in LEAST if each != self.least)):
            most = min(self._cost(each, name) for each in near) * (1 + NEAR)
            near = [each for each in near if self._cost(each, name) <= most]
        return near[0]

    @cached_property
    def front(self) -> tuple[Estimate, ...]:
        """What fits and no other one beats in time, energy and memory, the quickest first."""
        fitting = [each for each in self.estimates if each.fits_with >= SURE]
        costs = [tuple(self._cost(each, name) for name in FRONT) for each in fitting]
        seen: set[tuple[float, ...]] = set()
        front = []
        for each, cost, on_front in zip(fitting, costs, non_dominated(costs), strict=True):
            if on_front and cost not in seen:  # of equals the plainest
                seen.add(cost)
                front.append(each)
        return tuple(sorted(front, key=lambda each: self._cost(each, "time")))

    def _cost(self, estimate: Estimate, name: str) -> float:
        value = estimate.figures[name].value
        return inf if value is None else value

    # --- why not -----------------------------------------------------------------------------------

    @property
    def losing(self) -> tuple[Losing, ...]:
        """By value of each dimension that the recommended plan does not take: the best of it, and why it loses."""
        best = self.nearest
        rows = []
        for name, words in _kinds():
            mine = getattr(best.configuration, name)
            others: dict[Any, Estimate] = {}
            for each in self.estimates:
                value = getattr(each.configuration, name)
                if value != mine and (
                    value not in others or self.rank(each) < self.rank(others[value])
                ):
                    others[value] = each
            if not others:
                continue
            runner_up = min(others.values(), key=self.rank)
            value = getattr(runner_up.configuration, name)
            what = words(value)
            if len(others) > 1:
                what += f" (best of {len(others)} others)"
            rows.append(
                Losing(what=what, best=runner_up.configuration.text, why=self.why_loses(runner_up))
            )
        return tuple(rows)

    def why_loses(self, estimate: Estimate) -> str:
        """Why a configuration is not the recommended one, in a few words."""
        failing = [each for each in self.verdicts(estimate) if not each.holds]
        best = self.nearest
        if failing:
            return "; ".join(_failing(each) for each in failing)
        changes = self._changes(estimate.configuration)
        own = self._changes(best.configuration)
        more: list[str] = []
        less: list[str] = []
        for name in (self.least, *(each for each in LEAST if each != self.least)):
            mine, theirs = self._cost(best, name), self._cost(estimate, name)
            if inf in (mine, theirs) or abs(log(theirs / mine)) < NEAR:
                continue
            (more if theirs > mine else less).append(_compared(name, theirs / mine))
        if len(changes) > len(own):
            beside = ", ".join([*less, *more]) or "at the same cost"
            timed = set(changes) - set(own) != {UNTIMED}
            other = "trains differently" if timed else "at a rate that is assumed"
            return f"keeps the limits with {beside}, but {other}, which the budget does not need"
        if not more:
            beside = f", with {', '.join(less)}" if less else ""
            return (
                f"keeps the limits, and nobody could tell its {self.least} from the plan's{beside}"
            )
        though = f", though {', '.join(less)}" if less else ""
        return f"keeps the limits, but takes {', '.join(more)}{though}"

    def why_not(self, text: str) -> tuple[Estimate, list[str]]:
        """One configuration explained, from "batch=64,checkpointing".

        What is not named is as the best configuration has it that has what is named, else as the
        recommended one has it.

        Returns:
            The estimate, and sentences on it.

        Raises:
            InvalidValueError: A part is none, or it cannot be trained so.
        """
        base = self.nearest.configuration
        chosen = parse_configuration(text, base)
        searched = [
            each
            for each in self.estimates
            if all(getattr(each.configuration, name) == value for name, value in chosen.items())
        ]
        if searched:
            estimate = min(searched, key=self.rank)
        else:
            if "batch" in chosen and "accumulate" not in chosen:
                chosen["accumulate"] = max(1, base.samples_per_update // chosen["batch"])
            estimate = self.estimator.at(replace(base, **chosen))
        mine = estimate.configuration
        lines = []
        if mine == base:
            word = "is the recommended plan" if self.chosen else "comes nearest to the limits"
            lines.append(f"{mine.text} {word}.")
        else:
            lines.append(f"{mine.text}: {self.why_loses(estimate)}.")
        closed = self._not_allowed(mine)
        if closed:
            why = ", ".join(ALLOWED[name] for name in closed)
            lines.append(f"It is searched with --allow {','.join(closed)} only: {why}.")
        return estimate, lines

    def _not_allowed(self, configuration: Configuration) -> list[str]:
        """Names of `ALLOWED` that the configuration takes and the user did not allow."""
        return [name for name in self._changes(configuration) if name not in self.question.allow]

    def _changes(self, configuration: Configuration) -> list[str]:
        """Names of `ALLOWED` that the configuration takes."""
        names = []
        if configuration.samples_per_update != self.question.update:
            names.append("batch")
        for each in DIMENSIONS:
            if each.allow and getattr(configuration, each.name) != each.values(self.question)[0]:
                names.append(each.allow)  # what was asked for comes first
        return list(dict.fromkeys(names))

    # --- what would help, what could go wrong ------------------------------------------------------

    def _larger(self, failing: Sequence[Verdict]) -> str:
        """The larger budget that would do, all of it; "" where no larger one would."""
        if not failing or not all(each.affordable for each in failing):
            return ""
        larger = [
            f"{each.budget} of {each.name} in place of {each.bound}"
            for each in failing
            if each.bound != _UNTIL_NEXT
        ]
        text = f"a budget of {' and '.join(larger)}" if larger else ""
        time = max((each.enough for each in failing if each.name == "time"), default=0.0)
        if time > (self.session.every_s or inf):
            text += f"{', with ' if text else ''}--every '{spelt_up(time, 's')}'"
        return text

    @property
    def remedies(self) -> tuple[str, ...]:
        """Where no plan keeps the budget: what would change that, from the nearest one."""
        if self.chosen is not None:
            return ()
        nearest = self.nearest
        failing = [each for each in self.verdicts(nearest) if not each.holds]
        lines = []
        larger = self._larger([each for each in failing if each.name in SPELT_IN])
        if larger:
            lines.append(larger)
        shrinking = [each for each in failing if each.name in ("time", "energy", "battery")]
        if shrinking and len(shrinking) == len(failing):
            part = min(each.most / each.enough for each in shrinking)
            updates = floor(nearest.updates * part)
            samples = updates * nearest.configuration.samples_per_update
            if updates:
                lines.append(f"{samples:,} samples a session in place of {self.session.samples:,}")
        likely = min(each.chance for each in failing)
        if likely >= 0.5 and all(each.name != DEVICE_MEMORY for each in failing):
            lines.append(f"--sure {floor(100 * likely)}, with which it holds")
        closed = [name for name in ALLOWED if name not in self.question.allow]
        if closed:
            lines.append(f"--allow {','.join(closed)}: each but {UNTIMED} trains differently")
        if any(each.name == DEVICE_MEMORY for each in failing):
            lines.append("a smaller input or network")
        return tuple(lines)

    @property
    def risks(self) -> tuple[str, ...]:
        """What could go wrong with the recommended plan, or must be known of it."""
        best, device = self.nearest, self.question.device
        lines = []
        for each in self.verdicts(best):
            if each.holds and 1 - each.chance >= 0.005:
                lines.append(
                    f"{each.name} may exceed {each.bound}: {100 * (1 - each.chance):.1f} %"
                )
        throttle, warm = device.thermal.throttle, best.figures["temperature"]
        if throttle is not None and warm.high is not None and warm.high >= throttle.value:
            lines.append(
                f"it may reach the {throttle.value:g} °C at which it throttles, and then take longer"
            )
        if best.configuration.batch < self.question.update and _normalizes(best):
            lines.append(
                f"batch normalization sees {best.configuration.batch} samples at a time, not "
                f"{best.configuration.samples_per_update}: all else of the mathematics stays"
            )
        beyond = best.updates * best.configuration.samples_per_update - self.session.samples
        if beyond:
            lines.append(
                f"the last of {best.updates:,} updates is counted in full, though {beyond:,} of its samples are missing"
            )
        start = start_of(device, best.prediction.engine)
        left_out = (
            [] if start else ["starting the framework, which the device's file does not know"]
        )
        lines.append(
            f"left out: {'; '.join([*left_out, 'what reading data takes beside its operations, evaluations'])}"
        )
        if best.configuration.optimizer is not None:
            lines.append("the learning rate of another optimizer has to be chosen anew")
        if best.configuration.mode is not None:
            set_by = device.modes[mode_name(device, best.configuration.mode)].set_by
            lines.append(
                f"the device has to be put into mode {best.configuration.mode} before"
                f"{f' ({set_by})' if set_by else ''}"
            )
        return (*lines, *best.prediction.notes)

    # --- again and again -----------------------------------------------------------------------------

    @property
    def repeated(self) -> tuple[str, ...]:
        """What sessions cost a day, and how many a full battery has."""
        best, lines = self.nearest, []
        energy, battery = best.figures["energy"], best.figures["battery"]
        if self.session.every_s is not None:
            times = DAY_S / self.session.every_s
            parts = [_spelt(best.figures["time"].scaled(times, "s"))]
            if energy.value is not None:
                parts.append(_spelt(energy.scaled(times, "J")))
            if battery.value is not None:
                parts.append(f"{_spelt(battery.scaled(times, 'ratio'))} of the battery")
            lines.append(f"A day ({times:g} session{'s' * (times != 1)}): {', '.join(parts)}")
        if battery.value:
            assert battery.low is not None
            assert battery.high is not None
            ends = (battery.value, battery.high, battery.low)
            sessions = "{:,} ({:,} to {:,})".format(*(floor(1 / end) for end in ends))  # whole ones
            lines.append(f"A full battery has {sessions} sessions")
        return tuple(lines)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        chosen, nearest = self.chosen, self.nearest
        return {
            "workload": self.workload,
            "title": self.title,
            "device": self.question.device.name,
            "engine": nearest.prediction.engine,
            "samples": self.session.samples,
            "every_s": self.session.every_s,
            "budget": [vars(limit) for limit in self.budget.limits],
            "sure": self.sure,
            "least": self.least,
            "allowed": sorted(self.question.allow),
            "update": self.question.update,
            "searched": len(self.estimates),
            "captures": self.captures,
            "chosen": None if chosen is None else chosen.to_dict(),
            "nearest": nearest.to_dict(),
            "limits": [each.to_dict() for each in self.verdicts(nearest)],
            "front": [each.to_dict() for each in self.front],
            "losing": [vars(each) for each in self.losing],
            "refused": [{"configuration": one.text, "reason": why} for one, why in self.refused],
            "repeated": list(self.repeated),
            "risks": list(self.risks),
            "remedies": list(self.remedies),
        }


def search(
    question: Question,
    estimator: Estimator,
    *,
    workload: str,
    title: str = "",
    budget: Budget = NO_LIMITS,
    sure: float = 0.9,
    least: str | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Plan:
    """Estimates every configuration.

    Args:
        question: What is searched.
        estimator: Of the training on the device.
        workload: Its name.
        title: In words.
        budget: Limits of a session.
        sure: Probability with which each limit has to hold, between 0 and 1.
        least: What to recommend among what keeps them, of `LEAST`; None: energy, or time where the
            device's power is not known.
        on_progress: Told how many are done, and of how many.

    Raises:
        InvalidValueError: A limit cannot be judged, or none of the configurations can be trained.
    """
    if not 0 < sure < 1:
        raise InvalidValueError(
            f"--sure {100 * sure:g}: a probability between 0 and 100 %", id="out-of-range"
        )
    if least is not None and least not in LEAST:
        raise InvalidValueError(f"--least {least}: there are {', '.join(LEAST)}", id="unknown-cost")
    budget.check(question.device, estimator.session.every_s)
    asked = list(configurations(question))
    estimates, refused = [], []
    for number, one in enumerate(asked):
        on_progress(number, len(asked))
        try:
            estimates.append(estimator.at(one))
        except WattstepError as error:
            refused.append((one, str(error)))
    if not estimates:
        raise InvalidValueError(refused[0][1], id="nothing-to-plan")
    power_unknown = estimates[0].figures["energy"].missing
    for limit in budget.limits:
        figure = estimates[0].figures[limit.kind]
        if figure.missing:
            raise InvalidValueError(
                f"--budget {limit.text!r} cannot be judged on {question.device.name}: {figure.reason}",
                id="budget-not-on-device",
            )
    if least == "energy" and power_unknown:
        raise InvalidValueError(
            f"--least energy: {estimates[0].figures['energy'].reason}; time and memory are known",
            id="budget-not-on-device",
        )
    return Plan(
        workload=workload,
        title=title or workload,
        question=question,
        session=estimator.session,
        budget=budget,
        sure=sure,
        least=least or ("time" if power_unknown else "energy"),
        estimates=tuple(estimates),
        refused=tuple(_once(refused)),
        captures=estimator.captures,
        estimator=estimator,
    )


def _once(refused: Sequence[tuple[Configuration, str]]) -> list[tuple[Configuration, str]]:
    """The first of those with one reason."""
    by_reason: dict[str, Configuration] = {}
    for one, why in refused:
        by_reason.setdefault(why, one)
    return [(one, why) for why, one in by_reason.items()]


def _kinds() -> list[tuple[str, Callable[[Any], str]]]:
    """Fields of a configuration, with how a value is called among those that lose."""
    own = {each.name: each for each in DIMENSIONS}

    def spelt(name: str) -> Callable[[Any], str]:
        if name in own:
            return lambda value: own[name].words(value) or f"no other {name}"
        return lambda value: f"{name} {value:,}"

    return [
        (each.name, spelt(each.name)) for each in fields(Configuration) if each.name != "accumulate"
    ]


def _failing(verdict: Verdict) -> str:
    """How a limit is not kept."""
    figure = _spelt(verdict.figure)
    return (
        f"{verdict.name} {figure}, {verdict.bound} at most: holds with {100 * verdict.chance:.0f} %, "
        f"not {100 * verdict.sure:.0f} %"
    )


def _compared(name: str, ratio: float) -> str:
    if ratio >= 2:
        return f"{ratio:.1f} times the {name}"
    return f"{100 * abs(ratio - 1):.1f} % {'more' if ratio > 1 else 'less'} {name}"


def _normalizes(estimate: Estimate) -> bool:
    return any("batch_norm" in name for name in estimate.prediction.graph.names)


def _spelt(figure: Figure) -> str:
    if figure.value is None:
        return "missing"
    spelt = spell(figure.value, figure.unit, figure.low, figure.high)
    return f"{spelt.value} ({spelt.interval})" if spelt.interval else spelt.value

"""A sweep: every configuration in a fresh process, whatever becomes of the ones before it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Protocol

from wattstep.errors import RecordingError
from wattstep.fleet.cooling import Cooled, cool_down, hottest_zone
from wattstep.fleet.device_state import parse_state
from wattstep.fleet.folder import CONTINUES, SweepFolder
from wattstep.fleet.keeper import Keeper
from wattstep.fleet.limits import MemoryLimit, beyond_machine, find_limit
from wattstep.fleet.measuring import Listener, Measure, measure
from wattstep.fleet.outcome import Configuration, Outcome
from wattstep.fleet.place import unlike, versions
from wattstep.fleet.plan import SweepPlan
from wattstep.training import Progress


class Watcher(Protocol):
    """Who is told where a sweep is."""

    def begins(self, configuration: Configuration, done: int, total: int) -> None:
        """A configuration begins, or the cool-down before it."""
        ...

    def progresses(self, progress: Progress) -> None:
        """Where the training is that began last."""
        ...

    def ends(self, outcome: Outcome, done: int, total: int, left_s: float | None) -> None:
        """One has an outcome; `left_s` is how long the others will take, as far as is known."""
        ...

    def warns(self, text: str) -> None:
        """Something the user must know."""
        ...


def sweep_here(
    plan: SweepPlan, folder: SweepFolder, watcher: Watcher, measured: Measure = measure
) -> None:
    """Runs what has no outcome yet on this machine, one after the other.

    Args:
        plan: What is to be swept.
        folder: Where runs and outcomes go.
        watcher: Who is told.
        measured: Trains one configuration.

    Raises:
        KeyboardInterrupt: The user stopped it; the same plan in the same folder continues.
        RecordingError: Nothing can be measured or written any more, or a state of the device was
            not taken.
    """
    with Keeper(folder.path, warn=watcher.warns) as keeper:
        _sweep(plan, folder, watcher, measured, keeper)


def _sweep(
    plan: SweepPlan, folder: SweepFolder, watcher: Watcher, measured: Measure, keeper: Keeper
) -> None:
    limit = None if plan.memory_limit is None else find_limit(plan.memory_limit)
    _warn(limit, folder, watcher)
    begun = time.monotonic()
    baseline = first_temperature(folder.outcomes) or hottest_zone()
    if baseline is None and plan.cooldown == "auto":
        watcher.warns("no temperature can be read here: no cool-down between configurations")
    configurations = list(plan.configurations())
    for configuration in configurations:
        if is_done(configuration, folder.outcomes):
            continue
        done = count_done(configurations, folder.outcomes)
        outcome = skipped(configuration, folder.outcomes.values())
        if outcome is None:
            watcher.begins(configuration, done, len(configurations))
            keeper.apply(parse_state(configuration.state))
            cooled = cool_down(plan.cooldown if folder.outcomes else "none", baseline)
            measuring = _measured(plan, folder, limit, watcher, configuration, measured)
            outcome = with_cooling(cooled, measuring)
        folder.add(outcome)
        folder.save(time.monotonic() - begun)
        left_s = time_left(configurations, folder.outcomes)
        watcher.ends(outcome, done + outcome.final, len(configurations), left_s)
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
        stop_if_unrecorded(outcome)


def stop_if_unrecorded(outcome: Outcome) -> None:
    """Where nothing can be recorded, the next configurations would fare no better.

    Raises:
        RecordingError: Nothing could.
    """
    if outcome.status == "unrecorded":
        reason = outcome.reason.removesuffix(f"; {CONTINUES}")
        raise RecordingError(f"{outcome.configuration.name}: {reason}; {CONTINUES}")


def is_done(configuration: Configuration, outcomes: Mapping[str, Outcome]) -> bool:
    """Whether it has an outcome that stands."""
    found = outcomes.get(configuration.name)
    return found is not None and found.final


def count_done(configurations: Iterable[Configuration], outcomes: Mapping[str, Outcome]) -> int:
    """How many have an outcome that stands."""
    return sum(is_done(configuration, outcomes) for configuration in configurations)


def skipped(configuration: Configuration, outcomes: Iterable[Outcome]) -> Outcome | None:
    """The outcome of one that need not be tried: a smaller batch ran out of memory. Else None."""
    smaller = [
        outcome.configuration.batch_size
        for outcome in outcomes
        if outcome.status == "out of memory"
        and outcome.configuration.family == configuration.family
        and outcome.configuration.batch_size < configuration.batch_size
    ]
    if not smaller:
        return None
    now = time.time()
    return Outcome(
        configuration=configuration,
        status="skipped",
        reason=f"batch {min(smaller)} ran out of memory",
        started=now,
        ended=now,
    )


def time_left(
    configurations: Sequence[Configuration], outcomes: Mapping[str, Outcome]
) -> float | None:
    """Seconds that those without an outcome will take, one after the other; None: nobody knows.

    Each as long as the median of those that were most like it.
    """
    took = [
        (outcome.configuration, outcome.ended - outcome.started + outcome.cooled)
        for outcome in outcomes.values()
        if outcome.final and outcome.status != "skipped"
    ]
    waiting = [one for one in configurations if not is_done(one, outcomes)]
    waiting = [one for one in waiting if skipped(one, outcomes.values()) is None]
    if not took:
        return None if waiting else 0.0
    return sum(_expected(configuration, took) for configuration in waiting)


def first_temperature(outcomes: Mapping[str, Outcome]) -> float | None:
    """Hottest zone in °C before the first configuration of all, or None."""
    known = [outcome for outcome in outcomes.values() if outcome.temperature is not None]
    return min(known, key=lambda one: one.started).temperature if known else None


def _warn(limit: MemoryLimit | None, folder: SweepFolder, watcher: Watcher) -> None:
    """Of what makes outcomes mean something else than one would think."""
    too_much = None if limit is None else beyond_machine(limit)
    if too_much is not None:
        watcher.warns(too_much)
    before = {tuple(one.versions.items()): one for one in folder.outcomes.values()}
    for outcome in before.values():
        changed = unlike(outcome.versions, versions())
        if changed:
            name = outcome.configuration.name
            watcher.warns(f"since {name} was measured: {'; '.join(changed)}")


def _measured(
    plan: SweepPlan,
    folder: SweepFolder,
    limit: MemoryLimit | None,
    watcher: Watcher,
    configuration: Configuration,
    measured: Measure,
) -> Outcome:
    settings = plan.settings_of(configuration, out=folder.clear(configuration.name))
    listener = Listener(on_progress=watcher.progresses, on_warning=watcher.warns)
    return measured(configuration, settings, limit, listener)


def with_cooling(cooled: Cooled, outcome: Outcome) -> Outcome:
    """The outcome with the cool-down before it."""
    evidence = outcome.evidence
    if cooled.note:
        evidence = replace(evidence, notes=(*evidence.notes, cooled.note))
    return replace(
        outcome, evidence=evidence, cooled=cooled.seconds, temperature=cooled.temperature
    )


def _expected(configuration: Configuration, took: Sequence[tuple[Configuration, float]]) -> float:
    """From the same workload and batch size, else the same workload, else all."""

    def likeness(other: Configuration) -> int:
        same = other.workload == configuration.workload
        return same + (same and other.batch_size == configuration.batch_size)

    most = max(likeness(other) for other, _ in took)
    return median(seconds for other, seconds in took if likeness(other) == most)

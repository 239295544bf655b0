"""Inferences from the outcomes so far: what is done, what need not be tried, how long the rest takes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from urllib.parse import urlsplit

from wattstep.schema.outcome import Configuration, Outcome


def is_done(configuration: Configuration, outcomes: Mapping[str, Outcome]) -> bool:
    """True if it has an outcome that stands."""
    outcome = outcomes.get(configuration.name)
    return outcome is not None and outcome.final


def count_done(configurations: Iterable[Configuration], outcomes: Mapping[str, Outcome]) -> int:
    """Number of configurations that have an outcome that stands."""
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


def baselines(outcomes: Iterable[Outcome]) -> dict[str, float | None]:
    """Hottest zone in °C before the first configuration of all, by the worker's host; "": without one.

    None where no zone could be read.
    """
    hosts: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        hosts.setdefault(host_of(outcome.worker or ""), []).append(outcome)
    return {host: _first_temperature(measured) for host, measured in hosts.items()}


def host_of(address: str) -> str:
    """The host in "tcp://HOST:PORT"; a worker that is started again has another port."""
    return urlsplit(address).hostname or address


def _first_temperature(outcomes: Iterable[Outcome]) -> float | None:
    known = [outcome for outcome in outcomes if outcome.temperature is not None]
    return min(known, key=lambda one: one.started).temperature if known else None


def _expected(configuration: Configuration, took: Sequence[tuple[Configuration, float]]) -> float:
    """From the same workload and batch size, else the same workload, else all."""

    def similarity(other: Configuration) -> int:
        same = other.workload == configuration.workload
        return same + (same and other.batch_size == configuration.batch_size)

    most = max(similarity(other) for other, _ in took)
    return median(seconds for other, seconds in took if similarity(other) == most)

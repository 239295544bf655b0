"""Inferences from the outcomes so far: what is done, what need not be tried, how long the rest takes."""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from wattstep.schema.outcome import Configuration, Outcome


class Tally:
    """Inferences that each further outcome brings up to date: a sweep may have ten thousand.

    Args:
        outcomes: Those so far.

    Attributes:
        done: Names of the configurations that have an outcome that stands.
        baselines: Hottest zone in °C before the first configuration of all, by the worker's host;
            "": without one. None where no zone could be read.
    """

    def __init__(self, outcomes: Iterable[Outcome] = ()) -> None:
        self._outcomes: dict[str, Outcome] = {}  # the last of each configuration
        self.done: set[str] = set()
        self.baselines: dict[str, float | None] = {}
        self._first_s: dict[str, float] = {}  # when the one began that the baseline is of
        self._full: dict[tuple[object, ...], list[int]] = {}  # batches out of memory, by family
        self._took: dict[tuple[object, ...], list[float]] = {}  # both in order
        for outcome in outcomes:
            self.add(outcome)

    def add(self, outcome: Outcome) -> None:
        """One more outcome, which takes the place of an earlier one of its configuration.

        How hot the host was before the earlier one stays known.
        """
        name = outcome.configuration.name
        if (before := self._outcomes.get(name)) is not None:
            for values, value in self._told(before):
                del values[bisect_left(values, value)]
        self._outcomes[name] = outcome
        for values, value in self._told(outcome):
            insort(values, value)
        self._add_temperature(outcome)
        (self.done.add if outcome.final else self.done.discard)(name)

    def _told(self, outcome: Outcome) -> Iterator[tuple[list[Any], float]]:
        """The lists that an outcome has a value in, and the value."""
        configuration = outcome.configuration
        if not outcome.final:
            return
        if outcome.status == "out of memory":
            yield self._full.setdefault(configuration.family, []), configuration.batch_size
        if outcome.status != "skipped":
            for key in _likest_first(configuration):
                seconds = outcome.ended - outcome.started + outcome.cooled
                yield self._took.setdefault(key, []), seconds

    def _fits(self, configuration: Configuration) -> bool:
        """False if a smaller batch ran out of memory."""
        full = self._full.get(configuration.family)
        return not full or full[0] >= configuration.batch_size

    def _add_temperature(self, outcome: Outcome) -> None:
        host = host_of(outcome.worker or "")
        self.baselines.setdefault(host, None)
        if outcome.temperature is None:
            return
        if host not in self._first_s or outcome.started < self._first_s[host]:
            self._first_s[host] = outcome.started
            self.baselines[host] = outcome.temperature

    def skipped(self, configuration: Configuration) -> Outcome | None:
        """The outcome of one that need not be tried: a smaller batch ran out of memory. Else None."""
        if self._fits(configuration):
            return None
        now, full = time.time(), self._full[configuration.family][0]
        return Outcome(
            configuration=configuration,
            status="skipped",
            reason=f"batch {full} ran out of memory",
            started=now,
            ended=now,
        )

    def time_left(self, configurations: Iterable[Configuration]) -> float | None:
        """Seconds that those without an outcome will take, one after the other; None: nobody knows.

        Each as long as the median of those that were most like it.
        """
        waiting = [one for one in configurations if one.name not in self.done and self._fits(one)]
        if not self._took.get(()):
            return None if waiting else 0.0
        return sum(map(self._expected, waiting))

    def _expected(self, configuration: Configuration) -> float:
        """From the same workload and batch size, else the same workload, else all."""
        keys = _likest_first(configuration)
        took = next(self._took[key] for key in keys if self._took.get(key))
        return (took[(len(took) - 1) // 2] + took[len(took) // 2]) / 2


def _likest_first(configuration: Configuration) -> tuple[tuple[object, ...], ...]:
    workload = configuration.workload
    return (workload, configuration.batch_size), (workload,), ()


def host_of(address: str) -> str:
    """The host in "tcp://HOST:PORT"; a worker that is started again has another port."""
    return urlsplit(address).hostname or address

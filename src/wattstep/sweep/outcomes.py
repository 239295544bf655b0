"""Inferences from the outcomes so far: what is done, what need not be tried, how long the rest takes."""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Iterable
from urllib.parse import urlsplit

from wattstep.schema.outcome import Configuration, Outcome


class Tally:
    """Inferences that each further outcome brings up to date: a sweep may have ten thousand.

    Args:
        outcomes: Those so far, each of another configuration.

    Attributes:
        done: Names of the configurations that have an outcome that stands.
        baselines: Hottest zone in °C before the first configuration of all, by the worker's host;
            "": without one. None where no zone could be read.
    """

    def __init__(self, outcomes: Iterable[Outcome] = ()) -> None:
        self.done: set[str] = set()
        self.baselines: dict[str, float | None] = {}
        self._first_s: dict[str, float] = {}  # when the one began that the baseline is of
        self._full: dict[tuple[object, ...], int] = {}  # smallest batch out of memory, by family
        self._took: dict[tuple[object, ...], list[float]] = {}  # in order
        for outcome in outcomes:
            self.add(outcome)

    def add(self, outcome: Outcome) -> None:
        """One more outcome, which takes the place of an earlier one of its configuration."""
        configuration = outcome.configuration
        self._add_temperature(outcome)
        if not outcome.final:
            self.done.discard(configuration.name)
            return
        self.done.add(configuration.name)
        if outcome.status == "out of memory":
            family, batch_size = configuration.family, configuration.batch_size
            self._full[family] = min(self._full.get(family, batch_size), batch_size)
        if outcome.status != "skipped":
            for key in _likest_first(configuration):
                seconds = outcome.ended - outcome.started + outcome.cooled
                insort(self._took.setdefault(key, []), seconds)

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
        full = self._full.get(configuration.family)
        if full is None or full >= configuration.batch_size:
            return None
        now = time.time()
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
        waiting = [
            one
            for one in configurations
            if one.name not in self.done
            and self._full.get(one.family, one.batch_size) >= one.batch_size
        ]
        if not self._took:
            return None if waiting else 0.0
        return sum(map(self._expected, waiting))

    def _expected(self, configuration: Configuration) -> float:
        """From the same workload and batch size, else the same workload, else all."""
        keys = _likest_first(configuration)
        took = next(self._took[key] for key in keys if key in self._took)
        return (took[(len(took) - 1) // 2] + took[len(took) // 2]) / 2


def _likest_first(configuration: Configuration) -> tuple[tuple[object, ...], ...]:
    workload = configuration.workload
    return (workload, configuration.batch_size), (workload,), ()


def host_of(address: str) -> str:
    """The host in "tcp://HOST:PORT"; a worker that is started again has another port."""
    return urlsplit(address).hostname or address

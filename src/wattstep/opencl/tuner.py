"""Searches the fastest configuration of a product on a device: tiles, vectors, registers and work groups."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Final, Protocol

from wattstep.errors import DeviceFaultError, InvalidValueError, WattstepError
from wattstep.opencl.config import (
    BLOCKED,
    NAIVE,
    PACKED,
    REGISTERS,
    TILED,
    Config,
    default_config,
)
from wattstep.opencl.device import Device
from wattstep.schema.figure import Missing

# What textbooks have, whatever the device: a step of optimization each.
UNTUNED: Final = (
    Config(kind=NAIVE),
    Config(kind=TILED, x=16, y=16, depth=16),
    Config(kind=BLOCKED, x=8, y=8, rows=4, width=4, depth=16),
    Config(kind=REGISTERS, rows=4, width=8),
)
LADDERS: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "x": (1, 2, 4, 8, 16, 32),
        "y": (1, 2, 4, 8, 16, 32),
        "rows": (1, 2, 3, 4, 6, 8, 10, 12, 14, 16),
        "vectors": (1, 2, 3, 4),
        "width": (1, 2, 4, 8, 16),
        "depth": (1, 2, 4, 8, 16, 32),
    }
)
MOST_SUMS: Final = 512  # floats of C that an item holds: beyond, registers spill everywhere
NEAR: Final = 1.5  # times the fastest: only such configurations are searched around
PATIENCE: Final = 4  # of these in a row that lead to nothing faster
FASTER: Final = 0.99  # times as long: less is noise
SCREENED: Final = 3  # timings of a candidate, of which the least counts
FINALISTS: Final = 4
ROUNDS: Final = 9
SLOW: Final = 3.0  # times the fastest: such a finalist is timed in one round alone
Outcome = float | Missing  # seconds, or why it does not run


class Bench(Protocol):
    """Runs candidates; a test has one whose times are worked out."""

    def check(self, config: Config) -> None:
        """Builds it, runs it, and holds what it computes against float64.

        Raises:
            WattstepError: It does not build, does not run, or computes something else.
        """
        ...

    def seconds(self, config: Config) -> float:
        """Time of one product with a configuration that was checked, and may have been closed since."""
        ...

    def close(self, config: Config) -> None:
        """Gives back what a candidate holds on the device."""
        ...


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """A search, and what it found.

    Attributes:
        config: The fastest of the final round.
        seconds: Times of all who were in that round, one each round, in turns.
        outcomes: Of every candidate: its least time when it was screened, or why it does not run.
    """

    config: Config
    seconds: Mapping[Config, Sequence[float]]
    outcomes: Mapping[Config, Outcome]

    @property
    def median(self) -> float:
        """Median time of the fastest, in seconds."""
        return statistics.median(self.seconds[self.config])

    @property
    def failures(self) -> dict[Config, Missing]:
        """Candidates that do not run, and why."""
        return {
            config: outcome
            for config, outcome in self.outcomes.items()
            if isinstance(outcome, Missing)
        }


@dataclass
class Search:
    """Looks for the fastest configuration by steps along the ladders, from what textbooks have on.

    Args:
        device: Whose limits candidates keep to.
        shape: m, n, k.
        bench: Runs them.
        on_candidate: Told before a candidate is tried: a driver may take the process with it.
        on_outcome: Told how it went.
        enough: Asked after each candidate, and each round of the final, whether to end with it.
        outcomes: Of candidates that were tried before, which are not tried again.
        affordable: Asked whether there is time for one that the search begins with.
    """

    device: Device
    shape: tuple[int, int, int]
    bench: Bench
    on_candidate: Callable[[Config], None] = lambda config: None
    on_outcome: Callable[[Config, Outcome], None] = lambda config, outcome: None
    enough: Callable[[], bool] = lambda: False
    outcomes: dict[Config, Outcome] = field(default_factory=dict)
    affordable: Callable[[Config], bool] = lambda config: True

    def run(self) -> Tuning:
        """Searches, then lets the best and the untuned run in turns.

        Whoever is fastest then counts. The untuned are among them, so that tuning never chooses what
        is slower than the best of these.

        Raises:
            DeviceFaultError: No kernel runs on the device.
        """
        for config in self._seeds():
            self._try(config)
        self._climb()
        return self._final()

    def _climb(self) -> None:
        """Searches around the fastest until that leads to nothing faster, or it is enough."""
        expanded: set[Config] = set()
        fastest, vain = math.inf, 0
        while vain < PATIENCE and (config := self._next(expanded)) is not None:
            expanded.add(config)
            for candidate in neighbours(config, self.device):
                if self.enough():
                    return
                self._try(candidate)
            least = min(self._working().values())
            vain = 0 if least < FASTER * fastest else vain + 1
            fastest = min(fastest, least)

    def _seeds(self) -> Iterator[Config]:
        width = min(self.device.vector_width, 16)
        seeds = (
            *UNTUNED,
            default_config(self.device, *self.shape[:2]),
            Config(kind=PACKED, rows=8, vectors=2, width=width),
            Config(kind=BLOCKED, x=16, y=8, rows=4, width=4, depth=16),
        )
        for config in dict.fromkeys(seeds):
            if _permitted(config, self.device) and self.affordable(config):
                yield config

    def _try(self, config: Config) -> None:
        if config in self.outcomes:
            return
        self.on_candidate(config)
        self.outcomes[config] = self._outcome(config)
        self.on_outcome(config, self.outcomes[config])
        self.bench.close(config)

    def _outcome(self, config: Config) -> Outcome:
        try:
            self.bench.check(config)
            least = self.bench.seconds(config)
            fastest = min(self._working().values(), default=least)
            for _ in range(SCREENED - 1 if least <= SLOW * fastest else 0):
                least = min(least, self.bench.seconds(config))
        except WattstepError as error:
            return Missing(str(error))
        return least

    def _working(self) -> dict[Config, float]:
        return {
            config: outcome
            for config, outcome in self.outcomes.items()
            if not isinstance(outcome, Missing)
        }

    def _next(self, expanded: set[Config]) -> Config | None:
        """The fastest configuration that was not searched around yet, if it is near the fastest of all."""
        working = self._working()
        if not working:
            return None
        most = NEAR * min(working.values())
        near = [c for c, seconds in working.items() if seconds <= most and c not in expanded]
        return min(near, key=working.__getitem__, default=None)

    def _final(self) -> Tuning:
        working = self._working()
        ranked = sorted(working, key=working.__getitem__)
        finalists = dict.fromkeys([*ranked[:FINALISTS], *(c for c in UNTUNED if c in working)])
        seconds: dict[Config, list[float]] = {config: [] for config in finalists}
        for number in range(ROUNDS):
            for config in [c for c in seconds if number == 0 or _fast(seconds, c)]:
                self.on_candidate(config)
                try:
                    seconds[config].append(self.bench.seconds(config))
                except WattstepError as error:  # it ran before
                    self.outcomes[config] = Missing(str(error))
                    del seconds[config]
            if self.enough():
                break
        for config in finalists:
            self.bench.close(config)
        if not seconds:
            reasons = dict.fromkeys(str(outcome) for outcome in self.outcomes.values())
            raise DeviceFaultError(
                f"no kernel of a product runs on {self.device.name}: {next(iter(reasons), 'none was tried')}",
                id="opencl-no-kernel",
            )
        fastest = min(seconds, key=lambda config: statistics.median(seconds[config]))
        return Tuning(config=fastest, seconds=seconds, outcomes=dict(self.outcomes))


def neighbours(config: Config, device: Device) -> list[Config]:
    """Configurations one step away along one ladder that keep to a device's limits."""
    if config.kind == NAIVE:
        return []
    if config.kind == TILED:
        steps = [replace(config, x=n, y=n, depth=n) for n in _beside("x", config.x)]
    else:
        steps = [
            _with(config, name, number)
            for name in (each.name for each in fields(config)[1:])
            for number in _beside(name, getattr(config, name))
        ]
    return [each for each in steps if _permitted(each, device)]


def _with(config: Config, name: str, number: int) -> Config:
    document = {**config.to_dict(), name: number}
    return Config.from_dict(document)


def _beside(name: str, number: int) -> list[int]:
    """The numbers below and above it on its ladder."""
    below = [each for each in LADDERS[name] if each < number]
    above = [each for each in LADDERS[name] if each > number]
    return [*below[-1:], *above[:1]]


def _permitted(config: Config, device: Device) -> bool:
    try:
        config.check(device)
    except InvalidValueError:
        return False
    return config.rows * config.columns <= MOST_SUMS


def _fast(seconds: Mapping[Config, Sequence[float]], config: Config) -> bool:
    medians = {each: statistics.median(times) for each, times in seconds.items() if times}
    return medians[config] <= SLOW * min(medians.values())

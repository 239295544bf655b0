"""A recorder that records nothing, whose sensors follow a formula and a clock that only sleeping moves."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from wattstep.schema.channel import Channel, Domain
from wattstep.schema.journal import JOURNAL, MISSING
from wattstep.schema.run_info import PlannedRead

BEGIN_S = 1000.0


def temperature(name: str = "thermal.soc", resolution: float | None = None) -> Channel:
    return Channel(
        name=name, unit="°C", kind="gauge", domain="thermal", role="temperature", source="made",
        scale=1e-3, resolution=resolution,
    )  # fmt: skip


def frequency(core: int) -> Channel:
    return Channel(
        name=f"cpu{core}.frequency", unit="Hz", kind="gauge", domain="cpu", role="frequency",
        source="made", scale=1e3, core=core,
    )  # fmt: skip


def clock(domain: Domain, role: str = "frequency") -> Channel:
    """One clock for all of a domain."""
    return Channel(
        name=f"{domain}.{role}", unit="Hz", kind="gauge", domain=domain, role=role, source="made",
        scale=1e3,
    )  # fmt: skip


def planned(*channels: Channel) -> tuple[PlannedRead, ...]:
    """A read for each channel, as the sampler plans them."""
    return tuple(
        PlannedRead(
            number=n, sensor="made", path="-", parser="number", every=1, channels=(channel,)
        )
        for n, channel in enumerate(channels)
    )


@dataclass
class Made:
    """Stands in for a recorder; every second that is slept each channel is sampled once."""

    path: Path
    raw: Mapping[Channel, Callable[[float], int | None]]
    now_s: float = BEGIN_S
    problem: str | None = None
    notes: list[str] = field(default_factory=list)
    rests: list[tuple[str, float, float]] = field(default_factory=list)
    conditions: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.path / JOURNAL).mkdir(parents=True)
        self.info = SimpleNamespace(reads=planned(*self.raw), conditions=self.conditions)

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.sample()

    def sample(self) -> None:
        for number, value in enumerate(self.raw.values()):
            read = value(self.now_s - BEGIN_S)
            row = (round(self.now_s * 1e9), 0 if read is not None else 5)
            packed = struct.pack("<qqq", *row, MISSING if read is None else read)
            with (self.path / JOURNAL / f"samples-{number:02d}.bin").open("ab") as file:
                file.write(packed)

    def span(self, name: str) -> None:
        self._rest, self._rest_s = name, self.now_s

    @property
    def steps(self) -> Made:
        return self

    def end_span(self) -> None:
        self.rests.append((self._rest, self._rest_s - BEGIN_S, self.now_s - BEGIN_S))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def about(self, **fields: Any) -> None:
        self.info = SimpleNamespace(reads=self.info.reads, **fields)

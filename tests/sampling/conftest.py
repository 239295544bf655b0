"""The real child over files of the test's own, and its journals read back with struct alone."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wattstep.record.sampling.plan import make_plan
from wattstep.record.sampling.sampler import Sampler
from wattstep.schema.channel import Channel, Present, SensorRead

Row = tuple[int, ...]


def channel(name: str) -> Channel:
    return Channel(
        name=name, unit="events", kind="counter", domain="system", role="test", source="test"
    )


def a_read(
    path: Path | str, parser: str = "number", width: int = 1, **fields: object
) -> SensorRead:
    channels = tuple(channel(f"c{n}") for n in range(width))
    return SensorRead(path=str(path), parser=parser, channels=channels, **fields)  # type: ignore[arg-type]


def rows(path: Path, width: int) -> list[Row]:
    """Whole rows of int64."""
    data = path.read_bytes()
    size = 8 * width
    return list(struct.iter_unpack(f"<{width}q", data[: len(data) // size * size]))


class Sampling:
    """A child at work; its first read (number 0) is its own clock, the given ones follow."""

    def __init__(self, folder: Path, reads: tuple[SensorRead, ...], period_s: float) -> None:
        self.folder = folder
        folder.mkdir()
        self.plan = make_plan({"test": Present(reads=reads)}, period_s)
        self.sampler = Sampler(self.plan, folder)
        self.sampler.start()

    def samples(self, number: int) -> list[Row]:
        width = 2 + len(self.plan.reads[number].channels)
        return rows(self.folder / f"samples-{number:02d}.bin", width)

    def ticks(self) -> list[Row]:
        return rows(self.folder / "ticks.bin", 4)

    def costs(self) -> list[Row]:
        return rows(self.folder / "costs.bin", 4)

    def errnos(self, number: int) -> list[int]:
        return [row[1] for row in self.samples(number)]


@pytest.fixture
def sampling(tmp_path: Path) -> Iterator[Callable[..., Sampling]]:
    started: list[Sampling] = []

    def start(*reads: SensorRead, period_s: float = 0.01) -> Sampling:
        one = Sampling(tmp_path / f"journal{len(started)}", reads, period_s)
        started.append(one)
        return one

    yield start
    for one in started:
        one.sampler.stop()

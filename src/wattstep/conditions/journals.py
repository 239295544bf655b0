"""Reads what the sampler writes while it writes it, so that nothing is read from the sensors twice."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wattstep.records.channel import Channel
from wattstep.records.journal import MISSING, SAMPLE_HEADER, samples_name
from wattstep.records.run_info import PlannedRead
from wattstep.store.folder import open_plain

MOST_BYTES = 1 << 20  # of one journal at a time

Sample = tuple[float, float]  # monotonic time in s, value in the channel's unit


@dataclass
class _Place:
    """A journal, and how far it has been read."""

    path: Path
    width: int
    channels: Sequence[tuple[int, Channel]]
    offset: int = 0


@dataclass
class Follower:
    """The new samples of some channels, each time it is asked.

    Args:
        journal: The folder of the journals.
        reads: What is sampled.
        roles: Of the channels that are wanted.
    """

    journal: Path
    reads: Sequence[PlannedRead]
    roles: Sequence[str]
    channels: list[Channel] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._places = []
        for read in self.reads:
            wanted = [(n, c) for n, c in enumerate(read.channels) if c.role in self.roles]
            if wanted:
                path = self.journal / samples_name(read.number)
                width = SAMPLE_HEADER + len(read.channels)
                self._places.append(_Place(path=path, width=width, channels=wanted))
                self.channels.extend(channel for _, channel in wanted)

    def new_samples(self) -> dict[str, list[Sample]]:
        """What was written since it was last asked, by channel; failed reads are left out."""
        found: dict[str, list[Sample]] = {}
        for place in self._places:
            for row in _new_rows(place):
                for index, channel in place.channels:
                    value = row[SAMPLE_HEADER + index]
                    if value != MISSING:
                        sample = (row[0] / 1e9, value * channel.scale)
                        found.setdefault(channel.name, []).append(sample)
        return found


def _new_rows(place: _Place) -> list[tuple[int, ...]]:
    """Whole rows beyond those that were read; a row that is half written comes next time."""
    layout = struct.Struct(f"<{place.width}q")
    try:
        with open_plain(place.path) as file:
            file.seek(place.offset)
            data = file.read(MOST_BYTES)
    except OSError:  # a journal that is not there yet, or no more
        return []
    whole = len(data) // layout.size * layout.size
    place.offset += whole
    return list(layout.iter_unpack(data[:whole]))

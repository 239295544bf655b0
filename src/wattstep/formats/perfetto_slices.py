"""Slices of a Perfetto trace: begins and ends on tracks, paired in the order of time."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from wattstep.formats.event_rows import MOST_NS, EventRows
from wattstep.formats.perfetto_clocks import FAR, Longs
from wattstep.formats.trace import NONE

WHOLE, BEGIN, END = 0, 1, 2  # a slice that tells its own length; as in TrackEvent.Type
NO_THREAD: Final = 1 << 32  # numbers of tracks that are no thread's begin here
ON_GPU: Final = "gpu"  # of a track: then the number of the GPU, and that of the queue
Track = tuple[Any, ...]


class Slices:
    """Begins and ends of slices, in the order of the file."""

    def __init__(self, rows: EventRows) -> None:
        self._rows = rows
        self._kind, self._name = array("b"), array("i")
        self._track, self._clock = array("i"), array("q")
        self._time, self._length = array("q"), array("q")
        self._tracks: dict[Track, int] = {}
        self._labels: dict[int, Any] = {}
        self.row_labels: list[tuple[Track, Any]] = []

    def add(
        self,
        kind: int,
        name: str,
        track: Track,
        clock: int,
        time: int,
        length: int = 0,
        labels: Any = None,
    ) -> None:
        """Adds a begin, an end or a whole slice on a track; an end's name is not read.

        What is `labels` of a slice comes out in `row_labels`, in the order of its events, with its
        track.
        """
        if labels is not None:
            self._labels[len(self._kind)] = labels
        self._kind.append(kind)
        self._name.append(NONE if kind == END else self._rows.code(name))
        self._track.append(self._tracks.setdefault(track, len(self._tracks)))
        self._clock.append(clock)
        self._time.append(time)
        self._length.append(length)

    def pair(
        self,
        on_primary: Callable[[Longs, Longs], tuple[Longs, Any]],
        place_of: Callable[[Track], tuple[int | None, int]],
        ignored: Counter[str],
    ) -> None:
        """Makes events of them.

        Args:
            on_primary: Times on the trace's clock, and which of them are known, from clocks and
                times on them.
            place_of: Thread (None: the track is no thread's) and process of a track.
            ignored: Takes in what became no event.
        """
        times, known = on_primary(np.array(self._clock, np.int64), np.array(self._time, np.int64))
        places = []
        for number, track in enumerate(self._tracks):
            thread, process = place_of(track)
            places.append((NO_THREAD + number if thread is None else thread, process))
        keys = list(self._tracks)
        open_slices: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        done: list[tuple[int, int, int]] = []
        order = np.argsort(times, kind="stable")
        for row in order[known[order]].tolist():
            track_number, time, kind = self._track[row], int(times[row]), self._kind[row]
            begun = open_slices[track_number]
            if kind == BEGIN:
                begun.append((time, row))
                continue
            if kind == END and not begun:
                ignored["end of a slice that began before the trace"] += 1
                continue
            begin, at = (time, row) if kind == WHOLE else begun.pop()
            done.append((at, begin, time + self._length[row]))
        # As they began, not as they ended: of two that fill the same time the outer one stands first.
        for at, begin, end in sorted(done):
            place = self._track[at]
            key = keys[place]
            on_gpu = f"gpu{key[1]}" if key[0] == ON_GPU else ""
            added = self._event(self._name[at], places[place], begin, end, on_gpu, ignored)
            if added and self._labels:
                self.row_labels.append((keys[place], self._labels.get(at)))
        if waiting := sum(map(len, open_slices.values())):
            ignored["begin of a slice that did not end within the trace"] += waiting

    def _event(
        self,
        name: int,
        place: tuple[int, int],
        begin: int,
        end: int,
        on_gpu: str,
        ignored: Counter[str],
    ) -> bool:
        if end >= MOST_NS:
            ignored[FAR] += 1
            return False
        text = self._rows.names[name]
        kind, processor = ("kernel", on_gpu) if on_gpu else ("slice", "cpu")
        self._rows.add(text, kind, processor, begin, end, thread=place[0], process=place[1])
        return True

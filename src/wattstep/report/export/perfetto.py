"""A run as a Perfetto trace: operations, steps, conditions and everything sampled on one timeline."""

from __future__ import annotations

from collections import Counter
from typing import BinaryIO, Final

import numpy as np

from wattstep.report.export import timeline
from wattstep.report.export.counters import RECORDING, Counted, counters
from wattstep.report.export.lanes import Lanes
from wattstep.report.export.perfetto_file import Described, Flows, PerfettoFile, Track, flows_of
from wattstep.report.export.timeline import Slices, TrackKey
from wattstep.report.export.written import Progress, Written, about_run, first_ns
from wattstep.run.run import Run
from wattstep.schema.version import VERSION

LARGEST_TID: Final = (1 << 31) - 1
GROUPS: Final = (
    "power", "utilization", "frequency", "temperature", "memory", "counts", "evaluations", RECORDING,
)  # fmt: skip


class LanedTrack:
    """A track, and more of its name for slices that only overlap; made when there is something."""

    def __init__(self, file: PerfettoFile, described: Described) -> None:
        self._file, self._described = file, described
        self._lanes = Lanes()
        self._tracks: list[Track] = []

    def add(self, slices: Slices, flows: Flows | None = None) -> int:
        """Takes slices in any order; how many there were."""
        lanes = self._lanes.of(slices.start_ns, slices.end_ns)
        for lane in range(int(lanes.max(initial=-1)) + 1):
            mine = np.flatnonzero(lanes == lane)
            if len(mine):
                self._track(lane).slices(slices.at(mine), flows)
        return len(slices)

    def _track(self, lane: int) -> Track:
        while len(self._tracks) <= lane:
            self._tracks.append(self._file.track(self._of_lane(len(self._tracks))))
        return self._tracks[lane]

    def _of_lane(self, lane: int) -> Described:
        if not lane:
            return self._described
        beside = "slices that overlap others of this track without lying inside them"
        if self._described.thread is None:
            return Described(
                name=self._described.name, parent=self._described.parent, about=beside,
                rank=self._described.rank,
            )  # fmt: skip
        name = f"{self._described.name}, beside"
        return Described(name=name, parent=self._tracks[0].uuid, about=beside, rank=lane)


def write(run: Run, file: BinaryIO, on_progress: Progress) -> Written:
    """Writes a trace.

    Raises:
        DamagedRunError: A table of the run cannot be read.
        OSError: The disk is full.
    """
    return _Writing(run, file, on_progress).write()


class _Writing:
    """Trace that is being written."""

    def __init__(self, run: Run, file: BinaryIO, on_progress: Progress) -> None:
        self._run, self._on_progress = run, on_progress
        self._begin = first_ns(run)
        self._file = PerfettoFile(file, max(-self._begin, 0))
        self._counts: Counter[str] = Counter()
        self._notes: list[str] = []
        self._root = 0
        self._rank = 0

    def write(self) -> Written:
        """All of it."""
        self._file.clocks(self._run.info.clocks, self._begin)
        about = about_run(self._run)
        process = Described(
            name=f"training: {self._run.info.workload}",
            process=f"training: {self._run.info.workload}",
            labels=(f"wattstep {VERSION}", *about.statuses),
        )
        track = self._file.track(process)
        track.instant(self._begin, f"wattstep {VERSION}", about.facts)
        self._root = track.uuid
        self._beside()
        self._operations()
        self._counters()
        if self._file.shift_ns:
            self._notes.append(f"all times are {self._file.shift_ns} ns later: some were below 0")
        return Written(counts=dict(self._counts), notes=tuple(self._notes))

    def _described(self, name: str, about: str, parent: int = 0, **more: object) -> Described:
        self._rank += 1
        return Described(
            name=name, about=about, parent=parent or self._root, rank=self._rank,
            **more,  # type: ignore[arg-type]  # the fields of Described
        )  # fmt: skip

    def _beside(self) -> None:
        """Steps, phases, layers, rests, conditions: each of them one track."""
        self._on_progress("steps", 0.0)
        run = self._run
        for name, about, slices in (
            ("steps", "training steps; the category says what sets one apart", timeline.steps(run)),
            ("phases", "phases of the steps, by the training's own marks", timeline.phases(run)),
            ("layers", "top-level layers, by marks of the clean steps", timeline.layers(run)),
            (
                "between steps",
                "tracing windows, and rests with a name",
                timeline.between_steps(run),
            ),
            ("conditions", "throttled and disturbed stretches", timeline.stretches(run)),
            ("updates", "when an optimizer had updated its parameters", timeline.updates(run)),
            (
                "thinned steps",
                "what stands for steps that were not kept one by one (--keep)",
                timeline.thinned_steps(run),
            ),
        ):
            if len(slices):
                track = LanedTrack(self._file, self._described(name, about))
                self._counts[name.replace(" ", "_")] = track.add(slices)

    def _operations(self) -> None:
        tracks: dict[TrackKey, LanedTrack] = {}
        threads: set[int] = set()
        total = max(self._run.tables.count("operations"), 1)
        left_out = 0
        for piece in timeline.pieces(self._run):
            flows = flows_of(list(piece.values()))
            left_out += flows.left_out
            for track, slices in piece.items():
                if track not in tracks:
                    tracks[track] = LanedTrack(self._file, self._track_of(track, threads))
                self._counts["operations"] += tracks[track].add(slices, flows)
            self._on_progress("operations", 0.05 + 0.65 * self._counts["operations"] / total)
        if left_out:
            self._notes.append(f"{left_out} arrows from launch to work on a GPU were left out")

    def _track_of(self, track: TrackKey, threads: set[int]) -> Described:
        if not track.on_cpu:
            return self._described(track.name, "work on a GPU, as the trace has it")
        thread = track.thread
        if not 0 < thread <= LARGEST_TID or thread in threads:
            thread = next(n for n in range(1 + len(threads), LARGEST_TID) if n not in threads)
        threads.add(thread)
        about = f"operations of thread {track.thread}, with the tracer's own cost still in them"
        return self._described(track.name, about, thread=thread)

    def _counters(self) -> None:
        self._on_progress("samples", 0.7)
        groups: dict[str, int] = {}
        series = sorted(counters(self._run), key=lambda one: GROUPS.index(one.group))
        for done, one in enumerate(series):
            if one.group not in groups:
                group = self._described(one.group, f"what was sampled: {one.group}")
                groups[one.group] = self._file.track(group).uuid
            self._counter(one, groups[one.group])
            self._on_progress("samples", 0.7 + 0.3 * done / len(series))

    def _counter(self, one: Counted, group: int) -> None:
        if not len(one.t_ns):
            return
        described = self._described(one.shown, one.about, group, unit=one.unit)
        self._file.track(described).values(one.t_ns, one.value)
        self._counts["channels"] += 1
        self._counts["samples"] += len(one.t_ns)
        if len(one.gaps):
            about = "where nothing is known: the line above goes on there without a sample"
            gaps = LanedTrack(self._file, self._described(f"{one.name}: gaps", about, group))
            self._counts["gaps"] += gaps.add(one.gaps)

"""The traced rows of a run that each of its rails feeds, where a GPU works beside the host."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from wattstep.attribution.codes import Codes
from wattstep.attribution.gpu_copies import copies_of
from wattstep.attribution.overhead_compensation import compensate, compensate_device
from wattstep.attribution.quantities import RAIL
from wattstep.attribution.sharing import Sharing
from wattstep.attribution.tables.attributor import NO_BYTES
from wattstep.attribution.tables.naming import Names
from wattstep.attribution.tables.step_kinds import KindPhases
from wattstep.attribution.tables.taking_part import (
    WORDS,
    Side,
    TakingPart,
    bytes_of_rows,
    cards_of,
    rows_of,
    side_of,
)
from wattstep.attribution.tables.traced import TracedColumns
from wattstep.attribution.traced_rows import CompensatedRows, TracedRows
from wattstep.recorded.series import Series
from wattstep.schema.arrays import BoolArray, FloatArray
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Missing

ENOUGH_BYTES = 0.5  # of the time of rows: their bytes are known


@dataclass(frozen=True, kw_only=True, eq=False)
class FedRows:
    """What can belong to the rails of a run, of the rows of its traced steps.

    Attributes:
        series: Samples of the run.
        shares_memory: Whether the GPU works in the host's memory; None: nothing says it.
        columns: Of the rows.
        rows: Their layout.
        compensated: The same on the mean clean step.
        outer: The outermost operation that each belongs to, shape (n,).
        operation: Whether each is an operation's, and not a scope's own time, shape (n,).
        processor: Of each.
        others: Processors beside the CPU; none: every rail can feed every row.
        phases: Of traced and clean steps.
        step_s: Length of the mean clean step.
        event_s: Cost of an event for the host in s, where it is known; as `compensate` takes it.
    """

    series: Series
    shares_memory: bool | None
    columns: TracedColumns
    rows: TracedRows
    compensated: CompensatedRows
    outer: Codes
    operation: BoolArray
    processor: Names
    others: tuple[str, ...]
    phases: KindPhases
    step_s: float
    event_s: float | None
    _parts_by_processors: dict[tuple[str, ...] | None, TakingPart] = field(default_factory=dict)

    def side(self, name: str) -> Side:
        """What a quantity ("energy", "cpu_time", a rail's) can belong to; all, where no GPU worked."""
        if not self.others:
            return "all"
        energy = self.series.energy
        if name == "cpu_time" or (
            name == "energy" and not isinstance(energy, Missing) and not energy.sensed
        ):
            return "host"
        return side_of(self._fed_by(name))

    def _fed_by(self, name: str) -> Collection[Channel]:
        """Channels of an energy."""
        series = self.series
        if name == "energy":
            return series.total_channels
        return [series.channels[name.removeprefix(RAIL)]]

    def part(self, name: str) -> TakingPart | None:
        """The rows that a quantity can belong to; None: all."""
        side = self.side(name)
        if side == "host":
            return self._parts(None)
        if side == "device":
            return self._parts(tuple(sorted(cards_of(self._fed_by(name), self.others))))
        return None

    def _parts(self, processors: tuple[str, ...] | None) -> TakingPart:
        """The rows of some GPUs, or of the host (None), on the mean clean step."""
        if processors not in self._parts_by_processors:
            self._parts_by_processors[processors] = self._make_part(processors)
        return self._parts_by_processors[processors]

    def _make_part(self, processors: tuple[str, ...] | None) -> TakingPart:
        phases, host = self.phases, self.processor.named("cpu")
        if processors is None:
            chosen, words = host, WORDS["host"]
            rows = rows_of(self.rows, chosen)
            beside = None if self.series.steps.only_traced else phases.beside_s
            compensated = compensate(
                rows, phases.traced, beside, phases.share, self.step_s, self.event_s
            )
        else:
            chosen = np.zeros(len(host), bool)
            for name in processors:
                chosen |= self.processor.named(name)
            words = WORDS["device" if len(processors) == len(self.others) else "card"]
            rows = rows_of(self.rows, chosen)
            compensated = compensate_device(rows, phases.traced, phases.share, self.step_s)
        return TakingPart(
            at=np.flatnonzero(chosen),
            rows=rows,
            compensated=compensated,
            sharing=Sharing(rows, compensated),
            words=words,
        )

    @cached_property
    def _moved_bytes(self) -> FloatArray | None:
        """Bytes that each row moved, NaN where not known; None where they are not of most of the time."""
        names = self.columns.names("name")
        moved = bytes_of_rows(
            self.columns.numbers("bytes"),
            on_gpu=~self.processor.named("cpu"),
            outer=self.outer,
            own=self.columns.outermost & self.operation,
            launch=self.columns.launch,
            idle=self.columns.names("kind").named("runtime call") | ~self.operation,
            lasting_s=self.compensated.busy_s,
            copies=copies_of(names.texts.tolist())[names.code],
            shared=self._works_in_host_memory,
        )
        time = self.compensated.time_s
        known = np.isfinite(moved)
        enough = time[known].sum() >= ENOUGH_BYTES * time.sum() and np.nansum(moved) > 0
        return moved if enough else None

    @property
    def _works_in_host_memory(self) -> bool:
        """True if the GPU works in the memory that the run's rails feed: the host's.

        Where nothing says it, as of other tools' traces, unless that is a processor's own counter,
        which machines with a card have.
        """
        if self.shares_memory is not None:
            return self.shares_memory
        rails = [channel for channel in self.series.channels.values() if channel.domain == "memory"]
        return not any(channel.role == "energy_part" for channel in rails)

    def moved_bytes(self, name: str) -> FloatArray | None:
        """Bytes by which the energy of memory is attributed; None for other quantities, or not known."""
        return self._moved_bytes if self.side(name) == "memory" else None

    def by_time_alone(self, name: str) -> str:
        """What is said of rows of memory whose bytes are not known; "" for others."""
        return NO_BYTES if self.side(name) == "memory" and self._moved_bytes is None else ""

"""What the counters of energy of a run counted, and where they may not have counted what was drawn."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from wattstep.recorded.contradictions import counter_counts
from wattstep.recorded.curves import Curve, countable, unwrapped
from wattstep.recorded.odd_steps import OddSteps, odd_steps
from wattstep.recorded.power import NEXT, spoken
from wattstep.recorded.sampled import Sampled
from wattstep.recorded.standstill import (
    NONE,
    UNCLEAR,
    before_resets,
    standstill,
    stood_still,
    unclear,
)
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.channel import Channel, thing_of

RESETS = (
    "{} went back {} times (a reset, or a counter that began again): what it counted in {} around that "
    "is not known, and in no figure"
)
LEAPS = "{} grew {} times by more than a megawatt makes, which is a mistake: what it counted in {} there is in no figure"


class Counters(Sampled):
    """The samples of a run, and what its counters of energy tell."""

    def _stands_still(self, channel: Channel) -> bool:
        """True for a counter that never counted: its step is larger than all that there was, or it is dead."""
        value = self.raw(channel.name)[1]
        return channel.kind == "counter" and not np.ptp(value[np.isfinite(value)])

    def _does_not_count(self, channel: Channel) -> bool:
        """True for a counter that stands still, or in place of which power of the same supply counts."""
        if channel.kind != "counter" or self._stands_still(channel):
            return channel.kind == "counter"
        if not self.imported.is_import and channel.status != "replayed":
            return False  # what reads it here reads it often enough
        return any(
            not counter_counts(
                self.raw(channel.name), self.raw(c.name), self.standstill(channel.name)
            )
            for c in self._gauges_beside(channel)
        )

    def _gauges_beside(self, counter: Channel) -> list[Channel]:
        """Power of the same supply that a counter of energy is of."""
        return [
            c
            for c in self.with_role(counter.role.replace("energy", "power"))
            if c.kind == "gauge" and self._thing(c) == self._thing(counter)
        ]

    def _thing(self, channel: Channel) -> tuple[str, str]:
        """What a channel is of; of channels read here, each of which has a path of its own, by name alone."""
        file = self.imported.file_of(channel.name) if self.imported.is_import else ""
        return file, thing_of(channel.name, channel.unit)

    def standstill(self, name: str) -> IntArray:
        """When a counter of energy may have been stuck, begin and end in ns, shape (s, 2)."""
        return self._standstills.get(name, NONE)

    @cached_property
    def _standstills(self) -> dict[str, IntArray]:
        """By channel; of a thinned one single reads are not known."""
        return {
            c.name: standstill(*self._counted(c), self._powers_beside(c))
            for c in self.with_role("energy_total", "energy_part")
            if c.name not in self.stretches
        }

    @cached_property
    def _odd_steps(self) -> dict[str, list[OddSteps]]:
        """By counter of energy of another tool's log; what is read here is read often enough."""
        if not self.imported.is_import:
            return {}
        return {
            c.name: odd_steps(c.name, self._trusted(c), self._counted(c)[1])
            for c in self.with_role("energy_total", "energy_part")
            if c.name not in self.stretches
        }

    def _powers_beside(self, counter: Channel) -> list[Curve]:
        return list(map(self.curve, self._gauges_beside(counter)))

    def _trusted(self, channel: Channel) -> Curve:
        """The curve of a channel, with gaps where a counter was stuck."""
        curve = self.curve(channel)
        stretches = [self.standstill(channel.name), self._before_resets(channel)]
        unknown = np.unique(np.concatenate(stretches), axis=0)
        return curve.without(unknown) if len(unknown) else curve

    def _counted(self, counter: Channel) -> tuple[IntArray, FloatArray]:
        """Times in ns and values of the reads of a counter that succeeded, wraps undone."""
        t_ns, value = self.raw(counter.name)
        known = np.isfinite(value)
        return t_ns[known], unwrapped(counter, value)[known]

    def _of_resets(self, channel: Channel) -> str | None:
        """That a counter of energy went back, or further than any power takes it, where it did."""
        if channel.kind != "counter" or channel.unit != "J":
            return None
        t_ns, value = self._counted(channel)
        steps = np.diff(value)
        back, counted = steps < 0, countable(t_ns, steps, channel.unit)
        stood_ns = float(np.diff(self._before_resets(channel)).sum())
        notes = [
            note.format(
                channel.name,
                int(which.sum()),
                spoken(float(np.diff(t_ns)[which].sum() + ns) * 1e-9),
            )
            for note, which, ns in ((RESETS, back, stood_ns), (LEAPS, ~counted & ~back, 0.0))
            if which.any()
        ]
        return NEXT.join(notes) or None

    def _before_resets(self, channel: Channel) -> IntArray:
        """When a counter of energy stood still before it was reset; of a thinned one single reads are not known."""
        if channel.kind != "counter" or channel.unit != "J" or channel.name in self.stretches:
            return NONE
        return before_resets(*self._counted(channel))

    def _of_doubts(self, channel: Channel) -> list[str]:
        """Where a counter of energy may not have counted what was drawn."""
        spans = self.standstill(channel.name)
        notes = [stood_still(channel.name, spans, *self._counted(channel))] if len(spans) else []
        if channel.name not in self._odd_steps:
            return notes
        counted = self._counted(channel)
        spans = unclear(*counted, self._powers_beside(channel))
        notes += [stood_still(channel.name, spans, *counted, UNCLEAR)] if len(spans) else []
        return notes + [each.note for each in self._odd_steps[channel.name]]

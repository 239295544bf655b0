"""What the counters of energy of a run counted, and where they may not have counted what was drawn."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from wattstep.recorded.contradictions import counter_counts
from wattstep.recorded.curves import Curve, countable, unwrapped
from wattstep.recorded.odd_steps import OddSteps, odd_steps
from wattstep.recorded.odd_wraps import odd_wraps
from wattstep.recorded.power import NEXT, spoken
from wattstep.recorded.sampled import Sampled
from wattstep.recorded.standstill import (
    CAUGHT_UP,
    NONE,
    STOOD_STILL,
    UNCLEAR,
    before_resets,
    caught_up,
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

    # What one counted is asked for many times in a row, and may be of millions of reads.
    _counted_last: tuple[str, tuple[IntArray, FloatArray]] = (
        "",
        (np.empty(0, np.int64), np.empty(0)),
    )

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
    def _of_energy(self) -> list[Channel]:
        """Counters of energy; of a thinned one single reads are not known."""
        counters = self.with_role("energy_total", "energy_part")
        return [c for c in counters if c.kind == "counter" and c.name not in self.stretches]

    @cached_property
    def _standstills(self) -> dict[str, IntArray]:
        """By channel."""
        return {
            c.name: standstill(*self._counted(c), self._powers_beside(c)) for c in self._of_energy
        }

    @cached_property
    def _unclear(self) -> dict[str, IntArray]:
        """By channel, when it stood still, be it that it was stuck or that hardly anything was drawn.

        What is read here is told of totals alone: a part of a machine may well draw nothing for a while.
        """
        return {
            c.name: unclear(*self._counted(c), self._powers_beside(c))
            for c in self._of_energy
            if self.imported.is_import or c.role == "energy_total"
        }

    @cached_property
    def _caught_up(self) -> dict[str, IntArray]:
        """By channel, stretches with an end of clean steps within, all of which it showed at once behind them."""
        ends = np.empty(0, np.int64) if self.steps.absent else self.steps.stretches().ravel()
        spans = {c.name: caught_up(*self._counted(c)) for c in self._of_energy}
        return {
            name: each[np.diff(np.searchsorted(ends, each), axis=1)[:, 0] > 0]
            for name, each in spans.items()
        }

    @cached_property
    def _odd_steps(self) -> dict[str, list[OddSteps]]:
        """By counter of energy."""
        return {c.name: self._odd_steps_of(c) for c in self._of_energy}

    def _odd_steps_of(self, counter: Channel) -> list[OddSteps]:
        curve, (_, total) = self._trusted(counter), self._counted(counter)
        found = odd_steps(counter.name, curve, total, clock_may_be_set=self.imported.is_import)
        if counter.wrap is None:
            return found
        value = self.raw(counter.name)[1]
        wrapped = np.diff(value[np.isfinite(value)]) < 0
        return found + odd_wraps(counter.name, curve, wrapped, counter.wrap * counter.scale)

    def _powers_beside(self, counter: Channel) -> list[Curve]:
        return list(map(self.curve, self._gauges_beside(counter)))

    def _trusted(self, channel: Channel) -> Curve:
        """The curve of a channel, with gaps where a counter was stuck."""
        curve = self.curve(channel)
        stretches = [self.standstill(channel.name), self._before_resets(channel)]
        unknown = np.unique(np.concatenate(stretches), axis=0)
        return curve.without(unknown) if len(unknown) else curve

    def _told_by(self, channel: Channel) -> tuple[Curve, list[Curve]]:
        """What a channel gained, and what else it may have gained where it is a counter that is in doubt."""
        whole, name = self._trusted(channel), channel.name
        others = [self.curve(channel)] if len(self.standstill(name)) else []
        others += [
            each.put_right(whole) for each in self._odd_steps.get(name, []) if each.off_j.any()
        ]
        if not self.imported.is_import and len(spans := self._unclear.get(name, NONE)):
            others.append(whole.without(spans))
        if len(spans := self._caught_up.get(name, NONE)):
            whole, *others = (each.evenly(spans) for each in (whole, *others))
        return whole, others

    def _counted(self, counter: Channel) -> tuple[IntArray, FloatArray]:
        """Times in ns and values of the reads of a counter that succeeded, wraps undone."""
        name, counted = self._counted_last
        if name != counter.name:
            t_ns, value = self.raw(counter.name)
            known = np.isfinite(value)
            counted = t_ns[known], unwrapped(counter, value[known])
            self._counted_last = counter.name, counted
        return counted

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
        """Where a counter of energy may not have counted what was drawn, or not when it was."""
        name = channel.name
        if name not in self._odd_steps:
            return []
        counted = self._counted(channel)
        told = (
            (self.standstill(name), STOOD_STILL),
            (self._unclear.get(name, NONE), UNCLEAR),
            (self._caught_up[name], CAUGHT_UP),
        )
        notes = [stood_still(name, spans, *counted, words) for spans, words in told if len(spans)]
        return notes + [each.note for each in self._odd_steps[name]]

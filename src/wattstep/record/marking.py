"""The hot path of a step: while a step runs its times are only kept, and they are written when it has ended."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter_ns, process_time_ns
from typing import Any, Final, cast

from wattstep.record.device_timeline import ANCHORS, DeviceTimeline
from wattstep.record.tracing.windows import Windows
from wattstep.schema.journal import Mark
from wattstep.schema.tracer import LayerMarks
from wattstep.store.marks import MARK_WORDS, STEP_END, STEP_ROOM, STEP_START, MarkJournal

CHECK_NS = 10**9  # how often the recorder is asked to look after its children
FIRST_CHECK_NS = 10**7  # until it is known how long a step takes
PHASES_EVERY_NS = 10_000_000  # steps shorter than this carry marks of phases only now and then
# What a pair of layer marks costs, hooks included (measured here: 2-4 µs); events of a device beside it.
LAYER_MARK_NS = 4_000
LAYER_BUDGET = 0.002  # of the training time, for marks of layers
MOST_PENDING = (
    4096  # marks of one step that are kept in memory; more go to the journal while it runs
)
NAN = math.nan
# A device that is lost, or a release of its framework that lacks or changed a call.
UNASKED: Final = (RuntimeError, AttributeError, TypeError, ValueError)
PHASE, UPDATE, LAYER_START, LAYER_END = map(
    int, (Mark.PHASE, Mark.UPDATE, Mark.LAYER_START, Mark.LAYER_END)
)
# Takes a name, and perhaps a time, as `StepMarker.phase` does; a built-in, since calls of Python
# functions are most of what marking a plain step costs.
unmarked: Final = cast("Callable[..., None]", {}.get)


class StepMarker:
    """Marks steps, and within some of them phases, updates and layers.

    One object for all steps. Most steps are plain: they carry no marks of phases or layers, are not
    traced and follow another step, so that two times are all there is to keep. `_plain_until` is the
    first step that is not. What a plain step takes is counted in microseconds, because the training
    has swept the caches: each object, function and module that it touches comes from memory.
    `begin` and `end` cost about half of what the form for a with statement does.

    The begin of a step is stamped after all that is to be done before it, and its end before anything
    that follows: what recording costs lies between steps.

    Args:
        first_step: Number of the first step.
        warmup: Steps that do not count.
        look: Called once a second, between two steps.
        failed: Told of an `OSError` when marks cannot be written.

    Attributes:
        index: Number of the step that runs, or of the next one.
        device: Marks the steps on the timeline of a device that runs behind; None: there is none.
        device_problem: Why that device cannot be asked any more; "": it can.
        samples: Of the step that runs; NaN: not known.
        loss: Of the step that runs; NaN: not known.
        mark: `phase` while the step that runs carries marks of phases, else what does nothing.
        phases_on: True if the step that runs carries marks of phases.
        layers: The marks of layers; None: there are none.
        layers_every: Of so many cycles of three steps with phases one carries them; 0: not known yet.
        resting: True if something else than steps runs.
    """

    __slots__ = (
        "_begun_ns",
        "_check_at",
        "_checked",
        "_code",
        "_contiguous",
        "_cpu_ns",
        "_failed",
        "_journal",
        "_look",
        "_marked",
        "_on",
        "_own_clock",
        "_pending",
        "_phase_every",
        "_plain_until",
        "_started",
        "_steady_from",
        "_windows",
        "device",
        "device_problem",
        "index",
        "layers",
        "layers_every",
        "loss",
        "mark",
        "phases_on",
        "resting",
        "samples",
    )  # fmt: skip
    _journal: MarkJournal
    _windows: Windows

    def __init__(
        self,
        first_step: int,
        warmup: int,
        look: Callable[[], None],
        failed: Callable[[OSError], None],
    ) -> None:
        self.index = first_step
        self.samples = self.loss = NAN
        self.phases_on = self.resting = False
        self.mark: Callable[..., None] = unmarked
        self.layers: LayerMarks | None = None
        self.layers_every = 0
        self.device: DeviceTimeline | None = None
        self.device_problem = ""
        self._steady_from = first_step + warmup
        self._look, self._failed = look, failed
        self._on = False
        self._plain_until = 0
        self._begun_ns = 0  # of the step that runs; 0: none does
        self._marked = False  # the step that runs is no plain one
        self._started = False  # its begin is in the journal
        self._code = 0  # 1 where it is traced
        self._cpu_ns = 0  # CPU time of the process at its begin; 0: that at the end before
        self._pending: list[tuple[int, str, Any, int]] = []  # kind, table, name or code, time in ns
        self._contiguous = False  # the last step that ended is the one before
        self._own_clock = True
        self._phase_every = 1
        self._check_at = 0
        self._checked = (0, first_step)  # when that was last, and at which step

    def start(self, journal: MarkJournal, windows: Windows, *, own_clock: bool) -> None:
        """Steps are marked from here on.

        Args:
            journal: Takes the marks.
            windows: The tracing windows of the recording.
            own_clock: True if the CPU time of the process is read at each step.
        """
        self._journal, self._windows, self._own_clock = journal, windows, own_clock
        self._on = True

    def stop(self) -> None:
        """Nothing is marked any more."""
        self._on = self._marked = False
        self._mark_phases(False)
        self._plain_until = self._begun_ns = 0
        self._pending.clear()
        self.device = None
        if self.layers is not None:
            self.layers.detach()

    # --- a step -----------------------------------------------------------------------------

    def __enter__(self) -> StepMarker:
        if self.index < self._plain_until:
            self._begun_ns = perf_counter_ns() if self.device is None else self.stamp()
        else:
            self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.end(self.loss)
        else:
            self.abandon()

    def begin(self, samples: float) -> None:
        """A step begins, of so many samples (NaN: not known)."""
        self.samples = samples
        if self.index < self._plain_until:
            self._begun_ns = perf_counter_ns() if self.device is None else self.stamp()
        else:
            self._begin()

    def end(self, loss: float, now: int = 0) -> None:
        """The step that runs is done, since `now` where that is given, as `stamp` gave it."""
        device = self.device
        now = now or (perf_counter_ns() if device is None else self.stamp())
        begun, index = self._begun_ns, self.index
        if index < self._plain_until and begun and self._journal.at <= STEP_ROOM:
            # As `MarkJournal.add_step`, whose calls would cost as much again.
            journal = self._journal
            at = journal.at
            ints, floats, number = journal.ints, journal.floats, index << 32
            ints[at] = begun
            floats[at + 2] = self.samples
            ints[at + 3] = number | STEP_START
            ints[at + 4] = now
            if self._own_clock:
                ints[at + 5] = process_time_ns()
            floats[at + 6] = loss
            ints[at + 7] = number | STEP_END
            journal.at = at + 2 * MARK_WORDS
            self.index = index + 1
            self._begun_ns = 0
            if device is not None:
                self._read_device(now)
            if now > self._check_at:
                self._check(now)
        elif begun:
            self._end_rare(now, loss)

    def _end_rare(self, now: int, loss: float) -> None:
        """The end of a step that is not plain, or whose marks begin a new chunk of the journal."""
        try:
            if self._marked:
                self._end_marked(now, loss)
            else:
                cpu = process_time_ns() if self._own_clock else 0
                self._journal.add_step(self._begun_ns, now, self.samples, loss, self.index, cpu)
                self.index += 1
                self._begun_ns = 0
        except OSError as error:
            self._failed(error)
        else:
            if self.device is not None:
                self._read_device(now)
            if now > self._check_at:
                self._check(now)

    # --- the device -------------------------------------------------------------------------

    def stamp(self) -> int:
        """Now, in ns, with the place in the device's queue that belongs to it."""
        now = perf_counter_ns()
        self._mark_device(now)
        return now

    def _mark_device(self, now: int) -> None:
        """The place in the device's queue that belongs to a mark, which was stamped just now."""
        device = self.device
        if device is not None:
            try:
                device.mark(now)
            except UNASKED as error:
                self._lose_device(error)
            # An evaluation that nobody announced is a step of hours; those of traced steps may move.
            if device.crowded and not self._windows.traced:
                self._read_device(now)

    def _anchor_device(self, times: int) -> None:
        """Marks of an idle device, which tell its clock.

        Raises:
            OSError: The disk is full.
        """
        if self.device is not None:
            try:
                self.device.anchor(times)
            except UNASKED as error:
                self._lose_device(error)

    def _read_device(self, now: int) -> None:
        """Writes down the marks that the device has come to; `now` was taken before."""
        device = self.device
        if device is not None:
            try:
                device.read(now)
            except OSError as error:
                self._failed(error)
            except UNASKED as error:
                self._lose_device(error)

    def follow_device(self, device: DeviceTimeline) -> None:
        """Steps are marked on this device's timeline, too, from the next one on.

        Raises:
            OSError: The disk is full.
        """
        self.device = device
        self._anchor_device(ANCHORS)

    def leave_device(self, *, wait: bool) -> None:
        """From here on steps have no place on a device.

        Args:
            wait: Whether the device is waited for first, since the training is over.

        Raises:
            OSError: The disk is full.
        """
        device = self.device
        if device is not None:
            try:
                if wait:
                    device.finish()
            except UNASKED as error:
                self._lose_device(error)
            else:
                self._journal.add(Mark.DEVICE_END)
            self.device = None

    def _lose_device(self, error: Exception) -> None:
        """A device that fails takes its timeline with it; the training is left to say what it is."""
        if self.device is not None:
            message = (str(error).splitlines() or [""])[0]
            self.device_problem = f"{self.device.name} cannot be asked any more: {message}"
            self.device = None
            try:
                self._journal.add(Mark.DEVICE_END)
            except OSError as full:
                self._failed(full)

    def abandon(self) -> None:
        """The step that runs, if any, came to no end: it is none."""
        self.plan_anew()
        self._begun_ns = 0
        self._contiguous = self._marked = False
        self._mark_phases(False)
        if self._on:
            try:
                self._windows.abandon(self.index + 1)
            except OSError as error:
                self._failed(error)

    def split(self, name: str, since_ns: int, until_ns: int) -> None:
        """The step that runs begins at `until_ns`; what ran before was a rest of that name."""
        if not self._on:
            return
        phases_on = self.phases_on
        self.abandon()
        if not self._on:
            return
        try:
            code = self._journal.code("rest", name)
            self._journal.add(Mark.REST_START, code, t_ns=since_ns)
            self._journal.add(Mark.REST_END, code, t_ns=until_ns)
        except OSError as error:
            self._failed(error)
            return
        self._restart(traced=False, phases_on=phases_on)
        self._begun_ns = until_ns

    def plan_anew(self) -> None:
        """Something is due: the next step is no plain one."""
        self._plain_until = 0

    def _begin(self) -> None:
        """A step in which something is due."""
        if not self._on:
            return
        index = self.index
        try:
            self.end_rest()
            traced = index >= self._windows.schedule.next_step and self._open_window()
        except OSError as error:
            self._failed(error)
            return
        # Three steps in a row, so that a timeline of three can show their phases.
        cycle, position = divmod(index, 3 * self._phase_every)
        if self.layers_every and not traced:
            self._attach_layers(position < 3 and cycle % self.layers_every == 0)
        self._restart(traced, phases_on=traced or position < 3)
        self._begun_ns = self.stamp()

    def _restart(self, traced: bool, phases_on: bool) -> None:
        """Sets the state of a marked step at its begin, but for the time."""
        self._pending.clear()
        self._marked, self._started = True, False
        self._code = int(traced)
        self._mark_phases(phases_on)
        self._cpu_ns = 0 if self._contiguous or not self._own_clock else process_time_ns()

    def _mark_phases(self, on: bool) -> None:
        """Phases of the step that runs are marked, or not."""
        self.phases_on = on
        self.mark = self.phase if on else unmarked

    def _end_marked(self, now: int, loss: float) -> None:
        cpu = process_time_ns() if self._own_clock else 0
        windows, begun = self._windows, self._begun_ns
        traced = windows.traced
        late = self._started and self.samples == self.samples
        self._write_begin()
        if late:
            self._journal.add(Mark.SAMPLES, value=self.samples)
        if traced:
            moved = windows.finish()
            if self.device is not None:
                self.device.rename(moved)
            self._pending = [
                (kind, table, name, moved.get(t, t)) for kind, table, name, t in self._pending
            ]
        self._write()
        self._journal.add(STEP_END, 0, loss, self.index, cpu, now)
        self._begun_ns = 0
        self._marked = False
        self._mark_phases(False)
        self.index += 1
        if traced:
            windows.close(self.index - 1)
            self._anchor_device(ANCHORS)  # it has nothing to do: the tracer has waited for it
        elif self._contiguous and self.index > self._steady_from:
            windows.schedule.clean_step(now - begun)
        self._contiguous = not traced
        self._plan()

    def _write(self) -> None:
        """Begin and inner marks of the step that runs.

        Raises:
            OSError: The disk is full.
        """
        self._write_begin()
        journal = self._journal
        for kind, table, name, t_ns in self._pending:
            journal.add(kind, journal.code(table, name) if table else name, 0.0, 0, 0, t_ns)
        self._pending.clear()

    def _write_begin(self) -> None:
        """The step's own, once.

        Raises:
            OSError: The disk is full.
        """
        if not self._started:
            self._journal.add(
                STEP_START, self._code, self.samples, self.index, self._cpu_ns, self._begun_ns
            )
            self._started = True

    # --- within a step ------------------------------------------------------------------------

    def phase(self, name: str, since_ns: int = 0) -> None:
        """A phase begins, now or at a boundary."""
        if not self.phases_on:
            return
        if self._windows.traced:
            since_ns = since_ns or self.boundary()
            self._windows.phase(name, since_ns)
        self._pending.append((PHASE, "phase", name, since_ns or self.stamp()))
        if len(self._pending) >= MOST_PENDING:
            self._spill()

    def boundary(self) -> int:
        """Now, in ns: a place in the step where a phase may turn out to have begun."""
        if not self._windows.traced:
            return self.stamp()
        now = self._windows.boundary()
        self._mark_device(now)
        return now

    def update(self, name: str, at_ns: int = 0) -> None:
        """A part of the parameters has been updated."""
        if self.phases_on:
            self._pending.append((UPDATE, "update", name, at_ns or self.stamp()))

    def layer_begins(self, code: int) -> None:
        """A top-level layer goes forward."""
        if self._marked:
            self._pending.append((LAYER_START, "", code, self.stamp()))

    def layer_ends(self, code: int) -> None:
        """It has."""
        if self._marked:
            self._pending.append((LAYER_END, "", code, self.stamp()))
            if len(self._pending) >= MOST_PENDING:
                self._spill()

    def add_samples(self, count: float) -> None:
        """So many more samples belong to the step that runs."""
        self.samples = count if self.samples != self.samples else self.samples + count

    def _spill(self) -> None:
        """Memory is bounded, however much a step holds."""
        try:
            self._write()
        except OSError as error:
            self._failed(error)

    # --- rests --------------------------------------------------------------------------------

    def rest(self, name: str) -> None:
        """Marks that something else than a step runs until the next step.

        Raises:
            OSError: The disk is full.
        """
        self._journal.add(Mark.REST_START, self._journal.code("rest", name))
        self.resting = True
        self._contiguous = False
        self.plan_anew()

    def end_rest(self) -> None:
        """Marks the end of a rest.

        Raises:
            OSError: The disk is full.
        """
        if self.resting:
            self._journal.add(Mark.REST_END)
            self.resting = False

    # --- what is due --------------------------------------------------------------------------

    def _plan(self) -> None:
        """Up to which step nothing is due: no window, no marks of phases, no rest."""
        index, due = self.index, self._windows.schedule.next_step
        cycle = 3 * self._phase_every
        due = min(due, index if index % cycle < 3 else index + cycle - index % cycle)
        # The clock of the process is read at the begin of a step that does not follow another.
        ready = self._on and not self.resting and (self._contiguous or not self._own_clock)
        self._plain_until = int(due) if ready and due > index else 0
        if self.layers is not None and self._plain_until:
            self.layers.detach()

    def _check(self, now: int) -> None:
        """Once a second: how many marks can these steps afford, and what does the recorder say?"""
        if not self._on:  # what was written last has failed
            return
        typical = self._windows.schedule.typical_ns
        before, index = self._checked
        self._checked = now, self.index
        if typical and self.device is not None and before and self.index > index:
            # A host that runs ahead asks for many steps in no time, and waits for them all at once.
            typical = max(typical, (now - before) // (self.index - index))
        self._check_at = now + (CHECK_NS if typical else FIRST_CHECK_NS)
        if typical:
            self._phase_every = max(1, math.ceil(PHASES_EVERY_NS / typical))
            if self.layers is not None:
                pair = LAYER_MARK_NS + (0 if self.device is None else 2 * self.device.cost_ns)
                cost = self.layers.layers * pair / self._phase_every
                self.layers_every = max(1, math.ceil(cost / (LAYER_BUDGET * typical)))
        try:
            self._anchor_device(1)
            self._look()
        except OSError as error:
            self._failed(error)
        self._plan()

    def _open_window(self) -> bool:
        if self.layers is not None:
            self.layers.detach()
        return self._windows.open()

    def _attach_layers(self, wanted: bool) -> None:
        if self.layers is not None and wanted:
            self.layers.attach()
        elif self.layers is not None:
            self.layers.detach()

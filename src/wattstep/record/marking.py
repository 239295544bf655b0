"""Marks of a step: while it runs its times are only kept, and they are written when it has ended."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from time import process_time_ns
from typing import Any, Final, cast

from wattstep.record.device_steps import UNASKED, DeviceSteps
from wattstep.record.device_timeline import ANCHORS
from wattstep.record.tracing.windows import Windows
from wattstep.schema.journal import NOT_KNOWN, Mark
from wattstep.schema.tracer import LayerMarks
from wattstep.store.marks import STEP_END, STEP_START

CHECK_NS = 10**9  # how often the recorder is asked to look after its children
FIRST_CHECK_NS = 10**7  # until it is known how long a step takes
# Plain steps shorter than this read the process's CPU clock now and then: the call into the system
# takes as long as all else of marking one together.
CPU_EVERY_NS = 10_000_000
NEVER = 2**63 - 1  # in ns, of a clock
PHASES_EVERY_NS = 25_000_000  # steps shorter than this carry marks of phases only now and then
# What a pair of layer marks costs, hooks included (measured here: 2-4 µs); events of a device beside it.
LAYER_MARK_NS = 4_000
LAYER_BUDGET = 0.001  # of the training time, for marks of layers
INDEX = 32  # bits of a row's last word below the number of the step
MOST_PENDING = (
    4096  # marks of one step that are kept in memory; more go to the journal while it runs
)
NAN = math.nan
PHASE, UPDATE, LAYER_START, LAYER_END, STEP = map(
    int, (Mark.PHASE, Mark.UPDATE, Mark.LAYER_START, Mark.LAYER_END, Mark.STEP)
)
# Takes a name, and perhaps a time, as `StepMarker.phase` does; a built-in, since calls of Python
# functions are most of what marking a plain step costs.
unmarked: Final = cast("Callable[..., None]", {}.get)


class StepMarker(DeviceSteps):
    """Marks steps, and within some of them phases, updates and layers.

    One object for all steps. The begin of a step is stamped after all that is to be done before it,
    and its end before anything that follows: what recording costs lies between steps. `begin` and
    `end` cost about half of what the form for a with statement does.

    Args:
        first_step: Number of the first step.
        warmup: Steps that do not count.
        look: Called once a second, between two steps.
        failed: Told of an `OSError` when marks cannot be written.

    Attributes:
        loss: Of the step that runs; NaN: not known.
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
        "_coded",
        "_contiguous",
        "_cpu_due",
        "_cpu_ns",
        "_look",
        "_marked",
        "_on",
        "_own_clock",
        "_pending",
        "_phase_every",
        "_samples",
        "_started",
        "_steady_from",
        "layers",
        "layers_every",
        "loss",
        "phases_on",
        "resting",
    )  # fmt: skip
    _samples: float
    _coded: float  # samples that rows of plain steps say
    _cpu_due: int  # when the CPU clock of the process is to be read next; `NEVER`: it is not read
    _check_at: int  # when the recorder is to look after its children next

    def __init__(
        self,
        first_step: int,
        warmup: int,
        look: Callable[[], None],
        failed: Callable[[OSError], None],
    ) -> None:
        self._coded, self._row, self._due = -1.0, first_step << INDEX, 0
        self.samples = self.loss = NAN
        self.phases_on = self.resting = False
        self.mark = unmarked
        self.layers: LayerMarks | None = None
        self.layers_every = 0
        self.device_problem = ""
        self._steady_from = first_step + warmup
        self._look, self._failed = look, failed
        self._on = False
        self._set_device(None)
        self._begun_ns = 0  # of the step that runs, unless who began it keeps that; 0: none does
        self._marked = False  # the step that runs is no plain one
        self._started = False  # its begin is in the journal
        self._code = 0  # 1 where it is traced
        self._cpu_ns = 0  # CPU time of the process at its begin; 0: that at the end before
        self._pending: list[tuple[int, str, Any, int]] = []  # kind, table, name or code, time in ns
        self._contiguous = False  # the last step that ended is the one before
        self._own_clock = True
        self._cpu_due = 0
        self._phase_every = 1
        self._check_at = 0
        self._checked = (0, first_step)  # when that was last, and at which step

    def open(self, folder: Path, segment: int = 0) -> None:
        """Makes the journal of the marks in that folder; arguments as of `MarkJournal`.

        Raises:
            OSError: The journal cannot be made.
            RecordingError: The machine stores integers big end first.
        """
        super().__init__(folder, segment)

    def start(self, windows: Windows, *, own_clock: bool) -> None:
        """Steps are marked from here on; the journal is open.

        Args:
            windows: The tracing windows of the recording.
            own_clock: True if the CPU time of the process is read: at each step, of short ones
                every `CPU_EVERY_NS`.
        """
        self._windows, self._own_clock = windows, own_clock
        self._cpu_due = 0 if own_clock else NEVER
        self._on = True

    def stop(self) -> None:
        """Nothing is marked any more."""
        self._on = self._marked = False
        self._mark_phases(False)
        self._begun_ns = 0
        self._pending.clear()
        self._set_device(None)
        if self.layers is not None:
            self.layers.detach()

    def _guarded(self, work: Callable[[], object]) -> None:
        """Work that may meet a full disk; none where nothing is recorded."""
        if self._on:
            try:
                work()
            except OSError as error:
                self._failed(error)

    # --- a step -----------------------------------------------------------------------------

    def begin_step(self, samples: float = NAN) -> None:
        """A step of so many samples begins, which `finish` or `abandon` ends."""
        self._samples, self.loss = samples, NAN  # what they come to is looked at when it is done
        self.__enter__()

    def __enter__(self) -> StepMarker:
        """Begins a step, and keeps when."""
        begin = self.begin
        self._begun_ns = begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            if self._begun_ns:  # a step within it has ended it, where there was one
                self.end(self._begun_ns, self.loss)
            self._begun_ns = 0
        else:
            self.abandon()

    def finish(self, loss: float = NAN, now: int = 0) -> None:
        """The step whose begin was kept is done, since `now` where that is given, as `stamp` gave it."""
        if now:
            self._end_rare(self._begun_ns, now, loss)
        else:
            if self._unsaid():
                self._due = 0
            self.end(self._begun_ns, loss)
        self._begun_ns = 0

    def _end_rare(self, begun_ns: int, now: int, loss: float) -> None:
        """The end of a step that is not plain, is the last plain one, or whose marks begin a new chunk."""
        if not (self._on and begun_ns):
            return
        try:
            if self._marked:
                self._end_marked(now, loss)
            else:
                cpu = 0
                if now > self._cpu_due:
                    cpu, self._cpu_due = process_time_ns(), now + CPU_EVERY_NS
                self.add_step(begun_ns, now, self._samples, loss, self._row >> INDEX, cpu)
                self._code_samples(self._samples)
                self._row += 1 << INDEX
                if self.index << INDEX > self._last_plain:
                    self.plan_anew()
        except OSError as error:
            self._failed(error)
        else:
            self._look_after(now)

    def _look_after(self, now: int) -> None:
        """What is due after a step that ended then."""
        if self.device is not None:
            self._read_device(now)
        if now > self._check_at:
            self._check(now)
        # Each of the marks on a device's timeline has a row of its own.
        one_row = self.device is None and not self._unsaid()
        self._due = min(self._cpu_due, self._check_at) if one_row else 0

    def _code_samples(self, samples: float) -> None:
        """Rows of plain steps say so many samples, as far as they can."""
        whole = 0 <= samples < NOT_KNOWN and samples == int(samples)
        if whole or samples != samples:
            self._coded = samples
            code = int(samples) if whole else NOT_KNOWN
            self._row = self.index << INDEX | code << 16 | STEP

    @property
    def samples(self) -> float:
        """Of the step that runs; NaN: not known."""
        return self._samples

    @samples.setter
    def samples(self, samples: float) -> None:
        self._samples = samples
        if self._unsaid():
            self._due = 0

    def _unsaid(self) -> bool:
        """True if rows of plain steps say other samples; those not known are one object, and unequal."""
        return self._samples is not self._coded and self._samples != self._coded

    @property
    def index(self) -> int:
        """Number of the step that runs, or of the next one."""
        return self._row >> INDEX

    @index.setter
    def index(self, index: int) -> None:
        self._row += (index - self.index) << INDEX

    def abandon(self) -> None:
        """The step that runs, if any, came to no end: it is none."""
        self.plan_anew()
        self._begun_ns = 0
        self._contiguous = self._marked = False
        self._mark_phases(False)
        self._guarded(lambda: self._windows.abandon(self.index + 1))

    def split(self, name: str, since_ns: int, until_ns: int) -> None:
        """The step that runs begins at `until_ns`; what ran before was a rest of that name."""
        if not self._on:
            return
        phases_on = self.phases_on
        self.abandon()
        if not self._on:
            return
        try:
            code = self.code("rest", name)
            self.add(Mark.REST_START, code, t_ns=since_ns)
            self.add(Mark.REST_END, code, t_ns=until_ns)
        except OSError as error:
            self._failed(error)
            return
        self._restart(traced=False, phases_on=phases_on)
        self._begun_ns = until_ns

    def plan_anew(self) -> None:
        """Something is due: the next step is no plain one."""
        self._last_plain = -1
        self.begin = self._begin

    def _begin(self) -> int:
        """A step in which something is due."""
        if not self._on:
            return 0
        index = self._row >> INDEX
        try:
            self.end_rest()
            traced = index >= self._windows.schedule.next_step and self._open_window()
        except OSError as error:
            self._failed(error)
            return 0
        # Three steps in a row, so that a timeline of three can show their phases.
        cycle, position = divmod(index, 3 * self._phase_every)
        if self.layers_every and not traced:
            self._attach_layers(position < 3 and cycle % self.layers_every == 0)
        self._restart(traced, phases_on=traced or position < 3)
        self._begun_ns = self.stamp()
        return self._begun_ns

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
        late = self._started and self._samples == self._samples
        self._write_begin()
        if late:
            self.add(Mark.SAMPLES, value=self._samples)
        if traced:
            moved = windows.finish()
            if self.device is not None:
                self.device.rename(moved)
            self._pending = [
                (kind, table, name, moved.get(t, t)) for kind, table, name, t in self._pending
            ]
        self._write()
        index = self._row >> INDEX
        self.add(STEP_END, 0, loss, index, cpu, now)
        self._begun_ns = 0
        self._marked = False
        self._mark_phases(False)
        self._row += 1 << INDEX
        if traced:
            windows.close(index)
            self._anchor_device(ANCHORS)  # it has nothing to do: the tracer has waited for it
        elif self._contiguous and index >= self._steady_from:
            windows.schedule.clean_step(now - begun)
        self._contiguous = not traced
        self._plan()

    def _write(self) -> None:
        """Begin and inner marks of the step that runs.

        Raises:
            OSError: The disk is full.
        """
        self._write_begin()
        for kind, table, name, t_ns in self._pending:
            self.add(kind, self.code(table, name) if table else name, 0.0, 0, 0, t_ns)
        self._pending.clear()

    def _write_begin(self) -> None:
        """The step's own, once.

        Raises:
            OSError: The disk is full.
        """
        if not self._started:
            self.add(
                STEP_START,
                self._code,
                self._samples,
                self._row >> INDEX,
                self._cpu_ns,
                self._begun_ns,
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

    @property
    def tracing(self) -> bool:
        """True if the step that runs is traced."""
        return self._windows.traced

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
        self.add(Mark.REST_START, self.code("rest", name))
        self.resting = True
        self._contiguous = False
        self.plan_anew()

    def end_rest(self) -> None:
        """Marks the end of a rest.

        Raises:
            OSError: The disk is full.
        """
        if self.resting:
            self.add(Mark.REST_END)
            self.resting = False

    def end_span(self) -> None:
        """Ends what `Recorder.span` began, before the next step does."""
        self._guarded(self.end_rest)

    # --- models, profilers, windows -----------------------------------------------------------

    @property
    def traced_steps(self) -> int:
        """Number of traced steps so far."""
        return self._windows.schedule.windows

    @property
    def can_trace(self) -> bool:
        """True if there is a tracer, and nothing has ended the tracing."""
        return self._windows.ready() and self._windows.stopped_ns is None

    @property
    def opening_window(self) -> bool:
        """True if a profiler that is being made just now is ours."""
        return self._windows.opening

    def learn_model(self, model: Any) -> None:
        """Names this model's layers, told apart from those of other models."""
        if self._on:
            self._windows.learn(model, alone=False)

    def watch_model(self, model: Any, *, alone: bool = True) -> None:
        """Names this model's layers, and marks the top-level ones in steps long enough for it.

        Args:
            model: The module.
            alone: True if its layers have its own paths, whatever other models there are.
        """
        if not (self._on and self._windows.ready()):
            return
        if self.layers is not None:
            self.layers.detach()
        self._windows.learn(model, alone=alone)
        self.layers = self._windows.layer_marks(model, self.layer_begins, self.layer_ends)

    def trace_next(self) -> None:
        """The next step is traced, whatever the schedule says."""
        if self.can_trace:
            self._windows.schedule.next_step = self.index
            self.plan_anew()

    def pause_tracing(self) -> None:
        """No step is traced until tracing is resumed, or the next one is asked for."""
        self._windows.schedule.pause()
        self.plan_anew()

    def resume_tracing(self) -> None:
        """Steps are traced by the schedule again."""
        if self._windows.stopped_ns is None:
            self._windows.schedule.resume(self.index)
            self.plan_anew()

    def abandon_window(self) -> None:
        """The step that is being traced, if any, turned out to be something else."""
        self.plan_anew()
        self._guarded(lambda: self._windows.abandon(self.index + 1))

    def stop_tracing(self, reason: str) -> None:
        """No further windows; an open one is given up."""
        self.plan_anew()
        self._guarded(lambda: self._windows.stop(reason))

    def note_device_memory(self) -> None:
        """Notes the memory of the device that trains: what comes next is none of the training's."""
        device = self.device
        if device is not None:
            with contextlib.suppress(*UNASKED):  # the next step says that the device is gone
                self._guarded(device.note_memory)

    # --- what is due --------------------------------------------------------------------------

    def _plan(self) -> None:
        """Up to which step nothing is due: no window, no marks of phases, no rest."""
        index, due = self._row >> INDEX, self._windows.schedule.next_step
        cycle = 3 * self._phase_every
        due = min(due, index if index % cycle < 3 else index + cycle - index % cycle)
        # The clock of the process is read at the begin of a step that does not follow another.
        ready = self._on and not self.resting and (self._contiguous or not self._own_clock)
        self.plan_anew()
        if ready and due > index:
            self._last_plain = (int(due) - 1) << INDEX
            self.begin = self._clock
            if self.layers is not None:
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

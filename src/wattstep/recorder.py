"""START HERE: a recorder joins the sampler, the tracer and the marks of the steps into a Run."""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import math
import os
import platform
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.processes import child_command
from wattstep.records.channel import Absent, Present
from wattstep.records.journal import JOURNAL, OPERATIONS, Mark
from wattstep.records.run_info import RunInfo
from wattstep.records.settings import parse_duration, parse_power_model
from wattstep.sampling.attendant import Attendant
from wattstep.sampling.companion import News
from wattstep.sampling.plan import Plan, make_plan
from wattstep.sensors.process_cpu import open_clocks
from wattstep.store.files import create_folder, new_name, remove_empty, write_info
from wattstep.store.lock import RunLock
from wattstep.store.marks import MarkJournal
from wattstep.targets import Site, open_site, parse_target
from wattstep.tracing.schedule import TraceMode
from wattstep.windows import Windows

CHECK_NS = 10**9  # how often it looks whether the sampler lives
FIRST_CHECK_NS = 10**7  # until it is known how long a step takes
PHASES_EVERY_NS = 10_000_000  # steps shorter than this carry marks of phases only now and then
LAYER_MARK_NS = 4_000  # what a pair of layer marks costs, hooks included (measured here: 2-4 µs)
LAYER_BUDGET = 0.002  # of the training time, for marks of layers
NAN = math.nan


class RecordingWarning(UserWarning):
    """Something is not being recorded from here on; the training goes on."""


class Recorder:
    """Records a training run.

    >>> with Recorder("runs/mine") as recorder:                      # doctest: +SKIP
    ...     for inputs, targets in loader:
    ...         with recorder.step(samples=len(inputs)):
    ...             train(inputs, targets)

    Args:
        path: Folder of the new run; a name below `runs/` is made where it is None.
        interval: The sampler's period, e.g. "10ms" or 0.01 (seconds); 1 ms is the finest.
        trace: "auto" (as many traced steps as stay cheap), "none", or "every:N".
        warmup: First steps that do not count.
        model: The torch module that trains, so that its layers are named by its own paths.
        power_model: A model for machines without a power sensor: "vcpu", or "linear:IDLE,BUSY"
            in watts a core. What it gives is marked as modelled.
        target: Where the sensors are: "local", "replay:RECORDING" or "emulate:BOARD".
        total_steps: How many the training will take, all in all: what watches it (`wattstep live`)
            then tells what is left. It ends nothing.
        first_step: Number of the first step, where a training goes on from a checkpoint.
        about: Fields of `RunInfo` that the caller knows (workload, batch_size, data, ...).

    Raises:
        RunExistsError: The folder is taken.
        RecordingError: Another recorder is at work in this process, or recording cannot begin.
        InvalidValueError: A setting cannot be used.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        interval: str | float = 0.01,
        trace: str = "auto",
        warmup: int = 3,
        model: Any = None,
        power_model: str | None = None,
        target: str | None = None,
        total_steps: int | None = None,
        first_step: int = 0,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        if warmup < 0:
            raise InvalidValueError(f"--warmup {warmup}: it cannot be negative")
        if total_steps is not None and total_steps < 1:
            raise InvalidValueError(f"--total-steps {total_steps}: it must be at least 1")
        self._interval_s = parse_duration(interval)
        self._mode = TraceMode.parse(trace)
        self._power_model = parse_power_model(power_model)
        self._target = parse_target(target)
        asked = {} if total_steps is None else {"asked": {"steps": total_steps}}
        self._about = {**asked, **(about or {})}
        workload = str(self._about.get("workload", "training"))
        self.path = Path(path) if path is not None else Path("runs") / new_name(workload)
        self._model = model
        self.warmup = warmup
        self.index = first_step  # of the next step
        self._steady_from = first_step + warmup  # steps before do not count
        self.problem: str | None = None  # why recording ended early
        self._notes: list[str] = []
        self._lost: dict[str, int] = {}
        self._gaps: list[tuple[int, int]] = []
        self._state = "new"
        self._in_rest = False
        self._layer_marks: Any = None
        self._step = _Step(self)
        self._codes: dict[str, int] = {}
        self._phases_on = True
        self._plain = False  # nothing is due in the step that runs
        self._plain_until = 0  # the first step in which something is
        self._samples = NAN
        self._phase_every = 1
        self._layers_every = 0
        self._contiguous = False
        self._own_clock = True
        self._start_ns = 0
        self._check_at = 0

    # --- beginning and end ----------------------------------------------------------------

    def start(self) -> Recorder:
        """Begins: makes the folder, finds the sensors, starts the sampler."""
        with contextlib.ExitStack() as undo:
            _claim(self)
            undo.callback(_release, self)
            try:
                self._open(undo)
            except OSError as error:
                raise RecordingError(
                    f"cannot record into {self.path}: {error.strerror or error}"
                ) from error
            self._state = "recording"
            self._windows.reset_peak()
            if self._model is not None:
                self.watch_model(self._model)
            undo.pop_all()
        _watch_forks()
        atexit.register(self.close)
        return self

    def _open(self, undo: contextlib.ExitStack) -> None:
        """The folder, the target, the journals and the sampler; `undo` takes them away again."""
        self._folder = folder = self.path.absolute()  # the training may change its directory
        undo.callback(remove_empty, create_folder(folder))
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        self._lock = RunLock(folder)
        undo.callback(self._lock.release)
        self._site = open_site(self._target, os.getpid(), folder)
        undo.callback(self._site.close)
        plan = self._plan(self._site)
        self._info = self._describe(plan.absent, plan.reads)
        write_info(folder, self._info)
        journal = folder / JOURNAL
        self._marks = MarkJournal(journal)
        undo.callback(self._marks.close)
        self._operations = os.open(
            journal / OPERATIONS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
        )
        undo.callback(os.close, self._operations)
        self._windows = Windows(
            self._mode, self._steady_from, self._marks, self._operations, self.note
        )
        self._sampling = Attendant(plan, journal, functools.partial(open_clocks, os.getpid()))
        undo.callback(self._sampling.stop)
        self._hear(self._sampling.start())
        self._info = replace(self._info, scheduling=self._sampling.scheduling)
        write_info(folder, self._info)

    def _plan(self, site: Site) -> Plan:
        found = _without_doubles(site.probe())
        # Perf counts from outside; without it the process reads its own clock at every step.
        self._own_clock = not isinstance(found.get("process_cpu"), Present)
        for note in site.notes:
            self.note(note)
        return make_plan(found, self._interval_s, hidden=site.hidden)

    def _describe(self, absent: Mapping[str, str], reads: Any) -> RunInfo:
        known: dict[str, Any] = {
            "workload": "training",
            "engine": _engine(),
            "batch_size": None,
            "threads": None,
            "precision": None,
            "processor": None,
            "seed": None,
            **self._about,
        }
        known.setdefault("title", known["workload"])
        return RunInfo(
            clocks=(_wall_clock(),),
            state="recording",
            created=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            interval_s=self._interval_s,
            warmup=self.warmup,
            first_step=self.index,
            trace=self._mode.text,
            device=self._site.device,
            target=self._target.text,
            environment=_environment(),
            power_model=self._power_model,
            reads=reads,
            absent=absent,
            **known,
        )

    def forget(self) -> None:
        """In a forked child: its steps are not ours, and the journals belong to the parent."""
        if self._state == "recording":
            self._state = "forked"
            self._plain_until = self._start_ns = 0
            self._windows.forget()
            if self._layer_marks is not None:
                self._layer_marks.detach()

    def close(self) -> None:
        """Ends the recording and writes the tables; what cannot be written stays in the journals."""
        if self._state != "recording":
            return
        self._state = "closing"
        self._plain_until = 0
        atexit.unregister(self.close)
        if self._layer_marks is not None:
            self._layer_marks.detach()
        try:
            if self.problem is None:
                self._windows.abandon(self.index)
                self._close_rest()
                self._windows.mark_peak()
        except OSError as error:
            self._cannot_write(error)
        self._hear(self._sampling.stop())
        self._site.close()
        for note in self._site.notes:
            self.note(note)
        os.close(self._operations)
        self._marks.close()
        self._finish()
        _release(self)
        self._state = "closed"

    def _finish(self) -> None:
        """Final `run.json`, then the tables, in a child: pyarrow stays out of this process."""
        try:
            if self._windows.stopped_ns is not None:
                self._lost.setdefault("operations", self._windows.stopped_ns)
            write_info(self._folder, self._completed())
        except OSError as error:
            self._cannot_write(error)
        self._lock.hand_over()
        done = subprocess.run(
            child_command("wattstep.store.convert:main", str(self._folder), "closed"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
            text = (
                f"the tables could not be written ({words[-1]}); the journals are kept in "
                f"{self.path}, and are turned into tables when the run is next opened"
            )
            self.problem = text if self.problem is None else f"{self.problem}; {text}"
            warnings.warn(text, RecordingWarning, stacklevel=4)
        self._lock.release()

    def _completed(self) -> RunInfo:
        """The description with what became known only while it recorded."""
        info = self._info
        threads = info.threads
        torch = sys.modules.get("torch")
        if threads is None and torch is not None:
            threads = int(torch.get_num_threads())
        return replace(
            info,
            engine=_engine() if info.engine in ("python", "torch") else info.engine,
            threads=threads,
            environment=_environment(),
            clocks=(*info.clocks, _wall_clock()),
            notes=tuple(self._notes),
            lost=dict(self._lost),
            gaps=tuple(self._gaps),
        )

    def __enter__(self) -> Recorder:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and not isinstance(error, (KeyboardInterrupt, SystemExit)):
            self.note(f"the training ended with {type(error).__name__}")
        self.close()

    # --- steps ----------------------------------------------------------------------------

    def step(self, samples: float | None = None) -> _Step:
        """A context: one training step of so many samples (None: not known)."""
        self._step.samples = NAN if samples is None else samples
        self._step.loss = NAN
        return self._step

    def begin_step(self, samples: float = NAN) -> None:
        """A step begins; `step()` is the form for a with statement."""
        if self.index < self._plain_until:
            # Nothing is due in this step: both its marks are written when it ends.
            self._plain = True
            self._samples = samples
            self._start_ns = time.perf_counter_ns()
            return
        self._plain = False
        if self._state != "recording" or self.problem is not None:
            return
        index = self.index
        traced = False
        try:
            if self._in_rest:
                self._close_rest()
            if index >= self._windows.schedule.next_step:
                traced = self._open_window()
            # Three steps in a row, so that a timeline of three can show their phases.
            self._phases_on = traced or index % (3 * self._phase_every) < 3
            if self._layers_every and not traced:
                self._attach_layers(index)
            cpu = 0 if self._contiguous or not self._own_clock else time.process_time_ns()
            self._start_ns = now = time.perf_counter_ns()
            self._marks.add(Mark.STEP_START, traced, samples, index, cpu, now)
        except OSError as error:
            self._cannot_write(error)

    def end_step(self, loss: float = NAN) -> None:
        """The step that began last is done."""
        if self._plain and self._start_ns:
            self._end_plain(loss)
            return
        if self._state != "recording" or self.problem is not None or not self._start_ns:
            return
        try:
            now = time.perf_counter_ns()
            windows = self._windows
            traced = windows.traced
            if traced:
                windows.finish()
            cpu = time.process_time_ns() if self._own_clock else 0
            self._marks.add(Mark.STEP_END, 0, loss, self.index, cpu, now)
            self.index += 1
            if traced:
                windows.close(self.index - 1)
            elif self._contiguous and self.index > self._steady_from:
                windows.schedule.clean_step(now - self._start_ns)
            self._contiguous = not traced
            self._start_ns = 0
            if now > self._check_at:
                self._check(now)
            self._plan_steps()
        except OSError as error:
            self._cannot_write(error)

    def _end_plain(self, loss: float) -> None:
        """The end of a step in which nothing was due: two marks in one, and no more."""
        now = time.perf_counter_ns()
        cpu = time.process_time_ns() if self._own_clock else 0
        try:
            self._marks.add_step(self._start_ns, now, self._samples, loss, self.index, cpu)
            self.index += 1
            self._start_ns = 0
            self._contiguous = True
            if now > self._check_at:
                self._check(now)
                self._plan_steps()
        except OSError as error:
            self._cannot_write(error)

    def _plan_steps(self) -> None:
        """Up to which step nothing is due: no window, no marks of phases or layers, no rest."""
        index, due = self.index, self._windows.schedule.next_step
        turn = 3 * self._phase_every
        due = min(due, index if index % turn < 3 else index + turn - index % turn)
        if self._layers_every:
            due = min(due, index + (-index) % self._layers_every)
        ready = self._state == "recording" and self.problem is None and not self._in_rest
        # The clock of the process is read at the begin of a step that does not follow another.
        ready = ready and (self._contiguous or not self._own_clock)
        self._plain_until = int(due) if ready and due < math.inf else (1 << 62 if ready else 0)
        self._phases_on = self._phases_on and self._plain_until <= index
        if self._layer_marks is not None and self._plain_until > index:
            self._layer_marks.detach()

    def abandon_step(self) -> None:
        """The step that began last did not come to its end: it is none."""
        self.abandon_window()
        self._start_ns = 0
        self._contiguous = False

    def split_step(self, name: str, since_ns: int, until_ns: int) -> None:
        """What ran from one time to another was no training: a rest; the step begins after it."""
        if self._state != "recording" or self.problem is not None:
            return
        self.abandon_window()
        self._start_ns = until_ns
        self._contiguous = False
        self._plain_until = 0
        try:
            code = self._marks.code("rest", name)
            self._marks.add(Mark.REST_START, code, t_ns=since_ns)
            self._marks.add(Mark.REST_END, code, t_ns=until_ns)
            cpu = time.process_time_ns() if self._own_clock else 0
            self._marks.add(Mark.STEP_START, 0, NAN, self.index, cpu, until_ns)
        except OSError as error:
            self._cannot_write(error)

    def samples(self, count: float) -> None:
        """So many samples belong to the step that runs; adds up within a step."""
        if self._plain:
            self._samples = count if math.isnan(self._samples) else self._samples + count
        elif self._state == "recording" and self.problem is None:
            self._mark(Mark.SAMPLES, value=count)

    @property
    def phases_on(self) -> bool:
        """Whether phases of the step that runs are marked: of short steps, now and then."""
        return self._phases_on and self._state == "recording" and self.problem is None

    def boundary(self) -> int:
        """Now, in ns: a place in the step where a phase may turn out to have begun."""
        return self._windows.boundary() if self._windows.traced else time.perf_counter_ns()

    def phase(self, name: str, since_ns: int = 0) -> None:
        """The part of the step that begins here: "data", "forward", "backward", "optimizer".

        Args:
            name: Of the phase.
            since_ns: Where it began, if that is known only now; as `boundary` gave it.
        """
        if not self._phases_on or self._state != "recording" or self.problem is not None:
            return
        try:
            code = self._codes.get(name)
            if code is None:
                code = self._codes[name] = self._marks.code("phase", name)
            if self._windows.traced:
                since_ns = since_ns or self._windows.boundary()
                self._windows.phase(name, since_ns)
            self._marks.add(Mark.PHASE, code, t_ns=since_ns)
        except OSError as error:
            self._cannot_write(error)

    def update(self, name: str) -> None:
        """A part of the parameters has been updated: what ran since the last update led to it."""
        if self._phases_on and self._state == "recording" and self.problem is None:
            self._mark(Mark.UPDATE, ("update", name))

    def rest(self, name: str) -> None:
        """What runs from here until the next step is something else, e.g. "evaluation"."""
        if self._state == "recording" and self.problem is None and not self._in_rest:
            self._mark(Mark.REST_START, ("rest", name))
            self._in_rest = True
            self._contiguous = False
            self._plain_until = 0

    def end_rest(self) -> None:
        """What runs from here is no longer the rest that began last."""
        self._guarded(self._close_rest)

    @contextlib.contextmanager
    def apart(self, name: str) -> Iterator[None]:
        """A context: work beside the training whose time and memory are no part of it.

        Whatever it takes is a rest of that name, and lies outside of the training's peak.
        """
        self.rest(name)
        self._guarded(self._windows.mark_peak)
        try:
            yield
        finally:
            self._guarded(self._windows.end_apart)

    def evaluation(self, measure: str, value: float) -> None:
        """States what the model is worth after the steps so far: "accuracy" (ratio), "loss"."""
        if self._state == "recording" and self.problem is None:
            code = self._marks.code("measure", measure)
            self._guarded(lambda: self._marks.add(Mark.EVALUATION, code, value, self.index))

    def memory(self, category: str, size: int) -> None:
        """States how many bytes a category takes ("parameters", "gradients", ...)."""
        if self._state == "recording" and self.problem is None:
            self._mark(Mark.MEMORY, ("memory", category), float(size))

    def note(self, text: str) -> None:
        """Something that the reader of the run must know."""
        if text not in self._notes:
            self._notes.append(text)

    def about(self, **fields: Any) -> None:
        """Fields of `RunInfo` that became known only now (threads, model facts)."""
        self._info = replace(self._info, **fields)

    @property
    def info(self) -> RunInfo:
        """What is known of the run so far."""
        return self._info

    @property
    def windows(self) -> int:
        """How many steps have been traced."""
        return self._windows.schedule.windows

    def trace_next(self) -> None:
        """The next step is traced, whatever the schedule says."""
        if self._windows.ready() and self._windows.stopped_ns is None:
            self._windows.schedule.next_step = self.index
            self._plain_until = 0

    def _close_rest(self) -> None:
        if self._in_rest:
            self._marks.add(Mark.REST_END)
            self._in_rest = False

    def _mark(self, kind: Mark, name: tuple[str, str] | None = None, value: float = 0.0) -> None:
        """One mark, with the table and text of its name; a full disk ends the recording."""
        try:
            code = 0 if name is None else self._marks.code(*name)
            self._marks.add(kind, code, value)
        except OSError as error:
            self._cannot_write(error)

    # --- tracing --------------------------------------------------------------------------

    def learn_model(self, model: Any) -> None:
        """Names this model's layers, told apart from those of other models."""
        if self._state == "recording" and self.problem is None:
            self._windows.learn(model, alone=False)

    def watch_model(self, model: Any, *, alone: bool = True) -> None:
        """Names this model's layers, and marks the top-level ones in steps long enough for it.

        Args:
            model: The module.
            alone: Whether its layers have its own paths, whatever other models there are.
        """
        if self._state != "recording" or self.problem is not None or not self._windows.ready():
            return
        from wattstep.tracing.torch_layers import TopLevelMarks

        if self._layer_marks is not None:
            self._layer_marks.detach()
        self._windows.learn(model, alone=alone)
        self._layer_marks = TopLevelMarks(
            model,
            lambda module: self._marks.code("layer", self._windows.layer_of(module)),
            lambda code: self._mark_layer(Mark.LAYER_START, code),
            lambda code: self._mark_layer(Mark.LAYER_END, code),
        )

    def _mark_layer(self, kind: Mark, code: int) -> None:
        try:
            self._marks.add(kind, code)
        except OSError as error:
            self._cannot_write(error)

    def stop_tracing(self, reason: str) -> None:
        """No further windows; an open one is given up."""
        if self._state == "recording":
            self._plain_until = 0
            self._guarded(lambda: self._windows.stop(reason))

    def abandon_window(self) -> None:
        """The step that is being traced, if any, turned out to be something else."""
        if self._state == "recording":
            self._plain_until = 0
            self._guarded(lambda: self._windows.abandon(self.index + 1))

    @property
    def tracing(self) -> bool:
        """Whether the step that runs is traced."""
        return self._windows.traced

    @property
    def opening_window(self) -> bool:
        """Whether a profiler that is being made just now is ours."""
        return self._windows.opening

    def _guarded(self, work: Callable[[], None]) -> None:
        """Work that may meet a full disk; none where nothing is recorded."""
        if self._state != "recording" or self.problem is not None:
            return
        try:
            work()
        except OSError as error:
            self._cannot_write(error)

    def _open_window(self) -> bool:
        if self._layer_marks is not None:
            self._layer_marks.detach()
        return self._windows.open()

    def _attach_layers(self, index: int) -> None:
        if self._layers_every == 1 or index % self._layers_every == 0:
            self._layer_marks.attach()
        else:
            self._layer_marks.detach()

    # --- housekeeping ---------------------------------------------------------------------

    def _check(self, now: int) -> None:
        """Once a second: what became of the sampler, and how many marks can these steps afford?"""
        typical = self._windows.schedule.typical_ns
        self._check_at = now + (CHECK_NS if typical else FIRST_CHECK_NS)
        if typical:
            self._phase_every = max(1, math.ceil(PHASES_EVERY_NS / typical))
            if self._layer_marks is not None:
                cost = self._layer_marks.layers * LAYER_MARK_NS
                self._layers_every = max(1, math.ceil(cost / (LAYER_BUDGET * typical)))
        self._hear(self._sampling.news())

    def _hear(self, news: Sequence[News]) -> None:
        """What became of the sampler, and of sensors that the companion reads."""
        for one in news:
            if one.gap is not None:
                self._gaps.append(one.gap)
            if one.lost_ns is not None:
                self._lost.setdefault(one.sensor, one.lost_ns)
            self.note(one.text)
            warnings.warn(one.text, RecordingWarning, stacklevel=3)

    def _fail(self, reason: str) -> None:
        """Recording ends, training goes on."""
        self._plain_until = 0
        if self.problem is None:
            self.problem = reason
            self._lost["marks"] = time.perf_counter_ns()
            self.note(f"recording ended early: {reason}")
            warnings.warn(f"wattstep records no further: {reason}", RecordingWarning, stacklevel=3)
            self._windows.forget()
            if self._layer_marks is not None:
                self._layer_marks.detach()

    def _cannot_write(self, error: OSError) -> None:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "the disk is full" if full else "the run cannot be written"
        self._fail(f"{what} ({error.strerror})")


class _Step:
    """One object for all steps: entering it costs no allocation."""

    __slots__ = ("_recorder", "loss", "samples")

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.samples = NAN
        self.loss = NAN

    def __enter__(self) -> _Step:
        recorder = self._recorder
        if recorder.index < recorder._plain_until:
            # As `begin_step` does, one call less: after a step of training every call is a cold one.
            recorder._plain = True
            recorder._samples = self.samples
            recorder._start_ns = time.perf_counter_ns()
        else:
            recorder.begin_step(self.samples)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            recorder = self._recorder
            if recorder._plain and recorder._start_ns:
                recorder._end_plain(self.loss)
            else:
                recorder.end_step(self.loss)
        else:
            self._recorder.abandon_step()


# Two recorders in one process would trace and count each other.
_active: list[Recorder] = []


def _claim(recorder: Recorder) -> None:
    if _active:
        raise RecordingError(
            f"another recorder is at work in this process (it writes {_active[0].path}): close it first"
        )
    _active.append(recorder)


def _release(recorder: Recorder) -> None:
    if recorder in _active:
        _active.remove(recorder)


@functools.cache
def _watch_forks() -> None:
    """Once: what is registered for forks stays registered, and must keep no recorder alive."""
    os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    for recorder in _active:
        recorder.forget()
    _active.clear()


def _without_doubles(found: dict[str, Present | Absent]) -> dict[str, Present | Absent]:
    """The scheduler's account of threads is for machines that refuse perf; both would cost twice."""
    if isinstance(found.get("process_cpu"), Present):
        found["process_threads"] = Absent(
            reason="not needed: perf task-clock counts the same, finer (see process_cpu)"
        )
    return found


def _wall_clock() -> tuple[int, int]:
    """Monotonic time, and how far the wall clock is ahead of it, in ns."""
    before = time.perf_counter_ns()
    wall = time.time_ns()
    now = (before + time.perf_counter_ns()) // 2
    return now, wall - now


def _engine() -> str:
    torch = sys.modules.get("torch")
    return f"torch {torch.__version__}" if torch is not None else "python"


def _environment() -> dict[str, Any]:
    versions: dict[str, Any] = {"python": platform.python_version()}
    for name in ("torch", "numpy"):
        module = sys.modules.get(name)
        if module is not None:
            versions[name] = str(getattr(module, "__version__", "unknown"))
    return versions

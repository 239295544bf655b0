"""START HERE: a recorder joins the sampler, the tracer and the marks of the steps into a Run."""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import os
import platform
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wattstep import engines
from wattstep.errors import InvalidValueError, RecordingError
from wattstep.record.device_steps import UNASKED
from wattstep.record.device_timeline import DeviceTimeline
from wattstep.record.hosts import SensorHost, open_host, parse_target
from wattstep.record.marking import StepMarker
from wattstep.record.sampling.attendant import Attendant
from wattstep.record.sampling.collector import News
from wattstep.record.sampling.plan import Plan, make_plan
from wattstep.record.sensors.process_cpu import open_clocks
from wattstep.record.stepping import StepRecorder, wall_clock
from wattstep.record.tracing.schedule import TraceMode
from wattstep.record.tracing.windows import Windows
from wattstep.schema.channel import Absent, Present
from wattstep.schema.device_queue import DeviceQueue
from wattstep.schema.engine import Engine
from wattstep.schema.journal import DEVICE_OPERATIONS, JOURNAL, OPERATIONS, Mark
from wattstep.schema.processes import child_command
from wattstep.schema.run_info import RunInfo
from wattstep.schema.settings import parse_duration, parse_keep, parse_power_model
from wattstep.store.files import create_folder, new_name, remove_empty, write_info
from wattstep.store.lock import RunLock
from wattstep.store.segments import SegmentedFile, segment_bytes

PYTHON = "python"  # what trains where no framework is loaded


class RecordingWarning(UserWarning):
    """Something is not being recorded from here on; the training goes on."""


class Recorder(StepRecorder):
    """Records a training run.

    >>> with Recorder("runs/mine") as recorder:                      # doctest: +SKIP
    ...     for inputs, targets in loader:
    ...         with recorder.step(samples=len(inputs)):
    ...             train(inputs, targets)

    Args:
        path: Folder of the new run; a name below `runs/` is made where it is None.
        interval: The sampler's period, e.g. "10ms" or 0.01 (seconds); 1 ms is the finest.
        keep: How long samples and steps stay single ones, e.g. "raw=1h,steps=1h": older ones are
            thinned to stretches, of which totals, means and extremes stay exact; None: for ever.
        trace: "auto" (as many traced steps as stay cheap), "none", or "every:N".
        warmup: First steps that do not count.
        model: The framework's model that trains, so that its layers are named by its own paths.
        power_model: A model for machines without a power sensor: "vcpu", or "linear:IDLE,BUSY"
            in watts a core. What it gives is marked as modelled.
        target: Host of the sensors: "local", "replay:RECORDING" or "emulate:BOARD".
        total_steps: Number that the training will take in all: what watches it (`wattstep live`)
            then tells what is left. It ends nothing.
        first_step: Number of the first step, where a training goes on from a checkpoint.
        engine: Engine that trains, where the caller knows; else whichever framework is loaded.
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
        keep: str | None = None,
        trace: str = "auto",
        warmup: int = 3,
        model: Any = None,
        power_model: str | None = None,
        target: str | None = None,
        total_steps: int | None = None,
        first_step: int = 0,
        engine: Engine | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        if warmup < 0:
            raise InvalidValueError(f"--warmup {warmup}: it cannot be negative", id="out-of-range")
        if total_steps is not None and total_steps < 1:
            raise InvalidValueError(
                f"--total-steps {total_steps}: it must be at least 1", id="out-of-range"
            )
        self._interval_s = parse_duration(interval)
        self._keep = parse_keep(keep)
        self._mode = TraceMode.parse(trace)
        self._power_model = parse_power_model(power_model)
        self._target = parse_target(target)
        asked = {} if total_steps is None else {"asked": {"steps": total_steps}}
        self._about = {**asked, **(about or {})}
        workload = str(self._about.get("workload", "training"))
        self.path = Path(path) if path is not None else Path("runs") / new_name(workload)
        self._model = model
        self._engine = engine
        self._segment = segment_bytes()
        self.warmup = warmup
        self._first_step = first_step
        self.problem: str | None = None  # why recording ended early
        self._notes: list[str] = []
        self._lost: dict[str, int] = {}
        self._gaps: list[tuple[int, int]] = []
        self._state = "new"
        self._of_parent: DeviceTimeline | None = None
        self._steps = StepMarker(first_step, warmup, self._look, self._cannot_write)

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
            self._find_device()
            if self._model is not None:
                self._steps.watch_model(self._model)
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
        self._host = open_host(self._target, self._process, folder)
        undo.callback(self._host.close)
        plan = self._plan(self._host)
        self._info = self._describe(plan.absent, plan.reads)
        write_info(folder, self._info)
        journal = folder / JOURNAL
        self._steps.open(journal, self._segment)
        undo.callback(self._steps.close)
        self._operations, self._devices = (
            SegmentedFile(journal / name, self._segment) for name in (OPERATIONS, DEVICE_OPERATIONS)
        )
        undo.callback(self._operations.close)
        undo.callback(self._devices.close)
        self._windows = Windows(
            self._mode,
            self._first_step + self.warmup,
            self._steps,
            self._operations.fd,
            self.note,
            lambda: self._engine or engines.loaded(),
            self._process,
            self._devices.fd,
        )
        self._sampling = Attendant(plan, journal, self._open_clocks, self._segment)
        undo.callback(self._sampling.stop)
        self._hear(self._sampling.start())
        self._info = replace(self._info, scheduling=self._sampling.scheduling)
        write_info(folder, self._info)
        self._steps.start(self._windows, own_clock=self._own_clock)

    @property
    def _process(self) -> int:
        """Id of the process that trains."""
        return os.getpid()

    def _open_clocks(self, without: Collection[int] | None) -> list[int]:
        """The perf counters of the training; see `Attendant`."""
        return open_clocks(self._process, without)

    def _environment(self) -> dict[str, str]:
        """Versions of what trains."""
        return _environment()

    def _plan(self, host: SensorHost) -> Plan:
        sensors = _without_doubles(host.probe())
        # Perf counts from outside; without it the process reads its own clock at every step.
        self._own_clock = not isinstance(sensors.get("process_cpu"), Present)
        for note in host.notes:
            self.note(note)
        return make_plan(sensors, self._interval_s, hidden=host.hidden)

    def _describe(self, absent: Mapping[str, str], reads: Any) -> RunInfo:
        fields: dict[str, Any] = {
            "workload": "training",
            "engine": _version(self._engine or engines.loaded()),
            "batch_size": None,
            "threads": None,
            "precision": None,
            "processor": None,
            "seed": None,
            **self._about,
        }
        fields.setdefault("title", fields["workload"])
        return RunInfo(
            clocks=(wall_clock(),),
            state="recording",
            created=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            interval_s=self._interval_s,
            keep=self._keep,
            warmup=self.warmup,
            first_step=self._first_step,
            trace=self._mode.text,
            device=self._host.device,
            target=self._target.text,
            environment=self._environment(),
            power_model=self._power_model,
            reads=reads,
            absent=absent,
            **fields,
        )

    def _mark_last_peak(self) -> None:
        """Marks the high-water mark of memory at the end."""
        self._windows.mark_peak()

    def _forget(self) -> None:
        """In a forked child: its steps are not ours, and the journals belong to the parent."""
        if self._state == "recording":
            self._state = "forked"
            # Kept: a driver's events must not be given back by a process that never used the driver.
            self._of_parent = self._steps.device
            self._windows.forget()
            self._steps.stop()

    def close(self) -> None:
        """Ends the recording and writes the tables; what cannot be written stays in the journals."""
        if self._state != "recording":
            return
        self._state = "closing"
        atexit.unregister(self.close)
        self._describe_devices()
        try:
            self._steps.leave_device(wait=True)
            if self._steps.device_problem:
                self.note(self._steps.device_problem)
            self._steps.stop()
            if self.problem is None:
                self._windows.abandon(self._steps.index)
                self._steps.end_rest()
                self._mark_last_peak()
        except OSError as error:
            self._cannot_write(error)
        self._hear(self._sampling.stop())
        self._host.close()
        for note in self._host.notes:
            self.note(note)
        self._operations.close()
        self._devices.close()
        self._steps.close()
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
        try:
            done = subprocess.run(
                child_command("wattstep.store.convert:main", str(self._folder), "closed"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                check=False,
                env=dict(os.environ),
            )
        # Where no further process may be started the training is to end well all the same.
        except OSError as error:
            failed: str | None = f"no process can be started: {error.strerror}"
        else:
            words = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
            failed = words[-1] if done.returncode != 0 else None
        if failed is not None:
            text = (
                f"the tables could not be written ({failed}); the journals are kept in "
                f"{self.path}, and are turned into tables when the run is next opened"
            )
            self.problem = text if self.problem is None else f"{self.problem}; {text}"
            warnings.warn(text, RecordingWarning, stacklevel=4)
        self._lock.release()

    def _completed(self) -> RunInfo:
        """The description with what became known only while it recorded."""
        info = self._info
        threads = info.threads
        engine = self._engine or engines.loaded()
        if threads is None and engine is not None:
            threads = engine.threads()
        unversioned = info.engine == PYTHON or info.engine in engines.ENGINES.own
        return replace(
            info,
            engine=_version(engine) if unversioned else info.engine,
            threads=threads,
            environment=self._environment(),
            clocks=(*info.clocks, wall_clock()),
            notes=tuple(self._notes),
            lost=dict(self._lost),
            gaps=tuple(self._gaps),
        )

    def __enter__(self) -> Recorder:
        return self.start()

    # --- what is stated of the training ------------------------------------------------------

    def evaluation(self, measure: str, value: float) -> None:
        """States what the model is worth after the steps so far: "accuracy" (ratio), "loss"."""
        if self._state == "recording" and self.problem is None:
            code = self._steps.code("measure", measure)
            self._guarded(lambda: self._steps.add(Mark.EVALUATION, code, value, self._steps.index))

    def memory(self, category: str, size: int) -> None:
        """States how many bytes a category takes ("parameters", "gradients", ...)."""
        if self._state == "recording" and self.problem is None:
            self._mark(Mark.MEMORY, ("memory", category), float(size))

    def about(self, **fields: Any) -> None:
        """Fields of `RunInfo` that became known only now (threads, model facts).

        They are written at once: a process that is killed tells them no more.
        """
        self._info = replace(self._info, **fields)
        if self._state == "recording" and self.problem is None:
            try:
                write_info(self._folder, self._info)
            except OSError as error:
                self._cannot_write(error)

    @property
    def info(self) -> RunInfo:
        """Description of the run so far."""
        return self._info

    @property
    def machine_root(self) -> Path | None:
        """Root of the files of the machine whose sensors are read; None where they are no files here."""
        return self._host.root

    def _mark(self, kind: Mark, name: tuple[str, str] | None = None, value: float = 0.0) -> None:
        """Writes a mark, with the table and text of its name; a full disk ends the recording."""
        try:
            code = 0 if name is None else self._steps.code(*name)
            self._steps.add(kind, code, value)
        except OSError as error:
            self._cannot_write(error)

    # --- housekeeping ---------------------------------------------------------------------

    def _look(self) -> None:
        """Once a second: what became of the sampler? Does a device train by now?"""
        self._hear(self._sampling.news())
        try:
            self._operations.go_on()
            self._devices.go_on()
        except OSError as error:
            self._cannot_write(error)
        self._find_device()

    def _find_device(self) -> None:
        """Follows the device that trains, as soon as there is one.

        While the warm-up lasts it is looked for again: a few bytes may have lain on another first.
        """
        steps = self._steps
        if steps.device_problem:
            self.note(steps.device_problem)
        engine = self._engine or engines.loaded()
        settled = steps.device is not None and steps.index > self._first_step + self.warmup
        if settled or steps.device_problem or self.problem is not None or engine is None:
            return
        try:
            queue = engine.device_queue()
            if queue is None or (steps.device is not None and steps.device.name == queue.name):
                return
            steps.follow_device(DeviceTimeline(queue, self._steps))
            self._describe_device(queue)
        except OSError as error:
            self._cannot_write(error)
            return
        except UNASKED as error:  # an allocator that tells nothing, a GPU that is gone
            message = (str(error).splitlines() or [""])[0]
            steps.device_problem = f"steps have no place on a GPU's timeline: {message}"
            self.note(steps.device_problem)

    def _describe_devices(self) -> None:
        """Which device it was, at the end once more: others may have come into use beside it."""
        device = self._steps.device
        if device is not None:
            with contextlib.suppress(*UNASKED):  # what was known of it stays
                self.about(device={**self._info.device, "gpu": device.facts()})

    def _describe_device(self, queue: DeviceQueue) -> None:
        """Adds the device to the description of the machine; of several, it is the one that is followed now.

        Raises:
            RuntimeError: The device is gone; `UNASKED` has what else may be raised.
        """
        processor = self._info.processor or queue.processor
        self.about(processor=processor, device={**self._info.device, "gpu": queue.facts()})

    def _hear(self, news: Sequence[News]) -> None:
        """Notes what became of the sampler, and of sensors that the collector reads."""
        for one in news:
            if one.gap is not None:
                self._gaps.append(one.gap)
            if one.lost_ns is not None:
                self._lost.setdefault(one.sensor, one.lost_ns)
            self.note(one.text)
            warnings.warn(one.text, RecordingWarning, stacklevel=3)

    def _fail(self, reason: str) -> None:
        """Recording ends, training goes on."""
        self._steps.stop()
        if self.problem is None:
            self.problem = reason
            self._lost["marks"] = time.perf_counter_ns()
            self.note(f"recording ended early: {reason}")
            warnings.warn(f"wattstep records no further: {reason}", RecordingWarning, stacklevel=3)
            self._windows.forget()

    def _cannot_write(self, error: OSError) -> None:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "the disk is full" if full else "the run cannot be written"
        self._fail(f"{what} ({error.strerror})")


# Two recorders in one process would trace and count each other.
_active: list[Recorder] = []


def _claim(recorder: Recorder) -> None:
    if _active:
        raise RecordingError(
            f"another recorder is at work in this process (it writes {_active[0].path}): close it first",
            id="second-recorder",
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
        recorder._forget()
    _active.clear()


def _without_doubles(sensors: dict[str, Present | Absent]) -> dict[str, Present | Absent]:
    """The scheduler's account of threads is for machines that refuse perf; both would cost twice."""
    if isinstance(sensors.get("process_cpu"), Present):
        sensors["process_threads"] = Absent(
            reason="not needed: perf task-clock counts the same, finer (see process_cpu)"
        )
    return sensors


def _version(engine: Engine | None) -> str:
    return PYTHON if engine is None else engine.version()


def _environment() -> dict[str, str]:
    versions: dict[str, str] = {"python": platform.python_version()}
    for name in (*engines.ENGINES, "numpy"):
        module = sys.modules.get(name)
        if module is not None:
            versions[name] = str(getattr(module, "__version__", "unknown"))
    return versions

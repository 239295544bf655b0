"""Carries out a plan of a training step with worker threads, each with its own threads within an operation."""

from __future__ import annotations

import os
import threading
from _thread import LockType, allocate_lock
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import torch

from wattstep.engines.torch.scheduled.capture import Captured
from wattstep.engines.torch.scheduled.openmp import end_team
from wattstep.engines.torch.scheduled.program import Program, Writer, below_autograd
from wattstep.errors import InvalidValueError
from wattstep.schedule.tasks import Schedule, TaskGraph
from wattstep.schedule.validity import in_order
from wattstep.schema.engine import Mark, ignore_phase

WORKER: Final = "<worker "  # how the names of the code of workers begin


class _Stopped(Exception):
    """Another worker has failed."""


class TorchThreads:
    """Worker threads for one parameter update; the caller's thread is the first of them, unless it is pinned.

    torch's number of threads is each thread's own: a worker sets it before a task that needs another.
    A worker waits only where a task needs what another worker's has made or read, and for nothing else.

    Args:
        captured: The update.
        schedule: Its plan.

    Raises:
        InvalidValueError: The plan is not one of these tasks, waits for itself, or needs more cores than there are.
    """

    def __init__(self, captured: Captured, schedule: Schedule) -> None:
        check(captured.graph, schedule)
        self._captured, self._schedule = captured, schedule
        self._failures: list[tuple[int, BaseException]] = []
        self._writer = Writer(captured, schedule, _pin, self._failures, _stop)
        self._signals = [_locked() for _ in self._writer.signals]
        self._mark: Mark = ignore_phase
        self._program = self._write(traced=False)
        self._traced: Program | None = None
        self._times: list[int] | None = None
        self._cells: list[Any] = [None] * self._program.cells
        self._batch: Sequence[Any] = ()
        self._runs: list[Callable[..., None]] = []
        self._closing = False
        pinned = any(placed.cores for placed in schedule.placed)
        threads = {placed.threads for placed in schedule.placed if placed.worker == 0}
        self._restored = threads != {torch.get_num_threads()}  # what the caller had, after a step
        self._own = 0 if pinned else 1  # workers that the caller's thread is
        self._go = [_locked() for _ in range(self._own, schedule.workers)]
        self._takes_cores = bool(self._go) and (pinned or threads == {1})
        self._done = [_locked() for _ in self._go]
        # An interruption may come anywhere in the caller's thread: what counts are these numbers of steps,
        # and a lock only ends a wait. One that was released once too often costs a look at them.
        self._step = 0
        self._ended = [0] * len(self._go)
        self._crew = [
            threading.Thread(
                target=self._work,
                args=(number,),
                name=f"wattstep worker {number + self._own}",
                daemon=True,
            )
            for number in range(len(self._go))
        ]
        for each in self._crew:
            each.start()

    @property
    def captured(self) -> Captured:
        """The update that is carried out."""
        return self._captured

    @property
    def schedule(self) -> Schedule:
        """The plan."""
        return self._schedule

    @property
    def program(self) -> Program:
        """The code of the workers."""
        return self._program

    @property
    def crew(self) -> Sequence[threading.Thread]:
        """The workers that have threads of their own: all but the caller's."""
        return self._crew

    def thread_ids(self) -> list[int]:
        """Python's identity of the thread of each worker."""
        own = [threading.get_ident()] * self._own
        return [*own, *(each.ident or 0 for each in self._crew)]

    @property
    def takes_cores(self) -> bool:
        """True if workers beside the caller's thread take cores on which a team of the caller's own would hinder them."""
        return self._takes_cores

    @property
    def traced(self) -> bool:
        """True if steps write times."""
        return self._times is not None

    @property
    def in_order(self) -> bool:
        """True if one worker runs all tasks in the framework's order, so that phases follow each other."""
        tasks = [placed.task for placed in self._schedule.placed]
        return self._schedule.workers == 1 and tasks == sorted(tasks)

    def step(self, batch: Sequence[torch.Tensor], mark: Mark = ignore_phase) -> list[torch.Tensor]:
        """Carries out the update.

        Args:
            batch: Its tensors, which lie as those did that it was captured with.
            mark: Told the phases where they begin, if `in_order`.

        Returns:
            The losses.

        Raises:
            InvalidValueError: A batch of another shape.
            Exception: Whatever an operation raises, with its name and layer; all workers have stopped.
        """
        self._check_batch(batch)
        if self._takes_cores:
            end_team()
        self._mark = mark
        program, times = self._program, list[Any]()
        if self._times is not None:
            program, times = self._traced or self._write(traced=True), [self._times]
            self._traced = program
        self._batch = (*times, self._cells, *batch)
        self._runs = [each.run for each in program.workers]
        threads = torch.get_num_threads() if self._restored else 0
        try:
            self._step += 1
            for go in self._go:
                _release(go)
            if self._own:
                with below_autograd():
                    self._runs[0](*self._batch)
        except BaseException as error:  # told when all have stopped
            self._fail(0, error)
        self._wait()
        self._batch = ()
        if threads:
            torch.set_num_threads(threads)
        if self._failures:
            self._raise(program)
        cells = self._cells
        losses = [cells[cell] for cell in program.losses]
        for cell in program.losses:
            cells[cell] = None
        return losses

    def trace(self) -> list[int]:
        """Has the next steps write when each task, and each wait of a worker, begins and ends.

        Returns:
            In ns of `perf_counter_ns`: task i at 2 i and 2 i + 1, behind n tasks wait j at 2 (n + j) and the next.
        """
        self._times = [0] * (2 * (len(self._captured.graph.tasks) + len(self._signals)))
        return self._times

    @property
    def waits(self) -> Sequence[int]:
        """The task before which each wait is, in the order of `trace`."""
        return [signal.before for signal in self._program.signals]

    def untrace(self) -> None:
        """Ends `trace`."""
        self._times = None

    def close(self) -> None:
        """Ends the workers."""
        self._closing = True
        for go in self._go:
            _release(go)
        for each in self._crew:
            each.join()

    # --- within a step --------------------------------------------------------------------------

    def _work(self, number: int) -> None:
        go, done = self._go[number], self._done[number]
        worker = number + self._own
        with below_autograd():
            while True:
                go.acquire()
                if self._closing:
                    return
                if self._ended[number] == self._step:
                    continue
                try:
                    self._runs[worker](*self._batch)
                except BaseException as error:  # told when all have stopped
                    self._fail(worker, error)
                self._ended[number] = self._step
                _release(done)

    def _wait(self) -> None:
        """Waits for all workers; an interruption makes them stop, and is raised after that."""
        for number, done in enumerate(self._done):
            while self._ended[number] != self._step:
                try:
                    done.acquire()
                except BaseException as error:  # an interruption
                    self._fail(0, error)

    def _fail(self, worker: int, error: BaseException) -> None:
        """Has all workers stop where they wait next."""
        self._failures.append((worker, error))
        for lock in (*self._go, *self._signals):
            _release(lock)

    def _raise(self, program: Program) -> None:
        """Raises what went wrong first, once everything is as before a step."""
        failures = [each for each in self._failures if not isinstance(each[1], _Stopped)]
        self._failures.clear()
        for lock in self._signals:
            lock.acquire(blocking=False)
        self._cells[:] = [None] * len(self._cells)
        worker, error = failures[0]
        for _, other in failures:
            if isinstance(other, KeyboardInterrupt):
                raise other
        task = _task_of(error, program.workers[worker].tasks)
        if task >= 0 and len(error.args) == 1 and isinstance(error.args[0], str):
            its = self._captured.graph.tasks[task]
            layer = f" of {its.layer}" if its.layer else ""
            error.args = (f"{error.args[0]} (in {its.name}{layer}, {its.phase})",)
        raise error

    def _check_batch(self, batch: Sequence[torch.Tensor]) -> None:
        layouts = [self._captured.layouts[slot] for slot in self._captured.given]
        if len(batch) != len(layouts):
            raise InvalidValueError(
                f"a batch of {len(batch)} tensors, where one of {len(layouts)} was captured",
                id="another-batch",
            )
        for tensor, layout in zip(batch, layouts, strict=True):
            if tensor.shape != layout.shape or tensor.stride() != layout.strides:
                raise InvalidValueError(
                    f"a batch of {tuple(tensor.shape)}, where one of {layout.shape} was captured",
                    id="another-batch",
                )

    def _write(self, *, traced: bool) -> Program:
        signals = [(lock.release, lock.acquire) for lock in self._signals]
        mark = self._tell if self.in_order else None
        return self._writer.write(signals, traced=traced, mark=mark)

    def _tell(self, phase: str) -> None:
        self._mark(phase)


def check(graph: TaskGraph, schedule: Schedule) -> None:
    """Refuses a plan that cannot be carried out here.

    Raises:
        InvalidValueError: Why.
    """
    count = len(graph.tasks)
    if sorted(placed.task for placed in schedule.placed) != list(range(count)):
        raise InvalidValueError(
            f"a plan must place each of {count} tasks once", id="invalid-schedule"
        )
    if not all(0 <= placed.worker < schedule.workers for placed in schedule.placed):
        raise InvalidValueError(
            f"a plan of {schedule.workers} workers places tasks beyond these", id="invalid-schedule"
        )
    in_order(graph, schedule)
    cores = os.sched_getaffinity(0)
    most = max((placed.threads for placed in schedule.placed), default=1)
    if max(most, schedule.workers) > len(cores):
        raise InvalidValueError(
            f"a plan of {schedule.workers} workers and up to {most} threads: this process may use {len(cores)} cores",
            id="too-many-threads",
        )
    if any(placed.threads < 1 for placed in schedule.placed):
        raise InvalidValueError("a task needs at least 1 thread", id="invalid-schedule")
    beyond = {core for placed in schedule.placed for core in placed.cores if core >= len(cores)}
    if beyond:
        raise InvalidValueError(
            f"a plan on cores {sorted(beyond)}, numbered from 0 on: this process may use {len(cores)} cores",
            id="refused-affinity",
        )


def _pin(cores: tuple[int, ...]) -> None:
    """Has the calling thread, and threads that it begins from now on, run on these cores; on all where none is named.

    Args:
        cores: Counted among those that the process may use.

    Raises:
        InvalidValueError: The system refuses.
    """
    usable = sorted(os.sched_getaffinity(os.getpid()))  # of the first thread, which is never pinned
    try:
        os.sched_setaffinity(
            threading.get_native_id(), [usable[core] for core in cores] if cores else usable
        )
    except (OSError, IndexError) as error:
        raise InvalidValueError(
            f"threads cannot be pinned to cores {list(cores)} here: {error}", id="refused-affinity"
        ) from error


def _stop() -> None:
    raise _Stopped


def _locked() -> LockType:
    lock = allocate_lock()
    lock.acquire()
    return lock


def _release(lock: LockType) -> None:
    with suppress(RuntimeError):  # nobody waits for it
        lock.release()


def _task_of(error: BaseException, tasks: Sequence[int]) -> int:
    """The task whose line raised; -1: none."""
    task, trace = -1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(WORKER):
            task = tasks[trace.tb_lineno - 1]
        trace = trace.tb_next
    return task

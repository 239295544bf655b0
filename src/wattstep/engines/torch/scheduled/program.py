"""Straight-line code for the tasks of a plan: a function for each worker, made once and run at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Final

import torch

from wattstep.engines.torch.scheduled.calls import Call, Slot
from wattstep.engines.torch.scheduled.capture import Captured
from wattstep.engines.torch.scheduled.fast_calls import fastest
from wattstep.schedule.tasks import Schedule
from wattstep.schedule.validity import in_order

ELSEWHERE: Final = -1  # the worker that takes what is left after a step


@contextmanager
def below_autograd() -> Iterator[None]:
    """Calls go straight to kernels: nothing is differentiated, nor are views followed."""
    with torch.no_grad():
        guard = torch._C._AutoDispatchBelowAutograd()
        try:
            yield
        finally:
            del guard


@dataclass
class _Line:
    """A statement, with the local variables that it makes and takes."""

    text: str
    makes: tuple[int, ...] = ()
    takes: tuple[int, ...] = ()
    task: int = -1


@dataclass(frozen=True, kw_only=True)
class WorkerCode:
    """What one worker does in a step.

    Attributes:
        run: Takes the exchange's cells and the tensors of the batch; where traced, a list of times first.
        source: Its text.
        tasks: The task that each of its lines is for, from line 1 on; -1: none.
    """

    run: Callable[..., None]
    source: str
    tasks: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Signal:
    """That a task has ended, told to a worker that waits there for it.

    Attributes:
        task: Which.
        before: Task of the other worker that waits.
    """

    task: int
    before: int


@dataclass(frozen=True, kw_only=True)
class Program:
    """The code of all workers.

    Attributes:
        workers: Each worker's.
        cells: Number of the places where workers leave tensors for each other.
        losses: Cells where the losses are found after the step.
        signals: In the order of the functions that were given for them.
    """

    workers: Sequence[WorkerCode]
    cells: int
    losses: Sequence[int]
    signals: Sequence[Signal]


def signals_of(captured: Captured, schedule: Schedule) -> list[Signal]:
    """The places where a worker waits for another: none that an earlier wait makes needless.

    Args:
        captured: The tasks.
        schedule: Their plan, which can be carried out.
    """
    waits = schedule.waits(captured.graph)
    at = {
        one.task: (worker, place)
        for worker, own in enumerate(schedule.by_worker())
        for place, one in enumerate(own)
    }
    known: dict[int, list[int]] = {}  # place that each worker has surely passed when a task ends
    signals = []
    for task in in_order(captured.graph, schedule):
        worker, place = at[task]
        passed = [-1] * schedule.workers
        for other in waits[task]:
            if at[other][0] == worker:
                passed = list(map(max, passed, known[other]))
        # The latest first: what it waited for need not be waited for again.
        for other in sorted(waits[task], key=lambda each: -at[each][1]):
            whose, where = at[other]
            if whose != worker and passed[whose] < where:
                signals.append(Signal(task=other, before=task))
                passed = list(map(max, passed, known[other]))
        passed[worker] = place
        known[task] = passed
    return signals


class Writer:
    """Writes the code of the workers of a plan.

    Args:
        captured: What is to be carried out.
        schedule: Which worker does what, in which order.
        pin: Told the numbers of cores before a task that runs on others than the one before.
        failed: Holds something once a worker has failed.
        stop: Called by a worker that was waiting meanwhile.
    """

    def __init__(
        self,
        captured: Captured,
        schedule: Schedule,
        pin: Callable[[tuple[int, ...]], None],
        failed: list[Any],
        stop: Callable[[], None],
    ) -> None:
        self._captured, self._schedule = captured, schedule
        self._by_worker = schedule.by_worker()
        self._worker_of = {one.task: one.worker for one in schedule.placed}
        self._place = {slot: place for place, slot in reversed(list(enumerate(captured.given)))}
        self._maker: dict[int, int] = {}  # the task that makes a slot which is not there before
        for task, call in enumerate(captured.calls):
            for slot in () if call is None else call.made:
                there = slot in captured.outside or slot in self._place or slot in captured.views
                if not (slot is None or there):
                    self._maker.setdefault(slot, task)
        self._names: dict[str, Any] = {
            "now": perf_counter_ns,
            "threads": torch.set_num_threads,
            "gradients": torch._C._set_grad_enabled,
            "pin": pin,
            "failed": failed,
            "stop": stop,
            "optimize": captured.optimize,
        }
        self._functions: dict[Any, str] = {}  # by what they call
        self._fastest: dict[int, Any] = {}  # by the call's identity
        self._constants: dict[int, str] = {}
        self._fixed: set[int] = set()
        for slot, tensor in captured.outside.items():
            self._fix(slot, tensor.detach())
        self._signals = signals_of(captured, schedule)
        self.sent: dict[int, list[int]] = {}
        self.awaited: dict[int, list[int]] = {}
        for number, signal in enumerate(self._signals):
            self.sent.setdefault(signal.task, []).append(number)
            self.awaited.setdefault(signal.before, []).append(number)
        self._cells: dict[tuple[int, int], int] = {}  # of a slot for a worker

    def write(
        self,
        signals: Sequence[tuple[Callable[[], Any], Callable[[], Any]]],
        *,
        traced: bool = False,
        mark: Callable[[str], None] | None = None,
    ) -> Program:
        """The functions of all workers.

        Args:
            signals: For each signal what its sender calls, and what its receiver calls.
            traced: Whether times are taken: in ns, begin and end of task i at 2 i and 2 i + 1, behind those of
                n tasks those of the wait for signal j at 2 (n + j) and the next.
            mark: Told the phases where they begin; for a plan of one worker in the framework's order.
        """
        for number, (send, wait) in enumerate(signals):
            self._names[f"r{number}"], self._names[f"a{number}"] = send, wait
        self._names["mark"] = mark
        for slot in self._captured.losses:
            self._cell(slot, ELSEWHERE)
        bodies = [
            _Body(self, worker, traced, mark is not None)
            for worker in range(self._schedule.workers)
        ]
        for body in bodies:  # what each takes of the others must be known before these are written
            body.plan()
        self.cells_of: dict[int, list[int]] = {}
        for (slot, _), cell in self._cells.items():
            self.cells_of.setdefault(slot, []).append(cell)
        workers = [self._compiled(body.lines(), traced, body.worker) for body in bodies]
        return Program(
            workers=workers,
            cells=len(self._cells),
            losses=[self._cells[slot, ELSEWHERE] for slot in self._captured.losses],
            signals=self._signals,
        )

    @property
    def signals(self) -> Sequence[Signal]:
        """Those that `write` needs functions for."""
        return self._signals

    def _compiled(self, lines: Sequence[_Line], traced: bool, worker: int) -> WorkerCode:
        given = [f"b{place}" for place in range(len(self._captured.given))]
        times = ["t"] if traced else []
        head = f"def worker({', '.join([*times, 's', *given])}):"
        texts = [head, *(f" {line.text}" for line in lines), " return None"]
        source = "\n".join(texts)
        scope = self._names
        exec(compile(source, f"<worker {worker}>", "exec"), scope)  # our own text
        return WorkerCode(
            run=scope.pop("worker"),
            source=source,
            tasks=[-1, *(line.task for line in lines), -1],
        )

    # --- names ----------------------------------------------------------------------------------

    def _fix(self, slot: int, tensor: Any) -> None:
        self._fixed.add(slot)
        self._names[f"p{slot}"] = tensor

    def _cell(self, slot: int, worker: int) -> int:
        return self._cells.setdefault((slot, worker), len(self._cells))

    def _function(self, call: Call) -> str:
        """The name of what a call calls."""
        function = self._fastest.get(id(call))
        if function is None:
            function = self._fastest[id(call)] = fastest(call, self._captured.layouts)
        if function not in self._functions:
            name = self._functions[function] = f"f{len(self._functions)}"
            self._names[name] = function
        return self._functions[function]

    def _constant(self, value: Any) -> str:
        name = self._constants.get(id(value))
        if name is None:
            name = self._constants[id(value)] = f"c{len(self._constants)}"
            self._names[name] = value  # which keeps it, and so its id
        return name

    def _spell(self, value: Any) -> str:
        """An argument as source."""
        if isinstance(value, Slot):
            return self._variable(value.number)
        if isinstance(value, (list, tuple)):
            parts = ", ".join(map(self._spell, value))
            if any(isinstance(each, Slot) for each in value):
                return f"[{parts}]"
            return f"({parts},)" if value else "()"
        plain = value is None or isinstance(value, (bool, int, str))
        finite = isinstance(value, float) and value - value == 0
        return repr(value) if plain or finite else self._constant(value)

    def _variable(self, slot: int) -> str:
        if slot in self._fixed:
            return f"p{slot}"
        place = self._place.get(slot)
        return f"v{slot}" if place is None else f"b{place}"


class _Body:
    """The statements of one worker."""

    def __init__(self, writer: Writer, worker: int, traced: bool, marked: bool) -> None:
        self.worker = worker
        self._writer, self._traced, self._marked = writer, traced, marked
        self._own = writer._by_worker[worker]
        self._lines: list[_Line] = []
        self._there: set[int] = set()  # slots that have variables

    def plan(self) -> None:
        """Asks the other workers for what they make and this one takes."""
        writer = self._writer
        for placed in self._own:
            for slot in self._roots(placed.task):
                maker = writer._maker.get(slot)
                if maker is not None and writer._worker_of[maker] != self.worker:
                    writer._cell(slot, self.worker)

    def _roots(self, task: int) -> Iterator[int]:
        """Slots that a task takes, those below views in their place."""
        captured = self._writer._captured
        call = captured.calls[task]
        stack = (
            list(call.taken())
            if call is not None
            else [s for s in captured.gradients if s is not None]
        )
        seen: set[int] = set()
        while stack:
            slot = stack.pop()
            if slot in seen:
                continue
            seen.add(slot)
            view = captured.views.get(slot)
            if slot not in self._writer._maker and view is not None:
                stack += view.taken()
            else:
                yield slot

    def lines(self) -> list[_Line]:
        """All statements, with variables dropped after their last use."""
        writer, captured = self._writer, self._writer._captured
        threads, phase = 0, ""
        cores: tuple[int, ...] = ()
        gradients: bool | None = None
        for placed in self._own:
            task = placed.task
            for number in writer.awaited.get(task, ()):
                place = 2 * (len(writer._captured.graph.tasks) + number)
                if self._traced:
                    self._add(f"t[{place}] = now()", task=task)
                self._add(f"a{number}()", task=task)
                if self._traced:
                    self._add(f"t[{place + 1}] = now()", task=task)
                self._add("if failed: stop()", task=task)
            if placed.threads != threads:
                threads = placed.threads
                self._add(f"threads({threads})", task=task)
            if placed.cores != cores:
                cores = placed.cores
                self._add(f"pin({cores!r})", task=task)
            call = captured.calls[task]
            if gradients is not (enabled := call is None or call.gradients):
                gradients = enabled
                self._add(f"gradients({enabled})", task=task)
            its_phase = captured.graph.tasks[task].phase
            if self._marked and its_phase != phase:
                phase = its_phase
                self._add(f"mark({phase!r})", task=task)
            if self._traced:
                self._add(f"t[{2 * task}] = now()", task=task)
            self._run(task, call)
            if self._traced:
                self._add(f"t[{2 * task + 1}] = now()", task=task)
            for number in writer.sent.get(task, ()):
                self._add(f"r{number}()", task=task)
        return self._dropped()

    def _run(self, task: int, call: Call | None) -> None:
        writer = self._writer
        if call is None:
            slots = writer._captured.gradients
            for slot in slots:
                if slot is not None:
                    self._need(slot, task)
            taken = tuple(slot for slot in slots if slot is not None)
            given = ", ".join("None" if slot is None else writer._variable(slot) for slot in slots)
            self._add(f"optimize({given})", takes=taken, task=task)
            return
        for slot in call.taken():
            self._need(slot, task)
        self._call(call, task)
        for slot in call.made:
            if slot is None or writer._maker.get(slot) != task:
                continue
            for cell in writer.cells_of.get(slot, ()):
                self._add(f"s[{cell}] = {writer._variable(slot)}", takes=(slot,), task=task)

    def _call(self, call: Call, task: int) -> None:
        """The statement of a call."""
        writer = self._writer
        arguments = [writer._spell(each) for each in call.args]
        arguments += [f"{name}={writer._spell(each)}" for name, each in call.kwargs.items()]
        text = f"{writer._function(call)}({', '.join(arguments)})"
        fresh = [
            slot if slot is not None and slot not in self._there and slot not in writer._fixed
            and slot not in writer._place else None
            for slot in call.made
        ]  # fmt: skip
        makes = tuple(slot for slot in fresh if slot is not None)
        if makes:
            names = ["_" if slot is None else writer._variable(slot) for slot in fresh]
            made = f"{', '.join(names)}," if call.several and len(names) == 1 else ", ".join(names)
            text = f"{made} = {text}"
        self._there.update(makes)
        self._add(text, makes=makes, takes=tuple(call.taken()), task=task)

    def _need(self, slot: int, task: int) -> None:
        """Has a variable for a slot."""
        writer, captured = self._writer, self._writer._captured
        if slot in self._there or slot in writer._fixed or slot in writer._place:
            return
        maker = writer._maker.get(slot)
        if maker is not None:
            cell = writer._cell(slot, self.worker)
            self._add(f"v{slot} = s[{cell}]; s[{cell}] = None", makes=(slot,), task=task)
            self._there.add(slot)
            return
        view = captured.views[slot]
        if all(each in writer._fixed for each in view.taken()):
            self._fix_view(view)
            return
        for each in view.taken():
            self._need(each, task)
        self._call(view, task)

    def _fix_view(self, view: Call) -> None:
        """A view of what is there in all steps is made once."""
        writer = self._writer

        def real(value: Any) -> Any:
            if isinstance(value, Slot):
                return writer._names[f"p{value.number}"]
            if isinstance(value, (list, tuple)):
                return type(value)(map(real, value))
            return value

        with below_autograd():
            made = view.func(*map(real, view.args), **{k: real(v) for k, v in view.kwargs.items()})
        for slot, tensor in zip(view.made, made if view.several else (made,), strict=True):
            if slot is not None:
                writer._fix(slot, tensor)

    def _add(
        self, text: str, *, makes: tuple[int, ...] = (), takes: tuple[int, ...] = (), task: int
    ) -> None:
        self._lines.append(_Line(text, makes, takes, task))

    def _dropped(self) -> list[_Line]:
        """The statements, and after each the end of what is not used later."""
        last: dict[int, int] = {}
        for place, line in enumerate(self._lines):
            for slot in (*line.makes, *line.takes):
                last[slot] = place
        ends: dict[int, list[int]] = {}
        for slot, place in last.items():
            if slot in self._there:
                ends.setdefault(place, []).append(slot)
        lines = []
        for place, line in enumerate(self._lines):
            lines.append(line)
            if place in ends:
                names = ", ".join(f"v{slot}" for slot in sorted(ends[place]))
                lines.append(_Line(f"del {names}", task=line.task))
        return lines

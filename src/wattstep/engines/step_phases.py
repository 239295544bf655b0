"""Names the phases of a step from what runs in it: batches, forward and backward passes, optimizers."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final, Protocol

DATA: Final = "data"
FORWARD: Final = "forward"
BACKWARD: Final = "backward"
OPTIMIZER: Final = "optimizer"
LOOP: Final = "loop"  # the script's own code, where nothing tells what it is for
CLEARING: Final = "clearing"  # of gradients
_PHASE: Final = {CLEARING: OPTIMIZER}  # of what does not have its own


MOST_EVENTS = (
    4096  # events of a step that are kept; an evaluation that nobody announced has millions
)


class Marked(Protocol):
    """Recorder in which phases are marked."""

    @property
    def phases_on(self) -> bool:
        """True if the step that runs carries marks."""

    @property
    def tracing(self) -> bool:
        """True if the step that runs is traced."""

    def boundary(self) -> int:
        """Now, in ns, as a place in a traced step where a phase may turn out to have begun."""

    @property
    def phase(self) -> Callable[..., None]:
        """Told of the name of a phase that began, and when, in ns."""

    def update(self, name: str, at_ns: int) -> None:
        """An optimizer has updated its parameters."""


class StepPhases:
    """The phases of one step after another.

    What runs is told by its beginning and end: `data` is the loading of a batch, `forward` a call
    of a network, `backward` the computation of gradients, `optimizer` the step of an optimizer or
    the clearing of its gradients. What lies between two of them is named when the second begins:

    - before `backward` it is `forward`: the loss;
    - between `backward` and the step of an optimizer it is `optimizer`: clipping, unscaling;
    - else it goes on as what ran before it after `data` and `forward` (preparing the batch, losses
      between two networks), and is `loop` after `backward`, an optimizer, and the step's beginning;
      the clearing of gradients changes nothing: it may stand at either end of a step.

    What runs within something else (the closure of an optimizer) has its own phase, and the outer
    one goes on after it.

    While the step runs only times are kept, each taken before anything else is done: what it costs to
    name the phases lies behind the end of the step.

    Attributes:
        on: True if the step that runs carries marks; else nothing needs to be told.

    Args:
        marked: Is told of the phases.
        loop: True if a step has code of a script's own; a trainer's goes on as what ran before it.
    """

    def __init__(self, marked: Marked, *, loop: bool = True) -> None:
        self._marked = marked
        self._loop = loop
        self.on = False
        self._now: Callable[[], int] = perf_counter_ns
        # When, what, and whether it began (1), ended (0), or is an update whose name `what` tells (2).
        self._events: list[tuple[int, Any, int]] = []
        self._open: list[str] = []
        self._current = ""
        self._before = ""  # what ended last
        self._between = LOOP  # what follows it, where nothing else is known
        self._ended_ns = 0  # when it ended; 0: what runs has begun since

    def begin(self) -> None:
        """A step has begun."""
        self.on = self._marked.phases_on
        if self.on:
            self._now = self._marked.boundary if self._marked.tracing else perf_counter_ns
            self._ended_ns = self._now()
            self._events.clear()
            self._open.clear()
            self._current = self._before = ""
            self._between = LOOP if self._loop else DATA

    def enter(self, what: str) -> None:
        """Something begins to run."""
        if self.on:
            self._events.append((self._now(), what, 1))
            if len(self._events) >= MOST_EVENTS:
                self._name()

    def leave(self, what: str) -> None:
        """It has ended."""
        if self.on:
            self._events.append((self._now(), what, 0))

    def update(self, name: Callable[[], str]) -> None:
        """An optimizer's step has just ended; `name` tells what it has updated."""
        if self.on:
            at_ns = self._events[-1][0] if self._events else self._ended_ns
            self._events.append((at_ns, name, 2))

    def end(self) -> None:
        """The step has ended: its phases are told; what followed the gradients used them."""
        if self.on:
            self._name()
            if self._before == BACKWARD and self._ended_ns and not self._open:
                self._mark(OPTIMIZER, self._ended_ns)
            self.on = False

    def _name(self) -> None:
        """Tells the phases of what has happened so far."""
        for at_ns, what, kind in self._events:
            if kind == 1:
                self._settle(what)
                self._open.append(what)
                self._mark(_PHASE.get(what, what), at_ns)
            elif kind == 2:
                self._marked.update(what(), at_ns)
            elif what in self._open:
                self._left(what, at_ns)
        self._events.clear()

    def _left(self, what: str, at_ns: int) -> None:
        self._settle("")
        while self._open.pop() != what:
            pass  # what it held was ended by an exception
        self._ended_ns, self._before = at_ns, what
        if what != CLEARING:
            goes_on = what in (DATA, FORWARD) or not self._loop
            self._between = what if goes_on else LOOP

    def _settle(self, coming: str) -> None:
        """Names what has run since something ended last, before something begins, or ends ("")."""
        if not self._ended_ns:
            return
        name = _PHASE.get(self._open[-1], self._open[-1]) if self._open else self._between
        if coming == BACKWARD:
            name = FORWARD
        elif coming == OPTIMIZER and self._before == BACKWARD:
            name = OPTIMIZER
        self._mark(name, self._ended_ns)
        self._ended_ns = 0

    def _mark(self, name: str, since_ns: int) -> None:
        if name != self._current:
            self._current = name
            self._marked.phase(name, since_ns)


class PhaseTeller:
    """Hands on what `engines.torch.phase_hooks` tells of a training to the phases of its steps.

    Args:
        marked: Is told of the phases.
        loop: As `StepPhases` takes it.

    Attributes:
        phases: Of the step that runs.
    """

    def __init__(self, marked: Marked, *, loop: bool = True) -> None:
        self.phases = StepPhases(marked, loop=loop)

    def forward_begins(self, module: Any, gradients: bool) -> None:
        """A network is called."""
        self.phases.enter(FORWARD)

    def forward_ends(self) -> None:
        """Ends the forward pass; the phase after it is told by what comes next."""
        self.phases.leave(FORWARD)

    def backward_begins(self) -> None:
        """Gradients are being computed."""
        self.phases.enter(BACKWARD)

    def backward_ends(self) -> None:
        """They have been."""
        self.phases.leave(BACKWARD)

    def optimizer_begins(self) -> None:
        """An optimizer makes its step."""
        self.phases.enter(OPTIMIZER)

    def optimizer_ends(self, name: Callable[[], str]) -> None:
        """It has."""
        self.phases.leave(OPTIMIZER)
        self.phases.update(name)

    def clearing_begins(self) -> None:
        """Gradients are cleared."""
        self.phases.enter(CLEARING)

    def clearing_ends(self) -> None:
        """They have been."""
        self.phases.leave(CLEARING)

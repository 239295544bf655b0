"""Names the phases of a step from what runs in it: batches, forward and backward passes, optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

DATA: Final = "data"
FORWARD: Final = "forward"
BACKWARD: Final = "backward"
OPTIMIZER: Final = "optimizer"
LOOP: Final = "loop"  # the script's own code, where nothing tells what it is for
CLEARING: Final = "clearing"  # of gradients
_PHASE: Final = {CLEARING: OPTIMIZER}  # of what does not have its own


class Marked(Protocol):
    """Where phases are marked: a recorder."""

    @property
    def phases_on(self) -> bool:
        """Whether the step that runs carries marks."""

    def boundary(self) -> int:
        """Now, in ns, as a place where a phase may turn out to have begun."""

    def phase(self, name: str, since_ns: int = 0) -> None:
        """A phase begins, now or at a boundary."""

    def update(self, name: str) -> None:
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

    Args:
        marked: Is told of the phases.
        loop: Whether a step has code of a script's own; a trainer's goes on as what ran before it.
    """

    def __init__(self, marked: Marked, *, loop: bool = True) -> None:
        self._marked = marked
        self._loop = loop
        self._on = False
        self._open: list[str] = []
        self._current = ""
        self._before = ""  # what ended last
        self._between = LOOP  # what follows it, where nothing else is known
        self._ended_ns = 0  # when it ended; 0: what runs has begun since

    def begin(self) -> None:
        """A step begins."""
        self._open.clear()
        self._on = self._marked.phases_on
        if self._on:
            self._current = self._before = ""
            self._between = LOOP if self._loop else DATA
            self._ended_ns = self._marked.boundary()

    def enter(self, what: str) -> None:
        """Something begins to run."""
        if not self._on:
            return
        self._settle(what)
        self._open.append(what)
        self._mark(_PHASE.get(what, what))

    def leave(self, what: str) -> None:
        """It has ended."""
        if not self._on or what not in self._open:
            return
        self._settle("")
        while self._open.pop() != what:
            pass  # what it held was ended by an exception
        self._ended_ns = self._marked.boundary()
        self._before = what
        if what != CLEARING:
            goes_on = what in (DATA, FORWARD) or not self._loop
            self._between = what if goes_on else LOOP

    def update(self, name: Callable[[], str]) -> None:
        """An optimizer's step has just ended; `name` tells what it has updated."""
        if self._on:
            self._marked.update(name())

    def end(self) -> None:
        """The step ends: what followed the gradients, up to here, used them."""
        if self._on and self._before == BACKWARD and self._ended_ns and not self._open:
            self._mark(OPTIMIZER, self._ended_ns)
        self._on = False

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

    def _mark(self, name: str, since_ns: int = 0) -> None:
        if name != self._current:
            self._current = name
            self._marked.phase(name, since_ns)


class PhaseTeller:
    """Hands on what `tracing.torch_phases` tells of a training to the phases of its steps.

    Args:
        marked: Is told of the phases.
        loop: As `StepPhases` takes it.
    """

    def __init__(self, marked: Marked, *, loop: bool = True) -> None:
        self._phases = StepPhases(marked, loop=loop)

    def forward_begins(self, module: Any, gradients: bool) -> None:
        """A network is called."""
        self._phases.enter(FORWARD)

    def forward_ends(self) -> None:
        """What follows is told by what comes next."""
        self._phases.leave(FORWARD)

    def backward_begins(self) -> None:
        """Gradients are being computed."""
        self._phases.enter(BACKWARD)

    def backward_ends(self) -> None:
        """They have been."""
        self._phases.leave(BACKWARD)

    def optimizer_begins(self) -> None:
        """An optimizer makes its step."""
        self._phases.enter(OPTIMIZER)

    def optimizer_ends(self, name: Callable[[], str]) -> None:
        """It has."""
        self._phases.leave(OPTIMIZER)
        self._phases.update(name)

    def clearing_begins(self) -> None:
        """Gradients are cleared."""
        self._phases.enter(CLEARING)

    def clearing_ends(self) -> None:
        """They have been."""
        self._phases.leave(CLEARING)

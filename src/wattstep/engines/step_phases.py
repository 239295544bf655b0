"""Names the phases of a step from what runs in it: batches, forward and backward passes, optimizers."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final, Protocol

DATA: Final = "data"
FORWARD: Final = "forward"
BACKWARD: Final = "backward"
CLIPPING: Final = "clipping"  # of gradients
OPTIMIZER: Final = "optimizer"
LOOP: Final = "loop"  # the script's own code, where nothing tells what it is for
CLEARING: Final = "clearing"  # of gradients
_PHASE: Final = {CLEARING: OPTIMIZER}  # of what does not have its own


MOST_EVENTS = (
    4096  # events of a step that are kept; an evaluation that nobody announced has millions
)


class Marked(Protocol):
    """What marks phases: the `steps` of a recorder."""

    @property
    def phases_on(self) -> bool:
        """True if the step that runs carries marks."""

    @property
    def tracing(self) -> bool:
        """True if the step that runs is traced."""

    @property
    def on_device(self) -> bool:
        """True if steps have a place on the timeline of a device, too."""

    def boundary(self) -> int:
        """Now, in ns, as a place in the step, and on a device, where a phase may turn out to have begun."""

    @property
    def phase(self) -> Callable[..., None]:
        """Told of the name of a phase that began, and when, in ns."""

    def update(self, name: str, at_ns: int) -> None:
        """An optimizer has updated its parameters."""


class StepPhases:
    """The phases of one step after another.

    What runs is told by its beginning and end: `data` is the loading of a batch, `forward` a call
    of a network, `backward` the computation of gradients, `clipping` that of their norm or values,
    `optimizer` the step of an optimizer or the clearing of its gradients. What lies between two of
    them is named when the second begins:

    - before `backward` it is `forward`: the loss; where no network is called, and it is known when
      the autograd graph begins (`builds`), from there on;
    - between `backward` and `clipping` it is `clipping`;
    - between either and the step of an optimizer it is `optimizer`: unscaling; of a training that
      has no optimizer, between either and the end of the first block without gradients;
    - else it goes on as what ran before it after `data` and `forward` (preparing the batch, losses
      between two networks), and is `loop` after `backward`, an optimizer, and the step's beginning;
      the clearing of gradients changes nothing: it may stand at either end of a step.

    What runs within something else (the closure of an optimizer) has its own phase, and the outer
    one goes on after it.

    While the step runs only times are kept, each taken before anything else is done: what it costs to
    name the phases lies behind the end of the step.

    Attributes:
        on: True if the step that runs carries marks; else nothing needs to be told.
        by_hand: True if the last step that carried marks had no optimizer.

    Args:
        marked: Is told of the phases.
        loop: True if a step has code of a script's own; a trainer's goes on as what ran before it.
    """

    def __init__(self, marked: Marked, *, loop: bool = True) -> None:
        self._marked = marked
        self._loop = loop
        self.on = self.by_hand = False
        self._now: Callable[[], int] = perf_counter_ns
        # When, what, and whether it began (1), ended (0), is an update whose name `what` tells (2), the
        # begin of an autograd graph (3) or the end of a block without gradients (4).
        self._events: list[tuple[int, Any, int]] = []
        self._open: list[str] = []
        self._current = ""
        self._before = ""  # what ended last
        self._between = LOOP  # what follows it, where nothing else is known
        self._ended_ns = 0  # when it ended; 0: what runs has begun since
        self._building = False  # an autograd graph is known to have begun, outside of networks
        self._unused = False  # gradients are there that nothing has used; also of the step before
        self._optimized = False  # an optimizer ran in this step

    def begin(self) -> None:
        """A step has begun."""
        self.on = self._marked.phases_on
        if self.on:
            marked = self._marked
            placed = marked.tracing or marked.on_device
            self._now = marked.boundary if placed else perf_counter_ns
            self._ended_ns = self._now()
            self._events.clear()
            self._open.clear()
            self._current = self._before = ""
            self._building = self._optimized = False
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

    def builds(self) -> None:
        """An operation keeps the first value for gradients: an autograd graph begins."""
        if self.on:
            self._events.append((self._now(), FORWARD, 3))

    def without_gradients(self) -> None:
        """A block without gradients has just ended, where an update by hand may have been made."""
        if self.on:
            self._events.append((self._now(), OPTIMIZER, 4))

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
            self.by_hand = not self._optimized
            self.on = False

    def _name(self) -> None:
        """Tells the phases of what has happened so far."""
        for at_ns, what, kind in self._events:
            if kind == 1:
                self._settle(what)
                self._open.append(what)
                self._optimized |= what == OPTIMIZER
                self._unused &= what not in (FORWARD, OPTIMIZER)
                self._mark(_PHASE.get(what, what), at_ns)
            elif kind == 2:
                self._marked.update(what(), at_ns)
            elif kind == 3:
                self._built(at_ns)
            elif kind == 4:
                self._updated_by_hand(at_ns)
            elif what in self._open:
                self._left(what, at_ns)
        self._events.clear()

    def _built(self, at_ns: int) -> None:
        """A graph begins at that time; within anything but a closure it has a phase already."""
        if self._building or (self._open and self._open[-1] != OPTIMIZER):
            return
        self._settle("")
        self._building, self._unused, self._ended_ns = True, False, at_ns

    def _updated_by_hand(self, at_ns: int) -> None:
        """What has run since there were gradients has used them, unless something else has."""
        if self._unused and not self._open:
            self._mark(OPTIMIZER, self._ended_ns)
            self._unused, self._ended_ns = False, at_ns
            self._before, self._between = OPTIMIZER, LOOP

    def _left(self, what: str, at_ns: int) -> None:
        self._settle("")
        while self._open.pop() != what:
            pass  # what it held was ended by an exception
        self._ended_ns, self._before = at_ns, what
        if what == BACKWARD:
            self._building, self._unused = False, True
        if what != CLEARING:
            goes_on = what in (DATA, FORWARD) or not self._loop
            self._between = what if goes_on else LOOP

    def _settle(self, coming: str) -> None:
        """Names what has run since something ended last, before something begins, or ends ("")."""
        if not self._ended_ns:
            return
        name = _PHASE.get(self._open[-1], self._open[-1]) if self._open else self._between
        if coming == BACKWARD or self._building:
            name = FORWARD
        elif coming == CLIPPING and self._before == BACKWARD:
            name = CLIPPING
        elif coming == OPTIMIZER and self._before in (BACKWARD, CLIPPING):
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

    def graph_begins(self) -> None:
        """An operation outside of networks keeps the first value for gradients."""
        self.phases.builds()

    def no_gradients_end(self) -> None:
        """A block without gradients has ended, in a training without optimizers."""
        self.phases.without_gradients()

    def clipping_begins(self) -> None:
        """Gradients are clipped."""
        self.phases.enter(CLIPPING)

    def clipping_ends(self) -> None:
        """They have been."""
        self.phases.leave(CLIPPING)

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

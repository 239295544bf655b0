"""What an engine tells of a training that somebody else's script or trainer runs, and what is put into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class ScriptTuning:
    """Settings that are put into somebody's own script; what is None stays as the script has it.

    Attributes:
        threads: Of an operation.
        interop_threads: As `Preparation` has it.
        channels_last: Whether models lie with their channels last.
        compiled: Whether models are compiled.
        optimizer_kernel: As `Preparation` has it, of optimizers that say nothing of it.
        loader_workers: Processes of each data loader that says nothing of them.
        nudge: Whether models are moved by one rounding, as `Trainer.nudge` does.
        on_loss: Told the value from which each backward pass begins.
    """

    threads: int | None = None
    interop_threads: int | None = None
    channels_last: bool = False
    compiled: bool = False
    optimizer_kernel: str | None = None
    loader_workers: int | None = None
    nudge: bool = False
    on_loss: Callable[[float], None] | None = None


class Phases(Protocol):
    """Those of the step that runs."""

    @property
    def on(self) -> bool:
        """True if the step carries marks."""
        ...

    @property
    def by_hand(self) -> bool:
        """True if the last step that carried marks had no optimizer."""
        ...


class PhaseListener(Protocol):
    """Receiver of the events of a step; see `Engine.follow`."""

    @property
    def phases(self) -> Phases:
        """Say whether the step that runs carries marks; else only `forward_begins` need be told."""
        ...

    def forward_begins(self, module: Any, gradients: bool) -> None:
        """A network is called by the script, not by another module; with gradients or without.

        In steps without marks the calls of networks by other networks are told as well.
        """
        ...

    def forward_ends(self) -> None:
        """It has returned, or raised."""
        ...

    def backward_begins(self) -> None:
        """Gradients are being computed, by whatever function."""
        ...

    def backward_ends(self) -> None:
        """They have been."""
        ...

    def graph_begins(self) -> None:
        """An operation keeps the first value for gradients; told where networks tell nothing."""
        ...

    def no_gradients_end(self) -> None:
        """A block without gradients (torch's `no_grad`) ends; told where no optimizer tells of updates."""
        ...

    def clipping_begins(self) -> None:
        """Gradients are clipped."""
        ...

    def clipping_ends(self) -> None:
        """They have been."""
        ...

    def optimizer_begins(self) -> None:
        """An optimizer makes its step."""
        ...

    def optimizer_ends(self, name: Callable[[], str]) -> None:
        """It has; `name` tells what it has updated."""
        ...

    def clearing_begins(self) -> None:
        """An optimizer clears its gradients."""
        ...

    def clearing_ends(self) -> None:
        """It has."""
        ...


class Listener(PhaseListener, Protocol):
    """Receiver of the events of somebody's own script; see `Engine.listen`."""

    @property
    def tracing(self) -> bool:
        """True if the step that runs is traced."""
        ...

    def data_begins(self) -> None:
        """A batch is asked for."""
        ...

    def data_ends(self, samples: int | None) -> None:
        """It is there; so many samples, where that can be seen."""
        ...

    def step_ends(self) -> None:
        """The optimizer has made its step."""
        ...

    def model_found(self, model: Any) -> None:
        """This module is called by the script itself, not by another module."""
        ...

    def profiler_found(self, name: str) -> None:
        """The script makes a profiler of its own."""
        ...


class TrainingHooks(Protocol):
    """Hooks in the networks and optimizers of a training that somebody else's trainer runs."""

    def step_begins(self) -> None:
        """Nothing runs: what an exception left open is closed."""
        ...

    def discover(self, on: bool) -> None:
        """Looks for networks, or stops to."""
        ...

    def remove(self) -> None:
        """Takes all of them out."""
        ...

"""The ledger of a step's tensors: which storage was there during which operation, and what it was for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

PARAMETERS = "parameters"
BUFFERS = "buffers"
GRADIENTS = "gradients"
OPTIMIZER_STATE = "optimizer_state"
INPUT = "input"
FEATURE_MAPS = "feature_maps"
WORKSPACE = "workspace"
HELD = "held_tensors"
CATEGORIES = (
    PARAMETERS, BUFFERS, GRADIENTS, OPTIMIZER_STATE, INPUT, FEATURE_MAPS, WORKSPACE, HELD,
)  # fmt: skip
STEP_PHASES = ("forward", "backward", "optimizer")  # whatever else a step does prepares its data


@dataclass(kw_only=True, slots=True, eq=False)
class Storage:
    """Memory that one or several tensors share.

    Attributes:
        size: Bytes.
        made: The operation that made it or that saw it first; 0: it was there before the step.
        phase: In which phase that was.
        recorded: True if gradients were being recorded then (as in a forward pass).
        device: As torch names its kind, e.g. "cpu".
        freed: The first operation during which it was no longer there; None: it outlived the step.
        label: Its category where its owner says so (model, optimizer), else None.
        reached_forward: True if a later operation of a forward pass ran while it was there.
        reached_backward: True if a later operation of a backward pass did.
    """

    size: int
    made: int
    phase: str
    recorded: bool
    device: str
    freed: int | None = None
    label: str | None = None
    reached_forward: bool = False
    reached_backward: bool = False

    @property
    def category(self) -> str:
        """Category of the allocation, of `CATEGORIES`."""
        if self.label is not None:
            return self.label
        if self.made == 0:
            return HELD
        if (self.recorded and self.phase in STEP_PHASES) or self.phase == "forward":
            return FEATURE_MAPS if self.reached_backward else WORKSPACE
        if self.phase not in STEP_PHASES:
            return INPUT if self.reached_forward else WORKSPACE
        return WORKSPACE


@dataclass(kw_only=True, slots=True)
class Ledger:
    """Storages by the operations of a step, which are counted from 1.

    Attributes:
        operation: The one that runs or ran last.
        phase: The phase of the step.
        storages: All that were seen.
    """

    operation: int = 0
    phase: str = "data"
    storages: list[Storage] = field(default_factory=list)
    _last_forward: int = 0
    _last_backward: int = 0

    def begin(self, *, recorded: bool) -> int:
        """An operation begins, with gradients being recorded or not. Returns its number.

        What a backward pass computes anew with gradients on (checkpointing) counts as forward.
        """
        self.operation += 1
        if self.phase == "forward":
            self._last_forward = self.operation
        elif self.phase == "backward" and not recorded:
            self._last_backward = self.operation
        return self.operation

    def add(self, size: int, *, recorded: bool, device: str) -> Storage:
        """A storage is seen for the first time."""
        storage = Storage(
            size=size, made=self.operation, phase=self.phase, recorded=recorded, device=device
        )
        self.storages.append(storage)
        return storage

    def free(self, storage: Storage) -> None:
        """A storage is gone: the operation that ran last is the last that saw it."""
        storage.freed = self.operation + 1
        self._note_reach(storage)

    def close(self) -> None:
        """The step has ended."""
        for storage in self.storages:
            if storage.freed is None:
                self._note_reach(storage)

    def _note_reach(self, storage: Storage) -> None:
        storage.reached_forward = self._last_forward > storage.made
        storage.reached_backward = self._last_backward > storage.made

    # --- what there was, once the step has ended ---------------------------------------------

    def during(self, operation: int, device: str = "cpu") -> dict[str, int]:
        """Bytes by category while an operation ran, what it made included."""
        sizes = dict.fromkeys(CATEGORIES, 0)
        for storage in self._on(device):
            if storage.made <= operation and (storage.freed is None or storage.freed > operation):
                sizes[storage.category] += storage.size
        return sizes

    def heaviest(self, device: str = "cpu") -> int:
        """The first operation during which most bytes were there."""
        levels = self._levels(self._on(device))
        return levels.index(max(levels))

    def highest(self, device: str = "cpu") -> dict[str, int]:
        """The most bytes that each category had, each at a moment of its own."""
        by_category: dict[str, list[Storage]] = {category: [] for category in CATEGORIES}
        for storage in self._on(device):
            by_category[storage.category].append(storage)
        return {category: max(self._levels(storages)) for category, storages in by_category.items()}

    def _on(self, device: str) -> list[Storage]:
        return [storage for storage in self.storages if storage.device == device]

    def _levels(self, storages: Iterable[Storage]) -> list[int]:
        """Bytes during each operation, from 0 on."""
        changes = [0] * (self.operation + 2)
        for storage in storages:
            changes[storage.made] += storage.size
            if storage.freed is not None:
                changes[storage.freed] -= storage.size
        return list(accumulate(changes[:-1]))

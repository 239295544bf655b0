"""The calls of operations that one parameter update makes: what each takes, makes and changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Slot:
    """Stands for a tensor among the arguments of a call.

    Attributes:
        number: Of the tensor's place in `Recording.layouts`.
    """

    number: int


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a tensor lies in its storage.

    Attributes:
        storage: Number of the storage.
        offset: Of its first element, in elements.
        shape: Its sizes.
        strides: In elements.
        dtype: Of its elements.
    """

    storage: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of an ATen operation.

    Attributes:
        func: The overload.
        args: With a `Slot` for each tensor.
        kwargs: Likewise.
        made: Slot numbers of its results in their order; None for a result that is no tensor.
        several: Whether results come as a sequence.
        view: Whether all that it makes lies in storages that it takes, and it changes none.
        reads: Numbers of the storages that it takes.
        writes: Numbers of the storages that it makes or changes.
        flops: Floating-point operations, multiply-adds as two.
        bytes_moved: Bytes read and written.
        shapes: Shapes of its tensors, as `marked_tracer.shapes_text` takes them.
        layer: Path of the module that it runs for; "" where none is known.
        phase: "forward", "backward" or "optimizer".
        gradients: Whether gradients were enabled: some kernels keep more then for the backward pass.
    """

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    made: tuple[int | None, ...]
    several: bool
    view: bool
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    flops: int
    bytes_moved: int
    shapes: tuple[Any, ...]
    layer: str
    phase: str
    gradients: bool

    @property
    def name(self) -> str:
        """As traces show it, e.g. "aten::mm"."""
        return f"{self.func.namespace}::{self.func.overloadpacket.__name__}"

    def taken(self) -> list[int]:
        """Slot numbers of the tensors that it takes, in their order."""
        return [slot.number for slot in slots_in((self.args, self.kwargs))]

    def does(self) -> tuple[Any, ...]:
        """All that must be the same in every step for the call to be carried out from a recording."""
        return (self.func, self.args, self.kwargs, self.made, self.writes)


def slots_in(tree: Any) -> Iterator[Slot]:
    """Slots among arguments, those in sequences and mappings too."""
    if isinstance(tree, Slot):
        yield tree
    elif isinstance(tree, dict):
        for each in tree.values():
            yield from slots_in(each)
    elif isinstance(tree, (list, tuple)):
        for each in tree:
            yield from slots_in(each)


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One parameter update as it ran.

    Attributes:
        calls: In the order in which they ran.
        layouts: Of each slot.
        given: Slots of the tensors of the batch that the update takes, by their place in it.
        outside: Tensors by slot that were there before and are none of the batch: parameters,
            buffers, state of optimizers, constants.
        losses: Slots of the losses.
        gradients: Slot of the gradient of each of the optimizer's parameters; None: it got none.
        storage_bytes: Size of each storage.
        refusals: Why the forward and backward passes cannot be carried out again; empty: they can.
        optimizer_reads: Whether the optimizer computes with numbers that it reads from tensors.
    """

    calls: Sequence[Call]
    layouts: Sequence[Layout]
    given: Sequence[int]
    outside: dict[int, torch.Tensor]
    losses: Sequence[int]
    gradients: Sequence[int | None]
    storage_bytes: Sequence[int]
    refusals: Sequence[str]
    optimizer_reads: bool

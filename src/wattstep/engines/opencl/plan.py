"""A training step as kernels: what is computed, of which tensors; nothing of it knows a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

FLOAT_BYTES: Final = 4  # of every value: float32, or int32
# Categories of memory, as `Trainer.memory` has them.
PARAMETERS: Final = "parameters"
BUFFERS: Final = "buffers"
GRADIENTS: Final = "gradients"
STATES: Final = "optimizer_state"
INPUT: Final = "input"
FEATURES: Final = "feature_maps"
WORKSPACE: Final = "workspace"
MADE_ANEW: Final = (GRADIENTS, FEATURES, WORKSPACE)  # at every step: the memory may be used again


@dataclass(frozen=True, kw_only=True, eq=False)
class Tensor:
    """Values on the device; what shape they have is known to those who use them.

    Attributes:
        name: For people.
        count: Values.
        category: What its memory is for.
        within: A tensor that this one is a part of, and where it begins there; None: of none.
    """

    name: str
    count: int
    category: str
    within: tuple[Tensor, int] | None = None

    @property
    def bytes(self) -> int:
        """Of its values."""
        return self.count * FLOAT_BYTES


@dataclass(frozen=True, kw_only=True)
class Written:
    """An argument of a kernel that it writes.

    Attributes:
        tensor: Which.
        read: Whether it reads it, too.
    """

    tensor: Tensor
    read: bool = False


Argument = Tensor | Written | int | float


@dataclass(frozen=True, kw_only=True, eq=False)
class Launch:
    """One run of a kernel.

    Attributes:
        file: Of its source, in `kernels/`, without the suffix.
        kernel: Its name.
        size: Work items in up to three dimensions; a kernel does nothing beyond.
        arguments: In order.
        defines: Constants of the preprocessor.
        grouped: Whether `size` counts groups of work items that sum together (GROUP).
        chunked: Whether an item of the first dimension goes through neighbouring values (CHUNK).
        kind: Of operation, as `schema.operation_kinds` has them.
        flops: Floating-point operations; -1: not known.
        updates: Whether the optimizer's `update` is in it.
    """

    file: str
    kernel: str
    size: tuple[int, ...]
    arguments: Sequence[Argument]
    defines: Mapping[str, int] = field(default_factory=dict)
    grouped: bool = False
    chunked: bool = False
    kind: str
    flops: int = -1
    updates: bool = False

    @property
    def reads(self) -> list[Tensor]:
        """Tensors whose values it needs."""
        given = [
            each.tensor if isinstance(each, Written) else each
            for each in self.arguments
            if isinstance(each, Tensor) or (isinstance(each, Written) and each.read)
        ]
        return list(dict.fromkeys(given))

    @property
    def writes(self) -> list[Tensor]:
        """Tensors that it changes."""
        return [each.tensor for each in self.arguments if isinstance(each, Written)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Operation:
    """What a framework would call once: its launches follow each other.

    Attributes:
        name: As torch calls it, with "_backward" where it is of the backward pass.
        phase: Of the step.
        layer: Path of its layer; None: of none.
        launches: In order.
    """

    name: str
    phase: str
    layer: str | None
    launches: Sequence[Launch]

    @property
    def inputs(self) -> list[Tensor]:
        """Tensors whose values it takes from before, each once."""
        made: set[Tensor] = set()
        wanted: dict[Tensor, None] = {}
        for launch in self.launches:
            wanted.update(dict.fromkeys(each for each in launch.reads if each not in made))
            made.update(launch.writes)
        return list(wanted)

    @property
    def outputs(self) -> list[Tensor]:
        """Tensors that others may want of it: all that it writes but its own workspace."""
        writes = dict.fromkeys(each for launch in self.launches for each in launch.writes)
        return [each for each in writes if each.category != WORKSPACE]


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A whole step.

    Attributes:
        operations: In order.
        inputs: What a batch brings, by name; "scalars" are numbers of the optimizer that change. Of a
            fused plan they are parts of one tensor.
        parameters: By torch's names.
        buffers: Further values that stay (running statistics), by their places in the graph.
        losses: Whose mean is the loss of the step.
        classes: That targets may name, counted from 0; None: they are no classes.
        update: OpenCL C of the optimizer: macros of its arguments and `update`.
        scalars: Names of the optimizer's numbers that change from step to step, in their order.
    """

    operations: Sequence[Operation]
    inputs: Mapping[str, Tensor]
    parameters: Mapping[str, Tensor]
    buffers: Mapping[str, Tensor]
    losses: Tensor
    classes: int | None
    update: str
    scalars: Sequence[str] = ()

    @property
    def tensors(self) -> list[Tensor]:
        """All that have memory of their own, each once."""
        named = [
            *self.inputs.values(), *self.parameters.values(), *self.buffers.values(), self.losses,
            *(
                each
                for operation in self.operations
                for launch in operation.launches
                for each in (*launch.reads, *launch.writes)
            ),
        ]  # fmt: skip
        return list(dict.fromkeys(root(each) for each in named))


def root(tensor: Tensor) -> Tensor:
    """The tensor that another lies in; itself where it lies in none."""
    return tensor if tensor.within is None else tensor.within[0]


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where tensors that are made anew at every step lie in one piece of memory.

    Attributes:
        begin: Of each its first byte.
        size: Bytes of the whole.
    """

    begin: Mapping[Tensor, int] = field(default_factory=dict)
    size: int = 0


def place(plan: Plan, alignment: int) -> Places:
    """Places by which tensors share memory that are never needed at once, the largest first.

    Args:
        plan: The step.
        alignment: Bytes that a place must be a multiple of.
    """
    life: dict[Tensor, tuple[int, int]] = {}
    launches = [launch for operation in plan.operations for launch in operation.launches]
    for at, launch in enumerate(launches):
        for each in (*launch.reads, *launch.writes):
            owner = root(each)
            life[owner] = (life.get(owner, (at, at))[0], at)
    life[plan.losses] = (life[plan.losses][0], len(launches))  # read after the last
    movable = [each for each in life if each.category in MADE_ANEW]
    placed: list[tuple[int, int, Tensor]] = []  # begin, end, whose
    for tensor in sorted(movable, key=lambda each: -each.bytes):
        first, last = life[tensor]
        beside = sorted(
            (begin, end)
            for begin, end, other in placed
            if life[other][0] <= last and first <= life[other][1]
        )
        size = -(-tensor.bytes // alignment) * alignment
        at = 0
        for begin, end in beside:
            if at + size <= begin:
                break
            at = max(at, end)
        placed.append((at, at + size, tensor))
    return Places(
        begin={tensor: begin for begin, _, tensor in placed},
        size=max((end for _, end, _ in placed), default=0),
    )

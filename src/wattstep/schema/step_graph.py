"""The operations of one training step with their sizes, and the memory that each needs and makes; of no framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.run_documents import ModelFacts

ROUNDED: Final = 0.01  # part of a size that libraries may round up
ROUNDED_BYTES: Final = 256.0  # and bytes


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """Shapes of a convolution, which decide what it costs beside its FLOPs and bytes.

    Attributes:
        images: That it sees, all samples of the batch together.
        inputs: Channels of its input.
        outputs: Channels of its output.
        kernel: Height and width (length alone in one dimension) of its kernel.
        stride: Steps of the kernel, likewise.
        groups: Parts of the channels that do not see each other.
        input_size: Height and width of its input.
        output_size: Height and width of its output.
        dilation: Distance of what the kernel sees, likewise; empty: 1.
        transposed: Whether it is a transposed one.
        bias: Whether it adds one, or gives the gradient of one.
        scattered: Whether the gradient that it takes does not lie in one piece, as that of a part
            of a concatenation.
    """

    images: float
    inputs: int
    outputs: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    groups: int
    input_size: tuple[int, ...]
    output_size: tuple[int, ...]
    dilation: tuple[int, ...] = ()
    transposed: bool = False
    bias: bool = False
    scattered: bool = False


@dataclass(frozen=True, kw_only=True)
class Recurrent:
    """Shapes of a recurrent module, which a GPU runs in kernels of its own, whatever a CPU is given.

    Attributes:
        gates: Products a time step that each hidden unit takes: 4 of an LSTM, 3 of a GRU, else 1.
        inputs: Values of its input a time step.
        hidden: Hidden units.
        layers: Upon each other.
        directions: 1 or 2.
    """

    gates: int
    inputs: int
    hidden: int
    layers: int
    directions: int


@dataclass(frozen=True, kw_only=True, eq=False)
class StepGraph:
    """One training step, operation by operation, for one batch size.

    Operations are counted from 1; 0 stands for what was there before the step.

    Attributes:
        batch_size: Samples of one forward pass.
        accumulate: Batches of a step.
        names: Of each operation, e.g. "aten::convolution"; shape (n,) as the rest.
        kinds: As `schema.operation_kinds` names them.
        phases: "data", "forward", "backward" or "optimizer".
        layers: Path of the module that it belongs to; "" where none is known.
        flops: Floating-point operations, multiply-adds as two; 0 where none are counted.
        read_bytes: Of the tensors that it takes, each once.
        written_bytes: Of the tensors that it makes or changes; 0 for views.
        sizes: Bytes of each storage, shape (m,).
        categories: What each storage is for, of `categories` of `StepMemory`, shape (m,).
        made: The operation that made each storage, shape (m,).
        freed: The first operation during which it was no longer there; n + 1: it outlived the step.
        counts: Parameters and layers of the model, as `Trainer.model_facts` counts them.
        convolutions: Shapes of those that are one, forward or backward, by the operation's place
            in `names`.
        recurrent: Shapes of the recurrent modules by path.
        libraries: Beside the framework's own, those that its process loads and that take memory.
        notes: What a reader must know of how it was captured.
        data_known: Whether its data phase is that of the training's own data; else random inputs stand for them.
        evaluation: Its forward pass alone, without gradients, as an evaluation makes it; None: not known.
        evaluation_batch: Samples that its evaluation takes at a time; None: as many as a step.
    """

    batch_size: float
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    phases: tuple[str, ...]
    layers: tuple[str, ...]
    flops: FloatArray
    read_bytes: FloatArray
    written_bytes: FloatArray
    sizes: FloatArray
    categories: tuple[str, ...]
    made: IntArray
    freed: IntArray
    counts: ModelFacts
    convolutions: Mapping[int, Convolution] = field(default_factory=dict)
    accumulate: int = 1
    recurrent: Mapping[str, Recurrent] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    data_known: bool = False
    evaluation: StepGraph | None = None
    evaluation_batch: int | None = None

    @property
    def count(self) -> int:
        """Number of operations."""
        return len(self.names)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            **{name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()},
            "convolutions": [[place, *vars(one).values()] for place, one in self.convolutions.items()],
            "recurrent": {path: vars(one) for path, one in self.recurrent.items()},
            "evaluation": None if self.evaluation is None else self.evaluation.to_dict(),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> StepGraph:
        """The inverse of `to_dict`, also of what became of it in JSON."""
        names = [each.name for each in fields(Convolution)]
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, (list, tuple)) else value
            for name, value in document.items()
        }
        for name in ("flops", "read_bytes", "written_bytes", "sizes"):
            values[name] = np.array(document[name], np.float64)
        for name in ("made", "freed"):
            values[name] = np.array(document[name], np.int64)
        values["convolutions"] = {
            place: _convolution(dict(zip(names, shapes, strict=True)))
            for place, *shapes in document["convolutions"]
        }
        values["recurrent"] = {
            path: Recurrent(**one) for path, one in document["recurrent"].items()
        }
        if values.get("evaluation") is not None:
            values["evaluation"] = cls.from_dict(values["evaluation"])
        return cls(**values)

    def levels(self, chosen: BoolArray | None = None) -> FloatArray:
        """Bytes of tensors during each operation, from 0 on, shape (n + 1,).

        Args:
            chosen: Mask of storages; None: all.
        """
        sizes = self.sizes if chosen is None else np.where(chosen, self.sizes, 0.0)
        changes = np.zeros(self.count + 2)
        np.add.at(changes, self.made, sizes)
        np.add.at(changes, self.freed, -sizes)
        levels: FloatArray = np.cumsum(changes)[:-1]
        return levels

    def by_category(self, operation: int) -> dict[str, float]:
        """Bytes of tensors by category during an operation; only categories that have any."""
        there = (self.made <= operation) & (self.freed > operation)
        sizes: dict[str, float] = {}
        for category, size in zip(np.array(self.categories)[there], self.sizes[there], strict=True):
            sizes[str(category)] = sizes.get(str(category), 0.0) + float(size)
        return sizes


def _convolution(values: Mapping[str, Any]) -> Convolution:
    """Of what JSON made of one."""
    tuples: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    return Convolution(**tuples)


@dataclass(frozen=True, kw_only=True, eq=False)
class StepFamily:
    """The step at any batch size: from captures at two where all sizes are affine in the batch, else captured there.

    Attributes:
        small: The capture at the smaller batch size.
        large: That at the larger one; the same operations in the same order, but where `capture` is.
        capture: Captures a batch size, where the step is no affine one; None: it is.
    """

    small: StepGraph
    large: StepGraph
    capture: Callable[[int], StepGraph] | None = None

    def __post_init__(self) -> None:
        if self.capture is None and not alike(self.small, self.large):
            raise InvalidValueError(
                f"its operations at batch {self.small.batch_size:g} and {self.large.batch_size:g} differ"
            )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: of the larger capture what the smaller one has not; of one that captures each size not all."""
        small, large = self.small.to_dict(), self.large.to_dict()
        return {
            "small": small,
            "large": {name: value for name, value in large.items() if value != small[name]},
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> StepFamily:
        """The inverse of `to_dict`, also of what became of it in JSON.

        Raises:
            InvalidValueError: The operations of the two captures differ.
        """
        small, large = document["small"], document["large"]
        return cls(small=StepGraph.from_dict(small), large=StepGraph.from_dict({**small, **large}))

    def at(self, batch_size: float) -> StepGraph:
        """The step at a batch size.

        Args:
            batch_size: Samples of one forward pass.

        Raises:
            InvalidValueError: It has to be captured there, and cannot be.
        """
        if self.capture is not None:
            return self.capture(int(batch_size))
        small, large = self.small, self.large
        part = (batch_size - small.batch_size) / (large.batch_size - small.batch_size)

        def between(a: FloatArray, b: FloatArray) -> FloatArray:
            value: FloatArray = np.maximum(a + (b - a) * part, 0.0)
            return value

        return replace(
            small,
            evaluation=None,
            batch_size=batch_size,
            flops=between(small.flops, large.flops),
            read_bytes=between(small.read_bytes, large.read_bytes),
            written_bytes=between(small.written_bytes, large.written_bytes),
            sizes=between(small.sizes, large.sizes),
            convolutions={
                number: replace(
                    one, images=one.images + (large.convolutions[number].images - one.images) * part
                )
                for number, one in small.convolutions.items()
            },
        )

    def evaluation_at(self, batch_size: float) -> StepGraph | None:
        """The forward pass of an evaluation at a batch size; None where it is not known.

        Args:
            batch_size: As of `at`.

        Raises:
            InvalidValueError: As of `at`.
        """
        if self.capture is not None:
            return self.capture(int(batch_size)).evaluation
        small, large = self.small.evaluation, self.large.evaluation
        if small is None or large is None or not alike(small, large):
            return None
        return StepFamily(small=small, large=large).at(batch_size)


def alike(one: StepGraph, other: StepGraph) -> bool:
    """True if two captures have the same operations and storages, whatever their sizes."""
    return (
        one.names == other.names
        and one.phases == other.phases
        and one.categories == other.categories
        and np.array_equal(one.made, other.made)
        and np.array_equal(one.freed, other.freed)
    )


def lies_on_line(family: StepFamily, other: StepGraph, *, tolerance: float = ROUNDED) -> bool:
    """True if a capture is what the family's two say of its batch size.

    Args:
        family: Of two captures.
        other: A third, at another batch size.
        tolerance: Part of a size by which it may be off.
    """
    if not (alike(family.small, family.large) and alike(family.small, other)):
        return False
    expected = family.at(other.batch_size)
    return expected.convolutions == other.convolutions and all(
        np.allclose(mine, seen, rtol=tolerance, atol=ROUNDED_BYTES)
        for mine, seen in (
            (expected.flops, other.flops),
            (expected.read_bytes, other.read_bytes),
            (expected.written_bytes, other.written_bytes),
            (expected.sizes, other.sizes),
        )
    )

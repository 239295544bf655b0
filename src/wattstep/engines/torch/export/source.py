"""A workload as it is exported: its network with the loss, batches, and how torch trains it in float64."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from wattstep.engines.exported.conformance import STEPS, Course, Reference
from wattstep.engines.exported.folder import ExportedOptimizer, ExportedParameter
from wattstep.engines.torch.compiling import Compiling
from wattstep.engines.torch.export.rewrites import Rewriting, attention
from wattstep.engines.torch.trainer import count_model
from wattstep.errors import InvalidValueError
from wattstep.schema.exported import MOST_BATCHES, MOST_BYTES
from wattstep.schema.run_documents import ModelFacts
from wattstep.schema.workload import DataFacts, Preparation, Specification
from wattstep.workloads.torch.supervised import SupervisedTraining
from wattstep.workloads.torch.workload import TorchWorkload, make_optimizer

Array = npt.NDArray[Any]
MOST_OF_BATCH: Final = 512 << 20
IN_MEMORY: Final = 16 << 20  # bytes of a parameter of which copies are kept in memory
ROUNDED: Final = 3  # courses in float32, each from weights moved by a rounding error
# How far kinks are moved, in root mean squares: what the rounding of a long sum may come to.
MOVED: Final = 16 * torch.finfo(torch.float32).eps
_MAXIMA: Final = (functional.max_pool2d, torch.max_pool2d)
_KINKED: Final = (
    functional.relu, torch.relu, Tensor.relu, functional.relu6, functional.hardtanh,
    functional.leaky_relu, functional.hardswish, functional.hardsigmoid, *_MAXIMA,
)  # fmt: skip
_DROPOUTS: Final = (functional.dropout, torch.dropout)


class _Masks(TorchFunctionMode):
    """Dropout by masks that come with the batch, or that are drawn here and kept.

    Args:
        given: In the order of the calls; None: they are drawn.

    Attributes:
        drawn: What was drawn, scaled: 0 or 1 over the share that is kept.
    """

    def __init__(self, given: Sequence[Tensor] | None) -> None:
        super().__init__()
        self._given = None if given is None else iter(given)
        self.drawn: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention and kwargs.get("dropout_p"):
            return attention(*args, **kwargs, drop=self._drop)
        if func not in _DROPOUTS:
            return func(*args, **kwargs)
        values, share, training = [*args, *kwargs.values()][:3]
        return self._drop(values, share) if training and share else values

    def _drop(self, values: Tensor, share: float) -> Tensor:
        if self._given is not None:
            return values * next(self._given)
        mask = (torch.rand(values.shape) >= share).float() / (1 - share)
        self.drawn.append(mask)
        return values * mask


class _Kinks(TorchFunctionMode):
    """Moves what goes into rectifiers, and into maxima, a little to one side.

    Args:
        side: 1 or -1.
    """

    def __init__(self, side: int) -> None:
        super().__init__()
        self._side = side

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _KINKED:
            values, *more = args
            by = self._side * MOVED * float(values.detach().square().mean().sqrt())
            shift = torch.full_like(values, by)
            if func in _MAXIMA:  # every pixel of a window is moved by another distance
                rows, columns = (torch.arange(size) % 3 for size in values.shape[-2:])
                shift *= 3 * rows[:, None] + columns
            args = (values + shift, *more)
        return func(*args, **(kwargs or {}))


class Network(nn.Module):
    """The network; `forward` gives what its loss judges, `loss` the loss.

    Args:
        model: Of the workload.
        criterion: Of the model's output and the targets.
    """

    def __init__(self, model: nn.Module, criterion: Any) -> None:
        super().__init__()
        self.model = model
        self.criterion = criterion

    def forward(self, inputs: Tensor, *masks: Tensor) -> Tensor:
        """Scores, or numbers, of a batch; masks of dropout in the order of their calls."""
        with _Masks(masks):
            scores: Tensor = self.model(inputs)
        return scores

    def loss(self, inputs: Tensor, targets: Tensor, *masks: Tensor) -> Tensor:
        """A scalar."""
        value: Tensor = self.criterion(self(inputs, *masks), targets)
        return value


class WithLoss(nn.Module):
    """A network whose `forward` gives the loss of (inputs, targets, *masks)."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor, targets: Tensor, *masks: Tensor) -> Tensor:
        """The loss, a scalar."""
        return self.network.loss(inputs, targets, *masks)


class Source:
    """A workload, ready to be exported.

    Args:
        specification: The workload.
        preparation: Batch, seed, shape and optimizer.

    Attributes:
        network: With its initial weights, in float32 and training mode.
        data: Which data.
        model_facts: Counts of the model.

    Raises:
        InvalidValueError: It does not train by one loss of labelled samples, or a batch is too large.
    """

    def __init__(self, specification: Specification, preparation: Preparation) -> None:
        self.specification, self.preparation = specification, preparation
        name = specification.facts.name
        training = TorchWorkload(specification).prepare(preparation)
        if type(training) is not SupervisedTraining:
            raise InvalidValueError(
                f"{name} cannot be exported: its training is more than one loss of labelled samples, "
                "which torch alone makes",
                id="cannot-export",
            )
        self._training = training
        self._check_size(preparation.batch_size * training.sample_bytes)
        self.data: DataFacts = training.data
        model = training.model.train()
        self.model_facts: ModelFacts = count_model(model)
        self.network = Network(model, training.criterion)
        self._optimizer = training.optimizer

    @cached_property
    def batches(self) -> dict[str, Array]:
        """By name, (batches, ...): "inputs", "targets", "mask0", ... of dropout."""
        state = torch.get_rng_state()
        torch.manual_seed(self.preparation.seed)
        names: list[str] = []
        kept: list[list[Array]] = []
        size = 0
        with _unchanged(self.network):
            while (len(kept) < MOST_BATCHES and size * (len(kept) + 1) <= MOST_BYTES) or not kept:
                inputs, targets = self._training.next_batch(lambda name: nullcontext())
                masks = _Masks(None)
                with torch.no_grad(), masks:
                    self.network.model(inputs)
                arrays = [each.numpy() for each in (inputs, targets, *masks.drawn)]
                names = ["inputs", "targets", *(f"mask{i}" for i in range(len(masks.drawn)))]
                kept.append(arrays)
                size = sum(array.nbytes for array in arrays)
                self._check_size(size)
        torch.set_rng_state(state)
        return {name: np.stack([row[i] for row in kept]) for i, name in enumerate(names)}

    def _check_size(self, size: int) -> None:
        """Refuses a batch of so many bytes that a folder would not hold it."""
        if size > MOST_OF_BATCH:
            raise InvalidValueError(
                f"--batch {self.preparation.batch_size}: a batch of {self.specification.facts.name} takes "
                f"{size / 2**20:,.0f} MiB as it is exported, at most {MOST_OF_BATCH >> 20} are: take a smaller "
                "one, or --engine torch",
                id="batch-too-large-to-export",
            )

    def batch(self, index: int, kind: torch.dtype = torch.float32) -> list[Tensor]:
        """A batch as the network takes it: inputs, targets, masks; after the last comes the first."""
        arrays = self.batches.values()
        tensors = [torch.from_numpy(np.array(array[index % len(array)])) for array in arrays]
        return [each.to(kind) if each.is_floating_point() else each for each in tensors]

    def applied(self, rewrites: Sequence[str]) -> list[str]:
        """A sentence of each rewrite that takes a place in a pass of the network; a tracer may make many.

        Args:
            rewrites: Names of `rewrites.REWRITES`.
        """
        rewriting = Rewriting(rewrites)
        with torch.no_grad(), _unchanged(self.network), rewriting:
            self.network.loss(*self.batch(0))
        return rewriting.applied

    @cached_property
    def parameters(self) -> list[ExportedParameter]:
        """All, by the names that the model itself has for them; of a shared one the first."""
        decays = {
            id(each): float(group.get("weight_decay", 0.0))
            for group in self._optimizer.param_groups
            for each in group["params"]
        }
        return [
            ExportedParameter(
                name=name,
                shape=tuple(each.shape),
                trainable=each.requires_grad,
                decay=decays.get(id(each), 0.0),
            )
            for name, each in self.network.model.named_parameters()
        ]

    @property
    def optimizer(self) -> ExportedOptimizer:
        """How parameters are updated."""
        settings = self.preparation.optimizer or self.specification.optimizer
        assert settings is not None
        options = {key: value for key, value in settings.options.items() if key != "weight_decay"}
        rate = settings.rate_for(self.preparation)
        return ExportedOptimizer(name=settings.name, rate=rate, options=options)

    def initial(self) -> dict[str, Array]:
        """Parameters and buffers before the first step, by the model's own names."""
        state = self.network.model.state_dict()
        return {name: value.detach().numpy().copy() for name, value in state.items()}

    @cache  # noqa: B019 - a source lives as long as its process
    def reference(self) -> Reference:
        """Courses of torch: in float64, there with moved kinks as well, and in float32 from moved weights."""
        begin = {
            name: copied(value.detach().double())
            for name, value in self.network.model.named_parameters()
        }
        rounded = [self.course(torch.float32, moved=number) for number in range(ROUNDED)]
        return Reference(
            begin=begin,
            trainable=[each.name for each in self.parameters if each.trainable],
            exact=self.course(torch.float64),
            rounded=rounded,
            kinked=[self.course(torch.float64, side=side) for side in (-1, 1)],
        )

    def course(
        self, kind: torch.dtype, *, moved: int | None = None, compiled: bool = False, side: int = 0
    ) -> Course:
        """The first steps of torch.

        Args:
            kind: Of weights and inputs.
            moved: Seed of a rounding error by which the weights are moved; None: they are not.
            compiled: Whether torch.compile makes the model.
            side: To which kinks are moved, 1 or -1; 0: they are not.
        """
        network = copy.deepcopy(self.network).to(kind)
        if moved is not None:
            draw = torch.Generator().manual_seed(moved)
            with torch.no_grad():
                for weight in network.parameters():
                    noise = 2 * torch.rand(weight.shape, generator=draw) - 1
                    weight.mul_(1 + noise * torch.finfo(torch.float32).eps / 2)
        optimizer = make_optimizer(self.specification.optimizer, network.model, self.preparation)
        if compiled:
            Compiling(network.model)
        losses: list[float] = []
        first: Mapping[str, Array] = {}
        gradients: Mapping[str, Array] = {}
        for step in range(STEPS):
            inputs, targets, *masks = self.batch(step, kind)
            with _Kinks(side) if side else nullcontext():
                loss = network.loss(inputs, targets, *masks)
            loss.backward()  # type: ignore[no-untyped-call]
            if step == 0:
                gradients = {
                    name: copied(each.grad)
                    for name, each in network.model.named_parameters()
                    if each.grad is not None
                }
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            if step == 0:
                first = _values(network.model)
        last = _values(network.model)
        return Course(losses=losses, first=first, last=last, gradients=gradients)


def _values(model: nn.Module) -> Mapping[str, Array]:
    return {name: copied(value) for name, value in model.named_parameters()}


def copied(value: Tensor) -> Array:
    """Numbers as they are now; where many, in a file without a name: six courses keep three copies each."""
    array: Array = value.detach().numpy()
    kept: Array
    if array.nbytes < IN_MEMORY:
        kept = array.copy()
        return kept
    with tempfile.TemporaryFile() as file:
        array.tofile(
            file
        )  # where the disk is full this raises; to write into a mapping would end the process
        file.flush()
        kept = np.memmap(file, array.dtype, "r+", shape=array.shape)
    return kept


@contextmanager
def _unchanged(network: nn.Module) -> Iterator[None]:
    """What runs in it leaves no trace in the buffers (running statistics)."""
    before = {name: value.clone() for name, value in network.named_buffers()}
    yield
    with torch.no_grad():
        for name, value in network.named_buffers():
            value.copy_(before[name])

"""Training on labelled samples: what the vision and the language workloads have in common."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from wattstep.errors import InvalidValueError
from wattstep.records.workload import Phase
from wattstep.workloads.data.samples import Samples


class SupervisedTraining:
    """Classification of samples that lie in memory.

    Args:
        samples: Inputs (N, ...) and targets (N, ...), both of whole numbers.
        model: Gives scores (B, classes) or (B, classes, positions).
        optimizer: Of the parameters of `model`.
        encode: Turns a batch of raw inputs into what `model` takes.
        batch_size: B.
        seed: Of the order of the samples.
    """

    def __init__(
        self,
        *,
        samples: Samples,
        model: nn.Module,
        optimizer: Optimizer,
        encode: Callable[[Tensor], Tensor],
        batch_size: int,
        seed: int,
    ) -> None:
        self.data = samples.facts
        self.model = model
        self.optimizer = optimizer
        self._inputs = torch.from_numpy(samples.inputs)
        self._targets = torch.from_numpy(samples.targets)
        self._encode = encode
        self._batch_size = batch_size
        self._order = Order(samples=samples.facts.samples, seed=seed)

    def next_batch(self, phase: Phase) -> tuple[Tensor, Tensor]:
        """Inputs as the model takes them, and targets (int64); all of it is data loading."""
        chosen = self._order.draw(self._batch_size)
        return self._encode(self._inputs[chosen]), self._targets[chosen].long()

    def loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Cross entropy in nats, mean over the batch and all positions."""
        inputs, targets = batch
        return functional.cross_entropy(self.model(inputs), targets)


class Order:
    """Draws samples without end: a fresh permutation an epoch, so that none is left out."""

    def __init__(self, *, samples: int, seed: int) -> None:
        self._samples = samples
        self._generator = torch.Generator().manual_seed(seed)
        self._left = torch.empty(0, dtype=torch.int64)

    def draw(self, count: int) -> Tensor:
        """Indices (count,) of the next samples; a batch may span epochs."""
        while len(self._left) < count:
            epoch = torch.randperm(self._samples, generator=self._generator)
            self._left = torch.cat((self._left, epoch))
        chosen, self._left = self._left[:count], self._left[count:]
        return chosen


def check_batch_size(batch_size: int, *, workload: str, least: int = 1, reason: str = "") -> None:
    """Refuses a batch that the model cannot train on.

    Raises:
        InvalidValueError: The batch is smaller than `least`, for `reason`.
    """
    if batch_size < least:
        because = f" ({reason})" if reason else ""
        raise InvalidValueError(
            f"{workload} needs a batch of at least {least}{because}, not {batch_size}"
        )


def scale_rate(rate: float, *, at_batch: int, batch_size: int) -> float:
    """The learning rate in proportion to the batch, so that all sizes learn alike.

    Source: Goyal et al., arXiv 1706.02677, "linear scaling rule".
    """
    return rate * batch_size / at_batch


def scale_pixels(
    *, mean: tuple[float, ...], deviation: tuple[float, ...]
) -> Callable[[Tensor], Tensor]:
    """The function from bytes (B, C, H, W) to floats of about zero mean and unit deviation.

    Args:
        mean: Of each channel, where 1 is white.
        deviation: Standard deviation of each channel.
    """
    middle = 255 * torch.tensor(mean).reshape(1, -1, 1, 1)
    width = 255 * torch.tensor(deviation).reshape(1, -1, 1, 1)
    return lambda pixels: (pixels.float() - middle) / width

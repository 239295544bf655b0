"""Training on labelled samples: what the vision and the language workloads have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from wattstep.schema.workload import ParameterUpdate, Phase, Preparation
from wattstep.workloads.data.samples import Array, Samples

# Samples that an evaluation looks at: an accuracy then has a standard error of 2.2 % at most.
EVALUATED = 512
EVALUATION_BATCH = 32
IGNORED = -100


class SupervisedTraining:
    """Training on pairs of inputs and targets that lie in memory; its one update is itself.

    Args:
        samples: Inputs (N, ...) and targets (N, ...), and those that are held out.
        model: What `criterion` judges; gives scores (B, classes) or (B, classes, positions) for
            the default one.
        optimizer: Of the parameters of `model`.
        encode: Turns a batch of raw inputs into what `model` takes (floats for pixels).
        preparation: Batch size and seed are taken from it.
        criterion: Loss of the model's output (in fp32) and the targets; a mean over the batch.
        classifies: Whether the outputs are scores of classes, so that there is an accuracy;
            targets of -100 (torch's own mark for what the loss leaves out) are no part of it.
        evaluated: Held-out samples, at most, that an evaluation looks at.
    """

    def __init__(
        self,
        *,
        samples: Samples,
        model: nn.Module,
        optimizer: Optimizer,
        encode: Callable[[Tensor], Tensor],
        preparation: Preparation,
        criterion: Callable[[Tensor, Tensor], Tensor] = functional.cross_entropy,
        classifies: bool = True,
        evaluated: int = EVALUATED,
    ) -> None:
        self.data = samples.facts
        self.model = model
        self.optimizer = optimizer
        self._inputs, self._targets = _tensors(samples.inputs, samples.targets)
        self._trained_as = self._targets
        self._held_out = _tensors(samples.held_out_inputs, samples.held_out_targets)
        self._judged = spread(len(self._held_out[0]), evaluated)
        self._encode = encode
        self._batch_size = preparation.batch_size
        self._order = Order(samples=samples.facts.samples, seed=preparation.seed)
        self.criterion = criterion
        self._classifies = classifies

    @property
    def updates(self) -> Sequence[ParameterUpdate]:
        """Itself alone."""
        return (self,)

    def next_batch(self, phase: Phase) -> tuple[Tensor, Tensor]:
        """Inputs as the model takes them, and targets; all of it is data loading."""
        chosen = self._order.draw(self._batch_size)
        return self._encode(self._inputs[chosen]), self._widen(self._trained_as[chosen])

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample of a batch: input as the model takes it, and target."""
        parts = self._encode(self._inputs[:1]), self._widen(self._targets[:1])
        return sum(each.nbytes for each in parts)

    def loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """The criterion over the batch; cross entropy is in nats."""
        inputs, targets = batch
        return self.criterion(self.model(inputs).float(), targets)

    def evaluate(self) -> Mapping[str, float]:
        """Mean loss, and accuracy, over samples that are held out: always the same ones.

        They are spread evenly over all of them, which may lie in an order (by class, or by the
        photograph that they were cut from).
        """
        if not len(self._judged):
            return {}
        with evaluating(self.model):
            return self._judge(*self._held_out)

    @property
    def evaluation_batch(self) -> int:
        """Samples that an evaluation takes at a time."""
        return EVALUATION_BATCH

    @property
    def samples(self) -> tuple[int, int]:
        """Number of samples to train on, and number held out."""
        return len(self._inputs), len(self._held_out[0])

    @property
    def classifies(self) -> bool:
        """True if a sample has one class, and the model can be right about it."""
        return self._classifies and self._targets.dim() == 1

    def restrict(
        self, indices: Sequence[int], *, seed: int, classes: Sequence[int] | None = None
    ) -> None:
        """From now on draws from these samples only, in an order of its own.

        Args:
            indices: Among the samples to train on.
            seed: Of the order.
            classes: What each is trained as, in place of its true class; by that it is still judged.
        """
        among = torch.tensor(indices, dtype=torch.int64)
        self._trained_as = self._targets
        if classes is not None:
            self._trained_as = self._targets.clone()
            self._trained_as[among] = torch.tensor(classes, dtype=self._targets.dtype)
        self._order = Order(samples=len(among), seed=seed, among=among)

    def right_on(self, indices: Sequence[int], *, held_out: bool = False) -> list[bool]:
        """Mask of the samples that the model classifies correctly; its mean is the accuracy.

        Args:
            indices: Among the samples that are held out, or those to train on.
            held_out: Which of the two.
        """
        inputs, targets = self._held_out if held_out else (self._inputs, self._targets)
        right: list[bool] = []
        with evaluating(self.model):
            for part in torch.split(torch.tensor(indices, dtype=torch.int64), EVALUATION_BATCH):
                scores = self.model(self._encode(inputs[part])).float()
                chosen = scores.argmax(dim=1).cpu()
                right.extend((chosen == self._widen(targets[part])).tolist())
        return right

    def classes_of(self, indices: Sequence[int]) -> list[int]:
        """True classes of samples to train on."""
        classes: list[int] = self._targets[torch.tensor(indices, dtype=torch.int64)].tolist()
        return classes

    def scores(self, indices: Sequence[int]) -> Tensor:
        """What the model makes of samples to train on, fp64 on the CPU, shape (n, classes)."""
        parts = torch.split(torch.tensor(indices, dtype=torch.int64), EVALUATION_BATCH)
        with evaluating(self.model):
            return torch.cat(
                [self.model(self._encode(self._inputs[part])).double().cpu() for part in parts]
            )

    def pictures(self, indices: Sequence[int]) -> Tensor | None:
        """Samples to train on as they lie on disk, bytes (n, channels, height, width); None: they are no pictures."""
        shape = self._inputs.shape
        if self._inputs.dtype != torch.uint8 or len(shape) != 4 or shape[1] not in (1, 3):
            return None
        return self._inputs[torch.tensor(indices, dtype=torch.int64)]

    def _judge(self, inputs: Tensor, targets: Tensor) -> Mapping[str, float]:
        loss, right, positions = 0.0, 0, 0
        for part in torch.split(self._judged, EVALUATION_BATCH):
            outputs = self.model(self._encode(inputs[part])).float()
            wanted = self._widen(targets[part]).to(outputs.device)
            loss += float(self.criterion(outputs, wanted)) * len(wanted)
            if self._classifies:
                right += int((outputs.argmax(dim=1) == wanted).sum())
                positions += int((wanted != IGNORED).sum())
        judged = len(self._judged)
        figures = {"loss": loss / judged, "judged": judged}
        if positions:
            figures["accuracy"] = right / positions
            if targets.dim() > 1:
                figures["positions"] = positions
        return figures

    @staticmethod
    def _widen(targets: Tensor) -> Tensor:
        """Classes are stored small and looked up large."""
        return targets if targets.is_floating_point() else targets.long()


def spread(count: int, most: int) -> Tensor:
    """Indices of at most `most` of `count` samples, in even steps from the first to the last."""
    chosen = np.linspace(0, count - 1, min(count, most)).round()
    return torch.from_numpy(chosen.astype(np.int64))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """No gradients, and every module in evaluation mode; afterwards as it was before."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


class Order:
    """Draws samples without end: a fresh permutation an epoch, so that none is left out."""

    def __init__(self, *, samples: int, seed: int, among: Tensor | None = None) -> None:
        self._samples = samples
        self._among = among  # the samples that count, where not all do
        self._generator = torch.Generator().manual_seed(seed)
        self._left = torch.empty(0, dtype=torch.int64)

    def draw(self, count: int) -> Tensor:
        """Indices (count,) of the next samples; a batch may span epochs."""
        parts, there = [self._left], len(self._left)
        while there < count:
            epoch = torch.randperm(self._samples, generator=self._generator)
            parts.append(epoch if self._among is None else self._among[epoch])
            there += len(epoch)
        if len(parts) > 1:  # once: a batch may span thousands of epochs
            self._left = torch.cat(parts)
        chosen, self._left = self._left[:count], self._left[count:]
        return chosen


def _tensors(*arrays: Array) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(array) for array in arrays)


def encode_images(
    *, mean: tuple[float, ...], deviation: tuple[float, ...], size: int | None = None
) -> Callable[[Tensor], Tensor]:
    """The function from bytes (B, C, H, W) to floats of about zero mean and unit deviation.

    Args:
        mean: Of each channel, where 1 is white.
        deviation: Standard deviation of each channel.
        size: Height and width that the model sees; images of another size are resampled
            (bilinear), as a device does that trains on larger pictures than it was given.
    """
    middle = 255 * torch.tensor(mean).reshape(1, -1, 1, 1)
    width = 255 * torch.tensor(deviation).reshape(1, -1, 1, 1)

    def encode(pixels: Tensor) -> Tensor:
        values = (pixels.float() - middle) / width
        if size is None or values.shape[-1] == values.shape[-2] == size:
            return values
        return functional.interpolate(values, size=(size, size), mode="bilinear", antialias=False)

    return encode

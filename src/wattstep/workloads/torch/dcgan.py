"""DCGAN: a network that makes images, against one that tells them from real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from wattstep.errors import InvalidValueError
from wattstep.schema.workload import ParameterUpdate, Phase, Preparation, Specification
from wattstep.workloads.data.samples import Samples
from wattstep.workloads.torch.supervised import Order, encode_images
from wattstep.workloads.torch.workload import make_optimizer, read

NOISE = 100
# Channels at half the size of the image; twice as many for every halving.
WIDTH = 64
LEAST_SIZE = 32


def _widths(image_size: int) -> list[int]:
    """Channels at 4×4, 8×8, ... up to half the size of the image.

    Raises:
        InvalidValueError: The size cannot be had from 4 by doubling.
    """
    halvings = image_size.bit_length() - 3
    if image_size < LEAST_SIZE or image_size != 4 * 2**halvings:
        raise InvalidValueError(
            f"--image-size {image_size}: dcgan makes images of 32, 64, 128, ... pixels in width",
            id="unfit-image-size",
        )
    return [WIDTH * 2**n for n in reversed(range(halvings))]


class Generator(nn.Sequential):
    """Noise (B, 100, 1, 1) to images (B, 3, H, H) between -1 and 1, doubled from 4×4 on.

    Source: Radford et al., arXiv 1511.06434, figure 1; widths of PyTorch's DCGAN tutorial.
    """

    def __init__(self, *, image_size: int) -> None:
        widths = _widths(image_size)
        layers: list[nn.Module] = [nn.ConvTranspose2d(NOISE, widths[0], 4, bias=False)]
        for inputs, outputs in zip(widths, [*widths[1:], 3], strict=True):
            layers += [nn.BatchNorm2d(inputs), nn.ReLU(inplace=True)]
            layers += [nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1, bias=False)]
        super().__init__(*layers, nn.Tanh())


class Discriminator(nn.Sequential):
    """Images (B, 3, H, H) to scores (B, 1, 1, 1): above zero where they look real.

    Source: as `Generator`; the last sigmoid is part of the loss, where it cannot overflow.
    """

    def __init__(self, *, image_size: int) -> None:
        widths = _widths(image_size)[::-1]
        layers: list[nn.Module] = [_shrink(3, widths[0]), nn.LeakyReLU(0.2, inplace=True)]
        for inputs, outputs in pairwise(widths):
            layers += [_shrink(inputs, outputs), nn.BatchNorm2d(outputs)]
            layers += [nn.LeakyReLU(0.2, inplace=True)]
        super().__init__(*layers, nn.Conv2d(widths[-1], 1, 4, bias=False))


def _shrink(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 4, stride=2, padding=1, bias=False)


class Dcgan(nn.Module):
    """Both networks."""

    def __init__(self, *, image_size: int) -> None:
        super().__init__()
        self.generator = Generator(image_size=image_size)
        self.discriminator = Discriminator(image_size=image_size)
        self.apply(_initialise)

    def forward(self, noise: Tensor) -> Tensor:
        """Scores (B, 1, 1, 1) of the images made from noise (B, 100, 1, 1)."""
        scores: Tensor = self.discriminator(self.generator(noise))
        return scores


def _initialise(module: nn.Module) -> None:
    """As in the paper, section 4; scales of norms as in PyTorch's tutorial."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, std=0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, mean=1.0, std=0.02)


def _like(values: Tensor, module: nn.Module) -> Tensor:
    """In the precision, and where, the parameters are."""
    return values.to(next(module.parameters()))


def _judge(scores: Tensor, *, real: bool) -> Tensor:
    """Cross entropy of the claim that all images are real, or that none is."""
    scores = scores.float()
    wanted = torch.ones_like(scores) if real else torch.zeros_like(scores)
    return functional.binary_cross_entropy_with_logits(scores, wanted)


class NoiseSource:
    """Draws noise for a batch from a generator of its own."""

    def __init__(self, *, batch_size: int, seed: int) -> None:
        self._shape = (batch_size, NOISE, 1, 1)
        self._generator = torch.Generator().manual_seed(seed)

    def draw(self) -> Tensor:
        """(B, 100, 1, 1) of zero mean and unit deviation."""
        return torch.randn(self._shape, generator=self._generator)


class DiscriminatorTurn:
    """Learns to tell real images from made ones; the generator's parameters stay as they are."""

    def __init__(
        self,
        *,
        model: Dcgan,
        optimizer: Optimizer,
        samples: Samples,
        encode: Callable[[Tensor], Tensor],
        noise: NoiseSource,
        preparation: Preparation,
    ) -> None:
        self.optimizer = optimizer
        self._model = model
        self._pixels = torch.from_numpy(samples.inputs)
        self._order = Order(samples=samples.facts.samples, seed=preparation.seed)
        self._batch_size = preparation.batch_size
        self._noise = noise
        self._encode = encode

    def next_batch(self, phase: Phase) -> tuple[Tensor, Tensor]:
        """Real images and noise; all of it is data loading."""
        chosen = self._order.draw(self._batch_size)
        return self._encode(self._pixels[chosen]), self._noise.draw()

    def loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Cross entropy over the real images plus that over as many made ones, in nats."""
        images, noise = (_like(part, self._model) for part in batch)
        with torch.no_grad():
            made = self._model.generator(noise)
        judge = self._model.discriminator
        return _judge(judge(images), real=True) + _judge(judge(made), real=False)


class GeneratorTurn:
    """Learns to be taken for real; the discriminator's parameters stay as they are."""

    def __init__(self, *, model: Dcgan, optimizer: Optimizer, noise: NoiseSource) -> None:
        self.optimizer = optimizer
        self._model = model
        self._noise = noise

    def next_batch(self, phase: Phase) -> Tensor:
        """Noise."""
        return self._noise.draw()

    def loss(self, batch: Tensor) -> Tensor:
        """Cross entropy of the claim that the made images are real, in nats."""
        return _judge(self._model(_like(batch, self._model)), real=True)


class DcganTraining:
    """Both updates, one after the other."""

    def __init__(
        self, model: Dcgan, specification: Specification, preparation: Preparation
    ) -> None:
        samples = read(specification.samples, preparation)
        self.data = samples.facts
        self.model = model
        noise = NoiseSource(batch_size=preparation.batch_size, seed=preparation.seed)
        size = preparation.image_size_for(specification.facts)
        judge, maker = (
            make_optimizer(specification.optimizer, each, preparation)
            for each in (model.discriminator, model.generator)
        )
        self._updates = (
            DiscriminatorTurn(
                model=model,
                optimizer=judge,
                samples=samples,
                # From black at -1 to white at 1, as the generator makes them.
                encode=encode_images(mean=(0.5,) * 3, deviation=(0.5,) * 3, size=size),
                noise=noise,
                preparation=preparation,
            ),
            GeneratorTurn(model=model, optimizer=maker, noise=noise),
        )

    @property
    def updates(self) -> Sequence[ParameterUpdate]:
        """The discriminator's, then the generator's."""
        return self._updates

    def evaluate(self) -> Mapping[str, float]:
        """Nothing: neither loss says how good the images are."""
        return {}

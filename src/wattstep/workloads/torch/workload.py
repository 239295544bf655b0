"""A workload on torch: builds what its specification names, and prepares the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from inspect import signature
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.nn import functional
from torch.optim import Optimizer

from wattstep.errors import InvalidValueError
from wattstep.schema.extras import require
from wattstep.schema.workload import (
    OptimizerSettings,
    Preparation,
    SampleSource,
    Specification,
    Training,
    WorkloadFacts,
)
from wattstep.workloads.data.samples import Samples
from wattstep.workloads.torch.freezing import freeze
from wattstep.workloads.torch.supervised import SupervisedTraining, encode_images

ENGINE: Final = "torch"
# Samples by source and folder, while they are read once.
_KNOWN: Final[ContextVar[dict[str, Samples] | None]] = ContextVar("known samples", default=None)
# Each of `schema.workload.OPTIMIZERS`, by library and class.
_OPTIMIZERS: Final[Mapping[str, tuple[str, str]]] = {
    "sgd": ("torch.optim", "SGD"),
    "adam": ("torch.optim", "Adam"),
    "adamw": ("torch.optim", "AdamW"),
    "rmsprop": ("torch.optim", "RMSprop"),
    "adam8bit": ("bitsandbytes.optim", "Adam8bit"),
    "adamw8bit": ("bitsandbytes.optim", "AdamW8bit"),
    "paged-adamw": ("bitsandbytes.optim", "PagedAdamW"),
    "paged-adamw8bit": ("bitsandbytes.optim", "PagedAdamW8bit"),
}
Loss = Callable[[Tensor, Tensor], Tensor]
LOSSES: Final[Mapping[str, Loss]] = {
    "cross entropy": functional.cross_entropy,
    "mean squared error": functional.mse_loss,
}


class TorchWorkload:
    """A specification made with torch.

    Args:
        specification: What to make.

    Raises:
        InvalidValueError: It does not train on torch.
    """

    def __init__(self, specification: Specification) -> None:
        self.specification = specification
        self._places = specification.on(ENGINE)

    @property
    def facts(self) -> WorkloadFacts:
        """Facts of it, known before it runs."""
        return self.specification.facts

    def build(self, *, classes: int | None, image_size: int | None) -> Any:
        """The model alone, with fresh weights (from torch's own generator).

        Args:
            classes: As in `facts.published` or as the user asks; None: as it trains by default.
            image_size: Likewise.

        Raises:
            InvalidValueError: It cannot be built for this image size.
            MissingPartError: A library that it needs is not installed.
        """
        make = _load(self._places.model)
        wanted = {
            "classes": classes or self.facts.classes,
            "image_size": image_size or self.facts.image_size,
        }
        accepted = signature(make).parameters
        given = {name: value for name, value in wanted.items() if name in accepted}
        return make(**given, **self.specification.architecture)

    def prepare(self, preparation: Preparation) -> Training:
        """Builds model, optimizer and data; seeds torch's own generator.

        Raises:
            InvalidValueError: The data there cannot be read, or a setting does not fit.
            MissingPartError: A library that it needs is not installed.
        """
        preparation.check(self.facts)
        preparation.begin("model")
        torch.manual_seed(preparation.seed)
        model = self.build(classes=preparation.classes, image_size=preparation.image_size)
        freeze(model, preparation)
        preparation.begin("data")
        make = self._places.training
        training: Training = (supervised if make is None else _load(make))(
            model, self.specification, preparation
        )
        return training


def supervised(
    model: nn.Module, specification: Specification, preparation: Preparation
) -> SupervisedTraining:
    """The training of a model on labelled samples."""
    source = specification.samples
    assert source is not None
    samples = read(source, preparation)
    size = (
        preparation.image_size_for(specification.facts) if specification.facts.image_size else None
    )
    encode = encoder(source, size)
    settle = getattr(model, "settle_on", None)
    if callable(settle):
        settle(encode, samples)
    return SupervisedTraining(
        samples=samples,
        model=model,
        optimizer=make_optimizer(specification.optimizer, model, preparation),
        encode=encode,
        preparation=preparation,
        criterion=_loss(specification.loss, size),
        classifies=specification.accuracy,
        evaluated=specification.evaluated,
    )


def read(source: SampleSource | None, preparation: Preparation) -> Samples:
    """The samples that a specification names.

    Raises:
        InvalidValueError: The data there cannot be read.
        MissingPartError: A library that reads the stand-in is not installed.
    """
    assert source is not None
    known = _KNOWN.get()
    key = repr((source, preparation.data_dir))
    samples: Samples = (
        _load(source.reader)(preparation.data_dir, **source.options)
        if known is None or key not in known
        else known[key]
    )
    if known is not None:
        known[key] = samples
    return samples


@contextmanager
def reading_once(known: dict[str, Samples]) -> Iterator[None]:
    """Samples are read once, however many trainings are prepared meanwhile, of which none may change them.

    Args:
        known: Samples that were read, which it adds to.
    """
    token = _KNOWN.set(known)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def encoder(source: SampleSource, size: int | None) -> Callable[[Tensor], Tensor]:
    """Transform of a batch of samples as they lie on disk into what a model takes.

    Args:
        source: Of the samples.
        size: Height and width of images; None: as they are.
    """
    if source.inputs == "images":
        data = import_module(source.reader.partition(":")[0])
        return encode_images(mean=data.MEAN, deviation=data.DEVIATION, size=size)
    if source.inputs == "speech":
        from wattstep.workloads.torch.ds_cnn import encode_speech

        return encode_speech()
    return {"integers": Tensor.long, "numbers": Tensor.float}[source.inputs]


def _loss(name: str, size: int | None) -> Loss:
    if name == "detection":
        from wattstep.workloads.data.detection import SIDE
        from wattstep.workloads.torch.ssdlite import DetectionLoss

        assert size is not None
        return DetectionLoss(image_size=size, side=SIDE)
    return LOSSES[name]


def make_optimizer(
    settings: OptimizerSettings | None, module: nn.Module, preparation: Preparation
) -> Optimizer:
    """The optimizer of all parameters of a module that train.

    Args:
        settings: The workload's own; those of the preparation go before.
        module: Whose parameters.
        preparation: Of the batch that the learning rate follows.

    Raises:
        InvalidValueError: Nothing trains, or the optimizer has no such setting.
        MissingPartError: The library that has it is not installed.
    """
    settings = preparation.optimizer or settings
    assert settings is not None
    weights = [each for each in module.parameters() if each.requires_grad]
    if not weights:
        last = preparation.train_last
        option = "" if last is None else f"--train-last {last}: "
        raise InvalidValueError(
            f"{option}no parameters of {type(module).__name__} train", id="nothing-to-train"
        )
    options = dict(settings.options)
    groups: list[Any] = weights
    if settings.decays == "matrices":
        decay = options.pop("weight_decay")
        groups = [
            {"params": [each for each in weights if each.dim() == 2], "weight_decay": decay},
            {"params": [each for each in weights if each.dim() != 2], "weight_decay": 0.0},
        ]
    make = _load(":".join(_OPTIMIZERS[settings.name]))
    try:
        with unset_fake_temporarily():  # the 8-bit ones compute a table, which takes values
            optimizer: Optimizer = make(groups, lr=settings.rate_for(preparation), **options)
        return optimizer
    except (TypeError, ValueError) as error:  # of a setting that it does not have, or not so
        raise InvalidValueError(
            f"--optimizer {settings.name}: {error}", id="malformed-optimizer"
        ) from error


def _load(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(require(module), attribute)

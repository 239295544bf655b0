"""Protocols of workloads: facts, data, and how they train, whatever the framework."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypedDict

from wattstep.errors import InvalidValueError

Phase = Callable[[str], AbstractContextManager[None]]

PRECISIONS: Final = ("fp32", "tf32", "bf16", "amp", "amp-fp16")
GPU_PRECISIONS: Final = ("tf32", "amp-fp16")  # which no CPU trains in
_ONE_OF_SEVERAL: Final = re.compile(r"(?!cpu:)([a-z]\w*):(\d{1,3})")
RATE_RULES: Final = ("linear", "sqrt", "fixed")
# With 8 bits of state a number where they say so; what is paged leaves a GPU's memory when it is full.
OPTIMIZERS: Final = (
    "sgd", "adam", "adamw", "rmsprop", "adam8bit", "adamw8bit", "paged-adamw", "paged-adamw8bit",
)  # fmt: skip
# One kernel for all numbers of a parameter, or operations on lists of parameters.
OPTIMIZER_KERNELS: Final = ("fused", "foreach")
# What a preparation consists of, in the order in which most workloads go about it.
PARTS: Final = ("model", "data", "optimizer")


def kind_of(processor: str) -> str:
    """Kind of a processor, as a run names it: that of "cuda:1", the second GPU, is "cuda"."""
    match = _ONE_OF_SEVERAL.fullmatch(processor)
    return processor if match is None else match[1]


def check_processing(
    processor: str, precision: str, known: Sequence[str], engine: str = ""
) -> None:
    """Refuses a processor or a precision that nobody knows, and one that needs another processor.

    Args:
        processor: One of those known; "cuda" is the GPU that the framework takes by itself,
            "cuda:1" the second one that it sees.
        precision: One of `PRECISIONS`.
        known: Kinds of processors that the engine trains on, as `Engine.processors` has them.
        engine: Its name, where there may be several.

    Raises:
        InvalidValueError: Any of that.
    """
    kind = kind_of(processor)
    if kind not in known:
        there = "there are " + ", ".join(known) if len(known) > 1 else f"there is {known[0]} only"
        if engine:
            there = f"{engine} trains on {', '.join(known)}"
        raise InvalidValueError(f"--processor {processor}: {there}", id="unknown-processor")
    if precision not in PRECISIONS:
        raise InvalidValueError(
            f"--precision {precision}: there are {', '.join(PRECISIONS)}", id="unknown-precision"
        )
    if precision in GPU_PRECISIONS and kind == "cpu":
        others = " or ".join(name for name in known if name != "cpu")
        choice = f", --processor {others}" if others else ""
        raise InvalidValueError(
            f"--precision {precision}: a GPU only has it{choice}", id="precision-needs-gpu"
        )


def check_strategies(
    *,
    train_last: int | None,
    lora: int | None,
    compiled: bool,
    checkpointing: bool,
    offload: bool,
) -> None:
    """Refuses strategies against memory that contradict each other, as `Preparation` has them.

    Raises:
        InvalidValueError: Any of that.
    """
    for option, value in (("train-last", train_last), ("lora", lora)):
        if value is not None and value < 1:
            raise InvalidValueError(f"--{option} {value}: it must be at least 1", id="out-of-range")
    if lora is not None and train_last is not None:
        raise InvalidValueError(
            "--lora and --train-last: each says what trains, choose one", id="two-that-train"
        )
    if compiled and (checkpointing or offload):
        option = "checkpointing" if checkpointing else "offload"
        raise InvalidValueError(
            f"--compile and --{option}: the compiler decides itself what is saved, choose one",
            id="compiled-strategy",
        )


@dataclass(frozen=True, kw_only=True)
class Published:
    """The configuration of the literature, at which its parameter count holds.

    Attributes:
        classes: Classes that the published network tells apart, or None where it has none.
        image_size: Height and width of its images, or None where it sees none.
    """

    classes: int | None
    image_size: int | None


@dataclass(frozen=True, kw_only=True)
class WorkloadFacts:
    """Facts of a workload, known before it runs.

    Attributes:
        name: As on the command line, e.g. "densenet40".
        title: As in the literature, e.g. "DenseNet40-12".
        domain: Application domain, e.g. "computer vision".
        task: What is learnt.
        dominant_layer: The kind of layer that takes most of the time, as the paper names it.
        dataset: The official data set.
        input_shape: One sample as the model sees it by default, without the batch.
        source: Paper of the architecture.
        published: The configuration of the literature.
        classes: As it trains by default; None where it has no classes to choose.
        image_size: As it trains by default; None where there is no size to choose.
        least_image_size: The smallest that the network can see.
        precisions: Of `PRECISIONS`, those that it can train in.
    """

    name: str
    title: str
    domain: str
    task: str
    dominant_layer: str
    dataset: str
    input_shape: tuple[int, ...]
    source: str
    published: Published = Published(classes=None, image_size=None)
    classes: int | None = None
    image_size: int | None = None
    least_image_size: int = 1
    precisions: tuple[str, ...] = PRECISIONS

    @property
    def tokens_per_sample(self) -> int | None:
        """Tokens of one sample as the model sees it, padding included; None: it has no tokens.

        Of a translation those of both sentences.
        """
        return math.prod(self.input_shape) if self.domain == "language" else None


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    """Data that a run used.

    Attributes:
        name: e.g. "CIFAR-10" or "scikit-learn sample photographs in 32×32 patches".
        stand_in: Whether it stands in for the official data set.
        stands_for: The official data set that it stands in for, or None.
        sha256: Hash over the arrays that the training sees (inputs and targets).
        samples: How many samples there are.
    """

    name: str
    stand_in: bool
    stands_for: str | None
    sha256: str
    samples: int


class PreparedStrategies(TypedDict):
    """Fields of `Preparation` that spare memory."""

    checkpointing: bool
    train_last: int | None
    lora: int | None
    optimizer: OptimizerSettings | None
    offload: bool


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Options for building a workload.

    Attributes:
        batch_size: Samples of one forward pass.
        accumulate: Forward and backward passes before the optimizer steps.
        seed: Of weights, order of the data and everything else that is drawn.
        data_dir: Where official data lies; stand-ins are used where it is None or lacks it.
        classes: None for the workload's own.
        image_size: None for the workload's own.
        rate_rule: How the learning rate follows the batch: "linear" (Goyal et al., arXiv
            1706.02677, section 2.1), "sqrt" (Krizhevsky, arXiv 1404.5997, section 5) or "fixed".
        channels_last: Whether images, and the kernels that they meet, lie in memory pixel by pixel
            with all channels of each together.
        compiled: Whether the engine compiles the model.
        policy: By which the engine plans where each operation runs; None: as the framework does.
        clusters: Numbers of the cores of each kind that it tells apart, the fastest first; (): all are alike.
        checkpointing: Whether activations of each block are dropped, and computed again in the
            backward pass.
        train_last: Layers that train, the last of those that own parameters; None: all that do.
        lora: Rank of the trainable update of each linear layer, all else frozen; None: none.
        optimizer: In place of the workload's own.
        offload: Whether what is saved for the backward pass leaves the device's memory until then.
        optimizer_kernel: One of `OPTIMIZER_KERNELS`: how an optimizer goes through the parameters, with the
            same arithmetic; None: the framework's choice.
        interop_threads: Threads that run operations beside each other; None: the framework's choice.
        opencl_mode: One of `schema.opencl.MODES`, how values move between host and device; None: the
            engine's choice.
        exported: Folder of the training as it was exported for the engine; None: it is exported now,
            where the engine needs that.
        on_part: Told when one of `PARTS` begins, or goes on; None where nobody asks.
    """

    batch_size: int
    accumulate: int = 1
    seed: int = 0
    data_dir: Path | None = None
    classes: int | None = None
    image_size: int | None = None
    rate_rule: str = "linear"
    channels_last: bool = False
    compiled: bool = False
    policy: str | None = None
    clusters: tuple[tuple[int, ...], ...] = ()
    checkpointing: bool = False
    train_last: int | None = None
    lora: int | None = None
    optimizer: OptimizerSettings | None = None
    offload: bool = False
    optimizer_kernel: str | None = None
    interop_threads: int | None = None
    opencl_mode: str | None = None
    exported: Path | None = None
    on_part: Callable[[str], None] | None = field(default=None, compare=False, repr=False)

    def begin(self, part: str) -> None:
        """Says that one of `PARTS` begins, or goes on."""
        if self.on_part is not None:
            self.on_part(part)

    def rate(self, rate: float, *, at_batch: int) -> float:
        """The learning rate for this batch, from the one that is right at another."""
        ratio = self.batch_size * self.accumulate / at_batch
        exponent = {"linear": 1.0, "sqrt": 0.5, "fixed": 0.0}[self.rate_rule]
        return float(rate * ratio**exponent)

    def image_size_for(self, facts: WorkloadFacts) -> int:
        """The height and width to build for.

        Raises:
            InvalidValueError: The workload has none to choose.
        """
        if facts.image_size is None:
            raise InvalidValueError(f"{facts.name} has no image size to choose")
        return facts.image_size if self.image_size is None else self.image_size

    def check(self, facts: WorkloadFacts) -> None:
        """Refuses what the workload cannot be built with; every `prepare` begins with it.

        Raises:
            InvalidValueError: A setting does not fit the workload.
        """
        for name, value in (("batch", self.batch_size), ("accumulate", self.accumulate)):
            if value < 1:
                raise InvalidValueError(
                    f"--{name} {value}: {facts.name} needs at least 1", id="out-of-range"
                )
        check_strategies(
            train_last=self.train_last,
            lora=self.lora,
            compiled=self.compiled,
            checkpointing=self.checkpointing,
            offload=self.offload,
        )
        if self.rate_rule not in RATE_RULES:
            known = ", ".join(RATE_RULES)
            raise InvalidValueError(
                f"--rate-rule {self.rate_rule}: there are {known}", id="unknown-rate-rule"
            )
        if self.classes is not None:
            if facts.classes is None:
                raise InvalidValueError(
                    f"--classes: {facts.name} has no classes to choose", id="no-classes"
                )
            if self.classes < facts.classes:
                raise InvalidValueError(
                    f"--classes {self.classes}: the data of {facts.name} has {facts.classes}",
                    id="too-few-classes",
                )
        if self.image_size is not None:
            if facts.image_size is None:
                raise InvalidValueError(
                    f"--image-size: {facts.name} has no image size to choose", id="no-image-size"
                )
            if self.image_size < facts.least_image_size:
                raise InvalidValueError(
                    f"--image-size {self.image_size}: {facts.name} sees images from "
                    f"{facts.least_image_size}×{facts.least_image_size} on",
                    id="image-too-small",
                )


class ParameterUpdate(Protocol):
    """Part of a step that ends in an update by one optimizer; most trainings have one, adversarial ones have two."""

    optimizer: Any

    def next_batch(self, phase: Phase) -> Any:
        """The next batch; `with phase("game"):` marks time that is not data loading."""
        ...

    def loss(self, batch: Any) -> Any:
        """Forward pass and loss of one batch: a scalar of the framework."""
        ...


class Training(Protocol):
    """A workload that is ready to train.

    Attributes:
        data: Which data.
        model: The framework's own object, all of it.
        updates: What a step does, in this order.
    """

    data: DataFacts
    model: Any

    @property
    def updates(self) -> Sequence[ParameterUpdate]:
        """Phases of a step, in order."""
        ...

    def evaluate(self) -> Mapping[str, float]:
        """Evaluation of the model on samples that it never trains on.

        "loss"; where there are classes "accuracy" (ratio); "judged": on how many samples; and
        where several positions of a sample are judged (tokens) "positions": how many in all.
        Empty where the workload has no such measure.

        The model is in evaluation mode while it runs, and as it was before afterwards.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class SampleSource:
    """Source of a supervised workload's samples; numpy alone reads them.

    Attributes:
        reader: "module:function": from a folder of data, or None, to `workloads.data.samples.Samples`.
        inputs: What they are, so that an engine knows how to give them to the model: "images"
            (bytes, normalised by `MEAN` and `DEVIATION` of the reader's module), "integers",
            "numbers", "speech" (waveforms, as cepstral coefficients), "waveforms".
        options: Further arguments of the reader.
    """

    reader: str
    inputs: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """Optimizer of the parameters.

    Attributes:
        name: One of `OPTIMIZERS`.
        rate: The learning rate.
        at_batch: Samples of a step for which that rate is right; None: it follows no batch.
        decays: "all" parameters, or "matrices" alone.
        options: Further hyperparameters, by their usual names ("momentum", "weight_decay", ...).

    Raises:
        InvalidValueError: There is no such optimizer.
    """

    name: str
    rate: float
    at_batch: int | None = None
    decays: str = "all"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in OPTIMIZERS:
            known = ", ".join(OPTIMIZERS)
            raise InvalidValueError(
                f"--optimizer {self.name}: there are {known}", id="unknown-optimizer"
            )

    @classmethod
    def parse(cls, text: str) -> OptimizerSettings:
        """The settings from "sgd,momentum=0.9".

        Raises:
            InvalidValueError: There is no such optimizer, or a part of it is no setting.
        """
        name, *settings = (part.strip() for part in text.split(","))
        options: dict[str, float] = {}
        for setting in settings:
            key, _, value = setting.partition("=")
            try:
                number = float(value)
            except ValueError:
                number = math.nan
            if not math.isfinite(number) or key.strip() in options:
                raise InvalidValueError(
                    f"--optimizer {text!r}: a name, then settings, each once, e.g. sgd,momentum=0.9",
                    id="malformed-optimizer",
                )
            options[key.strip()] = number
        return cls(name=name, rate=options.pop("lr", 0.01), options=options)

    def rate_for(self, preparation: Preparation) -> float:
        """The learning rate at the batch of a preparation."""
        if self.at_batch is None:
            return self.rate
        return preparation.rate(self.rate, at_batch=self.at_batch)


@dataclass(frozen=True, kw_only=True)
class ModuleSource:
    """A network of the user's own, and how it is trained: cross entropy of random inputs.

    Attributes:
        make: Gives the framework's module; or the module itself, of which a copy is trained.
        name: What to call it.
        input_shape: One sample as it takes it, without the batch.
        optimizer: How its parameters are updated.
        classes: That the loss tells apart; None: as many as it gives scores.
        integers: Whether inputs are indices (tokens), not numbers.
    """

    make: Callable[[], Any]
    name: str
    input_shape: tuple[int, ...]
    optimizer: OptimizerSettings
    classes: int | None = None
    integers: bool = False


@dataclass(frozen=True, kw_only=True)
class Implementation:
    """A workload on one engine, as places "module:attribute".

    Attributes:
        model: What makes the model. It is given the `architecture`, and `classes` and `image_size`
            where it takes them.
        training: What makes the training of model, specification and preparation; None: the
            engine's own for supervised learning.
    """

    model: str
    training: str | None = None


@dataclass(frozen=True, kw_only=True)
class Specification:
    """A workload without a framework: what is known of it, its data, hyperparameters and loss.

    Attributes:
        facts: What is known of it.
        samples: What it trains on; None where its training makes them (a game).
        loss: "cross entropy", "mean squared error", "detection", "adversarial", "Q-learning".
        accuracy: Whether outputs are scores of classes, so that an evaluation has an accuracy.
        evaluated: Held-out samples, at most, that an evaluation looks at.
        optimizer: How parameters are updated; None where its training knows.
        architecture: Further arguments of the model.
        engines: How each engine makes it, by name.
    """

    facts: WorkloadFacts
    samples: SampleSource | None = None
    loss: str = "cross entropy"
    accuracy: bool = True
    evaluated: int = 512
    optimizer: OptimizerSettings | None = None
    architecture: Mapping[str, Any] = field(default_factory=dict)
    engines: Mapping[str, Implementation] = field(default_factory=dict)

    def on(self, engine: str) -> Implementation:
        """Builder of the workload for an engine.

        Raises:
            InvalidValueError: It does not.
        """
        if engine not in self.engines:
            known = ", ".join(self.engines) or "none"
            raise InvalidValueError(
                f"{self.facts.name} does not train on {engine} (engines: {known})"
            )
        return self.engines[engine]

    def check(self, engine: str, preparation: Preparation, precision: str) -> None:
        """Refuses what an engine does not make, or what the workload cannot be built with.

        Raises:
            InvalidValueError: A setting does not fit.
        """
        self.on(engine)
        self.check_precision(precision)
        preparation.check(self.facts)

    def check_precision(self, precision: str) -> None:
        """Refuses a precision that nobody knows, or this workload cannot train in.

        Raises:
            InvalidValueError: It is one of the two.
        """
        if precision not in PRECISIONS:
            raise InvalidValueError(
                f"--precision {precision}: there are {', '.join(PRECISIONS)}",
                id="unknown-precision",
            )
        facts = self.facts
        if precision not in facts.precisions:
            raise InvalidValueError(
                f"--precision {precision}: {facts.name} trains in {', '.join(facts.precisions)} only",
                id="precision-not-for-workload",
            )

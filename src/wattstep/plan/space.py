"""Ways to train a workload on a device: a table of dimensions, each with the values that are searched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from itertools import product
from types import MappingProxyType
from typing import Any, Final

from wattstep.devices.table import Device
from wattstep.errors import InvalidValueError
from wattstep.predict import check_device, threads_of
from wattstep.predict.mnn.values import trains_with_mnn
from wattstep.predict.threads import numbers_up_to
from wattstep.schema.workload import OptimizerSettings, Preparation

LARGEST_BATCH: Final = 1024  # samples of an update that --allow batch looks at


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One way to train.

    Attributes:
        batch: Samples of one forward pass.
        accumulate: Forward and backward passes before the optimizer steps.
        checkpointing: As the fields of `Preparation` of these names, like the four that follow.
        offload: See there.
        train_last: See there.
        lora: See there.
        optimizer: As `OptimizerSettings.parse` takes it; None: the workload's own.
        precision: Of the training.
        mode: Power mode of the device; None: the one that its file is of.
        threads: Of the CPU that trains; None: a GPU does.
    """

    batch: int
    accumulate: int = 1
    checkpointing: bool = False
    offload: bool = False
    train_last: int | None = None
    lora: int | None = None
    optimizer: str | None = None
    precision: str = "fp32"
    mode: str | None = None
    threads: int | None = None

    @property
    def samples_per_update(self) -> int:
        """Samples of one update of the parameters."""
        return self.batch * self.accumulate

    @property
    def text(self) -> str:
        """In a few words: "batch 16 × 4, mode 15W"."""
        size = f"batch {self.batch:,}" + (f" × {self.accumulate:,}" * (self.accumulate > 1))
        return ", ".join([size, *filter(None, (each.spelt(self) for each in DIMENSIONS))])

    def prepared(self, preparation: Preparation) -> Preparation:
        """Preparation of the step that is captured: with one batch, or two whose gradients are added up."""
        return replace(
            preparation,
            accumulate=min(self.accumulate, 2),
            checkpointing=self.checkpointing,
            offload=self.offload,
            train_last=self.train_last,
            lora=self.lora,
            optimizer=None if self.optimizer is None else OptimizerSettings.parse(self.optimizer),
        )


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is to be trained where, as far as the values of dimensions follow from it.

    Attributes:
        device: Where.
        engine: Framework, as the device's file names it.
        samples: Of a session.
        update: Samples of an update of the parameters, unless `allow` has "batch".
        precision: Of the training, unless `allow` has "precision".
        precisions: In which the workload can train.
        allow: Names of `ALLOWED`: what may change that changes the mathematics of the training.
    """

    device: Device
    engine: str | None
    samples: int
    update: int
    precision: str
    precisions: tuple[str, ...]
    allow: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """Something that a configuration chooses, beside its batch.

    Attributes:
        name: Its field of `Configuration`.
        words: How a value is called in a configuration's text; "" for what goes without saying.
        values: What is searched; the first is what nobody has to ask for.
        allow: Name of `ALLOWED` under which a user allows it; "": it is always searched.
    """

    name: str
    words: Callable[[Any], str]
    values: Callable[[Question], tuple[Any, ...]]
    allow: str = ""

    def spelt(self, configuration: Configuration) -> str:
        """Its value in a configuration's text."""
        return self.words(getattr(configuration, self.name))

    def searched(self, question: Question) -> tuple[Any, ...]:
        """Its values, or what goes without saying where the user does not allow others."""
        values = self.values(question)
        return values if not self.allow or self.allow in question.allow else values[:1]


def _precisions(question: Question) -> tuple[str, ...]:
    """The one that is asked for, then those that the device's values reach."""
    known = [question.precision]
    for name in question.precisions:
        with suppress(InvalidValueError):  # of a device that has no such rate
            check_device(question.device, engine=question.engine, precision=name)
            known.append(name)
    return tuple(dict.fromkeys(known))


def _modes(question: Question) -> tuple[str | None, ...]:
    """Those that say of cores or clocks; of a power cap alone nothing can be predicted."""
    modes = question.device.modes.items()
    return (None, *(name for name, mode in modes if mode.cores or mode.clocks or mode.memory_clock))


def _threads(question: Question) -> tuple[int | None, ...]:
    """Those that values are of, then others up to all cores; None alone where a GPU trains."""
    own = threads_of(question.device, question.engine)
    if own is None:
        return (None,)
    cpus = [each for each in question.device.processors.values() if each.kind == "cpu"]
    numbers = numbers_up_to(sum(each.cores for each in cpus))
    return (own, *(number for number in numbers if number != own))


def _threads_words(number: int | None) -> str:
    return "" if number is None else f"{number} thread{'s' * (number > 1)}"


def _switch(word: str) -> Callable[[Any], str]:
    return lambda value: word if value else ""


def _counted(words: str) -> Callable[[Any], str]:
    return lambda value: "" if value is None else words.format(value)


def _fixed(*values: Any) -> Callable[[Question], tuple[Any, ...]]:
    return lambda question: values


def _with_torch(*values: Any) -> Callable[[Question], tuple[Any, ...]]:
    """The first alone where another framework trains, which has no such thing."""
    return lambda question: (
        values[:1] if trains_with_mnn(question.device, question.engine) else values
    )


# A new dimension is a field of `Configuration` and a line here.
DIMENSIONS: Final = (
    Dimension(
        name="checkpointing", words=_switch("checkpointing"), values=_with_torch(False, True)
    ),
    Dimension(
        name="offload", words=_switch("offload"), values=_with_torch(False, True), allow="offload"
    ),
    Dimension(
        name="train_last",
        words=_counted("last {} layers alone"),
        values=_fixed(None, 1, 2, 4),
        allow="freeze",
    ),
    Dimension(
        name="lora",
        words=_counted("LoRA of rank {}"),
        values=_with_torch(None, 4, 16),
        allow="lora",
    ),
    Dimension(
        name="optimizer",
        words=_counted("{}"),
        values=_with_torch(None, "sgd", "adamw", "adamw8bit"),
        allow="optimizer",
    ),
    Dimension(
        name="precision",
        words=lambda value: "" if value == "fp32" else str(value),
        values=_precisions,
        allow="precision",
    ),
    Dimension(name="threads", words=_threads_words, values=_threads),
    Dimension(name="mode", words=_counted("mode {}"), values=_modes),
)
UNTIMED: Final = "offload"
# What changes the mathematics of a training, by the name under which a user allows it; and what
# trains the same, at a rate that is assumed.
ALLOWED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "batch": "another number of samples an update",
        "precision": "another precision",
        "optimizer": "another optimizer",
        "freeze": "the last layers alone",
        "lora": "low-rank updates of linear layers alone",
        UNTIMED: "activations in files or the host's memory, at a rate that is assumed",
    }
)


def parse_allowed(text: str) -> frozenset[str]:
    """From "lora,precision".

    Raises:
        InvalidValueError: There is no such thing to allow.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in ALLOWED:
            raise InvalidValueError(
                f"--allow {name}: there are {', '.join(ALLOWED)}", id="unknown-allowance"
            )
    return frozenset(names)


def configurations(question: Question) -> Iterator[Configuration]:
    """All that are searched, plain ones first."""
    choices = [each.searched(question) for each in DIMENSIONS]
    for values in product(*choices):
        chosen = dict(zip((each.name for each in DIMENSIONS), values, strict=True))
        if chosen["lora"] is not None and chosen["train_last"] is not None:
            continue  # either says what trains
        for batch, accumulate in _sizes(question):
            yield Configuration(batch=batch, accumulate=accumulate, **chosen)


def _sizes(question: Question) -> Iterator[tuple[int, int]]:
    """Batch sizes and how many are added up: all that divide an update's samples without remainder."""
    updates = [question.update]
    if "batch" in question.allow:
        most = min(question.samples, LARGEST_BATCH)
        updates = sorted({question.update, *(1 << n for n in range(most.bit_length()))})
    for update in updates:
        for batch in range(update, 0, -1):
            if update % batch == 0:
                yield batch, update // batch


# Fields of a configuration that may have no value.
_OPTIONAL: Final = ("mode", "optimizer", "train_last", "lora", "threads")


def parse_configuration(text: str, base: Configuration) -> dict[str, Any]:
    """Fields of a configuration from "batch=64,checkpointing": a word alone means that it is on.

    Args:
        text: As it was written.
        base: Has the fields' types.

    Raises:
        InvalidValueError: A part is none.
    """
    known = {each.name for each in fields(Configuration)}
    chosen: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        name = name.replace("-", "_")
        if name not in known:
            raise InvalidValueError(
                f"--why-not {part!r}: there are {', '.join(sorted(known))}, e.g. batch=64",
                id="malformed-configuration",
            )
        if name in chosen:
            raise InvalidValueError(
                f"--why-not {text!r} names the {name} twice", id="malformed-configuration"
            )
        chosen[name] = _value(part, name, value if equals else "on", base)
    return chosen


def _value(part: str, name: str, text: str, base: Configuration) -> Any:
    if text == "none" and name in _OPTIONAL:
        return None
    if name in ("precision", "mode", "optimizer"):
        return text
    if isinstance(getattr(base, name), bool):
        if text in ("on", "off"):
            return text == "on"
        wanted = "on or off"
    else:
        if text.isdecimal() and int(text) > 0:
            return int(text)
        wanted = "a whole number from 1 on"
    raise InvalidValueError(f"--why-not {part!r}: {name} is {wanted}", id="malformed-configuration")

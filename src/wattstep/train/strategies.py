"""Strategies against running out of memory, as settings that several commands take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from wattstep.schema.run_documents import TrainingOptions
from wattstep.schema.settings import setting
from wattstep.schema.workload import (
    OPTIMIZERS,
    OptimizerSettings,
    PreparedStrategies,
    check_strategies,
)

STRATEGIES = (
    "checkpointing",
    "train_last",
    "lora",
    "optimizer",
    "offload",
)  # docs/memory-strategies.md


@dataclass(frozen=True, kw_only=True)
class MemoryStrategies:
    """How a training spares memory; see `Preparation`."""

    checkpointing: bool = setting(
        False, "Activations of each block are dropped, and computed again in the backward pass."
    )
    train_last: int | None = setting(
        None, "Train the last N layers that own parameters alone. [default: all]", "N"
    )
    lora: int | None = setting(
        None,
        "Train low-rank updates of the linear layers alone (LoRA), of this rank. [default: none]",
        "RANK",
    )
    optimizer: str | None = setting(
        None,
        f"In place of the workload's own: {', '.join(OPTIMIZERS)}; with settings, e.g. "
        "sgd,lr=0.1,momentum=0.9. [default: the workload's]",
        "NAME,...",
    )
    offload: bool = setting(
        False,
        "What is saved for the backward pass leaves memory until then: of a GPU for the host's, "
        "else for a file on disk (in TMPDIR).",
    )

    def check_strategies(self, *, compiled: bool) -> None:
        """Refuses what contradicts itself.

        Args:
            compiled: Whether the model is.

        Raises:
            InvalidValueError: With the option.
        """
        check_strategies(
            train_last=self.train_last,
            lora=self.lora,
            compiled=compiled,
            checkpointing=self.checkpointing,
            offload=self.offload,
        )
        if self.optimizer is not None:
            OptimizerSettings.parse(self.optimizer)

    @property
    def strategies(self) -> TrainingOptions:
        """Those that are chosen, as they were given."""
        given = {name: getattr(self, name) for name in STRATEGIES}
        chosen = {name: value for name, value in given.items() if value not in (None, False)}
        return cast("TrainingOptions", chosen)

    @property
    def prepared(self) -> PreparedStrategies:
        """All, as a `Preparation` takes them."""
        return PreparedStrategies(
            checkpointing=self.checkpointing,
            train_last=self.train_last,
            lora=self.lora,
            optimizer=None if self.optimizer is None else OptimizerSettings.parse(self.optimizer),
            offload=self.offload,
        )

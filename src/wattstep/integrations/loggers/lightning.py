"""Figures through a logger of Lightning: those that stand for another library, and any other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wattstep.errors import InvalidValueError
from wattstep.integrations.loggers.mlflow import MlflowRun
from wattstep.integrations.loggers.tensorboard import TensorboardWriter
from wattstep.integrations.loggers.wandb import WandbRun

LIBRARIES = ("lightning.pytorch.loggers", "lightning.fabric.loggers", "pytorch_lightning.loggers")


def open_named(place: str) -> LightningLogger:
    """A logger of Lightning has no name that would find it.

    Raises:
        InvalidValueError: Always.
    """
    raise InvalidValueError("lightning: give the logger itself, e.g. to=trainer.logger")


def open_object(thing: Any) -> Any:
    """Destination that a Lightning logger stands for, else one of the logger itself; None for others' objects."""
    from wattstep.integrations.loggers import comes_from

    if not comes_from(thing, *LIBRARIES):
        return None
    kinds = {kind.__name__ for kind in type(thing).__mro__}
    if "TensorBoardLogger" in kinds:
        return TensorboardWriter(thing.experiment)
    if "WandbLogger" in kinds:
        return WandbRun(thing.experiment)
    if "MLFlowLogger" in kinds:
        return MlflowRun(thing.experiment, thing.run_id)
    return LightningLogger(thing)


class LightningLogger:
    """Any logger of Lightning: numbers as metrics, words as hyperparameters.

    Args:
        logger: As the trainer has it.
    """

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """As metrics."""
        self._logger.log_metrics(dict(values), step)
        self._logger.save()

    def words(self, words: Mapping[str, str]) -> None:
        """As hyperparameters, the one place for text that every logger has."""
        self._logger.log_hyperparams(dict(words))
        self._logger.save()

    def file(self, path: Path) -> None:
        """Into the logger's folder, where it has one."""
        folder = getattr(self._logger, "log_dir", None)
        if folder is not None:
            (Path(folder) / path.name).write_bytes(path.read_bytes())

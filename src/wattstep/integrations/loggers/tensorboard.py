"""Figures as scalars and texts in the event files of TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wattstep.errors import InvalidValueError
from wattstep.schema.extras import require

WRITERS = ("torch.utils.tensorboard", "tensorboardX")


def open_named(place: str) -> TensorboardWriter:
    """A writer of our own into a folder of event files.

    Raises:
        InvalidValueError: No folder is given.
    """
    if not place:
        raise InvalidValueError("tensorboard:FOLDER: which folder?")
    writer = require("torch.utils.tensorboard").SummaryWriter(place)
    return TensorboardWriter(writer)


def open_object(thing: Any) -> TensorboardWriter | None:
    """A SummaryWriter of torch or of tensorboardX."""
    from wattstep.integrations.loggers import comes_from

    return TensorboardWriter(thing) if comes_from(thing, *WRITERS) else None


class TensorboardWriter:
    """A writer of event files.

    Args:
        writer: A SummaryWriter.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """As scalars."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def words(self, words: Mapping[str, str]) -> None:
        """As texts, one table of them all."""
        for name, text in words.items():
            self._writer.add_text(name, text)
        self._writer.flush()

    def file(self, path: Path) -> None:
        """Beside the event files, which can hold none."""
        target = Path(
            self._writer.log_dir if hasattr(self._writer, "log_dir") else self._writer.logdir
        )
        (target / path.name).write_bytes(path.read_bytes())

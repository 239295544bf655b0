"""Saves a training of torch to a file and takes it up again: model and optimizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from wattstep.store.folder import open_plain, replacing


def save(training: Any, path: Path) -> int:
    """Writes parameters, buffers and the state of every optimizer, whole or not at all; returns the bytes written.

    Args:
        training: As `records.workload.Training`, of torch.
        path: The file; an older one is replaced.

    Raises:
        OSError: It cannot be written.
    """
    content = {
        "model": training.model.state_dict(),
        "optimizers": [update.optimizer.state_dict() for update in training.turns],
    }
    with replacing(path) as file:  # torch turns a full disk into an error of its own otherwise
        torch.save(content, file)
    return path.stat().st_size


def load(training: Any, path: Path) -> None:
    """Reads what `save` wrote into a training of the same workload.

    Raises:
        OSError: The file cannot be read.
        RuntimeError: It belongs to another model.
    """
    with open_plain(path) as file:
        content = torch.load(file, map_location="cpu", weights_only=True)
    training.model.load_state_dict(content["model"])
    for update, state in zip(training.turns, content["optimizers"], strict=True):
        update.optimizer.load_state_dict(state)

"""Saves a training of torch to a file and takes it up again: model and optimizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from wattstep.store.folder import open_plain, replacing


def save(training: Any, path: Path, scaling: Any = None) -> int:
    """Writes parameters, buffers and the state of every optimizer, whole or not at all; returns the bytes written.

    Args:
        training: As `schema.workload.Training`, of torch.
        path: The file; an older one is replaced.
        scaling: As `precision.Scaling`, of a training that has one.

    Raises:
        OSError: It cannot be written.
    """
    content = {
        "model": training.model.state_dict(),
        "optimizers": [update.optimizer.state_dict() for update in training.updates],
    }
    if scaling is not None:
        content["scaling"] = scaling.state_dict()
    with replacing(path) as file:  # torch turns a full disk into an error of its own otherwise
        torch.save(content, file)
    return path.stat().st_size


def load(training: Any, path: Path, scaling: Any = None) -> None:
    """Reads what `save` wrote into a training of the same workload.

    It may be on another processor than the one that was saved.

    Args:
        training: As `save` takes it.
        path: The file.
        scaling: As `save` takes it; it begins anew where the file has none.

    Raises:
        OSError: The file cannot be read.
        RuntimeError: It belongs to another model.
    """
    with open_plain(path) as file:
        content = torch.load(file, map_location="cpu", weights_only=True)
    training.model.load_state_dict(content["model"])
    for update, state in zip(training.updates, content["optimizers"], strict=True):
        update.optimizer.load_state_dict(state)
    if scaling is not None and "scaling" in content:
        scaling.load_state_dict(content["scaling"])

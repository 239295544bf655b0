"""What training by the day needs of torch: the server's weights, and a seed for each day."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch


def load_weights(training: Any, path: Path) -> None:
    """Reads the model alone of what `torch_checkpoint.save` wrote; the optimizer stays fresh.

    Raises:
        OSError: The file cannot be read.
        RuntimeError: It belongs to another model.
    """
    content = torch.load(path, map_location="cpu", weights_only=True)
    training.model.load_state_dict(content["model"])


def seed(number: int) -> None:
    """Seeds whatever the model draws (dropout) from here on."""
    torch.manual_seed(number)


def hash_weights(model: Any) -> str:
    """SHA-256 over all parameters and buffers, in hexadecimal digits."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().float().contiguous().numpy().tobytes())
    return digest.hexdigest()

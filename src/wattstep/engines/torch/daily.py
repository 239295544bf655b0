"""Parts of training by the day that need torch: the samples, the server's weights, a seed for each day."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from wattstep.schema.arrays import ByteArray, FloatArray


class TorchClassifier:
    """See `schema.engine.Classifier`.

    Args:
        training: As `workloads.torch.supervised.SupervisedTraining`.
    """

    def __init__(self, training: Any) -> None:
        self._training = training

    @property
    def samples(self) -> tuple[int, int]:
        """As `Classifier.samples`."""
        count: tuple[int, int] = self._training.samples
        return count

    def restrict(
        self, indices: Sequence[int], *, seed: int, classes: Sequence[int] | None = None
    ) -> None:
        """As `Classifier.restrict`."""
        self._training.restrict(indices, seed=seed, classes=classes)

    def classes_of(self, indices: Sequence[int]) -> list[int]:
        """As `Classifier.classes_of`."""
        classes: list[int] = self._training.classes_of(indices)
        return classes

    def scores(self, indices: Sequence[int]) -> FloatArray:
        """As `Classifier.scores`."""
        scores: FloatArray = self._training.scores(indices).numpy()
        return scores

    def pictures(self, indices: Sequence[int]) -> ByteArray | None:
        """As `Classifier.pictures`."""
        found = self._training.pictures(indices)
        return None if found is None else found.permute(0, 2, 3, 1).numpy()

    def right_on(self, indices: Sequence[int], *, held_out: bool = False) -> list[bool]:
        """As `Classifier.right_on`."""
        right: list[bool] = self._training.right_on(indices, held_out=held_out)
        return right

    def load_weights(self, path: Path) -> None:
        """As `Classifier.load_weights`."""
        content = torch.load(path, map_location="cpu", weights_only=True)
        self._training.model.load_state_dict(content["model"])

    def hash_weights(self) -> str:
        """As `Classifier.hash_weights`."""
        digest = hashlib.sha256()
        for name, tensor in self._training.model.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def seed(self, number: int) -> None:
        """As `Classifier.seed`."""
        torch.manual_seed(number)

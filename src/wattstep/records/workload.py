"""What a workload is: facts about it, its data, and the model that trains."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Phase = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True, kw_only=True)
class WorkloadFacts:
    """What is known of a workload before it runs.

    Attributes:
        name: As on the command line, e.g. "densenet40".
        title: As in the literature, e.g. "DenseNet40-12".
        domain: Application domain, e.g. "computer vision".
        task: What is learnt.
        dominant_layer: The kind of layer that takes most of the time, as the paper names it.
        dataset: The official data set.
        input_shape: One sample, without the batch.
        source: Paper of the architecture.
    """

    name: str
    title: str
    domain: str
    task: str
    dominant_layer: str
    dataset: str
    input_shape: tuple[int, ...]
    source: str


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    """Which data a run used.

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


class Training(Protocol):
    """A workload that is ready to train: model, optimizer, loss and a stream of batches.

    `model` and `optimizer` are the framework's own objects.
    """

    data: DataFacts
    model: Any
    optimizer: Any

    def next_batch(self, phase: Phase) -> Any:
        """The next batch; `with phase("game"):` marks time that is not data loading."""
        ...

    def loss(self, batch: Any) -> Any:
        """Forward pass and loss of one batch: a scalar of the framework."""
        ...


class Workload(Protocol):
    """One file each in `workloads/`."""

    facts: WorkloadFacts

    def prepare(self, *, batch_size: int, seed: int, data_dir: Path | None) -> Training:
        """Builds model, optimizer and data.

        Args:
            batch_size: Samples of one step.
            seed: Of weights, order of the data and everything else that is drawn.
            data_dir: Where official data lies; stand-ins are used where it is None or lacks it.

        Raises:
            InvalidValueError: The data there cannot be read.
        """
        ...

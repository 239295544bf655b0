"""Trains from the folder of an exported training, whatever the engine; torch is not needed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wattstep.engines.exported.folder import ExportedFolder, ExportedTraining
from wattstep.errors import RecordingError
from wattstep.schema.engine import Engine, Mark, Trainer, ignore_phase
from wattstep.schema.run_documents import ModelFacts

Array = npt.NDArray[Any]
# What an engine that makes the whole step in one call is doing while it does.
JOINT: Final = "training"


class ExportedTrainer(Trainer):
    """A training that was exported; its batches come in turn, and begin anew after the last.

    A subclass loads its files in `__init__`, makes a step in `take`, and gives its weights. The
    first losses of each training are held against those that torch had: an engine that trains
    something else is never timed.

    Args:
        engine: What it trains on.
        folder: The exported training.
    """

    def __init__(self, engine: Engine, folder: ExportedFolder) -> None:
        self.engine = engine
        self.folder = folder
        self.training = folder.training
        self.data = folder.training.data
        self.model: Any = folder  # which has no layers that anybody could follow
        self._arrays = folder.arrays
        self._steps = 0
        self.checked = len(self.training.losses)  # so many steps

    @abstractmethod
    def take(self, batch: Mapping[str, Array], mark: Mark) -> float:
        """Makes one step and returns its loss.

        Args:
            batch: By name of the input, C-contiguous arrays that may be kept until the next step.
            mark: Told where each phase after "data" begins: "forward", "backward", "optimizer"
                where the engine makes them one after the other, `JOINT` where they are one call.
        """

    @abstractmethod
    def weights(self) -> dict[str, Array]:
        """Parameters as they are now, by torch's names; copies."""

    def step(self, mark: Mark = ignore_phase) -> float:
        """As `Trainer.step`.

        Raises:
            RecordingError: The loss of one of the first steps is not what it must be.
        """
        mark("data")
        loss = self.take(self.batch(self._steps), mark)
        if self._steps < self.checked:
            check_loss(self.engine.name, self.training, self._steps, loss)
        self._steps += 1
        return loss

    @property
    def steps(self) -> int:
        """Steps that were made."""
        return self._steps

    def batch(self, step: int) -> dict[str, Array]:
        """The batch of a step, counted from 0, by name of the input; copies."""
        index = step % self.training.batches
        return {name: np.array(array[index]) for name, array in self._arrays.items()}

    def keep_batches(self) -> None:
        """Brings the batches into memory, since the folder is about to be removed."""
        self._arrays = {name: np.array(array) for name, array in self._arrays.items()}

    def model_facts(self) -> ModelFacts:
        """As `Trainer.model_facts`."""
        return self.training.model

    def remarks(self) -> Sequence[str]:
        """What was rewritten, and further notes of the export."""
        return (*self.training.rewrites, *self.training.notes)


def check_loss(engine: str, training: ExportedTraining, step: int, loss: float) -> None:
    """Refuses a training whose loss is not torch's in float64, as far as the export knows that.

    Args:
        engine: That trains, for what is said.
        training: The exported training.
        step: Counted from 0; of those beyond the known losses nothing is said.
        loss: Of that step.

    Raises:
        RecordingError: It is further off than float32 allows.
    """
    if step >= len(training.losses):
        return
    right, allowed = training.losses[step], training.allowed[step]
    if not abs(loss - right) <= allowed:  # which a loss that is no number is not
        raise RecordingError(
            f"{engine} does not train {training.workload} right here: the loss of step "
            f"{step + 1} is {loss:.7g}, it must be {right:.7g} within {allowed:.2g}",
            id="trains-wrongly",
        )

"""The largest batch size that fits, whatever predicts memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from wattstep.devices.table import Device
from wattstep.errors import InvalidValueError
from wattstep.schema.step_graph import StepFamily

EACH_CAPTURED: Final = (
    "its operations or their sizes do not grow in proportion to the batch: each batch size is captured by "
    "itself, and the largest that fits is known to an eighth"
)
LARGEST: Final = 1 << 20  # batch size that is looked at
MOST_CAPTURED: Final = 4096  # where each has to be captured
COARSE: Final = 1 / 8  # distance of batch sizes in the search, where each has to be captured


class BatchSearch(ABC):
    """What predicts a training at any batch size.

    Args:
        captured: Its step at any batch size.
        device: Where it would train, in its power mode.
        precision: Of the training.
    """

    def __init__(self, captured: StepFamily, device: Device, precision: str) -> None:
        self.captured = captured
        self.device = device
        self.precision = precision

    @abstractmethod
    def fits_with(self, batch_size: int) -> float:
        """Probability that a batch size trains without running out of memory."""

    @property
    def captures_each(self) -> bool:
        """True if each batch size has to be captured by itself: sizes are not in proportion to it."""
        return self.captured.capture is not None

    @property
    def searched(self) -> int:
        """The largest batch size that `largest` looks at."""
        return MOST_CAPTURED if self.captures_each else LARGEST

    def largest(self, probability: float = 0.5) -> int | None:
        """The largest batch size that fits with a probability, `searched` at most; 0: not even 1 does.

        Where each batch size is captured by itself, that is the largest of a few, an eighth apart;
        None: one of them cannot be captured.
        """
        below, above = 0, 1
        step = COARSE if self.captures_each else 0.0
        try:
            while above <= self.searched and self.fits_with(above) >= probability:
                below, above = above, 2 * above
            above = min(above, self.searched + 1)
            while above - below > max(1.0, step * below):
                middle = (below + above) // 2
                if self.fits_with(middle) >= probability:
                    below = middle
                else:
                    above = middle
        except InvalidValueError:  # of a capture
            return None
        return below

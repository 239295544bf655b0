"""The largest batch size that fits, whatever predicts memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Mapping
from copy import copy
from functools import cached_property
from math import exp, expm1, inf, log
from typing import ClassVar, Final, TypeVar

from wattstep.devices.table import Device
from wattstep.errors import InvalidValueError
from wattstep.predict.like import (
    LABELS,
    Correction,
    Error,
    Evidence,
    Network,
    Sharing,
    correction,
    error_of,
    network_of,
    power_error,
)
from wattstep.predict.prediction import Prediction
from wattstep.schema.step_graph import StepFamily

S = TypeVar("S", bound="BatchSearch")
EACH_CAPTURED: Final = (
    "its operations or their sizes do not grow in proportion to the batch: each batch size is captured by "
    "itself, and the largest that fits is known to an eighth"
)
LARGEST: Final = 1 << 20  # batch size that is looked at
MOST_CAPTURED: Final = 4096  # where each has to be captured
COARSE: Final = 1 / 8  # distance of batch sizes in the search, where each has to be captured
FIRST_CAPTURED: Final = (
    64  # where such a search begins: of a capture that was made to see what a batch changes
)
MOST_GUESSES: Final = 6  # of such a search, after which it goes on by halves
ROOM_SOUGHT: Final = 25.0  # logarithm of how far memory of a batch may be from the room there is
ROOM_KNOWN: Final = 1e-3  # to which that is found


class BatchSearch(ABC):
    """What predicts a training at any batch size.

    Attributes:
        processor: On which it trains, "cuda" or "cpu".
        threads: That compute; None: it is no matter.

    Args:
        captured: Its step at any batch size.
        device: Where it would train, in its power mode.
        precision: Of the training.

    Attributes:
        sample_s: Time in s in which one sample is read and prepared beside what its operations take; 0: not known.
    """

    processor: ClassVar[str]
    threads: int | None

    def __init__(self, captured: StepFamily, device: Device, precision: str) -> None:
        self.captured = captured
        self.device = device
        self.precision = precision
        self.evidence = Evidence()
        self.sample_s = 0.0
        self._looked_at: set[int] = set()  # batch sizes that were captured in a search

    @cached_property
    def network(self) -> Network:
        """What trains, to tell it from what recorded runs trained."""
        return network_of(self.captured)

    @property
    @abstractmethod
    def sharing(self) -> Mapping[str, Sharing]:
        """What trainings on the device share of an error, by the quantities that runs may correct."""

    @property
    @abstractmethod
    def reach_of_device(self) -> Mapping[str, float]:
        """Half of the 90 % intervals by quantity, as logarithms, of trainings like those of the fit."""

    @staticmethod
    def check_batch(batch_size: int) -> None:
        """Refuses a batch size that nobody trains.

        Raises:
            InvalidValueError: It is less than 1 or more than `LARGEST`.
        """
        if not 1 <= batch_size <= LARGEST:
            raise InvalidValueError(
                f"batch {batch_size:,}: it must be from 1 to {LARGEST:,}", id="out-of-range"
            )

    def with_threads(self: S, number: int) -> S:
        """The same with another number of threads.

        Raises:
            InvalidValueError: It has none to choose, or fewer cores.
        """
        if number == self.threads:
            return self
        cores = sum(each.cores for each in self.device.processors.values() if each.kind == "cpu")
        if self.threads is None or not 1 <= number <= cores:
            raise InvalidValueError(
                f"threads {number}: {self.device.name} trains on its GPU"
                if self.threads is None
                else f"threads {number}: {self.device.name} has {cores} cores",
                id="out-of-range",
            )
        other = copy(self)
        other.threads = number
        other._forget()
        return other

    def _forget(self) -> None:  # noqa: B027  # most have nothing to forget
        """Nothing that was computed goes on to another number of threads."""

    def learn(self, evidence: Evidence) -> None:
        """Corrects predictions from now on by recorded trainings on this device, in this mode."""
        self.evidence = evidence

    def errors(self, prediction: Prediction) -> dict[str, Error]:
        """How far a prediction that nothing corrected may be off, by quantity."""
        batch_size, reach = prediction.batch_size, dict(prediction.reach)
        errors = {
            name: self._error(name, batch_size, reach[name])
            for name in reach
            if name in self.sharing
        }
        if prediction.power is not None:
            errors["power"] = power_error(
                self.network, batch_size, *prediction.power, sharing=self.sharing["power"]
            )
        return errors

    def correction(self, quantity: str, batch_size: int, reach: float) -> Correction:
        """Correction of a prediction by what was learned.

        Args:
            quantity: As a key of its `reach`.
            batch_size: Of it.
            reach: Half of its 90 % interval, as a logarithm.
        """
        if not self.evidence.misses.get(quantity):
            return Correction(factor=1.0, reach=reach)
        return self._by_evidence(quantity, self._error(quantity, batch_size, reach))

    def _error(self, quantity: str, batch_size: int, reach: float) -> Error:
        sharing, of_device = self.sharing[quantity], self.reach_of_device[quantity]
        return error_of(self.network, batch_size, reach, of_device, sharing)

    def _by_evidence(self, quantity: str, error: Error) -> Correction:
        return correction(error, self.evidence.misses.get(quantity, ()), self.sharing[quantity])

    def _corrected(self, prediction: Prediction) -> Prediction:
        """The prediction with its data and what was learned; whether it fits stays as it is."""
        prediction = prediction.with_data(self.sample_s * prediction.samples)
        if not self.evidence.trainings:
            return prediction
        corrections = {
            name: self._by_evidence(name, error)
            for name, error in self.errors(prediction).items()
            if self.evidence.misses.get(name)
        }
        made = ", ".join(
            f"{LABELS[name]} × {each.factor:.3g} ± {100 * expm1(each.reach):.0f} %"
            for name, each in corrections.items()
        )
        notes = (*(each.note for each in self.evidence.trainings), f"corrected by that: {made}")
        runs = len(self.evidence.trainings)
        by = f"corrected by {runs} recorded run{'s'[: runs > 1]}"
        return prediction.corrected(corrections, by, notes)

    @abstractmethod
    def at(self, batch_size: int) -> Prediction:
        """The prediction for a batch size.

        Raises:
            InvalidValueError: It is less than 1 or more than `LARGEST`.
        """

    @abstractmethod
    def fits_with(self, batch_size: int, times: float = 1.0) -> float:
        """Probability that a batch size trains without running out of memory.

        Args:
            batch_size: Of the step.
            times: As much memory as it is predicted to take is looked at.
        """

    def fits_at_most(self, batch_size: int) -> float:
        """A probability that `fits_with` does not exceed, where less work tells one."""
        return self.fits_with(batch_size)

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
        if self.captures_each:
            try:
                return self._largest_captured(probability)
            except InvalidValueError:  # of a capture
                return None

        def fits(size: int) -> bool:
            return self.fits_at_most(size) >= probability and self.fits_with(size) >= probability

        below, above = 0, self._last_power(probability)
        while above > 1 and not fits(above):
            above //= 2
        while above <= self.searched and fits(above):
            below, above = above, 2 * above
        above = min(above, self.searched + 1)
        while above - below > 1:
            middle = (below + above) // 2
            if fits(middle):
                below = middle
            else:
                above = middle
        return below

    def _largest_captured(self, probability: float) -> int:
        """As `largest`, with few captures: each where the line through the two before says that memory is full.

        A capture takes seconds, and longer at large batches. A little below that size and a little above
        it, the batch that fits is known to an eighth; where memory is far from a line, the middle is.
        """
        self._looked_at.add(FIRST_CAPTURED)
        known = len(self._looked_at)
        taken: dict[int, float] = {}
        while True:
            for size in self._looked_at - taken.keys():
                taken[size] = self._part_of_room(size, probability)
            above = min(
                (each for each, part in taken.items() if part > 1), default=self.searched + 1
            )
            below = max(
                (each for each, part in taken.items() if part <= 1 and each < above), default=0
            )
            if above - below <= max(1.0, COARSE * below):
                return below
            size = (below + above) // 2
            if len(taken) < known + MOST_GUESSES:
                full = min(_where_full(taken), 2.0 * self.searched)
                near = full * (1 - COARSE / 3)
                size = int(near if near > below * (1 + COARSE / 3) else full * (1 + COARSE / 3))
            self._looked_at.add(max(below + 1, min(size, above - 1)))

    def _part_of_room(self, batch_size: int, probability: float) -> float:
        """Memory of a batch size, of the most with which it would fit with a probability."""
        low, high = -ROOM_SOUGHT, ROOM_SOUGHT
        while high - low > ROOM_KNOWN:
            middle = (low + high) / 2
            if self.fits_with(batch_size, exp(middle)) >= probability:
                low = middle
            else:
                high = middle
        return exp(-low)

    def _last_power(self, probability: float) -> int:
        """The largest power of two of which nothing but a closer look can say that it does not fit, at least 1."""
        powers = [1 << power for power in range(LARGEST.bit_length())]
        beyond = bisect_left(powers, True, key=lambda size: self.fits_at_most(size) < probability)
        return powers[max(0, beyond - 1)]


def _where_full(taken: Mapping[int, float]) -> float:
    """Batch size at which memory is full, by the line through the two that come nearest to that.

    Args:
        taken: Part of the room by batch size; of one alone memory is taken to be in proportion.
    """
    nearest = sorted(taken.items(), key=lambda item: abs(log(item[1])))
    (size, part), *others = nearest
    if not others:
        return size / part
    other, its_part = others[0]
    slope = (part - its_part) / (size - other)
    return max(0.0, size + (1 - part) / slope) if slope > 0 else inf

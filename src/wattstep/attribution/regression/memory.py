"""Energies under a memory of the sensor, or of power itself: it decays with a time constant into what follows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize

from wattstep.attribution.regression.evidence import evidence
from wattstep.attribution.regression.explained import Explained, most_spread
from wattstep.attribution.regression.mixed import IMPOSSIBLE
from wattstep.attribution.regression.observed import Observed, Rows
from wattstep.attribution.regression.outcome import Memory
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import Missing
from wattstep.stats.student import half_width

TIMES = np.array([0.03, 0.06, 0.12, 0.25, 0.5, 0.8, 1.3, 2.0, 4.0, 10.0])  # of what a sample sees
APART = 0.5  # of a time constant, or of what a sample sees: delays that are tried
CLOSER = 30  # tries of a closer look
KEPT = 5  # of them
ROWS = 2000  # samples that are looked at
LEAST_ROWS = 20
MOST_BLOCKS = 40
FEWEST_BLOCKS = 6
FAR = 3.0  # standard deviations: what lies farther beside counts for no more
WORSE = 0.975  # a memory that predicts worse than the best as surely as that is none
SURE = 0.999  # and one that predicts better than a plain average as surely as this is one
MUCH = 0.05  # of the energy is with other kinds than without a memory
FORGETS = (
    "the sensor seems to average exponentially, or power to go on from one operation into the next "
    "(time constant about {:.2g} ms), or operations or samples to lie by so much beside their times, "
    "which looks alike: which operation took it is not told"
)


def memories_of(
    observed: Observed,
    root: FloatArray,
    plain: Explained,
    delay: float | None,
    window: float | None,
    known: Sequence[Memory] = (),
) -> list[Memory]:
    """Memories that were tried against a plain average, those of each time constant that do best.

    Args:
        observed: The samples.
        root: Lower root of the prior's covariance, shape (k + 1, k + 1).
        plain: The samples explained by the likeliest plain average.
        delay: Of the sensor in s, where it is known.
        window: That it averages over in s, where it is known.
        known: What other samples of the same sensor and work leave plausible: then only these.
    """
    against = _Against(observed.thinned(ROWS), root, plain)
    if known:
        tried = (against.memory(each.seconds, each.delay, each.window) for each in known)
        return [memory for memory in tried if memory is not None]
    memories = [
        memory for seconds in TIMES * against.sees_s
        if (memory := against.best(seconds, delay)) is not None
    ]  # fmt: skip
    if memories:
        free = window is None and not observed.counter
        memories += against.closer(max(memories, key=_gained), delay, free)
    return memories


def changes(
    observed: Observed, plain: Explained, memories: Sequence[Memory]
) -> FloatArray | Missing:
    """Change of energies in J under each plausible memory, one row each, shape (m, k).

    Power that goes on from one operation into the next, and a sensor that averages exponentially,
    look alike in the samples and like a delay, but for how sharp they are; what they make of the
    energies differs. So both stand here for each time constant that predicts samples of other steps
    not clearly worse than the best one does. Nothing is shown before it was: of a sensor without
    delay, little power can linger.

    Args:
        observed: The samples.
        plain: The samples explained by the likeliest plain average.
        memories: That were tried.

    Returns:
        The changes; or why nothing can be told: there clearly is a memory, and it matters much.
    """
    lasting = observed.kind_seconds()
    if not memories:
        return np.zeros((0, len(lasting)))

    def of(memory: Memory) -> list[FloatArray]:
        of_sensor = memory.change * lasting
        return [of_sensor, of_sensor + carried(observed, memory.watts, memory.seconds)]

    best = max(memories, key=_gained)
    moved = max(float(np.abs(row).sum()) / 2 for row in of(best))
    whole = float(np.maximum(plain.watts[:-1], 0.0) @ lasting)
    if moved > MUCH * whole and clearly_less(np.zeros_like(best.loss), best.loss, SURE):
        return Missing(FORGETS.format(1e3 * best.seconds))
    rows = [row for memory in plausible(memories) for row in of(memory)]
    return np.array(rows).reshape(-1, len(lasting))


def plausible(memories: Sequence[Memory]) -> list[Memory]:
    """Those that predict samples not clearly worse than the best of them, or than none, does."""
    if not memories:
        return []
    nothing = np.zeros_like(memories[0].loss)
    best = max([nothing, *(memory.loss for memory in memories)], key=np.sum)
    return [memory for memory in memories if not clearly_less(memory.loss, best, WORSE)]


def carried(observed: Observed, watts: FloatArray, seconds: float) -> FloatArray:
    """Energy in J that kinds take over from what ran before, less what they leave, shape (k,).

    Args:
        observed: What runs when in the mean step, steps following each other.
        watts: Power to which each kind tends, shape (k,).
        seconds: Time constant with which power goes there.
    """
    axis = observed.axis
    lasting = np.asarray(axis.overlap.sum(axis=0)).ravel() * observed.seconds
    tends = axis.segment_kind @ np.maximum(watts, 0.0)
    first, last = axis.first_segment[:-1], axis.first_segment[1:] - 1
    gone = -np.expm1(-lasting / seconds)
    # The level at which each segment begins follows from that of the one before; steps follow each
    # other, so that the first begins at the level with which the last ends.
    before = gone[:-1] - 1
    before[last[:-1]] = 0.0
    bands = np.stack([np.ones(len(gone)), np.append(before, 0.0)])
    gained = np.concatenate([[0.0], (gone * tends)[:-1]])
    begins = tends[last]
    level = np.zeros(len(gone))
    for _ in range(2):
        gained[first] = begins
        level = linalg.solve_banded((1, 0), bands, gained, check_finite=False)
        begins = level[last] + (tends[last] - level[last]) * gone[last]
    over = (level - tends) * gone * seconds
    by_kind: FloatArray = axis.segment_kind.T @ over / axis.layouts
    return by_kind


class _Against:
    """Memories against a plain average, by samples that both explain.

    Args:
        observed: The samples.
        root: Lower root of the prior's covariance.
        plain: The samples explained by a plain average.
    """

    def __init__(self, observed: Observed, root: FloatArray, plain: Explained) -> None:
        self._observed, self._root = observed, root
        self._delay, self._window = plain.delay, plain.window
        self._least = min(
            plain.delay, observed.delays(plain.window)[0] if observed.beside_s else 0.0
        )
        self._rows = observed.rows(plain.delay, plain.window)
        self._table = observed.table() @ root
        self._plain: dict[bytes, _Predicted] = {}
        self.sees_s = max(observed.spacing_s, plain.window)

    def best(self, seconds: float, delay: float | None) -> Memory | None:
        """The memory with this time constant that predicts best; None where none explains enough.

        Args:
            seconds: Time constant.
            delay: Of the sensor in s, where it is known.
        """
        tried = [self.memory(seconds, *each) for each in self._tries(seconds, delay)]
        return max((each for each in tried if each is not None), key=_gained, default=None)

    def closer(self, best: Memory, delay: float | None, free_window: bool) -> list[Memory]:
        """Better ones nearby, by a simplex search over the time constant, the delay and the window.

        A plain average that took the place of a memory has part of its time in its window: what is
        left of the window beside the memory is shorter.

        Args:
            best: Of those that were tried.
            delay: Of the sensor in s, where it is known.
            free_window: Whether the window may be another one.
        """
        memories: list[Memory] = []
        free_window = free_window and best.window > 0

        def score(free: FloatArray) -> float:
            window = best.window * math.exp(float(free[2])) if free_window else best.window
            later = delay
            if later is None:
                later = best.delay + float(free[1]) * best.seconds + (best.window - window) / 2
            if later < self._least:
                return IMPOSSIBLE
            tried = self.memory(best.seconds * math.exp(float(free[0])), later, window)
            if tried is None:
                return IMPOSSIBLE
            memories.append(tried)
            return -_gained(tried)

        begin = np.array([[0, 0, 0], [0.25, 0, 0], [0, 0.25, 0], [0, 0, -0.25]])
        count = 3 if free_window else 2
        optimize.minimize(
            score, np.zeros(count), method="Nelder-Mead",
            options={"initial_simplex": begin[: count + 1, :count], "maxfev": CLOSER * (count - 1),
                     "xatol": 1e-3, "fatol": 0.1},
        )  # fmt: skip
        return sorted(memories, key=_gained)[-KEPT:]

    def _tries(self, seconds: float, delay: float | None) -> Iterator[tuple[float, float]]:
        """Delays and windows that, with the memory, are as late as the plain average was found.

        The memory comes on top of the window, or in its place: what is documented as a window may
        be a time constant.
        """
        for window in {self._window, 0.0}:
            late = self._delay + (self._window - window) / 2 - seconds
            by = APART * min(seconds, self.sees_s)
            delays = (
                {max(late + i * by, self._least) for i in (-1, 0, 1)} if delay is None else {delay}
            )
            yield from ((each, window) for each in sorted(delays))

    def memory(self, seconds: float, delay: float, window: float) -> Memory | None:
        """A memory beside the plain average; None where both explain too few samples.

        Args:
            seconds: Time constant.
            delay: Of the sensor besides, in s.
            window: That is averaged plainly before, in s.
        """
        rows = self._observed.forgetting(seconds, window).rows(delay, 0.0)
        both = rows.taken & self._rows.taken
        if both.sum() < max(LEAST_ROWS, 2 * self._table.shape[1]):
            return None
        blocks = _blocks(self._rows, both[self._rows.taken])
        if blocks.max() + 1 < FEWEST_BLOCKS:
            return None
        key = both.tobytes()
        if key not in self._plain:
            self._plain[key] = self._predicted(self._rows, both[self._rows.taken], blocks)
        plain = self._plain[key]
        other = self._predicted(rows, both[rows.taken], blocks)
        unit = float(np.mean(plain.left**2)) + 1e-300
        less = [np.minimum(each.left**2 / unit, FAR**2) for each in (plain, other)]
        # As if as many samples took part as did without a memory: losses are compared as sums.
        share = len(self._rows.watts) / len(blocks)
        less_left = np.bincount(blocks, less[0] - less[1], MOST_BLOCKS)
        loss = less_left.astype(np.float64) * share
        return Memory(
            seconds=seconds, delay=delay, window=window, loss=loss,
            change=other.watts - plain.watts, watts=other.watts,
        )  # fmt: skip

    def _predicted(self, rows: Rows, chosen: BoolArray, blocks: IntArray) -> _Predicted:
        """Residuals of some samples where powers come from the other half of the blocks."""
        weights = rows.weights if chosen.all() else rows.weights[chosen]
        columns = np.asarray(weights @ self._table)
        middle = float(rows.watts[chosen].mean())
        about = rows.watts[chosen] - middle
        halves = [columns[blocks % 2 == half] for half in (0, 1)]
        grams = [half.T @ half for half in halves]
        rights = [half.T @ about[blocks % 2 == nth] for nth, half in enumerate(halves)]
        gram, right = grams[0] + grams[1], rights[0] + rights[1]
        square, most = float(about @ about), most_spread(middle)
        ratio = evidence(gram.copy(), right, square, len(about), most).ratio
        left = np.empty(len(about))
        for nth, half in enumerate(halves):
            other = _ridge(grams[1 - nth], rights[1 - nth], ratio)
            left[blocks % 2 == nth] = about[blocks % 2 == nth] - half @ other
        watts = middle + self._root @ _ridge(gram, right, ratio)
        return _Predicted(left=left, watts=watts[:-1])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Predicted:
    """Residuals of samples, in W, and powers of kinds."""

    left: FloatArray
    watts: FloatArray


def _gained(memory: Memory) -> float:
    return float(memory.loss.sum())


def _ridge(gram: FloatArray, right: FloatArray, ratio: float) -> FloatArray:
    whole = gram + ratio * np.eye(len(gram))
    solution: FloatArray = linalg.solve(whole, right, assume_a="pos", check_finite=False)
    return solution


def _blocks(rows: Rows, chosen: BoolArray) -> IntArray:
    """Numbers of blocks of steps in a row; what is left of a step's samples belongs together."""
    step = rows.process[chosen] * (1 << 32) + rows.step[chosen]
    distinct, number = np.unique(step, return_inverse=True)
    blocks: IntArray = number * min(MOST_BLOCKS, len(distinct)) // len(distinct)
    return blocks


def clearly_less(loss: FloatArray, best: FloatArray, sure: float) -> bool:
    """True if one is less than the other by more than blocks differ by chance.

    Args:
        loss: Of blocks, shape (blocks,).
        best: Of the same blocks.
        sure: How sure that is to be, from 0 to 1.
    """
    differ = best - loss
    differ = differ[differ != 0]
    if len(differ) < FEWEST_BLOCKS:
        return False
    return float(differ.mean()) > half_width(
        differ, 2 * sure - 1
    )  # one side of the interval counts

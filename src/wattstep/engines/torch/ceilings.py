"""Measures what this machine can do at most with torch: products of matrices, convolutions, moving memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch

from wattstep.errors import InvalidValueError
from wattstep.schema.ceilings import (
    CHANNELS_LAST,
    CONVOLUTION,
    PRODUCT,
    Asked,
    Ceilings,
    Level,
    identity,
    spoken_threads,
)
from wattstep.schema.figure import CLOCK, Figure, Status, missing
from wattstep.schema.spelling import rounded
from wattstep.stats.statistics import median_figure

REPETITION_S: Final = 0.012  # of one repetition at least: the clock and the scheduler are far finer
LEAST_REPETITIONS: Final = 5
LATE: Final = 2  # times the time asked for: where everything crawls, fewer repetitions must do
LEAST_WHEN_LATE: Final = 3
SIDES: Final = (512, 1024, 2048)
BEYOND: Final = 4  # times the largest cache, so that next to nothing of an array is still in it
UNKNOWN_CACHE: Final = 64 * 1024**2  # taken for the largest cache where the system does not tell it
OF_MEMORY: Final = 0.25  # of the free memory may be used
SLOW_S: Final = 0.05  # a product that takes longer is large enough
UNSTEADY: Final = 1.25  # best over median from which on a reader is told
DTYPES: Final = {"fp32": torch.float32, "bf16": torch.bfloat16}
CONVOLUTION_OF: Final = (8, 64, 56)  # batch, channels in and out, side: as in ResNet
Tell = Callable[[str], None]


@dataclass(frozen=True)
class _Work:
    """Something to repeat, and what one repetition does."""

    run: Callable[[], Any]
    amount: float  # FLOP or bytes


def measure(asked: Asked, tell: Tell = lambda text: None) -> Ceilings:
    """Measures the ceilings.

    Each is repeated for its share of the time, a repetition lasting 12 ms or more. What counts is
    the best repetition, as in STREAM (McCalpin 1995): whatever disturbs only slows down. The
    interval reaches down to the median, which is kept as well.

    Args:
        asked: Ceilings to measure.
        tell: Hears what is measured next.

    Raises:
        InvalidValueError: There are no such threads or precisions.
    """
    unknown = [name for name in asked.precisions if name not in DTYPES]
    if unknown or asked.threads < 1:
        wrong = f"precision {unknown[0]}" if unknown else f"{asked.threads} threads"
        raise InvalidValueError(f"{wrong}: ceilings are of fp32 and bf16, with a thread or more")
    begin = time.perf_counter()
    with _threads(asked.threads), torch.no_grad():
        measured = _Found(asked)
        for precision in asked.precisions:
            tell(
                f"{spoken_threads(asked.threads)}: products of matrices and convolutions in {precision}"
            )
            _measure_compute(measured, precision)
        sizes = _sizes(asked, measured.notes)
        levels = [_measure_level(measured, name, size, tell, asked.threads) for name, size in sizes]
        measured.tell_unsteady()
    return Ceilings(
        created=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        device=identity(asked.device),
        engine=f"torch {torch.__version__}",
        threads=asked.threads,
        compute=measured.compute,
        levels=tuple(levels),
        medians=measured.medians,
        seconds=time.perf_counter() - begin,
        notes=tuple(measured.notes),
    )


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Found:
    """Measurements so far.

    Args:
        asked: Ceilings to measure; each ceiling gets a like share of the time.
    """

    def __init__(self, asked: Asked) -> None:
        ceilings = len(asked.precisions) * 3 + 2 * (len(asked.caches) + 1)
        self._share_s = asked.seconds / ceilings
        self._late_at = time.perf_counter() + LATE * asked.seconds
        self.compute: dict[str, Figure] = {}
        self.medians: dict[str, Figure] = {}
        self.notes: list[str] = []
        self._unsteady: dict[str, float] = {}  # best over median

    def tell_unsteady(self) -> None:
        """A note where repetitions differ much."""
        if self._unsteady:
            most = max(self._unsteady.values())
            self.notes.append(
                f"the best repetition was up to {rounded(most, 2)} times the median "
                f"({', '.join(self._unsteady)}): something else ran on this machine, or its clock "
                "moved"
            )

    def best_of(self, name: str, unit: str, works: Sequence[_Work]) -> Figure:
        """The best repetition of the best of some works."""
        chosen = _fastest(works)
        late = time.perf_counter() > self._late_at
        least = LEAST_WHEN_LATE if late else LEAST_REPETITIONS
        rates = _repeated(chosen, self._share_s, least)
        best, median = max(rates), median_figure(rates, unit, CLOCK, Status.MEASURED)
        self.medians[name] = median
        middle = median.value or best
        if best > UNSTEADY * middle:
            self._unsteady[name] = best / middle
        return Figure(
            value=best,
            unit=unit,
            low=middle,
            high=best,
            n=len(rates),
            status=Status.MEASURED,
            source=f"torch {torch.__version__}, {CLOCK}",
            method=f"best of {len(rates)} repetitions of 12 ms or more; the interval reaches down "
            "to their median",
        )


def _fastest(works: Sequence[_Work]) -> _Work:
    """The work that reaches most; the larger ones are not tried where the smaller take long."""
    if len(works) == 1:
        return works[0]
    seconds: dict[int, float] = {}
    for number, work in enumerate(works):
        if seconds and works[number - 1].amount / seconds[number - 1] > SLOW_S:
            break
        seconds[number] = work.amount / _once(work, REPETITION_S)
    return works[max(seconds, key=lambda number: seconds[number])]


def _once(work: _Work, least_s: float) -> float:
    """Seconds that the work takes, from as many runs as fill the time."""
    work.run()
    runs, seconds = 1, _timed(work, 1)
    while seconds < least_s:
        runs = max(2 * runs, round(runs * least_s / seconds * 1.2) if seconds > 0 else 0)
        seconds = _timed(work, runs)
    return seconds / runs


def _repeated(work: _Work, share_s: float, least: int) -> list[float]:
    """Amounts in a second, one for each repetition, of which there are at least so many."""
    runs = max(1, round(REPETITION_S / _once(work, REPETITION_S / 2) + 0.5))
    rates: list[float] = []
    end = time.perf_counter() + share_s
    while len(rates) < least or time.perf_counter() < end:
        rates.append(work.amount * runs / _timed(work, runs))
    return rates


def _timed(work: _Work, runs: int) -> float:
    run = work.run
    begin = time.perf_counter()
    for _ in range(runs):
        run()
    return time.perf_counter() - begin


def _measure_compute(results: _Found, precision: str) -> None:
    dtype = DTYPES[precision]
    for name, works in (
        (PRODUCT, [_product(side, dtype) for side in SIDES]),
        (CONVOLUTION, [_convolution(*CONVOLUTION_OF, dtype, False)]),
        (CHANNELS_LAST, [_convolution(*CONVOLUTION_OF, dtype, True)]),
    ):
        key = f"{name}.{precision}"
        try:
            results.compute[key] = results.best_of(key, "FLOP/s", works)
        except RuntimeError as error:  # a processor for which torch has no such kernel
            first = str(error).splitlines()[0]
            results.compute[key] = missing("FLOP/s", f"torch cannot compute it here: {first}")


def _product(side: int, dtype: torch.dtype) -> _Work:
    """A product of square matrices: 2 n³ FLOP."""
    a, b = (torch.randn(side, side).to(dtype) for _ in range(2))
    out = torch.empty(side, side, dtype=dtype)
    return _Work(lambda: torch.mm(a, b, out=out), 2.0 * side**3)


def _convolution(
    batch: int, channels: int, side: int, dtype: torch.dtype, channels_last: bool
) -> _Work:
    """A 3x3 convolution that keeps its size: 2 · 9 · batch · channels² · side² FLOP."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    x = torch.randn(batch, channels, side, side).to(dtype).to(memory_format=layout)
    weight = torch.randn(channels, channels, 3, 3).to(dtype).to(memory_format=layout)
    amount = 2.0 * 9 * batch * channels**2 * side**2
    return _Work(lambda: torch.nn.functional.conv2d(x, weight, padding=1), amount)


def _sizes(asked: Asked, notes: list[str]) -> list[tuple[str, int]]:
    """Names of the levels and the bytes that all arrays take there."""
    largest = max(asked.caches.values(), default=UNKNOWN_CACHE)
    # Three arrays of the triad: half of a cache, so that all of them fit beside everything else.
    levels = [(name, size // 2) for name, size in asked.caches.items()]
    wanted, permitted = 3 * BEYOND * largest, int(OF_MEMORY * asked.free)
    if wanted > permitted:
        notes.append(
            f"memory: arrays of {rounded(permitted / 3e6)} MB instead of {rounded(wanted / 3e6)} MB, for more "
            "is not free: caches may have a part in its figures"
        )
    if not asked.caches:
        notes.append("the system tells no sizes of caches: the largest is taken to be 64 MiB")
    return [*levels, ("memory", min(wanted, permitted))]


def _measure_level(results: _Found, name: str, size: int, tell: Tell, threads: int) -> Level:
    tell(f"{spoken_threads(threads)}: {name}, {rounded(size / 1e6)} MB")
    count = max(size // 12, 1)
    a, b, c = (torch.ones(count) for _ in range(3))
    copy = _Work(lambda: a.copy_(b), 8.0 * count)
    triad = _Work(lambda: torch.add(b, c, alpha=0.5, out=a), 12.0 * count)
    return Level(
        name=name,
        size=12 * count,
        copy=results.best_of(f"{name}.copy", "B/s", [copy]),
        triad=results.best_of(f"{name}.triad", "B/s", [triad]),
    )

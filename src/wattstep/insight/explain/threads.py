"""Cores that a run used, cores that were free, and predicted savings of other numbers of threads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.device.roofline import Placed
from wattstep.insight.explain.operations import Work, under_ceilings
from wattstep.recorded.series import real_cores
from wattstep.run import Run
from wattstep.schema.arrays import BoolArray, FloatArray
from wattstep.schema.ceilings import Ceilings
from wattstep.schema.figure import Figure, Missing, Status, missing, weakest
from wattstep.schema.operation_kinds import DENSE
from wattstep.stats.speedup import Saving, with_fewer_threads, with_higher_ceilings
from wattstep.store.ceilings import find

GRAIN_BYTES: Final = 2 * 4 * 32768  # torch cuts what has more than 32768 elements (ATen's grain)
LEAST_TAKEN: Final = 0.25  # cores by others: less does not keep a thread from its core for long


@dataclass(frozen=True, kw_only=True)
class Cores:
    """Cores of the machine that trained.

    Attributes:
        count: Number of cores.
        threads: Threads of an operation; None: the run does not say.
        used: Cores that the training kept busy, mean.
        others: Cores that other processes took.
        stolen: Cores that the host took.
        free: Cores that were there for the training: all less those that others and the host took.
    """

    count: int
    threads: int | None
    used: Figure
    others: Figure
    stolen: Figure
    free: Figure

    @property
    def idle(self) -> Figure:
        """Free cores that the training left idle."""
        return _less(self.free, self.used, "free cores less those that the training used")

    @property
    def crowded(self) -> bool:
        """True if more threads ran than there were cores for."""
        occupied = (self.others.value or 0.0) + (self.stolen.value or 0.0)
        if self.threads is None or self.threads < 2 or occupied < LEAST_TAKEN:
            return False
        return self.threads > self.fitting

    @property
    def taken_words(self) -> str:
        """Words on the cores that others took, and the host where it took any."""
        others, host = (f"{each.value or 0.0:.2g}" for each in (self.others, self.stolen))
        return f"other processes took {others}" + (
            f", the host {host}" if self.stolen.value else ""
        )

    @property
    def crowded_words(self) -> str:
        """Sentence on the effect of more threads than cores on times."""
        return (
            f"Fewer cores were free ({self.free.value or 0.0:.2g}) than threads used "
            f"({self.threads}): at the end of every operation threads wait for each other"
        )

    @property
    def fitting(self) -> int:
        """Threads that have a core each beside what others took."""
        occupied = (self.others.value or 0.0) + (self.stolen.value or 0.0)
        return max(1, self.count - math.ceil(occupied - 0.05))


def cores_of(run: Run) -> Cores:
    """The cores of a run."""
    metrics, count = run.metrics, real_cores(run.info.device)
    nothing = missing("cores", "CPU time of the training was not sampled")
    used = metrics.get("process_cpu_cores") or nothing
    others = metrics.get("other_cpu") or missing("cores", "other processes were not sampled")
    steal = metrics.get("steal") or missing("ratio", "steal was not sampled")
    stolen = steal if steal.missing else steal.scaled(float(count), "cores")
    free = others if others.missing else _free(count, others, stolen)
    return Cores(
        count=count, threads=run.info.threads, used=used, others=others, stolen=stolen, free=free
    )


def _free(count: int, others: Figure, stolen: Figure) -> Figure:
    whole = Figure(value=float(count), unit="cores", status=Status.COUNTED, source="machine")
    left = _less(whole, others, "cores less those that other processes took")
    words = "cores less those that other processes and the host took"
    return left if stolen.missing else _less(left, stolen, words)


def _less(whole: Figure, part: Figure, words: str) -> Figure:
    """A difference that cannot be below 0, with the widest interval that its parts permit."""
    for one in (whole, part):
        if one.missing:
            return one
    assert whole.value is not None
    assert part.value is not None
    high = (whole.high if whole.high is not None else whole.value) - (part.low or 0.0)
    low = (whole.low if whole.low is not None else whole.value) - (
        part.high if part.high is not None else part.value
    )
    return Figure(
        value=max(whole.value - part.value, 0.0), unit="cores", low=max(low, 0.0),
        high=max(high, 0.0), n=part.n, status=weakest([whole.status, part.status]),
        source=part.source, method=f"{words}; {part.method or ''}".rstrip("; "),
    )  # fmt: skip


def near(placed: Placed) -> BoolArray:
    """Mask of the operations near the ceiling that binds them, shape (rows,)."""
    return np.array([bound in ("compute", "memory") for bound in placed.bound], bool)


def is_cut(work: Work) -> BoolArray:
    """Mask of the operations that the framework cuts into parts for threads: large ones, and products.

    What only asks a device to work has no parts on the host.
    """
    kinds = np.array([row.kind in DENSE for row in work.rows], bool)
    on_cpu = np.array([row.processor == "cpu" for row in work.rows], bool)
    large = np.nan_to_num(work.touched) >= GRAIN_BYTES
    cut: BoolArray = (kinds | large) & on_cpu & ~work.asks
    return cut


def more_threads(run: Run, work: Work, ceilings: Ceilings | None, threads: int) -> Saving:
    """Predicted saving of a step with more threads, in s.

    Args:
        run: A run.
        work: Its operations.
        ceilings: Those of its own threads, or None.
        threads: Number of threads, more than it had.
    """
    now = run.info.threads or 1
    placed = None if ceilings is None else under_ceilings(run, work, ceilings)
    nothing = np.full(len(work.rows), np.nan)
    return with_higher_ceilings(
        work.seconds,
        nothing if placed is None else placed.least_s,
        nothing if placed is None or ceilings is None
        else _scales(run, work, placed, ceilings, threads),
        np.zeros(len(work.rows), bool) if placed is None else near(placed),
        is_cut(work),
        threads / now,
    )  # fmt: skip


def _scales(run: Run, work: Work, placed: Placed, ceilings: Ceilings, threads: int) -> FloatArray:
    """By how much the ceiling that binds each operation is higher with so many threads."""
    ceilings_then = find(ceilings.device, ceilings.engine, threads)
    if isinstance(ceilings_then, Missing):
        return np.full(len(work.rows), np.nan)
    other = under_ceilings(run, work, ceilings_then)
    scales: FloatArray = placed.least_s / np.where(other.least_s > 0, other.least_s, np.nan)
    return scales


def fewer_threads(run: Run, work: Work, threads: int) -> tuple[Saving | None, float | None]:
    """Predicted saving of a step with fewer threads in s, and an upper bound of it.

    The step cannot be faster than its operations at the ceilings of so many threads, and the code
    between them.
    """
    step = run.breakdown.step_time.value or 0.0
    device = run.info.device.get("emulated_on", run.info.device)
    ceilings = find(device, run.info.engine, threads)
    floor = 0.0
    if not isinstance(ceilings, Missing):
        floor = float(np.nansum(under_ceilings(run, work, ceilings).least_s))
    saving = with_fewer_threads(step, undisturbed_step(run), floor)
    return saving, (step - floor if floor > 0 else None)


def undisturbed_step(run: Run) -> float | None:
    """Mean of the clean steps in which nothing else took a core; None where there is none."""
    steps, flags = run.breakdown.steps, run.conditions
    if flags.unseen or steps.thinned is not None:  # of all steps nobody knows
        return None
    quiet = steps.clean & ~flags.disturbed
    return float(steps.seconds[quiet].mean()) if quiet.any() else None

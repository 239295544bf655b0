"""Figures of days: shares of samples, and the energy of a span of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from wattstep.errors import DamagedRunError
from wattstep.run import Run
from wattstep.schema.figure import Figure, Missing, missing, weakest
from wattstep.stats.statistics import change_figure, share_figure
from wattstep.train.daily.folder import DayLabels, DayRow

NOTHING = "no sample of the day got a label: nothing was trained"


def right_share(bits: str) -> Figure:
    """Share of the labels that are right; missing where there are none."""
    return share(bits, "labels, held against the true ones") if bits else missing("ratio", NOTHING)


def energy_of(row: DayRow | DayLabels, opened: Callable[[str], Run], method: str) -> Figure:
    """Of the span from its begin to its end, which `method` names."""
    try:
        energy = opened(row["run"]).series.energy
    except DamagedRunError as error:
        return missing("J", f"its run cannot be read: {error}")
    if isinstance(energy, Missing):
        return missing("J", energy)
    import numpy as np

    span = np.array([row["begin_ns"]]), np.array([row["end_ns"]])
    gains, covered = energy.curve.difference(*span)
    if not covered[0] > 0 or not math.isfinite(gains[0]):
        return missing("J", f"no samples of {energy.source} in that time")
    return Figure(
        value=float(gains[0] / covered[0]), unit="J", status=energy.status, source=energy.source,
        method=method, reason=energy.note,
    )  # fmt: skip


def share(bits: str, of: str) -> Figure:
    """The share of ones."""
    return share_figure(bits.count("1"), len(bits), of)


def paired(bits: str, before: str, of: str) -> Figure:
    """The share of ones less that of `before`, on the same samples."""
    won = sum(a > b for a, b in zip(bits, before, strict=True))
    lost = sum(a < b for a, b in zip(bits, before, strict=True))
    return change_figure(won, lost, len(bits), of)


def total(figures: Sequence[Figure], unit: str) -> Figure:
    """Sum over the days; missing where one of them is."""
    values = [figure.value for figure in figures if figure.value is not None]
    if not figures or len(values) < len(figures):
        gaps = [figure.reason for figure in figures if figure.value is None]
        return missing(unit, gaps[0] or "not known" if gaps else "no day is done")
    return Figure(
        value=sum(values), unit=unit, n=len(values), source=figures[0].source,
        status=weakest(figure.status for figure in figures), method="sum over the days",
    )  # fmt: skip

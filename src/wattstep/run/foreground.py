"""Effect of training on a foreground job of 60 frames a second, and of the job on the training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from wattstep.recorded.reading import Tables
from wattstep.schema.arrays import FloatArray
from wattstep.schema.figure import CLOCK, Figure, Status, missing
from wattstep.stats.statistics import mean_figure

NAME = "foreground"
PERIOD_NS = 16_666_667
Columns = Mapping[str, list[Any]]


def foreground_delay(tables: Tables) -> dict[str, Any]:
    """`foreground_delay` and `training_slowdown`; empty where no foreground job ran.

    Raises:
        DamagedRunError: Its table cannot be read.
    """
    if not tables.has(NAME):
        return {}
    table = tables.table(NAME)
    facts = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    columns = table.to_pydict()
    alone, beside = (_times(columns, "frame", where) for where in ("alone", "beside"))
    figures = frame_figures(alone, beside)
    steps = [_times(columns, "step", where) for where in ("alone", "beside")]
    slowdown = slowdown_figure(*steps)
    nice = facts.get("nice", "0")
    if nice != "0":
        figures = {name: _noted(figure, nice) for name, figure in figures.items()}
        slowdown = _noted(slowdown, nice)
    if tables.info.device.get("slowed"):  # an emulated board paused the training
        figures = {name: _modelled(figure) for name, figure in figures.items()}
        slowdown = _modelled(slowdown)
    return {"foreground_delay": figures, "training_slowdown": slowdown}


def _modelled(figure: Figure) -> Figure:
    return figure if figure.missing else replace(figure, status=Status.MODELLED)


def frame_figures(alone: FloatArray, beside: FloatArray) -> dict[str, Figure]:
    """Figures of frames with and without training beside them.

    Args:
        alone: From the begin of each frame until its work was done, in ns; NaN: skipped.
        beside: Likewise, while the training ran.
    """
    means = [_mean(values) for values in (alone, beside)]
    return {
        "delay": _difference(*means),
        "alone": means[0],
        "beside": means[1],
        "p99_alone": _p99(alone),
        "p99_beside": _p99(beside),
        "missed_alone": _missed(alone),
        "missed_beside": _missed(beside),
    }


def slowdown_figure(alone: FloatArray, beside: FloatArray) -> Figure:
    """Mean time of a step beside the job over that without it; both in ns."""
    if not len(alone) or not len(beside):
        return missing("ratio", "no whole step was taken beside the foreground job")
    over, under = (mean_figure(x * 1e-9, "s", CLOCK, Status.MEASURED) for x in (beside, alone))
    assert over.value is not None
    assert under.value is not None
    value = over.value / under.value
    half_width = (
        float(np.hypot(over.half_width / over.value, under.half_width / under.value)) * value
    )
    how = "mean time of a step beside the foreground job over that without it, in turns"
    return _between(over, under, value, half_width, "ratio", how)


def _between(
    a: Figure, b: Figure, value: float, half_width: float, unit: str, method: str
) -> Figure:
    """A figure of two others, without an interval where one of them has none."""
    exact = a.low is None or b.low is None
    return Figure(
        value=value,
        unit=unit,
        low=None if exact else value - half_width,
        high=None if exact else value + half_width,
        confidence=None if exact else 0.95,
        n=a.n,
        status=Status.MEASURED,
        source=CLOCK,
        method=method,
    )


def _times(columns: Columns, kind: str, where: str) -> FloatArray:
    rows = zip(columns["kind"], columns["where"], columns["done_ns"], strict=True)
    times = [done for of, at, done in rows if (of, at) == (kind, where)]
    return np.array([np.nan if done is None else done for done in times], dtype=np.float64)


def _mean(frames: FloatArray) -> Figure:
    played = frames[np.isfinite(frames)]
    if not len(played):
        return missing("s", "no frame was played" if not len(frames) else "all were skipped")
    return mean_figure(played * 1e-9, "s", CLOCK, Status.MEASURED)


def _p99(frames: FloatArray) -> Figure:
    played = frames[np.isfinite(frames)]
    if not len(played):
        return missing("s", "no frame was played")
    return Figure(
        value=float(np.percentile(played, 99)) * 1e-9,
        unit="s",
        n=len(played),
        status=Status.MEASURED,
        source=CLOCK,
        method="99th percentile over frames that were played",
    )


def _missed(frames: FloatArray) -> Figure:
    if not len(frames):
        return missing("ratio", "no frame was played")
    late = ~(frames <= PERIOD_NS)  # NaN, a skipped frame, is missed as well
    figure = mean_figure(late.astype(np.float64), "ratio", CLOCK, Status.MEASURED)
    low = None if figure.low is None else max(0.0, figure.low)
    high = None if figure.high is None else min(1.0, figure.high)
    return Figure(**{**vars(figure), "low": low, "high": high})


def _difference(alone: Figure, beside: Figure) -> Figure:
    if alone.value is None or beside.value is None:
        return missing("s", alone.reason or beside.reason or "a part is missing")
    value = beside.value - alone.value
    half_width = float(np.hypot(alone.half_width, beside.half_width))
    how = (
        "mean completion of a frame beside the training less that without it; half widths added "
        "in squares"
    )
    return _between(beside, alone, value, half_width, "s", how)


def _noted(figure: Figure, nice: str) -> Figure:
    words = f"the training ran at nice {nice}, the foreground job at that of the process"
    reason = words if not figure.reason else f"{figure.reason}; {words}"
    return Figure(**{**vars(figure), "reason": reason})

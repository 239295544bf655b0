"""A run that is closed, or was imported, as the same news as one that records: all of it at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from wattstep.live.journals import News
from wattstep.live.steps import StepRows, with_thinned
from wattstep.schema.channel import Channel


def news_of_tables(path: Path, wanted: Mapping[str, Channel]) -> Iterator[News]:
    """News of a closed run, from its tables.

    Args:
        path: Folder of the run.
        wanted: The channels that somebody wants, by name.

    Raises:
        DamagedRunError: It cannot be read.
    """
    from wattstep.recorded.reading import (
        Tables,  # pyarrow, which the view of a run that records spares
    )

    tables = Tables(path)
    steps = tables.steps()
    news = News()
    rows = StepRows(
        index=steps.index, start_ns=steps.start_ns, end_ns=steps.end_ns,
        samples=steps.samples, loss=steps.loss, traced=steps.traced,
    )  # fmt: skip
    news.steps = with_thinned(rows, steps.thinned)
    for spans in steps.rest_ns.values():
        news.rests += [(int(start), int(end)) for start, end in spans]
    series = tables.samples()
    for name, (t_ns, value, _) in series.items():
        if name in wanted:
            news.samples[name] = t_ns, value
    news.stretches = {name: each for name, each in tables.stretches.items() if name in wanted}
    if (thinned := tables.stretches.get("sampler.lost_ticks")) is not None:
        news.lost_ticks = round(float(thinned.total.sum()))
    news.ticks = _ticks({name: (t_ns, value) for name, (t_ns, value, _) in series.items()})
    news.evaluations = [(row.measure, row.value) for row in tables.evaluations()]
    memory = tables.table("memory").to_pydict()
    pairs = zip(memory["category"], memory["bytes"], strict=True)
    peaks = [size for category, size in pairs if category == "peak_resident"]
    news.peak = float(max(peaks)) if peaks else None
    yield news


def _ticks(series: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    none = (np.empty(0, np.int64), np.empty(0))
    t_ns, lateness = series.get("sampler.lateness", none)
    _, lost = series.get("sampler.lost_ticks", none)
    rows = np.zeros((len(t_ns), 4), np.int64)
    rows[:, 0], rows[:, 1] = t_ns, np.nan_to_num(lateness) * 1e9
    if len(lost) == len(t_ns):
        rows[:, 3] = np.nan_to_num(lost)
    return rows

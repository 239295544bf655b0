"""The sampler's journals become rows of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wattstep.schema.journal import COSTS, MISSING, SAMPLE_HEADER
from wattstep.schema.run_info import RunInfo
from wattstep.store.folder import Folder
from wattstep.store.journal_rows import int_rows
from wattstep.store.mark_rows import Ints
from wattstep.store.thinned_journal import KeptTimes, sample_parts
from wattstep.store.thinning import SampleJournal, columns_of, every_journal

# What a tick of the sampler tells: how late it was, what its reads took, how many ticks were lost.
OF_TICKS = (("sampler.lateness", 1e-9), ("sampler.busy_time", 1e-9), ("sampler.lost_ticks", 1.0))


def sample_columns(
    journal: Folder, info: RunInfo, thinned: Callable[[dict[str, Any]], None]
) -> Iterator[dict[str, Any]]:
    """Rows of samples, and of what sampling cost; of thinned ones, those that stayed.

    Args:
        journal: Folder of the journals.
        info: Of the run.
        thinned: Is given rows of stretches, each in place of samples of a channel. What is old
            enough depends on when one looks, so the same look tells which samples stay.
    """
    kept = KeptTimes(journal)
    for samples in every_journal(info):
        for block, stretches in sample_parts(journal, info, samples, kept):
            for columns in _stretch_columns(samples, stretches):
                thinned(columns)
            errno = block[:, 1] if samples.header == SAMPLE_HEADER else None
            for column, (name, scale) in enumerate(_values(samples), samples.header):
                raw = block[:, column]
                value: npt.NDArray[np.float64] = raw.astype(np.float64) * scale
                value[raw == MISSING] = np.nan
                yield _columns(block[:, 0], name, value, errno)
    for block in int_rows(journal, COSTS, 4):
        for read in info.reads:
            mine = block[block[:, 1] == read.number]
            if len(mine):
                name = read.channels[0].name
                yield _columns(mine[:, 0], f"cost:{name}", mine[:, 2].astype(np.float64) * 1e-9)
                yield _columns(mine[:, 0], f"every:{name}", mine[:, 3].astype(np.float64))


def _stretch_columns(samples: SampleJournal, stretches: Ints) -> Iterator[dict[str, Any]]:
    if not len(stretches):
        return
    for one, (name, scale) in zip(columns_of(samples, stretches), _values(samples), strict=True):
        codes = pa.array(np.zeros(len(stretches), np.int32))
        yield {
            "begin_ns": one.begin_ns,
            "end_ns": one.end_ns,
            "channel": pa.DictionaryArray.from_arrays(codes, pa.array([name])),
            "reads": one.reads,
            "errno": one.errno.astype(np.int16),
            "first": pa.array(one.first * scale, mask=one.missing),
            "last": pa.array(one.last * scale, mask=one.missing),
            "least": pa.array(one.least * scale, mask=one.missing),
            "most": pa.array(one.most * scale, mask=one.missing),
            "sum": pa.array(one.total * scale, mask=one.missing),
            "integral": pa.array(one.integral * (scale * 1e-9), mask=one.missing),
        }


def _values(samples: SampleJournal) -> list[tuple[str, float]]:
    """Name and unit of each value of a row: what it is multiplied with."""
    if samples.channels is None:
        return list(OF_TICKS)
    return [(channel.name, channel.scale) for channel in samples.channels]


def _columns(
    t_ns: Ints, name: str, value: npt.NDArray[np.float64], errno: Ints | None = None
) -> dict[str, Any]:
    codes = pa.array(np.zeros(len(t_ns), np.int32))
    channel = pa.DictionaryArray.from_arrays(codes, pa.array([name]))
    return {
        "t_ns": t_ns,
        "channel": channel,
        "value": pa.array(value, from_pandas=True),  # NaN becomes null: a gap is a gap
        "errno": np.zeros(len(t_ns), np.int16) if errno is None else errno.astype(np.int16),
    }

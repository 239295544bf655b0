"""The sampler's journals become rows of samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wattstep.schema.journal import COSTS, MISSING, SAMPLE_HEADER, TICKS, samples_name
from wattstep.schema.run_info import RunInfo
from wattstep.store.folder import Folder
from wattstep.store.journal_rows import int_rows
from wattstep.store.mark_rows import Ints


def sample_columns(journal: Folder, info: RunInfo) -> Iterator[dict[str, Any]]:
    """Rows of samples, and of what sampling cost."""
    for read in info.reads:
        width = SAMPLE_HEADER + len(read.channels)
        for block in int_rows(journal, samples_name(read.number), width):
            for column, channel in enumerate(read.channels, SAMPLE_HEADER):
                raw = block[:, column]
                value: npt.NDArray[np.float64] = raw.astype(np.float64) * channel.scale
                value[raw == MISSING] = np.nan
                yield _columns(block[:, 0], channel.name, value, block[:, 1])
    for block in int_rows(journal, TICKS, 4):
        for column, name, scale in (
            (1, "sampler.lateness", 1e-9),
            (2, "sampler.busy_time", 1e-9),
            (3, "sampler.lost_ticks", 1.0),
        ):
            yield _columns(block[:, 0], name, block[:, column].astype(np.float64) * scale)
    for block in int_rows(journal, COSTS, 4):
        for read in info.reads:
            mine = block[block[:, 1] == read.number]
            if len(mine):
                name = read.channels[0].name
                yield _columns(mine[:, 0], f"cost:{name}", mine[:, 2].astype(np.float64) * 1e-9)
                yield _columns(mine[:, 0], f"every:{name}", mine[:, 3].astype(np.float64))


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

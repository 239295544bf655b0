"""The journals of traced operations, of the CPU and of devices, become rows with what encloses and launches them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wattstep.schema.journal import (
    DEVICE_OPERATION_FIELDS,
    DEVICE_OPERATIONS,
    NO_WORK,
    OPERATION_FIELDS,
    OPERATIONS,
    UNTOLD,
)
from wattstep.store.folder import Folder
from wattstep.store.journal_rows import int_rows, known_codes
from wattstep.store.mark_rows import Ints

# Columns of operations; rows of the CPU lack the last ones.
_AT = {name: column for column, name in enumerate(DEVICE_OPERATION_FIELDS)}
_WINDOW = _AT["window"]


def operation_columns(journal: Folder, names: list[str]) -> Iterator[dict[str, Any]]:
    """Rows of operations, window by window, those of the CPU before those of devices."""
    width = len(OPERATION_FIELDS)
    devices = _DeviceRows(journal)
    for block in _whole_windows(int_rows(journal, OPERATIONS, width), width):
        rows = devices.beside(block)
        if len(rows):
            yield _columns(rows, names)


def _columns(rows: Ints, names: list[str]) -> dict[str, Any]:
    columns: dict[str, Any] = {name: rows[:, column] for name, column in _AT.items()}
    on_device = columns["processor"] >= 0
    duration = columns["end_ns"] - columns["start_ns"]
    columns["self_ns"] = duration - _children_ns(columns, duration)
    columns["launch"] = _launches(columns, on_device)
    codes = {
        name: (known_codes(columns[name], names).astype(np.int32), columns[name] < 0)
        for name in ("name", "kind", "layer", "phase", "shapes", "processor")
    }
    codes["processor"] = (np.where(on_device, codes["processor"][0], np.int32(len(names))), None)
    dictionary = pa.array([*names, "cpu"])
    for name, (known, unknown) in codes.items():
        column = pa.array(known, mask=unknown)
        columns[name] = pa.DictionaryArray.from_arrays(column, dictionary)
    for name in ("flops", "bytes"):
        columns[name] = pa.array(columns[name], mask=columns[name] < 0)
    untold = on_device | (columns["allocated"] == UNTOLD)
    columns["allocated"] = pa.array(columns["allocated"], mask=untold)
    columns["parent"] = pa.array(columns["parent"].astype(np.int32), mask=columns["parent"] < 0)
    columns["outermost"] = columns["outermost"] == 1
    return columns


def _launches(columns: dict[str, Ints], on_device: npt.NDArray[np.bool_]) -> pa.Array:
    """Positions of what launched work on devices; a window that was cut by a kill may lack it."""
    _, of_window = np.unique(columns["window"], return_inverse=True)
    on_cpu = np.bincount(of_window[~on_device], minlength=int(of_window.max()) + 1)
    known = on_device & (columns["launch"] >= 0) & (columns["launch"] < on_cpu[of_window])
    return pa.array(np.where(known, columns["launch"], 0).astype(np.int32), mask=~known)


class _DeviceRows:
    """Work on devices, window by window, put beside the rows of the CPU.

    Args:
        journal: Its journal need not be there, as in runs of before.
    """

    def __init__(self, journal: Folder) -> None:
        self._width = len(DEVICE_OPERATION_FIELDS)
        self._blocks = _whole_windows(
            int_rows(journal, DEVICE_OPERATIONS, self._width), self._width
        )
        self._waiting = np.empty((0, self._width), np.int64)
        self._first: int | None = None  # window in which devices were traced

    def beside(self, block: Ints) -> Ints:
        """The rows of some windows with those of devices behind them, window by window.

        From the first window on in which devices were traced, one that lacks rows of theirs was cut:
        all of it is left out, for a step without its kernels would be another step.

        Args:
            block: Rows of the CPU, of whole windows.
        """
        rows = np.full((len(block), self._width), -1)
        rows[:, : block.shape[1]] = block
        of_devices = self._until(int(block[:, _WINDOW].max()))
        if self._first is None:
            return rows
        _, of_row, counts = np.unique(
            of_devices[:, _WINDOW], return_inverse=True, return_counts=True
        )
        whole = counts[of_row] == of_devices[:, _AT["rows"]]
        complete = np.isin(rows[:, _WINDOW], np.unique(of_devices[whole, _WINDOW]))
        rows = rows[complete | (rows[:, _WINDOW] < self._first)]
        work = of_devices[whole & (of_devices[:, _AT["name"]] != NO_WORK)]
        work = work[np.isin(work[:, _WINDOW], rows[:, _WINDOW])]
        both = np.concatenate([rows, work])
        return both[np.argsort(both[:, _WINDOW], kind="stable")]

    def _until(self, window: int) -> Ints:
        """Rows of devices up to a window that were not yet given."""
        parts = [self._waiting]
        while not len(parts[-1]) or parts[-1][-1, _WINDOW] <= window:
            block = next(self._blocks, None)
            if block is None:
                break
            if self._first is None:
                self._first = int(block[0, _WINDOW])
            parts.append(block)
        rows = np.concatenate(parts)
        given = rows[:, _WINDOW] <= window
        self._waiting = rows[~given]
        return rows[given]


def _whole_windows(blocks: Iterator[Ints], width: int) -> Iterator[Ints]:
    carry = np.empty((0, width), np.int64)
    for block in blocks:
        block = np.concatenate([carry, block])
        cut = int(np.searchsorted(block[:, _WINDOW], block[-1, _WINDOW]))
        carry = block[cut:]
        if cut:
            yield block[:cut]
    if len(carry):
        yield carry


def _children_ns(columns: dict[str, Ints], duration: Ints) -> Ints:
    """Time of the direct children; parents are positions within their window."""
    _, first, inverse = np.unique(columns["window"], return_index=True, return_inverse=True)
    has = columns["parent"] >= 0
    parent = columns["parent"][has] + first[inverse[has]]
    inside = parent < len(duration)  # a window that was cut by a kill may lack its end
    sums = np.bincount(parent[inside], weights=duration[has][inside], minlength=len(duration))
    return sums.astype(np.int64)

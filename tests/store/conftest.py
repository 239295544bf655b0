"""A run that was never closed, written by hand into the journals."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from wattstep.schema.channel import Channel
from wattstep.schema.figure import Figure
from wattstep.schema.journal import DEVICE_OPERATION_FIELDS, JOURNAL, OPERATION_FIELDS
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.store import pieces
from wattstep.store.files import create_folder, write_info
from wattstep.store.marks import MarkJournal

Rows = list[dict[str, Any]]


def a_channel(name: str, **fields: Any) -> Channel:
    return Channel(
        name=name,
        unit="s",
        kind="counter",
        domain="process",
        role="test",
        source="test",
        **fields,
    )


def a_planned_read(number: int, *channels: Channel) -> PlannedRead:
    return PlannedRead(
        number=number, sensor="test", path="test", parser="number", every=1, channels=channels
    )


class Journals:
    """The journals of a run named `path`."""

    def __init__(self, path: Path, reads: Sequence[PlannedRead] = (), warmup: int = 0) -> None:
        self.path = path
        create_folder(path)
        self.folder = path / JOURNAL
        self.info = RunInfo(
            state="recording",
            created="2026-11-20T12:00:00+0000",
            workload="test",
            title="test",
            engine="test",
            batch_size=None,
            threads=None,
            precision="fp32",
            processor="cpu",
            seed=None,
            interval_s=0.01,
            warmup=warmup,
            trace="none",
            reads=tuple(reads),
        )
        write_info(path, self.info)
        self.marks = MarkJournal(self.folder)

    def integers(self, name: str, rows: Iterable[Sequence[int]], tail: bytes = b"") -> None:
        """A journal of int64, with the beginning of a row that was cut."""
        data = b"".join(struct.pack(f"<{len(row)}q", *row) for row in rows)
        (self.folder / name).write_bytes(data + tail)

    def operations(self, rows: Iterable[dict[str, int]], tail: bytes = b"") -> None:
        """Operations; what is not given is -1."""
        self.integers(
            "operations.bin",
            ([row.get(field, -1) for field in OPERATION_FIELDS] for row in rows),
            tail,
        )

    def device_operations(self, rows: Iterable[dict[str, int]], tail: bytes = b"") -> None:
        """Work on devices; what is not given is -1."""
        fields = DEVICE_OPERATION_FIELDS
        self.integers(
            "device_operations.bin", ([row.get(f, -1) for f in fields] for row in rows), tail
        )

    def names(self) -> list[list[Any]]:
        lines = (self.folder / "names.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


def table(run: Path, name: str) -> Rows:
    rows: Rows = pq.read_table(run / f"{name}.parquet").to_pylist()
    return rows


@pytest.fixture
def journals(tmp_path: Path) -> Journals:
    return Journals(tmp_path / "run")


# A run that was thinned when it was closed, and while it recorded, piece by piece and in smaller blocks.
THINNED = pytest.mark.parametrize("name", ["closing", "meanwhile", "blocks"])


@contextlib.contextmanager
def in_blocks_of(rows: int) -> Iterator[None]:
    """Has the packer have so many rows in memory at once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pieces, "PACKED_BYTES", 1)
        patched.setattr(pieces, "LEAST_PACKED", rows)
        yield


def figures(metrics: Any, prefix: str = "") -> dict[str, Figure]:
    """Every figure of a run's metrics by its path."""
    found: dict[str, Figure] = {}
    for key, value in metrics.items() if isinstance(metrics, dict) else enumerate(metrics):
        if isinstance(value, Figure):
            found[f"{prefix}{key}"] = value
        elif isinstance(value, (dict, list, tuple)):
            found |= figures(value, f"{prefix}{key}.")
    return found

"""Files to label, and a labeling of them within this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wattstep.labeling.deciding import decide
from wattstep.labeling.folder import LabelFolder
from wattstep.labeling.job import label_files
from wattstep.labeling.source import Asked, Source, open_source

NAMES = ("a", "b", "c", "d")


def table(x: np.ndarray, y: np.ndarray | None = None) -> pa.Table:
    columns: dict[str, Any] = {name: x[:, n] for n, name in enumerate(NAMES)}
    return pa.table(columns if y is None else columns | {"kind": [f"k{label}" for label in y]})


def asked(files: Path, *names: str, **others: Any) -> Asked:
    """Settings for files of that folder, or for `data`."""
    given: dict[str, Any] = {
        "data": tuple(str(files / name) for name in names or ("data.parquet",)), "column": "kind",
        "labeled": str(files / "labeled.csv"), "features": NAMES, "batch": 60,
    }  # fmt: skip
    return Asked(**given | others)


def labeled(folder: Path) -> pa.Table:
    return pa.concat_tables(map(pq.read_table, sorted((folder / "labels").glob("*.parquet"))))


@contextmanager
def opened(folder: Path, settings: Asked) -> Iterator[tuple[LabelFolder, Source]]:
    """The folder as a command has it."""
    source, held = open_source(settings), LabelFolder(folder)
    held.open(source)
    try:
        yield held, source
    finally:
        held.close()


def run(folder: Path, settings: Asked, **decided: Any) -> pa.Table:
    """All labels after a command that decides, and then labels what is new."""
    with opened(folder, settings) as (held, source):
        decide(held, source, **decided)
        label_files(held, source, lambda done: None)
    return labeled(folder)

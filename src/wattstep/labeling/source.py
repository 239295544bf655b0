"""What a labeling reads: its files of data and its labeled set, checked before anything is labeled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from wattstep.labeling.arrays import Floats
from wattstep.labeling.reading import (
    Table,
    check_columns,
    identity,
    open_table,
    pieces,
    read_labeled,
)  # fmt: skip

MEASURED_SAMPLES: Final = 5000  # that are labeled once more where the cost is measured
Format = Literal["csv", "parquet"]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Settings of a labeling; see the options of `wattstep label`."""

    data: tuple[str, ...]
    labeled: str
    column: str | None = None
    labels: str | None = None
    features: tuple[str, ...] = ()
    false_alarm: float = 0.05
    confidence: float = 0.5
    batch: int = 500
    seed: int = 0
    format: Format = "parquet"

    def labeled_paths(self) -> tuple[Path, ...]:
        """Files of the labeled set."""
        return tuple(Path(name) for name in (self.labeled, self.labels) if name is not None)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Files of a labeling that fit each other.

    Attributes:
        asked: Settings.
        tables: The files of data.
        identities: Of each, by which a changed one is known.
        x, y: Labeled samples, shape (n, features), and their labels.
        features: Names of the features.
        labeled: Identity of the labeled set, and of the file of its labels where there is one.
    """

    asked: Asked
    tables: tuple[Table, ...]
    identities: tuple[str, ...]
    x: Floats
    y: np.ndarray[Any, Any]
    features: tuple[str, ...]
    labeled: tuple[str, ...]


def open_source(asked: Asked) -> Source:
    """Opens all files, and reads the labeled set.

    Raises:
        InvalidValueError: A file cannot be read, or does not fit the labeled set.
    """
    tables = tuple(open_table(Path(name)) for name in asked.data)
    x, y, features = read_labeled(
        Path(asked.labeled), asked.column, None if asked.labels is None else Path(asked.labels),
        asked.features or None,
    )  # fmt: skip
    labeled = open_table(Path(asked.labeled))
    # Arrays may have the column of the labels as well, where the labeled set is such an array.
    widths: set[int] = set() if asked.features else {len(features)}
    if widths and labeled.path.suffix == ".npy":
        widths |= {len(labeled.columns)}
    for table in tables:
        check_columns(table, features, widths)
    return Source(
        asked=asked, tables=tables, identities=tuple(identity(table.path) for table in tables),
        x=x, y=y, features=features, labeled=tuple(identity(path) for path in asked.labeled_paths()),
    )  # fmt: skip


def first_samples(source: Source, most: int = MEASURED_SAMPLES) -> Floats:
    """Readable samples from the begin of the data, shape (n, features); n is `most` at most."""
    found: list[Floats] = []
    for piece in pieces(source.tables, source.features, source.asked.batch):
        found.append(piece.x[np.isfinite(piece.x).all(axis=1)])
        if sum(map(len, found)) >= most:
            break
    return np.concatenate([np.empty((0, len(source.features))), *found])[:most]

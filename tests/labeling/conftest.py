"""Fixtures of lookups that are shared among processors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from tests.labeling.filed import table
from tests.labeling.made import Clock, blobs

from wattstep.labeling.lookup import Index


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def index() -> Index:
    nodes = np.random.default_rng(1).normal(size=(100, 4)).astype(np.float32)
    return Index(nodes=nodes, labeled=30, near=10, forests=())


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    csv.write_csv(table(*blobs(45, (0, 1, 2), seed=1)), folder / "labeled.csv")
    x, _ = blobs(240, (0, 1, 2, 3), seed=2)
    csv.write_csv(table(x), folder / "data.csv")
    np.save(folder / "data.npy", x)
    pq.write_table(table(x), folder / "data.parquet")
    return folder

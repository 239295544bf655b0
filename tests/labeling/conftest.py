"""Fixtures of lookups that are shared among processors."""

from __future__ import annotations

import numpy as np
import pytest
from tests.labeling.made import Clock

from wattstep.labeling.lookup import Index


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def index() -> Index:
    nodes = np.random.default_rng(1).normal(size=(100, 4)).astype(np.float32)
    return Index(nodes=nodes, labeled=30, near=10, forests=())

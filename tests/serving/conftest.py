"""One server for the tests that leave its store as it is, and fresh ones for those that do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serving.served import Server, make_store, serving

pytest.importorskip("starlette", reason="starlette is not installed: the extra serve has it")


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serving")
    with serving(make_store(folder / "runs"), folder) as started:
        yield started


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server whose store a test may change."""
    with serving(make_store(tmp_path / "runs"), tmp_path) as started:
        yield started

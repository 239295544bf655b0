"""A cache folder of this session's own, and the caller of commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.matrix import answers


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> answers.Caller:
    monkeypatch.setenv("COLUMNS", "100")
    return answers.call

"""One server for the tests that leave its store as it is, and one whose store is made anew for each that does not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serving.served import Server, make_store, serving

pytest.importorskip("starlette", reason="starlette is not installed: the extra serve has it")


@pytest.fixture(scope="module")  # an own server a file: what is recorded beside it would count it
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serving")
    with serving(make_store(folder / "runs"), folder) as started:
        yield started


@pytest.fixture(scope="module")  # an own server a file: what is recorded beside it would count it
def changed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    folder = tmp_path_factory.mktemp("changed")
    model = make_store(folder / "model")
    (folder / "runs").mkdir()
    with serving(folder / "runs", folder) as started:
        yield started, model


@pytest.fixture
def own(changed: tuple[Server, Path]) -> Server:
    """A server whose store a test may change."""
    server, model = changed
    for path in server.store.iterdir():
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        else:
            shutil.rmtree(path)
    shutil.copytree(model, server.store, dirs_exist_ok=True)
    server.look()
    return server

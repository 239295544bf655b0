"""The phone of these tests, and the adb server that knows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet.phone.made import Made, adb_server, connected


@pytest.fixture(scope="module")
def server() -> Iterator[None]:
    """For all tests that need no server of their own."""
    with adb_server():
        yield


@pytest.fixture
def phone(request: pytest.FixtureRequest, server: None, tmp_path: Path) -> Iterator[Made]:
    with connected(tmp_path / "phone", getattr(request, "param", "/bin/sh")) as made:
        yield made

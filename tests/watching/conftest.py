"""Locks of journals that were written by hand are let go when the test is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.watching.made import Journal


@pytest.fixture(autouse=True)
def let_go() -> Iterator[None]:
    yield
    while Journal.opened:
        Journal.opened.pop().lock.release()

"""What tests of runs share: the campaign of independent truths in `benchmarks/`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def truth() -> Iterator[Any]:
    """The campaign, whose modules import each other by their bare names."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        names = ("programs", "runs", "scenarios", "scores", "sensors", "tables")
        parts = [importlib.import_module("truth")]
        parts += [importlib.import_module(f"truth_{name}") for name in names]
        yield SimpleNamespace(**{k: v for part in parts for k, v in vars(part).items()})
    finally:
        sys.path.remove(str(BENCHMARKS))

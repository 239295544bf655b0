"""What is said to have measured within a framework: that of the run's engine, and torch's where a trace was imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.run.made import import_made, make_run
from tests.wording import assert_says

from wattstep.recorded.instruments import instruments_of, instruments_on
from wattstep.run import load


@pytest.mark.parametrize("engine", ["torch", "torch 2.13.0+cpu", "toyframe 0.3"])
def test_sources_name_the_engine_of_the_run(tmp_path: Path, engine: str) -> None:
    make_run(tmp_path / "run", [])
    file = tmp_path / "run" / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "engine": engine}))
    row = load(tmp_path / "run").breakdown.operations()[0]
    name = engine.split()[0]
    assert row.figure("time").source == f"{name} profiler, monotonic clock"
    assert row.figure("memory").source == f"{name} allocator"
    assert_says(instruments_on(engine).device_allocator, f"{name}'s allocator", "GPU's memory")


def test_those_of_an_import_are_torchs(tmp_path: Path) -> None:
    trace: dict[str, Any] = {"trace": {"format": "Kineto", "file": "trace.json"}}
    run = load(import_made(tmp_path / "run", trace))
    assert instruments_of(run.info) == instruments_on("torch")

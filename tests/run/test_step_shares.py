"""Shares of computing, of moving data and of launches: of a host's operations by kind, of a GPU by its work."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.run.made import Worked, import_made, make_run

from wattstep.run import load

STEPS = [(0.0, 20.0), (30.0, 50.0), (60.0, 80.0)]
SHARES = ("compute_share", "data_movement_share", "launch_share")


def shares(path: Path, operations: list[Worked]) -> list[float]:
    made = import_made(path, {"from": ["trace.json"]}, steps=STEPS, operations=operations)
    metrics = load(made).metrics()
    return [metrics[name].value for name in SHARES]


def test_operations_of_a_host_count_by_their_kind(tmp_path: Path) -> None:
    """Of 20 ms: 6 of products, 4 of copies, 10 in which nothing is told to run."""
    operations = [
        each
        for step, (begin, _) in enumerate(STEPS)
        for each in (
            Worked(name="mm", step=step, start=begin, end=begin + 6, kind="matrix product"),
            Worked(name="copy", step=step, start=begin + 8, end=begin + 12, kind="data movement"),
        )
    ]
    assert shares(tmp_path / "r", operations) == pytest.approx([0.3, 0.2, 0.5])


def test_of_a_gpu_each_instant_counts_once_and_copies_beside_kernels_hide(tmp_path: Path) -> None:
    """Of 20 ms the GPU computes in 10, copies alone in 3 (5, of which 2 beside a kernel), waits in 7."""
    operations = [
        each
        for step, (begin, _) in enumerate(STEPS)
        for each in (
            Worked(name="launch", step=step, start=begin, end=begin + 2, kind="runtime call"),
            Worked(name="gemm", step=step, start=begin + 2, end=begin + 12, processor="gpu0"),
            Worked(
                name="Memcpy HtoD", step=step, start=begin + 10, end=begin + 15, processor="gpu0",
                thread=2, kind="data movement",
            ),
        )
    ]  # fmt: skip
    assert shares(tmp_path / "r", operations) == pytest.approx([0.5, 0.15, 0.35])


def test_without_operations_they_say_why(tmp_path: Path) -> None:
    metrics = load(make_run(tmp_path / "r", [], trace="none").path).metrics()
    assert all("--trace none" in (metrics[name].reason or "") for name in SHARES)

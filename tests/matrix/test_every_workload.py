"""Every workload at three batch sizes, runs of 1 to 20 steps and runs killed at any moment: every command on each."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.matrix.answers import Caller, ask_all
from tests.matrix.recording import record, record_killed

from wattstep.errors import MissingPartError
from wattstep.workloads import names

BATCHES = (1, 4, 16)
MOMENTS_S = (0.0, 0.05, 0.3, 1.0, 3.0, 8.0)


@pytest.mark.slow
@pytest.mark.parametrize("workload", names())
def test_three_seconds_of_every_workload_are_told_by_every_command(
    workload: str, call: Caller, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    for batch in BATCHES:
        settings = {"batch_size": batch, "seconds": 3.0, "least_steps": 1, "power_model": "vcpu"}
        try:
            record(runs, f"{workload}-{batch}", workload=workload, **settings)
        except MissingPartError as error:
            pytest.skip(str(error))
    ask_all(call, runs, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("trace", ["auto", "none"])
@pytest.mark.parametrize("interval", ["2ms", "100ms"])
def test_runs_of_one_to_twenty_steps_are_told_by_every_command(
    call: Caller, tmp_path: Path, trace: str, interval: str
) -> None:
    runs = tmp_path / "runs"
    for steps in range(1, 21):
        settings = {"trace": trace, "interval": interval, "canary": bool(steps % 2)}
        record(runs, f"of-{steps}", workload="lenet", batch_size=16, steps=steps,
               power_model="vcpu" if steps % 3 else None, **settings)  # fmt: skip
    ask_all(call, runs, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("batch", BATCHES)
def test_runs_killed_at_any_moment_are_told_by_every_command(
    call: Caller, tmp_path: Path, batch: int
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    for moment_s in MOMENTS_S:
        record_killed(runs, [moment_s], "--batch", str(batch))
    ask_all(call, runs, tmp_path)

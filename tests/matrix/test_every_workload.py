"""Every workload, runs of 1 to 20 steps and runs killed at any moment: every command on each."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.matrix.answers import Caller, ask_all
from tests.matrix.recording import record, record_killed

from wattstep.workloads import names

PARTS = 8  # that the workloads are in: what a command takes for a folder, it takes for each
FEW = ("lenet", "char-cnn", "dqn")  # an image, text, and steps that act
BATCHES = (1, 2, 4)  # in turns
LARGE_BATCHES = (1, 4, 16)
LONG = pytest.mark.long
STEPS = (1, 2, 3, 7, 20)
RARER = (("2ms", "none"), ("100ms", "auto"), ("100ms", "none"))  # intervals of samples, and tracing
MOMENTS_S = (0.0, 0.05, 0.3, 1.0, 3.0)


@pytest.mark.parametrize(
    "workloads",
    [FEW, *(pytest.param(names()[n::PARTS], marks=LONG) for n in range(PARTS))],
    ids=", ".join,
)
def test_a_few_steps_of_every_workload_are_told_by_every_command(
    workloads: tuple[str, ...], call: Caller, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    for workload in workloads:
        batch = BATCHES[names().index(workload) % len(BATCHES)]
        settings = {"batch_size": batch, "steps": 3, "warmup": 1, "power_model": "vcpu"}
        record(runs, f"{workload}-{batch}", workload=workload, canary=False, **settings)
    ask_all(call, runs, tmp_path)


@pytest.mark.parametrize("batch", [pytest.param(1, marks=LONG), 4, pytest.param(16, marks=LONG)])
def test_seconds_of_a_training_are_told_by_every_command(
    batch: int, call: Caller, tmp_path: Path
) -> None:
    settings = {"batch_size": batch, "seconds": 3.0, "least_steps": 1, "power_model": "vcpu"}
    run = record(tmp_path, "run", workload="resnet8", **settings)
    ask_all(call, run, tmp_path)


@pytest.mark.parametrize(
    ("interval", "trace"),
    [("2ms", "auto"), *(pytest.param(*each, marks=LONG) for each in RARER)],
)
def test_runs_of_one_to_twenty_steps_are_told_by_every_command(
    call: Caller, tmp_path: Path, trace: str, interval: str
) -> None:
    runs = tmp_path / "runs"
    for steps in STEPS:
        settings = {"trace": trace, "interval": interval, "canary": bool(steps % 2)}
        record(runs, f"of-{steps}", workload="lenet", batch_size=16, steps=steps,
               power_model="vcpu" if steps % 3 else None, **settings)  # fmt: skip
    ask_all(call, runs, tmp_path)


def test_runs_killed_at_any_moment_are_told_by_every_command(call: Caller, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    for number, moment_s in enumerate(MOMENTS_S):
        batch = LARGE_BATCHES[number % len(LARGE_BATCHES)]
        record_killed(runs, [moment_s], "--batch", str(batch))
    ask_all(call, runs, tmp_path)

"""Records what labeling costs here: time and energy of 500 samples, and what it does to a foreground job."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.labeling.cost import FLAME_DELAY_MS, SAMPLES, LabelingCost
from wattstep.record.recorder import Recorder
from wattstep.run import load
from wattstep.train.foreground import measure_foreground

if TYPE_CHECKING:
    from wattstep.labeling.arrays import Floats
    from wattstep.labeling.auto_labeler import AutoLabeler

SECONDS = 5.0  # of recorded steps
LEAST_STEPS = 10
WARMUP = 3


def measure_labeling(
    labeler: AutoLabeler,
    x: Floats,
    path: Path,
    *,
    foreground: bool = False,
    budget_ms: float = FLAME_DELAY_MS,
    nice: int = 0,
    power_model: str | None = None,
) -> LabelingCost:
    """Records a labeler at work; each step labels 500 samples and learns from them.

    Args:
        labeler: Changes by what it labels: a copy.
        x: Samples, shape (n, features), taken in turn, and again from the first.
        path: Folder of the new run.
        foreground: Also measure what labeling does to the foreground job.
        budget_ms: By which that may be delayed at most.
        nice: Of the labeling beside the job, and of this process from then on.
        power_model: As for `Recorder`.

    Raises:
        InvalidValueError: There is no sample, or something cannot be used.
        RunExistsError: The folder is taken.
        RecordingError: The recording cannot begin, or the job cannot be run.
    """
    if not len(x):
        raise InvalidValueError("no sample is there to measure labeling with", id="no-samples")
    first = 0

    def label() -> None:
        nonlocal first
        rows = np.arange(first, first + SAMPLES) % len(x)
        labeler.partial_label(x[rows])
        first += SAMPLES

    with Recorder(
        path, trace="none", warmup=WARMUP, power_model=power_model,
        about={"workload": "labeling", "batch_size": SAMPLES},
    ) as recorder:  # fmt: skip
        for _ in range(WARMUP):
            with recorder.step(samples=SAMPLES):
                label()
        begun, steps = time.perf_counter(), 0
        while steps < LEAST_STEPS or time.perf_counter() - begun < SECONDS:
            with recorder.step(samples=SAMPLES):
                label()
            steps += 1
        if foreground:
            measure_foreground(recorder, label, nice=nice)
    metrics = load(path).metrics
    return LabelingCost(
        run=str(path),
        time=metrics["step_time"],
        energy=metrics["energy_per_step"],
        delay=metrics["foreground_delay"]["delay"] if foreground else None,
        missed=metrics["foreground_delay"]["missed_beside"] if foreground else None,
        nice=nice,
        budget_ms=budget_ms,
    )

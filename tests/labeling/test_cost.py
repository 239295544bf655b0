"""What labeling costs: a recorded run of it, and the budget of a foreground job."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.labeling.made import blobs
from tests.refusals import refused

from wattstep.labeling import AutoLabeler
from wattstep.labeling.cost import LabelingCost
from wattstep.report.labeling_tables import costs
from wattstep.run import load
from wattstep.schema.figure import Figure, Status, missing
from wattstep.train import labeling_cost
from wattstep.train.foreground import measure_foreground
from wattstep.train.labeling_cost import measure_labeling


@pytest.fixture
def labeler() -> AutoLabeler:
    return AutoLabeler(candidates=8, memory=100).fit(*blobs(30, (0, 1, 2), seed=1))


def test_steps_of_five_hundred_samples(
    labeler: AutoLabeler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labeling_cost, "SECONDS", 0.0)
    cost = measure_labeling(labeler, blobs(700, (0, 1, 2), seed=2)[0], tmp_path / "run")
    # Three steps of warm-up and ten that are recorded, of 500 samples each, all learned from.
    assert labeler.engine_.seen == 13 * 500
    run = load(tmp_path / "run")
    assert run.info.batch_size == 500
    assert cost.time.status is Status.MEASURED
    assert cost.time == run.metrics["step_time"]
    assert cost.energy == run.metrics["energy_per_step"]
    assert cost.delay is None
    assert "foreground" not in cost.to_dict()
    assert any("328.65 mJ on a Galaxy S9" in line for line in costs(cost))


def test_frames_of_the_foreground_job(
    labeler: AutoLabeler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labeling_cost, "SECONDS", 0.0)
    monkeypatch.setattr(
        labeling_cost, "measure_foreground", partial(measure_foreground, seconds=0.2)
    )
    cost = measure_labeling(
        labeler, blobs(700, (0, 1, 2), seed=2)[0], tmp_path / "run", foreground=True, budget_ms=1e6
    )
    assert cost.delay == load(tmp_path / "run").metrics["foreground_delay"]["delay"]
    assert cost.to_dict()["foreground"]["budget_ms"] == 1e6
    assert any("nice 0" in line for line in costs(cost))


def test_no_sample(labeler: AutoLabeler, tmp_path: Path) -> None:
    with refused("no-samples"):
        measure_labeling(labeler, np.empty((0, 4)), tmp_path / "run")


@pytest.mark.parametrize(
    ("low", "high", "kept"), [(0.0, 0.7, True), (0.8, 1.2, False), (0.5, 1.0, None), (0.0, 0.75, True)]
)  # fmt: skip
def test_a_budget_is_kept_by_the_whole_interval(low: float, high: float, kept: bool | None) -> None:
    delay = Figure(
        value=(low + high) / 2e3, unit="s", low=low * 1e-3, high=high * 1e-3, confidence=0.95, n=100,
        status=Status.MEASURED, source="clock",
    )  # fmt: skip
    energy = missing("J", "no power sensor")
    cost = LabelingCost(run="run", time=delay, energy=energy, delay=delay, nice=19)
    assert cost.kept() is kept
    told = "\n".join(costs(cost))
    assert "no power sensor" in told
    assert "at nice 19" in told
    verdict = {True: "kept", False: "not kept", None: "cannot be told"}[kept]
    assert f"0.75 ms: {verdict}" in told

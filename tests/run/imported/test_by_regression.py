"""Energies of imported operations beside a truth made by hand: steps that vary, under a sensor that averages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.run.imported.made import imported
from tests.run.made import Worked, import_made, watts
from tests.wording import assert_says

from wattstep.insight.explain import explain
from wattstep.run import Run, load

WATTS = {"a": 20.0, "b": 8.0, "c": 12.0, "": 3.0}
MEAN_MS = {"a": 30.0, "b": 20.0, "c": 15.0}
GAP_MS, PAUSE_MS = 0.3, 3.0


def made(
    path: Path, uncertainty_s: float, late_ms: float = 0.0, count: int = 80, rate: float = 0.0
) -> tuple[Run, dict[str, float]]:
    """A run whose log averages 10 ms every 10 ms; J of each operation and, as "step", of a step.

    Args:
        path: Where.
        uncertainty_s: Of the stated offset.
        late_ms: How late the log's clock truly is.
        count: Of steps.
        rate: By how much the log's clock runs fast.
    """
    rng = np.random.default_rng(7)
    edges, power, steps, rows = [0.0], [], [], []

    def ran(name: str, ms: float) -> tuple[float, float]:
        edges.append(edges[-1] + ms)
        power.append(WATTS[name])
        return edges[-2], edges[-1]

    ran("", 100.0)
    for n in range(count):
        begin = edges[-1]
        for name, mean in MEAN_MS.items():
            ran("", GAP_MS)
            start, end = ran(name, mean * float(np.exp(0.08 * rng.standard_normal())))
            rows.append(Worked(name=name, step=n, start=start, end=end, layer=name))
        ran("", GAP_MS)
        steps.append((begin, edges[-1]))
        ran("", PAUSE_MS)
    ran("", 100.0)
    spent = np.concatenate([[0.0], np.cumsum(np.diff(edges) * power)]) * 1e-3
    read = np.arange(10.0, edges[-1], 10.0)
    shown = (np.interp(read, edges, spent) - np.interp(read - 10, edges, spent)) / 0.010
    shown = np.round(shown + 0.02 * rng.standard_normal(len(read)), 3)
    entry = {"file": "power.csv", "method": "by a stated offset", "uncertainty_s": uncertainty_s}
    at = read + late_ms + rate * (read - edges[-1] / 2)
    run = load(
        import_made(
            path / "r", imported(alignment=[entry]), steps=steps, operations=rows,
            samples=[(watts(), "power.csv", list(zip(at.tolist(), shown.tolist(), strict=True)))],
        )
    )  # fmt: skip
    truth = {
        name: sum(row.end - row.start for row in rows if row.name == name) * w * 1e-3 / count
        for name, w in WATTS.items()
        if name
    }
    begins, ends = np.array(steps).T
    truth["step"] = float(np.mean(np.interp(ends, edges, spent) - np.interp(begins, edges, spent)))
    return run, truth


@pytest.mark.parametrize(("uncertainty_s", "late_ms"), [(5e-6, 0.0), (0.005, 4.0), (0.1, -40.0)])
def test_operations_of_a_few_samples_hold_the_truth_however_late_the_log(
    tmp_path: Path, uncertainty_s: float, late_ms: float
) -> None:
    run, truth = made(tmp_path, uncertainty_s, late_ms)
    tables = (("name", run.breakdown.operations()), ("layer", run.breakdown.layers()))
    for column, table in tables:
        for row in table:
            energy, true = row.energy, truth[row.labels[column]]
            assert energy.low <= true <= energy.high
            assert energy.value == pytest.approx(true, rel=0.05)
    step = run.metrics()["energy_per_step"]
    assert step.low <= truth["step"] <= step.high


def test_pauses_that_samples_mix_in_are_in_the_interval_of_a_step(tmp_path: Path) -> None:
    run, truth = made(tmp_path, 5e-6)
    step = run.metrics()["energy_per_step"]
    assert abs(step.value - truth["step"]) > 0.01 * truth["step"]
    assert step.low <= truth["step"] <= step.high
    assert "gaps between steps" in step.method


def test_a_clock_that_drifts_is_set_to_its_rate(tmp_path: Path) -> None:
    run, truth = made(tmp_path, 0.006, count=600, rate=2e-4)  # 8 ms in all
    for row in run.operations():
        energy = row["energy"]
        assert energy.low <= truth[row["name"]] <= energy.high
    found = run.breakdown.regression_tables.regression_result
    assert not isinstance(found, str)
    assert found.regression.window.value == pytest.approx(0.010, rel=0.01)  # not blurred


def test_explain_names_the_clocks_in_the_delay_that_it_found(tmp_path: Path) -> None:
    run, _ = made(tmp_path, 0.005, 4.0)
    (found,) = explain(run, ["below_sampling"])
    delay = found.figures["sensor_delay"]
    assert delay.value == pytest.approx(0.004, abs=5e-4)
    assert_says(" ".join(found.sentences), "clocks aligned to ± 5 ms")

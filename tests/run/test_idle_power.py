"""Energy above idle: of a step and of a sample alike, beside operations that hold the idle power."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.run.made import BEGIN, MS, Sampled, make_run, power, told
from tests.wording import assert_says

from wattstep.run import Run, load


@pytest.fixture
def net(tmp_path: Path) -> Run:
    """1 W for a second, then 5 W in steps of 20 ms; four samples in each; idle is taken off."""
    sampled = Sampled(channel=power(), raw=lambda t: 1000 if t < BEGIN + 1000 * MS else 5000)
    options: dict[str, object] = {"subtract_idle": "before"}
    made = make_run(tmp_path / "r", [sampled], idle_ns=(1000 * MS, 0), options=options)
    return load(made.path)


def test_a_sample_is_above_idle_where_the_step_is(net: Run) -> None:
    """(5 - 1) W × 5 ms; steps follow each other without a gap, but for traced ones."""
    metrics = net.metrics()
    assert metrics["energy_per_step"].value == pytest.approx(0.08, rel=1e-2)
    assert metrics["energy_per_sample"].value == pytest.approx(0.02, rel=1e-2)
    assert metrics["energy_per_sample_with_idle"].value == pytest.approx(0.025, rel=1e-2)
    assert "idle device before" in metrics["energy_per_sample"].method


def test_operations_and_rests_make_the_step_with_idle(net: Run) -> None:
    document = net.document()
    assert told(document) == pytest.approx(
        document["metrics"]["energy_per_step_with_idle"]["value"], rel=1e-9
    )


def test_without_an_idle_stretch_both_are_missing_and_say_why(tmp_path: Path) -> None:
    sampled = Sampled(channel=power(), raw=lambda t: 5000)
    options: dict[str, object] = {"subtract_idle": "before"}
    metrics = load(make_run(tmp_path / "r", [sampled], options=options).path).metrics()
    for name in ("energy_per_step", "energy_per_sample"):
        assert_says(metrics[name].reason, "no idle stretch", "before")
    assert metrics["energy_per_sample_with_idle"].value == pytest.approx(0.025)

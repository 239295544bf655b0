"""Spread as figures: values against numpy, when there is an interval, and how often it holds the truth."""

from __future__ import annotations

import numpy as np
import pytest
from tests.refusals import refused

from wattstep.attribution.spread import ENOUGH, Spreads
from wattstep.attribution.variation import Instances, variation
from wattstep.schema.figure import Figure


def measures(seconds: np.ndarray, calls: int = 1) -> dict[str, Figure]:
    """Of one operation that is called so often in each window."""
    windows = len(seconds) // calls
    instances = Instances(
        group=np.zeros(len(seconds), np.int64), groups=1, seconds=seconds, windows=windows,
        window=np.repeat(np.arange(windows), calls),
    )  # fmt: skip
    return Spreads(instances, variation(instances), "made").measures(0)


def test_the_values_are_those_of_numpy() -> None:
    seconds = np.array([1.0] * 45 + [4.0] * 5) * 1e-3
    found = measures(seconds)
    assert found["median"].value == pytest.approx(1e-3)
    assert found["high_ratio"].value == pytest.approx(4.0)
    assert found["deviation_ratio"].value == 0.0
    assert found["cv"].value == pytest.approx(seconds.std(ddof=1) / seconds.mean())
    assert found["slow_share"].value == pytest.approx(0.1)
    assert found["lost"].value == pytest.approx(5 * 3e-3 / 50)
    assert found["lost_share"].value == pytest.approx(15 / 65)
    for figure in found.values():
        assert figure.low is not None
        assert figure.high is not None
        assert figure.low <= figure.value <= figure.high
        assert figure.n == 50
        assert figure.source == "made"


def test_one_window_has_values_and_no_interval() -> None:
    found = measures(np.array([1.0, 2.0]), calls=2)
    assert {figure.low for figure in found.values()} == {None}
    assert all("one traced step" in (figure.reason or "") for figure in found.values())


def test_few_windows_have_no_interval_of_what_is_rare() -> None:
    found = measures(np.linspace(1.0, 1.2, ENOUGH - 1))
    without = {name for name, figure in found.items() if figure.low is None}
    assert without == {"high_ratio", "cv", "lost", "lost_share"}
    assert "rare" in (found["cv"].reason or "")


def test_a_share_of_none_slow_is_not_sure_to_be_none() -> None:
    """Wilson of 0 in 20: up to 16 %."""
    found = measures(np.full(20, 1e-3))["slow_share"]
    assert found.value == 0.0
    assert found.high == pytest.approx(0.1611, abs=1e-4)


def test_no_time_has_no_relative_spread() -> None:
    found = measures(np.zeros(50))
    assert found["median"].value == 0.0
    for name in ("cv", "high_ratio", "deviation_ratio", "lost_share"):
        assert found[name].missing
        assert "no time" in (found[name].reason or "")


def test_one_instance_does_not_vary() -> None:
    found = measures(np.array([1.0]))
    assert found["cv"].missing
    assert "one instance" in (found["cv"].reason or "")


def test_an_operation_without_instances_is_refused() -> None:
    instances = Instances(
        group=np.ones(3, np.int64), groups=2, window=np.arange(3), windows=3, seconds=np.ones(3)
    )
    with refused("no-instances"):
        Spreads(instances, variation(instances), "made").measures(0)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """Normal times of 10 ± 1 ms, 60 windows, 150 trials: at least 89 % where 95 % is said."""
    held = np.zeros(3)
    for trial in range(150):
        random = np.random.default_rng(trial)
        found = measures(1e-2 + 1e-3 * random.standard_normal(60))
        truths = {"median": 1e-2, "cv": 0.1, "high_ratio": 1.16449}
        for n, (name, truth) in enumerate(truths.items()):
            low, high = found[name].low, found[name].high
            assert low is not None
            assert high is not None
            held[n] += low <= truth <= high
    assert (held / 150 >= 0.89).all()

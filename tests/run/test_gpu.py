"""How busy GPUs were in clean time, from loads that are known."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.run.made import MS, Sampled, busy, make_run

from wattstep.run import load
from wattstep.schema.channel import Channel, Origin
from wattstep.schema.figure import Figure


def gpu(number: int, status: Origin = "measured") -> Channel:
    return Channel(
        name=f"gpu{number}.utilization",
        unit="ratio",
        kind="gauge",
        domain="gpu",
        role="gpu_utilization",
        source="NVML utilization rates",
        scale=1e-2,
        status=status,
    )


def utilization(path: Path, *sampled: Sampled) -> Figure:
    figure = load(make_run(path / "r", sampled).path).metrics()["gpu_utilization"]
    assert isinstance(figure, Figure)
    return figure


def test_a_steady_load_is_the_utilization(tmp_path: Path) -> None:
    figure = utilization(tmp_path, Sampled(channel=gpu(0), raw=lambda t: 60))
    assert figure.value == pytest.approx(0.6)
    assert (figure.unit, figure.status.value) == ("ratio", "measured")
    assert figure.source == "NVML utilization rates"
    assert figure.method is not None
    assert "not how much" in figure.method


def test_a_load_that_comes_and_goes_is_averaged_over_time(tmp_path: Path) -> None:
    """Busy for a quarter of every 4 ms."""
    busy_quarter = Sampled(channel=gpu(0), raw=lambda t: 100 if t // MS % 4 == 0 else 0)
    assert utilization(tmp_path, busy_quarter).value == pytest.approx(0.25, abs=0.01)


def test_several_gpus_are_averaged(tmp_path: Path) -> None:
    figure = utilization(
        tmp_path,
        Sampled(channel=gpu(0), raw=lambda t: 60),
        Sampled(channel=gpu(1), raw=lambda t: 20),
    )
    assert figure.value == pytest.approx(0.4)
    assert figure.method is not None
    assert "mean of 2 GPUs" in figure.method


@pytest.mark.parametrize("status", ["replayed", "modelled"])
def test_a_load_that_was_not_measured_never_looks_measured(tmp_path: Path, status: Origin) -> None:
    figure = utilization(
        tmp_path,
        Sampled(channel=gpu(0, status), raw=lambda t: 60),
        Sampled(channel=gpu(1), raw=lambda t: 60),
    )
    assert figure.status.value == status


def test_without_a_gpu_the_reason_is_said(tmp_path: Path) -> None:
    figure = utilization(tmp_path, Sampled(channel=busy(0), raw=lambda t: t))
    assert figure.value is None
    assert "no GPU load" in (figure.reason or "")

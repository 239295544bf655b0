"""Three steps in full: the GPU and the power of each rail beside the cores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.run.made import Sampled, make_run

from wattstep.run import load
from wattstep.schema.channel import Channel, Domain


def rail(name: str, domain: Domain, role: str = "power_part") -> Channel:
    return Channel(
        name=name, unit="W", kind="gauge", domain=domain, role=role, source="made", scale=1e-3
    )


def values(channel: Mapping[str, Any]) -> list[float]:
    """Of the samples that are shown: one a millisecond in three steps of 20 ms."""
    found = [value for _, value in channel["points"]]
    assert len(found) in (59, 60)  # rates between samples
    return found[:59]


def test_rails_and_the_load_of_a_gpu_are_shown_with_what_they_feed(tmp_path: Path) -> None:
    gpu = Channel(
        name="gpu.utilization", unit="ratio", kind="gauge", domain="gpu", role="gpu_utilization",
        source="made", scale=1e-2, status="replayed",
    )  # fmt: skip
    made = make_run(
        tmp_path / "run",
        [
            Sampled(channel=gpu, raw=lambda t_ns: 60),
            Sampled(channel=rail("rail.gpu", "gpu"), raw=lambda t_ns: 4000),
            Sampled(channel=rail("rail.cpu", "cpu"), raw=lambda t_ns: 1000),
            Sampled(channel=rail("rail.in", "system", "power_total"), raw=lambda t_ns: 6000),
        ],
    )
    found = {
        channel["name"]: channel for channel in load(made.path).timeline().to_dict()["channels"]
    }
    assert values(found["gpu.utilization"]) == pytest.approx([0.6] * 59, rel=1e-6)
    assert found["gpu.utilization"]["status"] == "replayed"
    for name, part, watts in (("rail.gpu", "gpu", 4.0), ("rail.cpu", "cpu", 1.0)):
        assert (found[name]["role"], found[name]["domain"]) == ("rail_power", part)
        assert values(found[name]) == pytest.approx([watts] * 59)
    assert "rail.in" not in found  # the whole has a curve of its own
    assert values(found["power"]) == pytest.approx([6.0] * 59)

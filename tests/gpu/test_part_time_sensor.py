"""A card whose power sensor looks for a quarter of the time: what its energy then is, and how sure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.gpu.played import played
from tests.gpu.recording import PlayedRecording, played_time
from tests.run.made import Sampled
from tests.wording import assert_says

from wattstep.attribution.part_time import unevenly_seen
from wattstep.run.run import Run
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Figure, Status

MS = 1_000_000
PERIOD, LOOK = 100 * MS, 25 * MS  # of the sensor
BUSY_W, IDLE_W = 300.0, 60.0


def steps_of(every_ms: float, count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    start = (np.arange(count) * every_ms * MS).astype(np.int64)
    return start, start + round(every_ms * MS)


def test_steps_as_long_as_the_sensor_s_period_are_seen_at_one_quarter_of_them() -> None:
    assert unevenly_seen(0.25, *steps_of(100)) == pytest.approx(0.75)
    assert unevenly_seen(0.25, *steps_of(50)) == pytest.approx(0.5)  # one half, whatever the number


def test_steps_of_any_other_length_are_seen_all_over_in_time() -> None:
    few, many = (unevenly_seen(0.25, *steps_of(87.3, count)) for count in (4, 4000))
    assert few > 0.15 > 0.02 > many
    assert unevenly_seen(0.25, *steps_of(20)) == 0.0  # a look is longer


def trained(path: Path, step_ms: int, share: float | None, counter: bool) -> tuple[Run, float]:
    """A run whose GPU works in the first quarter of each step; its true energy a step in J."""
    host, gpu, cuda = played()
    with played_time(host):
        recording = PlayedRecording(path, cuda)
        gpu.allocate(1)
        begun = host.now_ns
        for number in range(300):
            recording.steps.samples = 4.0
            started = recording.steps.begin()
            gpu.launch("kernel", step_ms * MS / 4)
            cuda.synchronize()
            host.work(begun + (number + 1) * step_ms * MS - host.now_ns - 20_000)
            recording.steps.end(started, 0.5)
        recording.steps.leave_device(wait=True)
        recording.steps.stop()
        ended = host.now_ns
        works = np.array([(one.start_ns, one.end_ns) for one in gpu.ran])
        recording.sample([sampled(works, share, counter, begun)], begun, ended)
        run = recording.kill()
    return run, (IDLE_W * 0.75 + BUSY_W * 0.25) * step_ms * 1e-3


def sampled(works: np.ndarray, share: float | None, counter: bool, begun: int) -> Sampled:
    """What the sensor tells: power as it was in its last look."""

    def looked(period: int) -> float:
        begin = begun + period * PERIOD
        inside = np.clip(
            np.minimum(works[:, 1], begin + LOOK) - np.maximum(works[:, 0], begin), 0, None
        )
        return float(IDLE_W + (BUSY_W - IDLE_W) * inside.sum() / LOOK)

    last = int((works[-1, 1] - begun) // PERIOD) + 3
    values = np.array([looked(period) for period in range(last)])
    total = np.concatenate([[0.0], np.cumsum(values * PERIOD * 1e-9)])
    at: Callable[[int], int] = lambda t: int((t - begun) // PERIOD)  # noqa: E731
    channel = Channel(
        name="gpu0.energy" if counter else "gpu0.power", unit="J" if counter else "W",
        kind="counter" if counter else "gauge", domain="gpu",
        role="energy_part" if counter else "power_part",
        source="NVML total energy consumption" if counter else "NVML power usage",
        scale=1e-3, observed_share=share,
    )  # fmt: skip
    if counter:
        return Sampled(channel=channel, raw=lambda t: round(1000 * total[at(t)]), every_ns=20 * MS)
    return Sampled(
        channel=channel, raw=lambda t: round(1000 * values[max(at(t) - 1, 0)]), every_ns=20 * MS
    )


def energy_of(run: Run) -> Figure:
    (figure,) = run.report().energy_by_rail.values()
    return figure


@pytest.mark.parametrize("counter", [False, True], ids=["gauge", "counter"])
def test_a_sensor_in_step_with_the_training_is_far_off_and_its_interval_says_so(
    tmp_path: Path, counter: bool
) -> None:
    """It looks when the GPU works, and never when it is idle: told is three times what was drawn."""
    run, true = trained(tmp_path / "run", 100, 0.25, counter)
    energy = energy_of(run)
    assert energy.value is not None
    assert energy.value > 2 * true
    assert energy.low is not None
    assert energy.low <= true
    assert_says(energy.method, "25 % of the time")


def test_of_steps_that_wander_past_its_looks_it_is_right_and_hardly_wider(tmp_path: Path) -> None:
    run, true = trained(tmp_path / "run", 87, 0.25, counter=True)
    energy = energy_of(run)
    assert energy.value == pytest.approx(true, rel=0.05)
    assert energy.low is not None
    assert energy.high is not None
    assert energy.low <= true <= energy.high
    assert energy.high - energy.low < 0.3 * true


def test_the_share_is_a_figure_or_missing_with_its_reason(tmp_path: Path) -> None:
    known, _ = trained(tmp_path / "known", 87, 0.25, counter=True)
    share = known.metrics["gpu_sensor_share"]
    assert (share.value, share.status) == (0.25, Status.MODELLED)  # published, not measured here
    assert share.source == "arXiv 2312.02741"
    unknown, _ = trained(tmp_path / "unknown", 87, None, counter=True)
    missing = unknown.metrics["gpu_sensor_share"]
    assert missing.missing
    assert "nobody has published" in missing.reason

"""A predicted step begins with its data: operations on the host, a copy, and what a sample is said to take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.predicting.steps import PIXELS, family, step

from wattstep import devices
from wattstep.predict import predictor_for
from wattstep.predict.data import READING, computed_seconds, data_work, host_seconds
from wattstep.schema.step_graph import StepFamily, StepGraph

IMAGE = 64 * PIXELS * PIXELS * 4.0  # bytes of a sample


def known(batch: int) -> StepGraph:
    return replace(step(batch), data_known=True)


def both() -> StepFamily:
    return StepFamily(small=known(2), large=known(3))


def test_the_host_starts_moves_and_copies() -> None:
    device = devices.find("jetson-tx2")
    rate = max(
        each.bandwidth.value
        for each in device.processors.values()
        if each.kind == "cpu" and each.bandwidth
    )
    # One operation writes the batch, which is then read and written in the memory that both share.
    by_hand = 5e-5 + 4 * IMAGE / rate + 2 * 4 * IMAGE / rate
    assert host_seconds(data_work(known(4)), device, start_s=5e-5) == pytest.approx(by_hand)
    assert host_seconds(data_work(step(4)), device, start_s=5e-5) == 0  # of random inputs


def test_a_network_that_plays_for_its_samples_moves_them_at_the_rate_of_the_memory() -> None:
    device = devices.find("jetson-tx2")
    bandwidth = device.memory.bandwidth
    assert bandwidth is not None
    playing = replace(known(4), flops=np.array([1e6, 0, 0, 0]))
    rate = max(
        each.bandwidth.value
        for each in device.processors.values()
        if each.kind == "cpu" and each.bandwidth
    )
    by_hand = 4 * IMAGE / bandwidth.value + 2 * 4 * IMAGE / rate
    assert host_seconds(data_work(playing), device, start_s=0.0) == pytest.approx(by_hand)


def test_a_link_takes_copies_where_memory_is_not_shared() -> None:
    device = devices.find("jetson-tx2")
    gpu = device.processors["gpu"]
    assert gpu.bandwidth is not None
    link = replace(gpu.bandwidth, value=1e9, low=0.9e9, high=1.1e9)
    own = replace(
        device,
        memory=replace(device.memory, unified=False),
        processors={**device.processors, "gpu": replace(gpu, link=link)},
    )
    shared = host_seconds(data_work(known(4)), device, start_s=0.0)
    by_link = host_seconds(data_work(known(4)), own, start_s=0.0)
    assert by_link == pytest.approx(shared / 3 + 4 * IMAGE / 1e9)


def test_resampling_takes_time_by_what_it_writes() -> None:
    one = replace(known(4), names=("aten::upsample_bilinear2d", *known(4).names[1:]))
    assert computed_seconds(one).tolist() == pytest.approx([1.2e-9 * 4 * IMAGE, 0, 0, 0])


def test_the_step_waits_for_its_data_and_the_report_says_so() -> None:
    device = devices.find("jetson-tx2")
    plain, with_data = (predictor_for(each, device).at(16) for each in (family(), both()))
    data = float(with_data.phase_times[READING])
    assert with_data.time.total == pytest.approx(plain.time.total + data)
    assert sum(map(float, with_data.phase_times.values())) == pytest.approx(with_data.time.total)
    assert with_data.reach["step_time"] > plain.reach["step_time"]
    report = with_data.report(workload="by hand")
    parts = [float(row.figures["share"]) for row in report.kinds]
    parts += [float(costs["share"]) for costs in report.unattributed.values()]
    assert sum(parts) == pytest.approx(1)
    assert float(report.unattributed[READING]["time"]) == pytest.approx(data)


@pytest.mark.parametrize(("device", "engine"), [("jetson-tx2", None), ("snapdragon-855", "mnn")])
def test_what_a_sample_takes_is_added_for_each_and_else_a_note_says_it_is_missing(
    device: str, engine: str | None
) -> None:
    predictor = predictor_for(family(), devices.find(device), engine=engine)
    without = predictor.at(16)
    assert any("--data-time" in note for note in without.notes)
    predictor.sample_s = 0.01
    slow = predictor.at(16)
    assert slow.time.total == pytest.approx(without.time.total + 0.16)
    assert float(slow.phase_times[READING]) == pytest.approx(0.16)
    assert not any("--data-time" in note for note in slow.notes)
    assert np.isclose(float(slow.throughput), 16 / slow.time.total)

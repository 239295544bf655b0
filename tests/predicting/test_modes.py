"""A device in a power mode, and a GPU's power by what its kernels do, as one works them out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.predicting.steps import PIXELS, family, step
from tests.refusals import refused

from wattstep import devices
from wattstep.devices.modes import in_mode
from wattstep.predict import Predictor
from wattstep.predict.memory import replay
from wattstep.predict.power import power_of
from wattstep.predict.time import StepTime
from wattstep.predict.work import STARTING, work_of

ORIN = devices.find("jetson-agx-orin")


def test_a_mode_has_the_boards_clocks_and_cores() -> None:
    device = in_mode(ORIN, "30w")
    gpu, cpu = device.processors["gpu"], device.processors["cpu"]
    # 1,024 of 2,048 lanes at 612 of 1,300 MHz.
    assert gpu.cores == 1024
    assert gpu.peak["fp32"].value == pytest.approx(1024 * 2 * 612e6, rel=1e-3)
    # 8 of 12 cores at 1,728 MHz, which start an operation that much later.
    assert cpu.peak["fp32"].value == pytest.approx(8 * 16 * 1.728e9, rel=1e-3)
    assert gpu.launch is not None
    assert ORIN.processors["gpu"].launch is not None
    assert gpu.launch.value == pytest.approx(ORIN.processors["gpu"].launch.value * 2201.6 / 1728)
    # The memory's clock is as before; what a stress test draws is the mode's.
    assert device.memory.bandwidth == ORIN.memory.bandwidth
    assert device.power.parts["gpu"].dynamic == ORIN.modes["30W"].dynamic["gpu"]
    assert device.title.endswith("in mode 30W")


def test_memory_is_as_slow_as_its_clock() -> None:
    slow = in_mode(ORIN, "15W").memory.bandwidth
    assert slow is not None
    assert slow.value == pytest.approx(256 / 8 * 2 * 2133e6, rel=1e-3)


def test_power_goes_with_clock_and_voltage_where_a_mode_does_not_say_it() -> None:
    tx2 = devices.find("jetson-tx2")
    device = in_mode(tx2, "MAXP_CORE_ARM")
    base, slow = tx2.power.parts["gpu"].dynamic, device.power.parts["gpu"].dynamic
    assert base is not None
    assert slow is not None
    assert slow.value == pytest.approx(base.value * (1.12 / 1.3005) ** 2.2, rel=1e-3)
    assert slow.low < slow.value < slow.high
    assert "cpu-denver" not in device.processors


def test_a_mode_that_is_none_is_refused_with_those_that_are() -> None:
    with refused("unknown-mode", "MAXN", "15W", "30W", "50W"):
        in_mode(ORIN, "60W")


def test_a_lower_precision_takes_tensor_cores_and_is_refused_without() -> None:
    times = {
        precision: Predictor(family(), ORIN, precision=precision).at(64).time.device
        for precision in ("fp32", "bf16")
    }
    assert times["bf16"] < times["fp32"]
    with refused("precision-not-on-device", "bf16"):
        Predictor(family(), devices.find("tx2"), precision="bf16")


def test_a_gpus_power_is_for_being_busy_for_arithmetic_and_for_moving() -> None:
    part = ORIN.power.parts["gpu"]
    assert part.idle is not None
    assert part.dynamic is not None

    def gpu(**load: float) -> float:
        power = power_of(ORIN.power, {"cpu": 0.0, **load})
        assert power is not None
        return power[1]["gpu"].value - part.idle.value  # type: ignore[union-attr]

    whole = gpu(gpu=1.0, arithmetic=1.0, memory=1.0)
    assert whole == pytest.approx(part.dynamic.value)
    assert gpu(gpu=0.0, arithmetic=0.0, memory=0.0) == 0.0
    assert (
        gpu(gpu=1.0, arithmetic=0.0, memory=1.0) < 0.4 * whole
    )  # a copy draws less than a stress test


def test_phases_make_the_step() -> None:
    one = Predictor(family(), ORIN).at(32)
    seconds = {name: float(figure) for name, figure in one.phase_times.items()}
    assert sum(seconds.values()) == pytest.approx(float(one.step_time))
    assert seconds["backward"] > seconds["forward"] > seconds["optimizer"]


def test_phases_that_are_waited_for_take_more_than_the_step() -> None:
    time = Predictor(family(), ORIN).at(32).time
    assert isinstance(time, StepTime)
    for code, phase in enumerate(STARTING):
        kernels = time.kernels[work_of(family().at(32), gradients_stay=False).phases == code].sum()
        assert kernels < time.alone[phase] < kernels + time.host
    assert sum(time.alone.values()) > time.total


def test_gradients_go_with_their_step_and_are_not_added_to() -> None:
    graph = step(8)
    stays, goes = work_of(graph), work_of(graph, gradients_stay=False)
    assert stays.traffic.sum() - goes.traffic.sum() == pytest.approx(4 * 64 * 64 * 9 * 4)
    assert replay(graph, gradients_stay=False).allocated <= replay(graph).allocated
    half = work_of(graph, element=2, gradients_stay=False)
    convolutions = goes.weights > 0
    assert np.allclose(2 * half.traffic[convolutions], goes.traffic[convolutions])
    assert half.traffic[convolutions][0] == 2 * 8 * 64 * PIXELS * PIXELS * 2

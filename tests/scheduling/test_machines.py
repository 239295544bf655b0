"""Machines of devices' files, and what is worked out of their rates."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.refusals import refused
from tests.scheduling.made import machine, task

from wattstep import devices
from wattstep.schedule.machine import Machine, made, manycore, of_device
from wattstep.schedule.times import MachineTimes, Running


def test_the_tx2_has_four_and_two_cores_and_a_gpu_in_one_memory() -> None:
    tx2 = of_device(devices.find("jetson-tx2"))
    assert [(one.name, one.cores) for one in tx2.clusters] == [
        ("cpu-a57", 4),
        ("cpu-denver", 2),
        ("gpu", 1),
    ]
    assert tx2.count == 7
    assert tx2.cluster_of == (0, 0, 0, 0, 1, 1, 2)
    assert tx2.clusters[0].core_flops == pytest.approx(6.513e10 / 4)
    assert tx2.bandwidth == pytest.approx(5.971e10)
    assert tx2.memory_of(2) == -1  # shared
    # 4 W of six busy cores beside 5.5 W of the GPU.
    assert tx2.watts(range(7)) == pytest.approx(9.5)


def test_a_phone_has_one_three_and_four_cores() -> None:
    phone = of_device(devices.find("snapdragon-855"))
    assert [one.cores for one in phone.clusters] == [1, 3, 4, 1]
    assert any("saturate" in line for line in phone.assumptions)
    # Buffers of OpenCL are copied, at half of 3.03e10 B/s.
    assert phone.clusters[3].link == pytest.approx(1.515e10)
    assert phone.memory_of(3) == 3


@pytest.mark.parametrize("name", devices.names())
def test_every_device_that_is_shipped_is_a_machine(name: str) -> None:
    assert of_device(devices.find(name)).count >= 2


def test_a_device_without_a_rate_is_refused() -> None:
    phone = devices.find("snapdragon-855")
    prime = replace(phone.processors["cpu-prime"], peak={})
    with refused("device-lacks", "processors.cpu-prime.peak.fp32"):
        of_device(replace(phone, processors={"cpu-prime": prime}))


def test_machines_that_are_named_by_their_cores() -> None:
    assert made("manycore-12") == manycore(12)
    assert made("manycore") == manycore()
    assert made("jetson-tx2") is None
    with refused("unknown-device", "equal-0"):
        made("equal-0")


def test_a_machine_has_cpu_cores_and_rates() -> None:
    with refused("invalid-value", "CPU"):
        Machine(name="x", title="x", clusters=(), bandwidth=1.0)
    with refused("invalid-value", "c0"):
        machine(0, 1)


def test_time_of_a_convolution_by_hand() -> None:
    """10^9 FLOPs at half of 10^9 FLOP/s: 2 s; 0.5 % of them on one thread alone, the rest on four."""
    times = MachineTimes(machine(4))
    one = task("a", kind="convolution", flops=10**9, bytes_moved=1000)
    assert times.seconds(one, 1).value == pytest.approx(2.0, rel=1e-4)
    assert times.seconds(one, 4).value == pytest.approx(0.01 + 1.99 / 4, rel=1e-4)
    low, high = times.seconds(one, 4).low, times.seconds(one, 4).high
    assert high / low == pytest.approx(4.0)


def test_small_operations_gain_nothing_from_threads() -> None:
    times = MachineTimes(machine(4))
    small = task("a", kind="elementwise", bytes_moved=1000)
    assert times.seconds(small, 4).value > times.seconds(small, 1).value


def test_two_that_stream_through_memory_slow_each_other_and_one_that_computes_does_not() -> None:
    """The memory gives 4·10^9 B/s, each of four cores 10^9: two tasks on all cores take twice what there is."""
    where = machine(4)
    times = MachineTimes(where)
    stream = Running(task("a", kind="elementwise", bytes_moved=10**9), 4)
    compute = Running(task("b", kind="convolution", flops=10**10, bytes_moved=1000), 2)
    assert times.slowdown(stream, [stream]).value == pytest.approx(1.96, rel=0.02)
    assert times.slowdown(stream, [compute]).value == pytest.approx(1.0, abs=1e-4)
    assert times.slowdown(compute, [stream, stream]) == (1.0, 1.0, 1.0)
    assert times.slowdown(stream, []) == (1.0, 1.0, 1.0)

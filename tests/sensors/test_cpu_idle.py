from __future__ import annotations

import pytest

from wattstep.record.sensors.cpu_idle import IdleResidency
from wattstep.schema.channel import Absent, Present

CPU = "sys/devices/system/cpu"


def states(core, *times):
    names = ("POLL", "C1", "C6")
    files = {}
    for number, time in enumerate(times):
        files[f"{CPU}/cpu{core}/cpuidle/state{number}/time"] = f"{time}\n"
        files[f"{CPU}/cpu{core}/cpuidle/state{number}/name"] = f"{names[number]}\n"
    return files


def test_residency_is_the_sum_of_all_states_with_polling(tree, measure):
    root = tree({**states(0, 250_000, 1_000_000, 4_000_000), **states(1, 0, 500_000)})
    assert measure(IdleResidency().probe(root, 1)) == pytest.approx(
        {"cpu0.idle_residency": 5.25, "cpu1.idle_residency": 0.5}
    )


def test_cores_come_in_the_order_of_their_numbers(tree):
    root = tree({**states(10, 1), **states(9, 1), **states(0, 1)})
    found = IdleResidency().probe(root, 1)
    assert isinstance(found, Present)
    assert [read.channels[0].core for read in found.reads] == [0, 9, 10]


def test_it_is_read_five_times_a_second(tree):
    found = IdleResidency().probe(tree(states(0, 1, 2)), 1)
    assert isinstance(found, Present)
    assert found.reads[0].least_period_s == 0.2


def test_a_core_with_an_unreadable_state_is_left_out_whole(tree, measure):
    root = tree({**states(0, 1_000_000), **states(1, 1_000_000)})
    (root / CPU / "cpu1/cpuidle/state1/time").mkdir(parents=True)  # reads as an error
    assert set(measure(IdleResidency().probe(root, 1))) == {"cpu0.idle_residency"}


def test_a_kernel_without_cpuidle_is_a_reason(tree):
    found = IdleResidency().probe(tree({f"{CPU}/online": "0-1\n"}), 1)
    assert isinstance(found, Absent)
    assert "cpuidle" in found.reason

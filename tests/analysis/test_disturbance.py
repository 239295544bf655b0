"""Times that something else disturbed: other processes, or the hypervisor."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.device.disturbance import cpu_of_others, other_cpu
from wattstep.recorded.curves import Curve

S = 1_000_000_000
MS = 1_000_000


def rates(*parts: tuple[float, float]) -> Curve:
    """CPU time in s: parts of (seconds, cores busy) one after another."""
    t_ns, total = [0], [0.0]
    for seconds, cores in parts:
        for _ in range(round(seconds * 100)):
            t_ns.append(t_ns[-1] + 10 * MS)
            total.append(total[-1] + 0.01 * cores)
    times = np.array(t_ns, np.int64)
    return Curve(t_ns=times, total=np.array(total), unit="s", covered_ns=times)


def disturbed(system: Curve, own: list[Curve], steal: Curve | None = None) -> tuple[set[int], ...]:
    """Half seconds of ten seconds in which other processes, and the hypervisor, took too much."""
    found = cpu_of_others(0, 10 * S, system, own, steal, cores=2)
    assert list(found.begin_ns) == [n * 500 * MS for n in range(20)]
    return tuple(set(np.flatnonzero(busy)) for busy in (found.by_others, found.by_host))


def test_what_the_others_take_is_the_system_s_less_our_own() -> None:
    system, training, sampler = rates((10, 1.5)), rates((10, 1.0)), rates((10, 0.01))
    found = other_cpu(system, [training, sampler], np.array([2 * S]), np.array([4 * S]))
    assert found == pytest.approx(2 * 0.49)


def test_a_machine_of_our_own_is_disturbed_by_nobody() -> None:
    assert disturbed(rates((10, 1.01)), [rates((10, 1.0))]) == (set(), set())


def test_the_half_seconds_beside_another_process_are_its_own() -> None:
    """Another process takes half a core from second 4 to second 5."""
    system = rates((4, 1.0), (1, 1.5), (5, 1.0))
    assert disturbed(system, [rates((10, 1.0))]) == ({8, 9}, set())


def test_the_half_seconds_in_which_the_hypervisor_takes_the_cores_are_its_own() -> None:
    steal = rates((7, 0.0), (1, 0.1), (2, 0.0))
    assert disturbed(rates((10, 1.0)), [rates((10, 1.0))], steal) == (set(), {14, 15})

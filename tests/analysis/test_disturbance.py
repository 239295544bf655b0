"""Steps that something else disturbed: other processes, or the hypervisor."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.analysis.curves import Curve
from wattstep.analysis.disturbance import disturbed_steps, other_cpu

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


START = np.arange(0, 10 * S, 100 * MS)  # steps of 100 ms for ten seconds
END = START + 100 * MS


def disturbed(system: Curve, own: list[Curve], steal: Curve | None = None) -> list[int]:
    return list(np.flatnonzero(disturbed_steps(START, END, system, own, steal, cores=2)))


def test_what_the_others_take_is_the_system_s_less_our_own() -> None:
    system, training, sampler = rates((10, 1.5)), rates((10, 1.0)), rates((10, 0.01))
    found = other_cpu(system, [training, sampler], np.array([2 * S]), np.array([4 * S]))
    assert found == pytest.approx(2 * 0.49)


def test_a_machine_of_our_own_disturbs_no_step() -> None:
    assert disturbed(rates((10, 1.01)), [rates((10, 1.0))]) == []


def test_steps_beside_another_process_are_disturbed() -> None:
    """Another process takes half a core from second 4 to second 5."""
    system = rates((4, 1.0), (1, 1.5), (5, 1.0))
    found = disturbed(system, [rates((10, 1.0))])
    assert set(range(40, 50)) <= set(found)
    assert set(found) <= set(range(35, 56))  # half a second more on either side at most


def test_steps_while_the_hypervisor_takes_the_cores_are_disturbed() -> None:
    steal = rates((7, 0.0), (1, 0.1), (2, 0.0))
    found = disturbed(rates((10, 1.0)), [rates((10, 1.0))], steal)
    assert set(range(70, 80)) <= set(found) <= set(range(65, 86))


def test_no_steps_no_disturbance() -> None:
    none = np.empty(0, np.int64)
    assert len(disturbed_steps(none, none, rates((1, 1.0)), [], None, 2)) == 0

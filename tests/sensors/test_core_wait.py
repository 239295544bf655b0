from __future__ import annotations

import pytest

from wattstep.record.sensors.core_wait import CoreWait
from wattstep.schema.channel import Absent


def test_the_wait_is_the_second_of_three_numbers(tree, measure):
    root = tree({"proc/42/schedstat": "301841335 36352000 2\n"})
    found = measure(CoreWait().probe(root, 42))
    assert found == {"process.main_thread.core_wait": pytest.approx(0.036352)}


def test_without_the_process_or_its_accounts_the_reason_is_given(tree):
    root = tree({"proc/7/stat": "7 (a) S", "proc/8/schedstat": "0"})
    gone, none, cut = (CoreWait().probe(root, pid) for pid in (42, 7, 8))
    assert isinstance(gone, Absent)
    assert "no process 42" in gone.reason
    assert isinstance(none, Absent)
    assert "schedstat" in none.reason
    assert isinstance(cut, Absent)
    assert "long threads waited" in cut.reason

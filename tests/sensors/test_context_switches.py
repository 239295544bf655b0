from __future__ import annotations

from wattstep.record.sensors.context_switches import ContextSwitches
from wattstep.schema.channel import Absent

STAT = "cpu  1 2 3 4 5 6 7 8 0 0\nintr 9 9\nctxt 515823\nbtime 1\n"
STATUS = (
    "Name:\tpython\nThreads:\t1\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n"
)


def test_switches_of_the_machine_and_of_the_main_thread(tree, measure):
    root = tree({"proc/stat": STAT, "proc/42/status": STATUS})
    assert measure(ContextSwitches().probe(root, 42)) == {
        "system.context_switches": 515823,
        "process.main_thread.voluntary_switches": 150,
        "process.main_thread.nonvoluntary_switches": 7,
    }


def test_the_machine_s_remain_when_the_process_has_none(tree, measure):
    root = tree({"proc/stat": STAT, "proc/42/status": "Name:\tpython\n"})
    assert set(measure(ContextSwitches().probe(root, 42))) == {"system.context_switches"}


def test_without_either_both_reasons_are_given(tree):
    found = ContextSwitches().probe(tree({"proc/stat": "cpu  1\n"}), 42)
    assert isinstance(found, Absent)
    assert "ctxt" in found.reason
    assert "no process 42" in found.reason

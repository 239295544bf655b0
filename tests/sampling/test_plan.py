from __future__ import annotations

import pytest
from tests.refusals import refused
from tests.sampling.conftest import a_read

from wattstep.errors import InvalidValueError
from wattstep.record.sampling.plan import make_plan
from wattstep.schema.channel import Absent, Present


def test_reads_are_numbered_after_the_samplers_own() -> None:
    plan = make_plan(
        {
            "one": Present(reads=(a_read("/a"), a_read("/b"))),
            "none": Absent(reason="not here"),
            "two": Present(reads=(a_read("/c"),)),
        },
        0.01,
    )
    assert [(r.number, r.sensor, r.path) for r in plan.reads] == [
        (0, "sampler", "self"),
        (1, "one", "/a"),
        (2, "one", "/b"),
        (3, "two", "/c"),
    ]
    assert plan.absent == {"none": "not here"}


@pytest.mark.parametrize(
    ("least_s", "period_s", "every"),
    [
        (0.0, 0.01, 1),
        (0.01, 0.01, 1),
        (0.1, 0.01, 10),
        (0.1, 0.03, 4),  # 0.09 would be too often
        (1.0, 0.001, 1000),
        (0.25, 1.0, 1),
        (0.3, 0.1, 3),  # 0.3 / 0.1 is a little more than 3 in binary
    ],
)
def test_a_read_is_never_done_more_often_than_its_least_period(
    least_s: float, period_s: float, every: int
) -> None:
    found = {"one": Present(reads=(a_read("/a", least_period_s=least_s),))}
    plan = make_plan(found, period_s)
    assert plan.reads[1].every == every
    assert plan.entries[1]["every"] == every


def test_one_millisecond_is_the_finest_interval() -> None:
    assert make_plan({}, 0.001).period_s == 0.001
    with refused("interval-too-fine", "--interval 0.5ms", "1ms"):
        make_plan({}, 0.0005)
    with pytest.raises(InvalidValueError):
        make_plan({}, float("nan"))


def test_the_child_learns_what_each_read_needs() -> None:
    read = a_read("/proc/7/status", "status", 2, arguments=("VmRSS", "VmHWM"), slow=True)
    entry = make_plan({"one": Present(reads=(read,))}, 0.01).entries[1]
    assert entry == {
        "path": "/proc/7/status",
        "parser": "status",
        "arguments": ["VmRSS", "VmHWM"],
        "every": 1,
        "width": 2,
        "excluded": [],
        "slow": 1,
    }


def test_the_record_does_not_keep_the_number_of_the_process() -> None:
    plan = make_plan(
        {
            "memory": Present(reads=(a_read("/proc/4711/statm"), a_read("/proc/4711"))),
            "pss": Absent(reason="/proc/4711/smaps_rollup: permission denied"),
        },
        0.01,
    )
    assert [read.path for read in plan.reads[1:]] == ["/proc/self/statm", "/proc/self"]
    assert plan.absent["pss"] == "/proc/self/smaps_rollup: permission denied"
    assert plan.entries[1]["path"] == "/proc/4711/statm"

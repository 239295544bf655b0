"""Reads that do not come back, or only late: a pipe that is empty stands for a file that hangs."""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sampling.conftest import a_read, rows
from tests.waiting import until

from wattstep.record.sampling import child
from wattstep.record.sampling.plan import make_plan
from wattstep.record.sampling.sampler import Sampler
from wattstep.schema.channel import Present

TIMER_EXPIRED = 62
MISSING = -(2**63)
VALUES = 7


class Hanging:
    """A child with a read that blocks once its pipe is empty, and one of a file beside it."""

    def __init__(self, folder: Path, *, slow: bool) -> None:
        self.folder = folder
        (folder / "number").write_text("5\n")
        pipe, self.end = os.pipe()
        self.give(VALUES)
        reads = (a_read("perf:pipe", "perf", slow=slow), a_read(folder / "number", slow=slow))
        plan = make_plan({"test": Present(reads=reads)}, 0.01)
        self.sampler = Sampler(plan, folder, lambda: [pipe])
        self.sampler.start()

    def give(self, count: int) -> None:
        os.write(self.end, (1).to_bytes(8, "little") * count)

    def samples(self, number: int) -> list[tuple[int, ...]]:
        return rows(self.folder / f"samples-{number:02d}.bin", 3)


@pytest.fixture(params=[False, True], ids=["in the ticks", "among slow reads"])
def hanging(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hanging]:
    one = Hanging(tmp_path, slow=request.param)
    yield one
    one.sampler.stop()
    os.close(one.end)


def test_all_others_go_on_beside_a_read_that_never_comes_back(hanging: Hanging) -> None:
    until(lambda: hanging.samples(1) and hanging.samples(1)[-1][1] == TIMER_EXPIRED)
    # What it read before is there, and why it ends.
    assert [row[1] for row in hanging.samples(1)] == [0] * VALUES + [TIMER_EXPIRED]
    hung_ns = hanging.samples(1)[-1][0]
    until(lambda: len([row for row in hanging.samples(2) if row[0] > hung_ns]) > 30)
    assert {row[1:] for row in hanging.samples(2)} == {(0, 5)}
    assert hanging.sampler.stop() is None  # it would say that it had to be killed
    times = [row[0] for row in hanging.samples(2)]
    assert times == sorted(set(times))
    # Every tick is one or is counted as lost, those of the hang, too.
    ticks = rows(hanging.folder / "ticks.bin", 4)
    passed = (ticks[-1][0] - ticks[0][0]) / 1e7
    assert sum(1 + row[3] for row in ticks[1:]) == pytest.approx(passed, abs=1)


def test_a_read_that_comes_back_is_recorded_again(hanging: Hanging) -> None:
    until(lambda: hanging.samples(1) and hanging.samples(1)[-1][1] == TIMER_EXPIRED)
    hanging.give(1)
    until(lambda: hanging.samples(1)[-1][1] == 0)
    assert hanging.sampler.stop() is None
    assert [row[1] for row in hanging.samples(1)] == [0] * VALUES + [TIMER_EXPIRED, 0]
    times = [row[0] for row in hanging.samples(1)]
    assert times == sorted(set(times))
    others = [row[0] for row in hanging.samples(2)]
    assert others == sorted(set(others))


def test_a_second_read_that_hangs_is_left_out_as_well(tmp_path: Path) -> None:
    (tmp_path / "number").write_text("5\n")
    pipe, end = os.pipe()
    again = os.dup(pipe)
    os.write(end, (1).to_bytes(8, "little") * 8)
    reads = (
        a_read("perf:a", "perf"), a_read("perf:b", "perf"), a_read(tmp_path / "number"),
    )  # fmt: skip
    sampler = Sampler(
        make_plan({"test": Present(reads=reads)}, 0.01), tmp_path, lambda: [pipe, again]
    )
    sampler.start()

    def errors(number: int) -> list[int]:
        return [row[1] for row in rows(tmp_path / f"samples-{number:02d}.bin", 3)]

    until(lambda: errors(1)[-1:] == errors(2)[-1:] == [TIMER_EXPIRED])
    seen = len(errors(3))
    until(lambda: len(errors(3)) > seen + 30)
    assert set(errors(3)) == {0}
    assert sampler.stop() is None
    os.close(end)


def test_a_read_that_takes_longer_than_a_tick_leaves_the_ticks(
    tmp_path: Path,
) -> None:
    (tmp_path / "number").write_text("1\n")
    plan = make_plan({"test": Present(reads=(a_read(tmp_path / "number"),))}, 0.01)
    document = {"folder": str(tmp_path), "period_ns": 10**7, "parent": 1, "seed": 0, "dither": 0.05}
    sampler = child.Sampler({**document, "reads": list(plan.entries)}, [])
    read = sampler.reads[1]
    read.cost = 2 * child.LONG_NS  # the survey before
    plain = read.function

    def waits() -> tuple[int, ...]:
        time.sleep(0.02)
        return plain()

    read.function = waits
    sampler.survey(read, 64, 100)
    assert read.long
    sampler.put_aside(read)
    assert [one.number for one in sampler.reads] == [0]
    assert rows(tmp_path / "samples-01.bin", 3)[0][1:] == (0, 1)
    for fd in {*read.fds, read.journal.fd, *(journal.fd for journal in sampler.journals)}:
        os.close(fd)


def test_ticks_go_on_beside_a_read_that_became_slow(tmp_path: Path) -> None:
    (tmp_path / "number").write_text("5\n")
    pipe, end = os.pipe()
    reads = (a_read("perf:pipe", "perf"), a_read(tmp_path / "number"))
    os.write(end, bytes(8))
    sampler = Sampler(make_plan({"test": Present(reads=reads)}, 0.01), tmp_path, lambda: [pipe])
    sampler.start()
    assert threads(sampler.pid) <= 2

    # Counters rest while nothing but the training itself works: here it has a worker that does.
    worker = subprocess.Popen(["sleep", "1000"])
    counted = itertools.count(10**7, 10**7)

    def feeds() -> bool:  # a value only now and then: each read waits for one
        time.sleep(0.03)
        os.write(end, next(counted).to_bytes(8, "little"))
        return threads(sampler.pid) == 3

    try:
        until(feeds)
    finally:
        worker.kill()
        worker.wait()
    seen = len(rows(tmp_path / "samples-02.bin", 3))
    until(lambda: len(rows(tmp_path / "samples-02.bin", 3)) > seen + 30)
    assert sampler.stop() is None
    for _, error, value in rows(tmp_path / "samples-01.bin", 3):
        assert (error, value == MISSING) in {(0, False), (TIMER_EXPIRED, True)}
    os.close(end)


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))

"""The attendant: what it starts again, in which order, how often, and what it says of it."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from tests.sampling.conftest import channel, rows
from tests.sampling.test_collector import COUNTING
from tests.waiting import gone, until
from tests.wording import assert_says

from wattstep.record.sampling.attendant import LASTING_S, MOST_STARTS, WAITS_S, Attendant, _Patience
from wattstep.record.sampling.collector import News
from wattstep.record.sampling.plan import Plan, make_plan
from wattstep.schema.channel import Present, SensorRead

HERE = Path(__file__).parent


def the_plan() -> Plan:
    return make_plan({"counting": Present(reads=COUNTING)}, 0.01)


@pytest.fixture
def attendant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attendant]:
    monkeypatch.syspath_prepend(str(HERE))
    one = Attendant(the_plan(), tmp_path, lambda without: [])
    assert one.start() == []
    yield one
    one.stop()


def pids(attendant: Attendant) -> tuple[int, int]:
    """Of the sampler and of the collector, while both live."""
    assert attendant._sampler is not None
    (collector,) = attendant._collector.pids
    return attendant._sampler.pid, collector


def heard(attendant: Attendant) -> list[News]:
    return until(attendant.news)


def test_a_collector_that_is_killed_is_started_again_and_the_sampler_after_it(
    attendant: Attendant, tmp_path: Path
) -> None:
    sampler, collector = pids(attendant)
    os.kill(collector, signal.SIGKILL)
    (news,) = heard(attendant)
    assert_says(news.text, "collector", "signal 9")
    assert news.lost_ns is None
    assert news.gap is not None
    assert news.gap[0] < news.gap[1]
    assert set(pids(attendant)).isdisjoint({sampler, collector})
    assert gone(sampler)  # its counters would count the collector that was started after it
    journals = (tmp_path / "samples-00.bin", tmp_path / "samples-01.bin")
    for journal in journals:
        codes = until(lambda journal=journal: _after_gap(journal))
        assert codes.count(errno.EOWNERDEAD) == 1
    assert attendant.stop() == []


def _after_gap(journal: Path) -> list[int]:
    """The error numbers in a journal, once it goes on after a gap."""
    found = [row[1] for row in rows(journal, 3)]
    return found if errno.EOWNERDEAD in found and found[-1] == 0 else []


def test_a_row_that_the_kill_cut_off_does_not_shift_those_after_it(
    attendant: Attendant, tmp_path: Path
) -> None:
    journal = tmp_path / "samples-00.bin"
    sampler, _ = pids(attendant)
    until(lambda: journal.stat().st_size)
    os.kill(sampler, signal.SIGSTOP)
    with journal.open("ab") as file:
        file.write(b"\x01" * 11)
    os.kill(sampler, signal.SIGKILL)
    heard(attendant)
    until(lambda: _after_gap(journal))
    times = [row[0] for row in rows(journal, 3)]
    assert times == sorted(times)


def test_the_counters_of_the_training_are_opened_again_with_its_children(
    tmp_path: Path,
) -> None:
    asked: list[Collection[int] | None] = []

    def opened(without: Collection[int] | None) -> list[int]:
        asked.append(without)
        return [os.open("/dev/null", os.O_RDONLY)]

    counted = SensorRead(path="perf", parser="perf", channels=(channel("cpu"),))
    one = Attendant(make_plan({"cpu": Present(reads=(counted,))}, 0.01), tmp_path, opened)
    one.start()
    try:
        assert one._sampler is not None
        os.kill(one._sampler.pid, signal.SIGKILL)
        heard(one)
        assert asked == [None, (one._sampler.pid,)]
    finally:
        one.stop()


def test_one_that_ends_at_once_is_started_ever_later_and_then_no_more() -> None:
    patience, now, waited = _Patience(0.0), 0.0, []
    while not patience.over:
        ended = now
        while not patience.over and not patience.is_due(now, told_why=False):
            now += 0.05
        waited.append(now - ended)
        patience.begun(now)
    assert waited[:-1] == pytest.approx(WAITS_S, abs=0.051)


def test_one_that_lives_long_is_started_at_once_each_time_but_not_for_ever() -> None:
    patience = _Patience(0.0)
    for number in range(1, MOST_STARTS + 1):
        now = number * (LASTING_S + 1)
        assert patience.is_due(now, told_why=False)
        patience.begun(now)
    assert not patience.is_due(now + LASTING_S + 1, told_why=False)


def test_one_that_told_why_it_ended_is_not_started_again() -> None:
    patience = _Patience(0.0)
    assert not patience.is_due(100.0, told_why=True)
    assert patience.over

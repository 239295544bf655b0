"""The collector at work: push sources that emit, fail, hang, crash and end, and its own end."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.sampling.conftest import channel, rows
from tests.waiting import gone, until
from tests.wording import assert_says

from wattstep.record.sampling.collector import Collector, News
from wattstep.record.sampling.plan import make_plan
from wattstep.record.sampling.sampler import Sampler
from wattstep.record.sensors.children import Children
from wattstep.schema.channel import Present, SensorRead

MISSING = -(2**63)
HERE = Path(__file__).parent
Row = tuple[int, ...]


def pushed_read(source: str, name: str, width: int = 1, **settings: object) -> SensorRead:
    return SensorRead(
        path=name,
        parser="feed",
        channels=tuple(channel(f"{name}{n}") for n in range(width)),
        push_source=f"sources_of_tests:{source}",
        push_settings=settings,
    )


class Feeding:
    """A collector with a sensor for each group of reads, named as given."""

    def __init__(self, folder: Path, period_s: float, **sensors: tuple[SensorRead, ...]) -> None:
        self.folder = folder
        folder.mkdir()
        found = {name: Present(reads=reads) for name, reads in sensors.items()}
        self.plan = make_plan(found, period_s)
        self.collector = Collector(self.plan, folder)
        self.collector.start()

    def samples(self, sensor: str, position: int = 0) -> list[Row]:
        read = [read for read in self.plan.reads if read.sensor == sensor][position]
        path = self.folder / f"samples-{read.number:02d}.bin"
        return rows(path, 2 + len(read.channels)) if path.exists() else []


@pytest.fixture
def feeding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Feeding]]:
    monkeypatch.syspath_prepend(str(HERE))
    started: list[Feeding] = []

    def start(period_s: float = 0.01, **sensors: tuple[SensorRead, ...]) -> Feeding:
        started.append(Feeding(tmp_path / f"journal{len(started)}", period_s, **sensors))
        return started[-1]

    yield start
    for one in started:
        one.collector.stop()


COUNTING = (pushed_read("Counting", "a"), pushed_read("Counting", "b", 2))


# --- the plan ----------------------------------------------------------------------------------


def test_reads_of_push_sources_are_numbered_after_those_of_the_sampler() -> None:
    file = SensorRead(path="/f", parser="number", channels=(channel("f"),))
    other = pushed_read("Counting", "c", first=5)
    found = {"one": Present(reads=(*COUNTING, other)), "two": Present(reads=(file,))}
    plan = make_plan(found, 0.01)
    assert [(r.number, r.sensor, r.path) for r in plan.reads] == [
        (0, "sampler", "self"),
        (1, "two", "/f"),
        (2, "one", "a"),
        (3, "one", "b"),
        (4, "one", "c"),
        (5, "companion", "companion"),
    ]
    assert [entry["path"] for entry in plan.entries] == ["self", "/f"]
    # The same function with the same settings is one push source; other settings are another.
    assert [(f.numbers, f.widths, f.settings) for f in plan.sources] == [
        ((2, 3), (1, 2), {}),
        ((4,), (1,), {"first": 5}),
        ((5,), (1,), {}),
    ]


def test_a_push_source_is_asked_for_rows_as_often_as_its_most_frequent_read() -> None:
    slow = SensorRead(
        path="x", parser="feed", channels=(channel("x"),), push_source="m:f", least_period_s=1.0
    )
    fast = SensorRead(
        path="y", parser="feed", channels=(channel("y"),), push_source="m:f", least_period_s=0.02
    )
    plan = make_plan({"one": Present(reads=(slow, fast))}, 0.01)
    assert plan.sources[0].period_s == 0.02
    assert make_plan({"one": Present(reads=(slow, fast))}, 0.5).sources[0].period_s == 0.5


def test_without_push_sources_there_is_no_collector(tmp_path: Path) -> None:
    collector = Collector(make_plan({}, 0.01), tmp_path)
    collector.start()
    assert collector.pids == ()
    assert collector.await_first_rows() == []
    assert collector.news() == []
    assert collector.stop() == []
    assert list(tmp_path.iterdir()) == []


# --- rows --------------------------------------------------------------------------------------


def test_rows_of_push_sources_go_to_journals_like_those_of_the_sampler(
    feeding: Callable[..., Feeding],
) -> None:
    before = time.monotonic_ns()
    one = feeding(counting=COUNTING)
    assert one.collector.await_first_rows() == []
    assert one.samples("counting")  # what it waited for is on disk
    until(lambda: len(one.samples("counting")) > 20)
    assert one.collector.stop() == []
    first, second = one.samples("counting"), one.samples("counting", 1)
    count = len(first)
    assert [row[1:] for row in first] == [(0, n) for n in range(1, count + 1)]
    assert [row[1:] for row in second] == [(0, -n, MISSING) for n in range(1, len(second) + 1)]
    times = [row[0] for row in first]
    assert times == sorted(set(times))
    assert before < times[0]
    assert times[-1] < time.monotonic_ns()
    assert (one.folder / "samples-01.bin").stat().st_size == count * 24


def test_a_row_that_failed_has_its_error_number_and_no_value(
    feeding: Callable[..., Feeding],
) -> None:
    one = feeding(partly=(pushed_read("Partly", "p"),))
    until(lambda: len(one.samples("partly")) > 10)
    assert one.collector.stop() == []
    got = [row[1:] for row in one.samples("partly")]
    assert got == [(0, 9) if n % 2 == 0 else (11, MISSING) for n in range(len(got))]


def test_rows_reach_the_disk_while_it_runs(feeding: Callable[..., Feeding]) -> None:
    one = feeding(counting=COUNTING)
    one.collector.await_first_rows()
    seen = len(one.samples("counting"))
    until(lambda: len(one.samples("counting")) > seen + 20)
    assert one.collector.lost() is None


def test_its_own_cpu_time_and_that_of_its_commands_is_counted(
    feeding: Callable[..., Feeding], tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    one = feeding(running=(pushed_read("Running", "r", pid_file=str(pid_file)),))
    until(lambda: one.samples("companion") and one.samples("companion")[-1][2] > 300_000_000)
    used = [row[2] for row in one.samples("companion")]
    assert used == sorted(used)
    command = int(pid_file.read_text())
    assert not gone(command)
    one.collector.stop()
    until(lambda: gone(command))  # what a push source that hangs has started is ended, too


# --- push sources that fail -------------------------------------------------------------------


def test_a_source_that_fails_is_tried_again_and_others_go_on(
    feeding: Callable[..., Feeding], tmp_path: Path
) -> None:
    made = str(tmp_path / "made")
    one = feeding(bad=(pushed_read("Failing", "x", made=made, times=1),), good=COUNTING)
    news = one.collector.await_first_rows()
    assert news == [News(sensor="bad", text="bad failed: No such device; it was tried again")]
    until(lambda: any(row[1] == 0 for row in one.samples("bad")))
    assert one.collector.stop() == []  # it came back: nothing is lost
    got = [row[1:] for row in one.samples("bad")]
    assert got[0] == (errno.ENODEV, MISSING)
    assert set(got[1:]) == {(0, 7)}
    assert len(one.samples("good")) > 20


def test_a_source_that_fails_for_good_is_lost_and_tried_ever_more_seldom(
    feeding: Callable[..., Feeding], tmp_path: Path
) -> None:
    made = tmp_path / "made"
    one = feeding(bad=(pushed_read("Failing", "x", made=str(made), times=-1),))
    until(lambda: len(one.samples("bad")) == 3)
    times = [row[0] for row in one.samples("bad")]
    assert times[1] - times[0] >= 1e9
    assert times[2] - times[1] >= 2e9
    news = one.collector.stop()
    failed, lost = (n.text for n in news)
    assert_says(failed, "bad failed", os.strerror(errno.ENODEV))
    assert_says(lost, "bad was lost", os.strerror(errno.ENODEV), "no samples")
    assert news[0].lost_ns is None
    assert news[1].lost_ns is not None
    assert news[1].lost_ns < times[0]


def test_a_push_source_that_hangs_stops_no_other_and_is_said_to_hang(
    feeding: Callable[..., Feeding],
) -> None:
    one = feeding(hanging=(pushed_read("Hanging", "h"),), good=COUNTING)
    assert one.collector.await_first_rows() == []
    until(lambda: one.samples("good")[-1][0] - one.samples("hanging")[-1][0] > 2e9)
    last = one.samples("hanging")[-1][0]
    (pid,) = one.collector.pids
    news = one.collector.stop()
    assert gone(pid)
    # Had it not ended by itself and been killed, all push sources were lost, and this the reason.
    assert "did not end" not in str(news)
    text = "hanging was lost: it hangs; no samples of it from then on"
    assert news == [News(sensor="hanging", text=text, lost_ns=last)]
    assert len(one.samples("hanging")) == 3


def test_a_push_source_that_does_not_begin_is_waited_for_five_seconds_at_most(
    feeding: Callable[..., Feeding],
) -> None:
    one = feeding(late=(pushed_read("Starting", "s"),), good=COUNTING)
    (news,) = one.collector.await_first_rows()
    assert news == News(sensor="late", text="late gave nothing within 5 s: it begins later")
    assert len(one.samples("good")) > 20
    assert [n.sensor for n in one.collector.stop()] == ["late"]


def test_a_push_source_with_a_mistake_in_it_is_lost_and_named(
    feeding: Callable[..., Feeding],
) -> None:
    one = feeding(crashing=(pushed_read("Crashing", "c"),), good=COUNTING)
    found = one.collector.await_first_rows()  # which may have come before it crashed
    until(lambda: found.extend(one.collector.news()) or found)
    first, failed = one.samples("crashing")
    text = "crashing was lost: ValueError: no such key; no samples of it from then on"
    assert found == [News(sensor="crashing", text=text, lost_ns=first[0])]
    assert failed[1:] == (errno.EIO, MISSING)
    seen = len(one.samples("good"))
    until(lambda: len(one.samples("good")) > seen + 10)
    assert one.collector.stop() == []  # it has been said


@pytest.mark.parametrize("function", ["nowhere:Source", "sources_of_tests:NoSuchSource"])
def test_a_push_source_that_is_not_there_is_lost_and_the_reason_said(
    feeding: Callable[..., Feeding], function: str
) -> None:
    read = SensorRead(path="n", parser="feed", channels=(channel("n"),), push_source=function)
    one = feeding(none=(read,))
    (news,) = one.collector.await_first_rows()
    assert "none was lost: " in news.text
    assert "nowhere" in news.text or "NoSuchSource" in news.text


def test_a_source_that_ends_long_before_the_run_left_a_gap(feeding: Callable[..., Feeding]) -> None:
    one = feeding(ending=(pushed_read("Ending", "e"),), good=COUNTING)
    until(lambda: len(one.samples("ending")) == 5)
    last = one.samples("ending")[-1][0]
    until(lambda: time.perf_counter_ns() > last + 700_000_000)
    assert one.collector.news() == []  # whether it matters is known at the end
    (news,) = one.collector.stop()
    assert (news.sensor, news.lost_ns) == ("ending", last)
    assert news.text.startswith("ending ended 0.")
    assert_says(news.text, "before the run", "no samples")


# --- its end -----------------------------------------------------------------------------------


def test_a_killed_collector_is_one_line_for_each_of_its_sensors(
    feeding: Callable[..., Feeding],
) -> None:
    one = feeding(one=COUNTING, two=(pushed_read("Counting", "x"), pushed_read("Counting", "y", 2)))
    one.collector.await_first_rows()
    (pid,) = one.collector.pids
    os.kill(pid, signal.SIGKILL)
    until(lambda: one.collector.lost() is not None)
    assert_says(one.collector.lost(), "signal 9")
    words = "was lost with the collector: it ended with signal 9; no samples of it from"
    # It may have been killed between the journals of the two reads: the later one counts.
    last = {name: max(one.samples(name, n)[-1][0] for n in (0, 1)) for name in ("one", "two")}
    assert one.collector.news() == [
        News(sensor=name, text=f"{name} {words} then on", lost_ns=last[name])
        for name in ("one", "two")
    ]
    assert one.collector.news() == []
    assert one.collector.stop() == []


PARENT = """
import sys, time
from pathlib import Path
from tests.sampling.test_collector import COUNTING, Feeding
sys.path.insert(0, sys.argv[2])
one = Feeding(Path(sys.argv[1]) / "journal", 0.01, counting=COUNTING)
one.collector.await_first_rows()
print(*one.collector.pids, flush=True)
time.sleep(600)
"""


def test_the_collector_ends_by_itself_when_its_parent_was_killed(tmp_path: Path) -> None:
    root = HERE.parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), str(HERE)],
        stdout=subprocess.PIPE,
        cwd=root,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not gone(pid)
        parent.send_signal(signal.SIGKILL)
    until(lambda: gone(pid))
    assert (tmp_path / "journal" / "samples-01.bin").stat().st_size % 24 == 0


def test_ctrl_c_leaves_the_collector_to_its_parent(feeding: Callable[..., Feeding]) -> None:
    one = feeding(counting=COUNTING)
    one.collector.await_first_rows()
    (pid,) = one.collector.pids
    os.kill(pid, signal.SIGINT)
    seen = len(one.samples("counting"))
    until(lambda: len(one.samples("counting")) > seen + 20)
    assert one.collector.lost() is None


def test_the_collector_yields_to_the_training_and_has_a_session_of_its_own(
    feeding: Callable[..., Feeding],
) -> None:
    one = feeding(counting=COUNTING)
    one.collector.await_first_rows()
    (pid,) = one.collector.pids
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, pid) == min(own + 5, 19)
    assert os.getsid(pid) == pid


def test_a_collector_that_cannot_write_gives_the_reason(feeding: Callable[..., Feeding]) -> None:
    one = feeding(counting=COUNTING)
    one.collector.stop()
    again = Collector(one.plan, one.folder / "gone")
    again.start()
    (news,) = again.await_first_rows()
    assert_says(news.text, "collector:", os.strerror(errno.ENOENT))
    assert again.stop() == []


def test_the_collector_is_no_child_of_the_training(feeding: Callable[..., Feeding]) -> None:
    found = Children().probe(Path("/"), os.getpid())
    if not isinstance(found, Present):
        pytest.skip(found.reason)
    one = feeding(counting=COUNTING)
    plan = make_plan({"children": found}, 0.01)
    counts = {}
    for name, ours in (("with", ()), ("without", one.collector.pids)):
        folder = one.folder.parent / name
        folder.mkdir()
        sampler = Sampler(plan, folder, None, ours)
        sampler.start()
        until(lambda folder=folder: rows(folder / "samples-01.bin", 5))
        sampler.stop()
        counts[name] = rows(folder / "samples-01.bin", 5)[0][3]
    assert counts["with"] == counts["without"] + 1

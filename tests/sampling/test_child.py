"""The real child process: what it writes, when it ends, what it does when reads fail."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.burning import burn
from tests.refusals import refused
from tests.sampling.conftest import Sampling, a_read, rows
from tests.waiting import gone, until
from tests.wording import assert_says

from wattstep.record.sampling import child
from wattstep.record.sampling.plan import DITHER, make_plan
from wattstep.record.sampling.sampler import Sampler
from wattstep.record.sensors.children import Children
from wattstep.record.sensors.process_cpu import open_task_clocks
from wattstep.schema.channel import Present

Start = Callable[..., Sampling]
MISSING = -(2**63)


# --- samples -----------------------------------------------------------------------------------


def thinned(one: Sampling) -> bool:
    """Whether the first read was made more seldom: on a busy machine it may seem dear, and the costs say so."""
    return any(number == 1 and every > 1 for _, number, _, every in one.costs())


def test_samples_arrive_in_rows_of_their_width_in_order_of_time(
    sampling: Start, tmp_path: Path
) -> None:
    (tmp_path / "number").write_text("42\n")
    (tmp_path / "fields").write_text("1 2 3 4\n")
    before = time.monotonic_ns()
    one = sampling(
        a_read(tmp_path / "number"), a_read(tmp_path / "fields", "fields", 2, arguments=(3, 1))
    )
    until(lambda: len(one.samples(1)) > 30)
    assert one.sampler.stop() is None
    after = time.monotonic_ns()
    assert {row[1:] for row in one.samples(1)} == {(0, 42)}
    assert {row[1:] for row in one.samples(2)} == {(0, 4, 2)}
    for number in (0, 1, 2):
        times = [row[0] for row in one.samples(number)]
        assert times == sorted(set(times))
        assert before < times[0]
        assert times[-1] < after


def test_every_tick_is_on_disk_when_the_child_was_told_to_end(
    sampling: Start, tmp_path: Path
) -> None:
    (tmp_path / "number").write_text("1\n")
    one = sampling(a_read(tmp_path / "number"))
    until(lambda: len(one.ticks()) > 20)
    assert one.sampler.stop() is None
    # The first samples come before the first tick; a read of every tick has one row more.
    assert thinned(one) or len(one.samples(1)) == len(one.ticks()) + 1
    assert (one.folder / "ticks.bin").stat().st_size % 32 == 0


def test_ticks_are_dithered_by_at_most_five_per_cent_of_the_period(sampling: Start) -> None:
    one = sampling(period_s=0.004)
    until(lambda: len(one.ticks()) > 200)
    one.sampler.stop()
    period, passed, offsets = 4_000_000, 0, []
    for deadline, _lateness, _busy, lost in one.ticks():
        passed += 1 + lost
        offsets.append(deadline - passed * period)
    # The base is not known: all deadlines lie in a band as wide as the dither goes both ways.
    width = 2 * DITHER * period
    assert max(offsets) - min(offsets) <= width
    assert max(offsets) - min(offsets) > 0.8 * width
    assert len(set(offsets)) > 100


def test_a_tick_is_never_early(sampling: Start) -> None:
    one = sampling(period_s=0.002)
    until(lambda: len(one.ticks()) > 100)
    one.sampler.stop()
    assert all(lateness >= 0 and busy >= 0 and lost >= 0 for _, lateness, busy, lost in one.ticks())


def test_a_read_with_a_longer_period_falls_on_fewer_ticks(sampling: Start, tmp_path: Path) -> None:
    (tmp_path / "number").write_text("1\n")
    one = sampling(
        a_read(tmp_path / "number"),
        a_read(tmp_path / "number", least_period_s=0.05),
        period_s=0.005,
    )
    until(lambda: len(one.ticks()) > 100)
    one.sampler.stop()
    ticks = one.ticks()
    passed = len(ticks) + sum(row[3] for row in ticks)
    surveys = passed // 64 + 1
    assert 0 < len(one.samples(2)) <= passed / 10 + 1 + surveys
    assert thinned(one) or len(one.samples(1)) == len(ticks) + 1


def test_slow_reads_are_taken_beside_the_ticks(sampling: Start, tmp_path: Path) -> None:
    (tmp_path / "number").write_text("7\n")
    one = sampling(a_read(tmp_path / "number", slow=True))
    until(lambda: len(one.samples(1)) > 3)
    assert one.sampler.stop() is None
    assert {row[1:] for row in one.samples(1)} == {(0, 7)}


def test_more_counters_than_one_message_takes_are_passed_on(tmp_path: Path) -> None:
    plan = make_plan({"perf": Present(reads=(a_read("perf:test", "perf"),))}, 0.01)
    opened = 0

    def open_many() -> list[int]:
        nonlocal opened
        zero = [os.open("/dev/zero", os.O_RDONLY) for _ in range(300)]
        opened = len(zero)
        return zero

    sampler = Sampler(plan, tmp_path, open_many)
    sampler.start()
    descriptors = [
        fd for fd in Path(f"/proc/{sampler.pid}/fd").iterdir() if fd.readlink() == Path("/dev/zero")
    ]
    assert sampler.stop() is None
    assert len(descriptors) == opened
    read = rows(tmp_path / "samples-01.bin", 3)
    assert read[0][1:] == (0, 0)
    assert {row[1] for row in read} == {0}


# --- its end -----------------------------------------------------------------------------------


def test_a_child_with_a_long_period_ends_when_told_to(sampling: Start) -> None:
    one = sampling(period_s=3600.0)
    assert one.sampler.stop() is None  # it would say that it had to be killed
    assert len(one.samples(0)) == 1


PARENT = """
import sys, time
from pathlib import Path
from wattstep.record.sampling.plan import make_plan
from wattstep.record.sampling.sampler import Sampler
sampler = Sampler(make_plan({}, float(sys.argv[2])), Path(sys.argv[1]))
sampler.start()
print(sampler.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("period_s", [0.01, 600.0])
def test_the_child_ends_by_itself_when_its_parent_was_killed(
    tmp_path: Path, period_s: float
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), str(period_s)], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not gone(pid)
        parent.send_signal(signal.SIGKILL)
    until(lambda: gone(pid))
    size = (tmp_path / "ticks.bin").stat().st_size
    assert size % 32 == 0
    assert (tmp_path / "samples-00.bin").stat().st_size % 24 == 0


def test_ctrl_c_leaves_the_child_to_its_parent(sampling: Start) -> None:
    one = sampling()
    os.kill(one.sampler.pid, signal.SIGINT)
    seen = len(one.ticks())
    until(lambda: len(one.ticks()) > seen + 20)
    assert one.sampler.lost() is None


def test_a_child_that_was_killed_is_lost_and_says_by_which_signal(sampling: Start) -> None:
    one = sampling()
    until(lambda: len(one.ticks()) > 20)
    assert one.sampler.lost() is None
    os.kill(one.sampler.pid, signal.SIGKILL)
    until(lambda: one.sampler.lost() is not None)
    assert_says(one.sampler.lost(), "signal 9")
    assert one.sampler.last_sample_ns() == one.samples(0)[-1][0]
    assert_says(one.sampler.stop(), "signal 9")


def test_a_child_that_cannot_write_its_journals_gives_the_reason(tmp_path: Path) -> None:
    sampler = Sampler(make_plan({}, 0.01), tmp_path / "gone")
    with refused("sampler-ended", os.strerror(errno.ENOENT)):
        sampler.start()
    assert gone(sampler.pid)


def test_a_python_that_cannot_be_started_is_an_error_of_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with refused("sampler-start"):
        Sampler(make_plan({}, 0.01), tmp_path).start()


def test_the_journal_may_lie_in_a_folder_of_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "tab\tnew\nline 'quote\" \\ µ 😀 \udcff"
    folder.mkdir()
    sampler = Sampler(make_plan({}, 0.01), folder)
    sampler.start()
    assert sampler.stop() is None
    assert rows(folder / "samples-00.bin", 3)


# --- reads that fail ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code"),
    [("missing", errno.ENOENT), ("folder", errno.EISDIR), ("garbage", errno.EINVAL)],
)
def test_a_read_that_fails_is_a_gap_with_its_error_number(
    sampling: Start, tmp_path: Path, name: str, code: int
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "garbage").write_bytes(b"\xffno number\n")
    (tmp_path / "number").write_text("5\n")
    one = sampling(a_read(tmp_path / name), a_read(tmp_path / "number"))
    until(lambda: len(one.samples(1)) > 5)
    one.sampler.stop()
    assert {row[1:] for row in one.samples(1)} == {(code, MISSING)}
    assert {row[1:] for row in one.samples(2)} == {(0, 5)}


def test_a_file_that_fails_in_the_middle_leaves_gaps_and_nothing_else(
    sampling: Start, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text("5\n")
    bad.write_text("6\n")
    one = sampling(a_read(bad), a_read(good))
    until(lambda: len(one.samples(1)) > 10)
    bad.write_bytes(b"")
    until(lambda: errno.EINVAL in one.errnos(1))
    bad.write_bytes(b"not a number\n")
    until(lambda: one.errnos(1).count(errno.EINVAL) > 5)
    bad.write_text("7\n")
    until(lambda: one.samples(1)[-1][1:] == (0, 7))
    assert one.sampler.stop() is None
    values = [row[1:] for row in one.samples(1)]
    assert set(values) == {(0, 6), (errno.EINVAL, MISSING), (0, 7)}
    assert values == sorted(values, key=[(0, 6), (errno.EINVAL, MISSING), (0, 7)].index)
    assert set(one.errnos(2)) == {0}


def test_the_files_of_a_process_that_ended_leave_gaps(sampling: Start) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        one = sampling(a_read(f"/proc/{process.pid}/statm", "fields", arguments=(1,)))
        until(lambda: len(one.samples(1)) > 5)
        process.kill()
    until(lambda: one.errnos(1)[-1] != 0)
    one.sampler.stop()
    errnos = one.errnos(1)
    assert errnos[0] == 0
    assert set(errnos) - {0} <= {errno.ESRCH, errno.ENOENT, errno.EINVAL}


def test_a_file_that_is_made_anew_is_found_again(sampling: Start, tmp_path: Path) -> None:
    path = tmp_path / "late"
    one = sampling(a_read(path))
    until(lambda: len(one.samples(1)) > 10)
    path.write_text("9\n")
    until(lambda: one.samples(1)[-1][1:] == (0, 9))


def test_a_read_that_keeps_failing_keeps_no_files_open(tmp_path: Path) -> None:
    path = tmp_path / "garbage"
    path.write_bytes(b"?")
    entry = {"path": str(path), "parser": "number", "arguments": [], "every": 1, "width": 1}
    read = child.Read(1, entry, [], str(tmp_path))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for tick in range(50):
        read.take(tick, 100)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    for fd in [*read.fds, read.journal.fd]:
        os.close(fd)


def test_one_dear_read_may_be_an_accident_two_stretch_its_period(tmp_path: Path) -> None:
    (tmp_path / "number").write_text("1\n")
    plan = make_plan({"test": Present(reads=(a_read(tmp_path / "number"),))}, 0.01)
    document = {"folder": str(tmp_path), "period_ns": 10**7, "parent": 1, "seed": 0, "dither": 0.05}
    sampler = child.Sampler({**document, "reads": list(plan.entries)}, [])
    read = sampler.reads[1]
    plain = read.function

    def interrupted() -> tuple[int, ...]:
        time.sleep(0.003)
        return plain()

    for functions, every in (((plain, plain), 1), ((interrupted, plain), 1)):
        for function in functions:
            read.function = function
            sampler.survey(read, 64, 100)
        assert read.every == every
    read.function = interrupted
    for _ in range(8):
        sampler.survey(read, 64, 100)
    assert read.every >= 32  # 3 ms are 0.5 % of 600 ms
    read.function = plain
    for _ in range(12):
        sampler.survey(read, 64, 100)
    assert read.every == 1  # cheap again: as it was planned
    for fd in {*read.fds, *(journal.fd for journal in sampler.journals)}:
        os.close(fd)


@pytest.mark.parametrize(("parser", "share"), [("family", 0.001), ("number", 0.005)])
def test_a_slow_read_takes_its_share_of_a_core_and_a_walk_of_memory_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parser: str, share: float
) -> None:
    clock = [10**9]
    for name in ("monotonic_ns", "thread_ns"):
        monkeypatch.setattr(child, name, lambda: clock[0])
    path = tmp_path / "number"
    path.write_text("1\n")
    read = a_read(path, slow=True, least_period_s=1.0)
    plan = make_plan({"test": Present(reads=(read,))}, 0.01)
    one = child.Read(1, {**plan.entries[1]}, [], str(tmp_path))
    one.entry["parser"] = parser

    def walk() -> tuple[int]:
        clock[0] += 20_000_000
        return (1,)

    one.function = walk
    slow = child.SlowReads([one], [], 10**7)
    slow.read(one)
    assert one.due_ns - 10**9 == round(20_000_000 / share)
    for fd in [*one.fds, one.journal.fd]:
        os.close(fd)


# --- our own processes do not count ------------------------------------------------------------


def test_the_sampler_is_not_counted_as_cpu_time_of_the_training(tmp_path: Path) -> None:
    try:
        for fd in open_task_clocks(os.getpid()):
            os.close(fd)
    except OSError as error:
        pytest.skip(f"the kernel refuses perf counters: {error}")
    plan = make_plan({"perf": Present(reads=(a_read("perf:task-clock", "perf"),))}, 0.001)
    own = time.process_time_ns()
    sampler = Sampler(plan, tmp_path, lambda: open_task_clocks(os.getpid()))
    sampler.start()
    until(lambda: len(rows(tmp_path / "samples-00.bin", 3)) > 3)
    assert sampler.stop() is None
    own = time.process_time_ns() - own
    counted = [row[2] for row in rows(tmp_path / "samples-01.bin", 3)]
    samplers = [row[2] for row in rows(tmp_path / "samples-00.bin", 3)]
    assert counted[-1] - counted[0] <= own
    assert samplers[-1] > 0


@pytest.fixture
def counted() -> Iterator[Callable[[], int]]:
    """CPU time of this process and of what it starts, as the sampler reads it."""
    try:
        descriptors = open_task_clocks(os.getpid())
    except OSError as error:
        pytest.skip(f"the kernel refuses perf counters: {error}")
    read = child.read_perf(descriptors, os.getpid())
    yield lambda: read()[0]
    for fd in descriptors:
        os.close(fd)


def test_a_training_alone_is_counted_by_its_clock_and_seldom_by_counters(
    counted: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, whole = os.read, []
    monkeypatch.setattr(os, "read", lambda fd, size: (whole.append(fd), plain(fd, size))[1])
    first, own = counted(), time.process_time_ns()
    values = []
    for _ in range(100):
        burn(0.002)
        values.append(counted())
    own = time.process_time_ns() - own
    assert values == sorted(values)
    # What threads of the tests' own process run meanwhile may fall before or after.
    assert values[-1] - first == pytest.approx(own, rel=0.05)
    assert len(whole) <= 30 * len(set(whole))


def test_what_a_hypervisor_took_is_no_work_of_the_training(
    counted: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Counters whose value is twice the clock's, as where another guest has the core every other moment.
    stolen = [time.process_time_ns()]
    monkeypatch.setattr(os, "read", lambda fd, size: (2 * stolen[0]).to_bytes(8, "little"))
    first, own = counted(), time.process_time_ns()
    for _ in range(50):
        burn(0.002)
        stolen[0] = time.process_time_ns()
        last = counted()
    assert last - first == pytest.approx(time.process_time_ns() - own, rel=0.05)


def test_what_a_worker_takes_is_counted_with_the_training(counted: Callable[[], int]) -> None:
    for _ in range(100):  # the counters rest
        counted()
    before = counted(), resource.getrusage(resource.RUSAGE_CHILDREN), time.process_time_ns()
    worker = subprocess.Popen([sys.executable, "-I", "-S", "-c", BURNING])
    values = []
    while worker.poll() is None:
        values.append(counted())
        time.sleep(0.005)
    values += [counted() for _ in range(10)]
    own = time.process_time_ns() - before[2]
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = ended.ru_utime + ended.ru_stime - before[1].ru_utime - before[1].ru_stime
    assert values == sorted(values)
    assert values[-1] - before[0] == pytest.approx(own + spent * 1e9, rel=0.05, abs=2 * 10**6)


def test_what_many_short_programs_take_is_counted_with_the_training(
    counted: Callable[[], int],
) -> None:
    for _ in range(100):  # the counters rest
        counted()
    before = counted(), resource.getrusage(resource.RUSAGE_CHILDREN), time.process_time_ns()
    for _ in range(40):
        subprocess.run(["true"], check=True)
        for _ in range(10):
            counted()
    own = time.process_time_ns() - before[2]
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = ended.ru_utime + ended.ru_stime - before[1].ru_utime - before[1].ru_stime
    # What is not yet a tick may come later: 10 ms, and what a fork takes before it counts as the child's.
    assert counted() - before[0] == pytest.approx(own + spent * 1e9, rel=0.15, abs=12 * 10**6)


BURNING = "import time\nwhile time.process_time() < 0.2: pass"


def test_the_sampler_is_no_child_of_the_training_but_a_worker_is(tmp_path: Path) -> None:
    found = Children().probe(Path("/"), os.getpid())
    if not isinstance(found, Present):
        pytest.skip(found.reason)
    before = {int(pid) for task in _tasks() for pid in task.split()}
    sampler = Sampler(make_plan({"children": found}, 0.01), tmp_path)
    sampler.start()
    worker: subprocess.Popen[bytes] | None = None
    try:

        def counts() -> list[int]:
            return [row[3] for row in rows(tmp_path / "samples-01.bin", 5)]

        until(counts)
        assert set(counts()) == {len(before)}
        worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        until(lambda: counts()[-1] == len(before) + 1)
    finally:
        if worker is not None:
            worker.kill()
            worker.wait()
        sampler.stop()


def _tasks() -> list[str]:
    tasks = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            tasks.append((task / "children").read_text())
    return tasks


def test_what_a_child_used_stays_counted_after_its_end() -> None:
    read = child.read_children(f"/proc/{os.getpid()}", {os.getpid()})
    burn = "import time\nwhile time.process_time() < 0.05: pass\nprint(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", burn], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        alive = read()[0]
        worker.communicate(b"\n")
    assert alive >= 50_000_000
    assert read()[0] == alive


def test_a_thread_that_ends_while_it_is_read_hides_no_child(tmp_path: Path) -> None:
    for tid, children in (("10", "20 "), ("11", None), ("12", "21 ")):
        task = tmp_path / "10" / "task" / tid
        task.mkdir(parents=True)
        if children is not None:  # 11 was listed, and has ended since
            (task / "children").write_text(children)
    for pid in ("20", "21"):
        (tmp_path / pid / "task" / pid).mkdir(parents=True)
        (tmp_path / pid / "task" / pid / "children").write_text("")
        (tmp_path / pid / "task" / pid / "schedstat").write_text("5000 0 1")
        (tmp_path / pid / "task" / pid / "stat").write_text(f"{pid} (x) S " + "0 " * 49)
        (tmp_path / pid / "statm").write_text("9 3 1 0 0 0 0")
    assert child.read_children(str(tmp_path / "10"), ())()[1] == 2
    with pytest.raises(FileNotFoundError):
        child.read_children(str(tmp_path / "99"), ())()


@pytest.mark.parametrize("at_it", [True, False])
def test_a_walk_that_is_under_way_at_the_end_is_waited_for_and_not_made_twice(at_it: bool) -> None:
    """In a run shorter than a read of all workers' pages it is the only one."""
    taken: list[str] = []
    walk = SimpleNamespace(
        entry={"parser": "family"}, take=lambda tick, second: taken.append("at the end"),
        journal=SimpleNamespace(flush=lambda: None),
    )  # fmt: skip
    other = SimpleNamespace(entry={"parser": "number"}, take=lambda *_: taken.append("another"))
    sampler = object.__new__(child.Sampler)
    sampler.slow = SimpleNamespace(reads=[other, walk], watch=child.Watch())

    def come_back() -> None:
        taken.append("by its thread")
        sampler.slow.watch.held.pop()

    if at_it:
        sampler.slow.watch.held.append(walk)
        threading.Timer(0.05, come_back).start()
    sampler.read_walks_again()
    assert taken == ["by its thread" if at_it else "at the end"]


def test_a_packer_that_the_kernel_took_away_ends_nothing(tmp_path: Path) -> None:
    """As where the training ignores the ends of its children."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    packer = child.Packer(str(tmp_path), ["packer"])
    packer.pid = gone.pid
    packer.look(10**18)
    assert packer.pid == 0
    packer.pid = gone.pid
    packer.end()
    assert packer.pid == 0

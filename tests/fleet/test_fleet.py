"""A sweep of many devices at once: devices that a test decides on, and boards that real OpenSSH servers stand for."""

from __future__ import annotations

import fcntl
import json
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest
from tests.fleet.made import plan
from tests.fleet.remote.server import MISSING, WHY_NOT, Server, serving
from tests.refusals import refused
from tests.waiting import until
from tests.wording import assert_says, saying

from wattstep.errors import MissingPartError, RecordingError, WattstepError
from wattstep.remote.ssh import Connection, ConnectionLostError, Finished
from wattstep.remote.ssh.board import RESTARTED
from wattstep.report.sweep_table import fit_table
from wattstep.schema.outcome import Configuration, Evidence, Outcome
from wattstep.sweep.board import hottest_zone_of, nameless, sweep_fleet
from wattstep.sweep.cooling import MOST_S
from wattstep.sweep.fleet_file import Device
from wattstep.sweep.folder import SweepFolder, load_sweep, read_outcomes
from wattstep.sweep.hosts import Host, Task, cool
from wattstep.sweep.outcomes import Tally
from wattstep.sweep.plan import SweepPlan
from wattstep.train.child.measuring import Listener
from wattstep.train.progress import Progress

LONG_S = 120.0  # until something happens that takes a second where nothing else runs
NEVER_S = 1e6  # so that a device that is away is only tried again at the end

Ends = Callable[[str], Outcome | WattstepError | None]  # by name of the configuration; None: trains


@dataclass
class Fake:
    """A device that trains nothing, and says what a test wants it to."""

    name: str
    ends: Ends = lambda name: None
    done: list[str] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    closed: int = 0
    look_every_s: float | None = None
    seats: int = 1
    taken: int = 0
    lock: Any = field(default_factory=threading.Lock)

    def room(self) -> int:
        return self.seats

    def sit(self, change: int) -> None:
        with self.lock:
            self.taken += change
            assert self.taken <= self.seats, "more at a time than there is room for"

    def measure(self, task: Task, listener: Listener) -> Outcome:
        self.sit(1)
        try:
            assert task.configuration.device == self.name
            self.done.append(task.configuration.name)
            self.tasks.append(task)
            listener.on_progress(Progress(stage="training", steps=1))
            answer = self.ends(task.configuration.name)
            if isinstance(answer, WattstepError):
                raise answer
            return answer or trained(task.configuration)
        finally:
            self.sit(-1)

    def end(self) -> None:
        self.ended.set()

    def close(self) -> None:
        self.closed += 1


def trained(configuration: Configuration, **more: Any) -> Outcome:
    return Outcome(
        **{
            "configuration": configuration, "status": "trained", "started": 100.0, "ended": 102.0,
            "machine": {"model": f"board {configuration.device}", "cores": 2}, **more,
        }
    )  # fmt: skip


class Hot(Fake):
    """A device that never cools down, until it is asked to end."""

    def measure(self, task: Task, listener: Listener) -> Outcome:
        cool(("auto", 20.0), listener, lambda: 90.0, self.ended)
        return super().measure(task, listener)


@dataclass
class Watched:
    """A watcher that remembers."""

    ended: list[tuple[str, str]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    stood: dict[str, str] = field(default_factory=dict)
    on_progress: Callable[[str], None] = lambda device: None

    def begins(self, configuration: Configuration, done: int, total: int) -> None:
        pass

    def stands(self, device: str, doing: str, done: int, total: int) -> None:
        self.stood[device] = f"{doing} {done}/{total}"

    def progresses(self, device: str, progress: Progress) -> None:
        self.on_progress(device)

    def says(self, device: str, text: str) -> None:
        self.said.append(f"{device}: {text}")

    def ends(self, outcome: Outcome, done: int, total: int, left_s: float | None) -> None:
        self.ended.append((outcome.configuration.name, outcome.status))

    def warns(self, text: str) -> None:
        self.said.append(f"warning: {text}")


def run(of: str, batch: int) -> str:
    return f"lenet-b{batch}-t1-fp32-{of}-r1"


def sweep(
    path: Path, fakes: Mapping[str, Fake], retry_s: float = NEVER_S, **changes: Any
) -> Watched:
    watched = changes.pop("watched", None) or Watched()
    chosen: SweepPlan = plan(devices=tuple(fakes), **changes)

    def opener(device: Device, runs: Collection[str], say: Callable[[str], None]) -> Host:
        assert all(f"-{device.name}-" in name for name in runs)
        return fakes[device.name]

    devices = [Device(name=name, target="local") for name in fakes]
    folder = SweepFolder(path, chosen, {"where": "a fleet"}, pytest.fail)
    try:
        sweep_fleet(devices, chosen, folder, watched, opener=opener, retry_s=retry_s)
    finally:
        folder.close()
    return watched


def statuses(path: Path) -> dict[str, str]:
    return {name: one.status for name, one in read_outcomes(path, pytest.fail).items()}


def test_all_devices_measure_at_once_and_each_its_own_one_at_a_time(tmp_path: Path) -> None:
    together = threading.Barrier(3)  # nobody passes until all three measure

    def meet(name: str) -> None:
        if "-b1-" in name:
            together.wait(LONG_S)

    fakes = {name: Fake(name, meet) for name in ("a", "b", "c")}
    watched = sweep(tmp_path, fakes, batches=(1, 2, 4))
    for name, fake in fakes.items():
        assert fake.done == [run(name, 1), run(name, 2), run(name, 4)]
        assert fake.closed == 1
    assert set(statuses(tmp_path).values()) == {"trained"}
    assert len(statuses(tmp_path)) == 9
    assert watched.stood == dict.fromkeys("abc", "done 3/3")


def test_a_host_with_room_for_two_measures_no_two_that_differ_in_batch_size_only(
    tmp_path: Path,
) -> None:
    together = threading.Barrier(2)  # nobody passes until one of each family measures

    def meet(name: str) -> None:
        together.wait(LONG_S)

    a = Fake("a", meet, seats=3)
    sweep(tmp_path, {"a": a}, threads=(1, 2), batches=(1, 2))
    at = [(one.configuration.threads, one.configuration.batch_size) for one in a.tasks]
    assert sorted(at[:2]) == [(1, 1), (2, 1)]
    assert sorted(at[2:]) == [(1, 2), (2, 2)]
    assert set(statuses(tmp_path).values()) == {"trained"}


def test_workers_that_die_again_and_again_leave_nothing_out_and_nothing_twice(
    tmp_path: Path,
) -> None:
    """Four at a time, of which each seventh that is begun goes down with its board; and is begun again."""
    begun, lock = [0], threading.Lock()

    def dies(name: str) -> WattstepError | None:
        with lock:
            begun[0] += 1
            return RecordingError(RESTARTED) if begun[0] % 7 == 0 else None

    a = Fake("a", dies, seats=4)
    watched = sweep(tmp_path, {"a": a}, threads=(1, 2, 3, 4, 5), batches=(1, 2, 4), repeats=2)
    assert begun[0] == 30 + (begun[0] // 7)
    assert len(watched.ended) == len({name for name, _ in watched.ended}) == 30
    assert set(statuses(tmp_path).values()) == {"trained"}
    assert watched.stood == {"a": "done 30/30"}


def test_what_is_done_and_left_is_the_same_whether_outcomes_come_at_once_or_one_by_one() -> None:
    rng = random.Random(7)
    every = list(
        plan(workloads=("lenet", "dqn"), batches=(1, 2, 4, 8), repeats=50).configurations()
    )
    rng.shuffle(every)
    tally, outcomes = Tally(), []
    for one in every[:150]:
        state = (
            rng.choice(("trained", "out of memory", "crashed")) if one.batch_size > 2 else "trained"
        )
        outcomes.append(trained(one, status=state, ended=100.0 + rng.randint(1, 50)))
        tally.add(outcomes[-1])
    # By hand: the median of those with the same batch of the same workload; no batch above one that ran out.
    full = [each for each in outcomes if each.status == "out of memory"]
    expected = 0.0
    for one in every[150:]:
        if not any(
            each.configuration.family == one.family
            and each.configuration.batch_size < one.batch_size
            for each in full
        ):
            expected += median(
                each.ended - each.started
                for each in outcomes
                if (each.configuration.workload, each.configuration.batch_size)
                == (one.workload, one.batch_size)
            )
    assert tally.time_left(every) == pytest.approx(expected)
    assert Tally(outcomes).time_left(every) == pytest.approx(expected)
    assert tally.done == {each.configuration.name for each in outcomes}


def test_an_outcome_takes_the_place_of_the_earlier_one_of_its_configuration() -> None:
    first, second, larger = plan(batches=(1, 2, 4)).configurations()
    tally = Tally([trained(first, status="out of memory", ended=900.0)])
    assert tally.skipped(second) is not None
    assert tally.time_left([second, larger]) == 0.0
    tally.add(trained(first, status="interrupted"))
    assert not tally.done
    assert tally.skipped(second) is None
    assert tally.time_left([second]) is None  # nothing is known of how long one takes
    tally.add(trained(second, ended=130.0))
    tally.add(trained(second, ended=110.0))  # measured again: 10 s, not the 20 between both
    assert tally.time_left([first, larger]) == pytest.approx(20.0)
    assert tally.done == {second.name}


def test_room_that_a_host_gets_later_is_used(tmp_path: Path) -> None:
    grown = threading.Barrier(2)

    def grow(name: str) -> None:
        a.seats = 2
        grown.wait(LONG_S)

    a = Fake("a", grow, look_every_s=0.01)
    sweep(tmp_path, {"a": a}, threads=(1, 2), batches=(1,))
    assert len(a.done) == 2


def test_what_the_file_says_of_a_device_holds_there_alone(tmp_path: Path) -> None:
    fakes = {"a": Fake("a"), "b": Fake("b"), "c": Fake("c")}
    watched = sweep(
        tmp_path, fakes, workloads=("lenet", "dqn"), batches=(1,), memory_limit=8 * 10**9,
        only={"a": ("dqn",), "c": ("vgg16",)}, limits={"a": 7 * 10**9},
    )  # fmt: skip
    assert fakes["a"].done == ["dqn-b1-t1-fp32-a-r1"]
    assert fakes["b"].done == ["lenet-b1-t1-fp32-b-r1", "dqn-b1-t1-fp32-b-r1"]
    assert fakes["c"].done == []
    assert [task.memory_limit for task in fakes["a"].tasks] == [7 * 10**9]
    assert [task.memory_limit for task in fakes["b"].tasks] == [8 * 10**9] * 2
    (line,) = watched.said
    assert_says(line, "warning: c: none")
    # Only what goes somewhere stands in the table.
    shown = fit_table(load_sweep(tmp_path, pytest.fail))
    assert [row.title for row in shown.rows] == ["lenet, on b", "dqn, on a", "dqn, on b"]
    assert [row.verdict for row in shown.rows] == ["yes"] * 3
    with refused("other-settings", "memory limit:", "7000000000", "8000000000"):
        sweep(tmp_path, {"a": Fake("a")}, workloads=("dqn",), memory_limit=8 * 10**9)


def test_a_device_that_drops_out_leaves_its_configurations_open_and_they_continue(
    tmp_path: Path,
) -> None:
    lost = ConnectionLostError("the board could not be reached")
    a, b = Fake("a"), Fake("b", lambda name: lost)
    watched = Watched()
    with refused("left-open", "2 of 4", f"(b 2, {lost})"):
        sweep(tmp_path, {"a": a, "b": b}, watched=watched)
    assert statuses(tmp_path) == {run("a", 1): "trained", run("a", 2): "trained"}
    assert b.done == [run("b", 1)] * 2  # at first, and once more when the others had ended
    assert_says(watched.stood["b"], "away:", "0/2")
    assert len(saying(watched.said, "away", "stay open")) == 1
    again, back = Fake("a"), Fake("b")
    sweep(tmp_path, {"a": again, "b": back})
    assert (again.done, back.done) == ([], [run("b", 1), run("b", 2)])
    assert again.closed == 0  # it was never needed
    assert len(statuses(tmp_path)) == 4


def test_a_device_that_comes_back_while_others_measure_goes_on(tmp_path: Path) -> None:
    back = threading.Event()

    def once_lost(name: str) -> WattstepError | None:
        if len(b.done) == 1:
            return ConnectionLostError("no answer")
        back.set()
        return None

    def until_back(name: str) -> None:
        assert back.wait(LONG_S)

    a, b = Fake("a", until_back), Fake("b", once_lost)
    watched = sweep(tmp_path, {"a": a, "b": b}, retry_s=0.0)
    assert b.done == [run("b", 1), run("b", 1), run("b", 2)]
    assert a.done == [run("a", 1), run("a", 2)]  # nothing of b's
    assert "b: is back" in watched.said


def test_larger_batches_are_skipped_on_the_device_that_ran_out_of_memory_only(
    tmp_path: Path,
) -> None:
    def ends(name: str) -> Outcome | None:
        one = Configuration(workload="lenet", batch_size=2, threads=1, device="a")
        return trained(one, status="out of memory") if name == run("a", 2) else None

    a, b = Fake("a", ends), Fake("b")
    sweep(tmp_path, {"a": a, "b": b}, batches=(1, 2, 4, 8))
    assert a.done == [run("a", 1), run("a", 2)]
    assert b.done == [run("b", batch) for batch in (1, 2, 4, 8)]
    found = statuses(tmp_path)
    assert [found[run("a", batch)] for batch in (4, 8)] == ["skipped", "skipped"]


def test_what_is_wrong_with_one_device_stops_that_one(tmp_path: Path) -> None:
    lacking = MissingPartError("torch is not installed on the board")
    b = Fake("b", lambda name: lacking)

    def full(name: str) -> Outcome:
        one = Configuration(workload="lenet", batch_size=1, threads=1, device="c")
        return trained(one, status="unrecorded", reason="the board's disk is full")

    fakes = {"a": Fake("a"), "b": b, "c": Fake("c", full)}
    with refused(
        "left-open",
        "4 of 6",
        "(b 2, torch",
        "c 2, ",
    ):
        sweep(tmp_path, fakes)
    assert [len(fake.done) for fake in fakes.values()] == [2, 1, 1]
    assert statuses(tmp_path) == {
        run("a", 1): "trained", run("a", 2): "trained", run("c", 1): "unrecorded",
    }  # fmt: skip


def test_another_machine_under_the_name_is_not_measured_beside_the_first(tmp_path: Path) -> None:
    sweep(tmp_path, {"a": Fake("a")}, batches=(1,))

    def other(name: str) -> Outcome:
        one = Configuration(workload="lenet", batch_size=2, threads=1, device="a")
        return trained(one, machine={"model": "another board", "cores": 2})

    with refused("left-open", "a 1", "board a", "now another board"):
        sweep(tmp_path, {"a": Fake("a", other)}, batches=(1, 2))
    assert statuses(tmp_path) == {run("a", 1): "trained"}


def test_what_brings_its_board_down_three_times_is_killed(tmp_path: Path) -> None:
    def ends(name: str) -> WattstepError | None:
        down = RecordingError(f"{RESTARTED}; nothing had been recorded")
        return down if name == run("a", 2) else None

    a = Fake("a", ends)
    sweep(tmp_path, {"a": a}, batches=(1, 2, 4))
    assert a.done == [run("a", 1), *[run("a", 2)] * 3, run("a", 4)]
    killed = read_outcomes(tmp_path, pytest.fail)[run("a", 2)]
    assert (killed.status, killed.attempts) == ("killed", 3)
    assert RESTARTED in (killed.evidence.said or "")


def test_ctrl_c_ends_what_devices_measure_and_drops_it(tmp_path: Path) -> None:
    def until_ended(name: str) -> Outcome | None:
        if name != run("b", 1):
            return None
        assert b.ended.wait(LONG_S)
        one = Configuration(workload="lenet", batch_size=1, threads=1, device="b")
        return trained(one, status="killed")

    b = Fake("b", until_ended)

    def press(device: str) -> None:
        if device == "b":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path, {"b": b}, watched=Watched(on_progress=press))
    assert b.closed == 1
    assert statuses(tmp_path) == {}
    again = Fake("b")
    sweep(tmp_path, {"b": again})
    assert again.done == [run("b", 1), run("b", 2)]


def test_ctrl_c_does_not_wait_for_a_cool_down(tmp_path: Path) -> None:
    def press(device: str) -> None:
        raise KeyboardInterrupt

    began_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path, {"a": Hot("a")}, watched=Watched(on_progress=press))
    assert time.monotonic() - began_s < MOST_S / 10
    assert statuses(tmp_path) == {}


def test_a_defect_of_a_host_ends_the_sweep_with_its_traceback(tmp_path: Path) -> None:
    def broken(name: str) -> None:
        raise ZeroDivisionError

    b = Fake("b")
    with pytest.raises(ZeroDivisionError):
        sweep(tmp_path, {"a": Fake("a", broken), "b": b})
    assert statuses(tmp_path).keys() <= {run("b", 1), run("b", 2)}


def test_no_port_is_opened_for_it(tmp_path: Path) -> None:
    def listening() -> set[Any]:
        found = psutil.Process().net_connections(kind="inet")
        return {each.laddr for each in found if each.status == psutil.CONN_LISTEN}

    seen: list[set[Any]] = []
    before = listening()
    sweep(tmp_path, {"a": Fake("a", lambda name: seen.append(listening()))}, batches=(1,))
    assert seen == [before]


def test_each_device_cools_down_to_its_own_first_temperature(tmp_path: Path) -> None:
    def warm(of: str, degrees: float) -> Ends:
        def ends(name: str) -> Outcome:
            batch = int(name.split("-")[1].removeprefix("b"))
            one = Configuration(workload="lenet", batch_size=batch, threads=1, device=of)
            return trained(one, temperature=degrees + batch, started=100.0 + batch)

        return ends

    fakes = {"a": Fake("a", warm("a", 40.0)), "b": Fake("b", warm("b", 50.0))}
    sweep(tmp_path, fakes, batches=(1, 2, 4), cooldown="auto")
    told = {key: [task.cooling() for task in fake.tasks] for key, fake in fakes.items()}
    assert told == {
        "a": [("none", None), ("auto", 41.0), ("auto", 41.0)],
        "b": [("none", None), ("auto", 51.0), ("auto", 51.0)],
    }


class Told(Connection):
    """A connection to a board that says one thing."""

    shown = "board"

    def __init__(self, output: bytes) -> None:
        self.output = output

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 60.0) -> Finished:
        return Finished(code=0, output=self.output, errors=b"")


def test_the_hottest_zone_of_a_board_is_found_by_the_rules_of_here(tmp_path: Path) -> None:
    def zone(number: int, kind: str, temperature: str) -> str:
        at = f"/sys/class/thermal/thermal_zone{number}"
        return f"\n--- {at}/type\n{kind}\n\n--- {at}/temp\n{temperature}\n"

    told = zone(0, "CPU-therm", "41500") + zone(1, "GPU-therm", "39000")
    told += zone(2, "PMIC-Die", "100000")  # on every Jetson a constant
    told += "\n--- /etc/passwd\nx\n"
    assert hottest_zone_of(Told(told.encode())) == 41.5
    assert hottest_zone_of(Told(b"")) is None


def test_an_outcome_of_a_board_does_not_name_its_user() -> None:
    one = Configuration(workload="lenet", batch_size=1, device="tx2")
    folder = "/home/alice/.cache/wattstep-board"
    outcome = trained(
        one,
        reason=f"{folder}/jobs/x cannot be written",
        evidence=Evidence(said="/home/alice/data: no", notes=("/home/alicelike stays",)),
    )
    told = nameless(outcome, folder)
    assert told.reason == "…/jobs/x cannot be written"
    assert told.evidence.said == "…/data: no"
    assert told.evidence.notes == ("/home/alicelike stays",)
    assert replace(told, reason=outcome.reason, evidence=outcome.evidence) == outcome


# --- real boards -----------------------------------------------------------------------------


@contextmanager
def held(server: Server) -> Iterator[None]:
    """The board's own lock, so that a job there waits for its turn as long as this lasts."""
    folder = server.home / ".cache/wattstep-board"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "wattstep-measuring.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_config(tmp_path: Path, a: Server, b: Server) -> Path:
    """ssh's configuration for both boards."""
    config = tmp_path / "ssh_config"
    config.write_text(
        f"Host *\nIdentityFile {a.folder}/user\nIdentityFile {b.folder}/user\n"
        "IdentitiesOnly yes\nIdentityAgent none\n"
        f"UserKnownHostsFile {a.folder}/known {b.folder}/known\n"
        "GlobalKnownHostsFile /dev/null\n"
    )
    return config


@pytest.mark.skipif(bool(MISSING), reason=WHY_NOT)
def test_two_boards_at_once_one_of_them_killed_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = plan(batches=(1,), devices=("boarda", "boardb"))
    first, second = Watched(), Watched()

    def turn(watched: Watched, targets: Mapping[str, str]) -> None:
        devices = [Device(name=name, target=target) for name, target in targets.items()]
        folder = SweepFolder(tmp_path / "swept", chosen, {"where": "a fleet"}, pytest.fail)
        try:
            sweep_fleet(devices, chosen, folder, watched)
        finally:
            folder.close()

    with serving(tmp_path / "a") as a, serving(tmp_path / "b") as b:
        monkeypatch.setenv("WATTSTEP_SSH_CONFIG", str(write_config(tmp_path, a, b)))
        # A board that is killed is soon given up in the first turn only.
        given_up = {"boarda": a.target, "boardb": f"{b.target},reconnect=1s"}

        def kill() -> None:
            # Without a holder it would pass for a job that is just beginning.
            begun = ".cache/wattstep-board/jobs/*/holder.json"
            until(lambda: b.jobs() and list(b.home.glob(begun)), 5 * LONG_S)
            b.stop()
            b.end_jobs()

        with held(b), ThreadPoolExecutor(1) as beside:
            killed = beside.submit(kill)
            with refused("left-open", "1 of 2", "(boardb 1, "):
                turn(first, given_up)
            killed.result()
        assert statuses(tmp_path / "swept") == {run("boarda", 1): "trained"}
        assert a.left() == []  # the one that goes on is left as it was
        b.start()
        turn(second, {"boarda": a.target, "boardb": b.target})
        assert not a.processes()
        assert b.jobs() == []
        assert not list(b.home.glob(".cache/wattstep-board/*")), second.said
        names = (a.target, b.target, "127.0.0.1", str(tmp_path / "a"), str(tmp_path / "b"))
    assert second.ended == [(run("boardb", 1), "trained")]
    for device in ("boarda", "boardb"):
        info = json.loads((tmp_path / "swept" / run(device, 1) / "run.json").read_text())
        assert (info["target"], info["workload"]) == ("ssh:board", "lenet")
    kept = "".join(path.read_text() for path in (tmp_path / "swept").iterdir() if path.is_file())
    told = "\n".join(first.said + second.said)
    assert not any(name in kept + told for name in names)

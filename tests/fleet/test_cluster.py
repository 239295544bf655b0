"""A sweep on a real Dask cluster of worker processes on this machine, one of them killed in the middle."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from tests.fleet.dask import LIMIT_S, scheduler, worker
from tests.fleet.made import plan
from tests.fleet.test_fleet import Watched
from tests.refusals import refused
from tests.waiting import until
from tests.wording import assert_says

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.schema.outcome import Configuration, Outcome
from wattstep.sweep.cluster import (
    ClusterHost,
    capacity_of,
    check_alike,
    connect,
    outcome_of_failure,
    sweep_cluster,
)
from wattstep.sweep.cluster_task import pack, unpack
from wattstep.sweep.folder import SweepFolder, read_outcomes
from wattstep.sweep.hosts import Task
from wattstep.sweep.outcomes import Tally
from wattstep.sweep.sweep import in_thread
from wattstep.train.child.measuring import Listener

pytest.importorskip("distributed")


def trainings_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        children = psutil.Process(process.pid).children()
        return [child for child in children if "wattstep.train.child.guard" in str(child.cmdline())]
    except psutil.Error:
        return []


def loads_torch(process: psutil.Process) -> bool:
    """Whether it is in the middle of its beginning."""
    try:
        return "libtorch" in Path(f"/proc/{process.pid}/maps").read_text()
    except OSError:
        return False


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Address, and two workers that stand for boards of one kind, one of another."""
    with scheduler(tmp_path) as (address, parts):
        parts += [worker(tmp_path, f"tx2-{number}", "device_tx2") for number in range(2)]
        parts += [worker(tmp_path, "pi", "device_pi")]
        with connect(address) as client:
            until(lambda: capacity_of(client) == {"tx2": 2, "pi": 1}, LIMIT_S)
        yield address, parts


def test_a_lost_worker_is_made_up_for_and_a_device_measures_one_at_a_time(
    tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    address, (first, second, other) = cluster
    command = [
        sys.executable, "-m", "wattstep", "sweep", "--scheduler", address, "--device", "tx2",
        "--workloads", "lenet", "--batch", "1,2", "--threads", "1", "--steps", "2",
        "--warmup", "1", "--cooldown", "none", "--out", "swept",
    ]  # fmt: skip
    swept = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    most = 0

    def one_trains() -> tuple[int, list[psutil.Process]] | None:
        """Worker and trainings of whichever is in the middle of one."""
        nonlocal most
        trainings = {worker.pid: trainings_of(worker) for worker in (first, second)}
        most = max(most, sum(map(len, trainings.values())))
        return next((each for each in trainings.items() if any(map(loads_torch, each[1]))), None)

    try:
        worker, training = until(one_trains, 2 * LIMIT_S)
        os.kill(worker, signal.SIGKILL)
        _, alive = psutil.wait_procs(training, timeout=LIMIT_S)
        printed, errors = swept.communicate(timeout=4 * LIMIT_S)  # of three trainings
    finally:
        swept.kill()
    assert swept.returncode == 0, errors
    assert not alive  # a training never goes on beside the one that replaces it
    # What it had begun lies among its own files, which the next worker of that folder clears away.
    assert list((tmp_path / "space").glob("*/worker-*/wattstep-*"))
    assert most == 1  # both stand on this machine, and would disturb each other
    assert not trainings_of(other)
    outcomes = read_outcomes(tmp_path / "swept", pytest.fail)
    assert sorted(outcomes) == [f"lenet-b{batch}-t1-fp32-tx2-r1" for batch in (1, 2)]
    assert {one.status for one in outcomes.values()} == {"trained"}
    assert sorted(one.attempts for one in outcomes.values()) == [1, 2]
    assert 1 <= len({one.worker for one in outcomes.values()}) <= 2
    times = sorted((one.started, one.ended) for one in outcomes.values())
    assert all(before[1] <= after[0] for before, after in pairwise(times))
    for name, one in outcomes.items():
        assert (tmp_path / "swept" / name / "run.json").exists()
        assert 1000 < (one.transferred or 0) < 5e6
        assert one.machine["cores"] == len(os.sched_getaffinity(0))
        assert {"wattstep", "torch", "python", "numpy", "kernel"} <= set(one.versions)
    assert "successful training?" in printed


def test_a_worker_within_this_process_measures_and_hands_over_its_run(tmp_path: Path) -> None:
    from distributed import Client, LocalCluster

    chosen, watched = plan(batches=(1,), devices=("tx2",)), Watched()
    folder = SweepFolder(tmp_path / "swept", chosen, {"where": "a cluster"}, pytest.fail)
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, resources={"device_tx2": 1},
            dashboard_address="127.0.0.1:0", local_directory=str(tmp_path / "dask"),
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        sweep_cluster(client, chosen, folder, watched)
    folder.close()
    (outcome,) = read_outcomes(tmp_path / "swept", pytest.fail).values()
    assert (outcome.status, outcome.attempts, outcome.configuration.device) == ("trained", 1, "tx2")
    assert watched.stood == {"tx2": "done 1/1"}
    assert (tmp_path / "swept" / outcome.configuration.name / "run.json").exists()
    assert 1000 < (outcome.transferred or 0) < 5e6


def test_labels_are_asked_for_where_they_are_not_clear_and_refused_where_nobody_has_them(
    tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    address, _ = cluster
    command = [sys.executable, "-m", "wattstep", "sweep", "--scheduler", address]
    until(lambda: "pi, tx2" in run(command, tmp_path), LIMIT_S)
    assert "give --device: pi, tx2" in run(command, tmp_path)
    said = run([*command, "--device", "nano"], tmp_path)
    assert_says(said, "no worker", "pi, tx2")
    two = worker(tmp_path, "wide", "device_tx2", amount=2)
    try:
        until(
            lambda: "device_tx2=2: a device measures one at a time" in run(command, tmp_path),
            LIMIT_S,
        )
    finally:
        two.kill()
        two.wait()


def run(command: list[str], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    assert done.returncode == 2
    return done.stderr


def test_what_is_lost_again_and_again_was_killed() -> None:
    from distributed.scheduler import KilledWorker

    last = SimpleNamespace(address="tcp://127.0.0.1:1")
    lost = KilledWorker("task", last_worker=last, allowed_failures=3)
    one = Configuration(workload="lenet", batch_size=1, device="tx2")
    outcome = outcome_of_failure(one, lost, attempts=4)
    assert (outcome.status, outcome.attempts) == ("killed", 4)
    assert_says(outcome.reason, "workers were lost")
    assert outcome_of_failure(one, KeyError("x"), 1).status == "crashed"
    assert outcome_of_failure(one, InvalidValueError("no"), 1).status == "refused"
    for no_disk in (RecordingError("no"), OSError(errno.ENOSPC, "full")):
        assert not outcome_of_failure(one, no_disk, 1).final


def test_two_boards_that_differ_are_not_measured_under_one_label() -> None:
    tx2 = {"model": "Jetson TX2", "cpu": "A57", "cores": 6, "memory": 8_000_000_000}
    first: dict[str | None, Mapping[str, Any]] = {"tx2": tx2}
    check_alike(first, "tx2", "tcp://b:1", {**tx2, "memory": 7_950_000_000})  # another kernel
    check_alike(first, "nano", "tcp://c:1", {**tx2, "model": "Jetson Nano"})
    with refused("another-machine", "Jetson TX2, A57,", "now Jetson Nano"):
        check_alike(first, "tx2", "tcp://c:1", {**tx2, "model": "Jetson Nano"})
    with refused("another-machine", "8 GiB", "4 GiB"):
        check_alike(first, "tx2", "tcp://c:1", {**tx2, "memory": 4_000_000_000})
    with refused("another-machine", "Jetson Nano, A57,", "now Jetson TX2"):
        check_alike(first, "nano", "tcp://b:1", tx2)


def test_each_board_cools_down_to_its_own_first_temperature() -> None:
    def at(worker: str, batch: int, started: float, temperature: float) -> Outcome:
        one = Configuration(workload="lenet", batch_size=batch, device="tx2")
        return Outcome(
            configuration=one,
            status="trained",
            started=started,
            temperature=temperature,
            worker=worker,
        )

    told = [at("tcp://a:1", 1, 0, 40.0), at("tcp://b:1", 2, 1, 55.0), at("tcp://a:9", 4, 2, 48.0)]
    assert Tally(told).baselines == {
        "a": 40.0,
        "b": 55.0,
    }  # a worker that came back has another port


def test_a_run_comes_over_the_network_as_it_is_and_nothing_else_does(tmp_path: Path) -> None:
    (tmp_path / "there/name").mkdir(parents=True)
    (tmp_path / "there/name/run.json").write_text("{}")
    (tmp_path / "here").mkdir()
    unpack(pack(tmp_path / "there"), tmp_path / "here/name")
    assert (tmp_path / "here/name/run.json").read_text() == "{}"
    (tmp_path / "there/other").write_text("x")
    with refused("not-asked-for", "name"):
        unpack(pack(tmp_path / "there"), tmp_path / "here/name")


def test_an_address_where_nobody_answers_is_refused() -> None:
    with refused("no-scheduler"):
        connect("tcp://127.0.0.1:9", timeout_s=1.0)


class Scheduled:
    """A client of a cluster of which a test says how many workers there are, and how a task ends."""

    def __init__(self, workers: int, *states: str) -> None:
        self.there, self.states = workers, iter(states)
        self.futures: list[Any] = []

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        worker = {"resources": {"device_tx2": 1, "memory": 5}}
        return {"workers": {f"tcp://{number}:1": worker for number in range(self.there)}}

    def submit(self, work: Any, task: Task, said: str, *, key: str, **options: Any) -> Any:
        assert options["resources"] == {"device_tx2": 1}
        assert said == key
        assert task.settings.out == ""  # which only this machine has
        future = SimpleNamespace(status=next(self.states), key=key)
        future.cancel = lambda: setattr(future, "status", "cancelled by us")
        future.exception = lambda: KeyError("x")
        self.futures.append(future)
        return future

    def get_events(self, topic: str) -> list[tuple[float, dict[str, str]]]:
        return [(0.0, {"key": future.key}) for future in self.futures]


def begun(tmp_path: Path, client: Scheduled, patience_s: float = 600.0) -> tuple[Any, ClusterHost]:
    """A measurement on a label, in a thread of its own."""
    one = Configuration(workload="lenet", batch_size=1, device="tx2")
    settings = replace(plan().settings, out=str(tmp_path / one.name))
    task = Task(
        configuration=one, settings=settings, memory_limit=None, cooldown="none", baselines={}
    )
    host = ClusterHost("tx2", client, patience_s=patience_s)
    quiet = Listener(on_progress=lambda progress: None, on_warning=pytest.fail)
    return in_thread(lambda: host.measure(task, quiet)), host


def test_a_label_has_room_for_as_many_as_it_has_workers_and_waits_without_any() -> None:
    assert ClusterHost("tx2", Scheduled(3)).room() == 3
    assert ClusterHost("nano", Scheduled(3)).room() == 1


def test_a_label_that_has_no_worker_for_long_is_given_up(tmp_path: Path) -> None:
    client = Scheduled(0, "pending")
    measuring, _ = begun(tmp_path, client, patience_s=0.0)
    with refused("no-worker", "device_tx2"):
        measuring.result(LIMIT_S)
    assert client.futures[0].status == "cancelled by us"


def test_what_a_scheduler_forgot_is_given_to_it_again(tmp_path: Path) -> None:
    client = Scheduled(1, "lost", "cancelled", "error")
    outcome = begun(tmp_path, client)[0].result(LIMIT_S)
    assert (outcome.status, outcome.attempts) == ("crashed", 1)
    assert len({future.key for future in client.futures}) == 3


def test_after_ctrl_c_nothing_is_waited_for(tmp_path: Path) -> None:
    client = Scheduled(1, "pending")
    measuring, host = begun(tmp_path, client)
    host.end()
    with pytest.raises(KeyboardInterrupt):
        measuring.result(LIMIT_S)
    assert client.futures[0].status == "cancelled by us"

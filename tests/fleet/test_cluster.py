"""A sweep on a real Dask cluster of worker processes on this machine, one of them killed in the middle."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from tests.waiting import until

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.fleet.cluster import baselines, outcome_of_failure
from wattstep.fleet.cluster_task import pack, unpack
from wattstep.fleet.folder import read_outcomes
from wattstep.fleet.outcome import Configuration, Outcome
from wattstep.fleet.workers import Alike, connect

pytest.importorskip("distributed")

LIMIT_S = 150.0


def dask(*arguments: str, cwd: Path) -> subprocess.Popen[bytes]:
    """A part of the cluster in a process of its own."""
    command = [sys.executable, "-m", "dask", *arguments]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def worker(cwd: Path, name: str, label: str, amount: int = 1) -> subprocess.Popen[bytes]:
    return dask(
        "worker", "--scheduler-file", "scheduler.json", "--nthreads", "1", "--no-nanny",
        "--no-dashboard", "--name", name, "--resources", f"{label}={amount}", cwd=cwd,
    )  # fmt: skip


def trainings_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        children = psutil.Process(process.pid).children()
        return [child for child in children if "wattstep.fleet.guard" in str(child.cmdline())]
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
    parts = [
        dask(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
            "--scheduler-file", "scheduler.json", cwd=tmp_path,
        )
    ]  # fmt: skip
    file = tmp_path / "scheduler.json"
    until(lambda: file.exists() and file.read_text().rstrip().endswith("}"), LIMIT_S)
    parts += [worker(tmp_path, f"tx2-{number}", "device_tx2") for number in range(2)]
    parts += [worker(tmp_path, "pi", "device_pi")]

    yield json.loads(file.read_text())["address"], parts[1:]
    for part in reversed(parts):
        part.kill()
        part.wait()


@pytest.mark.slow
def test_a_lost_worker_is_made_up_for_and_a_device_measures_one_at_a_time(
    tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    address, (first, second, other) = cluster
    command = [
        sys.executable, "-m", "wattstep", "sweep", "--scheduler", address, "--device", "tx2",
        "--workloads", "lenet", "--batch", "1,2", "--threads", "1,2", "--steps", "2",
        "--warmup", "1", "--cooldown", "none", "--out", "swept",
    ]  # fmt: skip
    swept = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    most = 0

    def one_trains() -> list[psutil.Process]:
        nonlocal most
        training = trainings_of(first)
        most = max(most, len(training) + len(trainings_of(second)))
        return training

    try:
        training = until(one_trains, LIMIT_S)
        until(lambda: one_trains() and any(map(loads_torch, training)), LIMIT_S)
        os.kill(first.pid, signal.SIGKILL)
        _, alive = psutil.wait_procs(training, timeout=20)
        printed, errors = swept.communicate(timeout=LIMIT_S)
    finally:
        swept.kill()
    assert swept.returncode == 0, errors
    assert not alive  # a training never goes on beside the one that replaces it
    assert most == 1  # both stand on this machine, and would disturb each other
    assert not trainings_of(other)
    outcomes = read_outcomes(tmp_path / "swept", pytest.fail)
    assert sorted(outcomes) == [
        f"lenet-b{batch}-t{threads}-fp32-tx2-r1" for batch in (1, 2) for threads in (1, 2)
    ]
    assert {one.status for one in outcomes.values()} == {"trained"}
    assert sorted(one.attempts for one in outcomes.values()) == [1, 1, 1, 2]
    assert 1 <= len({one.worker for one in outcomes.values()}) <= 2
    times = sorted((one.started, one.ended) for one in outcomes.values())
    assert all(before[1] <= after[0] for before, after in pairwise(times))
    for name, one in outcomes.items():
        assert (tmp_path / "swept" / name / "run.json").exists()
        assert 1000 < (one.transferred or 0) < 5e6
        assert one.machine["cores"] == len(os.sched_getaffinity(0))
        assert set(one.versions) == {"wattstep", "torch"}
    assert "successful training?" in printed


def test_labels_are_asked_for_where_they_are_not_clear_and_refused_where_nobody_has_them(
    tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    address, _ = cluster
    command = [sys.executable, "-m", "wattstep", "sweep", "--scheduler", address]
    until(lambda: "pi, tx2" in run(command, tmp_path), LIMIT_S)
    assert "give --device: pi, tx2" in run(command, tmp_path)
    said = run([*command, "--device", "nano"], tmp_path)
    assert "no worker carries this label (there are: pi, tx2)" in said
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
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    return done.stderr


def test_what_is_lost_again_and_again_was_killed() -> None:
    from distributed.scheduler import KilledWorker

    last = SimpleNamespace(address="tcp://127.0.0.1:1")
    lost = KilledWorker("task", last_worker=last, allowed_failures=3)
    one = Configuration(workload="lenet", batch_size=1, device="tx2")
    outcome = outcome_of_failure(one, lost, attempts=4)
    assert (outcome.status, outcome.attempts) == ("killed", 4)
    assert outcome.reason == "its workers were lost, again and again"
    assert outcome_of_failure(one, KeyError("x"), 1).status == "crashed"
    assert outcome_of_failure(one, InvalidValueError("no"), 1).status == "refused"
    for no_disk in (RecordingError("no"), OSError(errno.ENOSPC, "full")):
        assert not outcome_of_failure(one, no_disk, 1).final


def test_two_boards_that_differ_are_not_measured_under_one_label() -> None:
    tx2 = {"model": "Jetson TX2", "cpu": "A57", "cores": 6, "memory": 8_000_000_000}
    before = Outcome(
        configuration=Configuration(workload="lenet", batch_size=1, device="tx2"),
        status="trained",
        machine=tx2,
    )
    alike = Alike([before])
    alike.check("tx2", "tcp://b:1", {**tx2, "memory": 7_950_000_000})  # another kernel
    alike.check("nano", "tcp://c:1", {**tx2, "model": "Jetson Nano"})
    with pytest.raises(InvalidValueError, match="model was Jetson TX2, now Jetson Nano"):
        alike.check("tx2", "tcp://c:1", {**tx2, "model": "Jetson Nano"})
    with pytest.raises(InvalidValueError, match="memory was 8000000000, now 4000000000"):
        alike.check("tx2", "tcp://c:1", {**tx2, "memory": 4_000_000_000})


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
    assert baselines(told) == {"a": 40.0, "b": 55.0}  # a worker that came back has another port


def test_a_run_comes_over_the_network_as_it_is_and_nothing_else_does(tmp_path: Path) -> None:
    (tmp_path / "there/name").mkdir(parents=True)
    (tmp_path / "there/name/run.json").write_text("{}")
    (tmp_path / "here").mkdir()
    unpack(pack(tmp_path / "there"), tmp_path / "here/name")
    assert (tmp_path / "here/name/run.json").read_text() == "{}"
    (tmp_path / "there/other").write_text("x")
    with pytest.raises(RecordingError, match="no part of name"):
        unpack(pack(tmp_path / "there"), tmp_path / "here/name")


def test_an_address_where_nobody_answers_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="no scheduler answers there"):
        connect("tcp://127.0.0.1:9", timeout_s=1.0)

"""Faults of servers, sweeps, and of what runs on other machines: boards, phones, workers."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

from tests.faults.foreign import unclosed_run
from tests.fleet.dask import scheduler, worker
from tests.fleet.made import plan
from tests.fleet.phone.made import adb_server, connected
from tests.fleet.phone.test_faults import KILLED, marks
from tests.fleet.remote.server import children, comm, serving
from tests.fleet.test_fleet import Watched
from tests.torture.promises import Told, expect, look, wait_for
from tests.waiting import PATIENCE_S

import wattstep
from wattstep.errors import RecordingError
from wattstep.remote.ssh import ConnectionLostError
from wattstep.schema.journal import Mark
from wattstep.schema.outcome import Outcome
from wattstep.sweep.cluster import capacity_of, connect
from wattstep.sweep.folder import OUTCOMES, SweepFolder
from wattstep.sweep.hosts import Task
from wattstep.sweep.sweep import sweep_on
from wattstep.train.child.measuring import Listener

PYTHON: Final = (sys.executable, "-m", "wattstep")
LONG_S: Final = 600.0  # for trainings that begin again
MOST_TURNS: Final = 5  # of a sweep that goes on where a worker was killed at its very end


def kill(pids: list[int]) -> None:
    """`kill -9` of those that still live."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def started_server(store: Path) -> subprocess.Popen[str]:
    """A server of a store, on a port that it tells."""
    return subprocess.Popen(
        [*PYTHON, "serve", str(store), "--port", "0", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def told_by(server: subprocess.Popen[str]) -> dict[str, Any]:
    """What a server says of itself when it listens."""
    assert server.stdout is not None
    text = ""
    while not text.endswith("}\n") and (line := server.stdout.readline()):
        text += line
    told: dict[str, Any] = json.loads(text)
    return told


def kill_server(rng: random.Random, folder: Path) -> Told:
    """`kill -9` of a server at work leaves no child, and the store as it was."""
    unclosed_run(folder / "runs" / "one")
    wattstep.load(folder / "runs" / "one")
    child = started_server(folder / "runs")
    try:
        port = told_by(child)["port"]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as asked:
            asked.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            time.sleep(rng.uniform(0.0, 1.5))
    finally:
        child.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM]))
        child.communicate()
    return look(folder / "runs" / "one")


def kill_server_child(rng: random.Random, folder: Path) -> Told:
    """`kill -9` of a server's child at work: the server goes on, says it in one line, and shows the page after."""
    store = folder / "runs"
    unclosed_run(store / "one")
    wattstep.load(store / "one")
    server = started_server(store)
    try:
        url = told_by(server)["url"].rstrip("/")
        (listed,) = json.loads(asked(url, "/api/runs")[1])["runs"]
        page = f"/runs/{listed['id']}"
        asked(url, page)
        time.sleep(rng.uniform(0.0, 1.0))
        children = Path(f"/proc/{server.pid}/task").glob("*/children")
        pids = [int(pid) for each in children for pid in each.read_text().split()]
        kill(pids[: rng.randint(1, 2)])
        status = asked(url, "/")[0]
        expect(status == 200, f"the list has status {status}")

        def shown() -> bool:
            status = asked(url, page)[0]
            expect(status in (200, 202, 422), f"the page has status {status}")
            return status == 200

        wait_for(shown, "the page of the run does not come again")
    finally:
        server.terminate()
        server.communicate()
    return look(store / "one")


def asked(url: str, page: str) -> tuple[int, str]:
    """Status and text of a page."""
    try:
        with urllib.request.urlopen(f"{url}{page}", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def kill_sweep(rng: random.Random, folder: Path) -> Told:
    """`kill -9` of a sweep at any moment; the same command again finishes it, each configuration once."""
    words = [
        *PYTHON, "sweep", "--workloads", "lenet", "--batch", "1,2", "--threads", "1", "--steps", "6",
        "--trace", "none", "--out", str(folder / "sweep"), "--quiet",
    ]  # fmt: skip
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(rng.uniform(0.5, 25.0))
    child.kill()
    child.wait()
    again = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    expect(again.returncode == 0, f"again: {again.stderr[-200:]}")
    return swept_once(folder / "sweep")


def swept_once(path: Path) -> Told:
    """Each of a sweep's two configurations was trained and is written down once, and its run opens."""
    lines = [json.loads(line) for line in (path / OUTCOMES).read_text().splitlines()]
    trained = sorted(line["name"] for line in lines if line["status"] == "trained")
    expect(len(trained) == len(set(trained)) == 2, f"configurations: {trained}")
    return [look(path / name) for name in trained][-1]


# --- other machines -------------------------------------------------------------------------------


def cut_ssh(rng: random.Random, folder: Path) -> Told:
    """Connections to a board end at random moments, here or there: it trains on, and nothing stays there.

    What is cut before a training began may be refused.
    """
    with serving(folder / "board") as server:
        words = [
            *PYTHON, "run", "lenet", "--target", server.target, "--steps", "40", "--warmup", "1",
            "--trace", "none", "--out", str(folder), "--name", "run",
        ]  # fmt: skip
        environment = {**os.environ, "WATTSTEP_SSH_CONFIG": str(server.client_config)}
        host = subprocess.Popen(
            words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        try:
            for _ in range(rng.randint(1, 3)):
                wait_for(lambda: server.sessions() or host.poll() is not None, "it never connects")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    host.wait(rng.uniform(0.0, 15.0))
                if rng.random() < 0.5:
                    server.cut()
                else:
                    kill([pid for pid in children(host.pid) if comm(pid) == "ssh"])
            _, said = host.communicate(timeout=LONG_S)
        finally:
            host.kill()
            host.communicate()
        expect("Traceback" not in said, said[-300:])
        last = (said.splitlines() or [""])[-1]
        wait_for(lambda: not server.jobs(), "its job goes on there")
        wait_for(lambda: not server.left(), f"left there: {server.left()[:3]}; {last}")
    if host.returncode:
        expect(last.startswith("wattstep: "), f"it ended with {host.returncode}: {last}")
        expect(not (folder / "run").exists(), f"refused after it began: {last}")
        return Told(opened=False)
    told = look(folder / "run", (39, 0), samples=False)
    expect(told.lost_steps == 0, f"{told.lost_steps} steps are lost")
    return told


def cut_adb(rng: random.Random, folder: Path) -> Told:
    """adb's children are killed and the phone's cable is pulled: the command goes on, and no step is lost."""
    steps = 40
    command = f"n=0; while [ $n -lt {steps} ]; do n=$((n+1)); echo step $n; sleep 0.1; done"
    with adb_server(), connected(folder / "phone") as made:
        arguments = [made.endpoint.serial, str(made.root), str(folder / "run"), command]
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, *arguments],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            wait_for(
                lambda: Mark.STEP_END in marks(folder / "run") or child.poll() is not None,
                "no step comes",
            )
            for _ in range(rng.randint(1, 4)):
                time.sleep(rng.uniform(0.0, 1.0))
                if rng.random() < 0.3:
                    made.endpoint.unplug()
                    time.sleep(rng.uniform(0.0, 2.0))
                    made.endpoint.plug()
                else:
                    kill([pid for pid in children(child.pid) if comm(pid) == "adb"])
            _, said = child.communicate(timeout=LONG_S)
        finally:
            child.kill()
            child.communicate()
        expect(child.returncode == 0, f"it ended with {child.returncode}: {said[-300:]}")
        wait_for(made.is_clean, "something is left on the phone")
    told = look(folder / "run", (steps - 1, 0), samples=False)
    expect(told.lost_steps == 0, f"{told.lost_steps} steps are lost")
    return told


def kill_dask(rng: random.Random, folder: Path) -> Told:
    """Dask workers are killed at random moments of a sweep, up to twice, and others come: it completes."""
    words = [
        *PYTHON, "sweep", "--device", "tx2", "--workloads", "lenet", "--batch", "1,2",
        "--threads", "1", "--steps", "6", "--trace", "none", "--cooldown", "none",
        "--out", str(folder / "sweep"), "--quiet",
    ]  # fmt: skip
    with scheduler(folder) as (address, workers):
        workers += [worker(folder, str(number), "device_tx2") for number in range(2)]
        with connect(address) as client:
            wait_for(lambda: capacity_of(client) == {"tx2": 2}, "the workers do not come")
            swept = subprocess.Popen(
                [*words, "--scheduler", address],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            try:
                for number in range(rng.randint(1, 2)):
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        swept.wait(rng.uniform(0.5, 20.0))
                    one = workers.pop(rng.randrange(2))
                    kill([one.pid])
                    one.wait()
                    workers.append(worker(folder, str(2 + number), "device_tx2"))
                _, said = swept.communicate(timeout=LONG_S)
            finally:
                swept.kill()
                swept.communicate()
            expect(swept.returncode == 0, f"it ended with {swept.returncode}: {said[-300:]}")
            wait_for(lambda: capacity_of(client) == {"tx2": 2}, "the last worker does not come")
            kept = [each for each in (folder / "space").glob("*/worker-*") if each.is_dir()]
            expect(len(kept) == 2, f"left of workers that were killed: {kept}")
    return swept_once(folder / "sweep")


class Mortal:
    """A worker whose measurements are processes of this machine, which may be killed."""

    look_every_s = None

    def __init__(self, name: str, rng: random.Random) -> None:
        self.name, self._rng = name, rng
        self.killed = 0

    def room(self) -> int:
        return 1

    def measure(self, task: Task, listener: Listener) -> Outcome:
        lasts_s, lives_s = self._rng.uniform(0.0, 0.02), self._rng.expovariate(2.0)
        began = time.time()
        child = subprocess.Popen(["sleep", f"{lasts_s:.3f}"])
        try:
            code = child.wait(lives_s)
        except subprocess.TimeoutExpired:
            child.kill()
            code = child.wait()
        if code:
            self.killed += 1
            raise ConnectionLostError(f"{self.name} was killed")
        return Outcome(
            configuration=task.configuration, status="trained", started=began, ended=time.time()
        )

    def end(self) -> None:
        """What it measures ends by itself."""

    def close(self) -> None:
        """It has nothing open."""


def kill_workers(rng: random.Random, folder: Path) -> Told:
    """800 configurations over four workers, one of which is killed each half second: each is there once."""
    names = ("a", "b", "c", "d")
    chosen = plan(batches=tuple(range(1, 51)), threads=(1, 2), repeats=2, devices=names)
    workers = [Mortal(name, random.Random(rng.random())) for name in names]
    swept = SweepFolder(folder / "sweep", chosen, {"where": "torture"}, print)
    try:
        for _ in range(MOST_TURNS):
            try:
                sweep_on(lambda _: workers, chosen, swept, Watched(), retry_s=0.1)
                break
            except RecordingError as error:  # killed once more when the others had ended
                expect("the same command continues" in str(error), str(error))
    finally:
        swept.close()
    lines = (folder / "sweep" / OUTCOMES).read_text().splitlines()
    written = sorted(json.loads(line)["name"] for line in lines)
    asked = sorted(each.name for each in chosen.configurations())
    expect(written == asked, f"{len(written)} outcomes, {len(set(written))} of {len(asked)} names")
    expect(any(each.killed for each in workers), "no worker was killed")
    return Told(opened=True)

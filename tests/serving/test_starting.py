"""How the server starts, says where it is, refuses to start, and ends."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest
from tests.comparison.made import recorded
from tests.refusals import id_in
from tests.serving.served import STARTS_S, serving
from tests.waiting import until
from tests.wording import assert_says

COMMAND = [sys.executable, "-m", "wattstep", "serve"]


def refusal(*arguments: str) -> tuple[str, str]:
    """Id and line of the command that cannot start."""
    ended = subprocess.run(
        [*COMMAND, *arguments, "--json"], capture_output=True, text=True, timeout=STARTS_S
    )
    assert ended.returncode == 2, ended
    assert ended.stderr.count("\n") == 1, ended.stderr
    return id_in(ended.stdout), ended.stderr


def test_a_port_that_is_taken_is_named_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        id, line = refusal(str(tmp_path), "--port", str(port))
    assert id == "port-taken"
    assert f"port {port} " in line
    assert "--port 0" in line


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    recorded(tmp_path / "run")
    assert refusal(str(tmp_path / "nothing"))[0] == "no-such-folder"
    assert refusal(str(tmp_path / "run"))[0] == "run-as-folder"
    assert "--host" in refusal(str(tmp_path), "--host", "no.such.host.invalid", "--port", "0")[1]


def test_the_document_says_where_it_is_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    with serving(tmp_path, tmp_path) as server:
        assert server.get("/").status == 200
        assert "no run in" in server.get("/").text
        server.child.send_signal(signal.SIGINT)
        rest = server.child.communicate(timeout=STARTS_S)[0]
    assert server.child.returncode == 130  # as every command of ours
    assert rest == ""  # one document and nothing else
    assert "Traceback" not in server.errors.read_text()


def test_without_json_the_address_is_printed(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [*COMMAND, str(tmp_path), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline().startswith(f"{tmp_path}: http://127.0.0.1:")
    child.terminate()
    child.communicate(timeout=STARTS_S)
    assert child.returncode == -signal.SIGTERM


def test_without_the_extra_the_command_names_it(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['starlette'] = None; sys.argv = ['wattstep', 'serve', sys.argv[1]]\n"
        "from wattstep.cli import run_command_line; raise SystemExit(run_command_line())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=STARTS_S,
    )
    assert ended.returncode == 2
    assert 'pip install "wattstep[serve]"' in ended.stderr


def test_a_child_that_ends_over_a_run_is_that_run_s_failure_alone() -> None:
    from wattstep.serve.jobs import Worker
    from wattstep.serve.task import Task

    worker = Worker()
    assert "no such run" in worker.do(Task(task="figures", paths=["/nothing"])).error
    child = worker._child
    assert child is not None
    child.kill()
    child.wait()
    assert "no such run" in worker.do(Task(task="figures", paths=["/nothing"])).error
    worker.kill()
    worker.end()


def test_a_child_that_is_killed_at_work_is_told(tmp_path: Path) -> None:
    from wattstep.serve.jobs import Worker
    from wattstep.serve.task import Task

    worker = Worker()
    worker.do(Task(task="figures", paths=["/nothing"]))
    child = worker._child
    assert child is not None
    assert child.stdin is not None
    child.send_signal(signal.SIGSTOP)  # it stays at work for as long as it takes to kill it
    stopped = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
    until(lambda: os.waitid(os.P_PID, child.pid, stopped))  # till then it may still read
    ended: list[str] = []
    task = Task(task="figures", paths=[str(tmp_path)])
    asking = threading.Thread(target=lambda: ended.append(worker.do(task).error))
    asking.start()
    pipe = child.stdin.fileno()
    until(lambda: any(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))))  # it was asked
    child.kill()
    asking.join()
    (reason,) = ended
    assert_says(reason, "was killed", "memory")
    worker.kill()
    worker.end()


def test_what_is_kept_stays_small_and_goes_with_its_run(tmp_path: Path) -> None:
    import os

    from wattstep.serve.cache import Cache

    cache = Cache(tmp_path / "kept", most_bytes=1000)
    for number in range(10):
        path = cache.folder / f"run{number}-report-x"
        path.write_bytes(b"x" * 300)
        os.utime(path, (number, number))
    assert cache.find(cache.folder / "run0-report-x") == b"x" * 300  # it was used just now
    cache.shrink()
    assert sorted(path.name[:4] for path in cache.folder.iterdir()) == ["run0", "run8", "run9"]
    (cache.folder / "several-report-x").write_text("{}")
    cache.forget("run8")
    assert sorted(path.name[:4] for path in cache.folder.iterdir()) == ["run0", "run9"]


def test_pages_are_kept_elsewhere_where_the_cache_cannot_be_written(tmp_path: Path) -> None:
    from wattstep.serve.cache import Cache

    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "kept")
    cache.keep(cache.folder / "a", {"b": 1})
    assert json.loads(cache.find(cache.folder / "a") or b"") == {"b": 1}
    cache.close()
    assert not cache.folder.exists()


@pytest.mark.parametrize(
    "task", ["figures", "document", "report", "compare", "sweep", "daily", "recover"]
)
def test_no_task_fails_with_more_than_a_sentence(tmp_path: Path, task: str) -> None:
    from wattstep.serve.worker import answer

    for paths in ([str(tmp_path)], [str(tmp_path / "nothing")]):
        asked = {"task": task, "paths": paths, "output": str(tmp_path / "out"), "left_out": [],
                 "across": [], "by": "run", "as_json": False}  # fmt: skip
        found = answer(asked)
        assert set(found) == {"error"}
        assert "\n" not in found["error"]

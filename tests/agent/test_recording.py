"""The agent under real old Pythons: marks, samples, kills, full disks, and the run that comes of it."""

from __future__ import annotations

import ast
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.agent.boards import agent_for_here, agent_in, agent_json, python, run_in
from tests.refusals import refused
from tests.waiting import PATIENCE_S, gone, until
from tests.wording import saying

import wattstep
from wattstep.errors import DamagedRunError, RunExistsError
from wattstep.remote.agent.joining import join
from wattstep.remote.agent.making import bare_agent
from wattstep.train.environment.canary import PLAIN_FILE

OLD = ["3.6", "3.7", "3.8", "3.9"]
MARKED = """
import json, struct, time
import wattstep_agent

log = []
with wattstep_agent.Recorder("out", interval="5ms", warmup=2) as recorder:
    for number in range(40):
        before = wattstep_agent.time.perf_counter_ns()
        with recorder.step(samples=8) as step:
            inside = wattstep_agent.time.perf_counter_ns()
            recorder.phase("forward")
            end = time.process_time() + 0.002
            while time.process_time() < end:
                pass
            recorder.phase("backward")
            step.loss = 1.0 / (number + 1)
            done = wattstep_agent.time.perf_counter_ns()
        log.append([before, inside, done, wattstep_agent.time.perf_counter_ns()])
    cpu = time.process_time()
    time.sleep(0.001)  # off its core: the scheduler's account is up to date
    at = wattstep_agent.time.perf_counter_ns()
    path = THREADS
    row = struct.Struct("<qqq")
    give_up = time.monotonic() + 110
    while True:  # until the sampler has looked once more
        with open(path, "rb") as file:
            data = file.read()
        rows = [row.unpack_from(data, n) for n in range(0, len(data) - row.size + 1, row.size)]
        later = [value for t_ns, error, value in rows if t_ns > at]
        if later or time.monotonic() > give_up:
            break
        time.sleep(0.02)
json.dump({"steps": log, "cpu": cpu, "sampled": later[0] * 1e-9, "end": time.process_time()}, open("log.json", "w"))
"""


def threads_journal() -> str:
    """Of the read that gives the CPU time of all threads, in the plan of this machine."""
    plan = json.loads(
        "".join(
            ast.literal_eval(line.strip())
            for line in agent_for_here()
            .partition("\nPLAN = (\n")[2]
            .partition("\n)\n")[0]
            .splitlines()
        )
    )
    (number,) = [n for n, entry in enumerate(plan["entries"]) if entry["parser"] == "threads"]
    return f"out/journal/samples-{number:02d}.bin"


def recorded(folder: Path, interpreter: str, script: str) -> None:
    """Runs a script beside the agent, to a good end."""
    agent_in(folder)
    (folder / "script.py").write_text(script)
    done = run_in(folder, interpreter, "script.py")
    assert done.returncode == 0, done.stderr


# --- the file ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [bare_agent(), agent_for_here(), PLAIN_FILE.read_text()],
    ids=["bare", "made", "canary"],
)
def test_its_syntax_is_that_of_python_3_6_and_it_needs_the_standard_library_alone(
    text: str,
) -> None:
    tree = ast.parse(text, feature_version=(3, 6))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    }
    assert imported <= sys.stdlib_module_names


def test_without_a_plan_it_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('ran')")
    (tmp_path / "bare.py").write_text(bare_agent())
    done = run_in(tmp_path, sys.executable, "bare.py", "run", "script.py")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "wattstep agent --look look.json" in done.stderr
    assert "ran" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "usage"),
        (["run"], "which script"),
        (["run", "--every", "0", "script.py"], "one clean step"),
        (["run", "--every", "many", "script.py"], "whole number"),
        (["run", "--interval", "0.1ms", "script.py"], "1ms is the finest"),
        (["run", "--trace", "all", "script.py"], "auto, none, layers"),
        (["run", "--warmup", "-1", "script.py"], "negative"),
        (["run", "--colour", "red", "script.py"], "--colour is no option"),
        (["run", "nowhere.py"], "no such script"),
        (["run", "--out", "taken", "script.py"], "choose another folder"),
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    agent_in(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "script.py").write_text("")
    done = run_in(tmp_path, python("3.6"), "wattstep_agent.py", *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


# --- steps and samples ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", OLD)
def test_marked_steps_become_a_run_with_the_times_of_the_script_s_own_clock(
    tmp_path: Path, version: str
) -> None:
    recorded(tmp_path, python(version), MARKED.replace("THREADS", repr(threads_journal())))
    log = json.loads((tmp_path / "log.json").read_text())
    run = wattstep.load(join(tmp_path / "out", tmp_path / "run"))
    steps = pq.read_table(tmp_path / "run" / "steps.parquet").to_pydict()
    assert steps["index"] == list(range(40))
    assert steps["warmup"] == [True] * 2 + [False] * 38
    for (before, inside, done, after), start, end in zip(
        log["steps"], steps["start_ns"], steps["end_ns"], strict=True
    ):
        assert before <= start <= inside < done <= end <= after
    assert steps["loss"] == pytest.approx([1 / (n + 1) for n in range(40)])
    assert set(steps["samples"]) == {8.0}
    # Steps of 2 ms carry marks of phases now and then, three in a row, as under any recorder.
    names = [tuple(names) for names in steps["mark_name"]]
    assert names[:3] == [("forward", "backward")] * 3
    assert set(names) <= {("forward", "backward"), ()}
    # By the script's own clock, within what its calls enclose.
    least = sum(done - inside for _, inside, done, _ in log["steps"][2:]) / 38e9
    most = sum(after - before for before, _, _, after in log["steps"][2:]) / 38e9
    assert least <= run.metrics()["step_time"].value <= most
    # CPU time: sampled by the scheduler's account, and by the process's own clock at each step.
    assert log["cpu"] - 1e-3 <= log["sampled"] <= log["end"] + 1e-3
    # Of short steps it is read every 10 ms; one that follows another has none at its begin.
    read = [(i, cpu) for i, cpu in enumerate(steps["cpu_end_ns"]) if cpu is not None]
    used = np.diff([cpu for _, cpu in read])
    count = np.diff([i for i, _ in read])
    assert len(read) >= 6
    assert (used >= 2_000_000 * count).all()
    assert used.sum() * 1e-9 <= log["end"]
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    assert document["state"] == "closed"
    assert document["environment"]["python"].startswith(version)
    assert document["interval_s"] == 0.005


def test_every_sample_in_the_journals_is_in_the_run(tmp_path: Path) -> None:
    recorded(tmp_path, python("3.6"), MARKED.replace("THREADS", repr(threads_journal())))
    join(tmp_path / "out", tmp_path / "run")
    table = pq.read_table(tmp_path / "run" / "samples.parquet", columns=["channel"])
    channels = table["channel"].cast("string").to_pylist()
    for read in agent_json(tmp_path / "out")["reads"]:  # type: ignore[attr-defined]
        size = (tmp_path / f"out/journal/samples-{read['number']:02d}.bin").stat().st_size
        rows = size // (8 * (2 + len(read["channels"])))
        assert rows > 0
        for channel in read["channels"]:
            assert channels.count(channel["name"]) == rows


# --- what ends it early ----------------------------------------------------------------------------


def started(folder: Path, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, bufsize=1)


def test_a_kill_loses_no_step_that_was_done_and_ends_the_sampler(tmp_path: Path) -> None:
    agent_in(tmp_path)
    (tmp_path / "script.py").write_text(
        "import sys, time, wattstep_agent\n"
        "recorder = wattstep_agent.Recorder('out').start()\n"
        "for n in range(25):\n"
        "    with recorder.step():\n"
        "        pass\n"
        "recorder.steps.begin_step()\n"
        "print(recorder.sampler.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    child = started(tmp_path, python("3.6"), "script.py")
    try:
        assert child.stdout is not None
        sampler = int(child.stdout.readline())
        os.kill(child.pid, signal.SIGKILL)
        child.wait(3 * PATIENCE_S)
        until(lambda: gone(sampler), 3 * PATIENCE_S)
    finally:
        child.kill()
        child.communicate()
    path = join(tmp_path / "out", tmp_path / "run")
    assert len(pq.read_table(path / "steps.parquet")) == 25
    document = json.loads((path / "run.json").read_text())
    assert document["state"] == "recovered"
    assert any("was not closed" in note for note in document["notes"])


def test_after_ctrl_c_the_recording_is_closed_and_the_exit_code_130(tmp_path: Path) -> None:
    agent_in(tmp_path)
    (tmp_path / "script.py").write_text("import time\nprint('on', flush=True)\ntime.sleep(600)\n")
    child = started(
        tmp_path, python("3.6"), "wattstep_agent.py", "run", "--out", "out", "script.py"
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "on\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(3 * PATIENCE_S) == 130
    finally:
        child.kill()
        child.communicate()
    assert agent_json(tmp_path / "out")["state"] == "closed"


def test_a_full_disk_ends_the_recording_and_not_the_training(tmp_path: Path) -> None:
    recorded(
        tmp_path,
        python("3.6"),
        "import resource, signal, wattstep_agent\n"
        "recorder = wattstep_agent.Recorder('out', trace='none').start()\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000))\n"
        "for n in range(12000):\n"
        "    with recorder.step():\n"
        "        pass\n"
        "open('done', 'w').write(str(n))\n"
        "recorder.close()\n",
    )
    assert (tmp_path / "done").read_text() == "11999"
    path = join(tmp_path / "out", tmp_path / "run")
    # The first chunk of 256 KiB holds 8192 marks of 32 bytes, one or two of them a step.
    index = pq.read_table(path / "steps.parquet")["index"].to_pylist()
    assert index == list(range(len(index)))
    assert 4096 < len(index) <= 8192
    notes = json.loads((path / "run.json").read_text())["notes"]
    assert any(note.startswith("recording ended early") for note in notes)


DISK = """
unshare -rm sh -c '
mkdir disk && mount -t tmpfs -o size=3m none disk && cd disk || exit 77
PYTHON ../script.py; code=$?; cp -r out ..; exit $code'
"""


def test_on_a_disk_that_is_full_the_recording_is_closed_and_says_so(tmp_path: Path) -> None:
    agent_in(tmp_path)
    (tmp_path / "script.py").write_text(
        "import wattstep_agent\n"
        "recorder = wattstep_agent.Recorder('out', interval='50ms', trace='none').start()\n"
        "try:\n"
        "    with open('filler', 'wb', 0) as filler:\n"
        "        while True:\n"
        "            filler.write(bytes(4096))\n"
        "except OSError:\n"
        "    pass\n"
        "for n in range(12000):\n"
        "    with recorder.step():\n"
        "        pass\n"
        "recorder.close()\n"
    )
    done = run_in(tmp_path, "sh", "-c", DISK.replace("PYTHON", python("3.6")))
    if done.returncode in (1, 77) and not (tmp_path / "out").exists():
        pytest.skip(f"no disk of its own can be mounted here: {done.stderr.strip()[-80:]}")
    assert done.returncode == 0, done.stderr
    assert agent_json(tmp_path / "out")["state"] == "closed"
    assert not (tmp_path / "out/agent.json.tmp").exists()
    document = json.loads((join(tmp_path / "out", tmp_path / "run") / "run.json").read_text())
    assert document["state"] == "closed"
    assert saying(document["notes"], os.strerror(errno.ENOSPC))
    assert "marks" in document["lost"]
    assert document["target"] == "agent"


def test_steps_of_a_forked_child_are_not_ours(tmp_path: Path) -> None:
    recorded(
        tmp_path,
        python("3.6"),
        "import os, wattstep_agent\n"
        "with wattstep_agent.Recorder('out', trace='none') as recorder:\n"
        "    with recorder.step():\n"
        "        pass\n"
        "    if os.fork() == 0:\n"
        "        with recorder.step():\n"
        "            pass\n"
        "        recorder.close()\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "    with recorder.step():\n"
        "        pass\n",
    )
    path = join(tmp_path / "out", tmp_path / "run")
    assert pq.read_table(path / "steps.parquet")["index"].to_pylist() == [0, 1]


# --- joining ------------------------------------------------------------------------------------


def test_what_is_no_recording_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    folder, out = tmp_path / "folder", tmp_path / "runs" / "run"
    folder.mkdir()
    with refused("not-an-agent-recording", "agent.json"):
        join(folder, out)
    for text in ("{", "[]", "{}", '{"agent": 1}', '{"agent": 1, "state": "closed"}', "[" * 100000):
        (folder / "agent.json").write_text(text)
        with pytest.raises(DamagedRunError):
            join(folder, out)
    assert not out.exists()
    assert not (tmp_path / "runs").exists()


def test_a_recording_without_its_marks_is_refused_and_the_run_s_place_stays_free(
    tmp_path: Path,
) -> None:
    recorded(
        tmp_path,
        python("3.6"),
        "import wattstep_agent\nwattstep_agent.Recorder('out').start().close()\n",
    )
    (tmp_path / "out/journal/marks.bin").unlink()
    with refused("incomplete-recording", "marks"):
        join(tmp_path / "out", tmp_path / "runs" / "run")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_run_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    with pytest.raises(RunExistsError):
        join(tmp_path, tmp_path)


SAMPLER_KILLED = """
import os, signal, time
import wattstep_agent

with wattstep_agent.Recorder("out", interval="5ms", warmup=2) as recorder:
    killed = None
    end = time.monotonic() + 110
    while time.monotonic() < end:
        with recorder.step(samples=8):
            time.sleep(0.02)
        sampler = recorder.sampler.pid
        if killed is None and recorder.steps.index == 30:
            os.kill(sampler, signal.SIGKILL)
            killed, size = sampler, None
        elif killed not in (None, sampler):
            size = size or recorder.steps.index
            if recorder.steps.index > size + 60:
                break
"""


@pytest.mark.parametrize("version", [OLD[0], "this"])
def test_a_killed_sampler_is_started_again_and_the_run_says_so(
    tmp_path: Path, version: str
) -> None:
    recorded(tmp_path, sys.executable if version == "this" else python(version), SAMPLER_KILLED)
    run = wattstep.load(join(tmp_path / "out", tmp_path / "run"))
    words = "the sampler was lost (it ended with signal 9) and started again"
    assert sum(note.startswith(words) for note in run.info.notes) == 1
    assert not run.info.lost
    for name in run.tables.channels():
        t_ns, value, code = run.tables.samples()[name]
        assert list(code).count(errno.EOWNERDEAD) == 1
        assert np.isnan(value[code == errno.EOWNERDEAD]).all()
        assert np.all(np.diff(t_ns) > 0)

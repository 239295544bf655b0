"""`wattstep runs`: a list in which nothing is broken, and a run as `wattstep show` shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command_line import wattstep
from tests.refusals import id_in
from tests.run.made import Sampled, make_run, power
from tests.wording import assert_says


def shown(*arguments: object) -> str:
    done = wattstep("runs", "show", *arguments)
    assert done.returncode == 0
    return done.stdout


def test_what_is_no_plain_file_is_named_with_its_reason(tmp_path: Path) -> None:
    path = make_run(tmp_path / "r", [Sampled(channel=power(), raw=lambda t: 5000)]).path
    (path / "link").symlink_to(tmp_path / "elsewhere")
    (path / "notes").mkdir()
    os.mkfifo(path / "pipe")
    text = shown(path).splitlines()
    reasons = {"link": "link", "notes": "folder", "pipe": "plain file"}
    for line, (name, reason) in zip(text[-3:], reasons.items(), strict=True):
        assert_says(line, f"{name}: ", reason)
    document = json.loads(shown(path, "--json"))
    assert list(document["left_out"]) == list(reasons)
    for name, reason in reasons.items():
        assert_says(document["left_out"][name], reason)
    assert document["files"]["steps.parquet"] == (path / "steps.parquet").stat().st_size
    assert not set(document["left_out"]) & set(document["files"])


def test_a_run_is_shown_as_by_show_and_of_none_the_newest(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "r", [Sampled(channel=power(), raw=lambda t: 5000)]).path
    expected = wattstep("show", "runs/r", cwd=tmp_path).stdout
    assert "Energy per step" in expected
    for given in ([str(run.relative_to(tmp_path))], []):
        assert wattstep("runs", "show", *given, cwd=tmp_path).stdout == expected


@pytest.mark.parametrize("columns", ["80", "120"])
def test_where_a_run_lies_is_never_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    name = "squeezenet-20261124-141230-335d"
    make_run(tmp_path / "runs" / name, [Sampled(channel=power(), raw=lambda t: 5000)])
    listed = wattstep("runs", "list", cwd=tmp_path, env={"COLUMNS": columns})
    assert listed.returncode == 0
    (line,) = [line for line in listed.stdout.splitlines() if name in line]
    assert line.endswith(f"runs/{name}")
    assert max(map(len, listed.stdout.splitlines())) <= int(columns)


def test_state_of_a_run_that_nobody_closed(tmp_path: Path) -> None:
    """While its process lives it is recording, and afterwards no longer."""
    script = """
import sys, wattstep
recorder = wattstep.Recorder(sys.argv[1], trace="none").start()
print("recording", flush=True)
sys.stdin.read()
"""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", script, str(tmp_path / "runs" / "r")]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"recording\n"
        during = wattstep("runs", "list", "--json", cwd=tmp_path).stdout
        child.kill()
    after = wattstep("runs", "list", "--json", cwd=tmp_path).stdout
    states = [json.loads(out)["runs"][0]["state"] for out in (during, after)]
    assert states == ["recording", "not closed"]


def test_runs_of_a_script_are_told_apart_by_its_arguments(tmp_path: Path) -> None:
    for width in ("32", "64"):
        options = {"script": "train.py", "arguments": f"--width {width}"}
        make_run(tmp_path / "runs" / width, [], options=options)
    for command in (("runs", "list"), ("show", "runs")):
        out = wattstep(*command, cwd=tmp_path, env={"COLUMNS": "120"}).stdout
        assert "--width 32" in out
        assert "--width 64" in out


def test_what_several_runs_come_to_stands_beside_their_names(tmp_path: Path) -> None:
    for width in ("32", "64"):
        options = {"script": "train.py", "arguments": f"--width {width}"}
        make_run(tmp_path / "runs" / width, [], options=options)
    out = wattstep("show", "runs", "--steps", "100", cwd=tmp_path, env={"COLUMNS": "120"}).stdout
    for line, width in zip(out.splitlines(), ("32", "64"), strict=False):
        assert f"--width {width}: 100 steps: 2.0" in line  # of 20 ms each


def test_a_list_of_a_file_is_an_error_that_says_what_it_takes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    listed = wattstep("runs", "list", "train.py", "--json", cwd=tmp_path)
    assert (listed.returncode, id_in(listed.stdout)) == (2, "not-a-folder")
    assert "train.py" in listed.stderr
    assert "wattstep runs list FOLDER" in listed.stderr

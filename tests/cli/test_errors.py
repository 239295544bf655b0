"""What the user can mend ends a command with one line, exit code 2 and no traceback."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from tests.command_line import Command
from tests.command_line import wattstep as here
from tests.refusals import id_in
from tests.run.made import Sampled, make_run, power
from tests.wording import assert_says

from wattstep.cli import COMMANDS, UNREAD, UNRECORDED, _app, run_command_line
from wattstep.errors import RecordingError

Ended = tuple[int, str, str]  # exit code, output and errors of a command


def one_line(ended: Ended) -> str:
    """The only line of an error."""
    code, out, err = ended
    assert (code, out) == (2, ""), err
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("wattstep: ")
    assert "Traceback" not in err
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["attach"], ["wattstep attach PID"]),
        (["targets"], ["wattstep targets TARGET"]),
        (["calibrate"], ["wattstep calibrate RUN --meter FILE"]),
        (["calibrate", "run"], ["wattstep calibrate RUN --meter FILE", "CSV"]),
        (["agent"], ["wattstep agent --output FILE"]),
        (["daily"], ["wattstep daily WORKLOAD"]),
        (["memory"], ["wattstep memory NAME..."]),
        (["fits", "--batch", "4"], ["wattstep fits NAME...", "suite"]),
        (["predict"], ["wattstep predict WORKLOAD|FILE.py:make"]),
        (["plan"], ["wattstep plan WORKLOAD|FILE.py:make"]),
        (["compare"], ["wattstep compare A B", "--with"]),
        (["observe"], ["wattstep observe RUN..."]),
        (["export"], ["wattstep export RUN..."]),
    ],
)
def test_what_has_to_be_written_is_one_line(
    piped: Command, arguments: list[str], words: list[str]
) -> None:
    assert_says(one_line(piped(*arguments)), *words)
    _, document = told(piped(*arguments, "--json"))
    assert document["id"] == "missing-argument"


def test_no_command_can_be_left_without_what_it_needs_in_more_than_a_line(piped: Command) -> None:
    whole: Any = typer.main.get_command(_app(COMMANDS))
    needing = {
        name for name, each in whole.commands.items() if any(p.required for p in each.params)
    }
    assert needing >= {"fits", "memory", "daily", "attach", "targets", "calibrate", "agent"}
    for name in needing:
        one_line(piped(name))


@pytest.mark.parametrize(
    "arguments", [["devices"], ["devices", "--json"], ["boards"], ["show", "run"], ["--help"]]
)
def test_a_pipe_that_nobody_reads_on_ends_a_command_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    make_run(tmp_path / "run", [])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["wattstep", *arguments])
    read, write = os.pipe()
    os.close(read)
    errors = io.StringIO()
    with os.fdopen(write, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        monkeypatch.setattr(sys, "stderr", errors)
        assert run_command_line() == UNREAD == 128 + signal.SIGPIPE
        monkeypatch.undo()
    assert errors.getvalue() == ""


def told(ended: Ended) -> tuple[str, dict[str, Any]]:
    """The only line of an error, and the document beside it."""
    code, out, err = ended
    document: dict[str, Any] = json.loads(out)
    return one_line((code, "", err)), document


@pytest.mark.parametrize(
    ("arguments", "id", "words"),
    [
        (["run", "lenett"], "unknown-workload", ["lenett", "lenet"]),
        (["run", "lenet", "--batch", "0"], "out-of-range", ["--batch 0", "1"]),
        (["sweep", "lenett"], "unknown-workload", ["lenett", "lenet"]),
        (
            ["sweep", "lenet", "--workloads", "dqn"],
            "named-twice",
            ["lenet", "--workloads dqn"],
        ),
        (["run", "lenet", "--batch", "-4"], "out-of-range", ["--batch -4", "1"]),
        (["run", "lenet", "--batch", "x"], "malformed-list", ["--batch 'x'", "4,16"]),
        (["run", "lenet", "--batch", "4,"], "malformed-list", ["--batch '4,'", "4,16"]),
        (["run", "lenet", "--steps", "0"], "out-of-range", ["--steps 0", "1"]),
        (["run", "lenet", "--seconds", "0"], "out-of-range", ["--seconds 0"]),
        (["run", "lenet", "--seconds", "nan"], "out-of-range", ["--seconds nan"]),
        (["run", "lenet", "--seconds", "inf"], "out-of-range", ["--seconds inf", "finite"]),
        (
            ["run", "lenet", "--foreground", "--foreground-seconds", "inf"],
            "out-of-range",
            ["--foreground-seconds inf", "finite"],
        ),
        (
            ["run", "lenet", "--foreground-seconds", "3"],
            "needs-foreground",
            ["--foreground-seconds"],
        ),
        (["attach", "1", "--seconds", "inf"], "out-of-range", ["--seconds inf", "finite"]),
        (["ceilings", "--seconds", "inf"], "out-of-range", ["--seconds inf", "finite"]),
        (["run", "lenet", "--warmup", "-1"], "out-of-range", ["--warmup -1"]),
        (["run", "lenet", "--threads", "0"], "out-of-range", ["--threads 0", "1"]),
        (["run", "lenet", "--interval", "0.1ms"], "interval-too-fine", ["--interval 0.1ms", "1ms"]),
        (["run", "lenet", "--interval", "soon"], "malformed-duration", ["soon", "10ms"]),
        (
            ["run", "lenet", "--trace", "every:0"],
            "malformed-trace-mode",
            ["--trace 'every:0'", "auto, none, every:N"],
        ),
        (
            ["run", "lenet", "--trace", "often"],
            "malformed-trace-mode",
            ["--trace 'often'", "auto, none, every:N"],
        ),
        (
            ["run", "lenet", "--power-model", "nuclear"],
            "unknown-power-model",
            ["--power-model 'nuclear'", "vcpu"],
        ),
        (
            ["run", "lenet", "--power-model", "linear:3,1"],
            "unknown-power-model",
            ["linear:3,1"],
        ),
        (["run", "lenet", "--data", "nowhere"], "no-such-folder", ["--data nowhere"]),
        (["run", "lenet", "--engine", "abacus"], "unknown-engine", ["abacus", "torch"]),
        (
            ["run", "lenet", "--precision", "fp8"],
            "unknown-precision",
            ["--precision fp8", "fp32, tf32, bf16, amp"],
        ),
        (["run", "lenet", "--accumulate", "0"], "out-of-range", ["--accumulate 0", "1"]),
        (
            ["run", "lenet", "--rate-rule", "log"],
            "unknown-rate-rule",
            ["--rate-rule log", "linear, sqrt, fixed"],
        ),
        (["run", "lenet", "--until", "soon"], "malformed-goal", ["--until 'soon'", "accuracy=0.6"]),
        (["run", "lenet", "--name", "a/b"], "not-a-plain-name", ["--name", "--out"]),
        (["run", "lenet", "--batch", "4,16", "--name", "x"], "one-name-for-several", ["--name"]),
        (
            ["tune", "lenet", "--batch", "4,8"],
            "malformed-value",
            ["--batch '4,8'", "one whole number", "Batch size"],
        ),
        (
            ["run", "lenet", "--steps", "many"],
            "malformed-value",
            ["--steps 'many'", "one whole number"],
        ),
        (
            ["run", "lenet", "--ambient", "hot"],
            "malformed-value",
            ["--ambient 'hot'", "one number"],
        ),
        (["run", "lenet", "--colour"], "malformed-command", ["--colour", "wattstep run --help"]),
        (["run", "lenet", "--steps"], "malformed-command", ["--steps", "wattstep run --help"]),
        (["schedule", "lenet", "mlp"], "malformed-command", ["mlp", "wattstep schedule --help"]),
        (["suite", "resnet"], "unknown-workload", ["resnet", "resnet50"]),
        (["suite", "--classes", "100"], "needs-one-workload", ["--classes", "NAME"]),
        (["doctor", "--interval", "0.1ms"], "interval-too-fine", ["1ms"]),
        (["report", "nowhere"], "no-such-run", ["nowhere"]),
        (["runs", "show", "nowhere"], "no-such-run", ["nowhere"]),
        (["runs", "show"], "no-run-yet", ["wattstep runs show RUN"]),
        (["runs", "delete"], "needs-a-run", ["wattstep runs"]),
        (["profile"], "no-script-given", ["SCRIPT"]),
        (["profile", "nowhere.py"], "no-such-script", ["nowhere.py"]),
        (["profile", "-m", "nowhere.at.all"], "no-such-module", ["nowhere.at.all"]),
    ],
)
def test_bad_input_ends_with_one_line_and_with_json_a_document_that_says_which_refusal_it_is(
    piped: Command, arguments: list[str], id: str, words: list[str]
) -> None:
    name, *rest = arguments
    line, document = told(piped(name, "--json", *rest))
    assert document["id"] == id
    assert line == f"wattstep: {document['error']}"
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("arguments", "id", "words"),
    [
        (["lenet", "--classes", "5"], "too-few-classes", ["--classes 5", "10"]),
        (["lenet", "--image-size", "64"], "no-image-size", ["--image-size"]),
        (["resnet50", "--image-size", "8"], "image-too-small", ["--image-size 8", "9×9"]),
        (["dqn", "--until", "loss=1"], "no-measure", ["loss=1"]),
        (["lenet", "--batch", "10000000000"], "batch-beyond-memory", ["--batch 10000000000"]),
    ],
)
def test_what_a_training_process_refuses_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    id: str,
    words: list[str],
) -> None:
    # That process takes over the descriptors of this one.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["wattstep", "run", *arguments, "--quiet", "--json"])
    code = run_command_line()
    line, document = told((code, *capfd.readouterr()))
    assert document["id"] == id
    for word in words:
        assert word in line


def test_wrong_defaults_are_refused_as_the_command_would_be(piped: Command, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.wattstep.run]\nsecond = 1\n")
    line, document = told(piped("run", "lenet", "--json"))
    assert document["id"] == "unknown-default"
    assert "second" in line


def test_bad_input_leaves_no_run_behind(piped: Command, tmp_path: Path) -> None:
    piped("run", "lenet", "--steps", "0")
    piped("run", "lenett")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("marker", ["batch", "call:", "call:module", "optimizers"])
def test_a_step_marker_that_is_none_is_refused(piped: Command, tmp_path: Path, marker: str) -> None:
    (tmp_path / "script.py").write_text("")
    assert "--step-marker" in one_line(piped("profile", "--step-marker", marker, "script.py"))


def test_a_run_that_exists_is_not_written_into(piped: Command, tmp_path: Path) -> None:
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "script.py").write_text("")
    assert "runs/mine exists" in one_line(piped("run", "lenet", "--name", "mine"))
    assert "runs/mine exists" in one_line(piped("profile", "--name", "mine", "script.py"))
    assert list((tmp_path / "runs" / "mine").iterdir()) == []


def test_ctrl_c_before_the_commands_are_loaded_ends_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import os, signal, wattstep.__main__; os.kill(os.getpid(), signal.SIGINT)"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_before_anything_is_recorded_says_so_and_leaves_no_folder(
    piped: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("wattstep.remote.ssh.board.open_execution_host", stopped)
    code, out, err = piped("run", "lenet", "--target", "ssh://board")
    assert (code, out, err) == (130, "", f"wattstep: stopped{UNRECORDED}\n")
    assert list(tmp_path.iterdir()) == []


def test_what_was_trained_before_a_refusal_stands_with_it_in_one_document(
    piped: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Board:
        """Trains once, then its disk is full."""

        def train(self, settings: Any, *_: Any) -> Path:
            path = tmp_path / "runs" / "one"
            if path.exists():
                raise RecordingError("no room is left", id="remote-disk-full")
            return make_run(path, [Sampled(channel=power(), raw=lambda t: 5000)]).path

        def close(self) -> None: ...

    monkeypatch.setattr("wattstep.remote.ssh.board.open_execution_host", lambda *_: Board())
    ended = piped("run", "lenet", "--batch", "1,2", "--target", "ssh://board", "--json", "-q")
    line, document = told(ended)
    (run,) = document["runs"]
    assert run["run"] == str(tmp_path / "runs" / "one")
    assert (document["id"], document["kind"]) == ("remote-disk-full", "RecordingError")
    assert line == f"wattstep: {document['error']}"


def test_options_of_the_script_before_it_are_put_right(piped: Command, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    misplaced = piped("profile", "--json", "--epochs", "1", "train.py", "--lr", "0.1")
    line, document = told(misplaced)
    assert document["id"] == "misplaced-option"
    assert line.endswith("wattstep profile train.py --epochs 1 --lr 0.1")
    assert "SCRIPT --epochs 3" in one_line(piped("profile", "--epochs", "1"))


@pytest.mark.parametrize("name", ["show", "explain", "report", "observe", "compare", "export"])
def test_a_file_in_place_of_a_run_says_what_to_write_instead(
    piped: Command, tmp_path: Path, name: str
) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "power.log").write_text("")
    more = {"export": ["--to", "csv"]}.get(name, [])
    line, document = told(piped(name, "train.py", *more, "--quiet", "--json"))
    assert document["id"] == "script-not-run"
    assert "wattstep profile train.py" in line
    line, document = told(piped(name, "power.log", *more, "--quiet", "--json"))
    assert document["id"] == "file-not-run"
    assert "power.log" in line
    assert "wattstep import" in line


def test_without_a_run_the_newest_is_meant_and_where_there_is_none_it_is_said(
    piped: Command, tmp_path: Path
) -> None:
    assert "wattstep show RUN" in one_line(piped("show"))
    for n, name in enumerate(("new", "old")):
        path = make_run(
            tmp_path / "runs" / name, [Sampled(channel=power(), raw=lambda t: 5000)]
        ).path
        os.utime(path / "run.json", (1e9 - n, 1e9 - n))
    assert "run: runs/new" in piped("show")[1]
    assert piped("explain", "--quiet")[1].startswith("runs/new")


def test_no_line_of_a_result_in_a_pipe_ends_in_blanks(piped: Command, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a", [Sampled(channel=power(), raw=lambda t: 5000)])
    for name in ("show", "explain"):
        lines = piped(name, "--quiet")[1].splitlines()
        assert len(lines) > 3
        assert [line for line in lines if line != line.rstrip()] == []


def test_a_folder_of_folders_of_runs_says_what_to_give(piped: Command, tmp_path: Path) -> None:
    (tmp_path / "runs" / "before" / "lenet-1").mkdir(parents=True)
    (tmp_path / "runs" / "before" / "lenet-1" / "run.json").touch()
    line = one_line(piped("report", "runs"))
    assert_says(line, "runs/before", "runs/*")


def test_a_folder_that_is_no_run_is_named(piped: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "empty" in one_line(piped("report", "empty"))
    assert "empty" in one_line(piped("runs", "show", "empty"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 99}', '{"schema_version": 1}'])
def test_a_garbled_run_is_named(piped: Command, tmp_path: Path, text: str) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text(text)
    line, document = told(piped("report", "bad", "--quiet", "--json"))
    assert "run.json" in line
    assert document["id"] in (
        "unreadable-run-file",
        "run-file-holds-no-run",
        "other-schema",
        "damaged-field",
    )
    code, out, _ = piped("runs", "list", tmp_path)
    assert code == 0
    assert "damaged" in out


def test_an_unknown_option_or_command_is_refused_without_a_traceback(piped: Command) -> None:
    for arguments in (["run", "lenet", "--colour"], ["fly"], ["run", "lenet", "--steps", "many"]):
        one_line(piped(*arguments))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(piped: Command, name: str) -> None:
    code, out, err = piped(name, "--help")
    assert (code, err) == (0, "")
    assert name in out
    assert "--json" in out


def test_help_lists_every_command(piped: Command) -> None:
    code, out, _ = piped("--help")
    assert code == 0
    for name in COMMANDS:
        assert name in out


def test_version_is_the_package_s(piped: Command) -> None:
    from wattstep import __version__

    assert piped("--version")[1] == f"wattstep {__version__}\n"


# --- without torch -----------------------------------------------------------------------------


@pytest.fixture
def bare(tmp_path: Path) -> Command:
    """Runs a command in an interpreter in which no extra can be imported."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Blocked:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'sklearn', 'gymnasium', 'ale_py', 'pandas'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Blocked())\n"
    )

    def run(*arguments: str) -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "wattstep", *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=False,
            env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return run


def test_help_works_without_any_extra(bare: Command) -> None:
    assert bare("--help")[0] == 0
    assert bare("run", "--help")[0] == 0


def test_what_needs_torch_names_the_extra_to_install(bare: Command) -> None:
    for arguments in (["run", "lenet"], ["run", "lenet", "--json"]):
        # With one thread nobody is warned of a crowded machine, which it may be.
        ended = bare(*arguments, "--quiet", "--threads", "1")
        if "--json" in arguments:
            line, document = told(ended)
            assert document["id"] == "missing-extra"
        else:
            line = one_line(ended)
        assert "torch" in line
        assert "pip install" in line


def test_doctor_works_without_any_extra_and_prints_one_document(bare: Command) -> None:
    code, out, err = bare("doctor", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert {"device", "sensors", "sampler", "disk_bytes_an_hour"} <= set(found)
    for sensor in found["sensors"]:
        assert sensor["present"] or sensor["reason"]


def test_a_script_without_torch_is_profiled_without_torch(bare: Command, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('ran')\n")
    code, out, err = bare("profile", "--quiet", "script.py")
    assert (code, out) == (0, "ran\n"), err
    shutil.rmtree(tmp_path / "runs")


@pytest.mark.parametrize(
    ("words", "id", "remedy"),
    [
        (
            ["train.py", "profile", "--epochs", "3"],
            "no-command",
            "wattstep profile train.py --epochs 3",
        ),
        (["train.py"], "no-command", "wattstep profile train.py"),
        (["--quiet", "run", "lenet"], "options-first", "wattstep run --quiet lenet"),
        (["--out", "x y", "run", "lenet"], "options-first", "wattstep run --out 'x y' lenet"),
        (["--frobnicate"], "no-command", "wattstep COMMAND --frobnicate"),
        (["sho", "run"], "no-command", "mean show?"),
        (["a-run"], "no-command", "wattstep show a-run"),
        (["run", "lenet", "--out", "train.py"], "file-as-folder", "--out runs"),
        (["profile", "--out", "train.py", "train.py"], "file-as-folder", "--out runs"),
        (["memory", "a-run"], "run-not-workload", "wattstep show a-run"),
        (["run", "train.py"], "script-not-workload", "wattstep profile train.py"),
        (
            ["predict", "lenet", "--device", "tx2"],
            "needs-device",
            "wattstep predict lenet --on tx2",
        ),
        (["predict", "lenet"], "needs-device", "wattstep predict lenet --on DEVICE"),
        (["plan", "lenet"], "needs-device", "wattstep plan lenet --on DEVICE --samples N"),
        (
            ["plan", "lenet", "--on", "jetson-nano"],
            "needs-samples",
            "wattstep plan lenet --on jetson-nano --samples N",
        ),
        (["export", "a-run"], "needs-format", "wattstep export a-run --to FORMAT (perfetto, "),
        (["import", "power.log"], "files-by-option", "wattstep import --telemetry power.log"),
    ],
)
def test_words_in_the_wrong_place_are_answered_with_what_to_write(
    tmp_path: Path, words: list[str], id: str, remedy: str
) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "a-run").mkdir()
    (tmp_path / "a-run" / "run.json").write_text("{}")
    done = here(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert remedy in line
    as_json = [words[0], "--json", *words[1:]] if words[0] in COMMANDS else [*words, "--json"]
    assert id_in(here(*as_json, cwd=tmp_path).stdout) == id

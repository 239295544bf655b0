"""`wattstep profile` on scripts of every habit: each runs as Python would run it, and is recorded right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.profiling.scripts import (
    HEAD,
    LOOP,
    AllProfiled,
    document,
    wattstep,
)
from tests.wording import assert_says, saying

from wattstep.run import Run, load
from wattstep.schema.figure import Figure


@pytest.fixture(scope="session")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AllProfiled]:
    everything = AllProfiled(tmp_path_factory.mktemp("scripts"))
    yield everything
    everything.close()


def samples(run: Run) -> list[float]:
    return list(run.series.steps.samples)


def notes(run: Run) -> str:
    return "\n".join(run.info.notes)


def run_alone(script: Path, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, script.name, *arguments],
        cwd=script.parent, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


# --- what the script sees ----------------------------------------------------------------------


def test_a_script_prints_what_it_prints_alone_and_nothing_else_is_printed(
    profiled: AllProfiled,
) -> None:
    done = profiled("plain")
    assert done.code == 0, done.stderr
    assert done.stdout == run_alone(done.script, "--epochs", "3", "-h")
    assert done.stderr == ""


def test_the_machine_is_looked_at_around_a_script_and_beside_its_steps(
    profiled: AllProfiled,
) -> None:
    run = profiled("plain").run
    found, steps = run.info.canary, run.series.steps
    spans = steps.rest_ns["canary"]
    assert found["kind"] == f"python {sys.version_info[0]}.{sys.version_info[1]}"
    assert found["before"]["right"]
    assert found["after"]["right"]
    assert len(spans) == 2
    assert spans[0, 1] <= steps.rest_ns["startup"][0, 0]
    assert spans[1, 0] >= steps.end_ns[-1]


def test_a_script_has_its_own_arguments_name_and_file(profiled: AllProfiled) -> None:
    words = profiled("plain").stdout.splitlines()
    assert words[0] == "arguments ['--epochs', '3', '-h']"
    assert words[1] == "name __main__"
    assert words[2] == f"file {profiled('plain').script}"  # absolute, as Python itself has it
    assert words[3] == "main True"


def test_a_script_that_raises_ends_with_1_and_its_own_traceback(profiled: AllProfiled) -> None:
    done = profiled("raises")
    assert done.code == 1
    lines = done.stderr.strip().splitlines()
    assert lines[0].startswith("Traceback ")
    assert lines[-1].startswith("ZeroDivisionError: ")
    assert f'File "{done.script}"' in lines[1]
    assert "wattstep" not in done.stderr
    assert "runpy" not in done.stderr


def test_what_ran_before_a_script_raised_is_recorded(profiled: AllProfiled) -> None:
    run = profiled("raises").run
    assert run.info.state == "closed"
    assert len(run.series.steps.index) == 20
    assert "ZeroDivisionError" in notes(run)


def test_an_option_of_ours_after_a_script_that_fails_is_told_to_go_before_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "picky.py").write_text("import sys; sys.exit(3 if sys.argv[1:] else 0)\n")
    done = subprocess.run(
        [sys.executable, "-m", "wattstep", "profile", "picky.py", "--power-model", "vcpu"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stdout == ""  # no screen about a run without a step
    ended, hint = done.stderr.splitlines()[-2:]
    assert_says(ended, "wattstep: picky.py", "exit code 3", "first step", "runs/")
    assert hint.endswith("wattstep profile --power-model ... picky.py")


def test_a_script_ends_with_its_own_exit_code_after_what_it_registered(
    profiled: AllProfiled,
) -> None:
    done = profiled("exits")
    assert done.code == 7
    assert done.stdout == "registered\n"
    assert len(done.run.series.steps.index) == 10


# --- steps, samples, layers --------------------------------------------------------------------


def test_steps_and_samples_are_those_of_the_loader(profiled: AllProfiled) -> None:
    run = profiled("plain").run
    assert samples(run) == [8.0] * 60 + [5.0]
    assert run.info.warmup == 3
    steps = document(run)["steps"]
    assert steps == {**steps, "recorded": 61, "warmup": 3}  # type: ignore[dict-item]


def test_throughput_is_samples_over_the_time_of_clean_steps(profiled: AllProfiled) -> None:
    run = profiled("plain").run
    steps = run.series.steps
    clean = np.flatnonzero(steps.clean)
    seconds = sum((steps.end_ns[n] - steps.start_ns[n]) * 1e-9 + steps.gap_s[n] for n in clean)
    figure = run.metrics()["throughput"]
    assert figure.value == pytest.approx(steps.samples[clean].sum() / seconds, rel=1e-9)
    assert figure.unit == "samples/s"


def test_operations_carry_the_layers_and_phases_of_the_script_s_model(
    profiled: AllProfiled,
) -> None:
    rows = profiled("plain").run.operations()
    found = {(row["name"], row["layer"], row["phase"]) for row in rows}
    for layer in ("first", "second"):
        assert ("aten::linear", layer, "forward") in found
        assert ("AddmmBackward0", layer, "backward") in found
        assert ("AccumulateGrad", layer, "backward") in found
        assert ("aten::add_", layer, "optimizer") in found
    assert ("aten::relu", "Net", "forward") in found
    assert ("aten::stack", "(outside modules)", "data") in found


def test_operations_and_rests_of_a_script_make_its_step(profiled: AllProfiled) -> None:
    for name in ("plain", "evaluates", "gan", "accumulates"):
        run = profiled(name).run
        table = run.document()
        whole = sum(row["time"]["value"] for row in table["operations"]) + sum(
            rest["time"]["value"] for rest in table["rests"].values()
        )
        assert whole == pytest.approx(run.metrics()["step_time"].value, rel=1e-6), name


def test_every_kind_of_script_is_closed_and_says_which_torch_ran(profiled: AllProfiled) -> None:
    import torch

    for name in ("plain", "raises", "evaluates", "gan", "loads_in_workers"):
        info = profiled(name).run.info
        assert info.state == "closed"
        assert info.engine == f"torch {torch.__version__}"
        assert info.threads == 1
        assert info.workload == name


def test_energy_of_a_profiled_script_is_modelled_where_a_model_is_asked_for(
    profiled: AllProfiled,
) -> None:
    figure: Figure = profiled("plain").run.metrics()["energy_per_step"]
    if figure.status.value == "measured":
        pytest.skip("this machine has a power sensor")
    if figure.missing:  # a run shorter than the ticks of /proc/stat
        assert figure.reason
    else:
        assert figure.status.value == "modelled"


def test_evaluation_is_a_rest_of_its_own_and_no_part_of_a_step(profiled: AllProfiled) -> None:
    run = profiled("evaluates").run
    assert len(run.series.steps.index) == 30
    table = run.document()
    assert "evaluation" not in table["rests"]
    rest = table["rests_outside_steps"]["evaluation"]
    assert rest["outside_steps"] is True
    assert rest["total"]["value"] > 2 * 0.05  # both sleeps lie in it
    assert run.metrics()["step_time"].value < 0.05
    spans = run.series.steps.rest_ns["evaluation"]
    assert len(spans) == 2
    for begin, end in spans:  # no step reaches into it
        inside = (run.series.steps.start_ns < end) & (run.series.steps.end_ns > begin)
        assert not inside.any()


def test_samples_of_an_evaluation_are_not_counted(profiled: AllProfiled) -> None:
    assert samples(profiled("evaluates").run) == [8.0] * 30


def test_what_came_before_the_first_step_is_a_rest(profiled: AllProfiled) -> None:
    run = profiled("plain").run
    assert len(run.series.steps.rest_ns["startup"]) == 1


def test_the_first_optimizer_ends_the_step_where_there_are_two(profiled: AllProfiled) -> None:
    run = profiled("gan").run
    assert samples(run) == [8.0] * 25


def test_both_updates_of_a_gan_go_forward_and_backward(profiled: AllProfiled) -> None:
    """The judge sees three batches a step, the maker makes one: four and two products forward."""
    run = profiled("gan").run
    calls = {
        (row["layer"], row["phase"]): row["calls"].value
        for row in run.operations()
        if row["name"] == "aten::linear"
    }
    assert calls == {
        ("Linear", "forward"): pytest.approx(1),
        ("first", "forward"): pytest.approx(3),
        ("second", "forward"): pytest.approx(3),
    }
    updates = {row["update"] for row in run.document()["updates"]}
    assert updates == {"Net", "Linear"}


def test_a_forward_pass_without_a_loader_is_forward(profiled: AllProfiled) -> None:
    run = profiled("no_loader").run
    found = {row["phase"] for row in run.operations() if row["name"] == "aten::linear"}
    assert found == {"forward"}
    told = {row["phase"] for row in run.document()["updates"]}
    assert told == {"loop", "optimizer", "forward", "backward"}


def test_accumulated_batches_make_one_step(profiled: AllProfiled) -> None:
    assert samples(profiled("accumulates").run) == [32.0] * 12


def test_a_step_with_a_closure_is_one_step(profiled: AllProfiled) -> None:
    done = profiled("uses_closures")
    assert done.code == 0, done.stderr
    assert samples(done.run) == [8.0] * 15


def test_evaluations_before_and_within_an_epoch_are_rests(profiled: AllProfiled) -> None:
    done = profiled("evaluates_first")
    assert done.code == 0, done.stderr
    assert samples(done.run) == [8.0] * 24
    assert len(done.run.series.steps.rest_ns["evaluation"]) == 3  # the first is startup


@pytest.mark.parametrize("name", ["marked_by_backward", "marked_by_call"])
def test_another_marker_ends_the_steps_where_no_optimizer_does(
    profiled: AllProfiled, name: str
) -> None:
    done = profiled(name)
    assert done.code == 0, done.stderr
    assert samples(done.run) == [8.0] * 30


def test_a_script_without_a_loader_has_steps_and_says_that_samples_are_not_known(
    profiled: AllProfiled,
) -> None:
    run = profiled("no_loader").run
    assert len(run.series.steps.index) == 30
    assert run.metrics()["throughput"].missing
    assert run.metrics()["throughput"].reason
    assert "DataLoader" in notes(run)


def test_a_script_in_which_no_optimizer_steps_says_so(profiled: AllProfiled) -> None:
    done = profiled("no_optimizer")
    assert done.code == 0
    assert done.stdout == "no torch.optim here\n"
    assert not len(done.run.series.steps.index)
    assert "no training step" in notes(done.run)
    assert done.run.metrics()["step_time"].missing


def test_a_marker_in_a_script_without_a_framework(tmp_path: Path) -> None:
    """Of a call that is made 3 times no step is known, and the reason is not an optimizer."""
    (tmp_path / "plain.py").write_text("import json\nfor n in range(3):\n    json.dumps(n)\n")
    done = subprocess.run(
        [*wattstep(
            "profile", "--quiet", "--out", "runs", "--name", "plain", "--step-marker",
            "call:json:dumps", "plain.py",
        )],
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (reason,) = saying(load(tmp_path / "runs" / "plain").info.notes, "no training step")
    assert_says(reason, "loaded no framework", "wattstep.Recorder")
    assert "optimizer" not in reason


# --- company -----------------------------------------------------------------------------------


def test_a_profiler_of_the_script_s_own_is_left_alone_and_named(profiled: AllProfiled) -> None:
    done = profiled("profiles_itself")
    assert done.code == 0, done.stderr
    assert done.stdout == run_alone(done.script)
    assert "steps seen 20" in done.stdout
    assert len(done.run.series.steps.index) == 50
    assert "torch.profiler" in "\n".join(done.run.document()["status_notes"])


@pytest.mark.parametrize("name", ["loads_in_workers", "spawns_a_trainer"])
def test_children_of_a_script_do_not_record_again(profiled: AllProfiled, name: str) -> None:
    done = profiled(name)
    assert done.code == 0, done.stderr
    mine = [path for path in done.path.parent.iterdir() if path.name.startswith(name)]
    assert mine == [done.path]
    steps = {"loads_in_workers": 40, "spawns_a_trainer": 20}[name]
    assert samples(done.run) == [8.0] * steps
    assert ("child trained" in done.stdout) == (name == "spawns_a_trainer")


# --- ways to start it --------------------------------------------------------------------------


def test_a_module_runs_as_python_m_runs_it(tmp_path: Path) -> None:
    package = tmp_path / "trainers"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "small.py").write_text(HEAD + LOOP)
    (package / "__main__.py").write_text(
        "import sys\n"
        "from .small import *\n"
        "print(sys.argv[1:], __name__, __package__)\n"
        "net = Net()\n"
        "train(net, loader(10 * 8), torch.optim.SGD(net.parameters(), lr=0.1))\n"
    )
    done = subprocess.run(
        wattstep(
            "profile", "--quiet", "--out", "runs", "--name", "m", "-m", "trainers", "--", "-v"
        ),
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['-v'] __main__ trainers\n"
    assert samples(load(tmp_path / "runs" / "m")) == [8.0] * 10


def test_json_is_the_only_thing_on_standard_output_and_the_script_s_words_go_beside(
    tmp_path: Path,
) -> None:
    import json

    script = tmp_path / "says.py"
    script.write_text("print('said')\n")
    done = subprocess.run(
        wattstep("profile", "--json", "--out", "runs", "says.py"),
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert [Path(run["run"]).parent.name for run in json.loads(done.stdout)["runs"]] == ["runs"]
    assert "said" in done.stderr


def test_ctrl_c_ends_the_script_with_130_and_keeps_what_was_recorded(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(
        HEAD + LOOP + "net = Net()\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "train(net, loader(20 * 8), optimizer)\n"
        "print('going', flush=True)\n"
        "while True:\n"
        "    train(net, loader(20 * 8), optimizer)\n"
    )
    with subprocess.Popen(
        wattstep("profile", "--quiet", "--out", "runs", "--name", "r", "endless.py"),
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == "going\n"
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to everything in front
        _, stderr = child.communicate(timeout=600)
    assert child.returncode == 130
    assert "wattstep/" not in stderr  # no frame of ours
    run = load(tmp_path / "runs" / "r")
    assert run.info.state == "closed"
    assert len(run.series.steps.index) >= 20


@pytest.mark.parametrize("reach", [os.kill, os.killpg])
def test_a_script_is_told_once_of_ctrl_c_whether_we_get_it_alone_or_both_of_us_do(
    tmp_path: Path, reach: Callable[[int, int], None]
) -> None:
    (tmp_path / "saves.py").write_text(
        "import time\ntry:\n    print('going', flush=True)\n    time.sleep(600)\n"
        "except KeyboardInterrupt:\n    time.sleep(3)\n    print('saved')\n    raise SystemExit(3)\n"
    )
    with subprocess.Popen(
        wattstep("profile", "--quiet", "--trace", "none", "saves.py"),
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == "going\n"
        reach(child.pid, signal.SIGINT)
        said, _ = child.communicate(timeout=600)
    assert said == "saved\n"
    assert child.returncode == 3


def test_a_script_that_was_killed_says_what_trained(tmp_path: Path) -> None:
    import torch

    (tmp_path / "killed.py").write_text(
        "import os, signal\n" + HEAD + LOOP + "net = Net()\n"
        "train(net, loader(20 * 8), torch.optim.SGD(net.parameters(), lr=0.1))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run(
        wattstep("profile", "--quiet", "--out", "runs", "--name", "r", "killed.py"),
        cwd=tmp_path, capture_output=True, check=False,
    )  # fmt: skip
    info = load(tmp_path / "runs" / "r").info
    assert info.state == "recovered"
    assert info.engine == f"torch {torch.__version__}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_profile_takes_the_script_with_it(tmp_path: Path, number: int) -> None:
    """As torchrun ends its ranks: the signal goes to us alone."""
    script = tmp_path / "endless.py"
    script.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    with subprocess.Popen(
        wattstep("profile", "--quiet", "--out", "runs", "--name", "r", "endless.py"),
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # which nohup has ignored
    ) as child:  # fmt: skip
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        child.send_signal(number)
        child.communicate(timeout=600)
    assert child.returncode == 128 + number
    assert not Path(f"/proc/{pid}").exists()
    assert load(tmp_path / "runs" / "r").info.state == "recovered"


def test_every_rank_under_torchrun_records_its_own(tmp_path: Path) -> None:
    script = tmp_path / "ranked.py"
    script.write_text(
        HEAD + LOOP + "import torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "net = torch.nn.parallel.DistributedDataParallel(Net())\n"
        "train(net, loader(20 * 8), torch.optim.SGD(net.parameters(), lr=0.1))\n"
        "dist.destroy_process_group()\n"
    )
    done = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
            "--master-addr", "127.0.0.1", "--master-port", str(free_port()), "--no-python",
            *wattstep("profile", "--quiet", "--out", "runs", "ranked.py"),
        ],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    runs = sorted((tmp_path / "runs").iterdir(), key=lambda path: path.name[-1])
    assert [path.name.rpartition("-")[2] for path in runs] == ["rank0", "rank1"]
    for path in runs:
        assert samples(load(path)) == [8.0] * 20


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])

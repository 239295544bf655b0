"""Real processes: trainings that take turns learn as alone, settings take hold, and a tune writes what a run follows."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import id_in, refused
from tests.wording import assert_says

from wattstep import engines
from wattstep.plan.file import read_plan
from wattstep.run import load
from wattstep.train.script import ProfileSettings
from wattstep.train.settings import TrainingSettings
from wattstep.tune.losses import LossCheck
from wattstep.tune.processes import ScriptBench, WorkloadBench
from wattstep.tune.script_turn import NO_TRAINING
from wattstep.tune.snippet import snippet_of
from wattstep.tune.space import DEFAULT, KNOBS, Candidate, Place, searched
from wattstep.tune.turns import CURVE_STEPS, Ask, Turn

SCRIPT = """
import sys, torch
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(64, 3, 8, 8), torch.randint(0, 2, (64,))), batch_size=8)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    for images, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
print("threads", torch.get_num_threads(), "fused", optimizer.param_groups[0].get("fused"))
"""


def ask(candidate: Candidate, steps: int = 3, **more: Any) -> Ask:
    return Ask(
        **{"stage": "one by one", "round": 0, "candidate": candidate, "steps": steps, **more}
    )


def with_values(**values: Any) -> Candidate:
    candidate = DEFAULT
    for name, value in values.items():
        candidate = candidate.with_value(name, value)
    return candidate


def close(turn: Turn, other: Turn) -> bool:
    return all(
        math.isclose(turn.losses[n], loss, rel_tol=1e-4)
        for n, loss in other.losses.items()
        if n in turn.losses
    )


def test_trainings_that_take_turns_learn_what_each_learns_alone() -> None:
    # AlexNet drops out: torch's own generator would go on from one training to the next.
    settings = TrainingSettings(workload="alexnet", batch_size=2, trace="none", threads=1)
    with WorkloadBench(settings) as bench:
        alone = bench.measure(ask(DEFAULT, 8, begin=True, alone=True, round=9))
    fused = with_values(optimizer_kernel="fused")
    losses: dict[int, float] = {}
    with WorkloadBench(settings) as bench:
        for begin in (True, False):
            turn = bench.measure(ask(DEFAULT, 3, begin=begin))
            losses.update(turn.losses)
            assert not bench.measure(ask(fused, 2, begin=begin)).refused
    assert losses == {n: alone.losses[n] for n in losses}
    assert len(losses) == 7  # one more before the second turn, which does not count


def test_what_changes_no_arithmetic_learns_the_same_and_what_cannot_be_is_refused() -> None:
    settings = TrainingSettings(workload="lenet", trace="none", threads=1)
    with WorkloadBench(settings) as bench:
        plain = bench.measure(ask(DEFAULT, begin=True))
        for values in (
            {"channels_last": True}, {"optimizer_kernel": "fused"}, {"allocator": "keep"},
            {"interop_threads": 1},
        ):  # fmt: skip
            turn = bench.measure(ask(with_values(**values), begin=True))
            assert not turn.refused
            assert close(turn, plain), values
        low = bench.measure(ask(with_values(precision="bf16"), begin=True))
        assert not close(low, plain)
    with WorkloadBench(TrainingSettings(workload="char-cnn", trace="none", threads=1)) as bench:
        turn = bench.measure(ask(with_values(channels_last=True), begin=True))
        assert_says(turn.refused, "--channels-last", "char-cnn")
        settings = TrainingSettings(
            workload="char-cnn", optimizer="rmsprop", trace="none", threads=1
        )
    with WorkloadBench(settings) as bench:
        turn = bench.measure(ask(with_values(optimizer_kernel="fused"), begin=True))
        assert_says(turn.refused, "--optimizer-kernel fused", "RMSprop")


def test_a_default_of_another_allocator_has_it_in_its_process() -> None:
    settings = TrainingSettings(workload="lenet", allocator="keep", trace="none", threads=1)
    with WorkloadBench(settings) as bench:
        assert not bench.measure(ask(DEFAULT, 1, begin=True)).refused
        (opened,) = bench._open.values()
        environment = Path(f"/proc/{opened.process.process.pid}/environ").read_bytes()
    assert b"MALLOC_MMAP_MAX_=0" in environment


def test_a_snippet_puts_its_settings_into_a_script() -> None:
    import torch

    model, threads = torch.nn.Conv2d(3, 4, 3), torch.get_num_threads()
    scope = {"model": model}
    try:
        exec(snippet_of({"threads": 1, "channels_last": True, "precision": "bf16"}), scope)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
    assert scope["model"].weight.dtype == torch.bfloat16
    assert scope["model"].weight.is_contiguous(memory_format=torch.channels_last)


@pytest.fixture(scope="module")
def lenet() -> Iterator[tuple[WorkloadBench, LossCheck]]:
    """A bench of LeNet, and what its first 20 losses are held against."""
    settings = TrainingSettings(workload="lenet", trace="none")
    with WorkloadBench(settings) as bench:
        plain = bench.measure(ask(DEFAULT, CURVE_STEPS, begin=True))
        nudged = bench.measure(ask(DEFAULT, CURVE_STEPS, begin=True, nudged=True))
        assert plain.losses != nudged.losses
        yield bench, LossCheck(plain.losses, nudged.losses)


OF_SCRIPTS = {"loader_workers"}  # below


@pytest.mark.parametrize("knob", [each.name for each in KNOBS if each.name not in OF_SCRIPTS])
def test_every_value_of_a_knob_learns_what_the_default_does_within_rounding(
    knob: str, lenet: tuple[WorkloadBench, LossCheck]
) -> None:
    bench, check = lenet
    cores = tuple(sorted(os.sched_getaffinity(0)))
    place = Place(
        cores=cores, threads=len(cores), options=engines.find("torch").options, precisions=("bf16",),
        allow=frozenset({"precision"}), given={"cores": (str(cores[0]),)},
    )  # fmt: skip
    values, left_out = searched(place)
    if knob not in values:
        pytest.skip(left_out[knob])
    for value in values[knob]:
        candidate = DEFAULT.with_value(knob, value)
        turn = bench.measure(ask(candidate, CURVE_STEPS, begin=True))
        assert not turn.refused, candidate.text
        assert check.compared(turn.losses) == CURVE_STEPS
        difference = check.difference(turn.losses)
        # What rounds to 8 bits is another training, and is seen to be one.
        assert bool(difference) is (knob == "precision"), (candidate.text, difference)
        assert turn.begin_s is not None
        assert turn.begin_s > sum(turn.seconds)


def test_plans_that_share_out_threads_are_made_for_their_number(
    lenet: tuple[WorkloadBench, LossCheck],
) -> None:
    bench, check = lenet
    for threads in (1, 2):
        if threads > len(os.sched_getaffinity(0)):
            continue
        candidate = with_values(threads=threads, policy="per-kind", channels_last=True)
        turn = bench.measure(ask(candidate, CURVE_STEPS, begin=True))
        assert not turn.refused
        assert not check.difference(turn.losses)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_takes_turns_with_settings_put_into_it(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    bench = ScriptBench(ProfileSettings(script=str(script), arguments=("100",)))
    plain = bench.measure(ask(DEFAULT, begin=True))
    assert len(plain.seconds) == 3
    assert len(plain.losses) == 4  # the first step's time cannot be seen, its loss can
    turned = with_values(
        threads=1, channels_last=True, optimizer_kernel="fused", allocator="keep", loader_workers=1
    )
    turn = bench.measure(ask(turned, begin=True))
    assert not turn.refused
    assert close(turn, plain)
    nudged = bench.measure(ask(DEFAULT, begin=True, nudged=True))
    assert close(nudged, plain)
    assert nudged.losses != plain.losses


def test_processes_of_a_scripts_loaders_end_with_its_turn(tmp_path: Path, script: Path) -> None:
    text = SCRIPT.replace("batch_size=8", "batch_size=8, num_workers=2, persistent_workers=True")
    workers = "[each.pid for each in torch.multiprocessing.active_children()]"
    at_step = f"        open(sys.argv[2], 'w').write(str({workers}))\n        optimizer.step()\n"
    script.write_text(text.replace("        optimizer.step()\n", at_step))
    pids = tmp_path / "pids"
    bench = ScriptBench(ProfileSettings(script=str(script), arguments=("100", str(pids))))
    turn = bench.measure(ask(with_values(threads=1)))
    assert turn.refused == ""
    told = json.loads(pids.read_text())
    assert len(told) == 2
    assert not any(Path("/proc", str(pid)).exists() for pid in told)


@pytest.mark.parametrize(
    "line", ["model = torch.compile(model, backend='eager')", "model.compile(backend='eager')"]
)
def test_a_script_that_compiles_its_model_is_settled_and_keeps_its_own_compiler(
    script: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    script.write_text(SCRIPT.replace("optimizer =", f"{line}\noptimizer =", 1))
    bench = ScriptBench(ProfileSettings(script=str(script), arguments=("100",)))
    plain = bench.measure(ask(DEFAULT, begin=True))
    nudged = bench.measure(ask(DEFAULT, begin=True, nudged=True))
    turned = bench.measure(ask(with_values(channels_last=True, compiled=True), begin=True))
    for turn in (nudged, turned):
        assert not turn.refused
        assert close(turn, plain)
    assert nudged.losses != plain.losses


@pytest.mark.parametrize("name", ["bfloat16", "float32", "float64"])
def test_a_nudge_is_one_rounding_of_each_parameters_own_type(name: str) -> None:
    import torch

    from wattstep.engines.torch.tuned import nudge

    dtype = getattr(torch, name)
    model = torch.nn.Linear(8, 8, dtype=dtype)
    torch.nn.init.ones_(model.weight)
    nudge(model)
    moved = set(model.weight.detach().flatten().tolist())
    eps = {"bfloat16": 2**-7, "float32": 2**-23, "float64": 2**-52}[name]
    assert moved == {1 - eps, 1 + eps}


def test_the_energy_of_a_scripts_steps_is_told_by_a_model_and_by_nothing_where_there_is_none(
    script: Path,
) -> None:
    settings = ProfileSettings(script=str(script), arguments=("100",), power_model="vcpu")
    with ScriptBench(settings, power=True) as bench:
        turn = bench.measure(ask(with_values(threads=1), 20))
    assert turn.energy == "modelled"
    assert turn.joules is not None
    # 3.5 W while a core is busy, 0.74 W else (the model's own figures), of one core or all of them.
    step_s = turn.step_s
    assert 0.5 * step_s < turn.joules < 3.5 * len(os.sched_getaffinity(0)) * step_s * 1.5
    with ScriptBench(ProfileSettings(script=str(script), arguments=("100",)), power=True) as bench:
        turn = bench.measure(ask(with_values(threads=1), 3))
    assert turn.refused == ""
    assert (turn.joules is None) is (turn.energy == "missing")


def test_a_script_without_training_is_refused_in_one_line(script: Path) -> None:
    script.write_text("print('nothing')")
    turn = ScriptBench(ProfileSettings(script=str(script))).measure(ask(DEFAULT, begin=True))
    assert turn.refused == NO_TRAINING
    script.write_text("raise ValueError('of its own')")
    turn = ScriptBench(ProfileSettings(script=str(script))).measure(ask(DEFAULT, begin=True))
    assert_says(turn.refused, "ValueError", "of its own", "line 1")
    script.write_text("import torch\nmodel = (")
    turn = ScriptBench(ProfileSettings(script=str(script))).measure(ask(DEFAULT, begin=True))
    assert_says(turn.refused, "SyntaxError", "never closed", "line 2")
    script.write_text("raise SystemExit(4)")
    turn = ScriptBench(ProfileSettings(script=str(script))).measure(ask(DEFAULT, begin=True))
    assert_says(turn.refused, "exit code 4", "by itself")


def test_channels_last_passes_over_models_without_convolutions(script: Path) -> None:
    lines = SCRIPT.replace("144, 2))", "144, 8))\nhead = torch.nn.Linear(8, 2)").replace(
        "model(images)", "head(checkpoint(model, images, use_reentrant=False))"
    )
    script.write_text("from torch.utils.checkpoint import checkpoint\n" + lines)
    bench = ScriptBench(ProfileSettings(script=str(script), arguments=("100",)))
    plain = bench.measure(ask(with_values(threads=1), begin=True))
    turn = bench.measure(ask(with_values(threads=1, channels_last=True), begin=True))
    assert not turn.refused
    assert close(turn, plain)
    script.write_text(
        SCRIPT.replace("torch.nn.Conv2d(3, 4, 3), ", "").replace("Linear(144", "Linear(192")
    )
    turn = bench.measure(ask(with_values(threads=1, channels_last=True), begin=True))
    assert_says(turn.refused, "channels-last", "no model", "convolutions")


# More threads than free cores would make each step take many times as long on a busy machine.
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def wattstep(*arguments: str, at: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wattstep", *arguments],
        cwd=at,
        capture_output=True,
        text=True,
        check=False,
        env=ONE_THREAD,
    )


def test_a_tune_writes_settings_that_run_applies(tmp_path: Path) -> None:
    done = wattstep("tune", "lenet", "--turn", "optimizer-kernel", "-o", "t", "--json", at=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["workload"] == "lenet"
    assert report["losses_compared"] >= 3
    assert {"the default"} <= {each["text"] for each in report["measured"]}
    plan = json.loads((tmp_path / "t/plan.json").read_text())
    assert plan["settings"].items() >= report["settings"].items()
    done = wattstep(
        "run", "--plan", "t/plan.json", "--steps", "3", "--name", "own", "-q", at=tmp_path
    )
    assert done.returncode == 0, done.stderr
    own = load(tmp_path / "runs/own").info.options
    assert own.get("optimizer_kernel") == plan["settings"].get("optimizer_kernel")


def test_run_and_profile_apply_settings(tmp_path: Path, script: Path) -> None:
    of_a_workload = {
        "batch_size": 4,
        "accumulate": 1,
        "engine": "torch",
        "processor": "cpu",
        "precision": "fp32",
    }
    own = {
        "threads": 1,
        "allocator": "keep",
        "optimizer_kernel": "fused",
        "policy": "default",
        "seed": 3,
    }
    tuned = {"goal": "time", "keep_the_default": False, "ratio": 0.9}
    plan: dict[str, Any] = {"wattstep_plan": 1, "workload": "lenet", "tuned": tuned}
    plan["settings"] = of_a_workload | own
    (tmp_path / "w.json").write_text(json.dumps(plan))
    done = wattstep(
        "run", "--plan", "w.json", "--steps", "3", "--name", "followed", "-q", at=tmp_path
    )
    assert done.returncode == 0, done.stderr
    info = load(tmp_path / "runs/followed").info
    assert info.threads == 1
    assert info.options["allocator"] == "keep"
    assert info.options["optimizer_kernel"] == "fused"
    assert info.options["policy"] == "default"
    assert info.seed == 3
    del plan["workload"]
    plan |= {"script": "train.py", "settings": {"threads": 1, "optimizer_kernel": "fused"}}
    (tmp_path / "s.json").write_text(json.dumps(plan))
    done = wattstep("profile", "--plan", "s.json", "-q", str(script), "2", at=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "threads 1 fused True" in done.stdout
    itself = tmp_path / "own.py"  # which says itself
    itself.write_text(SCRIPT.replace("lr=0.1", "lr=0.1, fused=False"))
    done = wattstep("profile", "--plan", "s.json", "-q", str(itself), "2", at=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "threads 1 fused False" in done.stdout
    impossible = {
        "threads": 10**6,
        "interop_threads": 0,
        "loader_workers": -1,
        "optimizer_kernel": "two",
    }
    for name, value in impossible.items():
        (tmp_path / "p.json").write_text(json.dumps({**plan, "settings": {name: value}}))
        with refused("damaged-plan", "p.json", name):
            read_plan(tmp_path / "p.json")
    plan["settings"] = {"policy": "default"}
    (tmp_path / "p.json").write_text(json.dumps(plan))
    done = wattstep("profile", "--plan", "p.json", "-q", str(script), "2", at=tmp_path)
    assert done.returncode == 2
    assert_says(done.stderr, "--plan", "policy", "script")
    done = wattstep("run", "--plan", "s.json", "--json", at=tmp_path)
    assert done.returncode == 2
    assert id_in(done.stdout) == "plan-of-a-script"

"""Commands, scripts and callbacks on a machine whose GPU is played: it is noticed, and figures are the device's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.gpu.machine import KERNEL_NS, LOST, MB, MODEL, MS, ROOM, SHARES_MEMORY, STEP
from tests.wording import assert_says

from wattstep.run import Run, load

HERE = Path(__file__).parent
PEAK = MODEL + STEP
OFF_NS = 300_000  # that a mark may lie beside what ran, besides the uncertainty of the clock


class Machine:
    """Runs commands where the GPU is played.

    Args:
        folder: Where they are called.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "ran").mkdir()

    def wattstep(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "wattstep", *arguments, **environment)

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        here = [HERE / "machine", HERE / "nvml", HERE.parents[1] / "src", HERE.parents[1]]
        return subprocess.run(
            [sys.executable, *arguments],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(map(str, here)),
                "PLAYED_RAN": str(self.folder / "ran"),
                **environment,
            },
            cwd=self.folder, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    def run(self) -> Run:
        """The only run that is there."""
        (path,) = self.folder.glob("**/run.json")
        return load(path.parent)

    def ran(self) -> np.ndarray:
        """Begin and end in ns of all that ran on the GPU, in order, shape (n, 2)."""
        files = sorted((self.folder / "ran").iterdir())
        times = [each for file in files for each in json.loads(file.read_text())]
        return np.array(sorted(times), np.int64).reshape(-1, 2)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def noticed(run: Run) -> None:
    """The GPU was noticed, and steps lie on its timeline."""
    assert run.info.processor == "cuda"
    assert run.info.device["gpu"]["name"] == "Played GPU"
    assert run.info.device_clock["device"] == run.series.steps.device == "gpu0"


def check(run: Run, ran: np.ndarray, kernel_ns: int = KERNEL_NS) -> None:
    """It was, and each clean step holds its kernel from begin to end, where the device did it."""
    noticed(run)
    steps = run.series.steps
    off = OFF_NS + run.info.device_clock["uncertainty_ns"]
    clean = np.flatnonzero(steps.clean)
    assert len(clean) >= 3
    for step in clean:
        inside = (ran[:, 0] >= steps.start_ns[step] - off) & (ran[:, 1] <= steps.end_ns[step] + off)
        assert inside.any(), step
    step_time = run.metrics["step_time"].value
    assert step_time is not None
    assert step_time * 1e9 > kernel_ns - 2 * off
    assert run.metrics["device_peak_memory"].value is not None


def trained(machine: Machine, *more: str, **environment: str) -> Run:
    done = machine.wattstep(
        "run", "lenet", "--batch", "2", "--processor", "cuda", "--out", "run", "--threads", "1",
        *more, **environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return machine.run()


def test_run_with_a_goal(machine: Machine) -> None:
    run = trained(machine, "--until", "accuracy=0.99", "--evaluate-every", "10", "--steps", "20")
    check(run, machine.ran())
    assert run.info.device["gpu"]["uuid"].startswith("bbbbbbbb")
    assert "time_to_target" in run.metrics
    # A step whose memory is followed resets the allocator's peaks; the training's stays, and what the
    # driver counts (256 MiB) is more.
    assert run.metrics["device_memory_breakdown"]["allocator_free"].value == 0
    assert run.metrics["device_peak_memory"].value == 256 * MB
    assert {"free", "fragments", "unusable"} <= run.metrics["allocator_cache"].keys()
    # By the played driver, of the GPU that trains and no other: 300 W, 90 %.
    assert run.metrics["gpu_utilization"].value == pytest.approx(0.9, abs=0.01)


def test_run_that_sustains(machine: Machine) -> None:
    run = trained(machine, "--sustain", "--steps", "20")
    check(run, machine.ran())
    assert "sustain" in run.info.conditions


def test_run_beside_a_foreground_job(machine: Machine) -> None:
    run = trained(machine, "--foreground", "--steps", "20")
    check(run, machine.ran())
    assert "foreground_delay" in run.metrics


def test_a_board_of_one_memory_has_a_watchdog_and_an_account(machine: Machine) -> None:
    run = trained(machine, "--seconds", "2", "--memory-reserve", "16MiB", **{SHARES_MEMORY: "1"})
    check(run, machine.ran())
    account = run.metrics["shared_memory"]
    total = float(np.nanmax(run.series.raw("system.total_memory")[1]))
    assert sum(each.value for each in account.values()) == pytest.approx(total, rel=1e-9)
    starved = machine.wattstep(
        "run", "lenet", "--processor", "cuda", "--out", "starved", "--memory-reserve", "4TiB"
    )
    assert starved.returncode == 2
    assert "by the watchdog" in starved.stderr


def test_sweep(machine: Machine) -> None:
    done = machine.wattstep(
        "sweep", "lenet", "--batch", "2,4", "--steps", "20", "--processor", "cuda",
        "--out", "sweep", "--json", "-q",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    runs = [load(path.parent) for path in machine.folder.glob("sweep/**/run.json")]
    assert len(runs) == 2
    for run in runs:
        check(run, machine.ran())


def test_fits_judges_by_the_gpu(machine: Machine) -> None:
    done = machine.wattstep("fits", "lenet", "--batch", "2", "--processor", "cuda", "--json", "-q")
    assert done.returncode == 0, done.stderr[-2000:]
    (outcome,) = json.loads(done.stdout)["outcomes"]
    assert outcome["status"] == "trained"
    run = machine.run()
    assert (run.info.processor, run.info.device["gpu"]["name"]) == ("cuda", "Played GPU")
    assert run.metrics["device_peak_memory"].value == 256 * MB


def test_memory_is_the_gpu_s(machine: Machine) -> None:
    done = machine.wattstep(
        "memory", "lenet", "--batch", "2", "--processor", "cuda", "--json", "-q"
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (footprint,) = find(json.loads(done.stdout), "memory_breakdown")
    assert footprint["gpu"] == "Played GPU"
    assert footprint["peak_memory"]["value"] == 256 * MB
    assert footprint["memory_breakdown"]["outside_allocator"]["value"] == 256 * MB - PEAK
    assert footprint["allocator_cache"]["free"]["unit"] == "B"
    steady = next(each for each in footprint["stages"] if each["stage"] == "steady step")
    assert steady["device_peak"]["value"] == PEAK


def find(document: Any, key: str) -> list[dict[str, Any]]:
    """All mappings within a document that have a key."""
    if isinstance(document, dict):
        own = [document] if key in document else []
        return own + [each for value in document.values() for each in find(value, key)]
    return (
        [each for value in document for each in find(value, key)]
        if isinstance(document, list)
        else []
    )


def test_daily(machine: Machine) -> None:
    done = machine.wattstep(
        "daily", "lenet", "--batch", "4", "--images-per-day", "32", "--days", "1", "--judged", "50",
        "--pretrain", "accuracy=0.3", "--processor", "cuda", "--out", "daily", "--json", "-q",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    (path,) = (path.parent for path in machine.folder.glob("daily/**/run.json"))
    check(load(path), machine.ran())


SCRIPT = """
import torch
from tests.gpu import machine

model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.randn(96, 8), torch.randint(0, 4, (96,))), batch_size=4
)
machine.GPU.allocate(machine.MODEL)
"""
LOOP = """
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), targets)
    machine.work()
    loss.backward()
    optimizer.step()
"""


def test_profile_notices_the_gpu_of_a_script(machine: Machine) -> None:
    (machine.folder / "train.py").write_text(SCRIPT + LOOP)
    done = machine.wattstep("profile", "--out", "run", "train.py")
    assert done.returncode == 0, done.stderr[-2000:]
    run = machine.run()
    assert len(run.series.steps.index) >= 20
    check(run, machine.ran())


RECORDER = """
import wattstep
with wattstep.Recorder("run", trace="every:8") as recorder:
    for inputs, targets in loader:
        with recorder.step(samples=len(inputs)):
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            machine.work()
"""


def test_a_recorder_notices_it(machine: Machine) -> None:
    (machine.folder / "train.py").write_text(SCRIPT + RECORDER)
    done = machine.python("train.py")
    assert done.returncode == 0, done.stderr[-2000:]
    check(machine.run(), machine.ran())


LIGHTNING = """
import lightning
from wattstep.integrations.lightning import WattstepCallback

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 4)
    def training_step(self, batch, index):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        machine.work()
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

trainer = lightning.Trainer(
    max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, callbacks=[WattstepCallback("run")],
)
trainer.fit(Net(), loader)
"""
TRANSFORMERS = """
import transformers
from wattstep.integrations.transformers import WattstepCallback

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 4)
    def forward(self, inputs, labels):
        machine.work()
        return {"loss": torch.nn.functional.cross_entropy(self.net(inputs), labels)}

data = [{"inputs": torch.randn(8), "labels": torch.tensor(1)} for _ in range(96)]
trainer = transformers.Trainer(
    Net(),
    transformers.TrainingArguments(
        "out", per_device_train_batch_size=4, num_train_epochs=1, use_cpu=True, report_to=[],
        save_strategy="no", disable_tqdm=True,
    ),
    train_dataset=data, callbacks=[WattstepCallback("run")],
)
trainer.train()
"""


@pytest.mark.parametrize(
    ("library", "script"), [("lightning", LIGHTNING), ("transformers", TRANSFORMERS)]
)
def test_callbacks_notice_it(machine: Machine, library: str, script: str) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    (machine.folder / "train.py").write_text(SCRIPT + script)
    done = machine.python("train.py")
    assert done.returncode == 0, done.stderr[-2000:]
    run = machine.run()
    assert len(run.series.steps.index) >= 20
    check(run, machine.ran())


def test_memory_of_the_gpu_that_runs_out_is_a_result_with_the_allocator_s_account(
    machine: Machine,
) -> None:
    """A GPU of 80 MB, on which the model fits and a step does not."""
    room = {ROOM: str(80 * MB)}
    done = machine.wattstep("run", "lenet", "--processor", "cuda", "--out", "run", **room)
    assert done.returncode == 2
    assert "out of memory" in done.stderr
    assert_says(done.stderr, "torch has 0.06 GiB", "0.06 GiB are handed")
    done = machine.wattstep(
        "sweep", "lenet", "--batch", "2", "--processor", "cuda", "--out", "sweep", "--json", "-q",
        **room,
    )  # fmt: skip
    assert '"out of memory"' in done.stdout
    assert "are handed out" in done.stdout


def test_a_gpu_that_is_lost_in_the_middle_ends_the_run_in_one_line_and_keeps_it(
    machine: Machine,
) -> None:
    done = machine.wattstep(
        "run", "lenet", "--batch", "2", "--threads", "1", "--processor", "cuda", "--out", "run",
        "--steps", "500", **{LOST: "60"},
    )  # fmt: skip
    assert done.returncode == 2
    errors = [line for line in done.stderr.splitlines() if "unspecified launch failure" in line]
    assert len(errors) == 1, done.stderr
    assert "Traceback" not in done.stderr
    run = machine.run()
    assert 50 <= len(run.series.steps.index) <= 60
    noticed(run)


def test_a_step_s_kernels_of_three_lengths_are_told_by_their_lengths(machine: Machine) -> None:
    """The figures are the device's, and not the host's: steps of 4, 8 and 24 ms, asked for in no time."""
    lengths = [4, 8, 24] * 20
    script = f"""
import wattstep
with wattstep.Recorder("run", trace="none") as recorder:
    for length in {lengths}:
        with recorder.step(samples=4):
            machine.GPU.launch("kernel", length * machine.MS)
"""
    (machine.folder / "train.py").write_text(SCRIPT + script)
    done = machine.python("train.py")
    assert done.returncode == 0, done.stderr[-2000:]
    run, ran = machine.run(), machine.ran()
    steps = run.series.steps
    off = OFF_NS + run.info.device_clock["uncertainty_ns"]
    assert run.metrics["run_ahead"].value > 0.1
    clean = np.flatnonzero(steps.clean & steps.follows)
    # The queue is never empty: a step ends where its kernel does, and the next begins there.
    assert np.abs(steps.end_ns[clean] - ran[clean, 1]).max() <= off
    true = (ran[clean, 1] - ran[clean - 1, 1]).mean()
    told = (steps.end_ns[clean] - steps.end_ns[clean - 1]).mean()
    assert told == pytest.approx(true, rel=0.02)
    assert true == pytest.approx(12 * MS, rel=0.1)

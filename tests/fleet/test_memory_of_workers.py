"""What `fits` and a memory limit say of a training whose data loaders share its pages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wattstep import load, workloads
from wattstep.schema.outcome import Configuration
from wattstep.train.child.limits import find_limit
from wattstep.train.child.measuring import Listener, measure
from wattstep.train.settings import TrainingSettings

MIB = 1024**2
LIMIT = 1024 * MIB
QUIET = Listener(on_progress=lambda progress: None, on_warning=lambda text: None)
# LeNet beside three workers, which share 200 MB with it and have 30 MB each.
SHARING = """
from dataclasses import replace

import torch
from torch.utils.data import DataLoader, Dataset
from wattstep import workloads
from wattstep.schema.workload import Implementation
from wattstep.workloads.torch.workload import supervised

class Data(Dataset):
    shared = torch.ones(200_000_000, dtype=torch.uint8)
    def __len__(self):
        return 100
    def __getitem__(self, number):
        if not hasattr(self, "own"):  # made once: while one replaces another, both are there
            self.own = torch.ones(30_000_000, dtype=torch.uint8)
        return number

def training(model, specification, preparation):
    made = supervised(model, specification, preparation)
    made.loader = iter(DataLoader(Data(), num_workers=3, multiprocessing_context="fork"))
    for _ in range(3):
        next(made.loader)
    return made

LENET = workloads.find("lenet")
ON_TORCH = Implementation(model=LENET.on("torch").model, training="sharing:training")
SPECIFICATION = replace(LENET, facts=replace(LENET.facts, name="sharing"), engines={"torch": ON_TORCH})
"""
ENTRY = "[wattstep.workloads]\nsharing = sharing:SPECIFICATION\n"


@pytest.fixture
def sharing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of that workload, known here and in every child."""
    folder = tmp_path / "workload"
    folder.mkdir()
    (folder / "sharing.py").write_text(SHARING)
    about = folder / "sharing-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sharing\nVersion: 1\n")
    (about / "entry_points.txt").write_text(ENTRY)
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.syspath_prepend(str(folder))
    workloads._added.cache_clear()  # it was asked for before this one was there
    return "sharing"


def test_a_training_fits_by_what_it_takes_with_shared_pages_counted_once(
    sharing: str, tmp_path: Path
) -> None:
    """Four processes that have more resident than the limit, one page with the other, and take less."""
    one = Configuration(workload=sharing, batch_size=2, threads=1)
    settings = TrainingSettings(
        workload=sharing, batch_size=2, threads=1, steps=2, warmup=1, trace="none",
        out=str(tmp_path / one.name),
    )  # fmt: skip
    outcome = measure(one, settings, find_limit(LIMIT), QUIET)
    assert outcome.status == "trained", outcome.reason
    run = load(tmp_path / one.name)
    if "proportional_memory" in run.info.absent or "children" in run.info.absent:
        pytest.skip("the kernel does not tell")
    own = run.series.raw("process.resident_memory")[1].max()
    resident = run.series.raw("children.resident_memory")[1].max()
    assert own + resident > LIMIT
    told = outcome.figures["peak_memory"]
    assert told["status"] == "measured"
    # 90 MB are the workers' alone, and pages that they write to; the 200 MB count once, not thrice more.
    assert 90e6 <= told["value"] - own <= 90e6 + 100e6
    assert told["value"] < LIMIT
    assert told["value"] == run.metrics()["peak_memory"].value

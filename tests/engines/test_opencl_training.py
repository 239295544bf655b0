"""OpenCL trains networks of the suite as torch does, without torch, in each mode; its events lie within their step."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engines.exporting import export
from tests.opencl.conftest import opened as opened
from tests.refusals import refused
from tests.wording import assert_says

from wattstep import workloads
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.opencl.engine import ENGINE
from wattstep.opencl.device import choose
from wattstep.recorded import device_memory
from wattstep.schema.figure import Status
from wattstep.schema.journal import (
    DEVICE_OPERATION,
    DEVICE_OPERATION_FIELDS,
    OPERATION,
    OPERATION_FIELDS,
)
from wattstep.schema.opencl import FUSED, MODES, RESIDENT
from wattstep.schema.step_memory import DEVICE
from wattstep.schema.workload import Preparation
from wattstep.train.loop import _worked_by
from wattstep.train.settings import TrainingSettings

pytest.importorskip("torch")
if (REASON := ENGINE.missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)
ENGINE.load()

from wattstep.engines.opencl.tracer import OpenClTracer  # noqa: E402
from wattstep.engines.opencl.trainer import OpenClTrainer  # noqa: E402

pytestmark = pytest.mark.usefixtures("opened")
exported = partial(export, ENGINE)


def trainer_of(place: Path, mode: str = FUSED) -> OpenClTrainer:
    return OpenClTrainer(ENGINE, ExportedFolder(place), choose(), mode)


@pytest.fixture(scope="module")
def lenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("lenet"), "lenet", 4)


@pytest.mark.parametrize("mode", MODES)
def test_ten_losses_are_those_of_torch_in_each_mode(mode: str, lenet: Path) -> None:
    """`step` holds each of the first ten against torch's in float64; every parameter moves."""
    trainer = trainer_of(lenet, mode)
    before = trainer.weights()
    assert [trainer.step() for _ in range(10)]
    after = trainer.weights()
    assert all(not np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("name", "batch", "of"),
    [
        ("mlp", 4, {}),
        ("mlp-16", 8, {}),
        pytest.param("mlp-16-deep", 8, {}, marks=pytest.mark.long),
        ("mlp-256", 4, {}),
        ("resnet8", 4, {}),
        pytest.param("autoencoder", 16, {}, marks=pytest.mark.long),
        pytest.param("squeezenet", 4, {}, marks=pytest.mark.long),
    ],
)
def test_networks_train_as_in_torch_and_every_parameter_moves(
    name: str, batch: int, of: dict[str, Any], tmp_path: Path
) -> None:
    trainer = trainer_of(exported(tmp_path, name, batch, **of))
    before = trainer.weights()
    trainer.step()
    after = trainer.weights()
    for each in trainer.training.parameters:
        assert each.trainable == (not np.array_equal(before[each.name], after[each.name]))


def test_a_layer_without_a_gradient_is_found(tmp_path: Path) -> None:
    from tests.engines.broken_opencl import BrokenEngine

    with refused("cannot-export", "features.0.weight"):
        BrokenEngine().export(workloads.find("lenet"), Preparation(batch_size=4), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_torch_is_not_in_the_process_that_trains(lenet: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from wattstep import engines;"
        "from wattstep.engines.exported.folder import ExportedFolder;"
        "engine = engines.find('opencl'); engine.load();"
        "trainer = engine.open(ExportedFolder(Path(sys.argv[1])), 1);"
        "trainer.step(); trainer.step();"
        "assert 'torch' not in sys.modules, 'loaded'"
    )
    subprocess.run([sys.executable, "-c", code, str(lenet)], check=True, timeout=600)


def test_a_cpus_buffers_are_memory_of_the_process_and_a_gpus_are_the_devices(lenet: Path) -> None:
    trainer = trainer_of(lenet)
    sizes, units = trainer.memory(), trainer.execution.opened.device.units
    assert "allocated" not in sizes
    assert trainer.threads == units
    handed = trainer.execution.opened
    handed.device = replace(handed.device, kind="gpu")  # played
    marks = [(f"{DEVICE}{name}", size) for name, size in trainer.memory().items()]
    peak = device_memory.marked_peak(marks, "nobody asked it")
    assert peak is not None
    whole, parts = device_memory.peak_figure(peak), device_memory.marked_breakdown(marks, peak)
    assert (whole.value, whole.status) == (sum(sizes.values()), Status.COUNTED)
    assert {name: part.value for name, part in parts.items() if not part.missing} == sizes
    assert parts[device_memory.OUTSIDE].missing
    assert_says(device_memory.marked_cache(marks, peak)["free"].reason, "no allocator")
    assert trainer.threads is None


def test_the_load_of_a_cpu_by_opencl_is_on_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _worked_by(TrainingSettings(workload="mlp", engine="opencl")) == "cpu"
    for asked, threads in (("", 4), ("1", 1), ("8", 4), ("0", 4), ("many", 4)):
        monkeypatch.setenv("POCL_MAX_PTHREAD_COUNT", asked)
        assert ENGINE.usual_threads(4) == threads


def test_what_is_not_there_is_refused(lenet: Path, tmp_path: Path) -> None:
    workload = workloads.find("lenet")
    preparation = Preparation(batch_size=4, exported=lenet)
    with refused("threads-not-for-engine", "--threads 2"):
        ENGINE.prepare(workload, preparation, threads=2)
    with refused("unknown-opencl-mode", "flying"):
        ENGINE.prepare(workload, replace(preparation, opencl_mode="flying"))
    assert "'99'" in (ENGINE.lacking("opencl:99") or "")
    with refused("cannot-export", "opencl", "lstm"):
        exported(tmp_path, "char-cnn", 4)


def traced(place: Path, mode: str, on_gpu: bool) -> tuple[Any, dict[int, str], tuple[int, int]]:
    trainer = ENGINE.trainer = trainer_of(place, mode)
    if on_gpu:  # played: the same device, told to be one that is not the host's own
        handed = trainer.execution.opened
        handed.device = replace(handed.device, kind="gpu")
    names: dict[tuple[str, str], int] = {}

    def code(table: str, text: str) -> int:
        return names.setdefault((table, text), len(names))

    tracer = OpenClTracer(code, lambda: trainer)
    for _ in range(2):
        trainer.step()
    phases: list[tuple[int, str]] = []
    tracer.start()
    begin = time.perf_counter_ns()
    trainer.step(lambda name: phases.append((tracer.mark(), name)))
    end = time.perf_counter_ns()
    tracer.finish()
    row = tracer.rows(1, 0, phases)
    return row, {number: text for (_, text), number in names.items()}, (begin, end)


@pytest.mark.parametrize("mode", MODES)
def test_events_lie_within_the_step_and_say_what_ran(mode: str, lenet: Path) -> None:
    """To the 50 microseconds by which the clock of events may be off the recorder's."""
    row, texts, (begin, end) = traced(lenet, mode, on_gpu=False)
    assert not row.device_rows
    rows = [
        dict(zip(OPERATION_FIELDS, each, strict=True)) for each in OPERATION.iter_unpack(row.rows)
    ]
    kinds = {texts[each["kind"]] for each in rows}
    assert {"convolution", "pooling", "matrix product", "loss", "data movement"} <= kinds
    assert "other" not in kinds
    layers = {texts[each["layer"]] for each in rows if each["layer"] >= 0}
    assert {"features.0", "classifier.5"} <= layers
    assert {texts[each["phase"]] for each in rows} == {"forward", "backward", "optimizer"}
    off = 50_000
    for each in rows:
        assert begin - off <= each["start_ns"] <= each["end_ns"] <= end + off
    queue = sorted((each["start_ns"], each["end_ns"]) for each in rows if each["thread"] == 0)
    assert all(first[1] <= then[0] + 1000 for first, then in pairwise(queue))


def test_work_of_a_gpu_is_launched_by_calls_of_the_host(lenet: Path) -> None:
    row, texts, _ = traced(lenet, RESIDENT, on_gpu=True)
    calls = [
        dict(zip(OPERATION_FIELDS, each, strict=True)) for each in OPERATION.iter_unpack(row.rows)
    ]
    works = [
        dict(zip(DEVICE_OPERATION_FIELDS, each, strict=True))
        for each in DEVICE_OPERATION.iter_unpack(row.device_rows)
    ]
    assert len(calls) == len(works)
    assert {texts[each["kind"]] for each in calls} == {"runtime call"}
    assert {texts[each["processor"]] for each in works} == {"gpu0"}
    for work in works:
        assert calls[work["launch"]]["start_ns"] <= work["start_ns"] + 50_000

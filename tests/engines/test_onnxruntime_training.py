"""ONNX Runtime trains as torch does, without torch, and tells its operations."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engines.exporting import export
from tests.refusals import refused

from wattstep import workloads
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.onnxruntime.engine import ENGINE
from wattstep.schema.journal import OPERATION, OPERATION_FIELDS
from wattstep.schema.workload import Preparation

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
if (REASON := ENGINE.missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)
ENGINE.load()

from wattstep.engines.onnxruntime.tracer import OnnxRuntimeTracer  # noqa: E402
from wattstep.engines.onnxruntime.trainer import OnnxRuntimeTrainer  # noqa: E402


@pytest.fixture(scope="module")
def lenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("lenet"), "lenet", 4)


exported = partial(export, ENGINE)


def opened(place: Path) -> OnnxRuntimeTrainer:
    trainer = ENGINE.open(ExportedFolder(place), 1)
    assert isinstance(trainer, OnnxRuntimeTrainer)
    return trainer


@pytest.mark.parametrize(
    ("name", "batch", "of"),
    [
        ("lenet", 16, {}),
        ("resnet8", 4, {}),
        pytest.param("resnet8", 16, {}, marks=pytest.mark.long),
        ("ds-cnn", 4, {}),
        ("autoencoder", 16, {}),
        ("char-cnn", 4, {}),
        ("vit-tiny", 4, {"image_size": 32}),
        ("mobilenetv3-small", 4, {"image_size": 64}),
    ],
)
def test_networks_train_as_in_torch_and_every_parameter_moves(
    name: str, batch: int, of: dict[str, Any], tmp_path: Path
) -> None:
    place = exported(tmp_path, name, batch, **of)
    trainer = opened(place)
    before = trainer.weights()
    trainer.step()
    after = trainer.weights()
    for each in trainer.training.parameters:
        assert each.trainable == (not np.array_equal(before[each.name], after[each.name]))


def test_a_wrong_gradient_of_one_parameter_is_found(tmp_path: Path) -> None:
    from tests.engines.broken_onnxruntime import BrokenEngine

    with refused("wrong-training", "classifier.1.weight"):
        BrokenEngine().export(workloads.find("lenet"), Preparation(batch_size=4), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_running_statistics_are_those_of_torch(tmp_path: Path) -> None:
    from wattstep.engines.torch.export.source import Source

    place = exported(tmp_path, "resnet8", 4)
    trainer = opened(place)
    source = Source(workloads.find("resnet8"), Preparation(batch_size=4))
    inputs, _ = source.batch(0)
    with torch.no_grad():
        source.network(inputs)
    trainer.step()
    mine = trainer.weights()
    for name, value in source.network.model.named_buffers():
        if "running" in name:
            np.testing.assert_allclose(mine[name], value.numpy(), rtol=1e-5, atol=1e-6)


def test_torch_is_not_in_the_process_that_trains(lenet: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from wattstep import engines;"
        "from wattstep.engines.exported.folder import ExportedFolder;"
        "engine = engines.find('onnxruntime'); engine.load();"
        "trainer = engine.open(ExportedFolder(Path(sys.argv[1])), 1);"
        "trainer.step(); trainer.step();"
        "assert not {'torch', 'onnx'} & set(sys.modules), 'loaded'"
    )
    subprocess.run([sys.executable, "-c", code, str(lenet)], check=True, timeout=600)


def test_a_traced_step_tells_all_operations_and_changes_nothing(
    lenet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plain, traced = opened(lenet), opened(lenet)
    names: dict[tuple[str, str], int] = {}

    def code(table: str, text: str) -> int:
        return names.setdefault((table, text), len(names))

    tracer = OnnxRuntimeTracer(code)
    tracer.learn(traced.model, alone=True)
    phases: list[tuple[int, str]] = []
    for step in range(3):
        plain.step()
        if step != 1:
            traced.step()
            continue
        tracer.start()
        begin = time.perf_counter_ns()
        traced.step(lambda name: phases.append((tracer.mark(), name)))
        end = time.perf_counter_ns()
        tracer.finish()
    row = tracer.rows(1, 0, phases)
    texts = {number: text for (_, text), number in names.items()}
    rows = [
        dict(zip(OPERATION_FIELDS, each, strict=True)) for each in OPERATION.iter_unpack(row.rows)
    ]
    assert {texts[each["phase"]] for each in rows} == {"forward", "backward", "optimizer"}
    kinds = {texts[each["kind"]] for each in rows}
    assert {"convolution", "pooling", "activation", "matrix product", "loss", "optimizer"} <= kinds
    assert "other" not in kinds
    assert sum(texts[each["name"]] == "ConvGrad" for each in rows) == 2
    for each in rows:
        assert (
            begin - 2_000 - row.clock_uncertainty_ns
            <= each["start_ns"]
            <= each["end_ns"]
            <= end + 2_000
        )
    for name, value in plain.weights().items():
        np.testing.assert_array_equal(traced.weights()[name], value)
    assert not list(tmp_path.iterdir())


def test_what_training_keeps_is_told(lenet: Path) -> None:
    sizes = opened(lenet).memory()
    assert sizes["parameters"] == 4 * 61_706  # of LeNet-5 as it is known
    assert sizes["buffers"] == 0
    assert sizes["gradients"] == sizes["optimizer_state"]  # one momentum for each
    assert (
        0 <= sizes["gradients"] - sizes["parameters"] <= 10 * 60
    )  # each begins at a line of the cache


def test_a_window_that_is_given_up_leaves_the_training_as_it_was(lenet: Path) -> None:
    trainer, other = opened(lenet), opened(lenet)
    tracer = OnnxRuntimeTracer(lambda table, text: 0)
    tracer.learn(trainer.model, alone=True)
    trainer.step()
    tracer.start()
    tracer.cancel()
    right = [other.step() for _ in range(3)]
    assert [trainer.step() for _ in range(2)] == right[1:]

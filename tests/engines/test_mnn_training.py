"""MNN trains as torch does, without torch, and tells its operations."""

from __future__ import annotations

import subprocess
import sys
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
from wattstep.engines.mnn.engine import ENGINE
from wattstep.schema.journal import OPERATION, OPERATION_FIELDS
from wattstep.schema.workload import OptimizerSettings, Preparation

pytest.importorskip("torch")
pytest.importorskip("onnx")
if (REASON := ENGINE.missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)
ENGINE.load()

from wattstep.engines.mnn.trainer import MnnTrainer  # noqa: E402


@pytest.fixture(scope="module")
def lenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("lenet"), "lenet", 4)


exported = partial(export, ENGINE)


def opened(place: Path) -> MnnTrainer:
    trainer = ENGINE.open(ExportedFolder(place), 1)
    assert isinstance(trainer, MnnTrainer)
    return trainer


@pytest.mark.parametrize(
    ("name", "batch", "of"),
    [
        ("lenet", 16, {}),
        ("resnet8", 4, {}),
        pytest.param("resnet8", 16, {}, marks=pytest.mark.long),
        ("ds-cnn", 4, {}),
        pytest.param("ds-cnn", 16, {}, marks=pytest.mark.long),
        ("autoencoder", 4, {}),
        pytest.param("autoencoder", 16, {}, marks=pytest.mark.long),
    ],
)
def test_networks_train_as_in_torch_and_every_parameter_moves(
    name: str, batch: int, of: dict[str, Any], tmp_path: Path
) -> None:
    trainer = opened(exported(tmp_path, name, batch, **of))
    before = trainer.weights()
    trainer.step()
    after = trainer.weights()
    assert set(after) == {each.name for each in trainer.training.parameters if each.trainable}
    for parameter in after:
        assert not np.array_equal(before[parameter], after[parameter])


@pytest.mark.parametrize(
    "optimizer",
    [
        "sgd,lr=0.01",
        "sgd,lr=0.01,momentum=0.9,nesterov=1,weight_decay=0.01",
        "adam,lr=0.001,weight_decay=0.01",
        "adamw,lr=0.001,weight_decay=0.1",
        "rmsprop,lr=0.001,alpha=0.9,momentum=0.9,weight_decay=0.01,eps=0.001,centered=1",
    ],
)
def test_optimizers_are_those_of_torch(optimizer: str, tmp_path: Path) -> None:
    exported(tmp_path, "lenet", 4, optimizer=OptimizerSettings.parse(optimizer))


def test_a_wrong_gradient_of_one_parameter_is_found(tmp_path: Path) -> None:
    from tests.engines.broken_mnn import BrokenEngine

    with refused("wrong-training", "classifier.1.weight"):
        BrokenEngine().export(workloads.find("lenet"), Preparation(batch_size=4), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_parameters_whose_gradient_mnn_cuts_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wattstep.engines.mnn.export.REWRITES", ())  # flatten stays as it is
    with refused("no-gradient", "4 of 10", "features.0.weight"):
        ENGINE.export(workloads.find("lenet"), Preparation(batch_size=4), tmp_path / "out")


def test_torch_is_not_in_the_process_that_trains_and_nothing_is_printed(lenet: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from wattstep import engines;"
        "from wattstep.engines.exported.folder import ExportedFolder;"
        "engine = engines.find('mnn'); engine.load();"
        "trainer = engine.open(ExportedFolder(Path(sys.argv[1])), 1);"
        "trainer.step(); trainer.step();"
        "assert not {'torch', 'onnx', 'MNN.tools'} & set(sys.modules), 'loaded'"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(lenet)], capture_output=True, check=True, timeout=600
    )
    assert (done.stdout, done.stderr) == (b"", b"")


def test_a_traced_step_tells_all_operations_and_changes_nothing(lenet: Path) -> None:
    plain = opened(lenet)
    traced = opened(lenet)  # the engine's tracer follows the last one
    names: dict[tuple[str, str], int] = {}

    def code(table: str, text: str) -> int:
        return names.setdefault((table, text), len(names))

    tracer = ENGINE.tracer(code)
    texts: dict[int, str] = {}
    windows = []
    for step in range(4):
        plain.step()
        if step == 0:
            traced.step()
            continue
        phases: list[tuple[int, str]] = []
        tracer.start()
        begin = time.perf_counter_ns()
        traced.step(lambda name, phases=phases: phases.append((tracer.mark(), name)))  # type: ignore[misc]
        end = time.perf_counter_ns()
        tracer.finish()
        row = tracer.rows(step, step, phases)
        texts = {number: text for (_, text), number in names.items()}
        rows = [
            dict(zip(OPERATION_FIELDS, each, strict=True))
            for each in OPERATION.iter_unpack(row.rows)
        ]
        ends = [begin - 2_000 - row.clock_uncertainty_ns]
        for each in rows:  # one after the other, within the step
            assert ends[-1] - 2_000 <= each["start_ns"] <= each["end_ns"]
            ends.append(each["end_ns"])
        assert ends[-1] <= end + 2_000 + row.clock_uncertainty_ns
        windows.append(rows)
    assert [[each["name"] for each in rows] for rows in windows[1:]] == [
        [each["name"] for each in windows[0]]
    ] * 2
    assert {texts[each["phase"]] for each in rows} == {"forward", "backward", "optimizer"}
    kinds = [texts[each["kind"]] for each in rows]
    assert {"pooling", "activation", "loss", "optimizer", "data movement"} <= set(kinds)
    assert kinds.count("convolution") == 2  # and three products
    assert kinds.count("convolution weight gradient") == 2
    assert kinds.count("convolution input gradient") == 1  # none of the images
    assert kinds.count("matrix product") == 3 * 3
    for name, value in plain.weights().items():
        np.testing.assert_array_equal(traced.weights()[name], value)


def test_weights_are_read_without_a_step(lenet: Path) -> None:
    trainer = opened(lenet)
    initial = trainer.folder.weights()
    for name, value in trainer.weights().items():
        np.testing.assert_array_equal(value, initial[name])
    losses = [trainer.step(), trainer.step()]
    trainer.weights()
    other = opened(lenet)
    assert [*losses, trainer.step()] == [other.step() for _ in range(3)]


def test_the_session_tells_its_memory(lenet: Path) -> None:
    trainer = opened(lenet)
    parameters = sum(value.nbytes for value in trainer.weights().values())
    assert trainer.session_bytes > 2 * parameters  # and momentum
    assert ENGINE.bytes_of_tensors(lambda address, size: 0) == trainer.session_bytes

"""MLX trains as torch does, without torch; what it does not make is refused."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engines.exporting import export
from tests.refusals import refused

from wattstep import workloads
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.mlx.engine import ENGINE
from wattstep.schema.workload import OptimizerSettings, Preparation

torch = pytest.importorskip("torch")
if (REASON := ENGINE.missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)
ENGINE.load()

import mlx.core as mx  # noqa: E402

from wattstep.engines.mlx.operations import OPERATIONS  # noqa: E402
from wattstep.engines.mlx.trainer import MlxTrainer  # noqa: E402

RMSPROP = OptimizerSettings(name="rmsprop", rate=1e-3, options={"momentum": 0.9})


exported = partial(export, ENGINE)


def opened(place: Path) -> MlxTrainer:
    trainer = ENGINE.open(ExportedFolder(place), 1)
    assert isinstance(trainer, MlxTrainer)
    return trainer


@pytest.mark.parametrize(
    ("name", "batch", "of"),
    [
        ("lenet", 4, {}),
        ("lenet", 16, {"optimizer": RMSPROP}),
        ("resnet8", 4, {}),
        ("ds-cnn", 4, {}),
        ("autoencoder", 16, {}),
        pytest.param("vit-tiny", 4, {"image_size": 32}, marks=pytest.mark.long),
    ],
)
def test_networks_train_as_in_torch_and_every_parameter_moves(
    name: str, batch: int, of: dict[str, Any], tmp_path: Path
) -> None:
    trainer = opened(exported(tmp_path, name, batch, **of))
    before = trainer.weights()
    trainer.step()
    after = trainer.weights()
    for each in trainer.training.parameters:
        assert each.trainable == (not np.array_equal(before[each.name], after[each.name]))


def test_layers_without_a_gradient_are_found(tmp_path: Path) -> None:
    from tests.engines.broken_mlx import BrokenEngine

    with refused("wrong-training", "features.0.weight"):
        BrokenEngine().export(workloads.find("lenet"), Preparation(batch_size=4), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_torch_is_not_in_the_process_that_trains(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from wattstep import engines;"
        "from wattstep.engines.exported.folder import ExportedFolder;"
        "engine = engines.find('mlx'); engine.load();"
        "trainer = engine.open(ExportedFolder(Path(sys.argv[1])), 1);"
        "trainer.step(); trainer.step();"
        "assert 'torch' not in sys.modules, 'loaded'"
    )
    place = exported(tmp_path, "lenet", 4)
    subprocess.run([sys.executable, "-c", code, str(place)], check=True, timeout=600)


def test_what_is_not_made_is_refused(tmp_path: Path) -> None:
    with refused("optimizer-not-for-engine", "adam8bit"):
        exported(tmp_path, "lenet", 4, optimizer=OptimizerSettings(name="adam8bit", rate=1e-3))
    with refused("cannot-export", "dcgan"):
        exported(tmp_path, "dcgan", 4)
    place = exported(tmp_path, "lenet", 4)
    with refused("threads-not-for-engine", "--threads 2"):
        ENGINE.open(ExportedFolder(place), 2)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("relu", ([-1.0, 0.0, 2.0],)),
        ("hardtanh", ([-1.0, 0.0, 3.0, 6.0, 7.0], 0.0, 6.0)),
        ("hardswish", ([-4.0, -1.0, 0.0, 2.0, 4.0],)),
        ("hardsigmoid", ([-4.0, -1.0, 0.0, 2.0, 4.0],)),
        ("gelu", ([-2.0, 0.0, 0.5],)),
        ("silu", ([-2.0, 0.0, 0.5],)),
    ],
)
def test_activations_have_torchs_values_and_slopes_also_at_their_corners(
    name: str, arguments: tuple[Any, ...]
) -> None:
    values, *more = arguments
    mine, slopes = mx.value_and_grad(lambda a: OPERATIONS[name](a, *more).sum())(mx.array(values))
    theirs = torch.tensor(values, requires_grad=True)
    total = getattr(torch.ops.aten, name)(theirs, *more).sum()
    total.backward()
    assert float(mine) == pytest.approx(total.item(), rel=1e-6)
    np.testing.assert_allclose(np.array(slopes), theirs.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ignored", [False, True])
def test_cross_entropy_of_classes_in_the_second_dimension(ignored: bool) -> None:
    draw = np.random.default_rng(0)
    scores = draw.normal(size=(3, 5, 4)).astype(np.float32)
    targets = draw.integers(0, 5, (3, 4))
    if ignored:
        targets[0, 0] = -100
    mine = OPERATIONS["cross_entropy_loss"](mx.array(scores), mx.array(targets))
    theirs = torch.nn.functional.cross_entropy(torch.tensor(scores), torch.tensor(targets))
    assert float(mine) == pytest.approx(float(theirs), rel=1e-6)

"""ExecuTorch trains as torch does, and tells its operations; its wrong gradients are found."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engines.exporting import export
from tests.refusals import refused

from wattstep.engines.executorch.engine import ENGINE
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.errors import MissingPartError
from wattstep.schema.journal import OPERATION, OPERATION_FIELDS
from wattstep.schema.workload import OptimizerSettings

torch = pytest.importorskip("torch")
try:
    ENGINE.load()
except MissingPartError as error:
    pytest.skip(str(error), allow_module_level=True)

from torch.nn import functional  # noqa: E402

from wattstep.engines.executorch.tracer import ExecuTorchTracer  # noqa: E402
from wattstep.engines.executorch.trainer import ExecuTorchTrainer  # noqa: E402
from wattstep.engines.torch.export.rewrites import Rewriting  # noqa: E402

exported = partial(export, ENGINE)


def opened(place: Path) -> ExecuTorchTrainer:
    trainer = ENGINE.open(ExportedFolder(place), 1)
    assert isinstance(trainer, ExecuTorchTrainer)
    return trainer


@pytest.fixture(scope="module")
def lenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("lenet"), "lenet", 4)


@pytest.mark.parametrize(
    ("name", "batch", "of"),
    [
        ("lenet", 16, {"optimizer": OptimizerSettings(name="adam", rate=1e-3)}),
        ("resnet8", 4, {}),
        ("ds-cnn", 4, {}),
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
    for each in trainer.training.parameters:
        assert each.trainable == (not np.array_equal(before[each.name], after[each.name]))


def test_gradients_of_max_pooling_itself_are_wrong_and_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 1.5.1; where a later version is right this test says so, and the rewrite can go."""
    from wattstep.engines.executorch import export

    kept = tuple(name for name in export._REWRITES if not name.startswith("max pool"))
    monkeypatch.setattr(export, "_REWRITES", kept)
    with refused("wrong-training", "executorch"):
        exported(tmp_path, "squeezenet", 2)


@pytest.mark.parametrize(
    "window",
    [(2, 2, 0, False), (3, 2, 1, False), (3, 1, 0, False), (3, 2, 0, True), (2, 2, 1, True)],
)
def test_max_pooling_by_comparisons_has_torchs_gradients_of_equal_values(
    window: tuple[int, int, int, bool],
) -> None:
    """Whole numbers from 0 to 2, so that most windows hold their largest value several times."""
    size, stride, padding, ceil = window
    images = torch.randint(0, 3, (2, 3, 9, 8), generator=torch.manual_seed(0)).float()
    pulled = []
    for names in ((), ("max pool by comparisons",)):
        values = images.clone().requires_grad_()
        with Rewriting(names):
            made = functional.max_pool2d(values, size, stride, padding, ceil_mode=ceil)
        weights = torch.arange(made.numel()).reshape(made.shape).float()
        (made * weights).sum().backward()
        pulled.append((made.detach(), values.grad))
    assert torch.equal(pulled[0][0], pulled[1][0])
    assert torch.equal(pulled[0][1], pulled[1][1])


def test_a_traced_step_tells_all_kernels_with_their_phases_and_changes_nothing(
    lenet: Path,
) -> None:
    plain, traced = opened(lenet), opened(lenet)
    names: dict[tuple[str, str], int] = {}

    def code(table: str, text: str) -> int:
        return names.setdefault((table, text), len(names))

    tracer = ExecuTorchTracer(code)
    tracer.learn(traced.model, alone=True)
    losses = [plain.step() for _ in range(3)]
    rows: Sequence[dict[str, Any]] = ()
    for step in range(3):
        tracer.start()
        marks: list[tuple[int, str]] = []

        def mark(name: str, marks: list[tuple[int, str]] = marks) -> None:
            marks.append((tracer.mark(), name))

        begin = time.perf_counter_ns()
        assert traced.step(mark) == losses[step]
        whole = time.perf_counter_ns() - begin
        tracer.finish()
        window = tracer.rows(step, step, marks)
        rows = [
            dict(zip(OPERATION_FIELDS, each, strict=True))
            for each in OPERATION.iter_unpack(window.rows)
        ]
        assert len(rows) == len(traced.model.kernels) + 10  # and of each parameter its update
    words = {number: text for (_, text), number in names.items()}
    phases = [words[row["phase"]] for row in rows]
    assert list(dict.fromkeys(phases)) == ["forward", "backward", "optimizer"]
    assert phases == sorted(phases, key=["forward", "backward", "optimizer"].index)
    assert {words[row["kind"]] for row in rows[-10:]} == {"optimizer"}
    spans = [(row["start_ns"], row["end_ns"]) for row in rows]
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    assert sum(end - begin for begin, end in spans) <= whole
    # 4 images of 28×28, 6 kernels of 5×5: 2 · 4 · 784 · 6 · 25.
    first = next(row for row in rows if words[row["name"]] == "aten::convolution")
    assert first["flops"] == 2 * 4 * 784 * 6 * 25


def test_events_asked_for_in_the_middle_leave_the_weights_as_they_are(lenet: Path) -> None:
    """The runtime loads the program anew for them; each loss is held against torch's all the while."""
    trainer = opened(lenet)
    for step in range(trainer.checked):
        if step == 4:
            trainer.model.tell_events()
        trainer.step()
    plain = opened(lenet)
    for _ in range(trainer.checked):
        plain.step()
    weights = plain.weights()
    assert all(np.array_equal(each, weights[name]) for name, each in trainer.weights().items())


def test_what_is_not_made_is_refused(tmp_path: Path, lenet: Path) -> None:
    with refused("optimizer-not-for-engine", "adam8bit"):
        exported(tmp_path, "lenet", 4, optimizer=OptimizerSettings(name="adam8bit", rate=1e-3))
    with refused("threads-not-for-engine", "--threads 2"):
        ENGINE.open(ExportedFolder(lenet), 2)

"""Precisions that need a GPU, what is set for them, and what the gradient scaler leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tests.refusals import refused

from wattstep.engines.torch import trainer as trainers
from wattstep.engines.torch.precision import check_hardware, set_tf32
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.schema.workload import Preparation, check_processing, kind_of
from wattstep.train.daily.settings import DailySettings
from wattstep.train.memory import FootprintSettings
from wattstep.train.settings import TrainingSettings
from wattstep.workloads.torch import find

CPU = torch.device("cpu")
COMPILER = "ignore:`torch.jit:DeprecationWarning"  # what torch's own compiler says of itself


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    matmul, cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    yield
    torch.set_float32_matmul_precision(matmul)
    torch.backends.cudnn.allow_tf32 = cudnn


def on_a_gpu(
    precision: str, monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int] = (8, 7)
) -> TorchTrainer:
    """A trainer that takes the CPU for a GPU, which computes the same."""
    monkeypatch.setattr(trainers, "find_device", lambda *_: SimpleNamespace(type="cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "Orin")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
    monkeypatch.setattr(trainers, "place", lambda *_: None)
    monkeypatch.setattr(trainers, "move", lambda batch, device: batch)
    autocast, scaler = torch.autocast, torch.amp.GradScaler
    monkeypatch.setattr(torch, "autocast", lambda name, **more: autocast("cpu", **more))
    monkeypatch.setattr(torch.amp, "GradScaler", lambda name, **more: scaler("cpu", **more))
    return TorchTrainer(
        find("lenet"), Preparation(batch_size=2), processor="cuda", precision=precision
    )


@pytest.mark.parametrize("settings", [TrainingSettings, DailySettings, FootprintSettings])
@pytest.mark.parametrize("precision", ["tf32", "amp-fp16"])
def test_what_a_cpu_has_not_is_refused_by_one_rule(settings: type, precision: str) -> None:
    size = {"batch_size": 2} if settings is FootprintSettings else {}
    with refused("precision-needs-gpu", f"--precision {precision}", "--processor cuda"):
        settings(workload="lenet", precision=precision, **size)
    settings(workload="lenet", precision=precision, processor="cuda:1", **size)
    with refused("unknown-processor", "--processor cuda:one", "cpu, cuda"):
        settings(workload="lenet", processor="cuda:one", **size)


def test_a_processor_of_several_is_of_its_kind() -> None:
    assert [kind_of(each) for each in ("cpu", "cuda", "cuda:12", "opencl:1")] == [
        "cpu", "cuda", "cuda", "opencl",
    ]  # fmt: skip
    for wrong in ("cpu:1", "cuda:", "cuda:-1", "tpu"):
        with refused("unknown-processor", "cpu, cuda"):
            check_processing(wrong, "fp32", ("cpu", "cuda"))


@pytest.mark.parametrize("precision", ["tf32", "bf16", "amp"])
def test_hardware_that_begins_with_ampere_is_refused_before(precision: str) -> None:
    with refused("precision-needs-newer-gpu", "NVIDIA Tegra X2", "6.2"):
        check_hardware(precision, "NVIDIA Tegra X2", (6, 2))
    check_hardware(precision, "Orin", (8, 7))


def test_fp32_and_amp_fp16_run_on_all() -> None:
    for precision in ("fp32", "amp-fp16"):
        check_hardware(precision, "NVIDIA Tegra X1", (5, 3))


def test_tf32_is_on_where_it_is_asked_for_and_nowhere_else() -> None:
    assert set_tf32(True) == {"matmul_precision": "high", "cudnn_allow_tf32": True}
    assert torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cudnn.allow_tf32
    assert set_tf32(False) == {"matmul_precision": "highest", "cudnn_allow_tf32": False}
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32


def test_a_run_on_a_gpu_states_what_was_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    one = on_a_gpu("tf32", monkeypatch)
    assert one.options == {"matmul_precision": "high", "cudnn_allow_tf32": True}
    assert one.remarks() == []


def test_fp32_says_that_torchs_own_default_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    one = on_a_gpu("fp32", monkeypatch)
    assert one.options == {"matmul_precision": "highest", "cudnn_allow_tf32": False}
    (said,) = one.remarks()
    assert "cudnn.allow_tf32" in said


def test_fp32_on_a_gpu_without_tf32_has_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    assert on_a_gpu("fp32", monkeypatch, (6, 2)).remarks() == []


def test_updates_whose_gradients_overflow_are_left_out_counted_and_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = on_a_gpu("amp-fp16", monkeypatch)
    (update,) = one.training.updates
    whole, weights = update.loss, []

    def loss(batch: object) -> torch.Tensor:
        weights.append(next(one.model.parameters()).detach().clone())
        # A loss of 1e36 overflows once it is scaled by 65536: in the steps 1 and 3.
        return whole(batch) * (1e36 if len(weights) in (2, 4) else 1.0)

    monkeypatch.setattr(update, "loss", loss)
    for _ in range(5):
        one.step()
    kept = [bool(torch.equal(a, b)) for a, b in pairwise(weights)]
    assert kept == [False, True, False, True]  # after an update that is left out nothing moved
    (said,) = one.remarks()
    assert "in 2 of 5 updates" in said
    assert "(steps 1, 3, from 0)" in said
    assert "16384" in said  # 65536, halved twice
    one.save(tmp_path / "one.pt")
    other = on_a_gpu("amp-fp16", monkeypatch)
    other.load(tmp_path / "one.pt")
    assert other._scaling is not None
    assert other._scaling.state_dict()["scale"] == 16384


@pytest.mark.parametrize("name", ["dcgan", "ds-cnn", "dqn"])
def test_a_step_in_half_precision_with_its_scaler_has_a_finite_loss(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainers, "find_device", lambda *_: CPU)
    one = TorchTrainer(
        find(name), Preparation(batch_size=2, accumulate=2), processor="cpu", precision="amp-fp16"
    )
    assert torch.isfinite(torch.tensor([one.step() for _ in range(2)])).all()


def test_channels_last_lays_the_kernels_and_is_refused_without_any() -> None:
    one = TorchTrainer(find("lenet"), Preparation(batch_size=2, channels_last=True))
    kernels = [each for each in one.model.parameters() if each.dim() == 4 and each.shape[1] > 1]
    assert kernels
    assert all(each.is_contiguous(memory_format=torch.channels_last) for each in kernels)
    one.step()
    with refused("no-convolutions", "--channels-last", "char-cnn"):
        TorchTrainer(find("char-cnn"), Preparation(batch_size=2, channels_last=True))


@pytest.mark.filterwarnings(COMPILER)
@pytest.mark.parametrize("name", ["lenet", "dcgan"])
def test_a_compiled_model_trains_as_the_plain_one(name: str) -> None:
    plain = TorchTrainer(find(name), Preparation(batch_size=2))
    compiled = TorchTrainer(find(name), Preparation(batch_size=2, compiled=True))
    parameters = list(compiled.model.parameters())
    expected = [plain.step() for _ in range(3)]
    assert [compiled.step() for _ in range(3)] == pytest.approx(expected, rel=1e-3)
    assert list(compiled.model.state_dict()) == list(plain.model.state_dict())
    assert all(a is b for a, b in zip(parameters, compiled.model.parameters(), strict=True))


@pytest.mark.filterwarnings(COMPILER)
def test_what_cannot_be_compiled_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.exc import InductorError

    one = TorchTrainer(find("lenet"), Preparation(batch_size=2, compiled=True))
    (update,) = one.training.updates

    def fails(batch: object) -> torch.Tensor:
        raise InductorError(RuntimeError("No working C++ compiler found"), lambda: None)

    monkeypatch.setattr(update, "loss", fails)
    with refused("cannot-compile", "--compile", "No working C"):
        one.step()

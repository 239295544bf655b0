"""The examples in docs/integrations.md run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from wattstep.record.recorder import Recorder
from wattstep.run import load

TEXT = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text(encoding="utf-8")


def example(heading: str) -> Any:
    """The code of a section."""
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    [code] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return compile(code, f"docs/integrations.md, {heading}", "exec")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def mine(elsewhere: Path) -> Path:
    with Recorder("runs/mine", trace="none") as recorder:
        for _ in range(5):
            with recorder.step(samples=1):
                sum(range(1000))
    return elsewhere / "runs" / "mine"


# What Lightning says of this machine and of so short a training, and asks of torch's older names.
@pytest.mark.filterwarnings("ignore::UserWarning:lightning")
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:")
def test_lightning(elsewhere: Path) -> None:
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, index: int) -> Any:
            return self.net(batch).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    names: dict[str, Any] = {
        "model": Model(),
        "loader": torch.utils.data.DataLoader(torch.randn(12, 4), batch_size=2),
    }
    exec(example("Lightning"), names)
    [path] = names["callback"].runs
    assert path.parent == elsewhere / "runs"
    assert load(path).series.steps.samples.tolist() == [2.0] * 6


def test_transformers(elsewhere: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": self.net(x).square().mean()}

    names: dict[str, Any] = {
        "model": Model(),
        "args": transformers.TrainingArguments(
            "out", per_device_train_batch_size=2, num_train_epochs=1, use_cpu=True,
            report_to="none", save_strategy="no", dataloader_pin_memory=False,
        ),
        "dataset": [{"x": torch.randn(4)} for _ in range(12)],
    }  # fmt: skip
    exec(example("Hugging Face's Trainer, and TRL"), names)
    [path] = names["callback"].runs
    assert load(path).series.steps.samples.tolist() == [2.0] * 6


def test_logging_a_recorded_run(mine: Path, elsewhere: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    exec(example("Figures in MLflow, Weights & Biases and TensorBoard"), {})
    assert any((elsewhere / "events").iterdir())


def test_a_run_at_the_end_of_a_cell(mine: Path) -> None:
    names: dict[str, Any] = {}
    exec(example("In a notebook"), names)
    assert "wattstep-run" in names["run"]._repr_html_()

"""Lightning's Trainer, one line: python examples/lightning_fit.py [FOLDER]."""

import sys

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

import wattstep


class Classifier(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Linear(64, 10)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        inputs, targets = batch
        return torch.nn.functional.cross_entropy(self.network(inputs), targets)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


folder = sys.argv[1] if len(sys.argv) > 1 else "runs"
samples = TensorDataset(torch.randn(800, 64), torch.randint(10, (800,)))
callback = wattstep.WattstepCallback(folder, power_model="vcpu")
trainer = Trainer(
    max_epochs=1,
    accelerator="cpu",
    callbacks=[callback],
    logger=False,
    enable_checkpointing=False,
    enable_model_summary=False,
)
trainer.fit(Classifier(), DataLoader(samples, batch_size=8))
print(wattstep.load(callback.runs[-1]).summary())

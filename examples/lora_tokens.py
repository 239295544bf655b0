"""A small language model fine-tuned with LoRA, joules a token: python examples/lora_tokens.py [FOLDER].

The model is made here, small and untrained, so that nothing is downloaded; put your own in its place.
"""

import sys

import torch
from torch import nn

import wattstep

LENGTH, BATCH, WORDS, RANK = 64, 4, 256, 4


class LoRA(nn.Module):
    """A frozen linear layer with a trained update of low rank (Hu et al. 2021)."""

    def __init__(self, frozen: nn.Linear) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.down = nn.Linear(frozen.in_features, RANK, bias=False)
        self.up = nn.Linear(RANK, frozen.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.frozen(x) + self.up(self.down(x))


class Language(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width).requires_grad_(False)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.layers.requires_grad_(False)
        for each in self.layers.layers:
            each.linear1, each.linear2 = LoRA(each.linear1), LoRA(each.linear2)
        self.head = nn.Linear(width, WORDS).requires_grad_(False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.layers(self.words(tokens), mask=mask, is_causal=True))


folder = sys.argv[1] if len(sys.argv) > 1 else "runs/lora"
model = Language()
trained = [weight for weight in model.parameters() if weight.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=1e-3)
about = {"workload": "my-lora", "model": {"tokens_per_sample": LENGTH}}

with wattstep.Recorder(folder, power_model="vcpu", about=about) as recorder:
    for _ in range(100):
        tokens = torch.randint(WORDS, (BATCH, LENGTH + 1))
        with recorder.step(samples=BATCH):
            optimizer.zero_grad()
            told = model(tokens[:, :-1]).flatten(0, 1)
            nn.functional.cross_entropy(told, tokens[:, 1:].flatten()).backward()
            optimizer.step()

metrics = wattstep.load(folder).metrics
print(f"{sum(map(torch.numel, trained)):,} weights are trained")
print(f"tokens a second  {metrics['tokens_per_second']}")
print(f"joules a token   {metrics['energy_per_token']}")

"""LoRA fine-tuning: GPT-2 stays as it is, and small matrices beside its attention learn."""

from __future__ import annotations

import math

from torch import Tensor, nn

from wattstep.schema.extras import require

RANK = 8
# Hu et al., appendix D, for GPT-2: what the product is multiplied with is ALPHA / RANK.
ALPHA = 32
DROPOUT = 0.1


class Adapter(nn.Module):
    """A frozen projection, and a learnt one of low rank added to it.

    Source: Hu et al., arXiv 2106.09685, section 4.1: the second matrix is zero at first, so that
    training begins with the frozen model.

    Args:
        base: Maps (..., inputs) to (..., outputs).
        inputs: Width of what it takes.
        outputs: Width of what it gives.
    """

    def __init__(self, base: nn.Module, *, inputs: int, outputs: int) -> None:
        super().__init__()
        self.base = base
        self.dropout = nn.Dropout(DROPOUT)
        self.down = nn.Linear(inputs, RANK, bias=False)
        self.up = nn.Linear(RANK, outputs, bias=False)
        nn.init.kaiming_uniform_(self.down.weight, a=math.sqrt(5))
        nn.init.zeros_(self.up.weight)

    def forward(self, states: Tensor) -> Tensor:
        """Projections (..., outputs) of states (..., inputs)."""
        learnt = self.up(self.down(self.dropout(states)))
        projected: Tensor = self.base(states) + ALPHA / RANK * learnt
        return projected


class LoraGpt2(nn.Module):
    """GPT-2 small with an adapter at the projection to queries, keys and values of each layer.

    GPT-2 is that of the transformers library, with random weights.

    Raises:
        MissingPartError: transformers is not installed.

    Source: Hu et al., arXiv 2106.09685; adapted is what the peft library adapts by default.
    """

    def __init__(self) -> None:
        super().__init__()
        transformers = require("transformers")
        # Its defaults are GPT-2 small.
        config = transformers.GPT2Config(attn_implementation="sdpa", use_cache=False)
        self.gpt = transformers.GPT2LMHeadModel(config).requires_grad_(False)
        for layer in self.gpt.transformer.h:
            layer.attn.c_attn = Adapter(
                layer.attn.c_attn, inputs=config.n_embd, outputs=3 * config.n_embd
            )

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores (B, vocabulary, T) of the next token after each of tokens (B, T)."""
        scores: Tensor = self.gpt(tokens).logits
        return scores.transpose(1, 2)

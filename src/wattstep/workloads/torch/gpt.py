"""A small GPT on text: six blocks of causal self-attention over characters."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from wattstep.workloads.data.shakespeare import CHARACTERS

# The sizes and rates are those of nanoGPT's model of Shakespeare's characters.
WINDOW = 256
LAYERS = 6
HEADS = 6
WIDTH = 384
DROPOUT = 0.2
DEVIATION = 0.02
# The last weights of each part of a block: what they make is added up over the blocks.
ADDED = ("attention.merge.weight", "network.2.weight")


class Attention(nn.Module):
    """Causal self-attention with several heads.

    Source: Vaswani et al., arXiv 1706.03762, section 3.2.
    """

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.merge = nn.Linear(WIDTH, WIDTH, bias=False)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, states: Tensor) -> Tensor:
        """States (B, T, width) from those (B, T, width) up to each."""
        batch, length, width = states.shape
        heads = self.project(states).view(batch, length, 3, HEADS, width // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, dropout_p=DROPOUT if self.training else 0.0
        )
        merged: Tensor = self.dropout(self.merge(mixed.transpose(1, 2).reshape(states.shape)))
        return merged


class Block(nn.Module):
    """Attention and a network of two layers, each added to what came in.

    Source: Radford et al., Language models are unsupervised multitask learners, 2019, section 2.3.
    """

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH, bias=False)
        self.attention = Attention()
        self.network_norm = nn.LayerNorm(WIDTH, bias=False)
        self.network = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH, bias=False),
            nn.GELU(),
            nn.Linear(4 * WIDTH, WIDTH, bias=False),
            nn.Dropout(DROPOUT),
        )

    def forward(self, states: Tensor) -> Tensor:
        """States (B, T, width) from states (B, T, width)."""
        attended: Tensor = states + self.attention(self.attention_norm(states))
        summed: Tensor = attended + self.network(self.network_norm(attended))
        return summed


class Gpt(nn.Module):
    """Predicts each next character from up to 256 before it; without biases.

    Source: Radford et al. 2019, at the size of nanoGPT's model of Shakespeare's characters
    (github.com/karpathy/nanoGPT), which counts 10.65 M parameters without those of the places.
    """

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTERS, WIDTH)
        self.places = nn.Embedding(WINDOW, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        self._draw_weights()

    def forward(self, text: Tensor) -> Tensor:
        """Scores (B, characters, T) of the next character after each of text (B, T)."""
        places = torch.arange(text.shape[1], device=text.device)
        states = self.dropout(self.characters(text) + self.places(places))
        states = self.norm(self.blocks(states))
        # The embedding reads the characters, and writes them.
        return functional.linear(states, self.characters.weight).transpose(1, 2)

    def _draw_weights(self) -> None:
        """As Radford et al. 2019, section 2.3: less where blocks add up."""
        added = {f"blocks.{n}.{name}" for n in range(LAYERS) for name in ADDED}
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                share = math.sqrt(2 * LAYERS) if name in added else 1.0
                nn.init.normal_(weight, std=DEVIATION / share)

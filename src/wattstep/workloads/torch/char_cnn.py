"""Char-CNN on text: a convolution over characters, then two layers of LSTM."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from wattstep.workloads.data.shakespeare import CHARACTERS

EMBEDDING = 64
FILTERS = 128
KERNEL = 5
HIDDEN = 256


class CharCnn(nn.Module):
    """Predicts each next character from those before it.

    Source: after Kim et al., arXiv 1508.06615, where the convolution sums up words for the two
    layers of LSTM; here it sums up the last five characters at every character.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CHARACTERS, EMBEDDING)
        self.conv = nn.Conv1d(EMBEDDING, FILTERS, KERNEL)
        self.lstm = nn.LSTM(FILTERS, HIDDEN, num_layers=2, batch_first=True)
        self.head = nn.Linear(HIDDEN, CHARACTERS)

    def forward(self, text: Tensor) -> Tensor:
        """Scores (B, characters, T) of the next character after each of text (B, T)."""
        embedded = self.embedding(text).transpose(1, 2)
        # The margin is on the left alone: no output may see the character that it predicts.
        local = self.conv(functional.pad(embedded, (KERNEL - 1, 0)))
        states, _ = self.lstm(functional.relu(local).transpose(1, 2))
        scores: Tensor = self.head(states)
        return scores.transpose(1, 2)

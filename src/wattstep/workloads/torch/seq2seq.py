"""Seq2seq on sentences and their translations: two LSTMs and attention between them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from wattstep.workloads.data.iwslt import (
    END,
    SOURCE_WORDS,
    TARGET_WORDS,
)

UNITS = 512
LAYERS = 2
DROPOUT = 0.2


class Attention(nn.Module):
    """Global attention with the "general" score.

    Source: Luong, Pham and Manning, arXiv 1508.04025, section 3.1, equations 5, 7 and 8.
    """

    def __init__(self, *, units: int) -> None:
        super().__init__()
        self.score = nn.Linear(units, units, bias=False)
        self.combine = nn.Linear(2 * units, units, bias=False)

    def forward(self, states: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        """Attentional states (B, T, units).

        Args:
            states: Of the decoder (B, T, units).
            memory: States of the encoder (B, S, units).
            padding: Where the memory holds no word (B, S).
        """
        scores = states @ self.score(memory).transpose(1, 2)
        weights = scores.masked_fill(padding[:, None], float("-inf")).softmax(dim=2)
        attentional: Tensor = self.combine(torch.cat((weights @ memory, states), dim=2)).tanh()
        return attentional


class Seq2Seq(nn.Module):
    """Encoder and decoder of two layers of LSTM, with attention; no input feeding.

    Source: Luong, Brevdo and Zhao, TensorFlow NMT tutorial (github.com/tensorflow/nmt), with its
    vocabularies, and its 512 units in one direction. Without input feeding (an option of Luong et
    al., section 3.3) the decoder runs as one operation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(SOURCE_WORDS, UNITS)
        self.target = nn.Embedding(TARGET_WORDS, UNITS)
        self.encoder = nn.LSTM(UNITS, UNITS, LAYERS, batch_first=True, dropout=DROPOUT)
        self.decoder = nn.LSTM(UNITS, UNITS, LAYERS, batch_first=True, dropout=DROPOUT)
        self.attention = Attention(units=UNITS)
        self.head = nn.Linear(UNITS, TARGET_WORDS, bias=False)

    def forward(self, pairs: Tensor) -> Tensor:
        """Scores (B, words, T) of the next word of the translation after each.

        Args:
            pairs: (B, 2, T) the sentence, and the translation behind the begin mark.
        """
        heard, spoken = pairs.unbind(dim=1)
        padding = heard == END
        words = (~padding).sum(dim=1).clamp(min=1)
        # Packed, so that the last state is that after the last word, not after the padding.
        packed = pack_padded_sequence(
            self.source(heard), words.cpu(), batch_first=True, enforce_sorted=False
        )
        outputs, last = self.encoder(packed)
        memory, _ = pad_packed_sequence(outputs, batch_first=True, total_length=heard.shape[1])
        states, _ = self.decoder(self.target(spoken), last)
        scores: Tensor = self.head(self.attention(states, memory, padding))
        return scores.transpose(1, 2)

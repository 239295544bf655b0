"""BERT of twelve layers on questions whose answers are marked in a text."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wattstep.schema.extras import require
from wattstep.workloads.data.words import PAD, SEPARATE


class Bert(nn.Module):
    """BERT-base with two scores for each word: that the answer begins, and that it ends, there.

    The encoder is that of the transformers library, with random weights. Its linear layers take
    the time and hold the parameters (85 of 109 M), the embedding is a look-up.

    Raises:
        MissingPartError: transformers is not installed.

    Source: Devlin et al., arXiv 1810.04805, sections 3 and 4.2.
    """

    def __init__(self) -> None:
        super().__init__()
        transformers = require("transformers")
        # Its defaults are BERT-base.
        config = transformers.BertConfig(attn_implementation="sdpa")
        self.answering = transformers.BertForQuestionAnswering(config)

    def forward(self, words: Tensor) -> Tensor:
        """Scores (B, T, 2) of words (B, T): [CLS], question, [SEP], text, [SEP], padding."""
        real = words != PAD
        marks = words == SEPARATE
        # The text is what lies behind the first mark, the second mark included.
        behind = (marks.cumsum(dim=1) - marks.long() > 0) & real
        # As the library makes it of `real`, but for its look at whether anything is padded at all: a step would
        # depend on values, and wait for them.
        seen = real[:, None, None, :].expand(-1, -1, words.shape[1], -1)
        output = self.answering(words, attention_mask=seen, token_type_ids=behind.long())
        return torch.stack((output.start_logits, output.end_logits), dim=2)

"""Char-CNN on text: a convolution over characters, then two layers of LSTM."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from wattstep.records.workload import Preparation, Training, WorkloadFacts
from wattstep.workloads.data.shakespeare import CHARACTERS, WINDOW, read_text
from wattstep.workloads.supervised import SupervisedTraining, build_on

EMBEDDING = 64
FILTERS = 128
KERNEL = 5
HIDDEN = 256
# Our own choice: the largest at which the first steps of a small batch still go down.
RATE, RATE_BATCH = 2e-3, 16


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


class CharCnnWorkload:
    """Char-CNN with Adam."""

    facts = WorkloadFacts(
        name="char-cnn",
        title="Char-CNN",
        domain="language",
        task="prediction of the next character",
        dominant_layer="LSTM + conv",
        dataset="Shakespeare",
        input_shape=(WINDOW,),
        source="Kim et al., Character-aware neural language models, arXiv 1508.06615",
    )

    def build(self, *, classes: int | None, image_size: int | None) -> CharCnn:
        """As `Workload.build`; the characters are always the 128 of ASCII."""
        return CharCnn()

    def prepare(self, preparation: Preparation) -> Training:
        """As `Workload.prepare`; seeds torch's own generator."""
        model = build_on(self, preparation)
        return SupervisedTraining(
            samples=read_text(preparation.data_dir),
            model=model,
            optimizer=torch.optim.Adam(
                model.parameters(), lr=preparation.rate(RATE, at_batch=RATE_BATCH)
            ),
            encode=Tensor.long,
            preparation=preparation,
        )


WORKLOAD = CharCnnWorkload()

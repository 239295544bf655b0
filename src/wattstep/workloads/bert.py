"""BERT of twelve layers on questions whose answers are marked in a text."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wattstep.parts import load_part
from wattstep.records.workload import Preparation, Training, WorkloadFacts
from wattstep.workloads.data.squad import LENGTH, read_questions
from wattstep.workloads.data.words import PAD, SEPARATE
from wattstep.workloads.supervised import SupervisedTraining, build_on, trainable

# As its authors publish it for SQuAD (github.com/google-research/bert).
RATE, RATE_BATCH = 3e-5, 12
DECAY = 0.01
# A small processor takes seconds for each; an evaluation should not outlast ten steps.
JUDGED = 32


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
        transformers = load_part("transformers")
        # Its defaults are BERT-base.
        config = transformers.BertConfig(attn_implementation="sdpa")
        self.answering = transformers.BertForQuestionAnswering(config)

    def forward(self, words: Tensor) -> Tensor:
        """Scores (B, T, 2) of words (B, T): [CLS], question, [SEP], text, [SEP], padding."""
        real = words != PAD
        marks = words == SEPARATE
        # The text is what lies behind the first mark, the second mark included.
        behind = (marks.cumsum(dim=1) - marks.long() > 0) & real
        found = self.answering(words, attention_mask=real, token_type_ids=behind.long())
        return torch.stack((found.start_logits, found.end_logits), dim=2)


class BertWorkload:
    """BERT with AdamW.

    The TX2 paper calls the embedding its dominant layer; see `Bert` for what is.
    """

    facts = WorkloadFacts(
        name="bert",
        title="BERT (12 layers)",
        domain="language",
        task="finding the answer to a question in a text (its time goes to linear layers)",
        dominant_layer="embedding",
        dataset="SQuAD 1.1",
        input_shape=(LENGTH,),
        source="Devlin et al., BERT: pre-training of deep bidirectional transformers, arXiv 1810.04805",
    )

    def build(self, *, classes: int | None, image_size: int | None) -> Bert:
        """As `Workload.build`, without a download: the weights are random.

        Raises:
            MissingPartError: transformers is not installed.
        """
        return Bert()

    def prepare(self, preparation: Preparation) -> Training:
        """As `Workload.prepare`; seeds torch's own generator.

        The accuracy is the share of first and last places that are found.
        """
        model = build_on(self, preparation)
        rate = preparation.rate(RATE, at_batch=RATE_BATCH)
        return SupervisedTraining(
            samples=read_questions(preparation.data_dir),
            model=model,
            optimizer=torch.optim.AdamW(trainable(model), lr=rate, weight_decay=DECAY),
            encode=Tensor.long,
            preparation=preparation,
            evaluated=JUDGED,
        )


WORKLOAD = BertWorkload()

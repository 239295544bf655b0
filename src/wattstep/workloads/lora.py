"""LoRA fine-tuning: GPT-2 stays as it is, and small matrices beside its attention learn."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from wattstep.parts import load_part
from wattstep.records.workload import Preparation, Training, WorkloadFacts
from wattstep.workloads.data.samples import Samples, describe
from wattstep.workloads.data.shakespeare import WINDOW, read_text
from wattstep.workloads.data.words import byte_tokens
from wattstep.workloads.supervised import SupervisedTraining, build_on, trainable

RANK = 8
# Hu et al., appendix D, for GPT-2: what the product is multiplied with is ALPHA / RANK.
ALPHA = 32
DROPOUT = 0.1
RATE, RATE_BATCH = 2e-4, 8
DECAY = 0.01
# Each has 128 × 50,257 scores: 26 MB.
JUDGED = 16


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
        transformers = load_part("transformers")
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


class LoraWorkload:
    """LoRA with AdamW."""

    facts = WorkloadFacts(
        name="lora",
        title="LoRA fine-tuning of GPT-2 small",
        domain="language",
        task="prediction of the next byte",
        dominant_layer="linear",
        dataset="Shakespeare",
        input_shape=(WINDOW,),
        source="Hu et al., LoRA: low-rank adaptation of large language models, arXiv 2106.09685",
    )

    def build(self, *, classes: int | None, image_size: int | None) -> LoraGpt2:
        """As `Workload.build`, without a download: the frozen weights are random, too.

        Raises:
            MissingPartError: transformers is not installed.
        """
        return LoraGpt2()

    def prepare(self, preparation: Preparation) -> Training:
        """As `Workload.prepare`; seeds torch's own generator.

        Text is read as GPT-2's tokens of single bytes: longer ones need a file of merges, which
        would have to be downloaded.
        """
        model = build_on(self, preparation)
        rate = preparation.rate(RATE, at_batch=RATE_BATCH)
        return SupervisedTraining(
            samples=_tokenize(read_text(preparation.data_dir)),
            model=model,
            optimizer=torch.optim.AdamW(trainable(model), lr=rate, weight_decay=DECAY),
            encode=Tensor.long,
            preparation=preparation,
        )


def _tokenize(text: Samples) -> Samples:
    tokens = byte_tokens()
    held_out = text.held_out_inputs[:JUDGED], text.held_out_targets[:JUDGED]
    return describe(
        name=f"{text.facts.name}, in GPT-2's tokens of bytes",
        inputs=tokens[text.inputs],
        targets=tokens[text.targets],
        held_out=(tokens[held_out[0]], tokens[held_out[1]]),
        stands_for=text.facts.stands_for,
    )


WORKLOAD = LoraWorkload()

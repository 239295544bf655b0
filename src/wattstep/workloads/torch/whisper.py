"""Whisper-tiny on spoken words: an encoder hears thirty seconds, a decoder writes what was said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from wattstep.schema.extras import require
from wattstep.schema.workload import ParameterUpdate, Phase, Preparation, Specification
from wattstep.workloads.data.samples import Samples
from wattstep.workloads.data.sound import LOUDEST, RATE, hertz_slaney, mel_slaney
from wattstep.workloads.data.speech_commands import SILENCE, WORDS
from wattstep.workloads.data.words import byte_tokens
from wattstep.workloads.torch.supervised import Order, evaluating, spread
from wattstep.workloads.torch.workload import make_optimizer, read

# What it hears: Radford et al., arXiv 2212.04356, section 2.2.
SECONDS = 30
WINDOW, STEP, BANDS = 400, 160, 80
FRAMES = SECONDS * RATE // STEP
# What it writes: the marks of its multilingual vocabulary, whose first 256 tokens are bytes.
END, BEGIN, ENGLISH, TRANSCRIBE, NO_TIMES = 50_257, 50_258, 50_259, 50_359, 50_363
# Three marks, a space, the longest word and the end.
LENGTH = 3 + 1 + max(map(len, WORDS)) + 1
# What the loss leaves out: torch's own mark.
IGNORED = -100
JUDGED = 16
JUDGED_BATCH = 8


class Whisper(nn.Module):
    """Whisper-tiny: convolutions and four layers of encoder, four layers of decoder.

    It is that of the transformers library, with random weights.

    Raises:
        MissingPartError: transformers is not installed.

    Source: Radford et al., arXiv 2212.04356, table 1.
    """

    def __init__(self) -> None:
        super().__init__()
        transformers = require("transformers")
        config = transformers.WhisperConfig(
            d_model=384,
            encoder_layers=4,
            decoder_layers=4,
            encoder_attention_heads=6,
            decoder_attention_heads=6,
            encoder_ffn_dim=1536,
            decoder_ffn_dim=1536,
            num_mel_bins=BANDS,
            use_cache=False,
            pad_token_id=END,
            bos_token_id=END,
            eos_token_id=END,
            decoder_start_token_id=BEGIN,
            attn_implementation="sdpa",
        )
        self.transcriber = transformers.WhisperForConditionalGeneration(config)

    def forward(self, features: Tensor, written: Tensor) -> Tensor:
        """Scores (B, vocabulary, T) of the next token after each of `written` (B, T).

        Args:
            features: Log-mel (B, 80, 3000).
            written: Tokens, the begin mark first.
        """
        output = self.transcriber(input_features=features, decoder_input_ids=written)
        scores: Tensor = output.logits
        return scores.transpose(1, 2)


def log_mel() -> Callable[[Tensor], Tensor]:
    """The function from waveforms (B, N) of 16 bits to what Whisper hears (B, 80, 3000).

    Up to thirty seconds, the rest silence: power in 80 mel bands (Slaney's, of equal area) of Hann
    windows of 25 ms every 10 ms; logarithm to base 10, at most 8 below the loudest; shifted and
    scaled to about ±1.
    """
    edges = torch.from_numpy(hertz_slaney(np.linspace(0, float(mel_slaney(RATE / 2)), BANDS + 2)))
    low, middle, high = (edges[n : BANDS + n, None] for n in range(3))
    bins = torch.arange(WINDOW // 2 + 1) * (RATE / WINDOW)
    sides = torch.minimum((bins - low) / (middle - low), (high - bins) / (high - middle))
    filters = (sides.clamp(min=0) * 2 / (high - low)).float()
    hann = torch.hann_window(WINDOW)

    def compute(waveforms: Tensor) -> Tensor:
        sound = functional.pad(
            waveforms.float() / LOUDEST, (0, SECONDS * RATE - waveforms.shape[1])
        )
        waves = torch.stft(sound, WINDOW, STEP, window=hann, return_complex=True)
        # The last frame is centred on the end.
        powers = filters @ waves[..., :FRAMES].abs().square()
        levels = powers.clamp(min=1e-10).log10()
        loudest = levels.amax(dim=(1, 2), keepdim=True)
        return (torch.maximum(levels, loudest - 8) + 4) / 4

    return compute


def write_words() -> Tensor:
    """Target tokens of each of `WORDS`: (words, T) tokens, then `IGNORED`.

    Words are spelt in single bytes: longer tokens need a file of merges, which would have to be
    downloaded. Silence is an empty text.
    """
    tokens = byte_tokens()
    written = torch.full((len(WORDS), LENGTH), IGNORED)
    for place, word in zip(written, WORDS, strict=True):
        text = f" {word}".encode() if word != WORDS[SILENCE] else b""
        row = [ENGLISH, TRANSCRIBE, NO_TIMES, *(int(tokens[byte]) for byte in text), END]
        place[: len(row)] = torch.tensor(row)
    return written


class WhisperTraining:
    """Writing down what is heard, each token with those before it given; its one update is itself.

    Args:
        samples: Waveforms (N, 16000) and which of `WORDS` is said in each (N,).
        model: What learns.
        optimizer: Of its parameters.
        preparation: Batch size and seed are taken from it.
    """

    def __init__(
        self, *, samples: Samples, model: Whisper, optimizer: Optimizer, preparation: Preparation
    ) -> None:
        self.data = samples.facts
        self.model = model
        self.optimizer = optimizer
        self._sound = torch.from_numpy(samples.inputs)
        self._words = torch.from_numpy(samples.targets).long()
        judged = spread(len(samples.held_out_targets), JUDGED)
        self._held_out = (
            torch.from_numpy(samples.held_out_inputs)[judged],
            torch.from_numpy(samples.held_out_targets)[judged].long(),
        )
        self._hear = log_mel()
        self._written = write_words()
        self._batch_size = preparation.batch_size
        self._order = Order(samples=len(self._sound), seed=preparation.seed)

    @property
    def updates(self) -> Sequence[ParameterUpdate]:
        """Itself alone."""
        return (self,)

    def next_batch(self, phase: Phase) -> tuple[Tensor, Tensor]:
        """Features (B, 80, 3000) and what is to be written (B, T); all of it is data loading."""
        chosen = self._order.draw(self._batch_size)
        return self._hear(self._sound[chosen]), self._written[self._words[chosen]]

    def loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Cross entropy of the next token, in nats."""
        features, wanted = batch
        return functional.cross_entropy(self._scores(features, wanted), wanted)

    def _scores(self, features: Tensor, wanted: Tensor) -> Tensor:
        """In fp32, as the loss wants them."""
        before = wanted.roll(1, dims=1)
        before = before.masked_fill(before == IGNORED, END)
        before[:, 0] = BEGIN
        scores: Tensor = self.model(features, before).float()
        return scores

    def evaluate(self) -> Mapping[str, float]:
        """Mean loss, and the share of tokens that are right, over samples that are held out.

        These are spread evenly over all of them, and always the same.
        """
        sound, words = self._held_out
        starts = range(0, len(words), JUDGED_BATCH)
        parts = [slice(start, start + JUDGED_BATCH) for start in starts]
        with evaluating(self.model):
            judged = [self._judge(sound[part], words[part]) for part in parts]
        totals = [sum(column) for column in zip(*judged, strict=True)]
        if not judged:
            return {}
        loss, right, positions = totals
        figures = {"loss": loss / positions, "accuracy": right / positions}
        return {**figures, "judged": len(words), "positions": positions}

    def _judge(self, sound: Tensor, words: Tensor) -> tuple[float, int, int]:
        """Loss, added up over the tokens, those that are right, and all of them."""
        wanted = self._written[words]
        scores = self._scores(self._hear(sound), wanted)
        wanted = wanted.to(scores.device)
        total = functional.cross_entropy(scores, wanted, reduction="sum")
        right = scores.argmax(dim=1) == wanted
        return float(total), int(right.sum()), int((wanted != IGNORED).sum())


def learn_to_write(
    model: Whisper, specification: Specification, preparation: Preparation
) -> WhisperTraining:
    """The training of a model on the samples of its specification."""
    return WhisperTraining(
        samples=read(specification.samples, preparation),
        model=model,
        optimizer=make_optimizer(specification.optimizer, model, preparation),
        preparation=preparation,
    )

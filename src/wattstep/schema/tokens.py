"""Figures by token from figures by sample, of workloads whose samples are sequences of tokens."""

from __future__ import annotations

from dataclasses import replace

from wattstep.schema.figure import Figure


def tokens_per_second(throughput: Figure, tokens: int) -> Figure:
    """Tokens trained in a second.

    Args:
        throughput: Samples in a second.
        tokens: Of one sample as the model sees it, padding included.
    """
    return _scaled(throughput, float(tokens), "tokens/s", tokens)


def energy_per_token(energy_per_sample: Figure, tokens: int) -> Figure:
    """Energy of a token in J.

    Args:
        energy_per_sample: In J.
        tokens: As of `tokens_per_second`.
    """
    return _scaled(energy_per_sample, 1 / tokens, "J", tokens)


def _scaled(figure: Figure, by: float, unit: str, tokens: int) -> Figure:
    if figure.missing:
        return replace(figure, unit=unit)
    return replace(
        figure.scaled(by, unit), method=f"{figure.method}; a sample has {tokens:,} tokens"
    )

"""Speed and energy by token, of workloads whose samples are sequences of tokens."""

from __future__ import annotations

from dataclasses import replace

from wattstep.run.metrics import Parts
from wattstep.schema.figure import Figure


def tokens_per_second(run: Parts) -> Figure | None:
    """Tokens trained in a second: samples in a second times the tokens of one; None: not of tokens."""
    return _times(run, "throughput", "tokens/s", inverse=False)


def energy_per_token(run: Parts) -> Figure | None:
    """Energy of a token in J: that of a sample over its tokens; None: not of tokens."""
    return _times(run, "energy_per_sample", "J", inverse=True)


def _times(run: Parts, name: str, unit: str, *, inverse: bool) -> Figure | None:
    tokens = run.info.model.get("tokens_per_sample")  # as many as the model sees, padding included
    figure = run.metrics.figure(name)
    if not tokens or figure is None:
        return None
    if figure.missing:
        return replace(figure, unit=unit)
    by = 1 / tokens if inverse else float(tokens)
    return replace(
        figure.scaled(by, unit), method=f"{figure.method}; a sample has {tokens:,} tokens"
    )

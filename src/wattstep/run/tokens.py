"""Speed and energy by token, of runs whose samples are sequences of tokens."""

from __future__ import annotations

from wattstep.run.metrics import Parts
from wattstep.schema import tokens
from wattstep.schema.figure import Figure


def tokens_per_second(run: Parts) -> Figure | None:
    """Tokens trained in a second; None: not of tokens."""
    count, figure = _of(run, "throughput")
    return None if not count or figure is None else tokens.tokens_per_second(figure, count)


def energy_per_token(run: Parts) -> Figure | None:
    """Energy of a token in J; None: not of tokens."""
    count, figure = _of(run, "energy_per_sample")
    return None if not count or figure is None else tokens.energy_per_token(figure, count)


def _of(run: Parts, name: str) -> tuple[int | None, Figure | None]:
    return run.info.model.get("tokens_per_sample"), run.metrics.figure(name)

"""Splits the samples of a data set into what the server had and what each day brings."""

from __future__ import annotations

import random
from dataclasses import dataclass

from wattstep.errors import InvalidValueError
from wattstep.train.daily.settings import SERVER_BATCH, DailySettings


@dataclass(frozen=True, kw_only=True)
class Split:
    """Indices of samples; no two parts share one.

    Attributes:
        server: Samples that the model is pre-trained on.
        days: The new samples of each day.
        remembered: The part of `server` by which forgetting is told.
        held_out: The part of the held-out samples by which accuracy is told.
        labeled: What the labeler begins with; empty where labels are given.
    """

    server: tuple[int, ...]
    days: tuple[tuple[int, ...], ...]
    remembered: tuple[int, ...]
    held_out: tuple[int, ...]
    labeled: tuple[int, ...] = ()


def split(settings: DailySettings, samples: int, held_out: int) -> Split:
    """Draws the parts, by the seed alone: every batch size gets the same ones.

    Args:
        samples: How many there are to train on.
        held_out: How many there are to judge by.

    Raises:
        InvalidValueError: There are too few.
    """
    new = settings.days * settings.images_per_day
    apart = new + settings.set_apart
    if samples - apart < SERVER_BATCH:
        labeled = f", {settings.set_apart} are labeled" if settings.set_apart else ""
        raise InvalidValueError(
            f"{settings.days} days of {settings.images_per_day} images are {new} samples{labeled}; the data "
            f"has {samples}, and the server needs {SERVER_BATCH}: choose fewer --days or images",
            id="too-few-samples",
        )
    if not held_out:
        raise InvalidValueError(
            "this data has no held-out samples to judge the model by", id="no-held-out-samples"
        )
    draw = random.Random(settings.seed)
    order = draw.sample(range(samples), samples)
    server, rest = order[apart:], order[:new]
    size = settings.images_per_day
    return Split(
        server=tuple(server),
        days=tuple(tuple(rest[at : at + size]) for at in range(0, new, size)),
        remembered=tuple(server[: settings.judged]),
        labeled=tuple(order[new:apart]),
        held_out=tuple(draw.sample(range(held_out), min(held_out, settings.judged))),
    )

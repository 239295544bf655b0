"""Where parameters lie: one after the other in one array, so that an optimizer needs few operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import Final

from wattstep.engines.exported.folder import ExportedParameter

ALIGNED: Final = 16  # numbers, 64 bytes: a line of the cache
BLOCK: Final = 1 << 17  # numbers that one operation of the optimizer takes, which stay in a cache


@dataclass(frozen=True, kw_only=True)
class Block:
    """A piece of the array that is updated at once.

    Attributes:
        begin: Its first number.
        size: How many.
        decay: Weight decay of all of them.
    """

    begin: int
    size: int
    decay: float


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The array of all parameters that train.

    Attributes:
        places: First number of each parameter, by name.
        blocks: What is updated at once, in order.
        size: Numbers of the array, with those between parameters, which stay zero.
    """

    places: dict[str, int]
    blocks: Sequence[Block]
    size: int


def lay_out(parameters: Sequence[ExportedParameter]) -> Layout:
    """The layout of those that train: of one weight decay next to each other, each aligned."""
    trainable = sorted((each for each in parameters if each.trainable), key=lambda each: each.decay)
    places: dict[str, int] = {}
    blocks: list[Block] = []
    end = 0
    for decay, group in groupby(trainable, key=lambda each: each.decay):
        begin = end
        for each in group:
            places[each.name] = end
            end += -(-prod(each.shape) // ALIGNED) * ALIGNED
        blocks += [
            Block(begin=at, size=min(BLOCK, end - at), decay=decay)
            for at in range(begin, end, BLOCK)
        ]
    return Layout(places=places, blocks=blocks, size=end)

"""Which few samples a person should label: unsure ones that many others are like, and no labeled one."""

from __future__ import annotations

import numpy as np

from wattstep.labeling.arrays import TINY, Bools, Floats, Ints, squared_distances


def choose(space: Floats, doubt: Floats, settled: Bools, labeled: Floats, count: int) -> Ints:
    """Rows one after the other, each of which takes away most of the doubt around it.

    A label is taken to settle a sample by exp(-d² / s²), s the median distance to the tenth neighbour: what is
    left of the doubt of all samples is made as small as one more label can (a submodular cover, which greedy
    choice brings within 63 % of the best; Nemhauser et al. 1978). The labels that there are have settled what lies
    around them, so that each round of questions goes on where the last ended (as in ProbCover, Yehuda et al. 2022).

    Args:
        space: Samples in the space of distances, shape (n, d).
        doubt: Probability that each is labeled wrong, shape (n,).
        settled: Which have a label, shape (n,): they are not chosen.
        labeled: Labeled samples in the space of distances, shape (m, d).
        count: How many.
    """
    if settled.all():
        return np.empty(0, dtype=np.int64)
    squares = squared_distances(space, space)
    k = min(10, len(space) - 1)
    width = float(np.median(np.partition(squares, k, axis=1)[:, k])) + TINY
    settles = np.exp(-squares / width)
    left: Floats = doubt * np.prod(1 - np.exp(-squared_distances(space, labeled) / width), axis=1)
    chosen: list[int] = []
    for _ in range(min(count, int((~settled).sum()))):
        gains = np.where(settled, -np.inf, settles @ left)
        gains[chosen] = -np.inf
        best = int(gains.argmax())
        chosen.append(best)
        left = left * (1 - settles[best])
    return np.array(chosen, dtype=np.int64)

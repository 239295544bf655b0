"""Work without names: which stretches of it are alike, told by how long they and their pauses last.

A step of a training is a few stretches of work, each with its own power, and pauses between them.
They come round: a stretch is known by the lengths about it. Each place in the round is then a kind
of work, as if the trace had named it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from wattstep.importing.clocks.alignment import Floats, Longs
from wattstep.importing.clocks.alignment_fit import (
    SCREEN_SAMPLES,
    Fit,
    possible_widths,
    tells_no_more,
)
from wattstep.importing.clocks.alignment_grids import Search

_JOINED_S: Final = (0.0, 1e-3, 1e-2, 1e-1)  # pauses up to so long are taken for work
_FEWER: Final = 0.8  # of the stretches are left, at most, if joining them is to tell anything new
_LEAST_STRETCHES: Final = 16
_MOST_IN_A_ROUND: Final = 32
_MOST_COMPARED: Final = 1 << 22  # stretches times those in a round
_MORE_ALIKE: Final = 1.1  # a longer round is one that comes back so much more exactly
_ALIKE: Final = 0.01  # logarithms of lengths that differ by less are the same
_UNLIKE: Final = 1.0  # and by more, no more unlike: a pause may be of any length
_PARTS: Final = 8  # of a round, that may differ in power
_MOST_CELLS: Final = 1 << 23
_LEAST_S: Final = 1e-5
_LOOKS: Final = 97  # lags at which a round of work is tried, over one on each side
_WIDER: Final = 4.0  # windows up to so many times the best for constant power are tried with it
_WIDTHS_APART: Final = 2.5  # from one of them to the next


def told_by_place(fit: Fit) -> Fit | None:
    """The best nearby if power differs by place in a round of work, where that predicts better."""
    # A wrong window may have made power fit that was taken for constant.
    possible = possible_widths(fit.search)
    most = min(possible[-1], _WIDER * fit.width)
    many = 1 + math.ceil(math.log(most / possible[0], _WIDTHS_APART) - 1e-9)
    widths = np.geomspace(possible[0], most, many).tolist()
    best, best_r = fit, fit.predicted()[2]
    for search, lasts in by_place(fit.search):
        steps = np.linspace(-lasts, lasts, _LOOKS)
        other = best_near(replace(fit, search=search), steps, widths)
        if not tells_no_more(other, best_r):
            best, best_r = other, other.predicted()[2]
    return None if best is fit else best


def best_near(fit: Fit, steps: Floats, widths: Sequence[float]) -> Fit:
    """The best of these lags, in s from a fit's, and of these widths."""
    screen = replace(fit, search=fit.search.thinned(SCREEN_SAMPLES))
    near = [replace(screen, lag=fit.lag + x, width=w) for x in steps.tolist() for w in widths]
    return replace(max(near, key=Fit.resemblance), search=fit.search).refitted()


def by_place(search: Search) -> Iterator[tuple[Search, float]]:
    """With each place in the round as a kind of work, and how long a round lasts, in s.

    First as it is, then with pauses taken for work, ever longer ones.
    """
    stretches = np.inf
    for pause_s in _JOINED_S:
        work = _joined(search.work, pause_s)
        if _LEAST_STRETCHES <= work.shape[1] <= _FEWER * stretches:
            stretches = work.shape[1]
            place, places = round_of(work)
            lasts = float(np.median(work[0, places:] - work[0, :-places]))
            yield _with_kinds(search, *_parts(work, place, places)), lasts


def round_of(work: Floats) -> tuple[Longs, int]:
    """Place in the round of each stretch, and how many places there are.

    Args:
        work: Begin and length of each stretch in s, in order, shape (2, n).
    """
    pauses = np.append(work[0, 1:] - work[0, :-1] - work[1, :-1], 0.0)
    lengths = np.log(np.maximum([work[1], pauses], _LEAST_S))
    count = work.shape[1]
    most = min(_MOST_IN_A_ROUND, count // 4, max(1, _MOST_COMPARED // count))
    unlike = [_unlike(lengths[:, each:], lengths[:, :-each]) for each in range(1, most + 1)]
    means = np.array([float(each.mean()) for each in unlike])
    places = int(np.argmax(means <= _MORE_ALIKE * means.min() + _ALIKE)) + 1
    near = np.convolve(unlike[places - 1], np.ones(places), "valid")
    first = int(np.argmin(near))
    pattern = lengths[:, first : first + places]
    for _ in range(2):
        place = _matched(lengths, pattern)
        pattern = np.array([_median(lengths, place == each) for each in range(places)]).T
    return place, places


def _unlike(one: Floats, other: Floats) -> Floats:
    unlike: Floats = np.minimum(np.abs(one - other), _UNLIKE).sum(axis=0)
    return unlike


def _median(lengths: Floats, where: Floats) -> Floats:
    median: Floats = np.median(lengths[:, where], axis=1) if where.any() else np.full(2, np.inf)
    return median


def _matched(lengths: Floats, pattern: Floats) -> Longs:
    """The place of each stretch at which those about it are most like the pattern.

    Where a step is cut short or something comes between, the round begins anew.
    """
    count, places = lengths.shape[1], pattern.shape[1]
    place = (np.arange(count)[:, None] + np.arange(places)) % places  # by where the round began
    unlike = _unlike(lengths[:, :, None], pattern[:, place])
    total = np.cumsum(np.vstack([np.zeros(places), unlike]), axis=0)
    at = np.arange(count)
    about = total[np.minimum(at + places + 1, count)] - total[np.maximum(at - places, 0)]
    matched: Longs = place[at, np.argmin(about, axis=1)]
    return matched


def _joined(work: Floats, pause_s: float) -> Floats:
    """Those stretches taken as one between which a pause is no longer."""
    begins, ends = work[0], work[0] + work[1]
    apart = begins[1:] - ends[:-1] > pause_s
    first, last = np.append(True, apart), np.append(apart, True)
    joined: Floats = np.array([begins[first], ends[last] - begins[first]])
    return joined


def _parts(work: Floats, place: Longs, places: int) -> tuple[Floats, Longs]:
    """Begin and length of parts of stretches, long ones divided; and the kind of each."""
    spent = np.bincount(place, weights=work[1], minlength=places)
    divided = np.maximum(1, np.rint(_PARTS * spent / spent.sum())).astype(np.int64)
    count = divided[place]
    of = np.repeat(np.arange(len(place)), count)
    within = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    length = work[1, of] / count[of]
    kind = (np.cumsum(divided) - divided)[place[of]] + within
    if divided.sum() > _PARTS + _PARTS // 2:  # neighbours of many share one
        kind = kind * _PARTS // int(divided.sum())
    return np.array([work[0, of] + within * length, length]), kind


def _with_kinds(search: Search, parts: Floats, kind: Longs) -> Search:
    """The search with these kinds of work, on a coarser grid where it would be too large."""
    kinds = int(kind.max()) + 1
    stride = -(-len(search.cumulated) * kinds // _MOST_CELLS)
    cumulated, fine = search.cumulated[::stride], search.fine * stride
    grid: Floats = np.arange(len(cumulated)) * np.float64(fine)
    groups = np.empty((len(grid), kinds))
    for each in range(kinds):
        groups[:, each] = _busy(parts[:, kind == each], grid)
    return replace(search, cumulated=cumulated, groups=groups, fine=fine)


def _busy(parts: Floats, grid: Floats) -> Floats:
    """Busy seconds until each moment of a grid."""
    edges = np.array([parts[0], parts[0] + parts[1]]).T.ravel()
    total = np.cumsum(np.array([np.zeros(parts.shape[1]), parts[1]]).T.ravel())
    busy: Floats = np.interp(grid, edges, total)
    return busy

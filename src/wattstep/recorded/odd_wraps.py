"""Wraps of a counter of energy that gained otherwise than the steps beside them: it may start again elsewhere than it says."""

from __future__ import annotations

from typing import Final

import numpy as np

from wattstep.recorded.curves import Curve
from wattstep.recorded.odd_steps import TOLD, OddSteps
from wattstep.schema.arrays import BoolArray
from wattstep.schema.spelling import rounded

BESIDE: Final = 10  # new values on either side
MORE: Final = 1.5  # times what it gains beside them, at least
DEVIATIONS: Final = 3.0  # of their mean, by what other steps differ
SOON: Final = 0.25  # of a wrap, at least, is its usual step: several wraps may lie in one
AT_WRAPS: Final = (
    "{} grew by {} J in {} steps in which it started again from 0, and by {} J in as long beside: it may start again "
    "elsewhere than at {} J"
)
WRAPS_SOON: Final = (
    "{} starts again from 0 at {} J, and grows by {} J from one new value to the next: it may have started again in "
    "between, unseen"
)


def odd_wraps(name: str, curve: Curve, wrapped: BoolArray, wrap: float) -> list[OddSteps]:
    """Wraps of a counter in which it gained more than beside them, or that come so soon that some are not seen.

    Args:
        name: Of the counter.
        curve: What it counted, wraps undone.
        wrapped: Mask of its steps in which it showed less than before, shape (n - 1,).
        wrap: Where it starts again in J.
    """
    gained, known = np.diff(curve.total), np.diff(curve.covered_ns) > 0
    new = np.flatnonzero(known & (gained > 0))
    if len(new) <= 2 * BESIDE:
        return []
    usual = float(np.median(gained[new]))
    if usual >= SOON * wrap:
        note = WRAPS_SOON.format(name, rounded(wrap), rounded(usual))
        return [OddSteps(at=new[:0], off_j=gained[:0], note=note)]
    at = np.flatnonzero(wrapped[new])
    if not len(at):
        return []
    lasting = np.diff(curve.t_ns[new + 1], prepend=curve.t_ns[0]).astype(np.float64)
    others = ~wrapped[new]
    gain, time = (
        np.append(0.0, np.cumsum(np.where(others, each, 0.0))) for each in (gained[new], lasting)
    )
    first, last = np.maximum(at - BESIDE, 0), np.minimum(at + BESIDE + 1, len(new))
    beside = (gain[last] - gain[first]) / np.maximum(time[last] - time[first], 1.0) * lasting[at]
    own = gained[new][at]
    more = own - beside
    spread = float(np.std(gained[new][others] - gain[-1] / max(time[-1], 1.0) * lasting[others]))
    far = float(more.sum()) > DEVIATIONS * spread * len(at) ** 0.5
    if not far or own.sum() <= MORE * beside.sum() or more.sum() <= TOLD * gain[-1]:
        return []
    note = AT_WRAPS.format(
        name, rounded(float(own.sum())), len(at), rounded(float(beside.sum())), rounded(wrap)
    )
    return [OddSteps(at=new[at], off_j=-more, note=note)]

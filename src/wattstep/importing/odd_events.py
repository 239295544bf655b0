"""Events of a trace that cannot be what they say: of impossible length or date, or there twice."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wattstep.formats.trace import NONE, Events

Bools = NDArray[np.bool_]
LONGEST_NS: Final = 366 * 86_400 * 10**9
TOO_LONG: Final = "it lasts for more than a year"
TOO_FAR: Final = "it lies more than a year from the others"
TWICE: Final = "it stands in the file twice"
MANY: Final = 10  # events that last: so many do not all have a double by chance
_PRIME: Final = np.uint64(0x9E3779B97F4A7C15)


def odd_events(events: Events) -> dict[str, Bools]:
    """Masks of events that are left out, by reason; those of a reason that none has are not there."""
    too_long = events.end_ns - events.start_ns > LONGEST_NS
    usual = int(np.median(events.start_ns[~too_long])) if not too_long.all() else 0
    too_far = ~too_long & (np.abs(events.start_ns - usual) > LONGEST_NS)
    masks = {TOO_LONG: too_long, TOO_FAR: too_far, TWICE: _twice(events) & ~too_long & ~too_far}
    return {reason: mask for reason, mask in masks.items() if mask.any()}


def _twice(events: Events) -> Bools:
    """Mask of events that are in every column like an earlier one, in a file that was joined to itself.

    Two calls may look the same where a trace rounds their times; not where each has a number of its
    own, and not all of many. So all that are alike are doubles only where one of them has such a
    number and lasts, or where every one that lasts is there more than once.
    """
    nothing = np.zeros(len(events), bool)
    lasting = events.end_ns > events.start_ns
    numbered = lasting & ((events.correlation != NONE) | (events.external != NONE))
    key = np.zeros(len(events), np.uint64)
    for field in fields(Events):
        key ^= getattr(events, field.name).astype(np.uint64)
        key *= _PRIME
    in_order = np.sort(key)
    if not (in_order[1:] == in_order[:-1]).any():
        return nothing
    _, first, of, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    original = first[of]
    alike = original != np.arange(len(key))
    for field in fields(Events):
        column = getattr(events, field.name)
        alike &= column == column[original]
    joined = (
        lasting.any() and (count[of][lasting] > 1).all() and len(np.unique(of[lasting])) >= MANY
    )
    return alike if joined or (alike & numbered).any() else nothing

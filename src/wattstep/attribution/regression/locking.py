"""Phase lock between step and sampler: samples at a few places of the step only, so that what runs elsewhere is never seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wattstep.attribution.regression.timeline import places
from wattstep.schema.arrays import FloatArray

if (
    TYPE_CHECKING
):  # scipy takes half a second to load, which whoever asks for places need not wait for
    from wattstep.attribution.regression.observed import Observed

A_CELL = 6.0  # samples, if they fell anywhere alike
MOST_CELLS = 200
LEAST_CELLS = 4
LOCKED = 0.75  # of the cells are seen: at random, 99.8 % would be


def locked(observed: Observed, delay: float) -> str:
    """Description of a phase lock between step and sampler; "" where there is none.

    Args:
        observed: The samples.
        delay: Of the sensor in s.
    """
    seen, count = places_seen(_positions(observed, delay))
    if not count:
        return ""
    return (
        f"samples fall at {count} places of the step only ({100 * seen:.0f} % of it): step "
        f"and sampler are locked in phase; what differs between these places alone can be told. "
        "Let ticks be dithered, or choose a period that does not divide the step."
    )


def places_seen(position: FloatArray) -> tuple[float, int]:
    """Share of a step in which samples fall, and at how many places, 0 where at any.

    Args:
        position: Of each sample in its step, 0 to below 1, in any order, shape (n,).
    """
    position = np.sort(position)
    cells = int(min(len(position) / A_CELL, MOST_CELLS))
    if cells < LEAST_CELLS:
        return 1.0, 0
    seen = len(np.unique((position * cells).astype(np.int64)))
    return seen / cells, 0 if seen >= LOCKED * cells else _places(position)


def _positions(observed: Observed, delay: float) -> FloatArray:
    parts = []
    for line, each in zip(observed.lines, observed.readings, strict=True):
        where = places(line, observed.axis, each.end_s - delay)
        inside = where.inside & (line.phase[where.piece] >= 0)
        parts.append(np.clip(where.position[inside], 0.0, 1.0 - 1e-12))
    return np.concatenate(parts)


def _places(position: FloatArray) -> int:
    """Heaps of positions, with more between them than a sixth of an even spread would leave."""
    gaps = np.diff(np.append(position, position[0] + 1))
    even = np.sort(gaps)[::-1]
    # A gap counts that is longer than any among as many positions at random would be.
    longest = (np.log(len(position)) + 4) / len(position)
    return max(1, int((even > longest).sum()))

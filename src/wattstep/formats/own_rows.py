"""Columns of a log that have a value in few of its rows: the others are rows of other sensors, and no failed reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from wattstep.formats.recording import Recording

SELDOM: Final = 0.1  # of its values, at most, follow another in the next row
FEW: Final = (
    0.2  # of the rows, at most, have a value of it; where more have, most of these have no other's
)
OTHERS: Final = 0.9  # of the rows without it, at least, have a value of another column
SPARSE: Final = (
    "{} has a value in {} of {} rows, hardly ever in two that follow each other: the others are taken for rows of "
    "other sensors"
)


def own_rows(recording: Recording) -> Recording:
    """The recording whose channels have the rows alone that speak of them.

    A failed read is a gap on both sides. Tables that were joined by their times, in which each row
    is of one sensor, would be nothing but gaps. A sensor of which every second read fails is told
    from them by others that have values in its rows, too.
    """
    times, values, notes = dict(recording.t_ns), dict(recording.value), []
    for name, value in recording.value.items():
        known = np.isfinite(value)
        places = np.flatnonzero(known)
        together = int((np.diff(places) == 1).sum())
        if len(places) < 2 or known.all() or together > SELDOM * len(places):
            continue
        beside = np.zeros(len(value), bool)
        for other, its in recording.value.items():
            if other == name or not np.array_equal(recording.t_ns[other], recording.t_ns[name]):
                continue
            if np.isfinite(its[~known]).mean() > SELDOM:  # else of the same sensor
                beside |= np.isfinite(its)
        few = len(places) <= FEW * len(value) or beside[known].mean() < 0.5
        if few and beside[~known].mean() >= OTHERS:
            times[name], values[name] = recording.t_ns[name][known], value[known]
            notes.append(SPARSE.format(name, len(places), len(value)))
    return replace(recording, t_ns=times, value=values, notes=(*recording.notes, *notes))

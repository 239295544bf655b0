"""Columns of a log that have a value in few of its rows: the others are rows of other sensors, and no failed reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from wattstep.formats.recording import Recording

SELDOM: Final = 0.1  # of its values, at most, follow another in the next row
FEW: Final = 0.2  # of the rows, at most, have a value of it
OWN: Final = 0.5  # of the rows with a value of it, where they are more, have one of another column
OTHERS: Final = 0.9  # of the rows without it, at least, have a value of another column
EVERY: Final = 0.9  # of its values, at least, follow another as soon as its turns let them
LEAST: Final = 5  # values that show in which rows a sensor has its turn
SPARSE: Final = "{} has a value in {} of {} rows: the others are taken for rows of other sensors"


def own_rows(recording: Recording) -> Recording:
    """The recording whose channels have the rows alone that speak of them.

    A failed read is a gap on both sides. Tables that were joined by their times, in which each row
    is of one sensor, would be nothing but gaps. A sensor of which every second read fails is told
    from them by others that have values in its rows, too. Of two sensors of which one has a turn in
    every third row, the other in every seventh, neither was read between its turns.
    """
    times, values, notes = dict(recording.t_ns), dict(recording.value), []
    for name, value in recording.value.items():
        known = np.isfinite(value)
        places = np.flatnonzero(known)
        if len(places) < 2 or known.all():
            continue
        beside, of_all = np.zeros((2, len(value)), bool)
        others = list(_others(recording, name))
        turns = _turns(known)
        if turns is not None and any(_turns(its) not in (None, turns) for its in others):
            first, every = turns
            times[name] = recording.t_ns[name][first::every]
            values[name] = value[first::every]
            notes.append(SPARSE.format(name, len(places), len(value)))
            continue
        for its in others:
            if its.all():
                of_all = its
            elif its[~known].mean() > SELDOM:  # else of the same sensor
                beside |= its
        together = int((np.diff(places) == 1).sum())
        few = len(places) <= FEW * len(value) and together <= SELDOM * len(places)
        # A column of all rows tells of none which sensor's it is.
        own = beside[known].mean() < OWN and beside[~known].mean() >= OTHERS
        if own or (few and (beside | of_all)[~known].mean() >= OTHERS):
            times[name], values[name] = recording.t_ns[name][known], value[known]
            notes.append(SPARSE.format(name, len(places), len(value)))
    return replace(recording, t_ns=times, value=values, notes=(*recording.notes, *notes))


def _turns(known: np.ndarray) -> tuple[int, int] | None:
    """The first row and every how many-th one in which a column has values; None: it has no such turns."""
    places = np.flatnonzero(known)
    if len(places) < LEAST:
        return None
    apart = np.diff(places)
    every = int(np.gcd.reduce(apart))
    regular = every > 1 and (apart == every).mean() >= EVERY
    return (int(places[0]) % every, every) if regular else None


def _others(recording: Recording, name: str) -> Iterator[np.ndarray]:
    """In which rows each other column of the channel's table has a value, those that are not read with them."""
    t_ns = recording.t_ns[name]
    for other, its in recording.value.items():
        if other != name and np.array_equal(recording.t_ns[other], t_ns):
            yield np.isfinite(its)
    for its in recording.aside.values():
        if len(its) == len(t_ns) and not its.all():  # one of all rows may be their number
            yield its

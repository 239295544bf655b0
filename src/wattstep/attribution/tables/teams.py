"""Cores of the teams that carried out traced operations, as the plan of a run has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wattstep.attribution.tables.naming import Names
from wattstep.schema.arrays import IntArray
from wattstep.schema.run_documents import Team

COLUMNS = ("name", "layer", "phase", "shapes")


def cores_of(teams: Sequence[Team], columns: Mapping[str, Names]) -> IntArray:
    """Cores of each row; 1 where the plan has no such operation, shape (n,).

    Args:
        teams: Of the run's plan.
        columns: Of the rows, by `COLUMNS`.
    """
    cores = {
        (team["name"], team["layer"], team["phase"], team["shapes"]): team["cores"]
        for team in teams
    }
    name, layer, phase, shapes = (columns[each] for each in COLUMNS)
    key = np.zeros(len(name.code), np.int64)
    for each in (name, layer, phase, shapes):
        key = key * len(each.texts) + each.code
    _, first, of_row = np.unique(key, return_index=True, return_inverse=True)
    looks = ((name.of(n), layer.of(n), phase.of(n), shapes.of(n)) for n in first.tolist())
    own = np.array([cores.get(look, 1) for look in looks], np.int64)
    counts: IntArray = own[of_row]
    return counts

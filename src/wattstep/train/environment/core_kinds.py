"""Kinds of cores among those that a training may use: big ones and little ones of one processor."""

from __future__ import annotations

import os
from collections.abc import Sequence

from wattstep.record.sensors import machine
from wattstep.schedule.policies import UNEQUAL
from wattstep.schema.cores import parse_clusters, parse_cores, spell_cores
from wattstep.schema.run_documents import Cluster, ScheduleFacts


def kinds_of_cores(
    cores: Sequence[int], clusters: Sequence[Cluster] | None = None
) -> tuple[str, ...]:
    """Sets of cores that are alike, where there are several kinds, the fastest first; none where all are alike.

    Args:
        cores: That may be used.
        clusters: Of the machine, as `machine.describe` has them; None: of this one.
    """
    found = machine.describe().get("clusters") or () if clusters is None else clusters
    kinds = [
        (each["max_hz"] or 0.0, mine)
        for each in found
        if (mine := [core for core in each["cores"] if core in cores])
    ]
    kinds.sort(key=lambda each: -each[0])
    return tuple(spell_cores(mine) for _, mine in kinds) if len(kinds) > 1 else ()


def clusters_for(cores: str | None) -> tuple[tuple[int, ...], ...]:
    """Numbers of the cores of each kind for a plan that tells them apart; none where all are alike.

    Args:
        cores: As `--cores` has them: several sets are the kinds; else those count that the system tells.
    """
    if cores is not None and "," in cores:
        return parse_clusters(cores)
    return tuple(map(parse_cores, kinds_of_cores(sorted(os.sched_getaffinity(0)))))


def taken_for_equal(
    schedule: ScheduleFacts, clusters: Sequence[Cluster] | None = None
) -> str | None:
    """Note of a run whose plan took unequal cores for equal ones; None: it did not.

    Args:
        schedule: Of the run; a plan that asks for no times of operations asks for no cores, and one that has
            clusters tells them apart.
        clusters: As of `kinds_of_cores`.
    """
    if "predicted" not in schedule or "clusters" in schedule:
        return None
    kinds = kinds_of_cores(sorted(os.sched_getaffinity(0)), clusters)
    if not kinds:
        return None
    apart = f", --policy {UNEQUAL} tells them apart" if schedule["policy"] != UNEQUAL else ""
    return (
        f"the plan of operations took cores of {len(kinds)} kinds ({', '.join(kinds)}) for equal ones: "
        f"--cores {kinds[0]} keeps to one kind{apart}"
    )

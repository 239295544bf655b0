"""Classes that nobody has labeled: clusters of unknown samples that are there again at the next look."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wattstep.labeling.arrays import Floats, Ints, squared_distances

LEAST_SIZE = 8  # samples of a cluster
LEAST_SHARE = 0.02  # of the recent samples
CORE = 30  # samples that stand for a cluster
LOOKS = 2  # at which a cluster must be there to become a class
MOST_CLUSTERS = 32


@dataclass(kw_only=True)
class Cluster:
    """A class to be.

    Attributes:
        name: unknown-1 and so on; empty until it is stable.
        core: Samples that stand for it, shape (k, d), in raw features.
        looks: At how many it was there.
        rejected: A person said that it is no class.
    """

    name: str
    core: Floats
    looks: int = 1
    rejected: bool = False


@dataclass(kw_only=True)
class Discovery:
    """Clusters of unknown samples, over batches.

    Attributes:
        clusters: Those that are stable or may become so.
        numbered: How many have got a name.
    """

    clusters: list[Cluster] = field(default_factory=list)
    numbered: int = 0

    def stable(self) -> list[Cluster]:
        """Those that are classes."""
        return [each for each in self.clusters if each.name and not each.rejected]

    def look(self, space: Floats, raw: Floats, held: int, cores: list[Floats]) -> bool:
        """Clusters unknown samples; whether a new class is there.

        Args:
            space: Unknown samples in the space of distances, shape (n, d).
            raw: The same in raw features.
            held: How many recent samples there are, unknown or not.
            cores: Cores of `clusters` in the space of distances.
        """
        least = max(LEAST_SIZE, round(LEAST_SHARE * held))
        if len(space) < least:
            return False
        labels = _dense(space, least)
        new = False
        seen: set[int] = set()
        for label in range(labels.max() + 1):
            rows = np.flatnonzero(labels == label)
            core = rows[_central(space[rows], CORE)]
            known = _same(space[rows], cores)
            if known is None:
                if len(self.clusters) < MOST_CLUSTERS:
                    self.clusters.append(Cluster(name="", core=raw[core].copy()))
                continue
            cluster = self.clusters[known]
            if known in seen:
                continue
            seen.add(known)
            cluster.core = raw[core].copy()
            cluster.looks += 1
            if cluster.looks >= LOOKS and not cluster.name and not cluster.rejected:
                self.numbered += 1
                cluster.name = f"unknown-{self.numbered}"
                new = True
        return new


def _dense(space: Floats, least: int) -> Ints:
    """Cluster of each sample, -1 for none (Campello et al. 2013)."""
    from sklearn.cluster import HDBSCAN

    # `allow_single_cluster`: one new class alone is the usual case.
    clusterer = HDBSCAN(
        min_cluster_size=max(least, 5), min_samples=min(5, least), allow_single_cluster=True, copy=True
    )
    labels: Ints = clusterer.fit_predict(np.asarray(space, dtype=np.float64))
    return labels


def _central(space: Floats, count: int) -> Ints:
    """Those with the nearest neighbours, an even draw of the denser half."""
    if len(space) <= count:
        return np.arange(len(space))
    squares = squared_distances(space, space)
    k = min(5, len(space) - 1)
    reach = np.partition(squares, k, axis=1)[:, k]
    denser = np.argsort(reach, kind="stable")[: max(count, len(space) // 2)]
    chosen: Ints = np.sort(denser)[np.linspace(0, len(denser) - 1, count).astype(int)]
    return chosen


def _same(space: Floats, cores: list[Floats]) -> int | None:
    """The cluster whose core these samples are nearest to, if they are as near as its own samples are to each other."""
    best: tuple[float, int] | None = None
    for number, core in enumerate(cores):
        squares = squared_distances(space, core)
        distance = float(np.sqrt(np.median(squares.min(axis=1))))
        own = squared_distances(core, core)
        np.fill_diagonal(own, np.inf)
        span = float(np.sqrt(np.median(own.min(axis=1))))
        if distance <= 2 * span and (best is None or distance < best[0]):
            best = (distance, number)
    return None if best is None else best[1]

"""Classes that nobody has labeled: clusters of unknown samples that are there again at the next look."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wattstep.labeling.arrays import Bools, Floats, Ints, nearest, squared_distances

LEAST_SIZE = 8  # samples of a cluster
LEAST_SHARE = 0.02  # of the recent samples
CORE = 30  # samples that stand for a cluster
MUTUAL = (
    8  # nearest neighbours among which two samples must be, each of the other, to be of one cluster
)
LEAST_APART = 0.6  # share of unknown samples among the nearest neighbours of those of a cluster
NEAR = 2.0  # distances between samples of a core, within which others are of the same cluster
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

    def look(self, recent: Floats, raw: Floats, unknown: Bools, cores: list[Floats]) -> bool:
        """Clusters unknown samples; whether there are other classes than before: a new one, or two that are one.

        Args:
            recent: Recent samples in the space of distances, shape (n, d).
            raw: The same in raw features.
            unknown: Which of them are unknown.
            cores: Cores of `clusters` in the space of distances.
        """
        least = max(LEAST_SIZE, round(LEAST_SHARE * len(recent)))
        if unknown.sum() < least:
            return False
        space, raw = recent[unknown], raw[unknown]
        apart = _share_around(recent, unknown)
        points = np.concatenate([space, *cores]) if cores else space
        owners = np.repeat(np.arange(len(cores)), [len(core) for core in cores])
        labels = _components(points)
        members, of_cores = labels[: len(space)], labels[len(space) :]
        before = [each.name for each in self.stable()]
        gone: set[int] = set()
        for label in np.unique(members):
            rows = np.flatnonzero(members == label)
            # The fringe of a known class is unknown too, by false alarms: others around it are not.
            if len(rows) < least or apart[rows].mean() < LEAST_APART:
                continue
            core = _drawn(raw[rows])
            inside = [
                n
                for n in range(len(cores))
                if 2 * (of_cores[owners == n] == label).sum() >= (owners == n).sum()
            ]
            if not inside and (beside := _beside(space[rows], cores)) is not None:
                # A part of it that has come apart: both stand for it.
                core = _drawn(np.concatenate([self.clusters[beside].core, core]))
                inside = [beside]
            if not inside:
                if len(self.clusters) < MOST_CLUSTERS:
                    self.clusters.append(Cluster(name="", core=core))
                continue
            first, *others = sorted(inside, key=lambda n: (not self.clusters[n].name, n))
            cluster = self.clusters[first]
            cluster.rejected = any(self.clusters[n].rejected for n in inside)
            cluster.core, cluster.looks = core, cluster.looks + 1
            gone.update(others)
            if cluster.looks >= LOOKS and not cluster.name and not cluster.rejected:
                self.numbered += 1
                cluster.name = f"unknown-{self.numbered}"
        self.clusters = [each for n, each in enumerate(self.clusters) if n not in gone]
        return before != [each.name for each in self.stable()]


def _share_around(recent: Floats, unknown: Bools) -> Floats:
    """Of each unknown sample, the share of unknown ones among its nearest neighbours, shape (unknown,)."""
    squares = squared_distances(recent[unknown], recent)
    squares[np.arange(len(squares)), np.flatnonzero(unknown)] = np.inf
    share: Floats = unknown[nearest(squares, MUTUAL)[0]].mean(axis=1)
    return share


def _components(space: Floats) -> Ints:
    """Component of each sample in the graph of those that are among each other's nearest (Brito et al. 1997)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    squares = squared_distances(space, space)
    np.fill_diagonal(squares, np.inf)
    k = min(MUTUAL, len(space) - 1)
    columns, _ = nearest(squares, k)
    rows = np.repeat(np.arange(len(space)), k)
    directed = coo_array((np.ones(len(rows)), (rows, columns.ravel())), shape=squares.shape).tocsr()
    labels: Ints = connected_components(directed.minimum(directed.T), directed=False)[1]
    return labels


def _drawn(x: Floats) -> Floats:
    """An even draw of samples that stand for all."""
    drawn: Floats = x[np.linspace(0, len(x) - 1, min(CORE, len(x))).astype(int)].copy()
    return drawn


def _beside(space: Floats, cores: list[Floats]) -> int | None:
    """The cluster to whose core these samples are about as near as its own samples are to each other."""
    best: tuple[float, int] | None = None
    for number, core in enumerate(cores):
        distance = float(np.sqrt(np.median(squared_distances(space, core).min(axis=1))))
        own = squared_distances(core, core)
        np.fill_diagonal(own, np.inf)
        if len(core) > 1 and distance <= NEAR * float(np.sqrt(np.median(own.min(axis=1)))):
            best = min(best or (np.inf, number), (distance, number))
    return None if best is None else best[1]

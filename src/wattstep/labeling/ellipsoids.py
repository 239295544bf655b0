"""How far samples lie from known classes, measured by the spread that these have: Mahalanobis distances (Lee et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattstep.labeling.arrays import TINY, Floats, Ints, one_hot, squared_distances

SHRINKAGE = 0.5  # of the covariance towards its diagonal


@dataclass(frozen=True, kw_only=True)
class Ellipsoids:
    """Classes as ellipsoids of one shape.

    Attributes:
        means: Of the classes that have samples, shape (c, d).
        root: Matrix W with precision W Wᵀ, shape (d, d).
        own: Log distance of each labeled sample that the ellipsoids were made from, as if it had not been among
            them, shape (m,).
    """

    means: Floats
    root: Floats
    own: Floats

    def distance(self, x: Floats) -> Floats:
        """Logarithm of the squared distance to the nearest class, shape (n,)."""
        squares = squared_distances(x @ self.root, self.means @ self.root)
        distance: Floats = np.log(squares.min(axis=1) + 1e-6)
        return distance


def fit(x: Floats, codes: Ints, recent: Floats) -> Ellipsoids:
    """The ellipsoids of labeled samples.

    Args:
        x: Standardized, shape (m, d).
        codes: Classes, shape (m,).
        recent: Standardized samples without labels, shape (u, d).
    """
    present, codes = np.unique(codes, return_inverse=True)
    hot = one_hot(codes, len(present))
    sizes = hot.sum(axis=0)
    means = hot.T @ x / sizes[:, None]
    centered = x - means[codes]
    freedom = max(len(x) - len(present), 1)
    covariance = centered.T @ centered / freedom
    # A feature that is the same in all labeled samples is not so in all others, whose variance is about 1.
    floor = np.diag(np.diag(covariance) + 0.05 * np.maximum(x.var(axis=0), 1.0) + 1e-3)
    covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * floor
    # How much classes vary in it no label tells: as much as all samples, at most.
    silent = np.flatnonzero(np.ptp(x, axis=0) == 0)
    of_all = np.concatenate([x, recent])[:, silent].var(axis=0)
    covariance[silent, silent] = np.maximum(covariance[silent, silent], of_all)
    root = np.linalg.inv(np.linalg.cholesky(covariance)).T
    return Ellipsoids(
        means=means, root=root,
        own=_left_out(x @ root, means @ root, codes, sizes, (1 - SHRINKAGE) / freedom),
    )  # fmt: skip


def _left_out(turned: Floats, means: Floats, codes: Ints, sizes: Floats, weight: float) -> Floats:
    """Distances with each sample out of its mean and out of the covariance (Sherman and Morrison 1950)."""
    rows = np.arange(len(turned))
    size = sizes[codes]
    several = size > 1
    grown = np.where(several, size / np.maximum(size - 1, 1), 0.0)
    z = turned - means[codes]
    u = turned[:, None, :] - means[None]
    u[rows, codes] = z * grown[:, None]
    squares = np.einsum("icd,icd->ic", u, u)
    along = np.einsum("icd,id->ic", u, z)
    factor = weight * grown
    left = np.maximum(1 - factor * np.einsum("id,id->i", z, z), 0.02)
    squares = squares + (factor / left)[:, None] * along**2
    squares[rows[~several], codes[~several]] = np.inf
    least = squares.min(axis=1)
    finite = np.isfinite(least)
    least = np.where(finite, least, np.median(least[finite]) if finite.any() else 1.0)
    logs: Floats = np.log(least + TINY + 1e-6)
    return logs

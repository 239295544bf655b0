"""What is looked up for samples: the nearest nodes by distances in float64, whoever looks, and the leaves of trees."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.ensemble import ExtraTreesClassifier

from wattstep.labeling import neighbourhood
from wattstep.labeling.heuristics import taught
from wattstep.labeling.lookup import Index, look_up

K = neighbourhood.NEIGHBOURS


def drawn(count: int, features: int, kind: str, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if kind == "few values":  # most distances are shared by many nodes
        return random.integers(-1, 2, (count, features)).astype(np.float32)
    if kind == "one point":
        return np.ones((count, features), np.float32)
    far = 1e3 if kind == "far from 0" else 0.0  # where |b|² - 2ab loses most of its digits
    return (random.normal(size=(count, features)) + far).astype(np.float32)


@pytest.mark.parametrize("kind", ["normal", "few values", "one point", "far from 0"])
@pytest.mark.parametrize("nodes", [3, 300])
def test_neighbours_are_those_of_float64(kind: str, nodes: int) -> None:
    index = Index(nodes=drawn(nodes, 7, kind, 1), labeled=min(nodes, 40), near=K, forests=())
    x = drawn(50, 7, kind, 2)
    found = look_up(index, x, x)
    exact = cdist(x.astype(np.float64), index.nodes.astype(np.float64), "sqeuclidean")
    k = min(K, nodes)
    # Equal distances in the order of nodes; values whose sum both round alike.
    assert np.allclose(found.near.squares, np.sort(exact, axis=1)[:, :k], rtol=1e-12)
    if kind != "far from 0":
        assert (found.near.nodes == np.argsort(exact, axis=1, kind="stable")[:, :k]).all()
        assert (found.labeled.nodes[:, 0] == exact[:, : index.labeled].argmin(axis=1)).all()
    assert np.allclose(found.labeled.squares[:, 0], exact[:, : index.labeled].min(axis=1), rtol=1e-12)  # fmt: skip


def test_samples_are_looked_up_alike_alone_and_among_others() -> None:
    index = Index(nodes=drawn(200, 33, "normal", 1), labeled=40, near=K, forests=())
    x = drawn(64, 33, "normal", 2)
    whole = look_up(index, x, x)
    parts = [
        look_up(index, x[rows], x[rows]) for rows in (slice(0, 1), slice(1, 20), slice(20, 64))
    ]
    assert (np.concatenate([each.near.squares for each in parts]) == whole.near.squares).all()
    assert (np.concatenate([each.near.nodes for each in parts]) == whole.near.nodes).all()


def test_leaves_are_those_of_the_trees() -> None:
    x, beliefs = drawn(300, 6, "normal", 1).astype(np.float64), np.tile([0.9, 0.1], (300, 1))
    beliefs[x[:, 0] > 0] = (0.1, 0.9)
    forest = taught(x, beliefs, np.ones(300))
    # As `taught` grows them: the same settings, seed and samples.
    grown = ExtraTreesClassifier(n_estimators=40, max_depth=10, min_samples_leaf=2, random_state=0)
    grown.fit(x, beliefs.argmax(axis=1), sample_weight=beliefs.max(axis=1) ** 2)
    fresh = drawn(50, 6, "normal", 2)
    index = Index(nodes=x.astype(np.float32), labeled=9, near=K, forests=(forest,))
    (told,) = look_up(index, fresh, fresh.astype(np.float64)).leaves
    assert (told - forest.arrays["roots"] == grown.apply(fresh)).all()

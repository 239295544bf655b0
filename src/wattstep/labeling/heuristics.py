"""Heuristics: small rules over a few features, each of which may abstain; made, asked for votes, kept as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from wattstep.labeling.arrays import (
    ABSTAINS,
    TINY,
    Floats,
    Ints,
    one_hot,
    softmax,
    squared_distances,
)

Kind: TypeAlias = Literal["threshold", "tree", "forest", "linear", "gaussian", "neighbours"]
MOST_ANCHORS = 256  # labeled samples that a heuristic of neighbours compares with
TREES, DEEPEST = 40, 8  # of a forest
SHRINKAGE = 0.3  # of a covariance towards its diagonal
LEVELS = 3  # of confidence at which a vote comes
LEVEL_LEADS = (0.5, 0.85)  # leads of the first choice over the second from which a vote is surer
FLOORS = (0.0, 0.2, 0.4, 0.6, 0.8)


@dataclass(frozen=True, kw_only=True)
class Heuristic:
    """A rule.

    Attributes:
        kind: How it decides.
        features: Columns that it looks at, shape (f,).
        arrays: Its parameters, by name.
        floor: It abstains where its first choice is ahead of the second by less than this probability.
    """

    kind: Kind
    features: Ints
    arrays: dict[str, Floats]
    floor: float = 0.0

    def describe(self) -> str:
        """A short name: kind and features."""
        shown = ",".join(map(str, self.features[:4])) + (",..." if len(self.features) > 4 else "")
        return f"{self.kind}({shown})"

    def probabilities(self, x: Floats, leaves: Ints | None = None) -> Floats:
        """Its own belief in each class, shape (n, classes).

        Args:
            x: Samples with all columns.
            leaves: Of a forest, where they are known, shape (n, trees).
        """
        if leaves is not None:
            return _believe_leaves(self.arrays, leaves)
        return _BELIEFS[self.kind](self.arrays, x[:, self.features])

    def symbols(self, x: Floats, leaves: Ints | None = None) -> Ints:
        """Its vote on each sample with a level, or -1 where it abstains, shape (n,); see `probabilities`."""
        return symbols_of(self.probabilities(x, leaves), self.floor)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a heuristic is made of, before any labels are seen."""

    kind: Kind
    features: Ints
    setting: int = 0
    seed: int = 0

    def make(self, x: Floats, codes: Ints, classes: int) -> Heuristic:
        """The heuristic that these labeled samples give, shape (n, d) with all columns."""
        chosen = x[:, self.features]
        arrays = _MAKERS[self.kind](chosen, codes, classes, self.setting, self.seed)
        return Heuristic(kind=self.kind, features=self.features, arrays=arrays)


def symbols_of(beliefs: Floats, floor: float) -> Ints:
    """The first choice with its level, class * 3 + level, where it is ahead of the second by the floor, else -1."""
    first = beliefs.argmax(axis=1)
    if beliefs.shape[1] == 1:
        return np.full(len(beliefs), LEVELS - 1)
    ordered = np.partition(beliefs, -2, axis=1)
    lead = ordered[:, -1] - ordered[:, -2]
    level = np.searchsorted(LEVEL_LEADS, lead, side="right")
    # Without any lead there is no choice: classes are not preferred by their order.
    symbols: Ints = np.where((lead >= floor) & (lead > TINY), first * LEVELS + level, ABSTAINS)
    return symbols


def votes_in(symbols: Ints) -> Ints:
    """Votes without their levels; -1 stays."""
    return np.where(symbols >= 0, symbols // LEVELS, ABSTAINS)


def best_floor(beliefs: Floats, codes: Ints) -> float:
    """The floor with the best harmonic mean of accuracy and coverage, as in Snuba (Varma and Ré 2018, section 3.2)."""
    best, chosen = -1.0, 0.0
    for floor in FLOORS:
        votes = votes_in(symbols_of(beliefs, floor))
        voted = votes >= 0
        if not voted.any():
            break
        precision = float((votes[voted] == codes[voted]).mean())
        coverage = float(voted.mean())
        # Accuracy counts more: several heuristics cover together what one leaves out.
        value = 1.25 * precision * coverage / (0.25 * precision + coverage + TINY)
        if value > best + TINY:
            best, chosen = value, floor
    return chosen


def recipes(
    x: Floats, codes: Ints, classes: int, count: int, random: np.random.Generator
) -> list[Recipe]:
    """Many simple candidates over single features, groups of features and neighbourhoods.

    Args:
        x: Labeled samples, shape (n, d).
        codes: Their classes.
        classes: How many there are.
        count: About how many candidates.
        random: Draws groups of features.
    """
    d = x.shape[1]
    telling = np.argsort(-_separation(x, codes, classes), kind="stable")
    every = np.arange(d)
    made = [
        Recipe(kind="linear", features=every),
        Recipe(kind="forest", features=every, setting=TREES),
        Recipe(kind="gaussian", features=every),
        Recipe(kind="neighbours", features=every, setting=1),
        Recipe(kind="neighbours", features=every, setting=3),
        Recipe(kind="tree", features=every, setting=3),
    ]
    made += [Recipe(kind="threshold", features=telling[[n]]) for n in range(min(d, count // 4))]
    sizes = sorted({max(2, round(d**0.5)), max(2, d // 3), max(2, d // 2)})
    kinds: tuple[tuple[Kind, int], ...] = (
        ("tree", 4), ("linear", 0), ("tree", 4), ("gaussian", 0), ("tree", 3), ("neighbours", 1),
    )  # fmt: skip
    if d < 2:
        return made
    while len(made) < count:
        number = len(made)
        kind, setting = kinds[number % len(kinds)]
        size = min(d, sizes[number % len(sizes)])
        features = np.sort(random.choice(d, size=size, replace=False))
        made.append(Recipe(kind=kind, features=features, setting=setting, seed=number))
    return made


def _separation(x: Floats, codes: Ints, classes: int) -> Floats:
    """Spread between classes over that within them, by feature."""
    means, sizes = _class_means(x, codes, classes)
    within = ((x - means[codes]) ** 2).mean(axis=0)
    between = (sizes[:, None] * (means - x.mean(axis=0)) ** 2).sum(axis=0) / len(x)
    separation: Floats = between / (within + 0.05 * x.var(axis=0) + TINY)
    return separation


def _make_tree(x: Floats, codes: Ints, classes: int, depth: int, seed: int) -> dict[str, Floats]:
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(
        max_depth=depth, random_state=seed, splitter="random" if seed else "best",
        class_weight="balanced",
    ).fit(x, codes)  # fmt: skip
    return _grown([tree], np.unique(codes), classes, 1.0)


def _make_threshold(
    x: Floats, codes: Ints, classes: int, setting: int, seed: int
) -> dict[str, Floats]:
    return _make_tree(x, codes, classes, 2, 0)


def _make_forest(x: Floats, codes: Ints, classes: int, trees: int, seed: int) -> dict[str, Floats]:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_estimators=trees, max_depth=DEEPEST, random_state=seed).fit(
        x, codes
    )
    return _grown(forest.estimators_, np.unique(codes), classes, 0.5)


def taught(x: Floats, beliefs: Floats, trust: Floats) -> Heuristic:
    """A forest of extremely randomized trees (Geurts et al. 2006) that learns what others believe of samples.

    Args:
        x: Shape (n, d).
        beliefs: Probability of each class, shape (n, classes).
        trust: How far a sample is one of these classes, shape (n,).
    """
    from sklearn.ensemble import ExtraTreesClassifier

    codes = beliefs.argmax(axis=1)
    forest = ExtraTreesClassifier(
        n_estimators=TREES, max_depth=10, min_samples_leaf=2, random_state=0
    )
    forest.fit(x, codes, sample_weight=trust * beliefs.max(axis=1) ** 2)
    arrays = _grown(forest.estimators_, np.unique(codes), beliefs.shape[1], 0.0)
    arrays["beliefs"] = 0.98 * arrays["beliefs"] + 0.02 / beliefs.shape[1]
    return Heuristic(kind="forest", features=np.arange(x.shape[1]), arrays=arrays)


def _grown(trees: list[Any], present: Ints, classes: int, doubt: float) -> dict[str, Floats]:
    """Trees of scikit-learn as arrays over all their nodes; a leaf is its own child.

    Args:
        trees: Fitted.
        present: The classes that they know, ascending.
        classes: How many there are.
        doubt: Samples shared evenly among classes that each leaf counts beside its own.
    """
    parts: dict[str, list[Floats]] = {
        name: [] for name in ("feature", "limit", "left", "right", "beliefs", "roots")
    }
    first = 0
    for each in trees:
        tree = each.tree_
        leaf = tree.children_left < 0
        itself = first + np.arange(tree.node_count)
        sizes = tree.weighted_n_node_samples[:, None]
        beliefs = np.zeros((tree.node_count, classes))
        beliefs[:, present] = (tree.value[:, 0, :] * sizes + doubt / len(present)) / (sizes + doubt)
        parts["feature"].append(np.where(leaf, 0, tree.feature))
        parts["limit"].append(tree.threshold)
        parts["left"].append(np.where(leaf, itself, first + tree.children_left))
        parts["right"].append(np.where(leaf, itself, first + tree.children_right))
        parts["beliefs"].append(beliefs)
        parts["roots"].append(np.array([first]))
        first += tree.node_count
    arrays = {name: np.concatenate(part) for name, part in parts.items()}
    return arrays | {"depth": np.array([max(each.tree_.max_depth for each in trees)])}


def leaves(arrays: dict[str, Floats], x: Floats) -> Ints:
    """The node at which each sample ends in each tree, shape (n, trees); x has the columns that the trees know."""
    at: Ints = np.broadcast_to(arrays["roots"], (len(x), len(arrays["roots"])))
    rows = np.arange(len(x))[:, None]
    x32 = x.astype(np.float32)  # as the trees were grown
    for _ in range(int(arrays["depth"][0])):
        goes_left = x32[rows, arrays["feature"][at]] <= arrays["limit"][at]
        at = np.where(goes_left, arrays["left"][at], arrays["right"][at])
    return at


def _believe_trees(arrays: dict[str, Floats], x: Floats) -> Floats:
    return _believe_leaves(arrays, leaves(arrays, x))


def _believe_leaves(arrays: dict[str, Floats], at: Ints) -> Floats:
    beliefs: Floats = arrays["beliefs"][at].mean(axis=1)
    return beliefs


def _class_means(x: Floats, codes: Ints, classes: int) -> tuple[Floats, Floats]:
    hot = one_hot(codes, classes)
    sizes = hot.sum(axis=0)
    return hot.T @ x / np.maximum(sizes, 1)[:, None], sizes


def _make_linear(
    x: Floats, codes: Ints, classes: int, setting: int, seed: int
) -> dict[str, Floats]:
    """Linear discriminants with a covariance held to its diagonal."""
    means, sizes = _class_means(x, codes, classes)
    centered = x - means[codes]
    freedom = max(len(x) - int((sizes > 0).sum()), 1)
    covariance = centered.T @ centered / freedom
    diagonal = np.diag(np.diag(covariance) + 0.05 * x.var(axis=0) + 1e-3)
    shrinkage = min(1.0, max(SHRINKAGE, x.shape[1] / (len(x) + x.shape[1])))
    covariance = (1 - shrinkage) * covariance + shrinkage * diagonal
    slopes = np.linalg.solve(covariance, means.T)
    offsets = -0.5 * np.einsum("cd,dc->c", means, slopes)
    offsets[sizes == 0] = -np.inf
    return {"slopes": slopes, "offsets": offsets}


def _believe_linear(arrays: dict[str, Floats], x: Floats) -> Floats:
    return softmax(x @ arrays["slopes"] + arrays["offsets"])


def _make_gaussian(
    x: Floats, codes: Ints, classes: int, setting: int, seed: int
) -> dict[str, Floats]:
    """A mean and a variance for each feature and class; variances held to those of all."""
    means, sizes = _class_means(x, codes, classes)
    centered = x - means[codes]
    pooled = (centered**2).mean(axis=0) + 0.05 * x.var(axis=0) + 1e-3
    of_class = one_hot(codes, classes).T @ centered**2
    variances = (of_class + 4 * pooled) / (sizes[:, None] + 4)
    offsets = np.where(sizes > 0, -0.5 * np.log(variances).sum(axis=1), -np.inf)
    return {"means": means, "precisions": 1 / variances, "offsets": offsets}


def _believe_gaussian(arrays: dict[str, Floats], x: Floats) -> Floats:
    means, precisions = arrays["means"], arrays["precisions"]
    logits = -0.5 * (
        x**2 @ precisions.T - 2 * x @ (means * precisions).T + (means**2 * precisions).sum(axis=1)
    )
    # Features are not independent: their sum of evidence counts as that of about a root of them.
    return softmax(logits / np.sqrt(x.shape[1]) + arrays["offsets"] / np.sqrt(x.shape[1]))


def _make_neighbours(
    x: Floats, codes: Ints, classes: int, setting: int, seed: int
) -> dict[str, Floats]:
    if len(x) > MOST_ANCHORS:
        chosen = np.random.default_rng(seed).choice(len(x), MOST_ANCHORS, replace=False)
        x, codes = x[chosen], codes[chosen]
    order = np.argsort(codes, kind="stable")  # classes side by side, so that each is one slice
    return {
        "anchors": x[order],
        "sizes": np.bincount(codes, minlength=classes),
        "k": np.array([setting]),
    }


def _believe_neighbours(arrays: dict[str, Floats], x: Floats) -> Floats:
    """From the distances to the k-th nearest of each class."""
    squares = squared_distances(x, arrays["anchors"])
    sizes, k = arrays["sizes"], int(arrays["k"][0])
    to_class = np.full((len(x), len(sizes)), np.inf)
    begin = 0
    for code, size in enumerate(sizes):
        if size:
            part = squares[:, begin : begin + size]
            at = min(k, int(size)) - 1
            to_class[:, code] = (
                part.min(axis=1) if at == 0 else np.partition(part, at, axis=1)[:, at]
            )
        begin += int(size)
    least = to_class.min(axis=1, keepdims=True)
    return softmax(-4 * (to_class - least) / (least + TINY + 1e-6 * len(x.T)))


_MAKERS = {
    "threshold": _make_threshold, "tree": _make_tree, "forest": _make_forest, "linear": _make_linear,
    "gaussian": _make_gaussian, "neighbours": _make_neighbours,
}  # fmt: skip
_BELIEFS = {
    "threshold": _believe_trees, "tree": _believe_trees, "forest": _believe_trees, "linear": _believe_linear,
    "gaussian": _believe_gaussian, "neighbours": _believe_neighbours,
}  # fmt: skip

"""Rivals of labeling, each with a reject option: a score of strangeness, and its level from held-out labeled samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]
FOLDS = 4


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Of n samples.

    Attributes:
        probabilities: Of the known classes, shape (n, classes).
        scores: Strangeness by name of the way, shape (n,) each.
        clusters: New class of each, -1 for none, shape (n,); None for rivals that find none.
    """

    probabilities: Array
    scores: dict[str, Array]
    clusters: Array | None = None


class Rival(Protocol):
    """Learns from labeled samples (codes from 0) and the pool, answers for others."""

    def fit(self, x: Array, codes: Array, pool: Array) -> None: ...

    def answer(self, x: Array) -> Answer: ...


def _scaler(x: Array, pool: Array) -> Any:
    from sklearn.preprocessing import StandardScaler

    return StandardScaler().fit(np.concatenate([x, pool]))


class Probabilistic:
    """A classifier of scikit-learn; strange is what it is unsure of, or what lies far from labeled samples."""

    def __init__(self, make: Any, with_pool: bool = False) -> None:
        self.make, self.with_pool = make, with_pool

    def fit(self, x: Array, codes: Array, pool: Array) -> None:
        self.scaler = _scaler(x, pool)
        self.x, self.codes = self.scaler.transform(x), codes
        self.classes = int(codes.max()) + 1
        pool = self.scaler.transform(pool)
        self.model = None
        if len(np.unique(codes)) < 2:
            return
        if self.with_pool:
            every = np.concatenate([self.x, pool])
            marked = np.concatenate([codes, np.full(len(pool), -1)])
            self.model = self.make().fit(every, marked)
        else:
            self.model = self.make().fit(self.x, codes)

    def answer(self, x: Array) -> Answer:
        x = self.scaler.transform(x)
        probabilities = np.zeros((len(x), self.classes))
        if self.model is None:
            probabilities[:, self.codes[0]] = 1
        else:
            probabilities[:, self.model.classes_] = np.nan_to_num(self.model.predict_proba(x))
        return Answer(
            probabilities=probabilities,
            scores={"unsure": -probabilities.max(axis=1), "distance": _distance(x, self.x)},
        )


def _distance(x: Array, labeled: Array) -> Array:
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=1).fit(labeled).kneighbors(x)[0][:, 0]


class Snuba:
    """A plain Snuba pipeline: stumps, small trees and neighbours on up to two features each, chosen by F1 and
    by what others leave out, weighed by accuracy; a logistic regression then learns its confident labels."""

    def fit(self, x: Array, codes: Array, pool: Array) -> None:
        from sklearn.linear_model import LogisticRegression
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.tree import DecisionTreeClassifier

        self.scaler = _scaler(x, pool)
        x, pool = self.scaler.transform(x), self.scaler.transform(pool)
        self.x, self.codes, self.classes = x, codes, int(codes.max()) + 1
        random = np.random.default_rng(0)
        self.rules: list[tuple[Any, Array, float, float]] = []
        covered = np.zeros(len(x))
        candidates = []
        for number in range(40):
            features = random.choice(x.shape[1], min(2, x.shape[1]), replace=False)
            make = (
                DecisionTreeClassifier(max_depth=1 + number % 2, random_state=0)
                if number % 3
                else KNeighborsClassifier(min(3, len(x)))
            )
            candidates.append((make.fit(x[:, features], codes), features))
        for _ in range(min(20, len(candidates))):
            best = None
            for at, (rule, features) in enumerate(candidates):
                p = rule.predict_proba(x[:, features])
                top, vote = p.max(axis=1), rule.classes_[p.argmax(axis=1)]
                for floor in (0.0, 0.5, 0.7):
                    voted = top > floor
                    if not voted.any():
                        continue
                    right = float((vote[voted] == codes[voted]).mean())
                    f1 = 2 * right * voted.mean() / (right + voted.mean() + 1e-9)
                    new = float((voted & (covered == 0)).mean())
                    if best is None or f1 + new > best[0]:
                        best = (f1 + new, at, floor, right, voted)
            if best is None:
                break
            rule, features = candidates.pop(best[1])
            self.rules.append((rule, features, best[2], best[3]))
            covered += best[4]
        soft = self._vote(pool)
        sure = soft.max(axis=1) >= 0.5
        every = np.concatenate([x, pool[sure]])
        labels = np.concatenate([codes, soft[sure].argmax(axis=1)])
        self.end = (
            LogisticRegression(max_iter=500).fit(every, labels) if len(set(labels)) > 1 else None
        )

    def _vote(self, x: Array) -> Array:
        total = np.zeros((len(x), self.classes))
        for rule, features, floor, right in self.rules:
            p = rule.predict_proba(x[:, features])
            vote = rule.classes_[p.argmax(axis=1)]
            right = min(max(right, 0.05), 0.95)
            weight = np.log(right * max(self.classes - 1, 1) / (1 - right))
            rows = np.flatnonzero(p.max(axis=1) > floor)
            total[rows, vote[rows]] += weight
        total = np.exp(total - total.max(axis=1, keepdims=True))
        return total / total.sum(axis=1, keepdims=True)

    def answer(self, x: Array) -> Answer:
        x = self.scaler.transform(x)
        probabilities = np.zeros((len(x), self.classes))
        if self.end is None:
            probabilities[:, self.codes[0]] = 1
        else:
            probabilities[:, self.end.classes_] = self.end.predict_proba(x)
        return Answer(
            probabilities=probabilities,
            scores={"unsure": -probabilities.max(axis=1), "distance": _distance(x, self.x)},
        )


class Minas:
    """As MINAS (de Faria et al. 2016): clusters of each class with radii; what lies outside is buffered, clustered
    by k-means, and a cohesive cluster is a novelty."""

    def fit(self, x: Array, codes: Array, pool: Array) -> None:
        from sklearn.cluster import KMeans

        self.scaler = _scaler(x, pool)
        x, pool = self.scaler.transform(x), self.scaler.transform(pool)
        self.classes = int(codes.max()) + 1
        centers, radii, owners = [], [], []
        for code in np.unique(codes):
            rows = x[codes == code]
            means = KMeans(max(1, len(rows) // 5), n_init=3, random_state=0).fit(rows)
            to = means.transform(rows)
            for number, center in enumerate(means.cluster_centers_):
                inside = to[means.labels_ == number, number]
                centers.append(center)
                radii.append(2 * inside.std() if len(inside) > 2 else np.nan)
                owners.append(code)
        self.centers, self.owners = np.array(centers), np.array(owners)
        radii_array = np.array(radii)
        typical = np.nanmedian(radii_array) if np.isfinite(radii_array).any() else 1.0
        self.radii = np.where(
            np.isfinite(radii_array) & (radii_array > 0), radii_array, typical or 1.0
        )
        strange = pool[self._strange(pool)[0] > self._strange(x)[0].max()]
        self.new = np.empty((0, x.shape[1]))
        if len(strange) >= 10:
            means = KMeans(min(5, len(strange) // 5), n_init=3, random_state=0).fit(strange)
            sizes = np.bincount(means.labels_)
            self.new = means.cluster_centers_[sizes >= 8]

    def _strange(self, x: Array) -> tuple[Array, Array]:
        to = np.linalg.norm(x[:, None, :] - self.centers[None], axis=2) / self.radii
        return to.min(axis=1), to

    def answer(self, x: Array) -> Answer:
        x = self.scaler.transform(x)
        strange, to = self._strange(x)
        of_class = np.stack(
            [to[:, self.owners == code].min(axis=1) for code in range(self.classes)], axis=1
        )
        inverse = 1 / (of_class + 1e-6)
        clusters = np.full(len(x), -1)
        if len(self.new):
            clusters = np.linalg.norm(x[:, None, :] - self.new[None], axis=2).argmin(axis=1)
        return Answer(
            probabilities=inverse / inverse.sum(axis=1, keepdims=True),
            scores={"radius": strange},
            clusters=clusters,
        )


class SencForest:
    """As SENCForest (Mu et al. 2017): isolation trees over labeled samples, whose leaves know their classes; short
    paths are strange. All strange samples are one new class."""

    def fit(self, x: Array, codes: Array, pool: Array) -> None:
        from sklearn.ensemble import IsolationForest

        self.classes = int(codes.max()) + 1
        self.forest = IsolationForest(
            n_estimators=100, max_samples=min(len(x), 256), random_state=0
        ).fit(x)
        self.leaves = []
        for tree in self.forest.estimators_:
            counts = np.zeros((tree.tree_.node_count, self.classes))
            np.add.at(counts, (tree.apply(x), codes), 1)
            self.leaves.append(counts)
        self.prior = np.bincount(codes, minlength=self.classes) / len(codes)

    def answer(self, x: Array) -> Answer:
        total = np.zeros((len(x), self.classes))
        for tree, counts in zip(self.forest.estimators_, self.leaves, strict=True):
            at = counts[tree.apply(x)]
            total += at / np.maximum(at.sum(axis=1, keepdims=True), 1)
        total = total + 1e-6 * self.prior
        return Answer(
            probabilities=total / total.sum(axis=1, keepdims=True),
            scores={"path": -self.forest.score_samples(x)},
            clusters=np.zeros(len(x), dtype=int),
        )


def rivals() -> dict[str, Any]:
    """How each is made."""
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

    def linear() -> Any:
        return LogisticRegression(max_iter=500)

    return {
        "self-training": lambda: Probabilistic(lambda: SelfTrainingClassifier(linear()), True),
        "label spreading": lambda: Probabilistic(
            lambda: LabelSpreading(kernel="knn", n_neighbors=7, alpha=0.8, max_iter=100), True
        ),
        "gradient boosting": lambda: Probabilistic(
            lambda: GradientBoostingClassifier(n_estimators=50, random_state=0)
        ),
        "random forest": lambda: Probabilistic(
            lambda: RandomForestClassifier(n_estimators=200, random_state=0)
        ),
        "frozen features": lambda: Frozen(
            lambda: make_pipeline(Nystroem(n_components=200, random_state=0), linear())
        ),
        "snuba": Snuba,
        "minas": Minas,
        "sencforest": SencForest,
    }


class Frozen(Probabilistic):
    """Features learned from the pool without labels, by kernel approximation on its samples, and a linear head."""

    def fit(self, x: Array, codes: Array, pool: Array) -> None:
        from sklearn.kernel_approximation import Nystroem

        self.scaler = _scaler(x, pool)
        self.x, self.codes = self.scaler.transform(x), codes
        self.classes = int(codes.max()) + 1
        pool = self.scaler.transform(pool)
        size = min(200, len(pool))
        features = Nystroem(gamma=1 / x.shape[1], n_components=size, random_state=0).fit(pool)
        self.model = None
        if len(np.unique(codes)) > 1:
            from sklearn.linear_model import LogisticRegression
            from sklearn.pipeline import Pipeline

            head = LogisticRegression(C=10, max_iter=500).fit(features.transform(self.x), codes)
            self.model = Pipeline([("features", features), ("head", head)])


def levels(make: Any, x: Array, codes: Array, pool: Array, false_alarm: float) -> dict[str, float]:
    """The score from which a sample is called unknown: a conformal level over folds of the labeled samples."""
    random = np.random.default_rng(0)
    folds = np.empty(len(x), dtype=int)
    for code in np.unique(codes):
        rows = random.permutation(np.flatnonzero(codes == code))
        folds[rows] = np.arange(len(rows)) % FOLDS
    scores: dict[str, list[Array]] = {}
    for fold in range(FOLDS):
        inside = folds != fold
        if len(np.unique(codes[inside])) < len(np.unique(codes)) or not (~inside).any():
            continue
        rival = make()
        rival.fit(x[inside], codes[inside], pool)
        for name, values in rival.answer(x[~inside]).scores.items():
            scores.setdefault(name, []).append(values)
    out = {}
    for name, parts in scores.items():
        ordered = np.sort(np.concatenate(parts))
        rank = (1 - false_alarm) * (len(ordered) + 1) - 1
        out[name] = float(np.interp(rank, np.arange(len(ordered)), ordered))
    return out

"""The labeler as scikit-learn knows estimators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from wattstep.errors import InvalidValueError
from wattstep.labeling.arrays import ABSTAINS, Bools, Floats, Ints
from wattstep.labeling.discovery import Cluster
from wattstep.labeling.engine import Engine, Settings
from wattstep.labeling.given_labels import check_name, checked
from wattstep.labeling.memory import Labeled, Recent
from wattstep.labeling.outcome import UNREADABLE, Judged, Labels
from wattstep.labeling.placement import Placement
from wattstep.labeling.processors import Processors, placement_on

SPREAD = "spread over neighbours"


@dataclass(frozen=True, kw_only=True)
class Questions:
    """Samples that a person should label.

    Attributes:
        numbers: Of each among the samples that `partial_label` got, from 0.
        x: Their features, shape (n, features).
    """

    numbers: Ints
    x: Floats


class AutoLabeler(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Labels a stream from a small labeled set, and notices classes that this does not have.

    Args:
        false_alarm: Share of samples of known classes that may be called unknown at most, above 0 and below 1.
        confidence: A label less probable than this is an abstention.
        max_heuristics: Rules at most, beside labels spread over neighbours.
        candidates: About how many rules are tried.
        memory: Samples without labels that are held.
        labeled_memory: Labeled samples that are held.
        extractor: Gives learned features: something with `transform`, or a function, from samples of
            shape (n, features) to arrays of shape (n, k). It is no part of a saved state.
        processors: That look samples up side by side, such as `("cpu", "opencl:0")`, see
            `processors.placement_on`, or `Processors` with their power, for least energy; labels are the same on any.
            None: the CPU, unmeasured. No part of a state.
        random_state: Seed; the same gives the same.

    Attributes:
        classes_: Known classes. Those that are added later stand behind those of `fit`.
        n_features_in_: Features of a sample.
    """

    def __init__(
        self,
        *,
        false_alarm: float = 0.05,
        confidence: float = 0.5,
        max_heuristics: int = 16,
        candidates: int = 64,
        memory: int = 1000,
        labeled_memory: int = 500,
        extractor: Any = None,
        processors: Sequence[str] | Processors | None = None,
        random_state: int = 0,
    ) -> None:
        self.false_alarm = false_alarm
        self.confidence = confidence
        self.max_heuristics = max_heuristics
        self.candidates = candidates
        self.memory = memory
        self.labeled_memory = labeled_memory
        self.extractor = extractor
        self.processors = processors
        self.random_state = random_state

    # -- labeled samples

    def fit(self, X: Any, y: Any) -> AutoLabeler:
        """Learns from a labeled set, forgetting all else.

        Args:
            X: Shape (n, features), finite numbers.
            y: A class for each, all of one type, shape (n,).
        """
        settings = self._settings()
        x, y = self._labeled(X, y, reset=True)
        self.classes_, codes = np.unique(y, return_inverse=True)
        features = self._with_learned(x)
        groups = (x.shape[1],) if self.extractor is None else (
            x.shape[1], features.shape[1] - x.shape[1],
        )  # fmt: skip
        chosen = _within(codes, settings.labeled_memory, self.random_state)
        self.engine_ = Engine(
            settings=settings,
            classes=len(self.classes_),
            groups=groups,
            labeled=Labeled(
                most=settings.labeled_memory, x=features[chosen], codes=codes[chosen],
                symbols=np.empty((len(chosen), 0), dtype=np.int64),
            ),
            recent=Recent(most=settings.memory),
            random=np.random.default_rng(self.random_state),
        )  # fmt: skip
        self._place()
        self.engine_.generate()
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> AutoLabeler:
        """Learns from further labeled samples, of which a person told the class.

        Args:
            X: Shape (n, features), finite numbers.
            y: Classes; new ones are added to `classes_`.
            classes: As other estimators need them at the first call; here they follow from `y`.
        """
        if not hasattr(self, "engine_"):
            return self.fit(X, y)
        x, y = self._labeled(X, y, reset=False)
        known = len(self.classes_)
        features = self._with_learned(x)  # it may refuse: before classes are added
        codes = np.array([self._code(label) for label in y])
        if len(self.classes_) > known:
            self.engine_.add_class(features, codes)
        else:
            self.engine_.teach(features, codes)
        return self

    # -- labels

    def partial_label(self, X: Any) -> Labels:
        """Labels for the next samples of the stream, which are learned from.

        Args:
            X: Shape (n, features); a sample with a value that is no finite number is unreadable, and nothing is
                learned from it.
        """
        return self._labels(X, self._engine().take)

    def label(self, X: Any) -> Labels:
        """Labels for samples of which nothing is learned; shape as for `partial_label`."""
        return self._labels(X, lambda x, readable: self._engine().judge(x))

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """The likeliest known class of each sample, shape (n,), unknown or not: see `label`."""
        codes = self.predict_proba(X).argmax(axis=1)
        labels: np.ndarray[Any, Any] = self.classes_[codes]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each known class, given that it is one of them, shape (n, classes)."""
        engine = self._engine()
        x = validate_data(self, X, reset=False, dtype=np.float64)
        return engine.judge(self._with_learned(x)).classes

    @property
    def placement_(self) -> Placement | None:
        """How samples were shared among `processors`; None where none are named."""
        look = self._engine().look
        return look if isinstance(look, Placement) else None

    # -- what a person decides

    def ask(self, n: int) -> Questions:
        """Samples in memory whose labels would help most, n at most; answer with `partial_fit`."""
        if n < 1:
            raise InvalidValueError(f"ask({n}): at least 1 sample", id="out-of-range")
        numbers, x = self._engine().ask(n)
        return Questions(numbers=numbers, x=x[:, : self.n_features_in_])

    @property
    def clusters_(self) -> tuple[str, ...]:
        """Names of new classes that nobody has named yet."""
        return tuple(each.name for each in self._engine().discovery.stable())

    def name(self, cluster: str, label: Any) -> AutoLabeler:
        """Makes a new class a known one, or part of a known one where that is called so."""
        found = self._cluster(cluster)
        check_name(cluster, label, self.clusters_)
        label = checked([label], self.classes_)[0]
        self._engine().adopt(found, self._code(label))
        return self

    def merge(self, cluster: str, other: str) -> AutoLabeler:
        """Makes two new classes one, with the name of the first."""
        first, second = self._cluster(cluster), self._cluster(other)
        if first is not second:
            first.core = np.concatenate([first.core, second.core])
            self._engine().discovery.clusters.remove(second)
            self._engine().connect()
        return self

    def reject(self, cluster: str) -> AutoLabeler:
        """Says that a new class is none; it will not be proposed again."""
        self._cluster(cluster).rejected = True
        self._engine().connect()
        return self

    # -- state

    def save(self, path: Path | str) -> None:
        """Writes all that was learned into a file, as data."""
        from wattstep.labeling.state import write

        write(Path(path), self.get_params(), self.classes_, self.n_features_in_, self._engine())

    @classmethod
    def load(
        cls,
        path: Path | str,
        *,
        extractor: Any = None,
        processors: Sequence[str] | Processors | None = None,
    ) -> AutoLabeler:
        """The labeler that `save` wrote: it goes on exactly as the other would have.

        Args:
            path: Of the file.
            extractor: The same as then, where there was one.
            processors: Any, as of the class.
        """
        from wattstep.labeling.state import read

        params, classes, features, engine = read(Path(path), cls().get_params())
        if (len(engine.groups) > 1) != (extractor is not None):
            needed = "with" if len(engine.groups) > 1 else "without"
            raise InvalidValueError(
                f"{path}: saved {needed} an extractor of features", id="other-extractor"
            )
        labeler = cls(**params, extractor=extractor, processors=processors)
        labeler.classes_, labeler.n_features_in_, labeler.engine_ = classes, features, engine
        labeler._place()
        return labeler

    # -- inside

    def _settings(self) -> Settings:
        for name, least in (
            ("max_heuristics", 1), ("candidates", 4), ("memory", 20), ("labeled_memory", 2),
        ):  # fmt: skip
            if not getattr(self, name) >= least:
                raise InvalidValueError(
                    f"{name}={getattr(self, name)}: at least {least}", id="out-of-range"
                )
        if not 0 < self.false_alarm < 1:
            raise InvalidValueError(
                f"false_alarm={self.false_alarm}: above 0 and below 1", id="out-of-range"
            )
        if not 0 <= self.confidence <= 1:
            raise InvalidValueError(f"confidence={self.confidence}: from 0 to 1", id="out-of-range")
        return Settings(
            false_alarm=self.false_alarm, confidence=self.confidence, memory=self.memory,
            max_heuristics=self.max_heuristics, candidates=self.candidates,
            labeled_memory=self.labeled_memory,
        )  # fmt: skip

    def _place(self) -> None:
        if self.processors is not None:
            self.engine_.look = placement_on(self.processors)

    def _engine(self) -> Engine:
        check_is_fitted(self, "engine_")
        engine: Engine = self.engine_
        return engine

    def _labeled(self, x: Any, y: Any, *, reset: bool) -> tuple[Floats, np.ndarray[Any, Any]]:
        y = checked(y, None if reset else self.classes_)
        x, y = validate_data(self, x, y, reset=reset, dtype=np.float64)
        check_classification_targets(y)
        return x, y

    def _with_learned(self, x: Floats) -> Floats:
        if self.extractor is None or not len(x):
            return x
        extract: Callable[[Floats], Any] = getattr(self.extractor, "transform", self.extractor)
        learned = np.asarray(extract(x), dtype=np.float64)
        if learned.ndim != 2 or len(learned) != len(x):
            raise InvalidValueError(
                f"the extractor gives shape {learned.shape} for {len(x)} samples: ({len(x)}, k) is needed",
                id="extractor-shape",
            )
        if not np.isfinite(learned).all():
            raise InvalidValueError(
                "the extractor gives values that are no finite numbers", id="extractor-values"
            )
        return np.concatenate([x, learned], axis=1)

    def _labels(self, given: Any, judge: Callable[[Floats, Bools], Judged]) -> Labels:
        engine = self._engine()
        x = validate_data(
            self,
            given,
            reset=False,
            dtype=np.float64,
            ensure_all_finite=False,
            ensure_min_samples=0,
        )
        readable = np.isfinite(x).all(axis=1)
        count, classes = len(x), len(self.classes_)
        judged = judge(self._with_learned(x[readable]), readable)
        # Rules may have been made anew within.
        names = (*(each.describe() for each in engine.heuristics), SPREAD)

        def spread(values: Any, otherwise: float, *shape: int) -> Any:
            whole = np.full((count, *shape), otherwise, dtype=np.asarray(values).dtype)
            whole[readable] = values
            return whole

        probabilities = spread(judged.classes, 1 / classes, classes)
        return Labels(
            status=spread(judged.status, UNREADABLE),
            labels=self.classes_[probabilities.argmax(axis=1)],
            probability=spread(judged.probability, 0.0),
            class_probabilities=probabilities,
            p_value=spread(judged.p_value, np.nan),
            score=spread(judged.score, np.nan),
            cluster=spread(judged.cluster, ABSTAINS),
            clusters=self.clusters_,
            votes=spread(judged.votes, ABSTAINS, len(names)),
            heuristics=names,
        )

    def _code(self, label: Any) -> int:
        """The index of a class, which is added where it is new."""
        matching = np.flatnonzero(self.classes_ == label)
        if len(matching):
            return int(matching[0])
        added = np.asarray([label])
        if self.classes_.dtype.kind in "iu":
            added = added.astype(np.int64)  # 3.0 is 3
        self.classes_ = np.concatenate([self.classes_, added])
        return len(self.classes_) - 1

    def _cluster(self, name: str) -> Cluster:
        for each in self._engine().discovery.stable():
            if each.name == name:
                return each
        there = ", ".join(self.clusters_) or "there is none"
        raise InvalidValueError(f"no new class {name}: {there}", id="unknown-cluster")


def _within(codes: Ints, most: int, seed: int) -> Ints:
    """Rows of a labeled set that fit into memory, each class with its share, in their order."""
    if len(codes) <= most:
        return np.arange(len(codes))
    order = np.random.default_rng(seed).permutation(len(codes))
    rank = np.empty(len(codes))
    for code in np.unique(codes):
        of_class = order[codes[order] == code]
        rank[of_class] = (np.arange(len(of_class)) + 0.5) / len(of_class)
    chosen: Ints = np.sort(np.argsort(rank, kind="stable")[:most])
    return chosen

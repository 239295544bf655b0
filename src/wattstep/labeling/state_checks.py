"""Whether what a state file holds fits together: types, shapes, ranges, and numbers that are finite.

A file may hold anything. What passes here is labeled with, and must not fail later.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import numpy as np

from wattstep.labeling.arrays import ABSTAINS, Bools, Floats, Ints
from wattstep.labeling.concepts import Concept
from wattstep.labeling.drift import Watch
from wattstep.labeling.engine import Engine
from wattstep.labeling.heuristics import LEVELS, Heuristic
from wattstep.labeling.label_model import LabelModel
from wattstep.labeling.neighbourhood import Neighbourhood
from wattstep.labeling.novelty import Novelty

LARGEST: Final = 1e9  # of numbers that are made from standardized samples
LEAST: Final = 1e-9  # of what is divided by
_ARRAYS: Final = ((Floats, "f"), (Ints, "iu"), (Bools, "b"))


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type; arrays of numbers must be finite."""
    for alias, kinds in _ARRAYS:
        if hint == alias:
            return isinstance(value, np.ndarray) and value.dtype.kind in kinds and _finite(value)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, each) for each in inner)
    if origin is Literal:
        return value in inner
    if origin in (list, tuple):
        return isinstance(value, origin) and all(fits(each, inner[0]) for each in value)
    if origin is dict:  # of arrays of any numbers
        return isinstance(value, dict) and all(isinstance(e, np.ndarray) for e in value.values())
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and _finite(value)
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def check(
    engine: Engine, classes: Any, features: Any, params: Mapping[str, Any], names: Iterable[str]
) -> None:
    """Refuses what does not fit together.

    Args:
        engine: All that was learned.
        classes: Names of known classes.
        features: Of a sample.
        params: Settings of the estimator.
        names: Those that it has.

    Raises:
        ValueError: It does not.
    """
    width, count = sum(engine.groups), engine.classes
    _need(set(params) == set(names), all(fits(each, float | None) for each in params.values()))
    _need(fits(classes, np.ndarray), classes.dtype.kind in "Uiufb", classes.shape == (count,))
    _need(count >= 1, len(np.unique(classes)) == count)
    _need(fits(features, int), engine.groups[:1] == (features,), len(engine.groups) <= 2)
    _need(min(engine.groups) >= 1)
    _check_settings(engine)
    _check_counts(engine)
    _check_memory(engine, width)
    _shapes((width,), engine.center, engine.scale)
    _need((engine.scale > 0).all(), engine.temperature >= LEAST)
    rules = len(engine.heuristics)
    for heuristics in (engine.heuristics, *engine.apart, engine.archive):
        for each in heuristics:
            _check_heuristic(each, width, count)
    _need(all(len(each) == rules for each in engine.apart))
    if engine.student is not None:
        _need(engine.student.kind == "forest")
        _need(_check_heuristic(engine.student, width, count) == count)
    _need(engine.graph is not None, engine.test is not None, engine.model is not None)
    assert engine.graph is not None
    assert engine.test is not None
    assert engine.model is not None
    _check_graph(engine.graph, width, count, len(engine.discovery.stable()))
    _check_test(engine.test)
    _check_model(engine.model, rules + 1, count)
    _check_places(engine, width)
    for watch, series in (
        (engine.disagreements, rules + 1), (engine.strangers, count), (engine.errors, rules + 2),
    ):  # fmt: skip
        _need(watch is not None)
        assert watch is not None
        _check_watch(watch, series)
    for concept in engine.concepts:
        _check_concept(concept, width, count)


def _need(*true: Any) -> None:
    if not all(true):
        raise ValueError("parts that do not fit together")


def _shapes(shape: tuple[int, ...], *arrays: np.ndarray[Any, Any]) -> None:
    _need(*(each.shape == shape for each in arrays))


def _finite(value: Any) -> bool:
    return bool(np.isfinite(value).all())


def _small(*arrays: Floats) -> None:
    _need(*((np.abs(each) <= LARGEST).all() for each in arrays))


def _within(values: Any, low: float, high: float) -> None:
    _need((np.asarray(values) >= low).all(), (np.asarray(values) <= high).all())


def _indices(values: np.ndarray[Any, Any], low: int, below: int) -> None:
    _need(values.dtype.kind in "iu")
    _within(values, low, below - 1)


def _check_settings(engine: Engine) -> None:
    settings = engine.settings
    _need(0 < settings.false_alarm < 1, 0 <= settings.confidence <= 1)
    _need(settings.memory >= 20, settings.candidates >= 4, settings.max_heuristics >= 1)
    _need(settings.labeled_memory >= 2, engine.labeled.most >= 2, engine.recent.most >= 20)


def _check_counts(engine: Engine) -> None:
    _need(0 <= engine.last_look <= engine.seen < engine.next_look, engine.seen <= engine.given)
    _need(engine.given < 2**53, engine.next_look < 2**54)
    _need(0 <= engine.connected_with <= engine.taught, engine.made_from >= 1)
    _need(engine.calibrated_with >= 0, engine.retired >= 0, engine.discovery.numbered >= 0)


def _check_memory(engine: Engine, width: int) -> None:
    labeled, recent = engine.labeled, engine.recent
    count, held = len(labeled.codes), len(recent.numbers)
    _need(count >= 1, held <= recent.most)
    _shapes((count, width), labeled.x)
    _shapes((count,), labeled.codes, labeled.folds)
    _shapes((count, len(engine.heuristics)), labeled.symbols)
    _indices(labeled.codes, 0, engine.classes)
    _indices(labeled.folds, 0, count)
    _indices(labeled.symbols, ABSTAINS, LEVELS * engine.classes)
    _shapes((held, width if held else recent.x.shape[-1]), recent.x)
    _shapes((held,), recent.order, recent.numbers, recent.asked, recent.answered)
    _indices(recent.order, 0, engine.seen)
    _indices(recent.numbers, 0, engine.given)
    for cluster in engine.discovery.clusters:
        _need(len(cluster.core) >= 1, cluster.looks >= 1)
        _shapes((len(cluster.core), width), cluster.core)


def _check_heuristic(one: Heuristic, width: int, most: int) -> int:
    """How many classes it knows, `most` at most."""
    _need(len(one.features) >= 1, one.features.ndim == 1)
    _indices(one.features, 0, width)
    _within(one.floor, 0, 1)
    arrays, columns = one.arrays, len(one.features)
    if one.kind in ("threshold", "tree", "forest"):
        # Trees of a forest are walked down by columns of the sample itself.
        _need(one.kind != "forest" or np.array_equal(one.features, np.arange(width)))
        classes = _check_trees(arrays, columns)
    elif one.kind == "neighbours":
        anchors, sizes, k = arrays["anchors"], arrays["sizes"], arrays["k"]
        classes = len(sizes)
        _need(sizes.ndim == 1, len(anchors) >= 1)
        _shapes((len(anchors), columns), anchors)
        _shapes((1,), k)
        _indices(sizes, 0, len(anchors) + 1)
        _indices(k, 1, 1 << 20)
        _need(sizes.sum() == len(anchors))
        _small(anchors)
    else:
        offsets = arrays["offsets"]
        classes = len(offsets)
        _shapes((classes,), offsets)
        # A class without samples has none.
        _small(np.where(np.isneginf(offsets), 0.0, offsets))
        _need(np.isfinite(offsets).any())
        if one.kind == "linear":
            _shapes((columns, classes), arrays["slopes"])
            _small(arrays["slopes"])
        else:
            _shapes((classes, columns), arrays["means"], arrays["precisions"])
            _small(arrays["means"], arrays["precisions"])
            _need((arrays["precisions"] > 0).all())
    _need(1 <= classes <= most)
    return classes


def _check_trees(arrays: Mapping[str, np.ndarray[Any, Any]], columns: int) -> int:
    nodes, classes = arrays["beliefs"].shape
    _need(nodes >= 1, len(arrays["roots"]) >= 1, arrays["roots"].ndim == 1)
    _shapes((nodes,), *(arrays[name] for name in ("feature", "limit", "left", "right")))
    _shapes((1,), arrays["depth"])
    _indices(arrays["feature"], 0, columns)
    for name in ("left", "right", "roots"):
        _indices(arrays[name], 0, nodes)
    _indices(arrays["depth"], 0, nodes + 1)
    _small(arrays["limit"])
    _within(arrays["beliefs"], 0, 1 + LEAST)
    return int(classes)


def _check_model(model: LabelModel, rules: int, classes: int) -> None:
    _shapes((classes,), model.prior)
    _shapes((rules, classes, classes * LEVELS), model.confusions)
    _shapes((rules,), model.voices, model.accuracies)
    _within(model.prior, LEAST, 1)
    _within(model.confusions, LEAST, 1 + LEAST)
    _within(model.voices, 0, 1)
    _within(model.accuracies, 0, 1)
    _within(model.temperature, LEAST, LARGEST)


def _check_graph(graph: Neighbourhood, width: int, classes: int, new: int) -> None:
    nodes = len(graph.nodes)
    _shapes((nodes, width), graph.nodes)
    _shapes((nodes,), graph.scales)
    _shapes((nodes, classes + new), graph.masses, graph.own.masses)
    _shapes((nodes, 3), graph.own.surprise)
    _shapes((len(graph.spans),), graph.spans)
    _need(graph.classes == classes, 1 <= len(graph.spans) <= nodes, graph.expected >= LEAST)
    _need((graph.scales >= LEAST).all(), (graph.spans >= 0).all(), (graph.masses >= 0).all())
    _need(graph.nodes.dtype == np.float32)
    _small(graph.nodes, graph.scales, graph.masses, graph.spans, graph.own.masses, graph.own.surprise)  # fmt: skip


def _check_test(test: Novelty) -> None:
    _shapes((4,), test.means, test.spreads)
    _need(len(test.scores) >= 1, (np.diff(test.scores) >= 0).all(), (test.spreads >= LEAST).all())
    _shapes((len(test.scores),), test.scores)
    points = len(test.known.scores)
    _need(points >= 1, (np.diff(test.known.scores) >= 0).all(), 0 < test.level < 1)
    _shapes((points,), test.known.scores, test.known.known, test.known.tail)
    _within(test.known.known, 0, 1)
    _within(test.known.tail, 0, 1 + LEAST)
    _within(test.prevalence, 0, 1)
    _small(test.means, test.spreads, test.scores, test.known.scores)


def _check_places(engine: Engine, width: int) -> None:
    """Where samples lie: ranks and ellipsoids."""
    ranks, ellipsoids = engine.ranks, engine.ellipsoids
    _need(ranks is not None, ellipsoids is not None)
    assert ranks is not None
    assert ellipsoids is not None
    _need(len(ranks.values) >= 1, len(ellipsoids.means) >= 1, ellipsoids.own.ndim == 1)
    _shapes((len(ranks.values), width), ranks.values, ranks.scores)
    _need((np.diff(ranks.values, axis=0) >= 0).all())
    _shapes((len(ellipsoids.means), width), ellipsoids.means)
    _shapes((width, width), ellipsoids.root)
    _small(ranks.values, ranks.scores, ellipsoids.means, ellipsoids.root, ellipsoids.own)


def _check_watch(watch: Watch, series: int) -> None:
    _shapes((series,), watch.base, watch.sums, watch.since, watch.happened, watch.learned)
    _within(watch.base, LEAST, 1 - LEAST)
    _within(watch.sums, 0, LARGEST)
    _within(watch.happened, 0, LARGEST)
    _need((watch.learned >= watch.happened).all(), (watch.since >= 0).all())
    _within(watch.since, 0, 2**53)
    _within(watch.learned, 0, 2**53)
    _need(0 < watch.raise_by < 1, 0 < watch.false_alarms < 1, watch.learning >= 0)


def _check_concept(concept: Concept, width: int, classes: int) -> None:
    count, known = len(concept.codes), len(concept.model.prior)
    _need(count >= 1, len(concept.heuristics) >= 1, 1 <= known <= classes)
    _shapes((count, width), concept.x)
    _shapes((count,), concept.codes)
    _indices(concept.codes, 0, classes)
    for each in concept.heuristics:
        _check_heuristic(each, width, known)
    _check_model(concept.model, len(concept.heuristics) + 1, known)

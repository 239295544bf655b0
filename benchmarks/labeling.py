"""How well data is labeled that arrives with few labels and with classes that nobody has seen.

    python benchmarks/labeling.py [--part inductive|prequential|asking|speed|all] [--sets digits,...] [--seeds 5]
        [--first 0] [--ways ours,...] [--streams sea,...] [--samples 1000000] [--json FILE]
    python benchmarks/labeling_tables.py docs/labeling.md FILE...

A class in four is held back, 5 % of the known samples are labeled; rivals reject, too, at the same stated
false-alarm rate, by how unsure they are and by the distance to labeled samples: the better of the two counts.
`bounds` is no rival: forests that are told what nobody tells.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from labeling_asking import COLUMNS as ASKED_COLUMNS
from labeling_asking import SETS as ASKED_SETS
from labeling_asking import asking
from labeling_data import SETS, Array, Split, split
from labeling_rivals import levels, rivals
from labeling_scores import (
    auroc,
    brier,
    calibrated_error,
    calibration_error,
    hungarian,
    open_auc,
)

FALSE_ALARM = 0.05
BATCH = 100
COLUMNS = ("open auc", "accuracy", "known accuracy", "auroc", "caught", "caught at rate", "false alarms", "test's alarms", "ece", "ece of chance", "ece of labels", "ece of classes", "known gap", "label brier", "brier", "hungarian", "seconds")  # fmt: skip


def ours(data: Split, codes: Array, **options: Any) -> dict[str, float]:
    """Labels the pool in batches, then what was held out."""
    from wattstep.labeling import AutoLabeler

    labeler = AutoLabeler(false_alarm=FALSE_ALARM, **options).fit(data.x, codes)
    arrived = []
    for begin in range(0, len(data.pool), BATCH):
        arrived.append(labeler.partial_label(data.pool[begin : begin + BATCH]))
    told = labeler.label(data.test)
    scores = judged(
        data, told.class_probabilities, told.score, told.status == 1,
        told.probability, told.cluster,
    )  # fmt: skip
    known = data.test_y >= 0
    scores["test's alarms"] = float((told.p_value <= FALSE_ALARM)[known].mean())
    scores["abstained"] = float((told.status == 2).mean())
    scores["heuristics"] = len(told.heuristics)
    scores["clusters"] = len(told.clusters)
    return scores


def judged(
    data: Split,
    probabilities: Array,
    score: Array,
    unknown: Array,
    probability: Array,
    clusters: Array | None,
) -> dict[str, float]:
    """All scores of one answer on the held-out samples."""
    known = data.test_y >= 0
    codes = np.searchsorted(np.unique(data.y), np.where(known, data.test_y, data.y[0]))
    right = (probabilities.argmax(axis=1) == codes) & known
    scores = {
        "accuracy": float(np.where(known, right & ~unknown, unknown).mean()),
        "known accuracy": float(right[known].mean()),
        "false alarms": float(unknown[known].mean()),
        "brier": brier(probabilities[known], codes[known]),
        "ece of classes": calibration_error(probabilities.max(axis=1)[known], right[known]),
        "labels": len(data.y),
    }
    labeled = ~unknown
    if labeled.any():
        scores["ece"] = calibration_error(probability[labeled], right[labeled])
        scores["ece of chance"] = calibrated_error(probability[labeled])
        scores["ece of labels"] = calibrated_error(probability[labeled], len(data.y))
        # What the probabilities take to be known among what is not called unknown, less what is.
        believed = probability[labeled] / probabilities.max(axis=1)[labeled]
        scores["known gap"] = float(believed.mean() - known[labeled].mean())
        scores["right of labeled"] = float(right[labeled].mean())
        scores["label brier"] = float(((probability - right) ** 2)[labeled].mean())
    if data.unknown:
        scores["open auc"] = open_auc(right, score, known)
        scores["auroc"] = auroc(score, known)
        scores["caught"] = float(unknown[~known].mean())
        # With the level that calls the stated share of these known samples unknown, which nobody is told.
        level = np.quantile(score[known], 1 - FALSE_ALARM)
        scores["caught at rate"] = float((score[~known] > level).mean())
        if clusters is not None:
            new = np.where(unknown, clusters, -1)
            scores["hungarian"] = hungarian(new[~known], data.test_classes[~known])
    return scores


def rival(name: str, data: Split, codes: Array) -> dict[str, dict[str, float]]:
    make = rivals()[name]
    one = make()
    one.fit(data.x, codes, data.pool)
    answer = one.answer(data.test)
    limits = levels(make, data.x, codes, data.pool, FALSE_ALARM)
    return {
        f"{name}/{way}": judged(
            data, answer.probabilities, score, score > limits.get(way, np.inf),
            answer.probabilities.max(axis=1), answer.clusters,
        )
        for way, score in answer.scores.items()
    }  # fmt: skip


BOUNDS = "bounds"


def bounds(data: Split, codes: Array) -> dict[str, dict[str, float]]:
    """What 5 % of labels cannot reach: forests that are told what nobody tells.

    The first is told of every sample of the pool whether its class is unknown, and has the labeled samples for the
    classes; the second is told the classes of the whole pool.
    """
    from sklearn.ensemble import RandomForestClassifier

    def forest(x: Array, y: Array) -> Any:
        return RandomForestClassifier(n_estimators=200, random_state=0).fit(x, y)

    names = np.unique(data.y)
    every, truth = np.concatenate([data.x, data.pool]), np.concatenate([data.y, data.pool_y])
    known = truth >= 0
    score = np.zeros(len(data.test))
    if not known.all():
        score = forest(every, ~known).predict_proba(data.test)[:, 1]
    all_codes = np.searchsorted(names, truth[known])
    few, full = forest(data.x, codes), forest(every[known], all_codes)
    found = {}
    for way, classifier in (("told what is unknown", few), ("told all", full)):
        classes = classifier.predict_proba(data.test)
        sure = classes.max(axis=1) * (1 - score)
        found[way] = judged(data, classes, score, score > 0.5, sure, None)
    return found


def inductive(
    sets: list[str], seeds: range, ways: list[str]
) -> dict[str, dict[str, list[dict[str, float]]]]:
    results: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name in sets:
        of_set: dict[str, list[dict[str, float]]] = defaultdict(list)
        for seed in seeds:
            data = split(name, seed)
            codes = np.searchsorted(np.unique(data.y), data.y)
            for way in ways:
                begun = time.process_time()
                if way == BOUNDS:
                    found = bounds(data, codes)
                else:
                    found = (
                        {"ours": ours(data, codes)} if way == "ours" else rival(way, data, codes)
                    )
                for each, scores in found.items():
                    of_set[each].append(scores | {"seconds": time.process_time() - begun})
        results[name] = dict(of_set)
        show(name, of_set)
    return results


# -- streams that change

BEFORE, AFTER, LABELED = 3000, 3000, 50
WINDOW = 500  # samples over which an accuracy is back
WITHIN = 0.02  # of what it was before
STREAM_COLUMNS = ("before", "first 500 after", "from 1,000 on", "last 1,000", "back", "back after", "seconds")  # fmt: skip
STREAMS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "sea": ("SEA", {"variant": 0}, {"variant": 3}),
    "stagger": ("STAGGER", {"classification_function": 0}, {"classification_function": 1}),
    "sine": ("Sine", {"classification_function": 0}, {"classification_function": 1}),
    "mixed": ("Mixed", {"classification_function": False}, {"classification_function": True}),
    "random rbf": (
        "RandomRBF",
        {"seed_model": 1, "n_classes": 4},
        {"seed_model": 2, "n_classes": 4},
    ),
}


def stream_of(name: str, seed: int) -> tuple[Array, Array]:
    """Samples and classes of a stream of river's, which changes at once after `BEFORE` samples."""
    from river.datasets import synth

    kind, first, second = STREAMS[name]
    x, y = [], []
    for number, (options, count) in enumerate(((first, BEFORE), (second, AFTER))):
        made = getattr(synth, kind)(
            **({("seed_sample" if kind == "RandomRBF" else "seed"): 2 * seed + number} | options)
        )
        for row, label in made.take(count):
            x.append([float(value) for value in row.values()])
            y.append(int(label))
    return np.array(x), np.array(y)


def prequential(names: list[str], seeds: range) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Each batch is labeled before 5 % of its labels, drawn at random, are told."""
    results: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name in names:
        of_stream: dict[str, list[dict[str, float]]] = defaultdict(list)
        for seed in seeds:
            x, y = stream_of(name, seed)
            for way in FOLLOWERS:
                begun = time.process_time()
                right = _followed(way, x, y, seed)
                level = right[BEFORE - 1000 - LABELED : BEFORE - LABELED].mean()
                after = right[BEFORE - LABELED :]
                of_stream[way].append(
                    {
                        "before": float(level),
                        "first 500 after": float(after[:500].mean()),
                        "from 1,000 on": float(after[1000:2000].mean()),
                        "last 1,000": float(after[-1000:].mean()),
                        "seconds": time.process_time() - begun,
                    }
                    | _recovery(after, float(level))
                )
        results[name] = dict(of_stream)
        show(name, of_stream, STREAM_COLUMNS)
    return results


def _recovery(after: Array, level: float) -> dict[str, float]:
    """Samples from the change on until `WINDOW` of them are labeled as well as before; no number where none are."""
    for begin in range(0, len(after) - WINDOW + 1, BATCH):
        if after[begin : begin + WINDOW].mean() >= level - WITHIN:
            return {"back": 1.0, "back after": float(begin)}
    return {"back": 0.0}


def _followed(way: str, x: Array, y: Array, seed: int) -> Array:
    """Whether each sample after the first labeled ones was labeled right."""
    random = np.random.default_rng(seed)
    rest, truth = x[LABELED:], y[LABELED:]
    follower = FOLLOWERS[way](x[:LABELED], y[:LABELED])
    right = []
    for begin in range(0, len(rest), BATCH):
        batch, classes = rest[begin : begin + BATCH], truth[begin : begin + BATCH]
        right.append(follower.predict(batch) == classes)
        told = random.choice(len(batch), len(batch) // 20, replace=False)
        follower.learn(batch[told], classes[told])
    return np.concatenate(right)


class Ours:
    def __init__(self, x: Array, y: Array) -> None:
        from wattstep.labeling import AutoLabeler

        self.labeler = AutoLabeler(false_alarm=FALSE_ALARM).fit(x, y)

    def predict(self, x: Array) -> Array:
        return self.labeler.partial_label(x).labels

    def learn(self, x: Array, y: Array) -> None:
        self.labeler.partial_fit(x, y)


class Window:
    """A random forest of the last labels, made again at each batch."""

    most = 100

    def __init__(self, x: Array, y: Array) -> None:
        self.x, self.y = x, y
        self.learn(x[:0], y[:0])

    def learn(self, x: Array, y: Array) -> None:
        from sklearn.ensemble import RandomForestClassifier

        self.x = np.concatenate([self.x, x])[-self.most :]
        self.y = np.concatenate([self.y, y])[-self.most :]
        self.model = RandomForestClassifier(n_estimators=30, random_state=0).fit(self.x, self.y)

    def predict(self, x: Array) -> Array:
        return self.model.predict(x)


class Told(Window):
    """No rival: a forest of all labels that is told when the stream changes, and forgets what came before."""

    most = BEFORE + AFTER
    seen = 0
    forgot = False

    def predict(self, x: Array) -> Array:
        self.seen += len(x)
        return super().predict(x)

    def learn(self, x: Array, y: Array) -> None:
        # At the first batch that lies behind the change as a whole.
        if self.seen >= BEFORE - LABELED + BATCH and not self.forgot:
            self.x, self.y, self.forgot = self.x[:0], self.y[:0], True
        super().learn(x, y)


class Adaptive:
    """river's adaptive random forest, which learns each label once."""

    def __init__(self, x: Array, y: Array) -> None:
        from river import forest

        self.model = forest.ARFClassifier(seed=0)
        self.learn(x, y)

    def learn(self, x: Array, y: Array) -> None:
        for row, label in zip(x, y, strict=True):
            self.model.learn_one(dict(enumerate(row)), int(label))

    def predict(self, x: Array) -> Array:
        return np.array([self.model.predict_one(dict(enumerate(row))) for row in x])


FOLLOWERS: dict[str, Any] = {
    "ours": Ours, "last 100 labels, forest": Window, "adaptive forest": Adaptive,
    "told of the change, forest": Told,
}  # fmt: skip


# -- speed and memory


def speed(samples: int) -> dict[str, float]:
    """Samples a second of processor time, one thread, 64 features, batches of 1,000; and how memory grows."""
    import resource

    from wattstep.labeling import AutoLabeler

    random = np.random.default_rng(0)
    centers = 1.2 * random.normal(size=(8, 64))

    def made(count: int) -> tuple[Array, Array]:
        y = random.integers(0, 8, count)
        return centers[y] + random.normal(size=(count, 64)), y

    labeler = AutoLabeler().fit(*made(400))
    spent, at_tenth = 0.0, 0.0
    for number in range(samples // 1000):
        x = made(1000)[0]
        begun = time.process_time()
        labeler.partial_label(x)
        spent += time.process_time() - begun
        if number == samples // 10_000:
            at_tenth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    x = made(4000)[0]
    begun = time.process_time()
    for first in range(0, 4000, 1000):
        labeler.label(x[first : first + 1000])
    alone = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {
        "samples": samples, "labeling and learning, samples/s": samples / spent,
        "labeling alone, samples/s": 4000 / alone,
        "peak memory after a tenth, MiB": at_tenth, "peak memory at the end, MiB": peak,
    }  # fmt: skip
    for name, value in found.items():
        print(f"{name}: {value:,.0f}")
    return found


def show(
    name: str, of_set: dict[str, list[dict[str, float]]], columns: tuple[str, ...] = COLUMNS
) -> None:
    print(f"\n{name}\n{'':28s}" + "".join(f"{column[:14]:>15s}" for column in columns))
    for way, rows in of_set.items():
        cells = []
        for column in columns:
            values = [row[column] for row in rows if column in row]
            cells.append(f"{np.mean(values):7.3f}±{np.std(values):.3f}" if values else "")
        print(f"{way:28s}" + "".join(f"{cell:>15s}" for cell in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--part", default="all", choices=("inductive", "prequential", "asking", "speed", "all")
    )
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--ways", default=",".join(("ours", BOUNDS, *rivals())))
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--samples", type=int, default=1_000_000, help="of the speed")
    parser.add_argument("--json", metavar="FILE")
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + asked.seeds)
    results: dict[str, Any] = {}
    if asked.part in ("inductive", "all"):
        results["inductive"] = inductive(asked.sets.split(","), seeds, asked.ways.split(","))
        if "ours" in asked.ways.split(","):
            summary(results["inductive"])
    if asked.part in ("prequential", "all"):
        results["prequential"] = prequential(asked.streams.split(","), seeds)
    if asked.part in ("asking", "all"):
        results["asking"] = {}
        for name in asked.sets.split(",") if asked.part == "asking" else ASKED_SETS:
            results["asking"][name] = asking(name, seeds)
            show(name, results["asking"][name], ASKED_COLUMNS)
    if asked.part in ("speed", "all"):
        results["speed"] = speed(asked.samples)
    if asked.json:
        Path(asked.json).write_text(json.dumps(results), encoding="utf-8")


def summary(results: dict[str, dict[str, list[dict[str, float]]]]) -> None:
    """Ours beside the best rival of each set and score, in points, with Student's interval of 95 % over seeds."""
    from scipy import stats

    print("\nours less the best rival of each set, points")
    for column in ("open auc", "accuracy", "known accuracy", "auroc", "hungarian"):
        margins = []
        for name, of_set in results.items():
            if column not in of_set["ours"][0]:
                continue
            own = np.array([row[column] for row in of_set["ours"]])
            rivals_of = [
                way
                for way in of_set
                if way != "ours" and not way.startswith("told") and column in of_set[way][0]
            ]
            if not rivals_of:
                continue
            best = max(
                rivals_of,
                key=lambda way: np.mean([row[column] for row in of_set[way]]),
            )
            gain = 100 * (own - np.array([row[column] for row in of_set[best]]))
            margins.append(gain.mean())
            half = (
                stats.t.ppf(0.975, max(len(gain) - 1, 1)) * gain.std(ddof=1) / np.sqrt(len(gain))
                if len(gain) > 1
                else np.nan
            )
            print(
                f"  {column:16s}{name:16s}{100 * own.mean():7.1f} {gain.mean():+7.1f} ± {half:4.1f}  ({best})"
            )
        if margins:
            print(f"  {column:16s}{'mean':16s}        {np.mean(margins):+7.1f}")


if __name__ == "__main__":
    main()

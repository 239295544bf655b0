"""How well data is labeled that arrives with few labels and with classes that nobody has seen.

    python benchmarks/labeling.py [--part inductive|prequential|speed|all] [--sets digits,...] [--seeds 5]
        [--ways ours,...] [--json]

A class in four is held back, 5 % of the known samples are labeled; rivals reject, too, at the same stated
false-alarm rate, by how unsure they are and by the distance to labeled samples: the better of the two counts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from typing import Any

import numpy as np

from labeling_data import SETS, Array, Split, split
from labeling_rivals import levels, rivals
from labeling_scores import auroc, brier, calibration_error, hungarian, open_auc

FALSE_ALARM = 0.05
BATCH = 100


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
    }
    labeled = ~unknown
    if labeled.any():
        scores["ece"] = calibration_error(probability[labeled], right[labeled])
    if data.unknown:
        scores["open auc"] = open_auc(right, score, known)
        scores["auroc"] = auroc(score, known)
        scores["caught"] = float(unknown[~known].mean())
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


def inductive(sets: list[str], seeds: int, ways: list[str]) -> dict[str, dict[str, list[dict[str, float]]]]:
    results: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name in sets:
        of_set: dict[str, list[dict[str, float]]] = defaultdict(list)
        for seed in range(seeds):
            data = split(name, seed)
            codes = np.searchsorted(np.unique(data.y), data.y)
            for way in ways:
                begun = time.process_time()
                found = {"ours": ours(data, codes)} if way == "ours" else rival(way, data, codes)
                for each, scores in found.items():
                    of_set[each].append(scores | {"seconds": time.process_time() - begun})
        results[name] = dict(of_set)
        show(name, of_set)
    return results


COLUMNS = ("open auc", "accuracy", "known accuracy", "auroc", "caught", "false alarms", "test's alarms", "ece", "brier", "hungarian", "seconds")  # fmt: skip


def show(name: str, of_set: dict[str, list[dict[str, float]]]) -> None:
    print(f"\n{name}\n{'':28s}" + "".join(f"{column[:12]:>13s}" for column in COLUMNS))
    for way, rows in of_set.items():
        cells = []
        for column in COLUMNS:
            values = [row[column] for row in rows if column in row]
            cells.append(f"{np.mean(values):7.3f}±{np.std(values):.3f}" if values else "")
        print(f"{way:28s}" + "".join(f"{cell:>13s}" for cell in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--ways", default="ours," + ",".join(rivals()))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    results = inductive(asked.sets.split(","), asked.seeds, asked.ways.split(","))
    if asked.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()

"""Whether labels of the samples that are asked for help more than those of others: `labeling.py --part asking`."""

from __future__ import annotations

import copy
import time
from collections import defaultdict
from typing import Any

import numpy as np

from labeling_data import Split, split

ROUNDS, OF_EACH = 4, 10  # questions
BATCH = 100
SETS = ("digits", "segments", "phishing", "breast cancer", "wine")
WAYS = ("no further labels", "random", "asked")
COLUMNS = ("accuracy", "known accuracy", "classes", "seconds")


def asking(name: str, seeds: range) -> dict[str, list[dict[str, float]]]:
    """Held-out accuracy after rounds of questions, each answered at once, by way."""
    results: dict[str, list[dict[str, float]]] = defaultdict(list)
    for seed in seeds:
        data = split(name, seed)
        streamed = labeled(data)
        for way in WAYS:
            begun = time.process_time()
            labeler = answered(copy.deepcopy(streamed), data, way, seed)
            found = scores(data, labeler) | {"seconds": time.process_time() - begun}
            results[way].append(found)
    return dict(results)


def labeled(data: Split) -> Any:
    """The labeler when the pool has come."""
    from wattstep.labeling import AutoLabeler

    labeler = AutoLabeler().fit(data.x, data.y)
    for begin in range(0, len(data.pool), BATCH):
        labeler.partial_label(data.pool[begin : begin + BATCH])
    return labeler


def answered(labeler: Any, data: Split, way: str, seed: int) -> Any:
    """It when all is answered."""
    held = labeler.engine_.recent.numbers  # what can be asked for
    drawn = np.random.default_rng(seed).permutation(held)
    for number in range(ROUNDS if way != WAYS[0] else 0):
        rows = drawn[number * OF_EACH : (number + 1) * OF_EACH]
        if way == "asked":
            rows = labeler.ask(OF_EACH).numbers
        labeler.partial_fit(data.pool[rows], data.pool_classes[rows])
    return labeler


def scores(data: Split, labeler: Any) -> dict[str, float]:
    """On the held-out samples; of a class that was held back, unknown is right as well as its own name."""
    told = labeler.label(data.test)
    right = told.labels == data.test_classes
    known, unknown = data.test_y >= 0, told.status == 1
    return {
        "accuracy": float(np.where(known, right & ~unknown, right | unknown).mean()),
        "known accuracy": float(right[known].mean()),
        "classes": float(len(labeler.classes_)),
    }

"""Labels for the samples of each day, by a labeler that has seen a few labeled ones: what `--labels auto` trains on."""

from __future__ import annotations

import time

import numpy as np

from wattstep.labeling.outcome import LABELED, STATUSES
from wattstep.schema.arrays import BoolArray
from wattstep.schema.extras import require
from wattstep.train.daily.folder import DailyFolder, DayLabels
from wattstep.train.daily.pretraining import Tell, prepare
from wattstep.train.daily.settings import SERVER_BATCH, DailySettings


def label_days(settings: DailySettings, folder: DailyFolder, tell: Tell) -> None:
    """Labels all days in their order, once for all batch sizes.

    The features are the class scores of the server's model, as it was before the first day. True labels are
    used for the few labeled samples alone, and to say how many of the others are right.

    Raises:
        MissingPartError: scikit-learn is not there.
    """
    AutoLabeler = require("wattstep.labeling.auto_labeler").AutoLabeler
    _, classifier, parts = prepare(settings, SERVER_BATCH, "fp32")
    classifier.load_weights(folder.weights)
    labeler = AutoLabeler(random_state=settings.seed).fit(
        classifier.scores(parts.labeled), np.array(classifier.classes_of(parts.labeled))
    )
    rows: list[DayLabels] = []
    for day, samples in enumerate(parts.days, start=1):
        begin = time.perf_counter()
        scores = classifier.scores(samples)
        labels = labeler.partial_label(scores)
        seconds = time.perf_counter() - begin
        truth = np.array(classifier.classes_of(samples))
        labeled = labels.status == LABELED
        right = labels.labels[labeled] == truth[labeled]
        rows.append(
            {
                "classes": np.where(labeled, labels.labels, -1).tolist(),
                "statuses": "".join(STATUSES[status][0] for status in labels.status),
                "right": _bits(right),
                "first_choice": _bits(scores.argmax(axis=1) == truth),
                "seconds": seconds,
            }
        )
        tell(
            {
                "stage": "labeling",
                "day": day,
                "batch_size": 0,
                "accuracy": float(right.mean()) if len(right) else 0.0,
            }
        )
    folder.keep_labels(rows)


def _bits(right: BoolArray) -> str:
    return "".join("01"[int(each)] for each in right)

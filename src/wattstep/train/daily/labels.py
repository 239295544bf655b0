"""Labels for the samples of each day, by a labeler that has seen a few labeled ones: what `--labels auto` trains on."""

from __future__ import annotations

import base64
import time

import numpy as np

from wattstep.errors import RecordingError
from wattstep.labeling.outcome import LABELED, STATUSES, Labels
from wattstep.record.recorder import Recorder
from wattstep.schema.arrays import BoolArray, ByteArray, IntArray
from wattstep.schema.extras import require
from wattstep.train.daily.days import SAMPLED_S
from wattstep.train.daily.folder import DailyFolder, DayLabels, ExampleRow, kinds_of, new_run
from wattstep.train.daily.pretraining import Tell, prepare
from wattstep.train.daily.settings import SERVER_BATCH, DailySettings

SHOWN_DAYS = 6  # with pictures on the page, however many there are
EXAMPLES = 3  # of a day and a kind
MOST_SIDE = 32  # pixels of a picture: larger ones are averaged down


def label_days(settings: DailySettings, folder: DailyFolder, tell: Tell) -> None:
    """Labels all days in their order, once for all batch sizes; all of it is one run of its own.

    The features are the class scores of the server's model, as it was before the first day. True labels are
    used for the few labeled samples alone, and to say how many of the others are right.

    Raises:
        MissingPartError: scikit-learn is not there.
        RecordingError: Recording ended early.
    """
    AutoLabeler = require("wattstep.labeling.auto_labeler").AutoLabeler
    trainer, classifier, parts = prepare(settings, SERVER_BATCH, "fp32")
    classifier.load_weights(folder.weights)
    labeler = AutoLabeler(random_state=settings.seed)
    shown = np.linspace(1, settings.days, min(settings.days, SHOWN_DAYS)).round()
    rows: list[DayLabels] = []
    with Recorder(
        new_run(folder.labeling), trace="none", warmup=0, power_model=settings.power_model,
        engine=trainer.engine, about={"workload": "labeling", "batch_size": settings.images_per_day},
    ) as recorder:  # fmt: skip
        for day, samples in enumerate(parts.days, start=1):
            begin = time.perf_counter_ns()
            with recorder.step(samples=len(samples)):
                if day == 1:  # the rules are made for all days
                    classes = np.array(classifier.classes_of(parts.labeled))
                    labeler.fit(classifier.scores(parts.labeled), classes)
                scores = classifier.scores(samples)
                labels = labeler.partial_label(scores)
            end = time.perf_counter_ns()
            row = _row(labels, np.array(classifier.classes_of(samples)), scores.argmax(axis=1))
            row |= {"run": recorder.path.name, "begin_ns": begin, "end_ns": end}
            pictures = classifier.pictures(samples) if day in shown else None
            if pictures is not None:
                row["examples"] = examples_of(row, labels, pictures)
            rows.append(row)
            right = row["right"]
            tell(
                {
                    "stage": "labeling",
                    "day": day,
                    "batch_size": 0,
                    "accuracy": right.count("1") / max(len(right), 1),
                }
            )
        time.sleep(SAMPLED_S)
        if recorder.problem is not None:
            raise RecordingError(recorder.problem)
    folder.keep_labels(rows)


def _row(labels: Labels, truth: IntArray, first_choice: IntArray) -> DayLabels:
    labeled = labels.status == LABELED
    return {
        "classes": np.where(labeled, labels.labels, -1).tolist(),
        "truth": truth.tolist(),
        "statuses": "".join(STATUSES[status][0] for status in labels.status),
        "right": _bits(labels.labels[labeled] == truth[labeled]),
        "first_choice": _bits(first_choice == truth),
        "run": "", "begin_ns": 0, "end_ns": 0, "examples": [],
    }  # fmt: skip


def examples_of(row: DayLabels, labels: Labels, pictures: ByteArray) -> list[ExampleRow]:
    """The first samples of each kind.

    Args:
        pictures: Of all samples of the day, shape (n, height, width, channels).
    """
    found: list[ExampleRow] = []
    taken: dict[str, int] = {}
    for number, kind in enumerate(kinds_of(row)):
        taken[kind] = taken.get(kind, 0) + 1
        if taken[kind] > EXAMPLES:
            continue
        pixels = small_of(pictures[number])
        found.append(
            {
                "kind": kind,
                "label": int(labels.labels[number]),
                "truth": row["truth"][number],
                "probability": float(labels.probability[number]),
                "pixels": base64.b64encode(pixels.tobytes()).decode(),
                "shape": list(pixels.shape),
            }
        )
    return found


def small_of(picture: ByteArray) -> ByteArray:
    """Means over squares of so many pixels that no side is longer than `MOST_SIDE`."""
    side = -(-max(picture.shape[:2]) // MOST_SIDE)
    height, width = picture.shape[0] // side, picture.shape[1] // side
    squares = picture[: height * side, : width * side].reshape(height, side, width, side, -1)
    small: ByteArray = squares.mean(axis=(1, 3)).astype(np.uint8)
    return small


def _bits(right: BoolArray) -> str:
    return "".join("01"[int(each)] for each in right)

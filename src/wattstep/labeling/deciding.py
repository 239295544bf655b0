"""What a person tells a labeling: names of new classes, and labels of samples that it asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.labeling.arrays import Floats
from wattstep.labeling.folder import QUESTIONS, LabelFolder
from wattstep.labeling.job import inert
from wattstep.labeling.progress import Progress
from wattstep.labeling.reading import has_labels, read_labeled
from wattstep.labeling.source import Source
from wattstep.store.folder import replacing

if TYPE_CHECKING:
    from wattstep.labeling.auto_labeler import AutoLabeler, Questions


def decide(
    folder: LabelFolder,
    source: Source,
    *,
    names: Sequence[str] = (),
    merges: Sequence[str] = (),
    rejects: Sequence[str] = (),
    answers: Path | None = None,
) -> int:
    """Carries out what a person decided: all of it or, where it is refused or killed, nothing.

    Args:
        folder: Opened for the source.
        source: What is labeled.
        names: Labels of new classes, `unknown-1=LABEL`.
        merges: New classes of which the second becomes part of the first, `unknown-1=unknown-2`.
        rejects: New classes that are none.
        answers: File of labeled samples, in the form of the labeled set; what was told before is passed over.

    Returns:
        How many samples were told.

    Raises:
        InvalidValueError: There is no such class, or the answers do not fit.
    """
    if not (names or merges or rejects or answers):
        return 0
    progress = folder.progress()
    if not progress.samples:
        raise InvalidValueError(
            f"{folder.path} has no labels yet: label first; what is known before belongs into --labeled",
            id="not-labeled-yet",
        )
    labeler = folder.labeler()
    decided = _decided(labeler, names, merges, rejects)
    keys: list[str] = []
    if answers is not None:
        x, y, keys = _told(answers, source, labeler, progress)
        if keys:
            labeler.partial_fit(x, y)
    if decided or keys:
        told = (*progress.told, *dict.fromkeys(keys))
        kept = replace(progress, decided={**progress.decided, **decided}, told=told)
        folder.keep(replace(kept, state=folder.save(labeler)))
    return len(keys)


def _decided(
    labeler: AutoLabeler, names: Sequence[str], merges: Sequence[str], rejects: Sequence[str]
) -> dict[str, str]:
    decided = {}
    for pair in merges:
        first, second = _pair(pair, "--merge")
        labeler.merge(first, second)
        decided[second] = first
    for rejected in rejects:
        labeler.reject(rejected)
        decided[rejected] = ""
    for pair in names:
        cluster, text = _pair(pair, "--name")
        labeler.name(cluster, _typed(text, labeler.classes_, f"--name {pair}"))
        decided[cluster] = text
    return decided


def _pair(text: str, option: str) -> tuple[str, str]:
    first, _, second = text.partition("=")
    if not (first and second):
        raise InvalidValueError(
            f"{option} {text}: two names with = between them are wanted", id="malformed-pair"
        )
    return first, second


def _typed(text: str, classes: np.ndarray[Any, Any], where: str) -> Any:
    """A label as the others are: a number where they are numbers, true or false where they are."""
    kind = classes.dtype.kind
    if kind == "b" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind in "iuf":
        try:
            return classes.dtype.type(text)
        except ValueError:
            raise InvalidValueError(
                f"{where}: the labels are numbers, and {text} is none", id="mixed-labels"
            ) from None
    return text


# -- questions and answers


def answer_column(source: Source) -> str:
    """Column of the labels in files of answers: that of the labeled set, `label` where it has none."""
    column = source.asked.column or "label"
    if column in source.features:
        raise InvalidValueError(
            f"answers have their labels in a column {column}, and a feature is called so: "
            "call it otherwise, or name the column of the labels with --column",
            id="column-twice",
        )
    return column


def key_of(sample: Floats, label: Any) -> str:
    """What an answer is known by: its features and its label."""
    return hashlib.sha256(sample.tobytes() + str(label).encode()).hexdigest()[:16]


def _told(
    path: Path, source: Source, labeler: AutoLabeler, progress: Progress
) -> tuple[Floats, np.ndarray[Any, Any], list[str]]:
    """Answers that were not told before: samples, labels, keys."""
    x, y, _ = read_labeled(path, answer_column(source), None, source.features)
    if y.dtype.kind == "U":
        y = np.array([_typed(label, labeler.classes_, str(path)) for label in y.tolist()])
    keys = [key_of(sample, label) for sample, label in zip(x, y, strict=True)]
    before = set(progress.told)
    new = [n for n, key in enumerate(keys) if key not in before]
    return x[new], y[new], [keys[n] for n in new]


def check_answered(folder: LabelFolder, source: Source) -> None:
    """Refuses to ask anew where the file of earlier questions has answers that nobody told.

    Raises:
        InvalidValueError: It has.
    """
    path = folder.path / QUESTIONS
    if not path.exists() or not has_labels(path, answer_column(source)):
        return
    _, _, keys = _told(path, source, folder.labeler(), folder.progress())
    if keys:
        raise InvalidValueError(
            f"{path} has {len(keys)} answers that were not told, and --ask would write other questions there: "
            f"give --answers {path} as well, or move it away",
            id="untold-answers",
        )


def write_questions(folder: LabelFolder, source: Source, questions: Questions) -> Path:
    """Writes the samples with an empty column for their labels: filled in, it is a file of answers.

    Raises:
        RecordingError: It cannot be written.
    """
    import pyarrow as pa
    from pyarrow import csv

    rows = folder.progress().rows
    ends = np.cumsum(rows)
    files = np.searchsorted(ends, questions.numbers, side="right")
    names = [source.tables[file].path.name for file in files]
    columns = {
        "file": pa.array(names, pa.string()),
        "row": pa.array(questions.numbers - (ends - rows)[files], pa.int64()),
        # Features of these names come after, and count.
        **{name: pa.array(questions.x[:, n]) for n, name in enumerate(source.features)},
        answer_column(source): pa.nulls(len(names), pa.string()),
    }
    path = folder.path / QUESTIONS
    try:
        with replacing(path) as file:
            csv.write_csv(inert(pa.table(columns)), file)
    except OSError as error:
        raise RecordingError(
            f"{path} cannot be written: {error.strerror or error}", id="labels-not-written"
        ) from error
    return path

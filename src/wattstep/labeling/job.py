"""Labeling files: in pieces, each kept before the next, so that what was interrupted goes on exactly where it was."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from wattstep.errors import DamagedRunError, InvalidValueError, RecordingError
from wattstep.labeling.arrays import Floats
from wattstep.labeling.outcome import LABELED, STATUSES, UNKNOWN, UNREADABLE, Labels
from wattstep.labeling.reading import Piece, Table, open_table, pieces, read_labeled
from wattstep.schema.sanitize import FORMULA
from wattstep.store.folder import read_plain, replacing
from wattstep.store.lock import lock_folder, not_there, take_back

if TYPE_CHECKING:
    import pyarrow as pa

    from wattstep.labeling.auto_labeler import AutoLabeler
    from wattstep.labeling.pacing import Pacer
    from wattstep.labeling.processors import Processors

SETTINGS: Final = "label.json"
STATE: Final = "state.npz"
PROGRESS: Final = "progress.json"
REPORT: Final = "report.html"
LOCK: Final = "label.lock"
PARTS: Final = "labels"
_BEGUN: Final = (PARTS, SETTINGS, LOCK)  # made before anything is labeled
MEASURED_SAMPLES: Final = 5000  # that are labeled once more where the cost is measured
EXAMPLES: Final = 8  # of each label, and of each new class, that the page shows
MOST_CELLS: Final = 200  # of the course over pieces: neighbours are added up beyond
# `store.folder.replacing` and `state.write` put them beside what they replace.
_HALF_WRITTEN = re.compile(
    r"\.(label\.json|progress\.json|report\.html|\d{6,}\.(csv|parquet))\.[0-9a-f]{12}|state\.npz\.new"
)
Format = Literal["csv", "parquet"]
Tell = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Settings of a labeling; see the options of `wattstep label`."""

    data: tuple[str, ...]
    labeled: str
    column: str | None = None
    labels: str | None = None
    features: tuple[str, ...] = ()
    false_alarm: float = 0.05
    confidence: float = 0.5
    batch: int = 500
    seed: int = 0
    format: Format = "parquet"


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Counts of some pieces that follow each other.

    Attributes:
        samples: How many.
        by_label: Samples that were labeled, by label as text.
        by_cluster: Unknown samples by new class; "" for none.
        abstained, unreadable: Others.
        probability: Sum over the labeled samples of the probability that their label is right.
        known: Sum over the readable samples of the probability that they are of a class known then.
    """

    samples: int
    by_label: Mapping[str, int]
    by_cluster: Mapping[str, int]
    abstained: int
    unreadable: int
    probability: float
    known: float

    def plus(self, other: Stretch) -> Stretch:
        """Both together."""
        return Stretch(
            samples=self.samples + other.samples,
            by_label=_added(self.by_label, other.by_label),
            by_cluster=_added(self.by_cluster, other.by_cluster),
            abstained=self.abstained + other.abstained,
            unreadable=self.unreadable + other.unreadable,
            probability=self.probability + other.probability,
            known=self.known + other.known,
        )


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What is done.

    Attributes:
        samples: Labeled so far.
        parts: Files written.
        course: Counts by stretches of about equal length.
        per_stretch: Pieces of a stretch.
        pieces: Pieces so far.
        examples: Features of some samples by what they were labeled as, for pictures.
        files: Identity of each data file.
        decided: What a person made of new classes: a label, the new class that it is part of, "" for none.
    """

    samples: int = 0
    parts: int = 0
    course: tuple[Stretch, ...] = ()
    per_stretch: int = 1
    pieces: int = 0
    examples: Mapping[str, list[list[float]]] | None = None
    files: tuple[str, ...] = ()
    decided: Mapping[str, str] = field(default_factory=dict)

    def total(self) -> Stretch:
        """Counts of all samples."""
        total = Stretch(
            samples=0, by_label={}, by_cluster={}, abstained=0, unreadable=0, probability=0.0,
            known=0.0,
        )  # fmt: skip
        for each in self.course:
            total = total.plus(each)
        return total


class LabelFolder:
    """The folder of a labeling; everything in it is written whole.

    Args:
        path: The folder; made by `open`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock: int | None = None
        self._made: tuple[Path, ...] = ()

    def open(self, asked: Asked) -> None:
        """Makes the folder, or checks that it is of the same settings; holds it until `close`.

        Raises:
            InvalidValueError: It holds something else, or cannot be made.
            DamagedRunError: Labels that it had are gone.
            RunExistsError: Another command labels into it.
        """
        try:
            if self.path.exists() and not (self.path / SETTINGS).exists():
                self._check_empty()
            self._made = not_there(self.path, _BEGUN)
            (self.path / PARTS).mkdir(parents=True, exist_ok=True)
            self.lock = lock_folder(self.path, LOCK, "another wattstep label")
            document = json.loads(json.dumps(asdict(asked)))
            if (self.path / SETTINGS).exists():
                there = _read(self.path / SETTINGS)
                other = [name for name in document if there.get(name) != document[name]]
                if other and (self.path / PROGRESS).exists():
                    raise InvalidValueError(
                        f"{self.path} holds a labeling with another {', '.join(other)}: "
                        "choose another --out, or remove it first",
                        id="other-settings",
                    )
            _write(self.path / SETTINGS, document)
            self._clear()
            self._check_parts(asked)
        except OSError as error:
            raise InvalidValueError(
                f"{self.path} cannot be made: {error.strerror or error}", id="unwritable-labels"
            ) from error

    def take_back(self) -> None:
        """Of a refused labeling: what `open` made goes, unless more came into it."""
        take_back(self.path, _BEGUN, self._made)

    def close(self) -> None:
        """Lets go of the folder."""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def _check_empty(self) -> None:
        if not self.path.is_dir() or any(
            each.name not in (LOCK, PARTS) for each in self.path.iterdir()
        ):
            raise InvalidValueError(
                f"{self.path} holds something else: choose another --out", id="not-a-label-folder"
            )

    def _clear(self) -> None:
        """Takes away what a killed command left half written."""
        for folder in (self.path, self.path / PARTS):
            for each in folder.iterdir():
                if _HALF_WRITTEN.fullmatch(each.name):
                    each.unlink(missing_ok=True)

    def _check_parts(self, asked: Asked) -> None:
        there = {each.name for each in (self.path / PARTS).iterdir()}
        for number in range(self.progress().parts):
            if part_name(number, asked) not in there:
                raise DamagedRunError(
                    f"{self.path / PARTS / part_name(number, asked)} is not there, and what comes later rests on it: "
                    f"remove {self.path}, and begin again",
                    id="lost-labels",
                )

    @property
    def state(self) -> Path:
        """The labeler, as after the last piece that was kept."""
        return self.path / STATE

    def progress(self) -> Progress:
        """What was done so far."""
        if not (self.path / PROGRESS).exists():
            return Progress()
        document = _read(self.path / PROGRESS)
        try:
            course = tuple(Stretch(**each) for each in document.pop("course"))
            files = tuple(document.pop("files"))
            return Progress(course=course, files=files, **document)
        except (KeyError, TypeError) as error:
            raise DamagedRunError(f"{self.path / PROGRESS} does not hold what it should") from error

    def keep(self, progress: Progress) -> None:
        """After labels and state: with this a piece is done."""
        _write(self.path / PROGRESS, asdict(progress))


def label_files(
    folder: LabelFolder,
    asked: Asked,
    tell: Tell,
    processors: Sequence[str] | Processors | None = None,
    pacer: Pacer | None = None,
) -> tuple[AutoLabeler, Progress]:
    """Labels all that is not labeled yet.

    Args:
        folder: Opened.
        asked: Settings.
        tell: Told how many samples are done, after each piece.
        processors: As of `AutoLabeler`: they change no label, and may be others than before.
        pacer: Holds the labeling back.

    Raises:
        InvalidValueError: Data that do not fit.
        RecordingError: The folder cannot be written.
    """
    from wattstep.labeling import AutoLabeler

    tables = [open_table(Path(name)) for name in asked.data]
    identities = tuple(table.identity() for table in tables)
    progress = folder.progress()
    if progress.samples and progress.files != identities:
        changed = next(
            (t.path for t, a, b in zip(tables, progress.files, identities, strict=False) if a != b),
            tables[-1].path,
        )
        raise InvalidValueError(
            f"{changed} is not what was labeled so far: choose another --out", id="other-data"
        )
    x, y, features = read_labeled(
        Path(asked.labeled), asked.column, None if asked.labels is None else Path(asked.labels),
        asked.features or None,
    )  # fmt: skip
    if progress.samples:
        labeler, progress = taken_up(folder, progress, processors)
    else:
        labeler = AutoLabeler(
            false_alarm=asked.false_alarm, confidence=asked.confidence, random_state=asked.seed,
            processors=processors,
        ).fit(x, y)  # fmt: skip
    engine = labeler.engine_
    if pacer is not None:
        pacer.look, engine.look = engine.look, pacer
    for piece in pieces(tables, features, asked.batch, skip=progress.samples):
        told = labeler.partial_label(piece.x)
        progress = _kept(folder, asked, tables, labeler, progress, piece, told, identities)
        tell(progress.samples)
        if pacer is not None:
            pacer.rest()
    if pacer is not None:
        engine.look = pacer.look
    return labeler, progress


def taken_up(
    folder: LabelFolder,
    progress: Progress,
    processors: Sequence[str] | Processors | None = None,
) -> tuple[AutoLabeler, Progress]:
    """The labeler as it was; where it was written after the progress was, the progress counts."""
    from wattstep.labeling import AutoLabeler

    for path in (folder.state, folder.state.with_name("before-" + STATE)):
        if path.exists():
            labeler = AutoLabeler.load(path, processors=processors)
            if labeler.engine_.given == progress.samples:
                return labeler, progress
    raise DamagedRunError(
        f"{folder.path} has no state after {progress.samples} samples: remove it, and begin again",
        id="lost-state",
    )


def first_samples(asked: Asked, most: int = MEASURED_SAMPLES) -> Floats:
    """Readable samples from the begin of the data, shape (n, features); n is `most` at most."""
    tables = [open_table(Path(name)) for name in asked.data]
    _, _, features = read_labeled(
        Path(asked.labeled), asked.column, None if asked.labels is None else Path(asked.labels),
        asked.features or None,
    )  # fmt: skip
    found: list[Floats] = []
    for piece in pieces(tables, features, asked.batch):
        found.append(piece.x[np.isfinite(piece.x).all(axis=1)])
        if sum(map(len, found)) >= most:
            break
    return np.concatenate([np.empty((0, len(features))), *found])[:most]


def _kept(
    folder: LabelFolder,
    asked: Asked,
    tables: Sequence[Table],
    labeler: AutoLabeler,
    progress: Progress,
    piece: Piece,
    told: Labels,
    identities: tuple[str, ...],
) -> Progress:
    """Writes the labels of a piece, then the state, then that both are there."""
    rows = rows_of(told, tables[piece.file].path.name, piece.first)
    name = part_name(progress.parts, asked)
    try:
        with replacing(folder.path / PARTS / name) as file:
            if asked.format == "csv":
                from pyarrow import csv

                csv.write_csv(_inert(rows), file)
            else:
                import pyarrow.parquet as pq

                pq.write_table(rows, file)
        # Of two states one always belongs to the progress that is written.
        if folder.state.exists():
            folder.state.replace(folder.state.with_name("before-" + STATE))
        labeler.save(folder.state)
        after = _after(progress, piece.x, told, identities)
        folder.keep(after)
    except OSError as error:
        raise RecordingError(
            f"{folder.path} cannot be written: {error.strerror or error}", id="labels-not-written"
        ) from error
    return after


def part_name(number: int, asked: Asked) -> str:
    """Name of the file with the labels of a piece."""
    return f"{number:06d}.{asked.format}"


def _inert(rows: pa.Table) -> pa.Table:
    """Texts that a spreadsheet would run get an apostrophe in front, as in exports; numbers stay what they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for column in rows.columns:
        if pa.types.is_string(column.type):
            number = pc.match_substring_regex(column, r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
            column = pc.if_else(number, column, pc.replace_substring_regex(column, FORMULA, r"'\1"))
        columns.append(column)
    return pa.table(columns, names=rows.schema.names)


def rows_of(told: Labels, file: str, first: int) -> pa.Table:
    """Labels as a table: one row a sample."""
    import pyarrow as pa

    count = len(told)
    voters = [
        "; ".join(told.voters(row)) if told.status[row] != UNREADABLE else ""
        for row in range(count)
    ]
    labeled = told.status == LABELED
    labels = [str(label) if one else None for label, one in zip(told.labels, labeled, strict=True)]
    new = [told.clusters[n] if n >= 0 else None for n in told.cluster]
    readable = told.status != UNREADABLE
    return pa.table(
        {
            "file": pa.array([file] * count, pa.string()),
            "row": pa.array(first + np.arange(count), pa.int64()),
            "status": pa.array([STATUSES[n] for n in told.status], pa.string()),
            "label": pa.array(labels, pa.string()),
            "likeliest": pa.array(
                [
                    str(label) if one else None
                    for label, one in zip(told.labels, readable, strict=True)
                ],
                pa.string(),
            ),
            "new_class": pa.array(new, pa.string()),
            "probability": pa.array(told.probability, pa.float64(), mask=~readable),
            "p_value": pa.array(told.p_value, pa.float64(), mask=~readable),
            "voters": pa.array(voters, pa.string()),
        }
    )


def _after(progress: Progress, x: Floats, told: Labels, identities: tuple[str, ...]) -> Progress:
    stretch = counted(told)
    course, per = list(progress.course), progress.per_stretch
    if progress.pieces % per == 0:
        course.append(stretch)
    else:
        course[-1] = course[-1].plus(stretch)
    done = progress.pieces + 1
    if len(course) > MOST_CELLS and done % (2 * per) == 0:
        course = [course[n].plus(course[n + 1]) for n in range(0, len(course), 2)]
        per *= 2
    return replace(
        progress,
        samples=progress.samples + len(told),
        parts=progress.parts + 1,
        course=tuple(course),
        per_stretch=per,
        pieces=done,
        examples=_examples(progress.examples or {}, x, told),
        files=identities,
    )


def counted(told: Labels) -> Stretch:
    """Counts of a piece."""
    labeled, unknown = told.status == LABELED, told.status == UNKNOWN
    names = ["" if n < 0 else told.clusters[n] for n in told.cluster[unknown]]
    return Stretch(
        samples=len(told),
        by_label=_counts([str(label) for label in told.labels[labeled]]),
        by_cluster=_counts(names),
        abstained=int((told.status == 2).sum()),
        unreadable=int((told.status == UNREADABLE).sum()),
        probability=float(told.probability[labeled].sum()),
        # `probability` is that of the label among known classes, times that of being of one.
        known=float((told.probability / told.class_probabilities.max(axis=1)).sum()),
    )


def _examples(
    before: Mapping[str, list[list[float]]], x: Floats, told: Labels
) -> dict[str, list[list[float]]]:
    """The first samples of each label and of each kind of unknown, as they came."""
    examples = {name: list(rows) for name, rows in before.items()}
    for row in range(len(told)):
        if told.status[row] == LABELED:
            name = str(told.labels[row])
        elif told.status[row] == UNKNOWN:
            name = told.clusters[told.cluster[row]] if told.cluster[row] >= 0 else "unknown"
        else:
            continue
        shown = examples.setdefault(name, [])
        if len(shown) < EXAMPLES and len(examples) <= 64:
            shown.append([float(value) for value in x[row]])
    return examples


def _counts(names: Sequence[str]) -> dict[str, int]:
    values, counts = np.unique(np.array(names, dtype=str), return_counts=True)
    return {str(value): int(count) for value, count in zip(values, counts, strict=True)}


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_plain(path))
    except (OSError, ValueError) as error:
        raise DamagedRunError(
            f"{path} cannot be read: {error}", id="unreadable-labeling"
        ) from error
    if not isinstance(document, dict):
        raise DamagedRunError(f"{path} does not hold what it should")
    return document


def _write(path: Path, document: Mapping[str, Any]) -> None:
    with replacing(path) as file:
        file.write(json.dumps(document).encode())

"""Labeling files: in pieces, each kept before the next, so that what was interrupted goes on exactly where it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from wattstep.errors import RecordingError
from wattstep.labeling.folder import PARTS, LabelFolder, part_name
from wattstep.labeling.outcome import LABELED, STATUSES, UNREADABLE, Labels
from wattstep.labeling.progress import Progress, after
from wattstep.labeling.reading import Piece, pieces
from wattstep.labeling.source import Source
from wattstep.schema.sanitize import FORMULA
from wattstep.store.folder import replacing

if TYPE_CHECKING:
    import pyarrow as pa

    from wattstep.labeling.auto_labeler import AutoLabeler
    from wattstep.labeling.pacing import Pacer
    from wattstep.labeling.processors import Processors

Tell = Callable[[int], None]


def label_files(
    folder: LabelFolder,
    source: Source,
    tell: Tell,
    processors: Sequence[str] | Processors | None = None,
    pacer: Pacer | None = None,
) -> tuple[AutoLabeler, Progress]:
    """Labels all that is not labeled yet.

    Args:
        folder: Opened for the source.
        source: Data and labeled set.
        tell: Told how many samples are done, after each piece.
        processors: As of `AutoLabeler`: they change no label, and may be others than before.
        pacer: Holds the labeling back.

    Raises:
        InvalidValueError: Data that do not fit.
        RecordingError: The folder cannot be written.
    """
    from wattstep.labeling import AutoLabeler

    progress, asked = folder.progress(), source.asked
    if progress.samples:
        labeler = folder.labeler(processors)
    else:
        labeler = AutoLabeler(
            false_alarm=asked.false_alarm, confidence=asked.confidence, random_state=asked.seed,
            processors=processors,
        ).fit(source.x, source.y)  # fmt: skip
    engine = labeler.engine_
    if pacer is not None:
        pacer.look, engine.look = engine.look, pacer
    begun, skip = max(len(progress.rows) - 1, 0), progress.rows[-1] if progress.rows else 0
    for piece in pieces(source.tables, source.features, asked.batch, first=begun, skip=skip):
        told = labeler.partial_label(piece.x)
        progress = _kept(folder, source, labeler, progress, piece, told)
        tell(progress.samples)
        if pacer is not None:
            pacer.rest()
    if pacer is not None:
        engine.look = pacer.look
    return labeler, progress


def _kept(
    folder: LabelFolder,
    source: Source,
    labeler: AutoLabeler,
    progress: Progress,
    piece: Piece,
    told: Labels,
) -> Progress:
    """Writes the labels of a piece, then the state, then that both are there."""
    rows = rows_of(told, source.tables[piece.file].path.name, piece.first)
    name = part_name(progress.parts, source.asked)
    # Of files before this one that were empty there is nothing to tell.
    done = (*progress.rows, *[0] * (piece.file + 1 - len(progress.rows)))
    try:
        with replacing(folder.path / PARTS / name) as file:
            if source.asked.format == "csv":
                from pyarrow import csv

                csv.write_csv(inert(rows), file)
            else:
                import pyarrow.parquet as pq

                pq.write_table(rows, file)
        kept = replace(
            after(progress, piece.x, told),
            files=source.identities[: piece.file + 1],
            rows=(*done[:-1], piece.first + len(piece.x)),
            labeled=source.labeled,
            state=folder.save(labeler),
        )
        folder.keep(kept)
    except OSError as error:
        raise RecordingError(
            f"{folder.path} cannot be written: {error.strerror or error}", id="labels-not-written"
        ) from error
    return kept


def inert(rows: pa.Table) -> pa.Table:
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

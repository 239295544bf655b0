"""A study in a folder: a Parquet file for each piece of work, so that it needs little memory, and goes on where it was stopped."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypedDict, cast

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from wattstep.errors import DamagedRunError, InvalidValueError, RecordingError
from wattstep.plan.grid import COLUMNS, Piece, Rows, StudyGrid, predicted, rows_of
from wattstep.predict.prediction import SURE
from wattstep.schema.version import VERSION
from wattstep.store.folder import Folder
from wattstep.store.lock import lock_folder

STUDY: Final = "study.json"
LOCK: Final = "study.lock"
_WORD: Final = pa.dictionary(pa.int32(), pa.string())
SCHEMA: Final = pa.schema(
    [
        ("workload", _WORD), ("precision", _WORD), ("checkpointing", pa.bool_()), ("device", _WORD), ("mode", _WORD),
        ("batch", pa.int32()), ("accumulate", pa.int32()), *((name, pa.float64()) for name in COLUMNS),
    ]
)  # fmt: skip
_PIECE: Final = re.compile(r"piece-(\d{6})\.parquet")
# Of each workload on each device: what fits, and the configuration that takes least for a sample.
_BEST: Final = f"""
SELECT workload, device, count(*) AS configurations, count(*) FILTER (fits_with >= {SURE}) AS fitting,
       max(batch) FILTER (fits_with >= {SURE}) AS largest_batch,
       arg_min(row, cost) FILTER (fits_with >= {SURE}) AS best
FROM (SELECT *, coalesce(energy_per_step, step_time) / (batch * accumulate) AS cost,
             {{'precision': precision, 'checkpointing': checkpointing, 'mode': mode, 'batch': batch,
               'accumulate': accumulate, {", ".join(f"'{name}': {name}" for name in COLUMNS)}}} AS row FROM study)
GROUP BY workload, device ORDER BY workload, device
"""


class StudyDocument(TypedDict):
    """`study.json`: what is studied, and of what; with another step, device or version it is another study."""

    schema: int
    wattstep: str
    variants: list[dict[str, object]]
    devices: dict[str, str]
    batches: list[int]
    accumulates: list[int]
    engine: str | None
    refused: dict[str, str]
    configurations: int


def study_into(
    path: Path,
    grid: StudyGrid,
    client: Any = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> StudyDocument:
    """Predicts what of a study is not in its folder yet.

    Args:
        path: The folder; made where it is not there.
        grid: What is studied.
        client: As of `study`.
        on_progress: Told how many pieces of work are there, and of how many.

    Returns:
        `study.json`.

    Raises:
        InvalidValueError: As of `study`; the folder holds another study.
        RunExistsError: Another command is writing into it.
        RecordingError: It cannot be written.
    """
    grid.check(grid.families)
    document = _document(grid)
    total = len(grid.pieces)
    with ExitStack() as held:
        with _recording(path):
            path.mkdir(parents=True, exist_ok=True)
            held.callback(os.close, lock_folder(path, LOCK, "another study"))
            folder = held.enter_context(Folder(path))
            names = folder.names()
            if STUDY in names:
                _check_same(path, folder.read(STUDY), document)
            with folder.replacing(STUDY) as file:
                file.write(json.dumps(document, indent=1).encode())
        done = {int(match[1]) for match in map(_PIECE.fullmatch, names) if match}
        on_progress(len(done), total)
        for piece, rows in predicted(grid, client, done):
            name = f"piece-{piece.number:06}.parquet"
            with _recording(path), folder.replacing(name) as file:
                pq.write_table(_table(grid, piece, rows), file, compression="zstd")
            done.add(piece.number)
            on_progress(len(done), total)
    return document


class Row(TypedDict):
    """A configuration of a study: as `SCHEMA`, without workload and device."""

    precision: str
    checkpointing: bool
    mode: str | None
    batch: int
    accumulate: int
    step_time: float
    step_time_low: float
    step_time_high: float
    energy_per_step: float | None
    energy_per_step_low: float | None
    energy_per_step_high: float | None
    memory: float
    memory_low: float
    memory_high: float
    fits_with: float


class Best(TypedDict):
    """What of a workload fits on a device.

    Attributes:
        configurations: That are studied.
        fitting: Those that fit with 98 %.
        largest_batch: Of those; None: there are none.
        best: That of those which takes least energy a sample, or time where the device's power is not known.
    """

    workload: str
    device: str
    configurations: int
    fitting: int
    largest_batch: int | None
    best: Row | None


def best_of(path: Path) -> list[Best]:
    """Of each workload on each device what fits, and the best of it.

    Raises:
        DamagedRunError: A file cannot be read.
    """
    import duckdb

    try:
        files = [str(each) for each in sorted(path.glob("piece-*.parquet"))]
        rows = duckdb.connect().register("study", ds.dataset(files, schema=SCHEMA)).sql(_BEST)
        made = (dict(zip(rows.columns, row, strict=True)) for row in rows.fetchall())
        return cast("list[Best]", list(made))
    except (OSError, pa.ArrowException, duckdb.Error) as error:
        raise DamagedRunError(f"{path}: {error}") from error


def _table(grid: StudyGrid, piece: Piece, rows: Rows) -> pa.Table:
    cells, batch, accumulate = rows_of(grid, piece)
    variant = asdict(piece.variant)
    return pa.table(
        [
            *(pa.array([variant[name]] * len(cells)) for name in variant),
            pa.array([cell.device for cell in cells]),
            pa.array([cell.mode for cell in cells]),
            pa.array(batch),
            pa.array(accumulate),
            *(pa.array(rows[name], from_pandas=True) for name in COLUMNS),  # NaN is missing
        ],
        names=SCHEMA.names,
    ).cast(SCHEMA)


def _document(grid: StudyGrid) -> StudyDocument:
    def digest(text: str) -> str:
        return sha256(text.encode()).hexdigest()[:16]

    def step(variant: Any) -> str:
        return json.dumps([each and each.to_dict() for each in grid.families[variant]])

    return {
        "schema": 1,
        "wattstep": VERSION,
        "variants": [
            {**asdict(variant), "step": digest(step(variant))} for variant in grid.families
        ],
        "devices": {device.name: digest(repr(device)) for device in grid.devices},
        "batches": list(grid.batches),
        "accumulates": list(grid.accumulates),
        "engine": grid.engine,
        "refused": {" ".join(key): str(error) for key, error in grid.refused.items()},
        "configurations": grid.count,
    }


def _check_same(path: Path, before: bytes, now: StudyDocument) -> None:
    try:
        known = dict(json.loads(before))
    except (TypeError, ValueError) as error:
        raise DamagedRunError(f"{path / STUDY} cannot be read: {error}") from error
    different = [name for name, value in now.items() if known.get(name) != value]
    if different:
        raise InvalidValueError(
            f"{path} holds a study with other settings ({', '.join(different)}): give the same ones, or another --out",
            id="other-settings",
        )


@contextmanager
def _recording(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordingError(
            f"cannot write into {path}: {error.strerror or error}; the same command goes on"
        ) from error

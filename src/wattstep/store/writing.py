"""Writes a whole run at once, from arrays: for runs that were recorded elsewhere."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from wattstep.errors import RecordingError, RunExistsError
from wattstep.schema.run_info import RunInfo
from wattstep.store.files import make_above, remove_empty, write_info
from wattstep.store.folder import Folder
from wattstep.store.tables import (
    EVALUATIONS,
    MEMORY,
    OPERATIONS_SCHEMA,
    SAMPLES,
    SPANS,
    STEPS,
    SUMMARIES,
    TABLE,
    write_table,
)

SCHEMAS: Mapping[str, pa.Schema] = {
    "samples": SAMPLES,
    "steps": STEPS,
    "spans": SPANS,
    "memory": MEMORY,
    "evaluations": EVALUATIONS,
    "operations": OPERATIONS_SCHEMA,
    "summaries": SUMMARIES,
}


def write_run(run: Path, info: RunInfo, tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """Writes a closed run: beside its place first, then by one rename.

    Args:
        run: Its folder, which must not be there.
        info: What ran; its state becomes "closed" as given.
        tables: By name (`SCHEMAS`): batches of columns; a table that is not given is empty.

    Raises:
        RunExistsError: The folder is there already.
        RecordingError: It cannot be written; nothing is left behind.
    """
    if run.exists():
        raise RunExistsError(f"{run} exists already: choose another folder, or remove it first")
    try:
        above = make_above(run)
        made = Path(tempfile.mkdtemp(prefix=f".{run.name}-", dir=run.parent))
    except OSError as error:
        raise RecordingError(f"cannot write {run}: {error.strerror}") from error
    try:
        for name, schema in SCHEMAS.items():
            if name == "summaries" and name not in tables:
                continue  # only imported totals have one
            batches = (dict(batch) for batch in tables.get(name, ()))
            with Folder(made) as folder:
                write_table(folder, name + TABLE, schema, batches)
        write_info(made, info)
        made.chmod(0o755)
        made.rename(run)
    except OSError as error:
        if run.exists():
            raise RunExistsError(f"{run} was created by another process meanwhile") from error
        raise RecordingError(f"cannot write {run}: {error.strerror}") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
        remove_empty(above)

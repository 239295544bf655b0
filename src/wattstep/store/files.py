"""Names and small files of a run: making its folder, reading and replacing `run.json`."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterable
from pathlib import Path

from wattstep.errors import DamagedRunError, RecordingError, RunExistsError
from wattstep.schema.checks import parse_json
from wattstep.schema.journal import JOURNAL, RUN
from wattstep.schema.run_info import RunInfo
from wattstep.store.budget import DESCRIPTION, multiple
from wattstep.store.folder import Folder, opened


def new_name(workload: str) -> str:
    """A run's name from workload, time and a short random part."""
    return f"{workload}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def create_folder(run: Path) -> tuple[Path, ...]:
    """Makes the folder of a new run, with its journal.

    Returns:
        The folders that were made above it; see `remove_empty`.

    Raises:
        RunExistsError: It is there already.
        RecordingError: It cannot be made.
    """
    try:
        above = make_above(run)
        run.mkdir()
        (run / JOURNAL).mkdir()
    except OSError as error:
        if isinstance(error, FileExistsError) and run.exists():
            raise RunExistsError(
                f"{run} exists already: choose another folder, or remove it first"
            ) from error
        raise RecordingError(
            f"cannot record into {run}: {error.strerror}", id="cannot-record"
        ) from error
    return above


def make_above(run: Path) -> tuple[Path, ...]:
    """Makes the folders above a run; those that were not there, innermost first.

    Raises:
        OSError: They cannot be made.
    """
    missing = tuple(folder for folder in run.parents if not folder.exists())
    run.parent.mkdir(parents=True, exist_ok=True)
    return missing


def remove_empty(folders: Iterable[Path]) -> None:
    """Removes folders, innermost first, as far as nothing is in them."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


def no_run(path: Path) -> DamagedRunError:
    """The error that says why no run lies at a path, and what to write instead."""
    if not path.exists():
        return DamagedRunError(
            f"{path}: there is no such run; wattstep runs list shows those that are there",
            id="no-such-run",
        )
    if path.is_dir():
        return DamagedRunError(f"{path} is not a run: it has no {RUN}", id="not-a-run")
    if path.suffix == ".py":
        return DamagedRunError(
            f"{path} is a script, and a run is a folder; to record it: wattstep profile {path}",
            id="script-not-run",
        )
    return DamagedRunError(
        f"{path} is a file, and a run is a folder: wattstep runs list shows runs, wattstep import "
        "makes one from a log or a trace",
        id="file-not-run",
    )


def read_info(run: Path | Folder) -> RunInfo:
    """Content of `run.json`.

    Raises:
        DamagedRunError: It is not there or cannot be read.
        InvalidValueError: The environment says no budget.
    """
    path = (run.path if isinstance(run, Folder) else run) / RUN
    most = round(multiple() * DESCRIPTION)
    try:
        with opened(run) as folder:
            document = parse_json(folder.read(RUN, most))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise no_run(path.parent) from error
    except OSError as error:
        raise DamagedRunError(
            f"{path} cannot be read: {error.strerror or error}", id="unreadable-run-file"
        ) from error
    except ValueError as error:
        raise DamagedRunError(
            f"{path} cannot be read: {error}", id="unreadable-run-file"
        ) from error
    if not isinstance(document, dict):
        raise DamagedRunError(f"{path} does not hold a run", id="run-file-holds-no-run")
    return RunInfo.from_dict(document)


def write_whole(fd: int, data: bytes) -> None:
    """Writes all of it at the end of a file or, on a full disk, nothing.

    Raises:
        OSError: It cannot be written; the file is as it was.
    """
    before = os.fstat(fd).st_size
    try:
        done = os.write(fd, data)
        while done < len(data):
            done += os.write(fd, data[done:])
    except OSError:
        os.ftruncate(fd, before)
        raise


def write_info(run: Path | Folder, info: RunInfo) -> None:
    """Replaces `run.json` as a whole.

    Raises:
        OSError: It cannot be written.
    """
    text = json.dumps(info.to_dict(), indent=1, ensure_ascii=False)
    with opened(run) as folder, folder.replacing(RUN) as file:
        file.write(text.encode())

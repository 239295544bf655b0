"""Turns the folder that the agent brought home into a run like any other."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from wattstep.errors import DamagedRunError, RecordingError, RunExistsError, error_of
from wattstep.remote.agent.checking import check_description, read_bytes, text
from wattstep.remote.agent.layout import AGENT, FORMAT
from wattstep.remote.agent.windows import read_windows
from wattstep.schema.checks import parse_json
from wattstep.schema.journal import COSTS, JOURNAL, MARKS, NAMES, TICKS, samples_name
from wattstep.schema.run_info import JOURNAL_VERSION, RunInfo
from wattstep.store.convert import convert
from wattstep.store.files import read_info, write_info
from wattstep.store.folder import Folder, open_plain
from wattstep.store.tables import OPERATIONS_SCHEMA, write_table

MOST_BYTES: Final = 16 << 20  # of the description, and of the names
NOT_CLOSED: Final = (
    "the recording was not closed: the agent was ended before it could, or its disk was full"
)


def join(folder: Path, out: Path, target: str = "agent") -> Path:
    """Makes a run of what the agent recorded; the folder is left as it is.

    A recording that was killed is joined as far as it went, and its run says that it was recovered.

    Args:
        folder: As the agent wrote it.
        out: Of the new run.
        target: Name of the host in the run.

    Returns:
        The run.

    Raises:
        RunExistsError: The run is there already.
        DamagedRunError: The folder is none of the agent's, or garbled.
        MissingPartError: The library that reads traces is not installed.
        RecordingError: The run cannot be written; nothing is left behind.
    """
    if out.exists():
        raise RunExistsError(f"{out} exists already: choose another folder, or remove it first")
    document = read_agent(folder)
    info = replace(describe(document), target=target)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise RecordingError(f"cannot write {out}: {error.strerror}") from error
    try:
        _fill(folder, made, info, str(document["state"]))
        made.chmod(0o755)
        made.rename(out)
    except OSError as error:
        raise RecordingError(f"cannot write {out}: {error.strerror or error}") from error
    except DamagedRunError as error:  # of the folder that the user knows
        raise error_of(error.document(), str(error).replace(str(made), str(folder))) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return out


def read_agent(folder: Path) -> dict[str, Any]:
    """The agent's own document of a recording.

    Raises:
        DamagedRunError: There is no such thing in the folder, or it cannot be used.
    """
    path = folder / AGENT
    try:
        document = parse_json(read_bytes(path, MOST_BYTES))
    except FileNotFoundError as error:
        raise DamagedRunError(
            f"{folder} is no recording of the agent: it has no {AGENT}", id="not-an-agent-recording"
        ) from error
    except (OSError, ValueError) as error:
        raise DamagedRunError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict) or document.get("agent") not in range(1, FORMAT + 1):
        raise DamagedRunError(
            f"{path} is of no agent that this wattstep knows: make the agent anew"
        )
    return document


def describe(document: Mapping[str, Any]) -> RunInfo:
    """The run's own description.

    Raises:
        DamagedRunError: A field is missing or garbled.
    """
    try:
        known = check_description(document)
    except ValueError as error:
        raise DamagedRunError(
            f"{AGENT} lacks or garbles a field: {error}", id="damaged-field"
        ) from error
    python, torch = known.pop("python"), known.pop("torch")
    notes = [f"recorded by wattstep_agent.py under Python {python} of the board"]
    if known["state"] != "closed":
        notes.append(NOT_CLOSED)
    return RunInfo.from_dict(
        {
            **known,
            "schema_version": JOURNAL_VERSION,
            "state": "recording",
            "workload": known["title"],
            "engine": f"torch {torch}" if torch is not None else "python",
            "batch_size": None,
            "precision": None,
            "processor": None,
            "seed": None,
            "environment": {"python": python, **({} if torch is None else {"torch": torch})},
            "notes": (*notes, *known["notes"]),
        }
    )


def _fill(folder: Path, run: Path, info: RunInfo, state: str) -> None:
    """The tables: from the journals as any recorder's, and the operations from the windows."""
    _copy_journals(folder, run, info)
    write_info(run, info)
    convert(run, state="closed" if state == "closed" else "recovered")
    windows = read_windows(folder)
    try:
        with Folder(run) as opened:
            write_table(opened, "operations.parquet", OPERATIONS_SCHEMA, iter(windows.batches))
    except (ValueError, TypeError, LookupError, OverflowError) as error:  # Arrow's are among them
        raise DamagedRunError(f"the operations in {folder} are garbled: {error}") from error
    closed = read_info(run)
    write_info(run, replace(closed, notes=(*closed.notes, *windows.notes)))


def _copy_journals(folder: Path, run: Path, info: RunInfo) -> None:
    journal = run / JOURNAL
    journal.mkdir()
    for name in [MARKS, TICKS, COSTS, *(samples_name(read.number) for read in info.reads)]:
        with (
            contextlib.suppress(OSError),  # one that did not come, or is no plain file
            open_plain(folder / JOURNAL / name) as source,
            (journal / name).open("xb") as copy,
        ):
            shutil.copyfileobj(source, copy)
    if not (journal / MARKS).exists():
        raise DamagedRunError(
            f"{folder} has no marks of steps: a part of it did not come along",
            id="incomplete-recording",
        )
    _copy_names(folder / JOURNAL / NAMES, journal / NAMES)


def _copy_names(source: Path, target: Path) -> None:
    """The names up to the first that is garbled; marks of the others say that theirs is lost."""
    if not source.exists():
        return
    try:
        lines = read_bytes(source, MOST_BYTES).splitlines()
    except ValueError as error:
        raise DamagedRunError(f"{source} cannot be read: {error}") from error
    with target.open("w", encoding="utf-8") as file:
        for line in lines:
            try:
                table, code, name = parse_json(line)
                file.write(json.dumps([text(table), code, text(name)]) + "\n")
            except (TypeError, ValueError):
                return

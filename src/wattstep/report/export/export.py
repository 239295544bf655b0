"""Writes runs in one of the formats, each in one piece or not at all."""

from __future__ import annotations

import gzip
import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from wattstep.errors import ExportError, InvalidValueError
from wattstep.report.export import FORMATS, ExportFormat
from wattstep.report.export.columns import TABLES
from wattstep.report.export.written import Progress, Written
from wattstep.run.run import load
from wattstep.schema.run_report import RunReport
from wattstep.store.files import make_above, remove_empty

GZIP_LEVEL: Final = 3  # the rest of gzip's levels take longer and gain a few per cent


@dataclass(frozen=True, kw_only=True)
class Exported:
    """Result of exporting a run.

    Attributes:
        run: Its folder.
        path: File or folder that was written.
        size: Of it, in B.
        written: Summary of its contents.
    """

    run: Path
    path: Path
    size: int
    written: Written


def export_run(
    run: Path | RunReport,
    to: str,
    target: Path,
    *,
    force: bool = False,
    on_progress: Progress | None = None,
) -> Exported:
    """Writes one run.

    Args:
        run: Folder of a recorded run, or the report of one that was never recorded.
        to: Name of the format, one of `FORMATS`.
        target: Path to write: a file or a folder, as the format has it.
        force: True if what is there is replaced.
        on_progress: Told what is written, and how far all of it is (0 to 1).

    Raises:
        InvalidValueError: There is no such format, or the path does not fit it.
        DamagedRunError: The run cannot be read.
        ExportError: It is there already, or cannot be written; nothing is left behind.
    """
    form = format_of(to)
    show = _rising(on_progress or (lambda stage, share: None))
    _refuse(target, form, force)
    opened = run if isinstance(run, RunReport) else load(run)
    if isinstance(opened, RunReport) and not form.of_figures:
        raise InvalidValueError(
            f"--to {to}: a run that was never recorded has no timeline", id="no-timeline"
        )
    if _is_file(form, target):
        with _whole_file(target, force) as file, _packed(file, form, target) as out:
            written = _writer(form.file)(opened, out, show)
    else:
        with _whole_folder(target, force) as folder:
            written = _writer(form.folder)(opened, folder, show)
    path = Path(run.run) if isinstance(run, RunReport) else run
    return Exported(run=path, path=target, size=_size(target), written=written)


def _rising(show: Progress) -> Progress:
    """Shares are told in parts by those who write: what was told once is never taken back."""
    reached = 0.0

    def rising(stage: str, share: float) -> None:
        nonlocal reached
        reached = min(max(reached, share), 1.0)
        show(stage, reached)

    return rising


def format_of(name: str) -> ExportFormat:
    """The format of this name.

    Raises:
        InvalidValueError: There is none.
    """
    if name not in FORMATS:
        raise InvalidValueError(
            f"--to {name!r}: there are {', '.join(FORMATS)}", id="unknown-format"
        )
    return FORMATS[name]


def targets(runs: Sequence[Path], to: str, output: Path | None) -> list[Path]:
    """Target path of each run: of one run the path as given, of several one each in it as a folder.

    Raises:
        InvalidValueError: The format or the path does not fit.
    """
    form = format_of(to)
    names = [f"{run.resolve().name}{form.suffix}" for run in runs]
    if len(runs) == 1:
        if output is None:
            return [Path(names[0])]
        into = output.is_dir() and not form.folder
        return [output / names[0] if into else output]
    folder = output or Path("export")
    if folder.exists() and not folder.is_dir():
        raise InvalidValueError(f"-o {folder}: of several runs it is a folder, and there is a file")
    return [folder / name for name in _each_once(names, form.suffix)]


def _each_once(names: Sequence[str], suffix: str) -> Iterator[str]:
    seen: dict[str, int] = {}
    taken = set(names)
    for name in names:
        number = seen[name] = seen.get(name, 0) + 1
        unique = name
        while number > 1 and unique in taken:
            unique = f"{name.removesuffix(suffix)}-{number}{suffix}"
            number += 1
        taken.add(unique)
        yield unique


def _is_file(form: ExportFormat, target: Path) -> bool:
    return not form.folder or bool(form.packed and target.name.endswith(form.packed))


def _writer(name: str) -> Callable[[Any, Any, Progress], Written]:
    module, _, function = name.partition(":")
    writer = getattr(importlib.import_module(module), function)
    return cast("Callable[[Any, Any, Progress], Written]", writer)


def _refuse(target: Path, form: ExportFormat, force: bool) -> None:
    """Says before any work that a path is taken, or no path for this."""
    if (target / "run.json").exists():
        raise ExportError(f"{target} is a run: choose another path with -o", id="export-is-a-run")
    if target.parent.exists() and not target.parent.is_dir():
        raise ExportError(
            f"{target.parent} is no folder: choose another path with -o", id="export-not-a-folder"
        )
    if not form.packed and target.suffix in (".gz", ".zip"):
        raise InvalidValueError(f"-o {target}: it is {form.words}, and is not packed")
    if not os.path.lexists(target):
        return
    if not force:
        raise ExportError(
            f"{target} exists already: choose another path with -o, or --force", id="export-exists"
        )
    if _is_file(form, target) and target.is_dir():
        raise ExportError(
            f"{target} is a folder: choose another path with -o", id="export-is-a-folder"
        )
    if not _is_file(form, target) and (others := _others(target)):
        raise ExportError(
            f"{target} holds {others[0]!r}, which is no export: choose another path with -o",
            id="not-an-export",
        )


def _others(folder: Path) -> list[str]:
    """Entries of a folder that no export writes; nothing else is ever removed."""
    if not folder.is_dir() or folder.is_symlink():
        return [folder.name]
    ours = {f"{table}{suffix}" for table in TABLES for suffix in (".csv", ".parquet")}
    return sorted(each.name for each in folder.iterdir() if each.name not in ours)


@contextmanager
def _packed(file: BinaryIO, form: ExportFormat, target: Path) -> Iterator[BinaryIO]:
    if form.packed == ".gz" and target.name.endswith(".gz"):
        with gzip.GzipFile("", "wb", GZIP_LEVEL, file, mtime=0) as packed:
            yield cast("BinaryIO", packed)
    else:
        yield file


@contextmanager
def _whole_file(target: Path, force: bool) -> Iterator[BinaryIO]:
    """A file that takes its place when it is whole, and is on the disk."""
    with _beside(target) as workspace:
        temporary = workspace / "file"
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _refuse_made_meanwhile(target, force)
        temporary.replace(target)


@contextmanager
def _whole_folder(target: Path, force: bool) -> Iterator[Path]:
    """Yields a folder that becomes the target once it is whole; one that is replaced is moved aside first."""
    with _beside(target) as workspace:
        made = workspace / "made"
        made.mkdir()
        yield made
        for path in made.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        _refuse_made_meanwhile(target, force)
        if target.exists():
            target.rename(workspace / "replaced")
        made.rename(target)


def _refuse_made_meanwhile(target: Path, force: bool) -> None:
    if os.path.lexists(target) and not force:
        raise ExportError(f"{target} was created by another process meanwhile")


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A folder on the disk of the target; it goes with all that is in it.

    Raises:
        ExportError: Something cannot be written.
    """
    above: tuple[Path, ...] = ()
    workspace: Path | None = None
    try:
        above = make_above(target)
        workspace = Path(tempfile.mkdtemp(prefix=".wattstep-export-", dir=target.parent))
        yield workspace
    except OSError as error:
        raise ExportError(
            f"{target} cannot be written: {error.strerror or error}", id="export-failed"
        ) from error
    finally:
        if workspace is not None:
            shutil.rmtree(workspace, ignore_errors=True)
        remove_empty(above)


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(each.stat().st_size for each in path.iterdir())
    return path.stat().st_size

"""Check of an official data set: that it is there, and what was published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wattstep.errors import InvalidValueError, MissingPartError
from wattstep.schema.workload import DataFacts
from wattstep.workloads.data.archives import check_sum
from wattstep.workloads.data.catalogue import DataFile, DataSet
from wattstep.workloads.data.samples import folders


def locate(data_set: DataSet, root: Path | None) -> Path | None:
    """Its folder or file below a folder of data, as its reader would find it, or None.

    Raises:
        InvalidValueError: `root` is no folder.
    """
    if root is None and not data_set.bundled:
        return None
    return data_set.find(root or Path())


def packed(data_set: DataSet, root: Path | None) -> tuple[Path, ...]:
    """Its archives that lie below a folder of data.

    Raises:
        InvalidValueError: `root` is no folder.
    """
    if root is None:
        return ()
    names = [file.name for file in data_set.files if file.folder]
    return tuple(
        folder / name for folder in folders(root) for name in names if (folder / name).is_file()
    )


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Result of a data set's check.

    Attributes:
        data_set: Which.
        as_published: Files whose size and checksum are those that were published.
        unknown: Files that we know no checksum of.
        facts: What the reader made of it; None where it is not there or cannot be read.
        problems: What is wrong, a line each; empty where nothing is.
    """

    data_set: DataSet
    as_published: tuple[Path, ...]
    unknown: tuple[Path, ...]
    facts: DataFacts | None
    problems: tuple[str, ...]


def check(data_set: DataSet, root: Path | None) -> Checked:
    """Compares the files with what was published, and reads them as a training would.

    Raises:
        InvalidValueError: `root` is no folder.
    """
    known: list[Path] = []
    unknown: list[Path] = []
    problems: list[str] = []
    for file, path in _present(data_set, root):
        try:
            _check_file(file, path)
        except InvalidValueError as error:
            problems.append(str(error))
        else:
            (unknown if file.checksum is None else known).append(path)
    facts = None
    try:
        facts = _read(data_set, root)
    except (InvalidValueError, MissingPartError) as error:
        problems.append(str(error))
    return Checked(
        data_set=data_set,
        as_published=tuple(known),
        unknown=tuple(unknown),
        facts=facts,
        problems=tuple(problems),
    )


def _read(data_set: DataSet, root: Path | None) -> DataFacts:
    if locate(data_set, root) is None:
        raise InvalidValueError(f"{data_set.name} is not there; {data_set.placing}")
    facts = data_set.read(root or Path())
    if facts.stand_in:
        raise InvalidValueError(f"{data_set.name}: its reader takes nothing in {root} for it")
    return facts


def _present(data_set: DataSet, root: Path | None) -> Iterator[tuple[DataFile, Path]]:
    """Archives wherever they lie; other files only where the reader would find them."""
    by_name = {file.name: file for file in data_set.files}
    for path in packed(data_set, root):
        yield by_name[path.name], path
    place = locate(data_set, root)
    if place is None:
        return
    folder = place if place.is_dir() else place.parent
    for file in (*data_set.files, *data_set.unpacked):
        if file.folder is None and (folder / file.name).is_file():
            yield file, folder / file.name


def _check_file(file: DataFile, path: Path) -> None:
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        raise InvalidValueError(
            f"{path}: {size} bytes where {file.size} were published: damaged, incomplete or "
            f"another file; fetch it again"
        )
    if file.checksum is not None:
        check_sum(path, file.checksum)

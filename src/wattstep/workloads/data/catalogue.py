"""The official data sets: where they come from, how to tell that they are right, how to place them."""

from __future__ import annotations

import difflib
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from wattstep import workloads
from wattstep.errors import InvalidValueError
from wattstep.schema.extras import require
from wattstep.schema.workload import DataFacts
from wattstep.workloads.data.samples import folders

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_ROOM: Final = "wattstep.workloads.data"


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A file as it was published.

    Attributes:
        name: Its name.
        size: In bytes; None where we know of no exact figure.
        checksum: "md5:..." or "sha256:..." as published; None where we know of none.
        address: Where it can be fetched from; None where it comes with something else.
        folder: What `unpack` makes of it, below the folder of all data; None where the reader
            takes it as it is.
    """

    name: str
    size: int | None = None
    checksum: str | None = None
    address: str | None = None
    folder: str | None = None


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """An official data set.

    Attributes:
        name: As on the command line.
        title: As in `WorkloadFacts.dataset`.
        choices: Sets of files of which any one, complete, will do; the smallest first.
        unpacked: Files that may lie there instead and whose checksum was published.
        page: Its official page.
        checksum_source: Where the checksums were published; None where we know of none.
        licence: None where its page states none.
        placing: What to do with the files.
        reader: "module:function" that reads all of it from a folder of data, as a training does.
        finder: "module:function" that gives its folder or file below a folder of data, or None;
            "" where `signs` tell.
        signs: Files or folders, any of which is only in its folder.
    """

    name: str
    title: str
    choices: tuple[tuple[DataFile, ...], ...]
    unpacked: tuple[DataFile, ...] = ()
    page: str
    checksum_source: str | None = None
    licence: str | None = None
    placing: str
    reader: str
    finder: str = ""
    signs: tuple[str, ...] = ()

    @property
    def workloads(self) -> tuple[str, ...]:
        """Those that train on it."""
        every = workloads.names()
        return tuple(name for name in every if workloads.find(name).facts.dataset == self.title)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Those of all choices."""
        return tuple(file for choice in self.choices for file in choice)

    @property
    def bundled(self) -> bool:
        """It comes with a library, so that no folder of data is needed."""
        return not any(file.address for file in self.files)

    @property
    def size(self) -> int | None:
        """Bytes of the first choice, or None where one of its files is of unknown size."""
        sizes = [file.size for file in self.choices[0]]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def find(self, root: Path) -> Path | None:
        """Its folder or file below a folder of data, as its reader finds it; loads no library.

        Raises:
            InvalidValueError: `root` is no folder.
        """
        if not self.finder:
            return find_below(root, self.signs)
        module, _, function = self.finder.partition(":")
        path: Path | None = getattr(import_module(f"{_ROOM}.{module}"), function)(root)
        return path

    def read(self, root: Path) -> DataFacts:
        """Reads all of it.

        Raises:
            InvalidValueError: It cannot be read.
            MissingPartError: A library that it needs is not installed.
        """
        module, _, function = self.reader.partition(":")
        content = getattr(require(f"{_ROOM}.{module}"), function)(root)
        facts: DataFacts = content if isinstance(content, DataFacts) else content.facts
        return facts


def find_below(root: Path, signs: tuple[str, ...]) -> Path | None:
    """The first folder, at most two levels below `root`, that holds one of `signs`, or None."""
    return next(
        (folder for folder in folders(root) for sign in signs if (folder / sign).exists()), None
    )


def _read_catalogue(path: Path) -> tuple[DataSet, ...]:
    document: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(_data_set(name, **entry) for name, entry in document.items())


def _data_set(
    name: str,
    *,
    choices: list[list[dict[str, Any]]],
    unpacked: list[dict[str, Any]] | None = None,
    signs: list[str] | None = None,
    find: str = "",
    **fields: Any,
) -> DataSet:
    return DataSet(
        name=name,
        choices=tuple(tuple(DataFile(**file) for file in choice) for choice in choices),
        unpacked=tuple(DataFile(**file) for file in unpacked or ()),
        signs=tuple(signs or ()),
        finder=find,
        **fields,
    )


DATA_SETS: Final = _read_catalogue(Path(__file__).with_name("data_sets.toml"))


def find_set(name: str) -> DataSet:
    """The data set of that name.

    Raises:
        InvalidValueError: There is none.
    """
    names = [each.name for each in DATA_SETS]
    if name in names:
        return DATA_SETS[names.index(name)]
    close = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise InvalidValueError(
        f"no data set is called {name!r}{hint} (there are: {', '.join(names)})",
        id="unknown-data-set",
    )


def find_archive(name: str) -> DataFile:
    """The archive of that name.

    Raises:
        InvalidValueError: No data set has one, or the file is used as it is.
    """
    files = [file for each in DATA_SETS for file in each.files if file.address]
    for file in files:
        if file.name == name and file.folder is None:
            raise InvalidValueError(
                f"{name} needs no unpacking: put it into the folder of the data",
                id="no-archive-needed",
            )
        if file.name == name:
            return file
    known = ", ".join(file.name for file in files if file.folder)
    raise InvalidValueError(
        f"{name}: no data set has an archive of that name (there are: {known})",
        id="unknown-archive-name",
    )

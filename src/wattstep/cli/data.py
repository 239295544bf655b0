"""`wattstep data`: the official data sets, whether they are there and right, and their unpacking."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from wattstep.cli.options import Json, Quiet
from wattstep.cli.saying import refuse
from wattstep.errors import InvalidValueError, WattstepError

if TYPE_CHECKING:
    from wattstep.workloads.data.archives import Progress
    from wattstep.workloads.data.catalogue import DataFile, DataSet
    from wattstep.workloads.data.checking import Checked

DEFAULT = Path("data")


def data(
    action: Annotated[
        str,
        typer.Argument(
            metavar="[list|check|unpack|NAME]",
            help="list all, check those that are there, unpack archives, or show one data set.",
        ),
    ] = "list",
    things: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            metavar="[NAME...|ARCHIVE...]", help="Data sets to check, or archives to unpack."
        ),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--data", help="Folder with official data.", metavar="DIR")
    ] = DEFAULT,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """List the official data sets and whether they are there; check or unpack them.

    Nothing is fetched: `wattstep data NAME` says where to get the files.
    """
    from wattstep.workloads.data.catalogue import DATA_SETS, find_set

    # The default folder need not be there; one that was asked for must be.
    root = folder if folder != DEFAULT or folder.is_dir() else None
    if action == "check":
        _check([find_set(name) for name in things or []], root, json)
    elif action == "unpack":
        _unpack([Path(name) for name in things or []], folder, quiet, json)
    elif things:
        raise InvalidValueError(
            "wattstep data [NAME], wattstep data check [NAME...] or wattstep data unpack ARCHIVE...",
            id="one-data-set",
        )
    elif action == "list":
        _list(DATA_SETS, root, json)
    else:
        _show(find_set(action), root, json)


def _list(data_sets: Sequence[DataSet], root: Path | None, as_json: bool) -> None:
    rows = [_describe(each, root) for each in data_sets]
    if as_json:
        _dump(rows)
        return
    for row in rows:
        _print_row(row)
        print()


def _show(data_set: DataSet, root: Path | None, as_json: bool) -> None:
    row = _describe(data_set, root)
    if as_json:
        _dump([row])
        return
    _print_row(row)
    print(f"  checksums: {row['checksum_source'] or 'none known'}")
    print(f"  licence: {row['licence'] or 'its page states none'}")
    print(f"  to place it: {row['placing']}")
    for file in row["files"]:
        if file["address"]:
            print(f"  {file['address']}")


def _describe(data_set: DataSet, root: Path | None) -> dict[str, Any]:
    """JSON document of a data set."""
    from wattstep.workloads.data.checking import locate, packed

    place = locate(data_set, root)
    archives = packed(data_set, root)
    return {
        "name": data_set.name,
        "title": data_set.title,
        "there": place is not None,
        "place": place,
        "archives": archives,
        "size": data_set.size,
        "source": data_set.page,
        "files": [
            _describe_file(file, choice)
            for choice, files in enumerate(data_set.choices, start=1)
            for file in files
        ],
        "checksum_source": data_set.checksum_source,
        "licence": data_set.licence,
        "placing": data_set.placing,
        "workloads": data_set.workloads,
    }


def _describe_file(file: DataFile, choice: int) -> dict[str, Any]:
    return {
        "name": file.name,
        "choice": choice,
        "size": file.size,
        "checksum": file.checksum,
        "address": file.address,
    }


def _print_row(row: dict[str, Any]) -> None:
    print(f"{row['name']}: {row['title']}, {_say_sizes(row)}, {_say_place(row)}")
    print(f"  {row['source']}")
    last = 1
    for file in row["files"]:
        alternative = "or " if file["choice"] != last else ""
        last = file["choice"]
        checksum = file["checksum"] or "no checksum known"
        print(f"  {alternative}{file['name']}, {_say_size(file['size'])}, {checksum}")
    print(f"  used by {', '.join(row['workloads'])}")


def _say_sizes(row: dict[str, Any]) -> str:
    """Of the first choice; files of unknown size count as nothing, and that is said."""
    known = sum(file["size"] or 0 for file in row["files"] if file["choice"] == 1)
    return f"at least {known:,} bytes" if row["size"] is None and known else _say_size(row["size"])


def _say_size(size: int | None) -> str:
    return "size not known" if size is None else f"{size:,} bytes"


def _say_place(row: dict[str, Any]) -> str:
    if row["there"]:
        return f"there: {row['place']}"
    if row["archives"]:
        return f"not unpacked: {', '.join(map(str, row['archives']))}"
    return "not there"


def _check(data_sets: Sequence[DataSet], root: Path | None, as_json: bool) -> None:
    from wattstep.workloads.data.catalogue import DATA_SETS
    from wattstep.workloads.data.checking import check, locate, packed

    there = (each for each in DATA_SETS if locate(each, root) or packed(each, root))
    results = [check(each, root) for each in data_sets or there]
    wrong = [result.data_set.name for result in results if result.problems]
    refusal = InvalidValueError(f"not as they should be: {', '.join(wrong)}", id="damaged-data")
    if as_json:
        _dump([_describe_check(result) for result in results], refusal if wrong else None)
    else:
        for result in results:
            _print_check(result)
    if wrong:
        refuse(refusal)


def _describe_check(result: Checked) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "name": result.data_set.name,
        "right": not result.problems,
        "as_published": result.as_published,
        "unknown": result.unknown,
        "read": None if result.facts is None else asdict(result.facts),
        "problems": result.problems,
    }


def _print_check(result: Checked) -> None:
    print(f"{result.data_set.name}: {'wrong' if result.problems else 'right'}")
    for path in result.as_published:
        print(f"  {path}: as published")
    for path in result.unknown:
        print(f"  {path}: no checksum known to compare with")
    if result.facts is not None:
        samples = f", {result.facts.samples:,} samples to train on" if result.facts.samples else ""
        print(f"  read: {result.facts.name}{samples}")
    for problem in result.problems:
        print(f"  {problem}")


def _unpack(archives: Sequence[Path], folder: Path, quiet: bool, as_json: bool) -> None:
    from wattstep.workloads.data.archives import unpack
    from wattstep.workloads.data.catalogue import find_archive

    if not archives:
        raise InvalidValueError(
            "wattstep data unpack ARCHIVE...: name the archives", id="no-archive-given"
        )
    rows: list[dict[str, Any]] = []
    # All names are looked up before the first archive is touched.
    for path, file in [(path, find_archive(path.name)) for path in archives]:
        assert file.folder is not None, "an archive becomes a folder"
        with _bar(path.name, quiet) as progress:
            target = unpack(path, folder / file.folder, checksum=file.checksum, progress=progress)
        rows.append({"archive": path, "place": target, "checksum": file.checksum})
        if not as_json:
            checked = "as published" if file.checksum else "no checksum known to compare with"
            print(f"{path}: {checked}; unpacked as {target}")
    if as_json:
        _dump(rows)


@contextmanager
def _bar(title: str, quiet: bool) -> Iterator[Progress | None]:
    """A bar on standard error, in a terminal."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    with Bar(console=console, transient=True) as bar:
        task = bar.add_task(title)
        yield lambda done, size: bar.update(task, completed=done, total=size)


def _dump(rows: list[dict[str, Any]], refusal: WattstepError | None = None) -> None:
    from wattstep.report.json_document import dump

    dump({"data": rows, **(refusal.document() if refusal else {})}, sys.stdout)

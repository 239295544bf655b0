"""Folders of runs as a stranger could send them: something in each leads out, waits for ever or never ends."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.run import made
from tests.run.made import MS, Sampled, make_run

from wattstep.schema.channel import Channel

TABLES = ("samples", "steps", "spans", "memory", "evaluations", "operations")
FORMER = ("run.json.tmp", *(f"{name}.parquet.tmp" for name in TABLES))  # what writers used to make
WRITTEN = (*FORMER, *(f"{name}.parquet" for name in TABLES), "journal/lock", "journal/holder")
READ = (
    "run.json", "journal/marks.bin", "journal/names.jsonl", "journal/operations.bin",
    "journal/samples-00.bin", "journal/lock", "journal/holder", "samples.parquet", "steps.parquet",
)  # fmt: skip
POWER = Channel(
    name="power", unit="W", kind="gauge", domain="system", role="power_total", source="made",
    scale=1e-3,
)  # fmt: skip
CANARY = b"# a start-up file of a shell\n"


def unclosed_run(path: Path, channel: Channel = POWER) -> Path:
    """A run whose recorder was killed: LeNet's shape of steps, with samples of a channel."""
    with patch.object(made, "convert"):
        make_run(path, [Sampled(channel=channel, raw=lambda t_ns: 5000 + t_ns // MS % 7)])
    return path


def closed_run(path: Path) -> Path:
    """The same run, closed."""
    make_run(path, [])
    return path


def outside(folder: Path) -> Path:
    """Files and folders of the user that no command may touch."""
    folder.mkdir(parents=True)
    for name in (*WRITTEN, *READ):
        (folder / name.replace("/", "-")).write_bytes(CANARY)
    unclosed_run(folder / "own-run")
    return folder


def _put(path: Path, make: Callable[[Path], Any]) -> None:
    path.unlink(missing_ok=True)
    make(path)


def links(run: Path, folder: Path) -> None:
    """Each file that is written leads to one of the user's."""
    for name in WRITTEN:
        _put(run / name, lambda path, to=name: path.symlink_to(folder / to.replace("/", "-")))


def hard_links(run: Path, folder: Path) -> None:
    """Each file that is written is another name of one of the user's."""
    for name in WRITTEN:
        _put(run / name, lambda path, to=name: path.hardlink_to(folder / to.replace("/", "-")))


def description_link(run: Path, folder: Path) -> None:
    """`run.json` is that of another run."""
    _put(run / "run.json", lambda path: path.symlink_to(folder / "own-run" / "run.json"))


def description_hard_link(run: Path, folder: Path) -> None:
    """`run.json` is another name of that of another run."""
    _put(run / "run.json", lambda path: path.hardlink_to(folder / "own-run" / "run.json"))


def journal_link(run: Path, folder: Path) -> None:
    """The journal is that of another run, which would be removed."""
    shutil.rmtree(run / "journal")
    (run / "journal").symlink_to(folder / "own-run" / "journal")


def linked_folder(run: Path, folder: Path) -> None:
    """A folder within the journal leads out."""
    (run / "journal" / "more").symlink_to(folder)


def dangling(run: Path, folder: Path) -> None:
    """Each file that is written would be made elsewhere."""
    for name in WRITTEN:
        _put(run / name, lambda path: path.symlink_to(folder / "new" / path.name))
        _put(run / name, lambda path: path.symlink_to(folder / f"new-{path.name}"))


def _at(name: str, make: Callable[[Path], Any]) -> Callable[[Path, Path], None]:
    def put(run: Path, folder: Path) -> None:
        _put(run / name, make)

    return put


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


MALICE: Mapping[str, Callable[[Path, Path], None]] = {
    **{
        each.__name__: each
        for each in (
            links, hard_links, description_link, description_hard_link, journal_link,
            linked_folder, dangling,
        )
    },
    **{f"fifo at {name}": _at(name, lambda path: os.mkfifo(path)) for name in READ},
    **{f"device at {name}": _at(name, _device) for name in READ},
}  # fmt: skip


def state_of(folder: Path) -> dict[str, Any]:
    """Everything that a change of a folder would show in; access is none."""
    return dict(_states(folder))


def _states(folder: Path) -> Iterator[tuple[str, Any]]:
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        facts: list[Any] = [status.st_mode, status.st_ino, status.st_mtime_ns]
        if stat.S_ISREG(status.st_mode):
            facts.append(path.read_bytes())
        yield str(path.relative_to(folder)), tuple(facts)

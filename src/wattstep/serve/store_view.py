"""Contents of a folder of runs, each entry by an id that is looked up here and never made into a path."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from wattstep.errors import InvalidValueError
from wattstep.report import machines
from wattstep.report.values import plain
from wattstep.schema.failures import contained
from wattstep.schema.journal import JOURNAL, RUN
from wattstep.store.listing import ListedFacts, ListedRun, listed
from wattstep.store.lock import is_locked, is_recording
from wattstep.sweep.folder import LOCK as SWEEP_LOCK
from wattstep.sweep.folder import SWEEP
from wattstep.train.daily.folder import LOCK as DAILY_LOCK
from wattstep.train.daily.folder import SETTINGS as DAILY

Kind = Literal["run", "sweep", "daily", "link"]

DEEPEST: Final = 3  # store / daily training / batch size / run
LARGEST_JSON: Final = 64 * 2**20  # bytes; a run.json that is larger is none
KEPT_FOR: Final = 10  # times as long as a look at the disk took, it serves for further pages
# Without these a closed run cannot be opened.
TABLES: Final = ("steps.parquet", "spans.parquet", "samples.parquet")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A thing in the store.

    Attributes:
        id: How pages name it: a hash of its place.
        kind: Kind of entry.
        path: Its folder.
        place: Path from the store on, in harmless characters.
        parent: Id of the sweep or daily training that it is part of, or "".
        state: "closed", "recovered", "recording", "not closed", "damaged" or "outside" of a run;
            "in progress" or "at rest" of a sweep or daily training.
        problem: Why it is damaged or outside, or "".
        size: Bytes that it takes on the disk.
        stamp: Changes when any of its files does.
        listed: Of a run that could be looked at, its line of a list.
        device: Of a run, the machine in a few words.
        title: Of a run, what its workload is called.
    """

    id: str
    kind: Kind
    path: Path
    place: str
    parent: str
    state: str
    problem: str = ""
    size: int = 0
    stamp: str = ""
    listed: ListedRun | None = None
    device: str = ""
    title: str = ""

    @property
    def facts(self) -> ListedFacts | None:
        """Of a run whose `run.json` can be read."""
        return None if self.listed is None else self.listed.facts

    @property
    def created(self) -> str:
        """When a run began; "" where that is not known."""
        return "" if self.facts is None else self.facts.created

    @property
    def readable(self) -> bool:
        """True if it can be opened without a write into the store."""
        return self.state not in ("damaged", "outside", "not closed") and self.kind != "link"


Listing = Mapping[str, Entry]


class UnknownEntryError(InvalidValueError):
    """An entry that was asked for is not in the store, or no longer."""

    id = "unknown-entry"


def id_of(place: Path) -> str:
    """The id of what lies there, seen from the store."""
    return hashlib.sha256(os.fsencode(place)).hexdigest()[:16]


class StoreView:
    """A folder as a list of what is in it; safe for several threads.

    Args:
        root: The folder. Links below it are never followed.

    Raises:
        InvalidValueError: It is no folder that holds runs.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise InvalidValueError(f"{root}: there is no such folder", id="no-such-folder")
        if (root / RUN).exists():
            raise InvalidValueError(
                f"{root} is a run: give the folder that holds it", id="run-as-folder"
            )
        self.root = root.resolve()
        self._lock = threading.Lock()
        self._seen: dict[Path, Entry] = {}
        self._listing: Listing = {}
        self._until = 0.0

    def look(self, *, fresh: bool = False) -> Listing:
        """Everything by id, in order of places.

        Args:
            fresh: Look at the disk even if that was just done.

        Raises:
            InvalidValueError: The folder is gone or cannot be read.
        """
        with self._lock:
            began = time.monotonic()
            if fresh or began > self._until:
                try:
                    entries = list(self._inside(self.root, "", 1))
                except OSError as error:
                    raise InvalidValueError(
                        f"the store cannot be read: {error.strerror or error}"
                    ) from error
                self._listing = {entry.id: entry for entry in entries}
                self._seen = {entry.path: entry for entry in entries if entry.kind == "run"}
                ended = time.monotonic()
                self._until = ended + KEPT_FOR * (ended - began)
            return self._listing

    def inside(self, folder: Path) -> list[Entry]:
        """Entries of a folder of the store that is not listed: the trash.

        Raises:
            OSError: It cannot be read.
        """
        return list(self._inside(folder, "", 1))

    def _inside(self, folder: Path, parent: str, depth: int) -> Iterator[Entry]:
        with os.scandir(folder) as inside:
            children = sorted(inside, key=lambda entry: entry.name)
        for each in children:
            if each.name.startswith("."):  # of ours, or being made
                continue
            path = Path(each.path)
            if each.is_symlink():
                if path.is_dir():
                    yield self._link(path, parent)
            elif each.is_dir(follow_symlinks=False):
                yield from self._folder(path, parent, depth)

    def _folder(self, path: Path, parent: str, depth: int) -> Iterator[Entry]:
        """A run; a sweep or daily training and what is in it; or just what is in it."""
        try:
            names = set(os.listdir(path))  # noqa: PTH208 - no objects for names only
        except OSError as error:
            if not isinstance(error, FileNotFoundError):  # removed meanwhile
                problem = f"cannot be read: {error.strerror or error}"
                yield self._entry("run", path, parent, state="damaged", problem=problem)
            return
        if RUN in names or JOURNAL in names:
            if (run := self._run(path, parent)) is not None:
                yield run
            return
        for kind, mark, lock in (("sweep", SWEEP, SWEEP_LOCK), ("daily", DAILY, DAILY_LOCK)):
            if mark in names and not parent:
                whole = self._whole(kind, path, lock)  # type: ignore[arg-type]
                yield whole
                parent = whole.id
        if depth < DEEPEST:
            try:
                yield from self._inside(path, parent, depth + 1)
            except FileNotFoundError:
                return

    def _whole(self, kind: Kind, path: Path, lock: str) -> Entry:
        files = look_at(path, self.root)
        state = "in progress" if is_locked(path / lock) else "at rest"
        entry = self._entry(kind, path, "", state=state, size=files.size, stamp=files.stamp)
        if files.problem:
            entry = replace(entry, state="outside", problem=files.problem)
        return entry

    def _run(self, path: Path, parent: str) -> Entry | None:
        try:
            files = look_at(path, self.root)
        except FileNotFoundError:  # removed meanwhile
            return None
        entry = self._entry("run", path, parent, state="", size=files.size, stamp=files.stamp)
        if files.outside:
            return replace(entry, state="outside", problem=files.problem)
        if files.problem:
            return replace(entry, state="damaged", problem=files.problem)
        journal = (path / JOURNAL).is_dir()
        before = self._seen.get(path)
        if not journal and before is not None and before.stamp == files.stamp:
            return replace(before, parent=parent)
        try:
            return self._described(entry, journal)
        except Exception as error:
            problem = plain(f"it failed: {contained(error)}")
            return replace(entry, state="damaged", problem=problem)

    def _described(self, entry: Entry, journal: bool) -> Entry:
        line, info = listed(entry.path)
        line = replace(line, run=entry.place)
        if info is None:
            problem = plain(str(line.problem).replace(f"{self.root}{os.sep}", ""))
            line = replace(line, problem=problem)
            return replace(entry, state="damaged", problem=problem, listed=line)
        state = str(info.state)
        if journal:
            state = "recording" if is_recording(entry.path) else "not closed"
        elif lacking := [name for name in TABLES if not (entry.path / name).is_file()]:
            state, problem = "damaged", f"{entry.path.name} lacks {', '.join(lacking)}"
            line = replace(line, problem=plain(problem))
            entry = replace(entry, problem=plain(problem))
        return replace(
            entry,
            state=state,
            listed=replace(line, state=state),
            device=machines.short(info.device),
            title=plain(info.title or info.workload or "a run"),
        )

    def _link(self, path: Path, parent: str) -> Entry:
        if _leads_out(path, self.root):
            words = "a link that leads out of the store: it is not followed"
        else:
            words = "a link to another place of the store, where it is listed"
        return self._entry("link", path, parent, state="outside", problem=words)

    def _entry(self, kind: Kind, path: Path, parent: str, **more: Any) -> Entry:
        place = path.relative_to(self.root)
        return Entry(
            id=id_of(place),
            kind=kind,
            path=path,
            place=plain(os.fsencode(place).decode("utf-8", errors="replace")),
            parent=parent,
            **more,
        )


# --- what a folder is made of -------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Files:
    """Result of looking at all files of a folder.

    Attributes:
        size: Bytes on the disk.
        stamp: Changes when any of the files does.
        problem: Why none of them should be opened, or "".
        outside: True if that is because a link in it leads out of the store.
    """

    size: int
    stamp: str
    problem: str = ""
    outside: bool = False


def look_at(folder: Path, root: Path) -> Files:
    """Size and stamp of a folder, and whether something in it is not what it should be.

    Raises:
        FileNotFoundError: It is gone.
    """
    digest, size, problem, outside = hashlib.sha256(), 0, "", False
    for place, status in _files(folder):
        digest.update(place.encode("utf-8", "surrogateescape"))
        # A file made anew may have size, mtime and inode of the one before, but not its ctime.
        stamp = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
        digest.update(f"\0{stamp}\0".encode())
        size += status.st_blocks * 512
        if stat.S_ISLNK(status.st_mode):
            if _leads_out(folder / place, root):
                outside = True
                problem = f"{plain(place)} in it is a link that leads out of the store"
        elif not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            problem = problem or f"{plain(place)} in it is no plain file"
        elif place == RUN and status.st_size > LARGEST_JSON:
            problem = problem or f"{RUN} has {status.st_size:,} bytes"
    return Files(size=size, stamp=digest.hexdigest()[:24], problem=problem, outside=outside)


def stamp_of(entry: Entry) -> str:
    """The stamp of an entry as its files are now; "" if it is gone or cannot be read."""
    try:
        return look_at(entry.path, entry.path).stamp
    except OSError:
        return ""


def _files(folder: Path, place: str = "", depth: int = 0) -> Iterator[tuple[str, os.stat_result]]:
    """All files and folders inside, by their place; of links themselves."""
    with os.scandir(folder) as inside:
        entries = sorted(inside, key=lambda entry: entry.name)
    for entry in entries:
        try:
            status = entry.stat(follow_symlinks=False)
            yield f"{place}{entry.name}", status
            if stat.S_ISDIR(status.st_mode) and depth < 8:
                yield from _files(Path(entry.path), f"{place}{entry.name}/", depth + 1)
        except FileNotFoundError:  # removed meanwhile: journals of a run that is being closed
            continue


def _leads_out(path: Path, root: Path) -> bool:
    try:
        return not path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # a loop of links
        return True

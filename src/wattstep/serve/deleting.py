"""Deleting in two steps: into a trash folder within the store, from which it can be put back, then for good.

A run often cannot be made again: hours of a board, a state of the machine that is gone. Moving it
is one rename on one disk: it is there or it is not, and whoever reads it meanwhile goes on. Its
place in the trash repeats its place in the store, so that nothing has to be written beside it:
that works on a full disk, too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wattstep.errors import InvalidValueError
from wattstep.serve.store_view import Entry, StoreView, UnknownEntryError, id_of, look_at

TRASH: Final = ".wattstep-trash"
NAMES: Final = {"sweep": "sweep", "daily": "daily training", "run": "run", "link": "link"}
FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, kw_only=True)
class Discarded:
    """Entries that were moved into the trash at once.

    Attributes:
        id: Name of its folder in the trash.
        when: "2026-11-22 14:03:05", local time.
        places: Where its parts were in the store.
        ids: Their ids in the store.
        paths: Where they are now.
        size: Bytes that they take on the disk.
    """

    id: str
    when: str
    places: tuple[str, ...]
    ids: tuple[str, ...]
    paths: tuple[Path, ...]
    size: int


class Trash:
    """The trash of a store.

    Args:
        store: The store.
    """

    def __init__(self, store: StoreView) -> None:
        self._store = store
        self._folder = store.root / TRASH

    def refusal(self, entry: Entry, parts: Sequence[Entry], parent: Entry | None) -> str:
        """Reason why an entry is not deleted, or "".

        Args:
            entry: Entry to delete.
            parts: The runs in it, where it is a sweep or a daily training.
            parent: The sweep or daily training that it is part of.
        """
        if entry.kind == "link":
            return "it is a link: remove it by hand, what it leads to is not touched"
        if entry.state == "recording":
            return "it is still being recorded"
        if entry.state == "in progress":
            return f"the {NAMES[entry.kind]} is still going on"
        if parent is not None and parent.state == "in progress":
            return f"the {NAMES[parent.kind]} that it is part of is still going on"
        if busy := [part.path.name for part in parts if part.state == "recording"]:
            return f"{', '.join(busy)} in it is still being recorded"
        return ""

    def move(self, entries: Sequence[Entry]) -> str:
        """Moves entries into the trash; the id under which they lie there.

        Raises:
            OSError: Something could not be moved; what was moved is put back.
        """
        id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
        self._own_folder()
        moved: list[tuple[Path, Path]] = []
        try:
            for entry in entries:
                target = self._folder / id / entry.path.relative_to(self._store.root)
                target.parent.mkdir(parents=True, exist_ok=True)
                entry.path.rename(target)
                moved.append((entry.path, target))
        except OSError:
            for path, target in moved:
                target.rename(path)
            self._prune(self._folder / id)
            raise
        return id

    def remove(self, entries: Sequence[Entry]) -> None:
        """Deletes entries for good, without the trash; links in them are removed, not followed.

        Raises:
            OSError: Something could not be removed.
        """
        for entry in entries:
            shutil.rmtree(entry.path)

    def listed(self) -> list[Discarded]:
        """Contents of the trash, the newest first."""
        if not self._is_folder():
            return []
        with os.scandir(self._folder) as inside:
            folders = [Path(e.path) for e in inside if e.is_dir(follow_symlinks=False)]
        discarded = [self._discarded(folder) for folder in sorted(folders, reverse=True)]
        return [each for each in discarded if each is not None]

    def restore(self, id: str) -> list[str]:
        """Puts back what was moved at once; the places where it is again.

        Raises:
            UnknownEntryError: It is not in the trash.
            InvalidValueError: Its place is taken.
            OSError: It cannot be moved.
        """
        discarded = self._find(id)
        base = self._folder / discarded.id
        targets = [self._store.root / path.relative_to(base) for path in discarded.paths]
        for target in targets:
            if target.exists() or target.is_symlink():
                raise InvalidValueError(
                    f"{target.name}: its place is taken by something else", id="place-taken"
                )
        for path, target in zip(discarded.paths, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
        self._prune(base)
        return list(discarded.places)

    def empty(self, ids: Sequence[str]) -> None:
        """Deletes for good what lies under these ids.

        Raises:
            UnknownEntryError: One of them is not in the trash.
            OSError: It cannot be removed.
        """
        for discarded in [self._find(id) for id in ids]:
            shutil.rmtree(self._folder / discarded.id)
        with contextlib.suppress(OSError):  # the last is gone
            self._folder.rmdir()

    def _find(self, id: str) -> Discarded:
        for each in self.listed():
            if each.id == id:
                return each
        raise UnknownEntryError("that is no longer in the trash")

    def _discarded(self, folder: Path) -> Discarded | None:
        try:
            entries = [each for each in self._store.inside(folder) if not each.parent]
            size = look_at(folder, self._store.root).size
        except OSError:  # emptied meanwhile
            return None
        date, _, rest = folder.name.partition("-")
        clock = rest.partition("-")[0]
        when = f"{date[:4]}-{date[4:6]}-{date[6:]} {clock[:2]}:{clock[2:4]}:{clock[4:]}"
        prefix = f"{TRASH}/{folder.name}/"
        return Discarded(
            id=folder.name, when=when, size=size, paths=tuple(each.path for each in entries),
            ids=tuple(id_of(each.path.relative_to(folder)) for each in entries),
            places=tuple(each.place.removeprefix(prefix) for each in entries),
        )  # fmt: skip

    def _own_folder(self) -> None:
        """Makes the trash; one that is a link is not ours.

        Raises:
            OSError: It cannot be made.
        """
        self._folder.mkdir(exist_ok=True)
        if not self._is_folder():
            raise OSError(errno.ENOTDIR, f"{TRASH} in the store is no folder")

    def _is_folder(self) -> bool:
        return self._folder.is_dir() and not self._folder.is_symlink()

    def _prune(self, folder: Path) -> None:
        """Removes folders that hold nothing any more, and the trash when it is empty."""
        for inside, _, _ in os.walk(folder, topdown=False):
            with contextlib.suppress(OSError):
                Path(inside).rmdir()
        with contextlib.suppress(OSError):
            self._folder.rmdir()

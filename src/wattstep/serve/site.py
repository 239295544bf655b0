"""All that a server has: the store, what was worked out, the trash, and who may ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from time import time
from typing import Any, Final

from wattstep.serve.auth import Guard
from wattstep.serve.cache import Cache
from wattstep.serve.deleting import Trash
from wattstep.serve.figures import Figures
from wattstep.serve.jobs import MOST_WAITING, READERS, JobQueue, Outcome
from wattstep.serve.rows import Row, Versions, row_of
from wattstep.serve.store_view import Entry, Listing, StoreView, UnknownEntryError
from wattstep.serve.task import Task

FRESH_S: Final = 60  # for so long a page of what is being recorded is not written again


@dataclass(frozen=True, kw_only=True)
class Made:
    """A page that was asked for: its text, why there is none, or the work that is under way."""

    data: bytes | None = None
    error: str = ""
    done: Any = None
    future: Future[Outcome] | None = None


class Site:
    """See the module.

    Args:
        root: The store.
        guard: Who may ask.
        cache: Where pages are kept; None: in the user's cache folder.
    """

    def __init__(self, root: Path, guard: Guard, cache: Cache | None = None) -> None:
        self.store = StoreView(root)
        self.guard = guard
        self.cache = cache or Cache()
        self.trash = Trash(self.store)
        self.versions = Versions()
        self.figures = Figures(self.cache)
        self._line = JobQueue(READERS, self.cache.shrink, MOST_WAITING)
        self._recovering = JobQueue(
            1
        )  # two conversions within one process would not see their locks

    def find(self, id: str) -> Entry:
        """An entry by its id.

        Raises:
            UnknownEntryError: There is none; it may have been removed.
        """
        entry = self.store.look().get(id) or self.store.look(fresh=True).get(id)
        if entry is None:
            raise UnknownEntryError("that is not in the store: it may have been removed")
        return entry

    def parts(self, entry: Entry) -> list[Entry]:
        """The runs of a sweep or a daily training."""
        return [each for each in self.store.look().values() if each.parent == entry.id]

    def rows(self, listing: Listing) -> list[Row]:
        """A line for everything in the store."""
        parts: dict[str, int] = {}
        for entry in listing.values():
            parts[entry.parent] = parts.get(entry.parent, 0) + 1
        paused, root = self.is_paused(listing), str(self.store.root)
        return [
            row_of(
                entry, self.figures.known(entry), parts.get(entry.id, 0), paused=paused, root=root
            )
            for entry in listing.values()
        ]

    def is_paused(self, listing: Listing) -> bool:
        """True if something is being recorded, which work of ours would disturb."""
        return any(entry.state in ("recording", "in progress") for entry in listing.values())

    def want_figures(self, rows: Sequence[Row], listing: Listing) -> None:
        """Has the figures of the lines of a page worked out, unless that would disturb."""
        if not self.is_paused(listing):
            self.figures.want(row.entry for row in rows if row.pending)

    def make(self, what: str, entries: Sequence[Entry], **options: Any) -> Made:
        """A page of some entries, as far as it is there; else the work begins.

        Args:
            what: A task of `serving.worker`.
            entries: Entries that it is made from; all can be read.
            options: Of the task.
        """
        settled = [_settled(entry) for entry in entries]
        path = self.cache.place(what, settled, repr(sorted(options.items())))
        if (data := self.cache.find(path)) is not None:
            return Made(data=data)
        if error := self._line.failed(path.name):
            return Made(error=error)
        paths = [str(entry.path) for entry in entries]
        task = Task(task=what, paths=paths, output=str(path), **options)
        return Made(future=self._line.ask(path.name, task))

    def recover(self, entry: Entry) -> str:
        """Closes a run that was never closed; why that failed, or ""."""
        task = Task(task="recover", paths=[str(entry.path)])
        return self._recovering.ask(entry.id, task).result().error

    def without_place(self, words: str) -> str:
        """A sentence without the place of the store on this machine."""
        return words.replace(f"{self.store.root}/", "").replace(str(self.store.root), "the store")

    def close(self) -> None:
        """Ends the children, whatever they are at."""
        ends: tuple[Callable[[], None], ...] = (
            self._line.close,
            self._recovering.close,
            self.figures.close,
            self.cache.close,
        )
        for end in ends:
            end()


def _settled(entry: Entry) -> Entry:
    """An entry whose files change all the time counts as the same for a minute."""
    if entry.state in ("recording", "in progress"):
        return replace(entry, stamp=f"{entry.state} {int(time()) // FRESH_S}")
    return entry

"""Routes that change the store: deleting, putting back, recovering; each asked for by a form with our token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.report.values import quantity
from wattstep.serve.deleting import FULL
from wattstep.serve.pages import Pages
from wattstep.serve.responses import form_of, page
from wattstep.serve.site import Site
from wattstep.serve.store_view import Entry, UnknownEntryError

Fields = Mapping[str, list[str]]


class WriteRoutes:
    """Questions and their answers.

    Args:
        site: Shared state of the server.
        pages: Renders the questions.
    """

    def __init__(self, site: Site, pages: Pages) -> None:
        self._site = site
        self._pages = pages

    async def ask(self, request: Request) -> Response:
        """Shows what would be lost; nothing is deleted by asking."""
        ids = list(dict.fromkeys(request.query_params.getlist("run")))
        return page(await run_in_threadpool(self._ask, ids))

    def _ask(self, ids: Sequence[str]) -> str:
        if not ids:
            raise InvalidValueError("no run is chosen: tick some in the list")
        self._site.store.look(fresh=True)
        entries = self._outermost([self._site.find(id) for id in ids])
        refused = [(entry, reason) for entry in entries if (reason := self._refusal(entry))]
        left = [entry for entry in entries if not self._refusal(entry)]
        size = quantity(float(sum(entry.size for entry in left)), "B")
        count = f"{len(left)} of {len(entries)} chosen" if refused else "This"
        return self._pages.render(
            "delete.html",
            title="Delete?" if left else "Not deleted",
            entries=[(entry, self._loss(entry)) for entry in left],
            refused=refused,
            words=f"{count if len(left) == 1 or refused else f'These {len(left)}'} would go: {size}.",
            size=size,
        )

    async def delete(self, request: Request) -> Response:
        """Deletes what a page asked about, if it is still what it was."""
        fields = await form_of(request, self._site.guard)
        moved = await run_in_threadpool(self._delete, fields)
        return RedirectResponse(f"/?moved={moved}" if moved else "/", status_code=303)

    def _delete(self, fields: Fields) -> str:
        """The id in the trash, or "" where it is gone for good.

        Raises:
            InvalidValueError: It was not confirmed.
            UnknownEntryError: Something is gone already.
            HTTPException: Something is not what the page showed, or must not go.
            RecordingError: The disk does not let it.
        """
        _confirmed(fields)
        ids, seen = fields.get("run", []), fields.get("seen", [])
        if not ids or len(ids) != len(seen):
            raise InvalidValueError("the form does not say what is to be deleted")
        listing = self._site.store.look(fresh=True)
        entries = []
        for id, stamp in zip(ids, seen, strict=True):
            entry = listing.get(id)
            if entry is None:
                raise UnknownEntryError("that is not in the store: it may have been removed")
            if reason := self._refusal(entry):
                raise HTTPException(409, f"{entry.place} is left alone: {reason}")
            if entry.stamp != stamp:
                raise HTTPException(409, f"{entry.place} has changed since you looked: look again")
            entries.append(entry)
        return self.let_go(self._outermost(entries), forever=fields.get("how") == ["forever"])

    def let_go(self, entries: Sequence[Entry], *, forever: bool) -> str:
        """Moves entries into the trash, or deletes them for good; the id in the trash, or "".

        Raises:
            RecordingError: The disk does not let it.
        """
        trash = self._site.trash
        try:
            moved = trash.move(entries)
            if forever:
                trash.empty([moved])
        except OSError as error:
            if not forever or error.errno not in FULL:
                raise RecordingError(
                    f"cannot be deleted: {error.strerror or error}", id="delete-failed"
                ) from error
            self._remove(entries)
        finally:
            self._site.store.look(fresh=True)
        if not forever:
            return moved
        for entry in entries:
            self._site.cache.forget(entry.id)
        return ""

    def _remove(self, entries: Sequence[Entry]) -> None:
        """On a disk that has no room for the trash's own folder."""
        try:
            self._site.trash.remove(entries)
        except OSError as error:
            raise RecordingError(f"cannot be deleted: {error.strerror or error}") from error

    async def see_trash(self, request: Request) -> Response:
        """Shows the trash."""
        return page(await run_in_threadpool(self._see_trash))

    def _see_trash(self) -> str:
        discarded = self._site.trash.listed()
        return self._pages.render(
            "trash.html",
            title="Trash",
            discarded=[
                {"id": d.id, "when": d.when, "places": d.places, "size": quantity(float(d.size), "B")}
                for d in discarded
            ],
            total=quantity(float(sum(each.size for each in discarded)), "B"),
        )  # fmt: skip

    async def restore(self, request: Request) -> Response:
        """Puts back what was moved into the trash at once."""
        fields = await form_of(request, self._site.guard)
        await run_in_threadpool(self._restore, fields)
        return RedirectResponse("/", status_code=303)

    def _restore(self, fields: Fields) -> None:
        try:
            self._site.trash.restore(fields.get("id", [""])[0])
        except OSError as error:
            raise RecordingError(f"cannot be put back: {error.strerror or error}") from error
        finally:
            self._site.store.look(fresh=True)

    async def empty(self, request: Request) -> Response:
        """Deletes for good what the page of the trash showed."""
        fields = await form_of(request, self._site.guard)
        await run_in_threadpool(self._empty, fields)
        return RedirectResponse("/trash", status_code=303)

    def _empty(self, fields: Fields) -> None:
        _confirmed(fields)
        ids = fields.get("id", [])
        gone = [each for each in self._site.trash.listed() if each.id in ids]
        try:
            self._site.trash.empty(ids)
        except OSError as error:
            raise RecordingError(f"cannot be deleted: {error.strerror or error}") from error
        for id in (id for each in gone for id in each.ids):
            self._site.cache.forget(id)

    async def recover(self, request: Request) -> Response:
        """Closes a run that was never closed."""
        fields = await form_of(request, self._site.guard)
        id = fields.get("run", [""])[0]
        entry = await run_in_threadpool(self._site.find, id)
        if entry.state == "not closed":
            error = await run_in_threadpool(self._site.recover, entry)
            await run_in_threadpool(self._site.store.look, fresh=True)
            if error:
                raise RecordingError(self._site.without_place(error))
        return RedirectResponse(f"/runs/{entry.id}/about", status_code=303)

    # --- what may go --------------------------------------------------------------------------

    def _refusal(self, entry: Entry) -> str:
        return self._site.trash.refusal(entry, self._site.parts(entry), self._parent(entry))

    def _parent(self, entry: Entry) -> Entry | None:
        return self._site.store.look().get(entry.parent)

    def _outermost(self, entries: Sequence[Entry]) -> list[Entry]:
        """Entries without those that are part of another one of them."""
        ids = {entry.id for entry in entries}
        return [entry for entry in entries if entry.parent not in ids]

    def _loss(self, entry: Entry) -> str:
        """Description of what will be gone, in words."""
        size = quantity(float(entry.size), "B")
        if entry.kind in ("sweep", "daily"):
            count = len(self._site.parts(entry))
            what = "its settings, outcomes and" if entry.kind == "sweep" else "its days, models and"
            return f"{size}: {what} {count} run{'' if count == 1 else 's'}"
        words = " · ".join(part for part in (entry.title, _batch(entry), entry.created) if part)
        within = "; the sweep or daily training that it is part of keeps its line without it"
        return f"{size}: {words}, with all its samples{within if entry.parent else ''}"


def _batch(entry: Entry) -> str:
    size = None if entry.facts is None else entry.facts.batch_size
    return "" if size is None else f"batch {size}"


def _confirmed(fields: Fields) -> None:
    if fields.get("confirm") != ["yes"]:
        raise InvalidValueError("it was not confirmed: tick the box first")

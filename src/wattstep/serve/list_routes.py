"""The list, and what is known of one thing in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from wattstep.report.values import BYTES_NOTE, plain, quantity
from wattstep.report.wording import in_words
from wattstep.serve.deleting import Discarded
from wattstep.serve.pages import Pages
from wattstep.serve.responses import json_page, page
from wattstep.serve.rows import Row, Wish, chosen, shortened, wish_of
from wattstep.serve.site import Site
from wattstep.serve.store_view import Entry, Listing

AT_MOST: Final = 2000  # lines of a page, unless all are asked for
COLUMNS: Final = (
    ("title", "Run", False),
    ("state", "State", False),
    ("date", "Date", True),
    ("steps", "Steps", True),
    ("time", "Step time", True),
    ("energy", "Energy per step", True),
    ("engine", "Ran with", False),
    ("size", "On disk", True),
)
SORTS: Final = (
    ("-date", "newest first"),
    ("date", "oldest first"),
    ("title", "workload"),
    ("-title", "workload, Z to A"),
    ("place", "name"),
    ("batch", "batch size"),
    ("-batch", "batch size, largest first"),
    ("time", "step time, shortest first"),
    ("-time", "step time, longest first"),
    ("energy", "energy, least first"),
    ("-energy", "energy, most first"),
    ("-steps", "most steps first"),
    ("steps", "fewest steps first"),
    ("-size", "largest on disk first"),
    ("size", "smallest on disk first"),
    ("state", "state"),
    ("-state", "state, Z to A"),
    ("engine", "engine"),
    ("-engine", "engine, Z to A"),
    ("device", "device"),
    ("-device", "device, Z to A"),
)


class ListRoutes:
    """Pages that change nothing and are made at once.

    Args:
        site: Shared state of the server.
        pages: Renders them.
    """

    def __init__(self, site: Site, pages: Pages) -> None:
        self._site = site
        self._pages = pages

    async def all_runs(self, request: Request) -> Response:
        """The list."""
        parameters = dict(request.query_params)
        return page(await run_in_threadpool(self._all_runs, parameters))

    def _all_runs(self, parameters: dict[str, str]) -> str:
        site, wish = self._site, wish_of(parameters)
        listing = site.store.look()
        rows = site.rows(listing)
        shown = chosen(rows, wish)
        version = site.versions.update(rows)
        limited = shown if "all" in parameters else shown[:AT_MOST]
        site.want_figures(limited, listing)
        return self._pages.render(
            "list.html",
            title="Runs",
            folder=shortened(plain(site.store.root.name or "/"), 80),
            rows=limited,
            total=len(rows),
            more=len(limited) < len(shown),
            wish=wish,
            states=_states(rows, wish),
            sorts=SORTS,
            columns=COLUMNS,
            version=version,
            pending=any(row.pending for row in limited),
            recording=site.is_paused(listing),
            notice=self._notice(parameters.get("moved", "")),
            trash=len(site.trash.listed()),
            bytes_note=BYTES_NOTE,
        )

    def _notice(self, id: str) -> Discarded | None:
        """Entry of the trash that was just moved there."""
        return next((each for each in self._site.trash.listed() if id and each.id == id), None)

    async def changes(self, request: Request) -> Response:
        """Lines of the list that are new or other since a page was made, for its script."""
        since = request.query_params.get("since", "0")
        number = int(since) if since.isdecimal() and len(since) < 12 else 0
        return json_page(await run_in_threadpool(self._changes, number))

    def _changes(self, since: int) -> dict[str, Any]:
        site = self._site
        listing = site.store.look()
        rows = site.rows(listing)
        version = site.versions.update(rows)
        site.want_figures(rows, listing)
        changed, gone = site.versions.since(since)
        return {
            "version": version,
            "pending": site.is_paused(listing) or any(row.pending for row in rows),
            "gone": gone,
            "rows": {
                row.entry.id: self._pages.render("line.html", row=row)
                for row in rows
                if row.entry.id in changed
            },
        }

    async def about(self, request: Request) -> Response:
        """Facts about one entry without opening it."""
        return page(await run_in_threadpool(self._about, request.path_params["id"]))

    def _about(self, id: str) -> str:
        site = self._site
        entry = site.find(id)
        parts = site.parts(entry)
        listing = site.store.look()
        row = next(row for row in site.rows({entry.id: entry, **_of(listing, parts)}))
        return self._pages.render(
            "about.html",
            title=shortened(entry.title or row.title, 120),
            entry=entry,
            row=row,
            facts=_facts(entry, row),
            files=_files_of(entry),
            parts=parts,
            parent=listing.get(entry.parent),
            refusal=site.trash.refusal(entry, parts, listing.get(entry.parent)),
        )

    async def api_runs(self, request: Request) -> Response:
        """The runs, as `wattstep runs list --json` has them, with their ids here."""
        return json_page({"runs": await run_in_threadpool(self._api_runs)})

    def _api_runs(self) -> list[dict[str, Any]]:
        site = self._site
        listing = site.store.look()
        rows = site.rows(listing)
        site.want_figures(rows, listing)
        return [_api_row(site, row) for row in rows if row.entry.kind == "run"]


def _api_row(site: Site, row: Row) -> dict[str, Any]:
    entry = row.entry
    worked = site.figures.known(entry)
    return {
        "run": entry.place,
        **({} if entry.listed is None else entry.listed.to_dict()),
        "state": row.state,
        "problem": row.problem or None,
        "id": entry.id,
        "size": entry.size,
        "figures": None if worked is None else worked.document(),
    }


def _states(rows: list[Row], wish: Wish) -> list[str]:
    return sorted({row.state for row in rows} | ({wish.state} if wish.state else set()))


def _of(listing: Listing, entries: list[Entry]) -> dict[str, Entry]:
    return {entry.id: listing[entry.id] for entry in entries if entry.id in listing}


def _facts(entry: Entry, row: Row) -> list[tuple[str, str]]:
    words: dict[str, Callable[[], str]] = {
        "Name": lambda: entry.place,
        "State": lambda: row.state,
        "Workload": lambda: plain(entry.facts.workload) if entry.facts else "",
        "Batch size": lambda: row.batch,
        "Engine": lambda: row.engine,
        "Device": lambda: entry.device,
        "Began": lambda: row.created,
        "Steps": lambda: row.steps,
        "Step time": lambda: in_words(row.step_time) if row.step_time else "",
        "Energy per step": lambda: in_words(row.energy) if row.energy else "",
        "On disk": lambda: row.size if entry.kind != "link" else "",
    }
    return [(name, text) for name, find in words.items() if (text := find())]


def _files_of(entry: Entry) -> list[tuple[str, str]]:
    """Files of a run by name, with sizes; of a sweep its runs are enough."""
    if entry.kind != "run":
        return []
    files = []
    try:
        with os.scandir(entry.path) as inside:
            for each in sorted(inside, key=lambda one: one.name):
                what = "a folder" if each.is_dir(follow_symlinks=False) else ""
                what = "a link" if each.is_symlink() else what
                size = each.stat(follow_symlinks=False).st_size
                files.append((shortened(plain(each.name)), what or quantity(float(size), "B")))
    except OSError:  # removed meanwhile
        return []
    return files[:100]

"""Reports, comparisons and documents: what takes a while, is said to be under way, and is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from wattstep.errors import InvalidValueError
from wattstep.serve.pages import Pages, report_policy, with_way_back
from wattstep.serve.responses import (
    complain,
    json_page,
    json_text,
    message_page,
    page,
    wants_json,
)
from wattstep.serve.site import Made, Site
from wattstep.serve.store_view import Entry

PATIENCE_S: Final = 2.0  # before a page says that it is being written
AGAIN_S: Final = 1  # until that page asks again
MOST_RUNS: Final = 100  # of one report
BACK: Final = ("All runs", "/")
COMMA: Final = ","


class ReportRoutes:
    """Pages that other processes write.

    Args:
        site: Shared state of the server.
        pages: Renders what is said meanwhile.
    """

    def __init__(self, site: Site, pages: Pages) -> None:
        self._site = site
        self._pages = pages

    async def one(self, request: Request) -> Response:
        """The report of a run, a sweep or a daily training."""
        entry = await run_in_threadpool(self._site.find, request.path_params["id"])
        about = f"/runs/{entry.id}/about"
        if not entry.readable:
            return RedirectResponse(about, status_code=303)
        links = {BACK[0]: BACK[1], "About, delete": about}
        return await self._report(request, [entry], links)

    async def several(self, request: Request) -> Response:
        """The report of the runs that were chosen."""
        entries = await run_in_threadpool(self._chosen, request)
        if len(entries) == 1:
            return RedirectResponse(f"/runs/{entries[0].id}", status_code=303)
        links = {BACK[0]: BACK[1], "Compare them": f"/compare?{_query(entries)}"}
        return await self._report(request, entries, links)

    async def _report(
        self, request: Request, entries: Sequence[Entry], links: dict[str, str]
    ) -> Response:
        kind = entries[0].kind if len(entries) == 1 else "run"
        if kind != "run":
            if unclosed := [p for p in self._site.parts(entries[0]) if p.state == "not closed"]:
                raise InvalidValueError(
                    f"{unclosed[0].place} in it was never closed: recover it first"
                )
            made = await self._made(kind, entries)
            return await self._sent(request, made, "Writing the report", links)
        runs, left_out = self._runs(entries)
        made = await self._made("report", runs, left_out=left_out)
        return await self._sent(request, made, "Writing the report", links)

    def _runs(self, entries: Sequence[Entry]) -> tuple[list[Entry], list[tuple[str, str]]]:
        """The runs among entries that can be opened, and why others cannot.

        Raises:
            InvalidValueError: None can, or they are too many.
        """
        whole = {
            run.id: run
            for entry in entries
            for run in ([entry] if entry.kind == "run" else self._site.parts(entry))
        }
        runs = [run for run in whole.values() if run.readable]
        left_out = [
            (run.place, run.problem or f"it is {run.state}")
            for run in whole.values()
            if not run.readable
        ]
        if not runs:
            raise InvalidValueError(
                "; ".join(f"{place}: {reason}" for place, reason in left_out) or "no run is chosen"
            )
        if len(runs) > MOST_RUNS:
            raise InvalidValueError(f"more than {MOST_RUNS} runs at once: choose fewer")
        return runs, left_out

    async def compare(self, request: Request) -> Response:
        """Shows the comparison of the chosen runs, or why it is refused."""
        chosen = await run_in_threadpool(self._chosen, request)
        entries = sorted(chosen, key=lambda entry: entry.created)
        runs, _ = self._runs(entries)  # the older run is A, with which the other is compared
        if len(runs) < 2:
            raise InvalidValueError("choose two runs or more, which can be opened, to compare them")
        by = "configuration" if request.query_params.get("by") == "configuration" else "run"
        if len(entries) == 1:  # a sweep: its configurations
            by = "configuration"
        across = sorted(_list(request, "across"))
        made = await self._made(
            "compare", runs, across=across, by=by, as_json=wants_json(request.url.path)
        )
        query = _query(entries) + "".join(f"&across={facet}" for facet in across)
        links = {BACK[0]: BACK[1], "Report of them": f"/report?{_query(entries)}"}
        if len(runs) > 2 and by == "run":
            links["By configuration"] = f"/compare?{query}&by=configuration"
        if made.data is not None and made.data.startswith(b"{"):
            refused = json.loads(made.data)
            if "refused" in refused:
                return self._refused(request, refused, entries, by)
        return await self._sent(request, made, "Comparing", links)

    def _refused(
        self, request: Request, refused: dict[str, Any], entries: Sequence[Entry], by: str
    ) -> Response:
        reason = self._site.without_place(refused["refused"]["error"])
        complain(request, 422, reason)
        if wants_json(request.url.path):
            document = {**refused["refused"], "error": reason, "differing": refused["differing"]}
            return json_page(document, status=422)
        text = self._pages.render(
            "refused.html", title="Not compared", reason=reason.partition(": if that")[0], by=by,
            ids=[entry.id for entry in entries], differing=list(refused["differing"].items()),
        )  # fmt: skip
        return page(text, status=422)

    async def document(self, request: Request) -> Response:
        """A run's document, as `--json` prints it."""
        entry = await run_in_threadpool(self._site.find, request.path_params["id"])
        if entry.kind != "run" or not entry.readable:
            reason = entry.problem or f"a {entry.kind} has no document"
            reason = (
                "it was never closed: recover it first" if entry.state == "not closed" else reason
            )
            raise InvalidValueError(f"{entry.place}: {self._site.without_place(reason)}")
        made = await self._made("document", [entry], patience=None)
        return await self._sent(request, made, "", {})

    # --- waiting ------------------------------------------------------------------------------

    async def _made(
        self,
        what: str,
        entries: Sequence[Entry],
        *,
        patience: float | None = PATIENCE_S,
        **options: Any,
    ) -> Made:
        """Result of a job, if it comes soon; scripts wait for it however long it takes."""
        made = await run_in_threadpool(self._site.make, what, entries, **options)
        if made.future is None:
            return made
        future = asyncio.wrap_future(made.future)
        waits = None if options.get("as_json") else patience
        done, _ = await asyncio.wait([future], timeout=waits)
        if not done:
            return made
        return await run_in_threadpool(self._site.make, what, entries, **options)

    async def _sent(
        self, request: Request, made: Made, busy: str, links: dict[str, str]
    ) -> Response:
        if made.error:
            raise InvalidValueError(self._site.without_place(made.error))
        if made.data is None:
            lines = ["It is being written; this page shows it as soon as it is there."]
            return message_page(
                self._pages, busy or "Working", lines, status=202, links=[BACK], refresh=AGAIN_S
            )
        if made.data.startswith(b"{"):
            return json_text(made.data)
        content = with_way_back(made.data, links)
        headers = {
            "content-security-policy": report_policy(made.data),
            "referrer-policy": "no-referrer",
        }
        return Response(content, media_type="text/html; charset=utf-8", headers=headers)

    def _chosen(self, request: Request) -> list[Entry]:
        """The entries that a request names.

        Raises:
            InvalidValueError: It names none, or one that is not there.
        """
        ids = _list(request, "run")
        if not ids:
            raise InvalidValueError("no run is chosen: tick some in the list")
        return [self._site.find(id) for id in dict.fromkeys(ids)]


def _list(request: Request, name: str) -> list[str]:
    """A parameter that may be there several times, or once with commas."""
    return [
        part
        for text in request.query_params.getlist(name)
        for part in text.split(COMMA)
        if part
    ]  # fmt: skip


def _query(entries: Sequence[Entry]) -> str:
    return "&".join(f"run={entry.id}" for entry in entries)

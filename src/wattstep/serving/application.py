"""The server as an application: which address is answered by what, and how errors become pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wattstep.errors import RecordingError, WattstepError
from wattstep.serving.answering import Gate, complain, json_page, login, message_page, wants_json
from wattstep.serving.changing import Changing
from wattstep.serving.opening import BACK, Opening
from wattstep.serving.pages import Pages
from wattstep.serving.site import Site
from wattstep.serving.store_view import UnknownEntryError
from wattstep.serving.viewing import Viewing

STATUS: Final[Mapping[type[WattstepError], int]] = {UnknownEntryError: 404, RecordingError: 507}
OF_OURS: Final = 422  # what the user can do something about


def make_application(site: Site) -> Starlette:
    """An ASGI application for a store; it closes the site when it ends."""
    pages = Pages(site.guard)
    viewing, opening, changing = Viewing(site, pages), Opening(site, pages), Changing(site, pages)

    async def log_in(request: Request) -> Response:
        return login(request, site.guard)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        site.close()

    routes = [
        Route("/", viewing.all_runs),
        Route("/login", log_in),
        Route("/changes", viewing.changes),
        Route("/report", opening.several),
        Route("/compare", opening.compare),
        Route("/delete", changing.ask, methods=["GET"]),
        Route("/delete", changing.delete, methods=["POST"]),
        Route("/recover", changing.recover, methods=["POST"]),
        Route("/trash", changing.see_trash),
        Route("/trash/restore", changing.restore, methods=["POST"]),
        Route("/trash/empty", changing.empty, methods=["POST"]),
        Route("/runs/{id}", opening.one),
        Route("/runs/{id}/about", viewing.about),
        Route("/api/runs", viewing.api_runs),
        Route("/api/runs/{id}", opening.document),
        Route("/api/compare", opening.compare),
    ]
    application = Starlette(
        routes=routes,
        middleware=[Middleware(Gate, guard=site.guard, pages=pages)],
        exception_handlers=_handlers(site, pages),  # type: ignore[arg-type]
        lifespan=lifespan,
    )
    application.router.redirect_slashes = False  # an address is right or it is not
    return application


def _handlers(site: Site, pages: Pages) -> dict[object, object]:
    """How errors are told: by a page or a document, and a line on standard error."""

    def tell(request: Request, status: int, reason: str) -> Response:
        reason = site.told(reason)
        complain(request, status, reason)
        if wants_json(request):
            return json_page({"error": reason}, status=status)
        title = HTTPStatus(status).phrase
        return message_page(pages, title, [reason], status=status, links=[BACK])

    async def ours(request: Request, error: Exception) -> Response:
        found = (code for kind, code in STATUS.items() if isinstance(error, kind))
        return tell(request, next(found, OF_OURS), str(error))

    async def of_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        unknown = error.status_code == 404
        reason = "There is nothing at this address." if unknown else error.detail
        return tell(request, error.status_code, reason)

    async def unforeseen(request: Request, error: Exception) -> Response:
        return tell(request, 500, f"{type(error).__name__}: {error}")

    return {WattstepError: ours, HTTPException: of_http, Exception: unforeseen}

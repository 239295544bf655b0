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

from wattstep.errors import ErrorDocument, RecordingError, WattstepError
from wattstep.serve.jobs import BusyError
from wattstep.serve.list_routes import ListRoutes
from wattstep.serve.pages import Pages
from wattstep.serve.report_routes import BACK, ReportRoutes
from wattstep.serve.responses import Gate, complain, json_page, login, message_page, wants_json
from wattstep.serve.site import Site
from wattstep.serve.store_view import UnknownEntryError
from wattstep.serve.write_routes import WriteRoutes

STATUS: Final[Mapping[type[WattstepError], int]] = {
    UnknownEntryError: 404,
    RecordingError: 507,
    BusyError: 503,
}
OF_OURS: Final = 422  # what the user can do something about


def make_application(site: Site) -> Starlette:
    """An ASGI application for a store; it closes the site when it ends."""
    pages = Pages(site.guard)
    list_routes, report_routes, write_routes = (
        ListRoutes(site, pages),
        ReportRoutes(site, pages),
        WriteRoutes(site, pages),
    )

    async def log_in(request: Request) -> Response:
        return login(request, site.guard)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        site.close()

    routes = [
        Route("/", list_routes.all_runs),
        Route("/login", log_in),
        Route("/changes", list_routes.changes),
        Route("/report", report_routes.several),
        Route("/compare", report_routes.compare),
        Route("/delete", write_routes.ask, methods=["GET"]),
        Route("/delete", write_routes.delete, methods=["POST"]),
        Route("/recover", write_routes.recover, methods=["POST"]),
        Route("/trash", write_routes.see_trash),
        Route("/trash/restore", write_routes.restore, methods=["POST"]),
        Route("/trash/empty", write_routes.empty, methods=["POST"]),
        Route("/runs/{id}", report_routes.one),
        Route("/runs/{id}/about", list_routes.about),
        Route("/api/runs", list_routes.api_runs),
        Route("/api/runs/{id}", report_routes.document),
        Route("/api/compare", report_routes.compare),
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
    """Error handlers: a page or a document, and a line on standard error."""

    def tell(
        request: Request, status: int, reason: str, of_ours: ErrorDocument | None = None
    ) -> Response:
        reason = site.without_place(reason)
        complain(request, status, reason)
        if wants_json(request.url.path):
            return json_page({**(of_ours or {}), "error": reason}, status=status)
        title = HTTPStatus(status).phrase
        return message_page(pages, title, [reason], status=status, links=[BACK])

    async def ours(request: Request, error: Exception) -> Response:
        codes = (code for kind, code in STATUS.items() if isinstance(error, kind))
        assert isinstance(error, WattstepError)
        return tell(request, next(codes, OF_OURS), str(error), error.document())

    async def of_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        unknown = error.status_code == 404
        reason = "There is nothing at this address." if unknown else error.detail
        return tell(request, error.status_code, reason)

    async def unforeseen(request: Request, error: Exception) -> Response:
        return tell(request, 500, f"{type(error).__name__}: {error}")

    return {WattstepError: ours, HTTPException: of_http, Exception: unforeseen}

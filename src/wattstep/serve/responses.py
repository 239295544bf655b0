"""Common parts of responses: headers that keep a browser strict, pages for errors, bodies of bounded size."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wattstep.report.json_document import dump
from wattstep.serve.auth import COOKIE, LARGEST_ADDRESS, LARGEST_BODY, Guard
from wattstep.serve.pages import Pages

FORM: Final = "application/x-www-form-urlencoded"
BODY_S: Final = 10.0  # for the body of a form to arrive
_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    # With no-referrer a browser would hide from us which page a form comes from.
    "referrer-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


class Gate:
    """Lets in what the guard does not refuse, and sends strict headers with every answer.

    Args:
        app: Application that answers then.
        guard: Who may ask.
        pages: For refusals.
    """

    def __init__(self, app: ASGIApp, guard: Guard, pages: Pages) -> None:
        self._app = app
        self._guard = guard
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        answer = self._refusal(scope, headers)

        async def strict(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    sent.setdefault(name, value)
                sent.setdefault("content-security-policy", self._pages.policy)
            await send(message)

        await (answer or self._app)(scope, receive, strict)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        def refused(status: int, reason: str) -> Response:
            if wants_json(scope["path"]):
                return json_page({"error": reason}, status=status)
            return message_page(self._pages, "Not answered", [reason], status=status)

        if len(headers.getlist("host")) != 1:
            return refused(400, "A request has one Host header.")
        if (refusal := self._guard.refuse(scope["method"], headers)) is not None:
            return refused(refusal.status, refusal.reason)
        if len(scope["path"]) + len(scope["query_string"]) > LARGEST_ADDRESS:
            return refused(414, "That address is longer than any here.")
        if int(headers.get("content-length", "0") or 0) > LARGEST_BODY:
            return refused(413, "That is more than any form here holds.")
        if scope["path"] == "/login" or self._guard.logged_in(headers):
            return None
        return refused(401, "Open the link that `wattstep serve` printed: it lets you in.")


def message_page(
    pages: Pages,
    title: str,
    lines: Sequence[str],
    *,
    status: int,
    links: Sequence[tuple[str, str]] = (),
    refresh: int = 0,
) -> Response:
    """A page of a few sentences.

    Args:
        pages: Renders it.
        title: Its heading.
        lines: The sentences.
        status: Of HTTP.
        links: Texts and addresses of links to go on with.
        refresh: Seconds after which the browser asks again; 0: never.
    """
    text = pages.render(
        "message.html", title=title, lines=lines, links=links, refresh=refresh, busy=bool(refresh)
    )
    return page(text, status=status)


def page(text: str, *, status: int = 200) -> Response:
    """HTML; names may hold halves of surrogate pairs, which UTF-8 cannot."""
    content = text.encode("utf-8", errors="replace")
    answer = HTMLResponse(content, status_code=status)
    answer.headers["cross-origin-opener-policy"] = "same-origin"
    return answer


def json_page(document: Any, *, status: int = 200) -> Response:
    """JSON response, as `--json` prints it."""
    stream = io.StringIO()
    dump(document, stream)
    return json_text(stream.getvalue().encode("ascii"), status=status)


def json_text(data: bytes, *, status: int = 200) -> Response:
    """The text of a JSON document."""
    return Response(data, status_code=status, media_type="application/json")


def wants_json(path: str) -> bool:
    """True if errors at an address are told as JSON."""
    return path.startswith("/api/") or path == "/changes"


async def form_of(request: Request, guard: Guard) -> dict[str, list[str]]:
    """The fields of a form of ours, or of a script that has its token.

    Raises:
        HTTPException: It is too large or too slow, is no form, or lacks the token.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise HTTPException(415, f"Changes are asked for as {FORM}.")
    try:
        data = await asyncio.wait_for(_body(request), BODY_S)
        fields = parse_qs(data.decode("ascii"), keep_blank_values=True, max_num_fields=5000)
    except asyncio.TimeoutError as error:
        raise HTTPException(408, "The form did not arrive.") from error
    except ClientDisconnect as error:
        raise HTTPException(400, "The form ended before its end.") from error
    except ValueError as error:
        raise HTTPException(400, "The form is garbled.") from error
    token = request.headers.get("x-wattstep-token") or _last(fields, "token")
    if not guard.is_token(token):
        raise HTTPException(
            403, "The page that asked for this is of an earlier start of the server: load it again."
        )
    return fields


async def _body(request: Request) -> bytes:
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > LARGEST_BODY:
            raise HTTPException(413, "That is more than any form here holds.")
    return data


def _last(fields: Mapping[str, list[str]], name: str) -> str:
    return fields.get(name, [""])[-1]


def login(request: Request, guard: Guard) -> Response:
    """Takes the secret of the login link, and keeps it in a cookie that no script sees.

    Raises:
        HTTPException: It is another one.
    """
    if not guard.is_secret(request.query_params.get("key", "")):
        raise HTTPException(401, "This link is of an earlier start of the server.")
    answer = RedirectResponse("/", status_code=303)
    # Lax: a report has an origin of its own, and its link back to the list must not log out.
    answer.set_cookie(
        COOKIE, guard.secret, httponly=True, samesite="lax", path="/", secure=guard.encrypted
    )
    return answer


def complain(request: Request, status: int, reason: str) -> None:
    """Prints a line on standard error."""
    where = json.dumps(request.url.path)[:200]
    print(f"wattstep: {request.method} {where}: {status}: {reason}", file=sys.stderr, flush=True)

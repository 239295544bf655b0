"""Starts the server on a socket of its own, says where it is, and ends it at Ctrl-C."""

from __future__ import annotations

import errno
import logging
import socket
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import uvicorn

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.serve.application import make_application
from wattstep.serve.auth import Guard, is_loopback
from wattstep.serve.cache import Cache
from wattstep.serve.connections import MOST_AT_ONCE, MOST_SILENT, BoundedConnection
from wattstep.serve.site import Site

LARGEST_HEAD: Final = 64 * 1024  # bytes of address and headers
ENDS_S: Final = 2  # for requests that are under way


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """Certificate of a server, and its private key.

    Attributes:
        chain: File in PEM: the certificate, and those that it is signed with.
        key: File of the key in PEM; None: it is in the first.
    """

    chain: Path
    key: Path | None = None

    def check(self) -> None:
        """Refuses what no server can use, before it starts.

        Raises:
            InvalidValueError: A file is not there, or is none, or they do not belong together, or the
                key asks for a password.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.chain, self.key, password=lambda: "")
        except OSError as error:  # those of ssl, too
            reason = error.strerror if not isinstance(error, ssl.SSLError) else error.reason
            raise InvalidValueError(
                f"--certificate {self.chain}{f' --key {self.key}' if self.key else ''}: certificate and "
                f"key in PEM, without a password, are wanted ({reason or error})",
                id="unusable-certificate",
            ) from error


@dataclass(frozen=True, kw_only=True)
class Served:
    """Address and login of a running server.

    Attributes:
        url: Address that a browser opens; with the secret of this start where one is asked for.
        host: The address that it listens on.
        port: Its port.
        store: The folder.
        login: True if the secret is asked for.
    """

    url: str
    host: str
    port: int
    store: str
    login: bool


def serve(
    folder: Path,
    host: str,
    port: int,
    *,
    login: bool,
    ready: Callable[[Served], None],
    cache: Cache | None = None,
    certificate: Certificate | None = None,
) -> None:
    """Serves a store until Ctrl-C or SIGTERM.

    Args:
        folder: The store.
        host: Address or name to listen on.
        port: Port; 0 for one that is free.
        login: True if a secret is asked for on loopback, too; elsewhere it always is.
        ready: Told once the server accepts connections.
        cache: Where pages are kept; None: in the user's cache folder.
        certificate: The server speaks TLS with it; None: plain HTTP.

    Raises:
        InvalidValueError: There is no such folder, or no such address, or the certificate cannot be
            used.
        RecordingError: The port is taken.
    """
    if certificate is not None:
        certificate.check()
    encrypted = certificate is not None
    guard = Guard(host=host, login=login or not is_loopback(host), encrypted=encrypted)
    site = Site(folder, guard, cache)
    try:
        listening = _listening(host, port)
    except BaseException:
        site.close()
        raise
    with listening:
        _errors_in_one_line()
        server = _Server(_config(site, certificate), lambda: ready(_served(site, listening)))
        server.run(sockets=[listening])


class _Server(uvicorn.Server):
    """Tells when it accepts connections."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's own."""
        await super().startup(sockets)
        if self.started:
            self._ready()


def _config(site: Site, certificate: Certificate | None) -> uvicorn.Config:
    return uvicorn.Config(
        make_application(site),
        http=BoundedConnection,
        ssl_certfile=None if certificate is None else certificate.chain,
        ssl_keyfile=None if certificate is None else certificate.key,
        ws="none",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_AT_ONCE + MOST_SILENT,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=ENDS_S,
    )


def _listening(host: str, port: int) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OverflowError as error:
        raise InvalidValueError(f"--port {port}: from 0 to 65535") from error
    except socket.gaierror as error:
        raise InvalidValueError(f"--host {host}: {error.strerror}") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise RecordingError(
                f"port {port} is taken: give another with --port, or --port 0 for a free one",
                id="port-taken",
            ) from error
        raise InvalidValueError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listening


def _served(site: Site, listening: socket.socket) -> Served:
    guard = site.guard
    port = int(listening.getsockname()[1])
    name = guard.host
    if name in ("", "0.0.0.0", "::"):
        name = socket.gethostname()
    shown = f"[{name}]" if ":" in name else name
    path = f"login?key={quote(guard.secret)}" if guard.login else ""
    return Served(
        url=f"{guard.scheme}://{shown}:{port}/{path}", host=guard.host, port=port,
        store=str(site.store.root), login=guard.login,
    )  # fmt: skip


class _OneLine(logging.Handler):
    """Prints complaints of the library: a line each, and no more of it."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        words = f"{type(error).__name__}: {error}" if error else record.getMessage()
        print(f"wattstep: server: {words}"[:500].replace("\n", " "), file=sys.stderr, flush=True)


def _errors_in_one_line() -> None:
    logger = logging.getLogger("uvicorn.error")
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.handlers = [_OneLine()]

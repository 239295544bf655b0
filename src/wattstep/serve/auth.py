"""Access control: the owner's browser, by an address of this server, and for changes only from its own pages."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import urlsplit

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
COOKIE: Final = "wattstep"
LARGEST_ADDRESS: Final = 48 * 1024  # characters; two thousand runs have 42,000
LARGEST_BODY: Final = 256 * 1024  # bytes; a form with two thousand runs has 106 kB


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Reason why a request is not answered: the status code of HTTP and a sentence."""

    status: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Checks of requests: host name, origin, secret and token.

    Attributes:
        host: The address that the server listens on, as the user gave it.
        login: True if every request must show the secret of the login link.
        token: Goes into the forms of our pages, so that only they can change anything; new with
            each start.
        secret: Of the login link; new with each start.
        encrypted: True if it speaks TLS.
    """

    host: str
    login: bool
    encrypted: bool = False
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def scheme(self) -> str:
        """Of its addresses."""
        return "https" if self.encrypted else "http"

    def refuse(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        """Reason why a request with these headers is refused before it is looked at; None: it is not."""
        host = headers.get("host", "")
        if not self.knows(host):
            return Refusal(
                status=403, reason="This server does not answer to that name (header Host)."
            )
        site, mode = headers.get("sec-fetch-site", ""), headers.get("sec-fetch-mode", "")
        writes = method not in ("GET", "HEAD")
        if writes and not self._from_us(headers, host):
            return Refusal(status=403, reason="Changes are taken from pages of this server only.")
        if not writes and site in ("cross-site", "same-site") and mode != "navigate":
            return Refusal(status=403, reason="Pages of others may not read from this server.")
        return None

    def knows(self, host: str) -> bool:
        """True if a Host header names this server.

        An address of digits cannot be rebound to another server; a name can, so that only our own
        names count.
        """
        name = host_name(host)
        if name is None:
            return False
        if name in LOOPBACK or name == self.host.lower():
            return True
        if is_loopback(self.host):
            return False
        return name in _own_names() or (_is_wildcard(self.host) and _is_address(name))

    def _from_us(self, headers: Mapping[str, str], host: str) -> bool:
        """True if the browser does not say that another server's page sends this."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and origin.lower() != f"{self.scheme}://{host.lower()}":
            return False
        return site is None or site == "same-origin"

    def is_token(self, given: str) -> bool:
        """True if this is the token of our forms."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def is_secret(self, given: str) -> bool:
        """True if this is the secret of the login link."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.secret.encode())

    def logged_in(self, headers: Mapping[str, str]) -> bool:
        """True if a request shows the secret, by the cookie or as `Authorization: Bearer`, or none is asked for."""
        if not self.login:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.is_secret(given.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and self.is_secret(cookie.value)


def host_name(host: str) -> str | None:
    """The name in a Host header, in small letters and without port; None where it is garbled."""
    if not host or not host.isascii() or any(char in host for char in "@/\\?#, \t"):
        return None
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    behind = parts.netloc.rpartition("]")[2] if "]" in host else ""
    if behind and not behind.startswith(":"):  # "[::1]evil.example", which urlsplit cuts
        return None
    return parts.hostname.lower() if parts.hostname else None


def is_loopback(host: str) -> bool:
    """True if only this machine reaches a server that listens there."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_wildcard(host: str) -> bool:
    return host in ("", "0.0.0.0", "::")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _own_names() -> frozenset[str]:
    name = socket.gethostname().lower()
    return frozenset({name, f"{name}.local", name.partition(".")[0]})

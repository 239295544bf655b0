"""A real server in a process of its own, a store for it, and a client that may ask anything."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.comparison.made import recorded

STARTS_S = 120.0  # on a crowded machine
FORM = "application/x-www-form-urlencoded"
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\u202egnp'


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(kw_only=True)
class Server:
    """A server that runs.

    Attributes:
        url: As it was printed.
        store: Its folder.
        child: The process.
        errors: The file that it writes its standard error to.
    """

    url: str
    store: Path
    child: subprocess.Popen[str]
    errors: Path
    host: str = field(init=False)
    port: int = field(init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        assert parts.port is not None
        self.host, self.port = "127.0.0.1", parts.port

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str | None] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """One request; a header that is None is left out."""
        given = {"Host": f"127.0.0.1:{self.port}", **(headers or {})}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=STARTS_S)
        try:
            # As it stands: http.client would refuse a path with a control character.
            connection._validate_path = lambda _: None  # type: ignore[attr-defined]
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            if body is not None and "Content-Length" not in given:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(status=answer.status, headers=found, body=answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers)

    def post(
        self,
        path: str,
        fields: Mapping[str, Any],
        *,
        token: str | None = None,
        **headers: str | None,
    ) -> Answer:
        """A form, as a browser sends it from a page of the server."""
        fields = {"token": self.token if token is None else token, **fields}
        sent = {"Content-Type": FORM, "Origin": self.origin, "Sec-Fetch-Site": "same-origin"}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", path, {**sent, **named}, urlencode(fields, doseq=True).encode())

    @property
    def token(self) -> str:
        """That of its forms."""
        found = re.search(
            r'name="token" value="([^"]+)"', self.get(f"/delete?run={self.some}").text
        )
        assert found
        return found.group(1)

    @property
    def some(self) -> str:
        """The id of a run that may be asked about."""
        closed = [run for run in self.runs().values() if run["state"] == "closed"]
        return str(closed[0]["id"])

    def runs(self) -> dict[str, dict[str, Any]]:
        """The runs by their place."""
        return {run["run"]: run for run in self.get("/api/runs").json()["runs"]}

    def look(self) -> None:
        """Has the server look at the disk, whenever it last did."""
        self.get(f"/delete?run={'0' * 16}")

    def id(self, place: str) -> str:
        return str(self.runs()[place]["id"])

    def asked(self, place: str) -> dict[str, Any]:
        """The fields of the form that asks whether to delete a run."""
        id = self.id(place)
        found = re.search(r'name="seen" value="([^"]+)"', self.get(f"/delete?run={id}").text)
        assert found, place
        return {"run": id, "seen": found.group(1), "confirm": "yes", "how": "trash"}

    def open(self, path: str) -> Answer:
        """A page that may take a while: asked for again as long as it says that it is written."""
        until = time.monotonic() + STARTS_S
        while (answer := self.get(path)).status == 202 and time.monotonic() < until:
            time.sleep(0.1)
        return answer


@contextmanager
def serving(store: Path, folder: Path, *options: str) -> Iterator[Server]:
    """A server of a store; what it keeps and says goes to a folder."""
    errors = folder / "errors.txt"
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    with errors.open("w") as stream:
        child = subprocess.Popen(
            [sys.executable, "-m", "wattstep", "serve", str(store), "--port", "0", "--json", *options],
            stdout=subprocess.PIPE, stderr=stream, text=True, env=environment,
        )  # fmt: skip
    try:
        yield Server(url=_started(child, errors)["url"], store=store, child=child, errors=errors)
    finally:
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=STARTS_S)


def _started(child: subprocess.Popen[str], errors: Path) -> dict[str, Any]:
    assert child.stdout is not None
    lines = ""
    while line := child.stdout.readline():
        lines += line
        if line == "}\n":
            return dict(json.loads(lines))
    raise AssertionError(errors.read_text())


def make_store(root: Path) -> Path:
    """Runs of all kinds: two that compare, one whose names are HTML, and several that are damaged."""
    root.mkdir()
    recorded(root / "quick-run", created="2026-11-20T12:00:00+0000")
    recorded(root / "slow", slower=1.5, created="2026-11-21T12:00:00+0000")
    recorded(root / "sixteen", batch_size=16, created="2026-11-22T12:00:00+0000")
    recorded(root / "nested" / "inside")
    recorded(
        root / "<script>window.hacked=1<", title=HOSTILE, workload="w" * 10_000, engine=HOSTILE,
        device={"model": HOSTILE, "cores": 4},
    )  # fmt: skip
    cut = recorded(root / "cut")
    (cut / "run.json").write_bytes((cut / "run.json").read_bytes()[:100])
    half = recorded(root / "half")
    (half / "samples.parquet").write_bytes((half / "samples.parquet").read_bytes()[:500])
    (recorded(root / "lacking") / "steps.parquet").unlink()
    return root

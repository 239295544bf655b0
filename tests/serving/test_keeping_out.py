"""Nobody is kept out by connections that say nothing, nor by more work than can be done."""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.comparison.made import recorded
from tests.refusals import id_in
from tests.serving.served import STARTS_S, Server, serving
from tests.wording import assert_says

from wattstep.serve import connections
from wattstep.serve.auth import Guard
from wattstep.serve.connections import MOST_SILENT, MOST_STALLED, BoundedConnection
from wattstep.serve.jobs import BusyError, JobQueue, Worker
from wattstep.serve.task import Task

HEAD = b" HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
BODY = HEAD + b"1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\n"


def half_sent(server: Server, request: bytes) -> socket.socket:
    """A connection whose request does not end."""
    open_one = socket.create_connection((server.host, server.port))
    open_one.sendall(request)
    return open_one


@pytest.mark.parametrize("request_", [b"GET /" + HEAD, b"POST /login" + BODY, b"GET /" + BODY])
def test_a_hundred_half_sent_requests_keep_nobody_out(server: Server, request_: bytes) -> None:
    with ExitStack() as held:
        waiting = [held.enter_context(half_sent(server, request_)) for _ in range(100)]
        assert server.get("/api/runs").status == 200
        for each in waiting:
            each.settimeout(5)
        gone = 0
        for each in waiting[: 100 - 2 * MOST_SILENT]:  # the oldest
            try:
                gone += each.recv(1) in (b"", b"H")  # or answered before its body came
            except ConnectionError:
                gone += 1
        assert gone == 100 - 2 * MOST_SILENT
        assert server.get("/api/runs").status == 200


class Transport(asyncio.Transport):
    """A transport of nobody, which knows whether it was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = False
        self.sent = b""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def abort(self) -> None:
        self.ended = True

    close = abort

    def is_closing(self) -> bool:
        return self.ended

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def connection(
    loop: asyncio.AbstractEventLoop, state: Any = None
) -> tuple[BoundedConnection, Transport]:
    """One of a server whose pages are empty; of a server of its own, but for a state."""
    import uvicorn
    from uvicorn.server import ServerState

    async def page(scope: Any, receive: Any, send: Any) -> None:
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
        )
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(page, http=BoundedConnection, log_config=None)
    config.load()
    made = BoundedConnection(config, state or ServerState(), {}, loop)
    transport = Transport()
    made.connection_made(transport)
    return made, transport


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.01)
    monkeypatch.setattr(connections, "STALLED_S", 0.01)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGE",
    ],
)
def test_a_connection_whose_next_request_does_not_come_is_ended(sent: bytes) -> None:
    async def one() -> bool:
        made, transport = connection(asyncio.get_running_loop())
        if sent:  # nothing would be the end
            made.data_received(sent)
        for _ in range(200):
            await asyncio.sleep(0.01)
            if transport.ended:
                break
        return transport.ended

    assert asyncio.run(one())


@pytest.mark.usefixtures("soon")
def test_a_reader_that_takes_nothing_is_ended_and_one_that_reads_on_is_not() -> None:
    async def one(*, reads_on: bool) -> bool:
        made, transport = connection(asyncio.get_running_loop())
        made._end_waiting()
        made.pause_writing()
        if reads_on:
            made.resume_writing()
        await asyncio.sleep(0.1)
        return transport.ended

    assert asyncio.run(one(reads_on=False))
    assert not asyncio.run(one(reads_on=True))


def test_the_oldest_of_many_readers_that_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    from uvicorn.server import ServerState

    async def stalled() -> list[bool]:
        state, loop = ServerState(), asyncio.get_running_loop()
        readers = [connection(loop, state) for _ in range(MOST_STALLED + 5)]
        for made, _ in readers[1:]:  # the first takes its answer
            made.pause_writing()
        ended = [transport.ended for _, transport in readers]
        for made, _ in readers:
            made.connection_lost(None)
        return ended

    monkeypatch.setattr(connections, "MOST_SILENT", 100)
    assert asyncio.run(stalled()) == [False, *[True] * 4, *[False] * MOST_STALLED]


def test_more_work_than_it_takes_on_is_refused_and_equal_work_is_not() -> None:
    queue = JobQueue(1, most=2)
    hold, begun = threading.Event(), threading.Event()

    def do(task: Task) -> Any:
        begun.set()
        hold.wait(STARTS_S)
        raise OSError("over")

    queue._free[0].do = do  # type: ignore[method-assign]
    try:
        first = queue.ask("a", Task(task="figures", paths=[]))
        begun.wait(STARTS_S)
        queue.ask("b", Task(task="figures", paths=[]))
        assert queue.ask("a", Task(task="figures", paths=[])) is first
        with pytest.raises(BusyError, match="2 pages"):
            queue.ask("c", Task(task="figures", paths=[]))
    finally:
        hold.set()
        queue.close()


def test_work_that_does_not_end_is_ended_and_told(tmp_path: Path) -> None:
    worker = Worker(most_s=0.01)  # no interpreter starts in that
    try:
        error = worker.do(Task(task="figures", paths=[str(tmp_path)])).error
    finally:
        worker.kill()
        worker.end()
    assert_says(error, "0.01 s")


# --- encryption ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 and its key, that nobody signed."""
    x509 = pytest.importorskip("cryptography.x509", reason="cryptography is not installed")
    import ipaddress

    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    folder = tmp_path_factory.mktemp("pem")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory, pem: tuple[Path, Path]) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("encrypted")
    recorded(folder / "runs" / "one")
    options = ("--certificate", str(pem[0]), "--key", str(pem[1]), "--login")
    with serving(folder / "runs", folder, *options) as started:
        yield started


def asked(server: Server, request: bytes, certificate: Path) -> bytes:
    """Answer to a request over TLS by somebody who knows the certificate."""
    context = ssl.create_default_context(cafile=str(certificate))
    with (
        socket.create_connection((server.host, server.port), timeout=STARTS_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as stream,
    ):
        stream.sendall(request)
        answer = b""
        while piece := stream.recv(65536):
            answer += piece
    return answer


def test_with_a_certificate_it_speaks_tls_alone(encrypted: Server, pem: tuple[Path, Path]) -> None:
    assert encrypted.url.startswith("https://127.0.0.1:")
    key = encrypted.url.rpartition("=")[2]
    host = f"Host: 127.0.0.1:{encrypted.port}\r\nConnection: close\r\n\r\n".encode()
    let_in = asked(encrypted, f"GET /login?key={key} HTTP/1.1\r\n".encode() + host, pem[0])
    assert b" 303 " in let_in.splitlines()[0]
    cookie = next(line for line in let_in.splitlines() if line.lower().startswith(b"set-cookie:"))
    assert b"Secure" in cookie
    shown = asked(
        encrypted,
        f"GET /api/runs HTTP/1.1\r\nAuthorization: Bearer {key}\r\n".encode() + host,
        pem[0],
    )
    assert b" 200 " in shown.splitlines()[0]
    with socket.create_connection((encrypted.host, encrypted.port), timeout=STARTS_S) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n" + host)
        with suppress(ConnectionError):
            assert b"200" not in plain.recv(100)


def test_pages_of_an_encrypted_server_are_its_own_by_https_alone() -> None:
    guard = Guard(host="127.0.0.1", login=False, encrypted=True)
    headers = {"host": "127.0.0.1:1", "sec-fetch-site": "same-origin"}
    assert guard.refuse("POST", {**headers, "origin": "https://127.0.0.1:1"}) is None
    assert guard.refuse("POST", {**headers, "origin": "http://127.0.0.1:1"}) is not None


@pytest.mark.parametrize("wrong", ["nothing", "text", "no key", "another's key"])
def test_a_certificate_that_cannot_be_used_is_one_line(
    tmp_path: Path, pem: tuple[Path, Path], wrong: str
) -> None:
    (tmp_path / "text").write_text("no certificate")
    given = {
        "nothing": ("--certificate", str(tmp_path / "gone")),
        "text": ("--certificate", str(tmp_path / "text")),
        "no key": ("--certificate", str(pem[0])),
        "another's key": ("--certificate", str(pem[0]), "--key", str(tmp_path / "text")),
    }[wrong]
    ended = subprocess.run(
        [sys.executable, "-m", "wattstep", "serve", str(tmp_path), "--port", "0", "--json", *given],
        capture_output=True, text=True, timeout=STARTS_S,
    )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert id_in(ended.stdout) == "unusable-certificate"


def test_a_key_without_its_certificate_is_refused(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "wattstep", "serve", str(tmp_path), "--json", "--key", "k.pem"],
        capture_output=True, text=True, timeout=STARTS_S,
    )  # fmt: skip
    assert id_in(ended.stdout) == "key-alone"

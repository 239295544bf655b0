"""Who is answered: hosts, origins, tokens, and what is too large; asked of a real server."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from tests.serving.served import FORM, Server, make_store, serving

from wattstep.serve.auth import Guard, host_name


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "localhost.evil.example",
        "localhost@evil.example",
        "192.168.1.5:{port}",
        "0.0.0.0:{port}",
        "[::ffff:7f00:1]:{port}",
        "[::1]evil.example",
        "127.0.0.1:port",
        "LOCALHOST.",
        "",
    ],
)
def test_a_host_that_is_not_ours_gets_nothing(server: Server, host: str) -> None:
    answer = server.ask("GET", "/", {"Host": host.format(port=server.port)})
    assert answer.status == 403
    assert b"quick-run" not in answer.body


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/api/runs", {"Host": "evil.example"}, 403),
        ("GET", "/changes", {"Host": "evil.example"}, 403),
        ("GET", "/api/runs?" + "x" * 100_000, {}, 414),
        ("POST", "/api/runs", {"Content-Length": str(10**9), "X-Wattstep-Token": "{token}"}, 413),
    ],
)
def test_refusals_of_scripts_are_documents(
    server: Server, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    given = {name: value.format(token=server.token) for name, value in headers.items()}
    answer = server.ask(method, path, given)
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    assert answer.json().keys() == {"error"}


@pytest.mark.parametrize(
    "host", ["localhost:{port}", "127.0.0.1", "[::1]:{port}", "LocalHost:9000"]
)
def test_loopback_answers_to_its_names_with_any_port(server: Server, host: str) -> None:
    # Another port is what a browser sends through a tunnel (ssh -L).
    assert server.ask("GET", "/", {"Host": host.format(port=server.port)}).status == 200


def test_a_request_without_a_host_or_with_two_is_refused(server: Server) -> None:
    for hosts in ("", "Host: 127.0.0.1\r\nHost: evil.example\r\n"):
        with socket.create_connection((server.host, server.port)) as raw:
            raw.sendall(f"GET / HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n".encode())
            assert raw.recv(4096).startswith(b"HTTP/1.1 400")


WRITES = ["/delete", "/recover", "/trash/restore", "/trash/empty"]


@pytest.mark.parametrize("path", WRITES)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost:{port}"},  # a page of localhost is another origin
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_changes_from_another_page_are_refused_even_with_the_token(
    server: Server, path: str, headers: dict[str, str]
) -> None:
    named = {k.replace("-", "_"): v.format(port=server.port) for k, v in headers.items()}
    assert server.post(path, {"confirm": "yes"}, **named).status == 403


@pytest.mark.parametrize("path", WRITES)
@pytest.mark.parametrize("token", ["", "x", "é" * 40, "0" * 10_000])
def test_changes_without_the_token_are_refused(server: Server, path: str, token: str) -> None:
    answer = server.post(path, {"run": server.some, "confirm": "yes"}, token=token)
    assert answer.status == 403
    assert "quick-run" in server.runs()


@pytest.mark.parametrize("path", WRITES)
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_change_nothing(server: Server, path: str, method: str) -> None:
    assert server.ask(method, path, {"Origin": server.origin}).status in (403, 405)


@pytest.mark.parametrize("path", WRITES[1:])
def test_what_changes_something_is_no_page_to_get(server: Server, path: str) -> None:
    assert server.get(f"{path}?run={server.some}&confirm=yes").status == 405


def test_asking_to_delete_deletes_nothing(server: Server) -> None:
    before = server.runs().keys()
    answer = server.get(f"/delete?run={server.some}&confirm=yes&token={server.token}")
    assert answer.status == 200
    assert server.runs().keys() == before


def test_a_script_that_has_the_token_may_change_something_without_an_origin(server: Server) -> None:
    answer = server.ask(
        "POST", "/trash/restore", {"Content-Type": FORM, "X-Wattstep-Token": server.token}, b"id=none"
    )  # fmt: skip
    assert answer.status == 404  # it was let in, and there is no such thing


def test_pages_of_others_may_not_load_parts_of_this_one(server: Server) -> None:
    cross = {"Sec_Fetch_Site": "cross-site"}
    named = {key.replace("_", "-"): value for key, value in cross.items()}
    assert server.ask("GET", "/api/runs", {**named, "Sec-Fetch-Mode": "no-cors"}).status == 403
    assert server.ask("GET", "/", {**named, "Sec-Fetch-Mode": "navigate"}).status == 200


def test_bodies_are_bounded(server: Server) -> None:
    headers = {"Content-Type": FORM, "Origin": server.origin}
    declared = server.ask("POST", "/delete", {**headers, "Content-Length": str(10**9)})
    assert declared.status == 413
    with socket.create_connection((server.host, server.port)) as raw:
        head = f"Host: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\nContent-Type: {FORM}\r\n"
        raw.sendall(f"POST /delete HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"4000\r\n" + b"a" * 0x4000 + b"\r\n"
        received = threading.Thread(target=raw.sendall, args=(chunk * 20,))
        received.start()
        assert raw.recv(4096).startswith(b"HTTP/1.1 413")
        received.join()


def test_an_address_that_is_too_long_is_refused(server: Server) -> None:
    assert server.get("/runs/" + "a" * 60_000).status == 414


def test_a_body_that_is_no_form_is_refused(server: Server) -> None:
    for kind, body, status in (
        ("application/json", b"{}", 415),
        ("text/plain", b"token=x", 415),
        (FORM, b"\xff\xfe", 400),
        (FORM, b"a=1&" * 6000, 400),
    ):
        headers = {"Content-Type": kind, "Origin": server.origin}
        assert server.ask("POST", "/delete", headers, body).status == status


@pytest.mark.parametrize("path", ["/", "/nothing", "/api/runs", "/api/runs/nothing", "/trash"])
def test_every_answer_keeps_the_browser_strict(server: Server, path: str) -> None:
    headers = server.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    scripts = next(part for part in policy.split(";") if "script-src" in part)
    assert "unsafe" not in scripts
    assert "access-control-allow-origin" not in headers


def test_beyond_loopback_nothing_is_shown_without_the_secret(tmp_path: Path) -> None:
    with serving(make_store(tmp_path / "runs"), tmp_path, "--host", "0.0.0.0") as server:
        assert "warning" in server.errors.read_text()
        assert "key=" in server.url
        for path in ("/", "/api/runs", "/trash", "/login", "/login?key=wrong"):
            answer = server.get(path)
            assert answer.status == 401
            assert b"quick-run" not in answer.body
        secret = server.url.partition("key=")[2]
        link = server.get(f"/login?key={secret}")
        assert link.status == 303
        assert link.headers["location"] == "/"  # the secret leaves the address
        cookie = link.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=lax" in cookie.lower()
        assert server.get("/", Cookie=cookie.partition(";")[0]).status == 200
        assert server.get("/api/runs", Authorization=f"Bearer {secret}").status == 200
        assert server.get("/api/runs", Cookie="wattstep=wrong").status == 401
        evil = server.ask("GET", "/", {"Host": "evil.example", "Cookie": cookie.partition(";")[0]})
        assert evil.status == 403
        assert server.errors.read_text().count(secret) == 0


def test_login_asks_for_the_secret_on_loopback_too(tmp_path: Path) -> None:
    with serving(make_store(tmp_path / "runs"), tmp_path, "--login") as server:
        assert server.get("/").status == 401
        assert server.get(server.url.removeprefix(server.origin)).status == 303


def test_names_of_an_address_are_ours_only_where_we_listen_on_it() -> None:
    own = socket.gethostname()
    assert not Guard(host="127.0.0.1", login=False).knows(own)
    assert Guard(host="0.0.0.0", login=True).knows(f"{own}:80")
    assert Guard(host="0.0.0.0", login=True).knows("192.168.1.5:80")  # digits are never rebound
    assert Guard(host="board.lan", login=True).knows("BOARD.lan:80")
    assert not Guard(host="board.lan", login=True).knows("192.168.1.5")


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("[::1]:80", "::1"),
        ("a:b", None),
        ("a/b", None),
        ("[::1", None),
        ("[::1]b", None),
        ("a b", None),
        ("ä", None),
    ],
)
def test_a_host_header_is_read_strictly(host: str, name: str | None) -> None:
    assert host_name(host) == name

"""The connection, against a real OpenSSH server on loopback."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.fleet.remote.server import LONG_S, MISSING, WHY_NOT, Server, children, serving
from tests.refusals import refused
from tests.waiting import gone, until
from tests.wording import assert_says

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.remote.ssh import ConnectionLostError
from wattstep.remote.ssh.socket_folder import PREFIX, make_socket_folder
from wattstep.remote.ssh.ssh import Address, SshConnection, refusal
from wattstep.store.held import remove_abandoned

pytestmark = pytest.mark.skipif(bool(MISSING), reason=WHY_NOT)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("board")) as board:
        yield board


@pytest.fixture(scope="module")  # made again by itself where a test cuts it
def connection(server: Server) -> Iterator[SshConnection]:
    opened = server.connect()
    yield opened
    opened.close()


def test_a_command_ends_with_its_output_its_errors_and_its_code(connection: SshConnection) -> None:
    finished = connection.run("cat; echo wrong >&2; exit 3", stdin=b"\0binary\xff\n")
    assert (finished.code, finished.output) == (3, b"\0binary\xff\n")
    assert finished.last_error == "wrong"


def test_quotes_and_lines_reach_the_shell_there_as_they_are(connection: SshConnection) -> None:
    command = "printf %s \"it's $((1 + 1))\"\nprintf %s ' and $HOME'"
    assert connection.run(command).output == b"it's 2 and $HOME"


def test_a_command_that_ends_as_ssh_does_is_not_taken_for_a_lost_connection(
    connection: SshConnection,
) -> None:
    assert connection.run("exit 255").code == 254


def test_files_go_there_and_come_back_as_they_were(
    connection: SshConnection, server: Server, tmp_path: Path
) -> None:
    content = bytes(range(256)) * 1000
    (tmp_path / "big").write_bytes(content)
    files = {"a/b c.txt": b"text", "big": tmp_path / "big", "empty": b""}
    assert connection.push(files, "sent 1") == 4 + 256_000
    assert (server.home / "sent 1/big").read_bytes() == content
    assert (server.home / "sent 1").stat().st_mode & 0o777 == 0o700
    assert (server.home / "sent 1/a/b c.txt").stat().st_mode & 0o777 == 0o600
    assert connection.pull("sent 1", tmp_path / "back") == 4 + 256_000
    assert (tmp_path / "back/big").read_bytes() == content
    assert (tmp_path / "back/a/b c.txt").read_bytes() == b"text"
    assert (tmp_path / "back/empty").read_bytes() == b""


def test_only_what_is_not_here_in_full_comes_again(
    connection: SshConnection, server: Server, tmp_path: Path
) -> None:
    folder = server.home / "again"
    folder.mkdir()
    for name, text in (("same", "one"), ("changed", "two"), ("longer", "three")):
        (folder / name).write_text(text)
    assert connection.pull("again", tmp_path) == 11
    assert connection.pull("again", tmp_path) == 0
    (folder / "changed").write_text("TWO")  # of the same size
    (tmp_path / "longer").write_text("th")  # cut off
    assert connection.pull("again", tmp_path) == 3 + 5
    assert (tmp_path / "changed").read_text() == "TWO"
    assert (tmp_path / "longer").read_text() == "three"


def test_a_link_there_is_not_followed_here(
    connection: SshConnection, server: Server, tmp_path: Path
) -> None:
    folder = server.home / "links"
    folder.mkdir()
    (folder / "out").symlink_to("/etc")
    (folder / "passwd").symlink_to("/etc/passwd")
    (folder / "plain").write_text("x")
    assert connection.pull("links", tmp_path) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["plain"]


def test_names_that_cannot_stand_in_a_list_stay_there_and_the_rest_comes(
    server: Server, tmp_path: Path
) -> None:
    folder = server.home / "odd"
    folder.mkdir()
    for name in (r"a\tb", "c d", "line\nfeed", "bell\a"):
        (folder / name).write_text(name)
    said: list[str] = []
    address = Address.parse(server.target.removeprefix("ssh://"))
    opened = SshConnection(address, server.client_config, said.append)
    try:
        assert opened.pull("odd", tmp_path) == 4 + 3
        assert opened.pull("odd", tmp_path) == 0  # what is here is known by such names as well
    finally:
        opened.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [r"a\tb", "c d"]
    assert (tmp_path / r"a\tb").read_text() == r"a\tb"
    assert_says(said[0], "2 files")
    assert r"bell\x07" in said[0]


@pytest.mark.parametrize("name", ["/absolute", "../above", "a/../../b", "", "line\nfeed"])
def test_no_file_is_sent_out_of_its_folder(connection: SshConnection, name: str) -> None:
    with pytest.raises(InvalidValueError):
        connection.push({name: b""}, "folder")


def test_lines_come_as_they_are_written(connection: SshConnection, server: Server) -> None:
    command = "echo first; while [ ! -e seen ]; do sleep 0.05; done; printf 'second\\n'; cat"
    lines = connection.lines(command, stdin=b"third\n")
    assert next(lines) == b"first"  # while the command waits for what comes next
    (server.home / "seen").touch()
    assert list(lines) == [b"second", b"third"]


def test_what_is_given_up_here_is_ended_there(connection: SshConnection, server: Server) -> None:
    command = "echo $$; sleep 1000 & sleep 1000; echo ended on its own"
    before = set(server.processes())
    lines = connection.lines(command)
    shell = int(next(lines))
    begun = until(lambda: set(server.processes()) - before)
    assert shell in begun
    lines.close()  # as an exception does it, Ctrl-C among them
    until(lambda: set(server.processes()) <= before, LONG_S)
    assert connection.run("echo on").output == b"on\n"


def test_files_that_stand_still_on_their_way_are_given_up(
    connection: SshConnection, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wattstep.remote.ssh.ssh.SILENT_S", 0.5)
    standing = server.path / "tar"
    standing.write_text("#!/bin/sh\nexec sleep 1000\n")
    standing.chmod(0o755)
    there = set(server.processes())
    try:
        with refused("no-answer"):
            connection.push({"much": b"x" * 10**6}, "standing")
    finally:
        standing.unlink()
    until(lambda: set(server.processes()) <= there, LONG_S)


def test_no_answer_and_no_line_is_taken_without_end(connection: SshConnection) -> None:
    with refused("answer-too-long", "16 MiB"):
        connection.run("exec cat /dev/zero", timeout_s=LONG_S)
    with refused("line-too-long", "1 MiB"):
        list(connection.lines("exec cat /dev/zero", silent_s=LONG_S))
    with refused("complaint-too-long"):
        connection.run("exec cat /dev/zero >&2", timeout_s=LONG_S)
    assert connection.run("echo on").output == b"on\n"


def test_after_it_was_closed_nothing_runs(server: Server) -> None:
    opened = server.connect()
    opened.close()
    opened.close()
    with refused("connection-closed"):
        opened.run("true")
    assert not opened._folder.path.exists()


@contextmanager
def greeted(server: Server, greeting: str) -> Iterator[None]:
    """A login shell that runs this before every command."""
    shell = server.folder / "as_board"
    shell.write_text(f"{greeting}\n{shell.read_text()}")
    try:
        yield
    finally:
        server.write_shell()


def test_a_greeting_without_an_end_of_line_is_passed_over(server: Server) -> None:
    with greeted(server, ""):
        shell = server.folder / "as_board"
        text = shell.read_text().replace("echo a greeting of the login shell", "printf 'Hello $ '")
        assert "printf" in text
        shell.write_text(text)
        opened = server.connect()
        try:
            assert opened.run("echo in").output == b"in\n"
            assert list(opened.lines("echo in; echo two")) == [b"in", b"two"]
        finally:
            opened.close()


def test_a_greeting_without_end_is_no_board(server: Server) -> None:
    with (
        greeted(server, "exec cat /dev/zero"),
        refused("endless-greeting"),
    ):
        server.connect()


def test_the_folder_of_a_socket_is_held() -> None:
    folder = make_socket_folder()
    try:
        assert folder.path.name.startswith(PREFIX)
        remove_abandoned(folder.path.parent, PREFIX)
        assert folder.path.exists()  # its process lives: this one
    finally:
        folder.remove()
    assert not folder.path.exists()


def test_a_connection_that_is_cut_is_lost_and_the_next_command_makes_it_again(
    connection: SshConnection, server: Server
) -> None:
    lines = connection.lines("echo begun; sleep 1000")
    assert next(lines) == b"begun"
    server.cut()
    with pytest.raises(ConnectionLostError):
        next(lines)
    assert connection.run("echo again").output == b"again\n"


def test_a_pull_that_is_cut_in_the_middle_keeps_what_came_and_goes_on(
    connection: SshConnection, server: Server, tmp_path: Path
) -> None:
    folder = server.home / "much"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).write_bytes(name.encode() * 40_000)
    # One file, half of the other, and then nothing for ever.
    stalling = server.path / "tar"
    stalling.write_text(
        f'#!/bin/sh\n[ "$1" != --version ] || exec {shutil.which("tar")} "$1"\n'
        f'{shutil.which("tar")} "$@" | head -c 60000\nexec sleep 1000\n'
    )
    stalling.chmod(0o755)

    def whole() -> list[str]:
        return [path.name for path in tmp_path.iterdir() if path.name[0] != "."]

    def cut() -> None:
        until(whole)
        server.cut()

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        with pytest.raises(ConnectionLostError):
            connection.pull("much", tmp_path)
    finally:
        cutter.join()
        stalling.unlink()
    assert len(whole()) == 1
    assert connection.pull("much", tmp_path) == 40_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert (tmp_path / "b").read_bytes() == b"b" * 40_000


def test_closing_leaves_no_process_and_no_socket(server: Server) -> None:
    ours, there = set(children(os.getpid())), set(server.processes())
    connection = server.connect()
    folder = connection._folder.path
    masters = set(children(os.getpid())) - ours
    assert connection.run("true").code == 0
    connection.close()
    assert len(masters) == 1
    assert all(gone(pid) for pid in masters)
    assert not folder.exists()
    until(lambda: set(server.processes()) <= there)


def test_the_connection_ends_with_a_process_that_is_killed(server: Server) -> None:
    program = (
        "import sys; from tests.fleet.remote.server import *\n"
        "c = SshConnection(Address.parse(sys.argv[1]), Path(sys.argv[2]))\n"
        "print('open', flush=True); sys.stdin.read()"
    )
    there = set(server.processes())
    address = server.target.removeprefix("ssh://")
    child = subprocess.Popen(
        [sys.executable, "-c", program, address, str(server.client_config)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"open\n"
        (master,) = children(child.pid)
        child.send_signal(signal.SIGKILL)
    until(lambda: gone(master))
    until(lambda: set(server.processes()) <= there)


# --- refusals ---------------------------------------------------------------------------------


def _nameless(text: str, server: Server) -> bool:
    names = (getpass.getuser() + "@", "127.0.0.1", str(server.port), str(server.folder))
    return not any(name in text for name in names)


def test_a_rejected_key_says_what_to_do(server: Server) -> None:
    accepted = (server.folder / "authorized").read_text()
    (server.folder / "authorized").write_text("")
    try:
        with refused("key-refused", "ssh-copy-id") as raised:
            server.connect()
    finally:
        (server.folder / "authorized").write_text(accepted)
    assert not isinstance(raised.value, ConnectionLostError)  # to try again would not help
    assert _nameless(str(raised.value), server)


def test_a_silent_configuration_does_not_hide_why_a_key_is_refused(
    server: Server, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    text = server.client_config.read_text().replace(f"{server.folder}/user\n", "/dev/null\n")
    config.write_text(f"{text}LogLevel QUIET\n")
    with refused("key-refused"):
        SshConnection(Address.parse(server.target.removeprefix("ssh://")), config)


def test_an_unknown_host_key_is_not_accepted(server: Server) -> None:
    (server.folder / "known").write_text("")
    try:
        with refused("host-key-unknown") as raised:
            server.connect()
        assert (server.folder / "known").read_text() == ""
    finally:
        server.know_host()
    assert not isinstance(raised.value, ConnectionLostError)
    assert _nameless(str(raised.value), server)


def test_a_changed_host_key_is_said_in_words_of_danger(server: Server) -> None:
    known = (server.folder / "known").read_text()
    other = (server.folder / "user.pub").read_text()  # a key, but not that of the board
    (server.folder / "known").write_text(f"[127.0.0.1]:{server.port} {other}")
    try:
        with refused("host-key-changed") as raised:
            server.connect()
    finally:
        (server.folder / "known").write_text(known)
    assert not isinstance(raised.value, ConnectionLostError)
    assert _nameless(str(raised.value), server)


def test_a_port_at_which_nobody_listens_is_said(server: Server, tmp_path: Path) -> None:
    with refused("no-ssh-server"):
        SshConnection(Address(host="127.0.0.1", port=1), server.client_config)


# What OpenSSH 9.2 writes, typed from its sources (sshconnect.c, ssh.c, clientloop.c).
@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ("ssh: Could not resolve hostname b.local: Name or service not known", ConnectionLostError, "name cannot be resolved"),
        ("ssh: connect to host 10.0.0.7 port 22: Connection timed out", ConnectionLostError, "does not answer"),
        ("ssh: connect to host 10.0.0.7 port 22: No route to host", ConnectionLostError, "cannot be reached"),
        ("Timeout, server b.local not responding.", ConnectionLostError, "does not answer"),
        ("Connection timed out during banner exchange", ConnectionLostError, "does not answer"),
        ("me@b.local: Permission denied (publickey,password).", RecordingError, "accepts no key"),
        ("Received disconnect from 10.0.0.7 port 22:2: Too many authentication failures", RecordingError, "accepts no key"),
        ("Bad owner or permissions on /home/me/.ssh/config", RecordingError, "configuration"),
        ("client_loop: send disconnect: Broken pipe", ConnectionLostError, "was lost: client_loop"),
    ],
)  # fmt: skip
def test_the_words_of_ssh_are_told_apart(said: str, kind: type[RecordingError], words: str) -> None:
    error = refusal(said + "\n", Address(host="b.local", user="me"))
    assert type(error) is kind
    assert words in str(error)


def test_an_unforeseen_message_is_shown_without_names() -> None:
    said = "Odd: me@b.local at 10.0.0.7 with /home/me/.ssh/id_rsa: failed"
    error = refusal(said, Address(host="b.local", user="me"))
    assert "failed" in str(error)
    assert not any(name in str(error) for name in ("me@", "b.local", "10.0.0.7", "/home", "id_rsa"))


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("me@board:2222", ["-l", "me", "-p", "2222", "--", "board"]),
        ("board", ["--", "board"]),
        ("me@[::1]:22/", ["-l", "me", "-p", "22", "--", "::1"]),
    ],
)
def test_an_address_is_taken_apart(text: str, arguments: list[str]) -> None:
    assert Address.parse(text).arguments == arguments


@pytest.mark.parametrize(
    "text",
    ["", "-oProxyCommand=x", "me@-x", "a b", "board:0", "board:70000", "me@board:x", "a@b@c"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with refused("not-a-board-address", "USER@BOARD"):
        Address.parse(text)


@pytest.mark.parametrize("text", ["me:s3cret@board", "me:s3cret@board:22", "me:s3c@ret@board"])
def test_a_password_is_refused_and_not_shown(text: str) -> None:
    with refused("no-password-taken", "ssh-copy-id") as raised:
        Address.parse(text)
    assert "s3c" not in str(raised.value)

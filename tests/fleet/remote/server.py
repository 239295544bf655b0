"""A board of the tests' own: a real OpenSSH server on loopback, whose home, keys and PATH lie in a folder."""

from __future__ import annotations

import getpass
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import gone, until

from wattstep.remote.ssh.ssh import Address, SshConnection

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
MISSING = [tool for tool in (SSHD, "ssh", "ssh-keygen") if shutil.which(tool) is None]
WHY_NOT = f"{', '.join(MISSING)} not installed: apt install openssh-server openssh-client"

LONG_S = 120.0  # until something happens that takes a second where nothing else runs


class Taken(Exception):
    """Somebody else listens at the port."""


class Server:
    """An sshd on an ephemeral port.

    Args:
        folder: Holds everything: host key, the user's key, the board's home.
        python: What the board calls python3; this one by default.
    """

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder, self.home = folder, folder / "home"
        self.path = folder / "path"
        for each in (folder, self.home, self.path):
            each.mkdir(parents=True, exist_ok=True)
        self.boot_id = folder / "boot_id"
        self.boot_id.write_text("first\n")
        self.environment: dict[str, str] = {}
        self.name_python("python3", python)
        self._key("user")
        self.new_host_key()
        (folder / "authorized").write_text((folder / "user.pub").read_text())
        self._sshd: subprocess.Popen[bytes] | None = None
        until(self._start_somewhere, LONG_S)

    # --- what it is made of -----------------------------------------------------------------

    def _key(self, name: str) -> None:
        for path in (self.folder / name, self.folder / f"{name}.pub"):
            path.unlink(missing_ok=True)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", name]
        subprocess.run(command, cwd=self.folder, check=True)

    def new_host_key(self) -> None:
        self._key("host")

    def know_host(self) -> None:
        key = (self.folder / "host.pub").read_text()
        (self.folder / "known").write_text(f"[127.0.0.1]:{self.port} {key}")

    def name_python(self, name: str, python: str) -> None:
        """A Python in the board's PATH."""
        starter = self.path / name
        starter.write_text(f'#!/bin/sh\nexec {shlex.quote(python)} "$@"\n')
        starter.chmod(0o755)

    def write_config(self) -> None:
        f = self.folder
        (f / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {f}/host\nUsePAM no\n"
            f"StrictModes no\nAuthorizedKeysFile {f}/authorized\nPidFile none\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "PermitRootLogin yes\nMaxStartups 100\nPermitUserEnvironment no\n"
            f"ForceCommand /bin/sh {f}/as_board\n"
        )
        (f / "ssh_config").write_text(
            f"Host *\nIdentityFile {f}/user\nIdentitiesOnly yes\nIdentityAgent none\n"
            f"UserKnownHostsFile {f}/known\nGlobalKnownHostsFile /dev/null\n"
        )

    def write_shell(self) -> None:
        """Nothing of the real home is seen from the board."""
        given = {
            "HOME": str(self.home),
            "PATH": f"{self.path}:/usr/bin:/bin",
            "WATTSTEP_BOOT_ID": str(self.boot_id),
            "OMP_NUM_THREADS": "1",
            **self.environment,
        }
        lines = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in given.items())
        (self.folder / "as_board").write_text(
            f'{lines}cd "$HOME"\necho a greeting of the login shell\nexec sh -c "$SSH_ORIGINAL_COMMAND"\n'
        )

    # --- its life ---------------------------------------------------------------------------

    def _start_somewhere(self) -> bool:
        """At a port that nobody is given unasked; whether it was free."""
        self.port = secrets.choice(range(10_000, 30_000))
        self.know_host()
        self.write_config()
        try:
            self.start()
        except Taken:
            self._sshd = None
        return self._sshd is not None

    def start(self) -> None:
        """Where it does not run.

        Raises:
            Taken: Somebody else listens at its port.
        """
        if self._sshd is not None:
            return
        self.write_shell()
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # what the system's own service makes
        with (self.folder / "log").open("wb") as log:
            command = [SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")]
            self._sshd = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._listens, LONG_S)

    def _listens(self) -> bool:
        """As it says itself: another might answer at that port."""
        assert self._sshd is not None
        ended = self._sshd.poll() is not None
        said = (self.folder / "log").read_text()
        if ended and "Address already in use" in said:
            raise Taken
        assert not ended, said
        return "Server listening on 127.0.0.1" in said

    def sessions(self) -> list[int]:
        """Processes of sshd that serve a connection."""
        assert self._sshd is not None
        return children(self._sshd.pid)

    def cut(self) -> None:
        """Ends every connection, as a cable that is pulled: no goodbye."""
        for pid in self.sessions():
            for each in (*children(pid), pid):
                if "sshd" in comm(each):
                    _kill(each)

    def stop(self) -> None:
        """Also what listens; it stands still first, so that no connection slips through."""
        if self._sshd is None:
            return
        self._sshd.send_signal(signal.SIGSTOP)
        sessions = self.sessions()
        self.cut()
        self._sshd.kill()
        self._sshd.wait()
        self._sshd = None
        until(lambda: all(gone(pid) for pid in sessions), LONG_S)

    # --- how it is reached ------------------------------------------------------------------

    @property
    def target(self) -> str:
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}"

    @property
    def client_config(self) -> Path:
        return self.folder / "ssh_config"

    def connect(self) -> SshConnection:
        return SshConnection(Address.parse(self.target.removeprefix("ssh://")), self.client_config)

    def processes(self) -> list[int]:
        """What runs there: whatever has the board's home in its environment."""
        mark = f"HOME={self.home}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark in path.read_bytes().split(b"\0") and not gone(int(path.parent.name)):
                    found.append(int(path.parent.name))
        return found

    def jobs(self) -> list[int]:
        """Those of them that are no part of a connection."""
        folder = str(self.home / ".cache/wattstep-board/jobs").encode()
        return [pid for pid in self.processes() if folder in _environment(pid)]

    def end_jobs(self) -> None:
        """As a power cut does."""
        pids = self.jobs()
        for pid in pids:
            _kill(pid)
        until(lambda: all(gone(pid) for pid in pids), LONG_S)

    def left(self) -> list[str]:
        """Files and folders in the board's home."""
        return sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*"))


@contextmanager
def serving(folder: Path, **more: str) -> Iterator[Server]:
    """A board, of which nothing runs any more afterwards."""
    server = Server(folder, **more)
    try:
        yield server
    finally:
        server.stop()
        for pid in server.processes():
            _kill(pid)


def children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(path.parent.name))
    return found


def comm(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text()
    return ""


def _environment(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def _kill(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)

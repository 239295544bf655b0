"""A phone made of files behind a device endpoint of our own, and what runs on it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet.adb_endpoint import Endpoint
from tests.sensors.test_android import PHONE, THERMAL, UNPLUGGED
from tests.waiting import gone, until

from wattstep.record.sensors.android.loop import Sample, Stream
from wattstep.remote.phone.host import PhoneHost
from wattstep.remote.phone.job import CLOSED, Job, Phone
from wattstep.train.script import ProfileSettings

PATIENCE_S = 100.0  # until a test gives up; nothing is asserted of it
WATT = 0.326171 * 3.888173  # what the recorded battery gives all the time
BOOT = "proc/sys/kernel/random/boot_id"
needs_adb = pytest.mark.skipif(shutil.which("adb") is None, reason="adb is not installed")
SHELLS = [
    pytest.param(
        shell,
        marks=pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed"),
    )
    for shell in ("sh", "bash", "mksh")
]


class Made:
    """A phone made of files, its endpoint, and what the place says to the user."""

    def __init__(self, folder: Path, *, shell: str = "/bin/sh", authorized: bool = True) -> None:
        self.folder, self.root, commands = folder, folder / "root", folder / "bin"
        for name, text in PHONE.items():
            self.write(name, text)
        self.write(BOOT, "3f0d7a52-0000-4000-8000-000000000001\n")
        self.write("dumpsys-battery", UNPLUGGED)
        self.write("dumpsys-thermalservice", THERMAL)
        self.write("dumpsys-power", "  mWakefulness=Awake\n")
        self.write("getprop-ro.product.model", "Pixel 6\n")
        commands.mkdir()
        for name in ("dumpsys", "getprop"):
            (commands / name).write_text(f'#!/bin/sh\nexec cat "{self.root}/{name}-$1"\n')
            (commands / name).chmod(0o755)
        (commands / "sh").symlink_to(shutil.which(shell) or shell)
        self.files = self.root / "data/local/tmp"
        self.files.mkdir(parents=True)
        path = f"{commands}:{os.environ['PATH']}"
        environment = {"PATH": path, "WATTSTEP_TEST": str(folder)}
        self.endpoint = Endpoint(
            self.root, environment, shell=str(commands / "sh"), authorized=authorized
        )
        self.said: list[str] = []

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    @property
    def target(self) -> str:
        return f"adb://{self.endpoint.serial}"

    def host(self, **settings: float) -> PhoneHost:
        return PhoneHost(
            self.endpoint.serial, self.said.append, root=str(self.root), ask_every_s=0.2, **settings
        )

    def settings(self, *command: str, **others: object) -> ProfileSettings:
        return ProfileSettings(
            script=command[0], arguments=command[1:], target=self.target, **others
        )

    def processes(self) -> list[int]:
        """Everything that was started behind the endpoint and still runs."""
        mark = f"WATTSTEP_TEST={self.folder}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and not gone(int(entry.name)):
                try:
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def kill_keeper(self) -> None:
        """Ends what runs the command, and stamps its lines, at once."""
        for sign in self.files.glob("*/super"):
            os.killpg(int(sign.read_text()), signal.SIGKILL)

    def kill_all(self) -> None:
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def is_clean(self) -> bool:
        """Nothing is left on the phone: no file, no process."""
        return not list(self.files.iterdir()) and not self.processes()


@contextlib.contextmanager
def adb_server() -> Iterator[None]:
    """An adb server of these tests' own, its keys beside its socket."""
    folder = tempfile.mkdtemp(prefix="adb-")  # a socket's path is short
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADB_SERVER_SOCKET", f"localfilesystem:{folder}/s")
        patch.setenv("HOME", folder)
        subprocess.run(["adb", "start-server"], check=True, capture_output=True)
        try:
            yield
        finally:
            subprocess.run(["adb", "kill-server"], check=True, capture_output=True)
            shutil.rmtree(folder)


def connect(made: Made) -> Made:
    def usable() -> bool:
        subprocess.run(["adb", "connect", made.endpoint.serial], check=True, capture_output=True)
        return f"{made.endpoint.serial}\tdevice" in listed()

    until(usable, PATIENCE_S)
    return made


def listed() -> str:
    return subprocess.run(["adb", "devices"], capture_output=True, check=True).stdout.decode()


@contextlib.contextmanager
def connected(folder: Path, shell: str = "/bin/sh") -> Iterator[Made]:
    """A phone of these files, until the end of the block."""
    made = Made(folder, shell=shell)
    try:
        yield connect(made)
    finally:
        subprocess.run(
            ["adb", "disconnect", made.endpoint.serial], check=False, capture_output=True
        )
        made.endpoint.close()
        made.kill_all()


def printed(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is printed from now on, to be read while it grows: capsys loses what comes meanwhile."""
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdout", shown)
    return shown


class Followed:
    """A command on a phone without its sampling: everything that was said of it, as records."""

    def __init__(self, made: Made, *command: str) -> None:
        self.job = Job(Phone(made.endpoint.serial, "adb"), command, 600.0, str(made.root))
        self.records: list[Sample] = []
        self.streams = Stream(), Stream()
        self.answers = 0

    def to_the_end(self) -> Followed:
        until(self._closed, PATIENCE_S)
        self.job.clear()
        return self

    def _closed(self) -> bool:
        answer = self.job.follow()
        self.answers += 1
        for stream, data in zip(self.streams, (answer.output, answer.errors), strict=True):
            self.records += stream.take(data)
        signs = list(Stream().take(answer.signs))
        if answer.whole and CLOSED in [sign.read for sign in signs]:
            self.records += signs
            return True
        return False

    def texts(self, read: int) -> list[str]:
        return [record.text for record in self.records if record.read == read]


def journal(run: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Rows of a run that is being recorded: the first channel's name; time, errno and values."""
    if not (run / "run.json").exists():
        return
    for read in json.loads((run / "run.json").read_text())["reads"]:
        row = struct.Struct(f"<{2 + len(read['channels'])}q")
        path = run / "journal" / f"samples-{read['number']:02d}.bin"
        data = path.read_bytes() if path.exists() else b""
        whole = len(data) // row.size * row.size
        for values in row.iter_unpack(data[:whole]):
            yield read["channels"][0]["name"], values

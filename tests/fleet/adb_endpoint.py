"""The device's end of adb's wire protocol over TCP, with a shell of this machine behind it.

Written from the public description of the protocol (system/core/adb: protocol.txt, SERVICES.TXT,
SYNC.TXT, and shell_protocol.h of Android's sources). The client and the server are the real ones.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import socket
import stat
import struct
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

HEADER = struct.Struct("<6I")  # command, two arguments, length, checksum, magic
CNXN, AUTH, OPEN, OKAY, CLSE, WRTE = (
    int.from_bytes(name, "little")
    for name in (b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"CLSE", b"WRTE")
)
VERSION, MOST = 0x01000001, 256 * 1024  # of this version on, checksums are not looked at
TOKEN = 1
STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = range(5)
PACKET = struct.Struct("<BI")  # of the shell protocol: kind, length
CHUNK = 64 * 1024


class Stream:
    """One opened service: what comes in for it, and what it sends, one message at a time."""

    def __init__(self, link: Link, ours: int, theirs: int) -> None:
        self._link, self._ours, self._theirs = link, ours, theirs
        self.incoming: queue.Queue[bytes | None] = queue.Queue()  # None: it was closed
        self.taken = threading.Semaphore(0)
        self.closed = threading.Event()
        self.on_close: Callable[[], None] = lambda: None
        self._rest = b""
        self._sending = threading.Lock()

    def send(self, data: bytes) -> None:
        """Sends, and waits until each part was taken; after the end it is dropped."""
        with self._sending:
            for at in range(0, len(data), CHUNK):
                if self.closed.is_set():
                    return
                self._link.send(WRTE, self._ours, self._theirs, data[at : at + CHUNK])
                self.taken.acquire()  # by its message, or by `was_closed`

    def read(self, size: int) -> bytes:
        """So many bytes, or what there is before the end."""
        while len(self._rest) < size:
            part = self.incoming.get()
            if part is None:
                self.incoming.put(None)
                break
            self._rest += part
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def some(self) -> bytes:
        """What has come; b"" at the end."""
        data = self._rest or self.incoming.get()
        self._rest = b""
        if data is None:
            self.incoming.put(None)
            return b""
        return data

    def close(self) -> None:
        """The service has ended."""
        if not self.closed.is_set():
            self.closed.set()
            self._link.send(CLSE, self._ours, self._theirs)

    def was_closed(self) -> None:
        """The other side, or the cable, ended it."""
        self.closed.set()
        self.incoming.put(None)
        self.taken.release()
        self.on_close()


class Link:
    """One connection of an adb server."""

    def __init__(self, endpoint: Endpoint, connection: socket.socket) -> None:
        self._endpoint, self._connection = endpoint, connection
        self._lock = threading.Lock()
        self._streams: dict[int, Stream] = {}
        self._numbers = 0

    def send(self, command: int, first: int, second: int, data: bytes = b"") -> None:
        message = HEADER.pack(
            command, first, second, len(data), sum(data) & 0xFFFFFFFF, command ^ 0xFFFFFFFF
        )
        try:
            with self._lock:
                self._connection.sendall(message + data)
        except OSError:
            return  # the cable is gone; the reader notices

    def run(self) -> None:
        """Until the other side, or `cut`, ends it."""
        try:
            while (header := self._exactly(HEADER.size)) is not None:
                command, first, second, length, _, magic = HEADER.unpack(header)
                assert command ^ magic == 0xFFFFFFFF
                data = self._exactly(length)
                if data is None:
                    break
                self._hear(command, first, second, data)
        except OSError:
            pass  # cut
        finally:
            self.cut()
            for stream in list(self._streams.values()):
                stream.was_closed()

    def cut(self) -> None:
        """The cable is pulled."""
        with contextlib.suppress(OSError):  # it is already gone
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            part = self._connection.recv(size - len(data))
            if not part:
                return None
            data += part
        return data

    def _hear(self, command: int, first: int, second: int, data: bytes) -> None:
        endpoint = self._endpoint
        if command in (CNXN, AUTH):
            endpoint.asked_for_trust += command == AUTH
            if endpoint.authorized:
                self.send(CNXN, VERSION, MOST, endpoint.banner)
            elif command == CNXN or first == 2:  # a signature: that key is not known
                self.send(AUTH, TOKEN, 0, bytes(range(20)))
            return  # a new key waits for somebody to confirm it on the screen
        stream = self._streams.get(second)
        if command == OPEN:
            self._numbers += 1
            stream = Stream(self, self._numbers, first)
            self._streams[self._numbers] = stream
            service = data.rstrip(b"\0").decode()
            threading.Thread(target=self._serve, args=(stream, service, first), daemon=True).start()
        elif stream is None:
            return
        elif command == WRTE:
            stream.incoming.put(data)
            self.send(OKAY, second, first)
        elif command == OKAY:
            stream.taken.release()
        elif command == CLSE:
            stream.was_closed()
            del self._streams[second]

    def _serve(self, stream: Stream, service: str, theirs: int) -> None:
        kind, _, rest = service.partition(":")
        options = kind.split(",")
        self._endpoint.services.append(kind)
        self.send(OKAY, stream._ours, theirs)
        if options[0] == "shell" and "v2" in options:
            Shell(self._endpoint, stream, rest, packets=True).run()
        elif options[0] in ("shell", "exec"):
            Shell(self._endpoint, stream, rest, packets=False).run()
        elif options[0] == "sync":
            Sync(self._endpoint, stream).run()
        stream.close()


class Shell:
    """A service that runs a command: bytes as they are, or the packets of the shell protocol."""

    def __init__(self, endpoint: Endpoint, stream: Stream, command: str, *, packets: bool) -> None:
        self._stream, self._packets = stream, packets
        self._process = subprocess.Popen(
            [endpoint.shell, "-c", command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if packets else subprocess.STDOUT,
            env=dict(endpoint.environment), start_new_session=True, bufsize=0,
        )  # fmt: skip

    def run(self) -> None:
        """To the command's end; when the cable goes, it gets the signal that adbd sends."""
        process = self._process
        self._stream.on_close = self._hang_up
        threading.Thread(target=self._feed, daemon=True).start()
        pipes = [(process.stdout, STDOUT)] + ([(process.stderr, STDERR)] if self._packets else [])
        threads = [threading.Thread(target=self._pass_on, args=pipe, daemon=True) for pipe in pipes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        code = process.wait()
        if self._packets:
            self._stream.send(PACKET.pack(EXIT, 1) + bytes([code & 0xFF]))
        process.stdin.close()

    def _pass_on(self, pipe: object, kind: int) -> None:
        while data := pipe.read(CHUNK):
            self._stream.send((PACKET.pack(kind, len(data)) if self._packets else b"") + data)
        pipe.close()

    def _feed(self) -> None:
        stdin = self._process.stdin
        try:
            while True:
                if not self._packets:
                    data = self._stream.some()
                    if not data:
                        break
                else:
                    head = self._stream.read(PACKET.size)
                    if len(head) < PACKET.size:
                        break
                    kind, length = PACKET.unpack(head)
                    data = self._stream.read(length)
                    if kind == CLOSE_STDIN:
                        break
                    if kind != STDIN:
                        continue
                stdin.write(data)
        except (OSError, ValueError):
            pass  # the command reads no further
        stdin.close()

    def _hang_up(self) -> None:
        self._process.send_signal(signal.SIGHUP)  # none, where it has ended


class Sync:
    """Files in and out, version 1 of the protocol."""

    def __init__(self, endpoint: Endpoint, stream: Stream) -> None:
        self._root, self._stream = endpoint.root, stream

    def run(self) -> None:
        while len(head := self._stream.read(8)) == 8:
            word, length = struct.unpack("<4sI", head)
            if word == b"QUIT":
                return
            name = self._stream.read(length).decode()
            {b"STAT": self._stat, b"LIST": self._list, b"SEND": self._send, b"RECV": self._receive}[
                word
            ](name)

    def _path(self, name: str) -> Path:
        return self._root / name.lstrip("/")

    def _facts(self, path: Path) -> tuple[int, int, int]:
        try:
            found = path.lstat()
        except OSError:
            return 0, 0, 0
        return found.st_mode, found.st_size & 0xFFFFFFFF, int(found.st_mtime)

    def _stat(self, name: str) -> None:
        self._stream.send(struct.pack("<4s3I", b"STAT", *self._facts(self._path(name))))

    def _list(self, name: str) -> None:
        path = self._path(name)
        for entry in sorted(path.iterdir()) if path.is_dir() else ():
            word = entry.name.encode()
            facts = self._facts(entry)
            self._stream.send(struct.pack("<4s4I", b"DENT", *facts, len(word)) + word)
        self._stream.send(struct.pack("<4s4I", b"DONE", 0, 0, 0, 0))

    def _send(self, name: str) -> None:
        name, _, mode = name.rpartition(",")
        parts = []
        while True:
            word, length = struct.unpack("<4sI", self._stream.read(8))
            if word == b"DONE":  # its length is the time
                break
            parts.append(self._stream.read(length))
        try:
            path = self._path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"".join(parts))
            path.chmod(stat.S_IMODE(int(mode)))
        except OSError as error:
            self._fail(error)
            return
        self._stream.send(struct.pack("<4sI", b"OKAY", 0))

    def _receive(self, name: str) -> None:
        try:
            data = self._path(name).read_bytes()
        except OSError as error:
            self._fail(error)
            return
        for at in range(0, len(data), CHUNK):
            part = data[at : at + CHUNK]
            self._stream.send(struct.pack("<4sI", b"DATA", len(part)) + part)
        self._stream.send(struct.pack("<4sI", b"DONE", 0))

    def _fail(self, error: OSError) -> None:
        said = (error.strerror or "").encode()
        self._stream.send(struct.pack("<4sI", b"FAIL", len(said)) + said)


class Endpoint:
    """A device that listens on loopback, as a phone does whose adb is on TCP.

    Args:
        root: Where its files are.
        environment: Of its shells: PATH with its own commands first.
        shell: What stands for its /system/bin/sh.
        authorized: Whether it trusts whoever connects; otherwise somebody would have to confirm.

    Attributes:
        port: Where it listens.
        services: Kinds of services that were opened, in order.
        asked_for_trust: How many answers to its challenge came.
    """

    def __init__(
        self,
        root: Path,
        environment: Mapping[str, str],
        *,
        shell: str = "/bin/sh",
        authorized: bool = True,
    ) -> None:
        self.root, self.environment, self.shell = root, environment, shell
        self.authorized, self.asked_for_trust = authorized, 0
        self.services: list[str] = []
        # No stat_v2 or ls_v2: then files go by version 1, which `Sync` speaks.
        self.banner = b"device::ro.product.name=made;ro.product.model=Made;features=shell_v2,cmd"
        self._away = False
        self._links: list[Link] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def serial(self) -> str:
        """As `adb devices` lists it."""
        return f"127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return  # it was closed
            if self._away:
                connection.close()
                continue
            link = Link(self, connection)
            self._links.append(link)
            threading.Thread(target=link.run, daemon=True).start()

    def unplug(self) -> None:
        """The cable is pulled; nobody gets through until `plug`."""
        self._away = True
        for link in self._links:
            link.cut()
        self._links.clear()

    def plug(self) -> None:
        """The cable is back."""
        self._away = False

    def close(self) -> None:
        """The device is gone."""
        self.unplug()
        # Wakes the thread that waits in accept(), which closing alone does not.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

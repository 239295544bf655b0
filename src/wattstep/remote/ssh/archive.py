"""Files on their way to a device and back: a tar stream, whose names are checked before anything is written."""

from __future__ import annotations

import errno
import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.store.folder import replacing

_BLOCK = 1024 * 1024
_MOST_HEADER = 1024 * 1024  # bytes; names have at most 4,096


class _Member(tarfile.TarInfo):
    """Header of a file, whose extensions (a long name, pax records) the library reads as a whole."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """As of the library; refuses an extension that would fill the memory.

        Raises:
            ReadError: It is larger than any that `tar` writes.
        """
        extensions = (
            tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE,
            tarfile.SOLARIS_XHDTYPE,
        )  # fmt: skip
        if self.type in extensions and self.size > _MOST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return member


def check_name(name: str) -> str:
    """The name of a file below a folder, e.g. "work/train.py".

    Raises:
        InvalidValueError: It is absolute, leads out of the folder, or cannot stand in a list.
    """
    parts = PurePosixPath(name).parts
    plain = bool(parts) and name.isprintable() and not name.endswith("/")
    if not plain or name.startswith("/") or ".." in parts:
        raise InvalidValueError(f"{name!r} is no name of a file below a folder")
    return str(PurePosixPath(*parts))


def pack(files: Mapping[str, Path | bytes], stream: IO[bytes]) -> int:
    """Writes files as a tar stream, readable by their owner only; returns the bytes of the files.

    Raises:
        InvalidValueError: A name leads out of the folder, or a file cannot be read.
        OSError: The stream cannot be written.
    """
    sent = 0
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(check_name(name))
            member.mode = 0o600
            with _opened(content) as source:
                member.size = source.seek(0, os.SEEK_END)
                source.seek(0)
                archive.addfile(member, source)
            sent += member.size
    return sent


def _opened(content: Path | bytes) -> IO[bytes]:
    if isinstance(content, bytes):
        return io.BytesIO(content)
    try:
        return content.open("rb")
    except OSError as error:
        raise InvalidValueError(f"{content}: {(error.strerror or str(error)).lower()}") from error


def unpack(stream: IO[bytes], target: Path, wanted: Mapping[str, int]) -> int:
    """Writes the files of a tar stream below a folder, each at once when all of it has come.

    Args:
        stream: As it comes from a device, which may send anything.
        target: The folder.
        wanted: The names that were asked for, with the most bytes that each may have; nothing else
            is written.

    Returns:
        The bytes of the files.

    Raises:
        RecordingError: It sends what was not asked for, or the disk here is full.
        EOFError: The stream ended in the middle; whole files are kept.
    """
    received, missing = 0, set(wanted)
    try:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as archive:
            for member in archive:
                if member.isdir():
                    continue  # made as files need them
                name = member.name.removeprefix("./")
                if name not in wanted or not member.isreg():
                    raise RecordingError(
                        f"the board sent {name!r}, which was not asked for", id="not-asked-for"
                    )
                if member.size > wanted[name]:
                    raise RecordingError(
                        f"the board sent {member.size} bytes of {name!r}, of which it had said "
                        f"{wanted[name]}: it grows while it is read, or another program answers; try again",
                        id="more-than-said",
                    )
                content = archive.extractfile(member)
                assert content is not None
                received += _write(content, target, check_name(name), member.size)
                missing.discard(name)
    except InvalidValueError:
        raise
    except (tarfile.TarError, EOFError, ValueError) as error:  # tarfile reads numbers unchecked
        raise EOFError(str(error)) from error
    if missing:  # cut between two files, a stream of tar's looks whole
        raise EOFError(f"{len(missing)} files did not come")
    return received


def _write(content: IO[bytes], target: Path, name: str, size: int) -> int:
    path = target / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.parent.resolve().is_relative_to(target.resolve()):
            raise RecordingError(f"{name!r} leads out of {target}", id="leads-outside")
        with replacing(path) as file:
            while block := content.read(_BLOCK):
                file.write(block)
            if file.tell() != size:
                raise EOFError(f"{name} was cut off")
    except OSError as error:
        raise RecordingError(cannot_write(path, error)) from error
    return size


def cannot_write(path: Path, error: OSError) -> str:
    """Message for a file that came and cannot be kept."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk here is full: make room, and fetch the run again ({path.parent})"
    return f"{path} cannot be written: {(error.strerror or str(error)).lower()}"

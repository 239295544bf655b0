"""The one place through which files of runs, sweeps and daily trainings are opened and made: by descriptors, and never where a link leads.

Such a folder may come from anybody. A link in it leads to other files of whoever opens it, a FIFO
waits for ever, `/dev/zero` never ends. So nothing below the folder that was asked for is opened
through a link, only plain files are read, and what is written is made anew in the folder itself
and renamed there: what bore the name before, a link or another name of a file elsewhere, is
replaced and not written into.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final

MOST_JSON: Final = 64 << 20  # bytes of a JSON document of a run, a sweep or a daily training
MOST_ENTRIES: Final = 10_000  # in a folder; with more than that it is none of ours
DEEPEST: Final = 8  # folders within one another
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_KEEP: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Folder:
    """A folder by its descriptor: whatever takes its place meanwhile, this one is meant.

    Args:
        path: The folder, which may be a link: whoever named it chose it.
        within: A folder that holds it; `path` is then a name in that one, and no link.

    Raises:
        OSError: It is not there, or no folder.
    """

    def __init__(self, path: Path, within: Folder | None = None) -> None:
        if within is None:
            self.path, self._fd = path, os.open(path, _FOLDER)
        else:
            self.path = within.path / path
            try:
                self._fd = os.open(path, _FOLDER | os.O_NOFOLLOW, dir_fd=within._fd)
            except NotADirectoryError as error:
                raise OSError(errno.ENOTDIR, f"{path} is a link, or no folder") from error

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def names(self) -> list[str]:
        """Entries of the folder, in order."""
        return sorted(os.listdir(self._fd))  # noqa: PTH208 - by descriptor

    def inside(self, name: str) -> Folder:
        """A folder in it.

        Raises:
            OSError: It is not there, or a link, or no folder.
        """
        return Folder(Path(name), self)

    def open(self, name: str, most: int | None = None) -> BinaryIO:
        """A plain file in it, to be read.

        Args:
            name: Of the file.
            most: Bytes that it may have.

        Raises:
            OSError: It is not there, no plain file, or larger.
        """
        return _plain(name, _READ, self._fd, most)

    def read(self, name: str, most: int = MOST_JSON) -> bytes:
        """Content of a plain file in it.

        Raises:
            OSError: It is not there, no plain file, or larger.
        """
        with self.open(name, most) as file:
            return file.read(most)

    def keep(self, name: str) -> BinaryIO:
        """A file that is appended to, and made if need be.

        Raises:
            OSError: It is a link or no plain file, or has a second name, or cannot be made.
        """
        file = _plain(name, _KEEP, self._fd)
        if os.fstat(file.fileno()).st_nlink > 1:
            file.close()
            raise OSError(
                errno.EMLINK, f"{name} has another name elsewhere: it is not written into"
            )
        return file

    def make(self, name: str) -> BinaryIO:
        """A new file, to be written, and read again; what bears the name is taken away first.

        Raises:
            OSError: It cannot be made.
        """
        self.remove(name)
        return os.fdopen(os.open(name, _MAKE, 0o666, dir_fd=self._fd), "w+b")

    @contextlib.contextmanager
    def replacing(self, name: str) -> Iterator[BinaryIO]:
        """A file that takes its place when it is whole and on the disk; it leaves nothing else.

        Raises:
            OSError: It cannot be written.
        """
        temporary = f".{name}.{secrets.token_hex(6)}"
        try:
            with self.make(temporary) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            self.rename(temporary, name)
        finally:
            self.remove(temporary)

    def rename(self, old: str, new: str) -> None:
        """Renames what is in it; what bears the new name is replaced.

        Raises:
            OSError: It cannot be.
        """
        os.rename(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def remove(self, name: str) -> None:
        """Takes a file away, or a link itself; nothing where there is none.

        Raises:
            OSError: It cannot be.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._fd)

    def remove_folder(self, name: str) -> None:
        """Takes a folder of plain files away, as far as that is possible."""
        with contextlib.suppress(OSError):
            with self.inside(name) as inside:
                for each in inside.names():
                    inside.remove(each)
            os.rmdir(name, dir_fd=self._fd)

    def sync(self) -> None:
        """Flushes renamed entries of the folder to the disk."""
        os.fsync(self._fd)

    def foreign(self) -> str:
        """Reason why nothing may be written into it unasked, or "" where all of it is the user's own.

        Own is what belongs to the user and can be written: folders, and plain files that have no
        second name. Anything else (a link, a hard link, a FIFO, a file of another user) came from
        elsewhere, or leads there.
        """
        status = os.fstat(self._fd)
        if status.st_uid != os.geteuid():
            return "it belongs to another user"
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=self._fd):
            return "it cannot be written"
        return self._foreign_inside("", [0])

    def _foreign_inside(self, place: str, seen: list[int]) -> str:
        for name in self.names():
            seen[0] += 1
            if seen[0] > MOST_ENTRIES or place.count("/") > DEEPEST:
                return "it holds more files than a run has"
            try:
                status = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
                why = _foreign(status)
                if why:
                    return f"{place}{name} in it {why}"
                if stat.S_ISDIR(status.st_mode):
                    with self.inside(name) as inside:
                        why = inside._foreign_inside(f"{place}{name}/", seen)
            except FileNotFoundError:  # removed meanwhile
                continue
            except OSError as error:
                why = f"{place}{name} in it cannot be looked at: {error.strerror}"
            if why:
                return why
        return ""


def _foreign(status: os.stat_result) -> str:
    """Problem of a folder's entry."""
    plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    if not (plain or stat.S_ISDIR(status.st_mode)):
        return "is no plain file of one name"
    return "" if status.st_uid == os.geteuid() else "belongs to another user"


def _plain(path: Path | str, flags: int, folder: int | None, most: int | None = None) -> BinaryIO:
    """A plain file, not too large, with these flags; errors name it."""
    name = Path(path).name
    try:
        descriptor = os.open(path, flags, 0o644, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, f"{name} is a link, and is not followed") from error
        raise
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and (most is None or status.st_size <= most):
        return os.fdopen(descriptor, "r+b" if flags & os.O_RDWR else "rb")
    os.close(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, f"{name} is no plain file")
    raise OSError(errno.EFBIG, f"{name} has {status.st_size:,} bytes, more than {most:,}")


@contextlib.contextmanager
def opened(place: Path | Folder) -> Iterator[Folder]:
    """A folder that is open already, or is opened as long as it is needed.

    Raises:
        OSError: It is not there, or no folder.
    """
    if isinstance(place, Folder):
        yield place
    else:
        with Folder(place) as folder:
            yield folder


def open_plain(path: Path, most: int | None = None) -> BinaryIO:
    """`Folder.open` of a file by its whole path; its folder may be reached through links.

    Raises:
        OSError: It is not there, a link, no plain file, or larger.
    """
    return _plain(path, _READ, None, most)


def read_plain(path: Path, most: int = MOST_JSON) -> bytes:
    """`Folder.read` of a file by its whole path.

    Raises:
        OSError: It is not there, a link, no plain file, or larger.
    """
    with open_plain(path, most) as file:
        return file.read(most)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """`Folder.replacing` of a file by its whole path; a link of that name gives way to the file.

    Raises:
        OSError: It cannot be written.
    """
    with Folder(path.parent) as folder, folder.replacing(path.name) as file:
        yield file

"""Locks: whether a run's recorder is still alive, and folders that one command has at a time."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from wattstep.errors import RunExistsError
from wattstep.schema.journal import HOLDER, JOURNAL, LOCK
from wattstep.store.folder import Folder, opened

MOST_WORDS: Final = 100  # bytes of a holder
PAUSES_S: Final = (0.0, 0.02, 0.1)  # whoever looks whether a folder is kept has it for microseconds


class RunLock:
    """Held by whoever writes the journals of a run, or turns them into tables.

    Two signs together: the process (number and start time) is seen from within the same process
    and survives forks of it; the POSIX lock is seen across containers that share the disk. They
    are two files, because a process loses its lock when it closes the file after looking into it.

    Args:
        run: Folder of the run.
        wait: Wait for another holder, instead of refusing.

    Raises:
        RunExistsError: Another process holds it.
    """

    def __init__(self, run: Path | Folder, *, wait: bool = False) -> None:
        with ExitStack() as undo, opened(run) as folder:
            self._journal = undo.enter_context(folder.inside(JOURNAL))
            self._file = undo.enter_context(self._journal.keep(LOCK))
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError as error:
                raise RunExistsError(
                    f"{folder.path} is being written by another process", id="being-written"
                ) from error
            with self._journal.make(HOLDER) as holder:
                holder.write(f"{os.getpid()} {_start_time(os.getpid())}".encode("ascii"))
            undo.pop_all()

    def hand_over(self) -> None:
        """Lets a child take the lock; until it has, this process still counts as the holder."""
        fcntl.lockf(self._file, fcntl.LOCK_UN)

    def release(self) -> None:
        """Lets go; the journals may be converted by anyone now."""
        self._journal.remove(HOLDER)
        self._journal.close()
        self._file.close()


def lock_folder(path: Path, name: str, who: str) -> int:
    """Keeps a folder to one command; children that are given the descriptor hold it as well.

    Args:
        path: The folder.
        name: Of the lock's file in it, which stays.
        who: What the other one is, for the error: "another sweep".

    Returns:
        A descriptor; the folder is held until all who have it closed it, or ended.

    Raises:
        RunExistsError: It is held.
        OSError: The lock cannot be made.
    """
    with Folder(path) as folder, folder.keep(name) as file:
        lock = os.dup(file.fileno())
    for pause in PAUSES_S:
        time.sleep(pause)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            held = error
        else:
            if os.fstat(lock).st_nlink:
                return lock
            os.close(lock)  # the other one took it back
            return lock_folder(path, name, who)
    os.close(lock)
    raise RunExistsError(f"{who} is writing into {path}", id="being-written") from held


def not_there(path: Path, names: Iterable[str]) -> tuple[Path, ...]:
    """What a command has to make before it does anything, for `take_back`: the folder, and those that it lies in.

    Args:
        path: The folder.
        names: Of what is made in it: the lock's file last.
    """
    made = (*(path / name for name in names), path, *path.parents)
    return tuple(each for each in made if not os.path.lexists(each))


def take_back(path: Path, names: Iterable[str], made: Iterable[Path]) -> None:
    """Removes what a command that was refused had made; a folder that holds anything else stays as it is.

    Args:
        path: The folder, held by the lock in it.
        names: As of `not_there`.
        made: What that gave.
    """
    with suppress(OSError):  # a folder in it, or one that it lies in, is not empty
        if {each.name for each in path.iterdir()} <= set(names):
            for each in made:
                if each.is_dir():
                    each.rmdir()
                else:
                    each.unlink(missing_ok=True)


def is_locked(lock: Path) -> bool:
    """True if a command keeps a folder (`lock_folder`); the lock is looked at, never made.

    Args:
        lock: The lock's file.
    """
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def is_recording(run: Path) -> bool:
    """True if a living process holds the run's lock."""
    try:
        with Folder(run) as folder, folder.inside(JOURNAL) as journal:
            return _is_held(journal) or _is_locked(journal)
    except OSError:  # no such folder, or what bears its name is a link: no recorder made that
        return False


def _is_held(journal: Folder) -> bool:
    """True if the process lives that wrote down that it holds it."""
    try:
        words = journal.read(HOLDER, MOST_WORDS).decode("ascii", errors="replace").split()
    except OSError:  # cut short while it was made, or let go
        return False
    return len(words) == 2 and words[0].isdigit() and words[1] == _start_time(words[0])


def _is_locked(journal: Folder) -> bool:
    with journal.open(LOCK) as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _start_time(pid: int | str) -> str:
    """Start of a process in clock ticks since boot (field 22 of stat), or "" if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]  # a zombie writes no further

"""Whether a run's recorder is still alive: by its process and by a lock that dies with it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from wattstep.errors import RunExistsError
from wattstep.records.journal import JOURNAL, LOCK


class RunLock:
    """Held by whoever writes the journals of a run.

    Two signs together: the process (number and start time) is seen from within the same process
    and survives forks of it; the POSIX lock is seen across containers that share the disk.
    """

    def __init__(self, run: Path) -> None:
        path = run / JOURNAL / LOCK
        self._file = path.open("a+", encoding="ascii")
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise RunExistsError(f"{run} is being written by another process") from error
        self._file.truncate(0)
        self._file.write(f"{os.getpid()} {_start_time(os.getpid())}")
        self._file.flush()

    def release(self) -> None:
        """Lets go; the journals may be converted by anyone now."""
        self._file.truncate(0)
        self._file.close()


def is_recording(run: Path) -> bool:
    """Whether a living process holds the run's lock."""
    path = run / JOURNAL / LOCK
    try:
        with path.open("r+", encoding="ascii") as file:
            words = file.read().split()
            if len(words) == 2 and words[1] == _start_time(int(words[0])):
                return True
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
    except FileNotFoundError:
        return False
    return False


def _start_time(pid: int) -> str:
    """Start of a process in clock ticks since boot (field 22 of stat), or "" where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]

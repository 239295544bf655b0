"""Leftovers of ours on a board while nobody waits: runs to be fetched, an installation, jobs that go on."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from wattstep.errors import DamagedRunError, InvalidValueError, RecordingError
from wattstep.record.hosts import parse_target
from wattstep.remote.ssh.answers import BoardJob
from wattstep.remote.ssh.board import (
    DIED,
    RESTARTED,
    BoardOptions,
    clean,
    leave_out_names,
    written_beside,
)
from wattstep.remote.ssh.install import Board, look
from wattstep.remote.ssh.job import Followed, Job, Say, complete
from wattstep.remote.ssh.ssh import Address, SshConnection
from wattstep.remote.ssh.wording import inert

_NOTES = {"restarted": f"{RESTARTED}: recorded up to then", "died": f"{DIED}: recorded up to then"}


def open_leftovers(target: str, say: Say) -> Leftovers:
    """Connects to a board.

    Args:
        target: ssh://USER@BOARD:PORT, with the options with which it was used.
        say: Takes lines for the user.

    Raises:
        WattstepError: It is no such target, cannot be reached, or refuses us.
    """
    parsed = parse_target(target)
    if parsed.scheme != "ssh":
        raise InvalidValueError(
            f"a target {parsed.scheme}:...: only boards that are reached by ssh keep anything",
            id="not-a-board",
        )
    options = BoardOptions.parse(parsed.options)
    connection = SshConnection(Address.parse(parsed.name), say=say)
    return Leftovers(connection, options, say)


class Leftovers:
    """Leftovers on a board.

    Args:
        connection: To the board; it is closed with this.
        options: How it was used.
        say: Takes lines for the user.
    """

    def __init__(self, connection: Followed, options: BoardOptions, say: Say) -> None:
        self._connection, self._options, self._say = connection, options, say

    def look(self) -> Board:
        """As it is now."""
        return look(self._connection, self._options.folder, self._options.python)

    def fetch(self, out: Path, names: Sequence[str] = ()) -> list[Path]:
        """Brings runs of jobs that have ended into a folder, and removes these jobs there.

        Args:
            out: The folder.
            names: Of the jobs; all that have ended where none is named.

        Raises:
            InvalidValueError: There is no job of that name.
            RecordingError: One that was named still runs.
        """
        board = self.look()
        jobs = {job.id: job for job in board.jobs}
        if unknown := [name for name in names if name not in jobs]:
            raise InvalidValueError(f"there is no job {unknown[0]} on the board", id="no-such-job")
        fetched = []
        for name in names or jobs:
            if jobs[name].state == "running":
                if names:
                    raise RecordingError(f"{name} still runs: fetch it when it has ended")
                self._say(f"{name} still runs")
                continue
            path = self._fetch(board, jobs[name], out)
            fetched += [] if path is None else [path]
        return fetched

    def _fetch(self, board: Board, entry: BoardJob, out: Path) -> Path | None:
        name, state, run = entry.id, entry.state, entry.run
        job = Job(self._connection, board.executable, board.folder, name)
        path = out / (run or name)
        out.mkdir(parents=True, exist_ok=True)
        job.stop(signal.SIGKILL)  # what it started may go on without it
        recorded = bool(run) and job.bring_back(path)
        leave_out_names(path, board)
        if recorded:
            try:
                complete(path, _NOTES.get(state))
            except DamagedRunError as error:
                self._say(inert(f"{path}: {error}"))
        else:
            self._say(f"{name} had recorded nothing")
        if entry.kind == "profile" and job.bring_written(written_beside(path), self._say):
            self._say(f"what the script wrote there is in {written_beside(path)}")
        job.remove()
        return path if recorded else None

    def clean(self, *, force: bool) -> None:
        """Removes everything of ours.

        Args:
            force: Also jobs that run, which are ended, and what they recorded.

        Raises:
            RecordingError: A job runs, or a run was not fetched, and it is not forced.
        """
        board = self.look()
        for job in board.jobs:
            if job.state == "running" and not force:
                raise RecordingError(
                    f"{job.id} still runs: nothing was removed; --force removes it", id="job-runs"
                )
            if job.recorded and not force:
                raise RecordingError(
                    f"{job.id} was not fetched (--fetch): nothing was removed; --force removes it",
                    id="job-not-fetched",
                )
        for job in board.jobs:
            Job(self._connection, board.executable, board.folder, job.id).remove()
        if not clean(self._connection, board, all_jobs=force):
            raise RecordingError(
                "the board is in use by another host: its installation stays there"
            )

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

"""The foreground job as seen from the training process: started, asked for frames, ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from wattstep.errors import RecordingError
from wattstep.schema.processes import readable

CHILD = Path(__file__).with_name("frames.py")
END_TIMEOUT_S = 10.0

Frame = tuple[int, int, int]


class ForegroundJob:
    """The child process; calibrated once it is entered, while the caller waits.

    It stays in the caller's session: the kernel may share the processor among sessions before it
    looks at nice values (CONFIG_SCHED_AUTOGROUP), and the two are to compete as equals.

    Attributes:
        loops: Of arithmetic in a frame.

    Raises:
        RecordingError: It cannot be started, or ends early.
    """

    loops: int

    def __enter__(self) -> ForegroundJob:
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=dict(os.environ),
            )
        except OSError as error:
            raise RecordingError(f"the foreground job cannot be started: {error}") from error
        try:
            self.loops = int(self._answer()["loops"])
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, count: int) -> None:
        """Asks for so many frames; they begin at once."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{count}\n")
            self._process.stdin.flush()
        except OSError as error:
            raise RecordingError(f"the foreground job is gone: {error}") from error

    def done(self) -> bool:
        """True if the frames are played."""
        assert self._process.stdout is not None
        return readable(self._process.stdout.fileno(), 0.0)

    def frames(self) -> list[Frame]:
        """The frames that were asked for; waits until they are played."""
        return [(begin, woken, done) for begin, woken, done in self._answer()]

    def close(self) -> None:
        """Ends it; one that does not listen is killed."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        for pipe in (process.stdin, process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:  # it ended before we did
                continue
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise RecordingError(f"the foreground job ended with exit code {code}")
        return json.loads(line)

"""A child process under a limit: what it says, what is seen of its memory, and how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final

from wattstep.schema.processes import ChildNews, News, child_command, listen, outwait
from wattstep.train.child import watchdog as watching
from wattstep.train.child.limits import Cage
from wattstep.train.child.watchdog import Watchdog

LOOK_EVERY_S: Final = 0.5  # at the child's memory: 50 µs of this process
# A step may take minutes; a child that says nothing for longer hangs.
SILENT_S = 1800.0
# Some versions of OpenBLAS ask for 32 MiB again and again, for ever, when they do not get them.
FULL_SILENT_S = 300.0
FULL_ROOM: Final = 64 * 1024**2
_TAIL: Final = 65536  # bytes of a child's output that are looked into


@dataclass(kw_only=True)
class Ending:
    """End of a child, and what was seen of it until then.

    Attributes:
        code: As `subprocess.Popen.returncode`: below 0 for a signal.
        pid: Its number.
        error: Message of its error, or None.
        kind: Name of the error's class, where it says so.
        id: Which refusal the error is, where it says so.
        problem: Why its run ended early, or None.
        interrupted: Whether the user stopped it.
        steps: Of its last news.
        last_resident: Resident memory in bytes when it was last looked at.
        peak_resident: Most resident memory that was seen, in bytes.
        hung: Whether it was ended because it said nothing for long.
        full: Whether its data segments were at their limit when they were last looked at.
        starved: Why the watchdog ended it, or None.
    """

    code: int = 0
    pid: int = 0
    error: str | None = None
    kind: str | None = None
    id: str | None = None
    problem: str | None = None
    interrupted: bool = False
    steps: int = 0
    last_resident: int | None = None
    peak_resident: int | None = None
    hung: bool = False
    full: bool = False
    starved: str | None = None

    def document(self) -> dict[str, str | None]:
        """Which error of ours it ended with, for `error_of`."""
        return {"id": self.id, "kind": self.kind}


class GuardedChild:
    """A process that works for us within its bounds, and says on a pipe where it is.

    Args:
        entry: Function that it calls, "module:function"; that finds the descriptor for its news, then
            `arguments`, from `sys.argv[1]` on.
        arguments: See `entry`.
        cage: Its limit.
        output: Where what it writes goes; our standard error where None.
        ends_with_us: Whether the kernel ends it when this process ends, however that ends.
        cores: Those that it and its children may run on; None: those that we may.
        watchdog: Ends it before the machine's memory runs out; None: none is needed.
        environment: What its environment has more than ours.
    """

    def __init__(
        self,
        entry: str,
        arguments: Sequence[str],
        cage: Cage,
        *,
        output: IO[bytes] | None = None,
        ends_with_us: bool = False,
        cores: Sequence[int] | None = None,
        watchdog: Watchdog | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        reading, writing = os.pipe()
        guard = {**cage.guard, **({"parent": os.getpid()} if ends_with_us else {})}
        guard |= {} if cores is None else {"cores": list(cores)}
        guarded = ["wattstep.train.child.guard:main", json.dumps(guard)] if guard else []
        try:
            self.process = subprocess.Popen(
                child_command(*guarded, entry, str(writing), *arguments),
                stdout=output or sys.stderr,  # what a workload prints must not land in our JSON
                stderr=output,
                pass_fds=[writing],
                env={**os.environ, **environment},
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._news = reading
        self._most_data = cage.guard.get("data")
        self._ending = Ending(pid=self.process.pid)
        self._watchdog = watchdog
        self._looked = 0.0

    def follow(self, hear: Callable[[News], None]) -> Ending:
        """Waits for its end, and passes on what it says until then."""

        def take(news: News) -> None:
            self._note(news)
            hear(news)

        every_s = LOOK_EVERY_S if self._watchdog is None else watching.LOOK_EVERY_S
        stopped = listen(self._news, take, self._look, every_s, self._interrupt)
        self._ending.code, late = outwait(self.process)
        self._ending.interrupted = stopped or late or self._ending.code == 130
        return self._ending

    def _interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def _note(self, news: ChildNews) -> None:
        """Notes the news that every child calls the same."""
        ending = self._ending
        if "progress" in news:
            ending.steps = max(ending.steps, news["progress"]["steps"])
        ending.error = news.get("error") or ending.error
        ending.kind = news.get("kind") or ending.kind
        ending.id = news.get("id") or ending.id
        ending.problem = news.get("problem") or ending.problem

    def _look(self, silent_s: float) -> None:
        """At the machine's memory, if it is watched, and now and then at its own."""
        if self._watchdog is not None and self._ending.starved is None:
            self._ending.starved = self._watchdog.look()
            if self._ending.starved is not None:
                self.process.kill()
        now = time.monotonic()
        if self._watchdog is None or now - self._looked >= LOOK_EVERY_S:
            self._looked = now
            self._look_at_its_own(silent_s)

    def _look_at_its_own(self, silent_s: float) -> None:
        """The high-water mark may be reset by its own recorder, so the most counts."""
        ending = self._ending
        with suppress(OSError):
            text = Path(f"/proc/{ending.pid}/status").read_text(encoding="utf-8")
            sizes = dict(line.split(":", 1) for line in text.splitlines() if line[:2] == "Vm")
            if "VmRSS" in sizes:
                ending.last_resident = _bytes(sizes["VmRSS"])
                ending.peak_resident = max(ending.peak_resident or 0, _bytes(sizes["VmHWM"]))
                if self._most_data is not None:
                    ending.full = _bytes(sizes["VmData"]) + FULL_ROOM > self._most_data
        if silent_s > (FULL_SILENT_S if ending.full else SILENT_S):
            ending.hung = True
            self.process.kill()


def tail(output: IO[bytes]) -> str:
    """The end of what a child wrote into a file."""
    output.seek(max(output.seek(0, os.SEEK_END) - _TAIL, 0))
    return output.read().decode("utf-8", errors="replace")


def _bytes(kilobytes: str) -> int:
    return int(kilobytes.split()[0]) * 1024

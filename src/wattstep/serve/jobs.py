"""Work that takes a while: handed to child processes, asked about again, and never done twice at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from wattstep.errors import WattstepError
from wattstep.schema.processes import child_command
from wattstep.serve.task import Task

READERS: Final = 2  # reports and comparisons that are worked out side by side
FAILED_S: Final = 30.0  # for so long a failure is told again before it is tried again
MOST_WAITING: Final = 32  # pages that are being written, or wait for it
MOST_S: Final = 600.0  # that one piece of work may take
TASKS_OF_ONE: Final = 100  # then a new child takes over: libraries give memory back at their end


class BusyError(WattstepError):
    """More is asked of the server at once than it takes on."""

    id = "too-much-asked"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of a piece of work.

    Attributes:
        done: Result of the work.
        error: Why nothing did, in words for the reader; "" where it worked.
        ended: When, in s of the monotonic clock.
    """

    done: Any
    error: str
    ended: float


class Worker:
    """A child that does one task at a time (`serving.worker`), started when there is one.

    Args:
        most_s: That a task may take.
    """

    def __init__(self, most_s: float = MOST_S) -> None:
        self._most_s = most_s
        self._late = False
        self._child: subprocess.Popen[str] | None = None
        self._tasks = 0
        self._closed = False

    def do(self, task: Task) -> Outcome:
        """Has a task done; a child that ends over it is that task's failure alone."""
        try:
            child = self._running()
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(json.dumps(task.to_dict()) + "\n")
            child.stdin.flush()
            with self._watched(child):
                line = child.stdout.readline()
            if line.endswith("\n"):
                answer = json.loads(line)
                return _outcome(answer.get("done"), answer.get("error", ""))
        except BrokenPipeError:  # it ended before it was asked
            pass
        except OSError as error:
            return _outcome(None, f"no process can be started for it: {error.strerror or error}")
        except ValueError:  # what it wrote is no answer
            return _outcome(None, "the process that read it did not answer in JSON")
        return _outcome(None, self._why_ended())

    @contextmanager
    def _watched(self, child: subprocess.Popen[str]) -> Iterator[None]:
        """Ends a child that takes too long."""
        self._late = False

        def end() -> None:
            self._late = True
            child.kill()

        timer = threading.Timer(self._most_s, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def kill(self) -> None:
        """Ends the child, whatever it is at; no other follows."""
        self._closed = True
        if self._child is not None:
            self._child.kill()

    def end(self) -> None:
        """Lets the child end by itself: nobody asks any more."""
        if self._child is not None:
            with suppress(OSError):
                self._child.communicate()
            self._child = None

    def _running(self) -> subprocess.Popen[str]:
        if self._closed:
            raise OSError("the server is ending")
        if self._child is not None and self._tasks >= TASKS_OF_ONE:
            self.end()
        if self._child is None or self._child.poll() is not None:
            self.end()
            self._child = subprocess.Popen(
                child_command("wattstep.serve.worker:main"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="ascii",
                env=dict(os.environ),
            )
            self._tasks = 0
        self._tasks += 1
        return self._child

    def _why_ended(self) -> str:
        assert self._child is not None
        code = self._child.wait()
        self.end()
        if self._late:
            return f"it took longer than {self._most_s:g} s: ask for fewer runs at once"
        if code == -signal.SIGKILL and not self._closed:
            return "the process that read it was killed: probably there is not enough memory"
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"the process that read it ended ({how})"


class JobQueue:
    """Work of one kind, done in order by as many children as it is given.

    Args:
        children: Number of processes.
        on_done: Called after each piece of work.
        most: Pieces of work that it takes on at once; None: any number.
    """

    def __init__(
        self, children: int, on_done: Callable[[], None] = lambda: None, most: int | None = None
    ) -> None:
        self._most = most
        self._told = on_done
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[Outcome]] = {}
        self._ended: dict[str, Outcome] = {}
        self._free = [Worker() for _ in range(children)]
        self._workers = tuple(self._free)
        self._threads = ThreadPoolExecutor(children, thread_name_prefix="wattstep-reader")

    def ask(self, key: str, task: Task) -> Future[Outcome]:
        """Has it done once, however many ask meanwhile.

        Args:
            key: Key that equal work shares.
            task: For `serving.worker`.

        Raises:
            BusyError: It has as much to do as it takes on.
        """
        with self._lock:
            future = self._under_way.get(key)
            if future is None and self._most is not None and len(self._under_way) >= self._most:
                raise BusyError(
                    f"{len(self._under_way)} pages are being written already: ask again in a minute"
                )
            if future is None:
                future = self._threads.submit(self._do, key, task)
                self._under_way[key] = future
            return future

    def failed(self, key: str) -> str:
        """Error of a job that failed not long ago, or ""."""
        with self._lock:
            outcome = self._ended.get(key)
            if outcome is None or time.monotonic() - outcome.ended > FAILED_S:
                return ""
            return outcome.error

    def _do(self, key: str, task: Task) -> Outcome:
        with self._lock:
            worker = self._free.pop()
        try:
            outcome = worker.do(task)
        finally:
            with self._lock:
                self._free.append(worker)
        with self._lock:
            del self._under_way[key]
            self._ended = {
                k: o for k, o in self._ended.items() if o.ended > outcome.ended - FAILED_S
            }
            if outcome.error:
                self._ended[key] = outcome
        self._told()
        return outcome

    def close(self) -> None:
        """Ends what is under way."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown(wait=True)
        for worker in self._workers:
            worker.end()


def _outcome(done: Any, error: str) -> Outcome:
    return Outcome(done=done, error=error, ended=time.monotonic())

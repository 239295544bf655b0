"""A trainer in a process of its own, and what is seen of it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S, gone

TRAINER = Path(__file__).with_name("trainer.py")


class Trainer:
    """The script at work."""

    def __init__(
        self,
        run: Path,
        steps: int,
        kind: str = "sleep",
        interval: str = "10ms",
        target: str = "local",
    ) -> None:
        self.run = run
        self.process = subprocess.Popen(
            [sys.executable, str(TRAINER), str(run), str(steps), kind, interval, target],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.last = (-1, 0)  # index and end of the last step that was told

    def step(self) -> tuple[int, int]:
        """Waits for the next step: its index, and a time just after its end."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read() if self.process.stderr else ""
        index, t_ns = line.split()
        self.last = (int(index), int(t_ns))
        return self.last

    def until(self, seconds: float) -> None:
        """Waits for so much training."""
        _, begin = self.step()
        while self.step()[1] < begin + seconds * 1e9:
            pass

    def sampled(self) -> dict[str, int]:
        """Bytes of each journal of samples."""
        return {path.name: path.stat().st_size for path in self.run.glob("journal/samples-*.bin")}

    def until_sampled(self, before: dict[str, int]) -> None:
        """Waits until each journal of samples is longer than before; the training goes on."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            self.step()
            now = self.sampled()
            if now and all(size > before.get(name, 0) for name, size in now.items()):
                return
        raise AssertionError(f"journals did not grow: {self.sampled()}")

    def sampler(self) -> int:
        """The sampler's process."""
        return self._child(b"child.py")

    def until_other(self, *pids: int) -> int:
        """The sampler's process, as soon as it is none of these; the training goes on."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            self.step()
            found = [pid for pid in self._children(b"child.py") if pid not in pids]
            if found and not gone(found[0]):
                return found[0]
        raise AssertionError("it was not started again")

    def collector(self) -> int:
        """The process that runs feeds."""
        return self._child(b"collector_child")

    def _child(self, words: bytes) -> int:
        (found,) = self._children(words)
        return found

    def _children(self, words: bytes) -> list[int]:
        """Children are listed by the thread that started them."""
        found = []
        for path in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # a thread that has ended, or a child
                for child in path.read_text().split():
                    if words in Path(f"/proc/{child}/cmdline").read_bytes():
                        found.append(int(child))
        return found

    def finish(self) -> tuple[int, str, str]:
        """Exit code, last line of standard output, standard error."""
        out, err = self.process.communicate(timeout=600)
        return self.process.returncode, (out.splitlines() or [""])[-1], err


@pytest.fixture
def trainer() -> Iterator[Callable[..., Trainer]]:
    started: list[Trainer] = []

    def start(*args: object, **kwargs: object) -> Trainer:
        started.append(Trainer(*args, **kwargs))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()

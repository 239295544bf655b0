"""The figures of the list, worked out beside it, one run after another, and kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from wattstep.schema.figures import Metrics
from wattstep.serve.cache import Cache
from wattstep.serve.jobs import JobQueue, Outcome
from wattstep.serve.store_view import Entry, stamp_of
from wattstep.serve.task import Task


@dataclass(frozen=True, kw_only=True)
class Worked:
    """Figures of a run for the list.

    Attributes:
        steps: Number of steps; None where there is a problem.
        metrics: Those that the list shows.
        problem: Why there is nothing, or "".
    """

    steps: int | None = None
    metrics: Metrics = field(default_factory=Metrics)
    problem: str = ""

    @classmethod
    def of(cls, done: Mapping[str, Any]) -> Worked:
        """From the answer of a worker (`serve.worker`)."""
        return cls(steps=done.get("steps"), metrics=Metrics.from_dict(done))

    def document(self) -> dict[str, Any] | None:
        """JSON-ready; None where there is a problem."""
        if self.problem:
            return None
        figures = {name: figure.to_dict() for name, _, figure in self.metrics.each()}
        return {"steps": self.steps, **figures}


class Figures:
    """Figures of the runs of a list, computed in the background.

    Args:
        cache: Where figures outlive the server.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._line = JobQueue(1)
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Worked] = {}
        self._asked: set[tuple[str, str]] = set()

    def known(self, entry: Entry) -> Worked | None:
        """Figures of a run; None: nothing yet."""
        with self._lock:
            return self._known.get((entry.id, entry.stamp))

    @property
    def waiting(self) -> int:
        """Number of runs whose figures are still to come."""
        with self._lock:
            return len(self._asked)

    def want(self, entries: Iterable[Entry]) -> None:
        """Has the figures of these runs looked up or worked out, in this order."""
        for entry in entries:
            key = (entry.id, entry.stamp)
            with self._lock:
                if key in self._known or key in self._asked:
                    continue
                self._asked.add(key)
            path = self._cache.place("figures", [entry])
            if (data := self._cache.find(path)) is not None:
                self._take(key, Worked.of(json.loads(data)))
                continue
            task = Task(task="figures", paths=[str(entry.path)])
            future = self._line.ask(path.name, task)
            future.add_done_callback(partial(self._done, entry, path))

    def _done(self, entry: Entry, path: Path, future: Future[Outcome]) -> None:
        key = (entry.id, entry.stamp)
        if future.cancelled() or future.exception() is not None:
            with self._lock:
                self._asked.discard(key)
            return
        outcome = future.result()
        if stamp_of(entry) != entry.stamp:  # other files were read, or none; these may come back
            with self._lock:
                self._asked.discard(key)
            return
        if outcome.error:
            self._take(key, Worked(problem=outcome.error))
            return
        self._cache.keep(path, outcome.done)
        self._take(key, Worked.of(outcome.done))

    def _take(self, key: tuple[str, str], worked: Worked) -> None:
        with self._lock:
            self._known[key] = worked
            self._asked.discard(key)

    def close(self) -> None:
        """Ends what is under way."""
        self._line.close()

"""The figures of the list, worked out beside it, one run after another, and kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from wattstep.serving.kept import Kept
from wattstep.serving.making import Line, Outcome
from wattstep.serving.store_view import Entry


class Figures:
    """What is known of the runs of a list.

    Args:
        kept: Where figures outlive the server.
    """

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._line = Line(1)
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._asked: set[tuple[str, str]] = set()

    def known(self, entry: Entry) -> Mapping[str, Any] | None:
        """`{"steps", "step_time", "energy_per_step"}`, or `{"problem"}`; None: not known yet."""
        with self._lock:
            return self._known.get((entry.id, entry.stamp))

    def want(self, entries: Iterable[Entry]) -> None:
        """Has the figures of these runs looked up or worked out, in this order."""
        for entry in entries:
            key = (entry.id, entry.stamp)
            with self._lock:
                if key in self._known or key in self._asked:
                    continue
                self._asked.add(key)
            path = self._kept.place("figures", [entry])
            if (data := self._kept.find(path)) is not None:
                self._take(key, json.loads(data))
                continue
            task = {"task": "figures", "paths": [str(entry.path)]}
            future = self._line.ask(path.name, task)
            future.add_done_callback(partial(self._done, key, path))

    def _done(self, key: tuple[str, str], path: Path, future: Future[Outcome]) -> None:
        if future.cancelled() or future.exception() is not None:
            with self._lock:
                self._asked.discard(key)
            return
        outcome = future.result()
        if outcome.error:
            self._take(key, {"problem": outcome.error})
            return
        self._kept.keep(path, outcome.done)
        self._take(key, outcome.done)

    def _take(self, key: tuple[str, str], found: Mapping[str, Any]) -> None:
        with self._lock:
            self._known[key] = found
            self._asked.discard(key)

    def close(self) -> None:
        """Ends what is under way."""
        self._line.close()

"""The lines of the list: what each shows, which of them are asked for, and in what order."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from wattstep.report.values import Shown, plain, quantity, show
from wattstep.schema.figure import Figure
from wattstep.serve.figures import Worked
from wattstep.serve.store_view import Entry

LONGEST: Final = 200  # characters of a name in the list; its page has all of it
WAITING: Final = "not worked out yet"
PAUSED: Final = "waits until nothing in the store is being recorded, so as not to disturb it"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the list.

    Attributes:
        entry: Entry of the store.
        title: Title of the entry.
        batch: Its batch size, as text.
        engine: With its version.
        created: When it began, as text.
        seconds: Time when it began, in s, for sorting.
        steps: Number of steps, as text.
        count: Number of steps, for sorting.
        step_time: As text and number, or None.
        energy: Energy of a step, as text and number, or None.
        why: Why there are no figures, or "".
        state: Of the entry, or "damaged" where its tables turned out to be.
        problem: Why it is damaged or outside.
        size: On the disk, as text.
        pending: True if its figures are still to come.
    """

    entry: Entry
    title: str
    batch: str
    engine: str
    created: str
    seconds: float
    steps: str
    count: int | None
    step_time: Shown | None
    energy: Shown | None
    why: str
    state: str
    problem: str
    size: str
    pending: bool

    @property
    def digest(self) -> str:
        """Changes with what the line shows."""
        return hashlib.sha256(repr(self).encode("utf-8", "replace")).hexdigest()[:16]


def row_of(entry: Entry, figures: Worked | None, parts: int, *, paused: bool, root: str) -> Row:
    """The line of an entry.

    Args:
        entry: Entry of the store.
        figures: Figures of the run; None: nothing yet.
        parts: Number of runs in it, where it is a sweep or a daily training.
        paused: True if figures wait for a recording.
        root: The store, which is left out of what is said.
    """
    worked = figures or Worked()
    problem = plain((worked.problem or entry.problem).replace(f"{root}/", ""))
    state = "damaged" if worked.problem else entry.state
    pending = entry.kind == "run" and entry.readable and figures is None
    created, seconds = _time(entry.created)
    steps = worked.steps
    return Row(
        entry=entry,
        title=shortened(_title(entry, parts)),
        batch=shortened(_text(entry.facts.batch_size if entry.facts else None)),
        engine=shortened(_text(entry.facts.engine if entry.facts else None)),
        created=created,
        seconds=seconds,
        steps="" if steps is None else f"{steps:,}",
        count=steps,
        step_time=_shown(worked.metrics.figure("step_time")),
        energy=_shown(worked.metrics.figure("energy_per_step")),
        why=_why(entry, pending, paused),
        state=state,
        problem=shortened(problem, 3 * LONGEST),
        size=quantity(float(entry.size), "B"),
        pending=pending and entry.state != "recording",
    )


def _title(entry: Entry, parts: int) -> str:
    runs = f"{parts} run{'' if parts == 1 else 's'}"
    if entry.kind == "sweep":
        return f"Sweep of {runs}"
    if entry.kind == "daily":
        return f"Daily training, {runs}"
    return entry.title or plain(entry.path.name)


def _why(entry: Entry, pending: bool, paused: bool) -> str:
    if entry.state == "recording":
        return "it is still being recorded"
    if entry.state == "not closed":
        return "it was never closed: recover it first"
    if pending:
        return PAUSED if paused else WAITING
    return ""


def _text(thing: object) -> str:
    return "" if thing is None else plain(thing)


def _shown(figure: Figure | None) -> Shown | None:
    return None if figure is None else show(figure)


def _time(text: object) -> tuple[str, float]:
    """When a run began, for reading and for sorting; what is no time stays as it is."""
    try:
        when = datetime.strptime(str(text), "%Y-%m-%dT%H:%M:%S%z")
        return when.strftime("%Y-%m-%d %H:%M"), when.timestamp()
    except (ValueError, OverflowError):
        return shortened(_text(text), 30), -math.inf


def shortened(text: str, most: int = LONGEST) -> str:
    """Text that leaves room for others."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


# --- which, and in what order -------------------------------------------------------------------

Key = Callable[[Row], Any]
TEXTS: Final[Mapping[str, Key]] = {
    "title": lambda row: row.title.lower(),
    "place": lambda row: row.entry.place.lower(),
    "engine": lambda row: row.engine.lower(),
    "device": lambda row: row.entry.device.lower(),
    "state": lambda row: row.state,
}
NUMBERS: Final[Mapping[str, Key]] = {
    "batch": lambda row: float(row.batch) if row.batch.isdecimal() else None,
    "date": lambda row: None if row.seconds == -math.inf else row.seconds,
    "steps": lambda row: row.count,
    "time": lambda row: row.step_time.number if row.step_time else None,
    "energy": lambda row: row.energy.number if row.energy else None,
    "size": lambda row: row.entry.size,
}
DEFAULT_SORT: Final = "-date"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """Filter and order of the list.

    Attributes:
        words: All of them must be in what a line says.
        state: Only lines in this state; "" for all.
        sort: A column; with "-" before it, the largest first.
    """

    words: str = ""
    state: str = ""
    sort: str = DEFAULT_SORT


def wish_of(parameters: Mapping[str, str]) -> Wish:
    """From the address of a page; what makes no sense in it is left out."""
    sort = parameters.get("sort", "")
    known = sort.removeprefix("-") in (*TEXTS, *NUMBERS)
    return Wish(
        words=parameters.get("q", "")[:LONGEST],
        state=parameters.get("state", "")[:LONGEST],
        sort=sort if known else DEFAULT_SORT,
    )


def chosen(rows: Iterable[Row], wish: Wish) -> list[Row]:
    """The lines that a page shows."""
    words = wish.words.lower().split()
    matching = [
        row
        for row in rows
        if (not wish.state or row.state == wish.state)
        and all(word in _searched_text(row) for word in words)
    ]
    return ordered(matching, wish.sort)


def ordered(rows: Sequence[Row], sort: str) -> list[Row]:
    """By a column; what has nothing in it comes last either way."""
    name, down = sort.removeprefix("-"), sort.startswith("-")
    by_place = sorted(rows, key=lambda row: row.entry.place)
    if name in TEXTS:
        return sorted(by_place, key=TEXTS[name], reverse=down)
    key = NUMBERS[name]
    having = [row for row in by_place if key(row) is not None]
    lacking = [row for row in by_place if key(row) is None]
    return [*sorted(having, key=key, reverse=down), *lacking]


def _searched_text(row: Row) -> str:
    parts = (row.title, row.entry.place, row.engine, row.entry.device, row.state, row.entry.kind)
    return " ".join(parts).lower()


class Versions:
    """Versions of the list, and the lines that changed since somebody last looked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self._seen: dict[str, tuple[str, int]] = {}
        self._gone: dict[str, int] = {}

    def update(self, rows: Iterable[Row]) -> int:
        """Takes note of all lines as they are; the number of this state of the list."""
        with self._lock:
            following, changed = self._now + 1, False
            digests = {row.entry.id: row.digest for row in rows}
            for id, digest in digests.items():
                if self._seen.get(id, ("", 0))[0] != digest:
                    self._seen[id] = (digest, following)
                    self._gone.pop(id, None)
                    changed = True
            for id in [id for id in self._seen if id not in digests]:
                del self._seen[id]
                self._gone[id] = following
                changed = True
            self._now = following if changed else self._now
            return self._now

    def since(self, version: int) -> tuple[set[str], list[str]]:
        """Ids of lines that are new or other since then, and of those that are gone."""
        with self._lock:
            changed = {id for id, (_, when) in self._seen.items() if when > version}
            return changed, [id for id, when in self._gone.items() if when > version]

"""Figures of runs as rows of tables: worked out by the run itself, and kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Final

from wattstep.errors import DamagedRunError
from wattstep.querying.places import Place
from wattstep.records.failures import contained
from wattstep.store.cache import cached

AT_ONCE: Final = 2  # much of a run is worked out outside of Python's lock; more would take memory
Rows = dict[str, list[dict[str, Any]]]
# Which part of a document is which table, and the columns that say what a row is of.
PARTS: Final = {
    "operation_table": ("operations", ("name", "kind", "layer", "phase")),
    "layers": ("layers", ("layer",)),
    "phases": ("phases", ("phase",)),
}


def figures(
    places: Sequence[Place], told: Callable[[str], None]
) -> tuple[Rows, list[tuple[Place, str]]]:
    """The rows of all tables of figures, and the runs that have none, with the reason.

    Args:
        places: Runs that can be read.
        told: Called with a line of progress for each run that is to be worked out.
    """

    def one(place: Place) -> Rows | str:
        try:
            return _rows_of(place, told)
        except DamagedRunError as error:
            return str(error)
        except Exception as error:
            return f"it failed: {contained(error)}"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(one, places))
    merged: Rows = {}
    unreadable = []
    for place, rows in zip(places, found, strict=True):
        if isinstance(rows, str):
            unreadable.append((place, rows))
            continue
        for table, of_run in rows.items():
            merged.setdefault(table, []).extend({"run": place.name, **row} for row in of_run)
    return merged, unreadable


def rows_of(document: Mapping[str, Any]) -> Rows:
    """The rows of a document of a run, by table.

    Args:
        document: As `Run.document` gives it.
    """
    rows: Rows = {"metrics": [], "rests": [], "rests_outside_steps": []}
    for name, part in document["metrics"].items():
        for key, figure in _figures_in(part):
            rows["metrics"].append({"metric": name, "key": ".".join(key) or None, **figure})
    for table, (part, keys) in PARTS.items():
        rows[table] = [
            {**{key: row[key] for key in keys}, **of}
            for row in document[part]
            for of in _quantities(row)
        ]
    for table in ("rests", "rests_outside_steps"):
        for rest, quantities in document[table].items():
            rows[table].extend({"rest": rest, **of} for of in _quantities(quantities))
    return rows


def _quantities(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row of each figure; of a mapping of them, as the energy by rail, "energy_by_rail.NAME"."""
    for key, figure in _figures_in(row):
        yield {"quantity": ".".join(key), **figure}


def _figures_in(part: Any, key: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Figures in lists (one a core) and mappings (one a category), each with where it is."""
    if _is_figure(part):
        yield key, part
    elif isinstance(part, Mapping):
        for name, inner in part.items():
            yield from _figures_in(inner, (*key, str(name)))
    elif isinstance(part, list):
        for number, inner in enumerate(part):
            yield from _figures_in(inner, (*key, str(number)))


def _is_figure(thing: Any) -> bool:
    return isinstance(thing, Mapping) and {"value", "unit", "status"} <= thing.keys()


def _rows_of(place: Place, told: Callable[[str], None]) -> Rows:
    def compute() -> Rows:
        from wattstep.run import load  # half a second of imports, where nothing was kept

        told(f"working out {place.name}")
        return rows_of(load(place.path).document())

    name = hashlib.sha256(os.fsencode(place.path.resolve())).hexdigest()[:20]
    rows: Rows = cached(f"figures-{name}", _key(place.path), compute)
    return rows


def _key(run: Path) -> str:
    """What changes with any file of a run, and with the code that works it out."""
    files = sorted(
        (entry.name, entry.stat().st_mtime_ns, entry.stat().st_size)
        for entry in os.scandir(run)
        if entry.is_file()
    )
    return json.dumps([_code(), files], ensure_ascii=True)


@cache
def _code() -> list[Any]:
    """Version of wattstep, and when its code changed last: a checkout changes without its version."""
    package = Path(__file__).parents[1]
    changed = max(path.stat().st_mtime_ns for path in package.rglob("*.py"))
    version = (package / "__init__.py").read_text(encoding="utf-8")
    return [re.findall(r'__version__ = "(.+)"', version), changed]

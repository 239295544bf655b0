"""Runs of every sort that an earlier version wrote, and the figures that it told of them.

`python -m tests.records.kept_runs` writes the figures anew, where a rule was found wrong: the changelog
then says which.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import wattstep

KEPT = Path(__file__).parents[1] / "fixtures" / "runs" / "kept"
NAMES = sorted(path.stem for path in KEPT.glob("*.zip"))
TABLES = ("metrics", "phases", "rests", "layers", "operations")
MOST_ROWS = 12  # of a table: the first ones, in its own order
NUMBERS = ("value", "low", "high")


def figures_of(name: str, folder: Path) -> dict[str, dict[str, Any]]:
    """The figures that are told of a kept run, by their place.

    Args:
        name: Of the run.
        folder: An empty one, in which it is opened: a run that was never closed is closed by that.
    """
    shutil.unpack_archive(KEPT / f"{name}.zip", folder)
    document = wattstep.load(folder / name).document()
    assert document["failures"] == []
    return {
        place: {key: figure[key] for key in (*NUMBERS, "unit", "status")}
        for table in TABLES
        for place, figure in _figures(document[table], table)
    }


def _figures(thing: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(thing, Mapping):
        if {"value", "unit", "status"} <= thing.keys():
            yield place, thing
            return
        named = [str(thing[key]) for key in ("name", "layer", "phase") if thing.get(key)]
        for key, part in thing.items():
            yield from _figures(part, "/".join([place, *named, key]))
    elif isinstance(thing, list):
        for part in thing[:MOST_ROWS]:
            yield from _figures(part, place)


def expected(name: str) -> dict[str, dict[str, Any]]:
    """The figures that stand beside a kept run."""
    found: dict[str, dict[str, Any]] = json.loads((KEPT / f"{name}.json").read_text())
    return found


if __name__ == "__main__":
    for each in NAMES:
        with tempfile.TemporaryDirectory() as scratch:
            found = figures_of(each, Path(scratch))
        lines = (f"{json.dumps(place)}: {json.dumps(figure)}" for place, figure in found.items())
        (KEPT / f"{each}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")

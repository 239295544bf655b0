"""Every command on recorded runs, within this process, and what each answer has to be."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import wattstep

from wattstep.schema.figure import Status

FORMATS = ("perfetto", "chrome", "csv", "parquet")
FIGURE_TABLES = ("metrics", "operation_table", "layers", "phases", "rests")
TABLES = ("runs", "channels", "steps", "samples", "operations", "damaged", *FIGURE_TABLES)
# Numbers with a unit that are no figures: what a user or the paper said.
SAID = ("published", "ambient")
NO_NUMBER = re.compile(r"(?<![\w-])[-+]?(nan|inf)(?![\w-])", re.IGNORECASE)


class Told:
    """What a command printed."""

    def __init__(self, out: str, err: str) -> None:
        self.out, self.err = out, err

    @property
    def document(self) -> Any:
        """Its JSON, in which no number is infinite or none."""
        return json.loads(self.out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))


Caller = Callable[..., Told]


def call(*arguments: object, code: int = 0) -> Told:
    """What a command says; it ends with this exit code, and no part of it failed inside."""
    done = wattstep(*arguments)
    told = Told(done.stdout, done.stderr)
    assert done.returncode == code, (arguments, told.err)
    assert "Traceback" not in told.out + told.err
    assert "failed inside" not in told.out + told.err, told.err
    if "--json" not in arguments:
        assert not NO_NUMBER.search(told.out), (arguments, NO_NUMBER.search(told.out))
    return told


class Words(HTMLParser):
    """The text of a page, without its scripts and style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.feed(page)

    def handle_data(self, data: str) -> None:
        if self.cdata_elem is None:
            self.words.append(data)


def ask_all(call: Caller, folder: Path, scratch: Path) -> None:
    """Every command that reads runs, on a run or on a folder of them: whole answers, and no failure."""
    runs = [folder] if (folder / "run.json").exists() else sorted(folder.iterdir())
    page = scratch / "report.html"
    for command in (
        ("report", folder, "-o", page, "-q", "--json"),
        ("explain", folder, "-q", "--json"),
        ("observe", folder, "-q", "--json"),
    ):
        check(call(*command).document)
    assert not NO_NUMBER.search(" ".join(Words(page.read_text(encoding="utf-8")).words))
    for run in runs:
        assert call("runs", "show", run, "--json").document["run.json"]["schema_version"] == 1
        call("runs", "show", run)
    for table in TABLES:
        rows = call("query", f"SELECT * FROM {table}", "--runs", folder, "-q", "--json").document
        assert not rows["left_out"]
        if table in FIGURE_TABLES:
            names = [column["name"] for column in rows["columns"]]
            for row in rows["rows"]:
                check_figure(row if isinstance(row, dict) else dict(zip(names, row, strict=True)))
    for to in FORMATS:
        out = call("export", folder, "--to", to, "-o", scratch / f"to-{to}", "-q", "--json")
        assert len(out.document["exports"]) == len(runs)


def check(document: Any) -> None:
    """No part failed, and every figure is one."""
    assert document.get("failures") == [], document.get("failures")
    assert not document.get("damaged")
    for place, figure in figures(document):
        assert figure.keys() >= {"unit", "status"}, place
        check_figure(figure)


def figures(thing: Any, place: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Whatever holds a value, with its place."""
    if isinstance(thing, Mapping):
        if "value" in thing:
            yield place, thing
        for key, part in thing.items():
            if key not in SAID:
                yield from figures(part, f"{place}/{key}")
    elif isinstance(thing, list):
        for number, part in enumerate(thing):
            yield from figures(part, f"{place}/{number}")


def check_figure(figure: Mapping[str, Any]) -> None:
    """A number with unit and status inside of its interval; or none, with the reason."""
    assert figure["unit"], figure
    status = Status(figure["status"])
    numbers = [figure.get(key) for key in ("low", "value", "high")]
    if status is Status.MISSING:
        assert numbers[1] is None, figure
        assert figure["reason"], figure
        return
    assert all(number is None or math.isfinite(number) for number in numbers), figure
    low, value, high = numbers
    assert value is not None, figure
    room = 1e-9 * abs(value)
    assert low is None or low <= value + room, figure
    assert high is None or high >= value - room, figure

"""Every figure in the page equals the figure of `--json` to the digits shown, with status and interval."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from tests.command_line import wattstep
from tests.reports import synthetic
from tests.reports.pages.tree import Element, tree, unpacked

from wattstep.report.html.report import render_report
from wattstep.report.json_document import dump
from wattstep.schema.figure import Status

FIXTURES = Path(__file__).parents[2] / "fixtures"
OLD_RUN = FIXTURES / "runs" / "schema-1"
TRACE = FIXTURES / "traces" / "kineto_gpu_simple_add.json.gz"

PREFIXES = {"p": 1e12, "n": 1e9, "µ": 1e6, "m": 1e3, "": 1.0, "k": 1e-3, "M": 1e-6, "G": 1e-9,
            "T": 1e-12, "P": 1e-15}  # fmt: skip
UNITS = ("s", "J", "W", "B", "Hz", "FLOP", "B/s", "FLOP/s", "V", "A")
NUMBER = r"-?[\d,]*\.?\d+(?:e[+-]\d+)?"
# Where numbers with a unit may stand that are no figures: sentences, whose numbers are compared
# with the document below; settings and facts of the machine, which are no results; how a figure
# came about (detail), and why there is none (reasons). What the paper published, and what its figures
# are drawn from, stands in no run's document; nor does the timeline.
SENTENCES = ("summary", "lead", "cautions", "note")
NO_FIGURES = (
    "facts",
    "chips",
    "legend",
    "texts",
    "settings",
    "detail",
    "reasons",
    "unknown",
    "paper",
    "lanes",
)


class Report:
    """A page and the document that `--json` prints of the same runs."""

    def __init__(self, page: str, document: str) -> None:
        self.root = tree(page)
        self.document = json.loads(document)
        self.charts = unpacked(
            next(e for e in self.root.all() if e.attributes.get("id") == "charts").text
        )

    @property
    def figures(self) -> list[Element]:
        return [each for each in self.root.all() if "data-figure" in each.attributes]

    def at(self, pointer: str) -> dict[str, Any]:
        """What a JSON pointer leads to, as RFC 6901 says in fragments of addresses."""
        found = self.document
        for step in unquote(pointer, errors="surrogatepass").split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            found = found[int(key)] if isinstance(found, list) else found[key]
        return found


def synthetic_report() -> Report:
    """Every status, and in each the figure of a metric and of an operation."""
    document = synthetic.document()
    for number, status in enumerate(Status):
        value = None if status is Status.MISSING else 1.23456e-3 * (number + 1)
        figure = synthetic.figure(
            value, "s", status.value, None if value is None else 0.9 * value,
            None if value is None else 1.1 * value, systematic=0.03,
        )  # fmt: skip
        if value is None:
            figure["reason"] = "no clock/~ & <nothing>"
        document["metrics"][f"a/strange~name {status.value}"] = figure
        document["operations"][number]["time"] = figure
    other = synthetic.document(title="ResNet", operations=document["operations"] * 25)
    runs = [document, other]
    stream = io.StringIO()
    dump({"runs": runs}, stream)
    reported = [synthetic.reported(document=each, timeline=synthetic.timeline()) for each in runs]
    return Report(render_report(reported), stream.getvalue())


def reported(folder: Path, *runs: Path) -> Report:
    """The report that the command line writes, and what it prints meanwhile."""
    page = folder / "report.html"
    done = wattstep("report", *runs, "-o", page, "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    return Report(page.read_text(encoding="utf-8"), done.stdout)


def recorded_report(folder: Path) -> Report:
    run = folder / "recorded"
    shutil.copytree(OLD_RUN, run)
    return reported(folder, run)


def imported_report(folder: Path) -> Report:
    run = folder / "imported"
    done = wattstep("import", "--trace", TRACE, "--out", run, "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    return reported(folder, *(Path(each["run"]) for each in json.loads(done.stdout)["runs"]))


@pytest.fixture(scope="module", params=["synthetic", "recorded", "imported"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Report:
    if request.param == "synthetic":
        return synthetic_report()
    folder = tmp_path_factory.mktemp(request.param)
    return recorded_report(folder) if request.param == "recorded" else imported_report(folder)


def factor_of(suffix: str, unit: str) -> float:
    """What the number of the document is multiplied with to stand before this unit in the page."""
    if suffix == "%":
        assert unit == "ratio"
        return 100.0
    if suffix in ("", "×"):
        assert unit in ("", "1", "count", "ratio"), unit
        return 1.0
    if suffix == unit:
        return 1.0
    assert suffix.endswith(unit), (suffix, unit)
    return PREFIXES[suffix.removesuffix(unit)]


def check_digits(written: str, number: float | None, factor: float) -> None:
    """The number as it is written is the number of the document, rounded to its digits."""
    if number is None:  # JSON has no infinity
        assert "∞" in written
        return
    decimals = len(written.partition(".")[2]) if "e" not in written else 12
    exact = number * factor
    assert float(written.replace(",", "")) == pytest.approx(
        exact, abs=0.500001 * 10.0**-decimals, rel=5e-3 if "e" in written else 1e-12
    ), (written, number)


def check(figure: dict[str, Any], text: str) -> None:
    """The text of an element says value, unit and interval of a figure."""
    found = re.match(rf"(?:(≈|~) )?({NUMBER})(?: (%|×|[^\s\d(]+))?", text)
    assert found is not None, text
    mark, value, suffix = found.groups()
    suffix = "" if suffix is None or suffix in {each.value for each in Status} else suffix
    factor = factor_of(suffix, figure["unit"])
    check_digits(value, figure["value"], factor)
    assert (mark == "≈") == (figure["status"] == "modelled")
    assert (mark == "~") == (figure["status"] == "predicted")
    ends = re.search(rf"({NUMBER}|-?∞) to ({NUMBER}|∞)", text[found.end() :])
    if figure.get("low") is None and figure.get("high") is None:
        assert ends is None, text
        return
    assert ends is not None, text
    check_digits(ends[1], figure["low"], factor)
    check_digits(ends[2], figure["high"], factor)


def heading_of(cell: Element) -> Element | None:
    """The heading of the column of a cell of a table."""
    row = next((each for each in cell.above if each.tag == "tr"), None)
    if cell.tag not in ("td", "th") or row is None:
        return None
    table = next(each for each in cell.above if each.tag == "table")
    cells = [each for each in row.children if isinstance(each, Element)]
    return table.find("thead")[0].find("th")[cells.index(cell)]


def test_every_figure_equals_that_of_the_document_to_the_digits_shown(report: Report) -> None:
    checked = 0
    for element in report.figures:
        figure = report.at(element.attributes["data-figure"])
        if figure["value"] is None:
            continue
        check(figure, element.text)
        checked += 1
    assert checked > 30


def test_what_is_missing_says_so_with_its_reason_and_no_number(report: Report) -> None:
    for element in report.figures:
        figure = report.at(element.attributes["data-figure"])
        if figure["value"] is not None:
            continue
        around = next(e for e in element.above if e.tag in ("td", "div", "li"))
        assert "missing" in around.text
        assert figure["reason"] in around.text + around.attributes.get("title", "")
        assert "data-number" not in element.attributes


def test_every_figure_shows_its_status(report: Report) -> None:
    seen = set()
    for element in report.figures:
        status = report.at(element.attributes["data-figure"])["status"]
        heading = heading_of(element)
        around = next(e for e in element.above if e.tag in ("td", "div", "li"))
        shown = around.text + (heading.text if heading else "")
        assert status in shown, element.attributes
        marked = {element.attributes.get("data-status")}
        marked |= {heading.attributes.get("data-status")} if heading else set()
        assert status in marked
        seen.add(status)
    assert seen >= {"measured", "attributed"} or "replayed" in seen


def test_the_exact_numbers_behind_a_figure_are_those_of_the_document(report: Report) -> None:
    for element in report.figures:
        figure = report.at(element.attributes["data-figure"])
        heading = heading_of(element)
        for name, key in (("data-number", "value"), ("data-low", "low"), ("data-high", "high")):
            written = element.attributes.get(name)
            assert (None if written is None else float(written)) == figure.get(key)
        unit = element.attributes.get("data-unit") or (heading and heading.attributes["data-unit"])
        assert unit == figure["unit"]


def test_rows_that_the_browser_adds_equal_the_document_too(report: Report) -> None:
    blocks = [e for e in report.root.find("script") if "rows" in e.classes]
    for block in blocks:
        more = unpacked(block.text)
        for row, place in enumerate(more["places"]):
            for column in more["columns"]:
                if isinstance(column, list) or not column["value"][row]:
                    continue
                pointers = column["figure"]
                whole = pointers[row] if isinstance(pointers, list) else place + pointers
                figure = report.at(whole)
                told = {k: v[row] for k, v in column.items() if isinstance(v, list) and v[row]}
                assert (float(told["number"]) if "number" in told else None) == figure["value"]
                if figure["value"] is not None:
                    check(figure, f"{told['value']} ({told.get('interval', '')})")
                else:
                    assert told["title"] == figure["reason"]
    assert blocks or len(report.document["runs"]) == 1


def test_bars_of_charts_have_the_numbers_of_the_document(report: Report) -> None:
    bars = 0
    for chart in report.charts.values():
        for trace in chart["data"]:
            values = trace["y" if trace["type"] == "scatter" else "x"]
            for pointer, value in zip(trace.get("customdata", ()), values, strict=False):
                if not pointer:  # of an explanation, which is no part of this document
                    continue
                assert report.at(pointer)["value"] == value
                bars += 1
    assert bars > 5


def all_figures(thing: Any) -> Iterator[dict[str, Any]]:
    if isinstance(thing, dict) and {"value", "unit", "status"} <= thing.keys():
        yield thing
    elif isinstance(thing, dict):
        for part in thing.values():
            yield from all_figures(part)
    elif isinstance(thing, list):
        for part in thing:
            yield from all_figures(part)


_SUFFIXES = sorted({prefix + unit for prefix in PREFIXES for unit in UNITS}, key=len)[::-1]
_WITH_UNIT = rf"(?<![\w.])({NUMBER}) ?(%|samples/s|{'|'.join(_SUFFIXES)})(?![\w/])"
_WITH_INTERVAL = re.compile(rf"{_WITH_UNIT}(?:[^()\d]*\(({NUMBER}) to ({NUMBER}))?")


def is_said(figure: dict[str, Any], suffix: str, numbers: list[str]) -> bool:
    """Whether a sentence may mean this figure: value and, where it has them, ends of the interval."""
    try:
        factor = factor_of(suffix, figure["unit"])
        for written, key in zip(numbers, ("value", "low", "high"), strict=False):
            check_digits(written, figure[key], factor)
    except (AssertionError, KeyError, TypeError):
        return False
    return True


def texts(element: Element) -> Iterator[tuple[Element, str]]:
    if element.tag in ("script", "style", "title", "button") or "data-figure" in element.attributes:
        return
    for child in element.children:
        if isinstance(child, str):
            yield element, child
        else:
            yield from texts(child)


def test_no_number_with_a_unit_stands_outside_of_a_figure(report: Report) -> None:
    for element, text in texts(report.root):
        classes = {name for each in element.above for name in each.classes}
        if classes & {*SENTENCES, *NO_FIGURES} or element.tag in ("h1", "h2", "summary"):
            continue
        assert re.search(_WITH_UNIT, text) is None, (element, text)


def test_numbers_in_sentences_are_those_of_the_document(report: Report) -> None:
    figures = list(all_figures(report.document))
    sensors = {f"{100 * f['systematic']:.0f}" for f in figures if f.get("systematic")}
    found = 0
    for element in report.root.all():
        if "summary" not in element.classes:
            continue
        for value, suffix, low, high in _WITH_INTERVAL.findall(element.text):
            numbers = [each for each in (value, low, high) if each]
            by_sensor = suffix == "%" and value in sensors
            assert by_sensor or any(is_said(f, suffix, numbers) for f in figures), element.text
            found += 1
    assert found > 1

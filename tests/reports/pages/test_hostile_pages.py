"""Every page with hostile text in all that it is told: no element, no attribute, no script comes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.chromium import CHROMIUM, launched
from tests.reports import synthetic
from tests.reports.hostile import EVIL, LONG, TEXTS, poisoned
from tests.reports.pages.tree import Element, tree, unpacked
from tests.reports.terminal.test_hostile import daily, sweep
from tests.reports.test_hostile_values import harmful
from tests.reports.test_memory import footprint

from wattstep.report.html.daily import render_daily
from wattstep.report.html.memory import render_footprints
from wattstep.report.html.report import Unreadable, render_report
from wattstep.report.html.sweep import render_sweep
from wattstep.report.values import plain
from wattstep.schema.footprint import Footprint


def run_page(text: str) -> str:
    document = poisoned(synthetic.document(), text)
    timeline = poisoned(synthetic.timeline(), text)
    runs = [synthetic.reported(document=document, timeline=timeline) for _ in range(2)]
    path = plain(f"a run{text}")
    return render_report(runs, [Unreadable(path=path, reason=plain(f"it is damaged{text}"))])


PAGES: Mapping[str, Callable[[str], str]] = {
    "report": run_page,
    "memory": lambda text: render_footprints(
        [Footprint.from_dict(poisoned(footprint(n), text)) for n in (4, 8)]
    ),
    "sweep": lambda text: render_sweep(sweep(text)),
    "daily": lambda text: render_daily(daily(text)),
}


def shape(root: Element) -> dict[str, int]:
    """How many elements there are of each tag and set of attributes."""
    found: dict[str, int] = {}
    for each in root.all():
        # A long name is wrapped in a span; a title beside it says the whole of it.
        if each.tag == "span" and each.classes[:1] == ["name"]:
            continue
        key = f"{each.tag} {sorted(each.attributes)}"
        found[key] = found.get(key, 0) + 1
    return found


def check(page: str, harmless: Element) -> Element:
    root = tree(page)
    assert shape(root) == shape(harmless)
    assert {name for each in root.all() for name in each.attributes if name[:2] == "on"} == set()
    scripts = root.find("script")
    assert [each.text for each in scripts if "type" not in each.attributes] == [
        each.text for each in harmless.find("script") if "type" not in each.attributes
    ]
    for script in scripts:
        if script.attributes.get("type") == "application/json":
            json.loads(script.text)
    for each in root.all():
        if each.tag in ("script", "style"):
            continue
        told = [text for text in each.children if isinstance(text, str)]
        assert harmful("".join([*told, *each.attributes.values()])) <= {"\n"}, told
    return root


@pytest.fixture(scope="module")
def harmless() -> dict[str, Element]:
    return {name: tree(render("A")) for name, render in PAGES.items()}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("text", [EVIL, LONG, "\u202e" * 10_000], ids=["evil", "long", "turned"])
def test_hostile_text_makes_no_element(name: str, text: str, harmless: dict[str, Element]) -> None:
    root = check(PAGES[name](text), harmless[name])
    longest = max(
        len(text)
        for each in root.all()
        if each.tag not in ("script", "style")
        for text in each.children
        if isinstance(text, str)
    )
    assert longest < 25_000  # a sentence or two of texts of 2,000 characters each


# How a figure came about is listed clause by clause; a semicolon ends one, whoever wrote it.
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS.filter(lambda text: re.search(r";(\W|$)", text) is None))
def test_no_name_changes_what_a_page_is_made_of(text: str, harmless: dict[str, Element]) -> None:
    check(run_page(text), harmless["report"])


def names(thing: Any) -> Iterator[str]:
    if isinstance(thing, str):
        yield thing
    for part in (
        thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list) else ()
    ):
        yield from names(part)


@pytest.mark.parametrize("name", PAGES)
def test_charts_have_no_markup_of_names(name: str) -> None:
    root = tree(PAGES[name](EVIL))
    data = next(each for each in root.all() if each.attributes.get("id") == "charts")
    for text in names(unpacked(data.text)):
        if text.startswith("/"):
            continue  # a pointer, which is never drawn
        assert harmful(text) == set(), text
        assert "<script" not in text
        assert "<img" not in text


playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


@pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"{CHROMIUM} is missing: apt-get install chromium"
)
def test_a_browser_runs_none_of_it(tmp_path: Path) -> None:
    with playwright.sync_playwright() as driver:
        browser = launched(driver)
        for name, render in PAGES.items():
            path = tmp_path / f"{name}.html"
            path.write_text(render(EVIL), encoding="utf-8")
            page = browser.new_page(viewport={"width": 320, "height": 900})
            complaints: list[str] = []
            page.on("console", lambda message, to=complaints: to.append(message.text))
            page.on("pageerror", lambda error, to=complaints: to.append(str(error)))
            page.goto(path.as_uri())
            for details in page.locator("details").all():
                details.evaluate("(each) => { each.open = true; }")
            for chart in page.locator(".chart").all():
                chart.scroll_into_view_if_needed()
                chart.locator(".main-svg").first.wait_for(state="attached")
            assert page.evaluate("window.hacked") is None, name
            assert complaints == [], name
            assert page.evaluate("document.documentElement.scrollWidth") == 320, name
            assert page.locator("img, iframe, object, svg [onload]").count() == 0, name
            page.close()
        browser.close()

"""What the page draws without plotly is saved as a picture: SVG with its words, PNG with its colours."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.chromium import CHROMIUM, launched
from tests.reports import synthetic
from tests.reports.pages.made_lanes import lanes

from wattstep.report.html.report import write_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"{CHROMIUM} is missing: apt-get install chromium"
)

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "</text><script>alert(1)</script>"
PLACES = {"bars": ".divided > .images", "timeline": ".lanes-images", "chart": ".charts .images"}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("images") / "report.html"
    document = synthetic.document(title="LeNet")
    document["phases"][0]["phase"] = EVIL
    run = synthetic.reported(document=document, timeline=lanes(steps=200, samples=400))
    write_report([run], path)
    with playwright.sync_playwright() as driver:
        browser = launched(driver)
        opened = browser.new_page(viewport={"width": 1280, "height": 900})
        complaints: list[str] = []
        opened.on("console", lambda message: complaints.append(message.text))
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.goto(path.as_uri())
        opened.locator(".lanes[data-state=ready]").wait_for()
        yield opened
        assert complaints == []
        browser.close()


def saved(page: Any, place: str, format: str) -> tuple[str, bytes]:
    """The name of the file that a button saves, and what is in it."""
    with page.expect_download() as download:
        page.locator(PLACES[place]).first.get_by_role("button", name=format.upper()).click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def words(svg: bytes) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def pixels(png: bytes) -> tuple[int, int, bytes]:
    """Width, height and the rows of a PNG, each behind the number of its filter."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    at, data = 8, b""
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    return width, height, zlib.decompress(data)


def test_the_bars_of_the_first_screen_have_their_labels(page: Any) -> None:
    name, svg = saved(page, "bars", "svg")
    assert name == "lenet-batch-4-where-a-step-goes.svg"
    root = ElementTree.fromstring(svg)
    labels = page.locator(".divided .bar .of").all_inner_texts()
    assert [each for each in words(svg) if " by " in each] == labels
    # Each bar is as wide as the picture, whatever its parts are.
    width = float(root.attrib["width"]) - 16  # margins
    bars = [each for each in root.iter(f"{SVG}rect") if each.get("height") == "22"]
    assert sum(float(each.attrib["width"]) for each in bars) == pytest.approx(
        width * len(labels), rel=1e-3
    )
    parts = page.locator(".divided .part")
    for part in parts.all():
        assert any(part.locator("> span").first.inner_text() in each for each in words(svg))
    assert len(words(svg)) == len(labels) + parts.count()


def test_a_name_stays_text_in_a_picture(page: Any) -> None:
    _, svg = saved(page, "bars", "svg")
    assert any(EVIL in each for each in words(svg))
    assert not list(ElementTree.fromstring(svg).iter(f"{SVG}script"))


def test_the_timeline_is_saved_as_it_is_in_view_with_its_key(page: Any) -> None:
    page.get_by_role("spinbutton", name="Step").fill("25")
    page.keyboard.press("Enter")
    page.locator(".lanes-canvas[data-from]").wait_for()
    name, svg = saved(page, "timeline", "svg")
    assert name == "lenet-batch-4-the-whole-run.svg"
    told = words(svg)
    assert any(each.startswith("step 25") for each in told)
    assert any(each.startswith("power, measured") for each in told)
    assert "Operations, thread 1" in told
    assert {"traced", "throttled", "disturbed", "warm-up"} <= set(told)
    assert len(list(ElementTree.fromstring(svg).iter(f"{SVG}path"))) > 5


@pytest.mark.parametrize("place", PLACES)
def test_a_png_is_twice_as_large_and_not_empty(page: Any, place: str) -> None:
    root = ElementTree.fromstring(saved(page, place, "svg")[1])
    width, height, rows = pixels(saved(page, place, "png")[1])
    assert width == 2 * int(float(root.attrib["width"]))
    assert height == 2 * int(float(root.attrib["height"]))
    assert len(set(rows)) > 20  # values of bytes: colours, not one of them alone

"""The report in a real browser: offline, without errors, on a phone, and in the dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chromium import CHROMIUM
from tests.reports import synthetic

from wattstep.report.html.report import write_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
playwright.expect.set_options(timeout=120_000)  # on a crowded machine

pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"{CHROMIUM} is missing: apt-get install chromium"
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    runs = [
        synthetic.reported(document=synthetic.document(), timeline=synthetic.timeline()),
        synthetic.reported(
            document=synthetic.document(title="ResNet", batch_size=16),
            timeline=synthetic.timeline(),
        ),
    ]
    write_report(runs, path)
    return path


class Visit:
    """A page that was scrolled to its end, so that every chart is drawn, and what it complained of."""

    def __init__(self, browser: playwright.Browser, report: Path, width: int, scheme: str) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(report.as_uri())
        # Of several runs each but for its first screen is folded.
        self.page.eval_on_selector_all(
            "details.whole", "(all) => all.forEach((e) => { e.open = true; })"
        )
        for chart in self.page.locator(".chart").all():
            chart.scroll_into_view_if_needed()
            chart.locator(".main-svg").first.wait_for(state="attached")


@pytest.fixture(scope="module")
def wide(browser: playwright.Browser, report: Path) -> Iterator[Visit]:
    visit = Visit(browser, report, 1280, "light")
    yield visit
    visit.page.close()


def test_charts_are_drawn_without_a_complaint_or_a_request(wide: Visit, report: Path) -> None:
    charts = wide.page.locator(".chart").count()
    assert charts > 10
    assert wide.page.locator(".chart:has(.main-svg)").count() == charts
    assert wide.complaints == []
    assert [url for url in wide.requests if not url.startswith(("data:", "blob:"))] == [
        report.as_uri()
    ]


def test_hostile_names_are_inert(wide: Visit) -> None:
    assert wide.page.evaluate("window.hacked") is None
    assert wide.page.locator("img").count() == 0
    drawn = wide.page.locator(".chart").all_inner_texts() + wide.page.evaluate(
        "[...document.querySelectorAll('.chart text')].map((each) => each.textContent)"
    )
    assert any("<script>window.hacked" in text for text in drawn)


def test_tables_are_sorted_on_a_click_with_missing_at_the_end(wide: Visit) -> None:
    table = wide.page.locator("#run-1 table", has_text="Operation").first

    def column(index: int) -> list[str]:
        return table.locator(f"tbody tr > :nth-child({index})").all_inner_texts()

    names = [cell.inner_text().split()[0] for cell in table.locator("thead th").all()]
    energy = names.index("Energy") + 1
    button = table.get_by_role("button", name="Energy")
    button.click()
    assert column(energy)[0] == "≈ 4.70 mJ"
    assert column(energy)[-3:] == ["≈ 40.0 µJ", "missing", "missing"]
    button.click()
    assert column(energy)[0] == "≈ 40.0 µJ"
    assert column(energy)[-2:] == ["missing", "missing"]
    assert table.locator("thead th").nth(energy - 1).get_attribute("aria-sort") == "ascending"
    table.get_by_role("button", name="Layer").click()
    layers = column(names.index("Layer") + 1)
    assert layers.index("conv1") < layers.index("conv2") < layers.index("fc1")


@pytest.mark.parametrize("width", [320, 375])
def test_a_phone_shows_the_page_without_scrolling_sideways(
    browser: playwright.Browser, report: Path, width: int
) -> None:
    visit = Visit(browser, report, width, "light")
    for details in visit.page.locator("details").all():
        details.evaluate("(element) => { element.open = true; }")
    assert visit.page.evaluate("document.documentElement.scrollWidth") == width
    assert visit.complaints == []
    visit.page.close()


def test_the_page_and_its_charts_follow_the_theme(
    browser: playwright.Browser, report: Path
) -> None:
    visit = Visit(browser, report, 1280, "dark")
    background = "getComputedStyle(document.body).backgroundColor"
    text = "getComputedStyle(document.querySelector('.chart .textpoint text')).fill"
    dark = visit.page.evaluate(f"[{background}, {text}]")
    assert dark == ["rgb(17, 22, 26)", "rgb(228, 233, 237)"]
    visit.page.emulate_media(color_scheme="light")
    label = visit.page.locator(".chart .textpoint text").first
    playwright.expect(label).to_have_css("fill", "rgb(27, 36, 44)")
    assert visit.page.evaluate(background) == "rgb(246, 247, 248)"
    assert visit.complaints == []
    visit.page.close()

"""The store in a real browser: list, filter, open, compare, delete; by day and night, and on a phone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.chromium import CHROMIUM
from tests.comparison.made import recorded
from tests.serving.served import HOSTILE, STARTS_S, Server, serving

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
playwright.expect.set_options(timeout=120_000)  # on a crowded machine

pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"{CHROMIUM} is missing: apt-get install chromium"
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("browser")
    store = folder / "runs"
    recorded(store / "one", created="2026-11-20T12:00:00+0000")
    recorded(store / "two", slower=1.5, created="2026-11-21T12:00:00+0000")
    recorded(
        store / "<script>window.hacked=1<", title=HOSTILE, engine=HOSTILE, workload="w" * 10_000
    )
    (recorded(store / "cut") / "run.json").write_text("{")
    with serving(store, folder) as server:
        yield server


class Visit:
    """A tab, and what it complained of or asked elsewhere."""

    def __init__(
        self, browser: playwright.Browser, server: Server, width: int = 1280, scheme: str = "light"
    ) -> None:
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page.set_default_timeout(STARTS_S * 1000)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self._heard(request.url, server))
        self.page.goto(server.url)

    def _heard(self, url: str, server: Server) -> None:
        if not url.startswith((server.origin, "data:", "blob:")):
            self.foreign.append(url)

    def titles(self) -> list[str]:
        rows = self.page.locator("#runs tbody tr:visible .open").all()
        return [row.inner_text() for row in rows]

    def row(self, place: str) -> playwright.Locator:
        return self.page.locator("#runs tr", has=self.page.get_by_text(place, exact=True))


@pytest.fixture
def visit(browser: playwright.Browser, shown: Server) -> Iterator[Visit]:
    tab = Visit(browser, shown)
    yield tab
    assert tab.complaints == []
    assert tab.foreign == []
    assert tab.page.evaluate("window.hacked") is None
    tab.page.close()


def test_figures_appear_and_the_list_filters_and_sorts(visit: Visit) -> None:
    page = visit.page
    playwright.expect(visit.row("two").locator("[data-key=time]")).to_contain_text("30.0 ms")
    playwright.expect(visit.row("one").locator("[data-key=energy]")).to_contain_text("measured")
    playwright.expect(visit.row("cut").locator(".problem")).to_contain_text("cannot be read")
    assert visit.titles()[0] == "made"

    page.get_by_role("link", name="Step time").click()  # the longest first
    places = page.locator("#runs .place bdi").all_inner_texts()
    assert places[0] == "two"
    assert places[-1] == "cut"  # which has none
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Step time")

    page.get_by_label("Filter").fill("hacked")
    assert len(visit.titles()) == 1
    assert "1 of 4 shown" in page.locator("#shown").inner_text()
    assert "q=hacked" in page.url
    page.get_by_label("Filter").fill("")
    page.locator("select[name=state]").select_option("damaged")
    assert page.locator("#runs tbody tr:visible").count() == 1


def test_a_report_opens_draws_and_leads_back(visit: Visit) -> None:
    visit.row("one").locator(".open").click()
    visit.page.locator(".chart .main-svg").first.wait_for(state="attached")
    assert visit.page.evaluate("window.origin") == "null"  # it could ask this server for nothing
    visit.page.get_by_role("link", name="All runs").click()
    playwright.expect(visit.page.locator("#runs")).to_be_visible()


def test_a_run_whose_names_are_scripts_opens_inert(visit: Visit) -> None:
    visit.row("<script>window.hacked=1<").locator(".open").click()
    visit.page.locator(".chart").first.scroll_into_view_if_needed()
    visit.page.locator(".chart .main-svg").first.wait_for(state="attached")
    assert visit.page.evaluate("window.hacked") is None
    assert visit.page.locator("main img").count() == 0
    visit.page.get_by_role("link", name="About, delete").click()
    playwright.expect(visit.page.locator("main")).to_contain_text("onerror=")


def test_runs_are_chosen_and_compared(visit: Visit) -> None:
    compare = visit.page.get_by_role("button", name="Compare")
    playwright.expect(compare).to_be_disabled()
    visit.row("one").get_by_role("checkbox").check()
    playwright.expect(compare).to_be_disabled()
    visit.row("two").get_by_role("checkbox").check()
    playwright.expect(visit.page.locator(".count")).to_have_text("2 chosen:")
    compare.click()
    playwright.expect(visit.page.locator("h2").first).to_have_text("Is the difference real?")
    playwright.expect(visit.page.locator("main")).to_contain_text("50 % more time")


def test_deleting_is_asked_confirmed_and_undone(visit: Visit, shown: Server) -> None:
    page = visit.page
    visit.row("two").get_by_role("checkbox").check()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete", exact=True).click()  # the browser asks for the box
    assert (shown.store / "two").exists()
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Delete", exact=True).click()
    playwright.expect(page.locator(".notice")).to_contain_text("Moved to the trash: two")
    assert not (shown.store / "two").exists()
    playwright.expect(visit.row("two")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    playwright.expect(visit.row("two")).to_have_count(1)
    assert (shown.store / "two" / "run.json").exists()


def test_a_run_that_comes_or_goes_meanwhile_is_seen_without_loading_the_page(
    visit: Visit, shown: Server
) -> None:
    visit.row("one").get_by_role("checkbox").check()
    recorded(shown.store / "new", created="2026-11-22T12:00:00+0000")
    playwright.expect(visit.row("new")).to_have_count(1, timeout=STARTS_S * 1000)
    playwright.expect(visit.row("one").get_by_role("checkbox")).to_be_checked()
    (shown.store / "new").rename(shown.store.parent / "elsewhere")
    playwright.expect(visit.row("new")).to_have_count(0, timeout=STARTS_S * 1000)


@pytest.mark.parametrize("path", ["/", "/runs/{id}/about", "/delete?run={id}", "/trash"])
def test_a_phone_shows_every_page_without_scrolling_sideways(
    browser: playwright.Browser, shown: Server, path: str
) -> None:
    tab = Visit(browser, shown, width=320)
    tab.page.goto(shown.origin + path.replace("{id}", shown.id("<script>window.hacked=1<")))
    assert tab.page.evaluate("document.documentElement.scrollWidth") == 320
    assert tab.complaints == []
    tab.page.close()


def test_the_list_follows_the_theme(browser: playwright.Browser, shown: Server) -> None:
    tab = Visit(browser, shown, scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert tab.page.evaluate(background) == "rgb(17, 22, 26)"
    tab.page.emulate_media(color_scheme="light")
    assert tab.page.evaluate(background) == "rgb(246, 247, 248)"
    assert tab.complaints == []
    tab.page.close()


def test_without_scripts_all_of_it_works(browser: playwright.Browser, shown: Server) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(shown.url)
    page.get_by_label("Filter").fill("two")
    page.get_by_role("button", name="Show").click()
    page.locator("#runs tbody tr").first.wait_for()  # the page that answers may still be on its way
    assert page.locator("#runs tbody tr").count() == 1
    page.get_by_role("checkbox").first.check()
    page.get_by_role("button", name="Delete…").click()
    assert "two" in page.locator("main").inner_text()
    page.goto(f"{shown.url}?sort=place")
    page.get_by_role("link", name="Date").click()
    assert "sort=-date" in page.url
    context.close()

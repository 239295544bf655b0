"""Tables of a report in a real browser: filtered, sorted over all rows, copied, and never in the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.chromium import CHROMIUM
from tests.reports import synthetic
from tests.wording import assert_says

from wattstep.report.html.report import write_report
from wattstep.report.tables import MOST_DRAWN

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
playwright.expect.set_options(timeout=120_000)  # on a crowded machine

pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"{CHROMIUM} is missing: apt-get install chromium"
)

MANY = 300
PHASES = ("forward", "backward", "optimizer")


def many_operations() -> list[dict[str, Any]]:
    """Times from 1 to 300 µs, the longest last; every tenth has no energy; two statuses of memory."""
    found = []
    for n in range(MANY):
        row = synthetic.operation(
            f"op{n}", f"layer{n % 7}", PHASES[n % 3], 1e-6 * (n + 1), None if n % 10 == 0 else 1e-4
        )
        row["memory"] = synthetic.figure(
            1000.0 * n, "B", "measured" if n % 2 else "modelled", 900.0 * n, 1100.0 * n
        )
        found.append(row)
    found[7]["name"] = "=HYPERLINK(1)|<b>"
    return found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "report.html"
    write_report(
        [synthetic.reported(document=synthetic.document(operations=many_operations()))], path
    )
    return path


class Operations:
    """The table of operations in a page, and what the page complained of."""

    def __init__(self, browser: Any, report: Path, **settings: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **settings)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(report.as_uri())
        self.table = self.page.locator("table.sortable", has_text="Operation").first
        self.tools = self.page.locator(".tools:has(~ .scroll [data-key='name'])").last

    @property
    def names(self) -> list[str]:
        return list(self.table.locator("tbody th").all_text_contents())

    @property
    def count(self) -> str:
        return str(self.tools.get_by_role("status").inner_text())

    def filter(self, words: str) -> None:
        self.tools.get_by_role("searchbox").fill(words)

    def copied(self, button: str) -> list[str]:
        self.tools.get_by_role("button", name=button, exact=True).click()
        playwright.expect(self.tools.get_by_role("status")).to_contain_text("copied")
        return str(self.page.evaluate("navigator.clipboard.readText()")).splitlines()


@pytest.fixture(scope="module")
def opened(browser: Any, report: Path) -> Iterator[Operations]:
    permitted = ["clipboard-read", "clipboard-write"]
    found = Operations(browser, report, permissions=permitted)
    yield found
    assert found.complaints == []
    found.context.close()


@pytest.fixture
def operations(opened: Operations) -> Operations:
    """The page as it opens: whatever another test filtered, sorted or asked for is forgotten."""
    opened.page.reload()
    opened.tools.get_by_role("searchbox").wait_for()
    return opened


def test_of_many_rows_the_first_are_there(operations: Operations) -> None:
    assert_says(operations.count, "300 rows", "first 40")
    assert operations.names == [f"op{MANY - 1 - n}" for n in range(MOST_DRAWN)]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("op29", {"op29", *(f"op{n}" for n in range(290, 300))}),
        ("OP29 forward", {"op291", "op294", "op297"}),
        ("phase:back op2 layer3", {"op220", "op241", "op262", "op283"}),
        ("time>298us", {"op298", "op299"}),
        ("time>=299µs time<0.2995ms", {"op298"}),
        ("energy>0 time<3.5us", {"op1", "op2"}),
        ("name:op11 memory<=12kB", {"op11"}),
        ("share>8.7%", {"op296", "op297", "op298", "op299"}),
        ("nothing::has>this", set()),
    ],
)
def test_a_filter_finds_rows_by_words_columns_and_numbers(
    operations: Operations, words: str, kept: set[str]
) -> None:
    operations.filter(words)
    assert set(operations.names) == kept
    assert operations.count == f"{len(kept)} of 300 rows"
    operations.filter("")
    assert len(operations.names) == MOST_DRAWN


def test_what_is_copied_are_the_rows_that_are_shown_with_all_digits(operations: Operations) -> None:
    operations.filter("time<3.5us")
    lines = operations.copied("Copy")
    heading = lines[0].split("\t")
    assert heading[:4] == ["Operation", "Kind", "Layer", "Phase"]
    rows = [dict(zip(heading, line.split("\t"), strict=True)) for line in lines[1:]]
    assert [row["Operation"] for row in rows] == ["op2", "op1", "op0"]
    document = many_operations()[1]["time"]
    assert float(rows[1]["Time"]) == document["value"]
    assert float(rows[1]["Time, low"]) == document["low"]
    assert float(rows[1]["Time, high"]) == document["high"]
    assert (rows[1]["Time, unit"], rows[1]["Time, status"]) == ("s", "attributed")
    assert rows[1]["Memory, status"] == "measured"
    assert rows[0]["Memory, status"] == "modelled"
    missing = rows[2]
    assert missing["Energy"] == ""
    assert missing["Energy, status"] == "missing"
    assert missing["Energy, reason"] == synthetic.NO_RAPL


def test_a_name_is_no_formula_for_a_spreadsheet_and_no_markup_in_markdown(
    operations: Operations,
) -> None:
    operations.filter("hyperlink")
    assert operations.copied("Copy")[1].startswith("'=HYPERLINK(1)|<b>\t")
    lines = operations.copied("Markdown")
    assert lines[2].startswith("| =HYPERLINK(1)\\|\\<b\\> | ")
    assert set(lines[1]) <= set("|- ")


def test_markdown_is_what_one_would_paste_into_an_issue(operations: Operations) -> None:
    """Few columns, as they are seen: a value with its interval, the status of a column in its heading."""
    operations.filter("op2 time<3.5us")
    heading, rule, line = operations.copied("Markdown")
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    named = dict(zip([cell.strip() for cell in heading.strip("|").split("|")], cells, strict=True))
    assert named["Operation"] == "op2"
    time = many_operations()[2]["time"]
    amounts = [f"{1e6 * time[end]:.2f}" for end in ("value", "low", "high")]
    assert named["Time, attributed"] == "{} µs ({} to {})".format(*amounts)
    assert "Calls" not in named
    assert rule.count("|") == heading.count("|") == line.count("|")


def test_without_a_clipboard_the_text_stands_there_to_be_taken(browser: Any, report: Path) -> None:
    found = Operations(browser, report)
    found.page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', { value: undefined });"
        "document.execCommand = () => false;"
    )
    found.filter("op1 time<3.5us")
    found.tools.get_by_role("button", name="Copy", exact=True).click()
    playwright.expect(found.tools.get_by_role("status")).to_contain_text("press Ctrl+C")
    text = found.tools.locator("textarea").input_value()
    assert text.splitlines()[1].startswith("op1\t")
    selected = "document.activeElement.selectionEnd - document.activeElement.selectionStart"
    assert found.page.evaluate(selected) == len(text)
    found.context.close()


def test_sorting_is_over_all_rows_also_those_that_were_not_there(operations: Operations) -> None:
    operations.filter("")
    operations.table.get_by_role("button", name="Time", exact=False).first.click()
    operations.table.get_by_role("button", name="Time", exact=False).first.click()
    assert operations.names[:3] == ["op0", "op1", "op2"]
    assert len(operations.names) == MOST_DRAWN


def test_all_rows_are_there_on_request_like_those_of_the_file(operations: Operations) -> None:
    operations.tools.get_by_role("button", name="Show all").click()
    assert len(operations.names) == MANY
    assert operations.count == "300 rows"
    assert operations.tools.get_by_role("button", name="Show all").count() == 0
    cells = (
        "(name) => [...document.querySelectorAll('table.sortable tbody tr')]"
        ".find((row) => row.cells[0].textContent === name).cells"
    )
    shape = (
        f"(name) => [...({cells})(name)].map((cell) => [cell.tagName, cell.className, cell.title,"
        "cell.getAttributeNames().sort(), [...cell.children].map((each) => [each.tagName, each.className])])"
    )
    in_the_file, made = (operations.page.evaluate(shape, name) for name in ("op298", "op88"))
    assert made == in_the_file
    assert sum("data-figure" in attributes for *_, attributes, _ in made) > 5


def test_a_table_is_used_with_the_keyboard_and_says_what_it_does(operations: Operations) -> None:
    field = operations.tools.get_by_label("Filter")
    field.focus()
    operations.page.keyboard.type("backward")
    assert_says(operations.count, "100 of 300 rows", "first 40")
    head = operations.table.locator("thead th", has_text="Layer")
    head.get_by_role("button").focus()
    operations.page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    first = operations.names
    for details in operations.page.locator("details").all()[:6]:
        details.evaluate("(each) => { each.open = !each.open; }")
    assert operations.names == first
    assert head.get_attribute("aria-sort") == "ascending"


def test_the_theme_is_chosen_and_kept(browser: Any, report: Path) -> None:
    found = Operations(browser, report, color_scheme="light")
    page = found.page
    background = "getComputedStyle(document.body).backgroundColor"
    light, dark = page.evaluate(background), "rgb(17, 22, 26)"
    page.get_by_label("Colours").select_option("dark")
    assert page.evaluate(background) == dark
    bar = page.locator(".chart .bartext").first
    bar.wait_for()
    playwright.expect(bar).to_have_css("fill", "rgb(16, 23, 28)")
    page.reload()
    assert page.evaluate(background) == dark
    page.emulate_media(color_scheme="dark")
    page.get_by_label("Colours").select_option("light")
    assert page.evaluate(background) == light
    page.get_by_label("Colours").select_option("auto")
    assert page.evaluate(background) == dark
    assert found.complaints == []
    found.context.close()


def test_a_page_without_storage_still_changes_its_colours(browser: Any, report: Path) -> None:
    context = browser.new_context(color_scheme="light")
    context.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('refused'); } });"
    )
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(report.as_uri())
    page.get_by_label("Colours").select_option("dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 26)"
    assert complaints == []
    context.close()


def test_paper_is_light_whole_and_without_buttons(browser: Any, report: Path) -> None:
    found = Operations(browser, report, color_scheme="dark")
    page = found.page
    closed = page.locator("details:not([open])").count()
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("details:not([open])").count() == closed
    assert page.locator(".chart:not(:has(.main-svg))").count() == 0
    for control in (".tools", ".theme"):
        assert not page.locator(control).first.is_visible()
    page.emulate_media(media="screen", color_scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() == closed
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 26)"
    pages = page.pdf(format="A4").count(b"/Type /Page\n")
    assert 2 < pages <= 15
    assert found.complaints == []
    found.context.close()

"""The first screen of a run's page, what is told once, and what is printed, in a real browser."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.chromium import CHROMIUM
from tests.comparison.made import recorded
from tests.reports import synthetic
from tests.reports.pages.made_lanes import lanes

from wattstep.report.html.report import Reported, read_run, render_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"{CHROMIUM} is missing: apt-get install chromium"
)

# Figures and facts are no sentences.
SENTENCES = """() => [...document.querySelectorAll(
    'main p:not(.key, .lanes-told, .under), main li:not(:has(p)), main dd:not(.facts dd)')]
    .map((each) => each.textContent.replace(/\\s+/g, ' ').trim())"""


# Operations as a trace has them: with calls, power and FLOPs beside time and energy.
MANY_COLUMNS = [
    {**row, "flops": synthetic.figure(1e6, "FLOP", "counted"), "power": synthetic.figure(2.0, "W")}
    for row in synthetic.document()["operations"]
]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("one") / "report.html"
    run = synthetic.reported(document=synthetic.document(operations=MANY_COLUMNS))
    page = render_report([replace(run, timeline=lanes(steps=200, samples=400))], paper=False)
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture
def page(browser: Any, one: Path) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 1400, "height": 900})
    opened.goto(one.as_uri())
    yield opened
    opened.close()


def test_step_figures_costliest_and_cautions_come_before_all_else(page: Any) -> None:
    places = [".divided", ".cards", ".costliest", ".lanes-strip", ".charts"]
    tops = [page.locator(place).first.bounding_box()["y"] for place in places]
    assert tops == sorted(tops)
    assert page.locator(".distrust").bounding_box()["y"] < tops[3] < 900
    folded = page.locator(".folds > details")
    assert folded.count() >= 4
    assert page.locator(".folds > details[open]").count() == 0
    assert page.locator("main section").last.evaluate("(e) => e.className") == "folds"


@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)])
def test_what_people_ask_first_stands_on_the_first_screen(
    browser: Any, tmp_path: Path, width: int, height: int
) -> None:
    """Step time, energy, what costs most and what to change first, on a desk and on a phone."""
    run = read_run(recorded(tmp_path / "a", cpu=0.5), explained=True)
    assert isinstance(run, Reported)
    path = tmp_path / "report.html"
    path.write_text(render_report([run], paper=False), encoding="utf-8")
    opened = browser.new_page(viewport={"width": width, "height": height})
    opened.goto(path.as_uri())
    for place in (".cards", ".costliest", ".answers > .advice strong"):
        box = opened.locator(place).first.bounding_box()
        assert box["y"] + box["height"] <= height, place
        assert box["x"] + box["width"] <= width, place
    bar, cards = (opened.locator(one).first.bounding_box() for one in (".bar", ".cards"))
    assert bar["y"] + bar["height"] <= cards["y"]
    numbers = opened.eval_on_selector_all(
        ".card .big", "(all) => all.map((e) => Math.round(e.getBoundingClientRect().bottom))"
    )
    in_a_row = 3 if width == 390 else len(numbers)
    assert len(set(numbers)) == -(-len(numbers) // in_a_row)  # at one height in each row
    opened.close()


@pytest.mark.parametrize("width", [1280, 1024, 390])
def test_number_and_unit_stay_on_one_line_in_their_card(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    cards = page.eval_on_selector_all(
        ".card .big",
        """(all) => all.map((e) => {
            if (e.textContent.includes("samples/s")) e.firstChild.textContent = "12,345 ";
            const text = document.createRange();
            text.selectNodeContents(e);
            const inside = e.closest(".card").getBoundingClientRect();
            return {
                line: parseFloat(getComputedStyle(e).lineHeight), height: e.getBoundingClientRect().height,
                left: inside.right - text.getBoundingClientRect().right,
            };
        })""",
    )
    assert len(cards) > 3
    for card in cards:
        assert card["height"] < 1.5 * card["line"]
        assert card["left"] > 0


def test_the_costliest_layer_stands_on_the_first_screen(page: Any) -> None:
    energies = {
        row["layer"]: row["energy"]["value"]
        for row in synthetic.document()["layers"]
        if row["energy"]["value"]
    }
    first = page.locator(".costliest li").first
    assert first.locator("strong").inner_text() == max(energies, key=lambda one: energies[one])


def test_a_table_shows_few_columns_and_the_others_on_request(page: Any) -> None:
    table = page.locator("table.sortable", has_text="Operation").first
    tools = page.locator(".tools:has(+ .scroll [data-key='name'])").first

    def seen() -> list[str]:
        return [
            each for each in table.locator("th[scope=col]:visible .label").all_inner_texts() if each
        ]

    few = seen()
    assert {"Operation", "Layer", "Phase", "Time", "Energy"} <= set(few)
    assert "Calls" not in few
    tools.get_by_role("button", name="All ").click()
    assert "Calls" in seen()
    assert len(seen()) > len(few)
    tools.get_by_role("button", name="Fewer columns").click()
    assert seen() == few


def test_a_table_that_goes_on_says_so_at_its_edge(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    table = page.locator(".scroll:has([data-key='energy'])").first
    playwright.expect(table).to_have_attribute("data-more", "")
    table.evaluate("(box) => { box.scrollLeft = box.scrollWidth; }")
    playwright.expect(table).not_to_have_attribute("data-more", "")


def test_charts_and_timeline_fit_the_sheet_that_they_are_printed_on(page: Any) -> None:
    page.locator(".lanes[data-state]").wait_for()
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    widths = page.eval_on_selector_all(
        ".chart .main-svg", "(all) => all.map((each) => each.getBoundingClientRect().width)"
    )
    assert widths
    assert max(widths) <= 700  # pixels of CSS: A4 less 10 mm on either side is 718
    assert page.locator(".lanes-canvas").bounding_box()["width"] <= 700
    # It is as large as the timeline and would be printed over it.
    assert not page.locator(".lanes-cursor").is_visible()


def repeated(opened: Any) -> list[str]:
    """Sentences of five words and more that stand twice in a page, folded parts with it."""
    texts = opened.evaluate(SENTENCES)
    sentences = [
        part.rstrip(".").lower() for text in texts for part in re.split(r"(?<=[.!?])\s+", text)
    ]
    words = {each: sum(any(map(str.isalpha, word)) for word in each.split()) for each in sentences}
    counts = Counter(each for each in sentences if words[each] > 4)  # figures may be alike
    return [each for each, count in counts.items() if count > 1]


@pytest.mark.parametrize("watts", [5.0, None], ids=["with power", "without"])
@pytest.mark.parametrize("titles", [("LeNet",), ("LeNet", "DQN", "GPT")], ids=["one", "three"])
def test_no_sentence_stands_twice(
    browser: Any, tmp_path: Path, titles: tuple[str, ...], watts: float | None
) -> None:
    paths = [
        recorded(tmp_path / title, slower, watts, cpu=0.5, title=title, workload=title.lower())
        for slower, title in enumerate(titles, start=1)
    ]
    runs = [read_run(path, explained=True) for path in paths]
    path = tmp_path / "report.html"
    reported = [run for run in runs if isinstance(run, Reported)]
    assert len(reported) == len(titles)
    path.write_text(render_report(reported, paper=False), encoding="utf-8")
    opened = browser.new_page()
    opened.goto(path.as_uri())
    assert repeated(opened) == []
    if watts is None:
        assert " ".join(opened.evaluate(SENTENCES)).count("no power sensor") == 1
    opened.close()


def test_of_several_runs_each_is_folded_below_its_first_screen(
    browser: Any, tmp_path: Path
) -> None:
    runs = [
        synthetic.reported(document=synthetic.document(title=title), timeline=synthetic.timeline())
        for title in ("LeNet", "ResNet", "VGG", "DenseNet")
    ]
    path = tmp_path / "report.html"
    path.write_text(render_report(runs, paper=False), encoding="utf-8")
    opened = browser.new_page(viewport={"width": 1400, "height": 900})
    opened.goto(path.as_uri())
    assert opened.locator(".run details.whole:not([open])").count() == len(runs)
    assert opened.locator(".run .cards").first.is_visible()
    caution = opened.get_by_text("The sampler was lost at 12.3 s")
    assert caution.count() == 1
    assert caution.is_visible()
    assert opened.pdf(format="A4").count(b"/Type /Page\n") <= 15
    opened.close()

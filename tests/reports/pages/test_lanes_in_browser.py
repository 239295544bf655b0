"""The timeline of the whole run in a real browser: it zooms, and tells what was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.chromium import CHROMIUM
from tests.reports import synthetic
from tests.reports.pages.made_lanes import MS, lanes
from tests.wording import assert_says

from wattstep.report.html.report import write_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"{CHROMIUM} is missing: apt-get install chromium"
)

# Heights of the middle of what is drawn, from the top of the canvas.
STEPS, CORE, POWER, MODELLED, OPERATIONS = 32, 80, 130, 176, 228


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report([synthetic.reported(document=synthetic.document(), timeline=lanes())], path)
    return path


class Visit:
    """A page whose timeline was unpacked, and what it complained of."""

    def __init__(
        self, browser: playwright.Browser, report: Path, width: int = 1280, scheme: str = "light"
    ) -> None:
        self.complaints: list[str] = []
        self.page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=width < 500
        )
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(report.as_uri())
        self.page.locator(".lanes").scroll_into_view_if_needed()
        self.page.locator(".lanes[data-state=ready]").wait_for()
        self.canvas = self.page.locator(".lanes-canvas")
        self.told = self.page.locator(".lanes-told")

    def settle(self) -> None:
        frame = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.page.evaluate(frame)

    def view(self) -> tuple[float, float]:
        self.settle()
        return tuple(float(self.canvas.get_attribute(f"data-{end}")) for end in ("from", "to"))

    def jump(self, step: int) -> None:
        self.page.get_by_role("spinbutton", name="Step").fill(str(step))
        self.page.keyboard.press("Enter")
        self.settle()

    def everything(self) -> None:
        self.page.locator(".lanes").get_by_role("button", name="All").click()
        self.settle()

    def point(self, second: float, height: float) -> str:
        """What is told of a time at a height of the canvas."""
        begin, end = self.view()
        box = self.canvas.bounding_box()
        x = (second - begin) / (end - begin) * box["width"]
        self.canvas.hover(position={"x": x, "y": height})
        self.settle()
        return self.told.inner_text()

    def pixel(self, second: float, height: float) -> list[int]:
        begin, end = self.view()
        share = (second - begin) / (end - begin)
        # A copy is read: reading the canvas itself would slow its drawing, which Chromium says.
        return self.canvas.evaluate(
            """(canvas, [share, y]) => {
              const copy = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
              copy.drawImage(canvas, -share * canvas.width, -y * devicePixelRatio);
              return [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3);
            }""",
            [share, height],
        )


@pytest.fixture(scope="module")
def visit(browser: playwright.Browser, report: Path) -> Iterator[Visit]:
    visit = Visit(browser, report)
    yield visit
    assert visit.complaints == []
    visit.page.close()


def test_all_of_the_run_is_in_view_at_first(visit: Visit) -> None:
    visit.page.mouse.move(1, 1)
    visit.everything()
    assert visit.view() == pytest.approx((0, 500), abs=0.1)
    assert_says(visit.told.inner_text(), "step 0 to", "9,999", "500 s")


def test_a_known_operation_is_told(visit: Visit) -> None:
    visit.jump(4325)  # traced; it began at 4325 x 50 ms, and its first operation takes 9 ms
    told = visit.point(216.2545, OPERATIONS)
    assert_says(told, "step 4,325, traced", "forward")
    assert "at 216.25" in told
    assert told.endswith("aten::mm, fc1, forward · 9 ms")


def test_known_values_are_told_with_unit_and_status(visit: Visit) -> None:
    visit.jump(4325)
    # Sample 8650 was read at 216.25 s: 5 + 50 / 100 W.
    assert visit.point(216.2502, POWER).endswith("power: 5.5 W, measured, made")
    assert visit.point(216.2752, POWER).endswith("power: 5.51 W, measured, made")
    assert_says(visit.point(216.2502, CORE), "core 0 busy: 50 %", "measured, made")
    assert visit.point(216.2502, MODELLED).endswith(": ≈ 1 W, modelled, made")


def test_where_a_pixel_holds_several_samples_their_ends_are_told(visit: Visit) -> None:
    visit.everything()
    assert visit.point(250, POWER).count(" W to ") == 1


def test_conditions_of_steps_are_told(visit: Visit) -> None:
    visit.jump(105)
    assert "step 105, traced, throttled" in visit.point(5.26, STEPS)
    assert visit.point(5.26, STEPS).endswith("takes 49 ms")
    visit.jump(202)
    assert "step 202, disturbed" in visit.point(10.11, STEPS)


def test_the_wheel_zooms_about_the_pointer_once_the_timeline_was_clicked(visit: Visit) -> None:
    visit.everything()
    box = visit.canvas.bounding_box()
    visit.page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 100)
    visit.page.mouse.wheel(0, -100)  # the page scrolls, the timeline stays
    assert visit.view() == pytest.approx((0, 500), abs=0.1)
    visit.canvas.click(position={"x": box["width"] / 4, "y": 100})
    visit.page.mouse.wheel(0, -500)
    begin, end = visit.view()
    assert end - begin == pytest.approx(500 * 0.4493, rel=0.01)  # e to the minus 0.8
    assert (125 - begin) / (end - begin) == pytest.approx(0.25, abs=0.01)


def test_keys_zoom_move_and_go_back(visit: Visit) -> None:
    visit.everything()
    visit.canvas.focus()
    for _ in range(2):
        visit.page.keyboard.press("+")
    assert visit.view() == pytest.approx((187.5, 312.5), abs=0.2)
    visit.page.keyboard.press("ArrowRight")
    assert visit.view() == pytest.approx((203.1, 328.1), abs=0.2)
    visit.page.keyboard.press("-")
    begin, end = visit.view()
    assert end - begin == pytest.approx(250, abs=0.2)
    visit.page.keyboard.press("Home")
    assert visit.view() == pytest.approx((0, 500), abs=0.1)


def test_dragging_moves_and_a_double_click_shows_everything(visit: Visit) -> None:
    visit.jump(4325)
    begin, end = visit.view()
    box = visit.canvas.bounding_box()
    visit.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 100)
    visit.page.mouse.down()
    visit.page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 100, steps=4)
    visit.page.mouse.up()
    assert visit.view()[0] - begin == pytest.approx((end - begin) / 4, rel=0.02)
    visit.canvas.dblclick(position={"x": 20, "y": 100})
    assert visit.view() == pytest.approx((0, 500), abs=0.1)


def test_groups_can_be_hidden(visit: Visit) -> None:
    tall = visit.canvas.bounding_box()["height"]
    button = visit.page.locator(".lanes").get_by_role("button", name="Power")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert visit.canvas.bounding_box()["height"] == tall - 2 * 48
    button.click()
    assert visit.canvas.bounding_box()["height"] == tall


def test_hostile_names_are_drawn_as_text(visit: Visit) -> None:
    visit.jump(4325)
    told = visit.point(216.2645, OPERATIONS)
    assert synthetic.HOSTILE in told
    assert synthetic.HOSTILE_LAYER in told
    assert visit.page.evaluate("window.hacked") is None
    assert visit.page.locator("img").count() == 0


def test_it_can_be_printed(visit: Visit) -> None:
    assert visit.page.pdf()[:5] == b"%PDF-"


def test_colours_follow_the_theme(browser: playwright.Browser, report: Path) -> None:
    visit = Visit(browser, report, scheme="dark")
    visit.jump(4325)
    assert visit.pixel(216.29, STEPS) == [92, 195, 206]  # the accent of the dark theme
    visit.page.emulate_media(color_scheme="light")
    visit.settle()
    assert visit.pixel(216.29, STEPS) == [15, 107, 117]
    assert visit.complaints == []
    visit.page.close()


def test_a_phone_zooms_with_two_fingers_and_does_not_scroll_sideways(
    browser: playwright.Browser, report: Path
) -> None:
    visit = Visit(browser, report, width=320)
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 320
    box = visit.canvas.bounding_box()
    middle, y = box["x"] + box["width"] / 2, box["y"] + 60
    session = visit.page.context.new_cdp_session(visit.page)

    def touch(kind: str, apart: float) -> None:
        points = [] if kind == "touchEnd" else [
            {"x": middle - apart, "y": y, "id": 0}, {"x": middle + apart, "y": y, "id": 1}
        ]  # fmt: skip
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 20)
    for apart in (25, 32, 40, 52, 64, 80):
        touch("touchMove", apart)
    touch("touchEnd", 0)
    begin, end = visit.view()
    assert end - begin == pytest.approx(500 / 4, rel=0.15)
    assert (begin + end) / 2 == pytest.approx(250, abs=25)
    assert visit.complaints == []
    visit.page.close()


def test_three_steps_and_a_traced_step_are_a_button_away(visit: Visit) -> None:
    """Steps 5001 to 5003 of 50 ms; of the traced ones 4995 is in the middle, with 39 ms of operations."""
    for name, begin, end in (("Three steps", 250.05, 250.199), ("A traced step", 249.75, 249.789)):
        visit.page.locator(".lanes").get_by_role("button", name=name, exact=True).click()
        assert visit.view() == pytest.approx((begin, end), abs=0.01)
    visit.everything()


def test_a_long_phase_right_after_a_short_one_is_drawn(
    browser: playwright.Browser, tmp_path: Path
) -> None:
    made = lanes(steps=20, samples=40)
    begins = np.repeat(made.steps.start_ns, 2) + np.tile([0, MS // 100], 20)  # 10 µs, then the rest
    timeline = replace(made, steps=replace(made.steps, phase_ns=begins))
    path = tmp_path / "report.html"
    write_report([synthetic.reported(document=synthetic.document(), timeline=timeline)], path)
    visit = Visit(browser, path)
    # A step of 50 ms has 61 pixels, the first phase of each less than one.
    assert visit.pixel(0.525, 48) == [0xC9, 0x60, 0x2B]  # of "backward", the second
    visit.page.close()

"""All of the paper's figures in a real browser: drawn, without a complaint, and on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chromium import CHROMIUM
from tests.reports import synthetic
from tests.reports.pages.paper import made
from tests.reports.synthetic import HOSTILE

from wattstep.report.html.report import write_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"{CHROMIUM} is missing: apt-get install chromium"
)
# One workload ran at three batch sizes, one at two: figures 3, 5, 6, 7 and 9 have a chart of each,
# figure 4 one of the GPU and one of the CPU, figure 8 one, figure 10 one of each daily training.
CHARTS = {3: 2, 4: 2, 5: 2, 6: 2, 7: 2, 8: 1, 9: 2, 10: 1}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    documents = [made.document("densenet40", batch) for batch in (4, 16, 64)]
    documents += [made.document(HOSTILE, batch) for batch in (4, 16)]
    runs = [synthetic.reported(document=one, timeline=made.timeline()) for one in documents]
    write_report(runs, path, daily=[made.daily()])
    return path


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (320, "dark")])
def test_figures_3_to_10_are_drawn(
    browser: playwright.Browser, report: Path, width: int, scheme: str
) -> None:
    complaints: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(report.as_uri())
    for chart in page.locator("#paper .chart").all():
        chart.scroll_into_view_if_needed()
        chart.locator(".main-svg").first.wait_for(state="attached")
    drawn = {
        number: page.locator(f"#paper-figure-{number} .chart:has(.main-svg)").count()
        for number in CHARTS
    }
    assert drawn == CHARTS
    assert complaints == []
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.close()

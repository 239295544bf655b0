"""What a notebook shows of a run: small, without scripts, hostile names inert, and drawn in a browser."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.chromium import CHROMIUM, launched
from tests.reports import synthetic

from wattstep.errors import DamagedRunError
from wattstep.record.recorder import Recorder
from wattstep.report.html.notebook import operations, picture
from wattstep.run import load
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.report_rows import CostRow

LONG = "x" * 10_000
MARKS = "\u202eevil\x1b[31m"


def shown(document: dict[str, Any], **timeline: Any) -> str:
    whole = SimpleNamespace(three_steps=synthetic.three_steps(**timeline))
    return picture(
        SimpleNamespace(report=lambda: synthetic.report(document), timeline=lambda: whole)
    )


def test_figures_stand_with_their_status_and_the_reason_of_what_is_missing() -> None:
    document = synthetic.document()
    page = shown(document)
    for name in ("step_time", "energy_per_step"):
        assert f'class="status {document["metrics"][name]["status"]}"' in page
    document["metrics"]["energy_per_step"] = synthetic.missing("J", "no meter <here>")
    page = shown(document)
    assert "no meter &lt;here&gt;" in page
    assert '<span class="status missing">missing</span>' in page


def test_hostile_and_endless_names_are_inert_and_the_picture_stays_small() -> None:
    row = dict(synthetic.document()["phases"][0])
    names = [synthetic.HOSTILE, synthetic.HOSTILE_LAYER, MARKS, LONG, '" onload="evil()']
    document = synthetic.document(
        title=synthetic.HOSTILE + LONG,
        phases=[{**row, "phase": name} for name in names * 50],
    )
    timeline = synthetic.timeline()
    for step in timeline["steps"]:
        step["phases"] = [{"name": name, "start": 0.0, "end": 1e-3} for name in names * 50]
    power = {"name": "power", "unit": "W", "role": "power", "core": None, "status": "modelled"}
    timeline["channels"] = [{**power, "points": [[n * 1e-6, 5.0] for n in range(100_000)]}]
    page = shown(document, **timeline)
    assert len(page.encode()) < 100_000
    assert "<script" not in page
    assert "<img" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert not re.search(r"<[^>]* on\w+=", page)
    assert "modelled" in page


def test_operations_are_those_that_take_most(tmp_path: Path) -> None:
    rows = [
        {
            "name": f"op {n} {synthetic.HOSTILE}", "layer": LONG, "phase": "forward",
            "time": Figure(value=n * 1e-3, unit="s", status=Status.ATTRIBUTED),
            "energy": missing("J", "no meter"),
        }
        for n in range(1, 1001)
    ]  # fmt: skip
    page = operations([CostRow.from_dict(row) for row in rows])
    assert len(page.encode()) < 100_000
    assert "<script" not in page
    assert re.findall(r"op (\d+) ", page)[:3] == ["1000", "999", "998"]
    assert "980 further operations" in page


def test_a_run_is_shown_by_a_notebook_and_told_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    with Recorder(
        path, trace="none", power_model="linear:1,1", about={"workload": f"a\n{MARKS}"}
    ) as recorder:
        for _ in range(12):
            with recorder.step(samples=1):
                time.sleep(0.06)  # longer than the model's cores are read apart
    run = load(path)
    assert repr(run) == f"Run({str(path)!r}, 'a\\n\\u202eevil\\x1b[31m', 'closed')"
    assert "Step time" in run._repr_html_()
    assert repr(run.operations()) == "OperationTable(0 operations)"
    assert run.operations()._repr_html_().startswith('<div class="wattstep-run">')


def test_a_damaged_run_says_so() -> None:
    def fail() -> Any:
        raise DamagedRunError("steps.parquet is <cut>")

    page = picture(SimpleNamespace(report=fail, timeline=fail))
    assert "steps.parquet is &lt;cut&gt;" in page


@pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"{CHROMIUM} is missing: apt-get install chromium"
)
def test_a_browser_draws_it_in_both_themes_without_a_complaint(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    file = tmp_path / "cell.html"
    timeline = synthetic.timeline()
    power = {"name": "power", "unit": "W", "role": "power", "core": None, "status": "modelled"}
    begin, end = timeline["steps"][0]["start"], timeline["steps"][-1]["end"]
    timeline["channels"] = [{**power, "points": [[begin, 5.0], [end, 7.0]]}]
    body = shown(synthetic.document(title=synthetic.HOSTILE), **timeline)
    file.write_text(f"<!doctype html><meta charset=utf-8><body>{body}", encoding="utf-8")
    backs, complaints = [], []
    with playwright.sync_playwright() as driver:
        browser = launched(driver)
        for scheme, width in (("light", 1000), ("dark", 320)):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto(file.as_uri())
            frame = page.locator(".wattstep-run")
            backs.append(frame.evaluate("(e) => getComputedStyle(e).backgroundColor"))
            assert page.evaluate("document.documentElement.scrollWidth") == width
            assert page.evaluate("window.hacked") is None
            boxes = [each.bounding_box() for each in frame.locator("svg").all()]
            assert len(boxes) == 2
            assert all(box["width"] > 200 and box["height"] > 15 for box in boxes)
        browser.close()
    assert complaints == []
    assert backs == ["rgb(255, 255, 255)", "rgb(26, 33, 39)"]

"""The README's picture shows what the demo's report shows today."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.reports.pages.tree import tree

from wattstep.cli.demo import demo

picture = pytest.importorskip("docs.picture", reason="playwright is not installed")
ROOT = Path(__file__).parents[2]
PNG = (ROOT / "docs" / "report.png").read_bytes()


def test_the_picture_shows_today_s_page(tmp_path: Path) -> None:
    demo(out=tmp_path, quiet=True)
    page = tree((tmp_path / "report.html").read_text(encoding="utf-8"))
    parts = [
        next(each for each in page.all() if part.removeprefix(".") in each.classes)
        for part in picture.SHOWN
    ]
    text = "".join(picture.folded(part.text) for part in parts)
    shown = picture.text_of(PNG)
    assert "".join(shown.split()) == "".join(text.split()), "make picture"


def test_the_picture_is_small_and_readable() -> None:
    width, height = struct.unpack(">II", PNG[16:24])
    assert (width, height) == (1400, 1000)
    assert len(PNG) < 300_000
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("](docs/report.png)") == 1


def test_a_text_in_a_picture_comes_back() -> None:
    png = picture.with_text(PNG, "15 %  of\n  µJ")
    assert picture.text_of(png) == "15 % of µJ"
    assert len(png) == len(PNG) + 12 + len("wattstep ") + 2 * len("15 % of µJ".encode())

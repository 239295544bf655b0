"""Takes the README's picture: python docs/picture.py REPORT.html PICTURE.png [WIDTH HEIGHT].

What the picture shows stands in the file as text, too: tests/docs/test_picture.py compares it with the
page of today.
"""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium"
SHOWN = (".divided", ".cards", ".answers")  # parts of the page that the picture holds whole
# The page's buttons for pictures are made by its scripts.
WORDS = (
    "(e) => [...e.querySelectorAll(':scope > :not(.images)')].map((c) => c.textContent).join(' ')"
)
HEAD = 8 + 25  # bytes of a PNG before its second chunk
TEXT = b"tEXt"
KEYWORD = b"wattstep\0"


def main() -> None:
    """Takes the picture that the command line asks for."""
    report, picture = Path(sys.argv[1]).absolute(), Path(sys.argv[2])
    width, height = (int(n) for n in (sys.argv[3:5] or ("1400", "1000")))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto(report.as_uri())
        page.locator(".lanes[data-state=ready]").first.wait_for()
        shown = " ".join(page.locator(part).first.evaluate(WORDS) for part in SHOWN)
        picture.write_bytes(with_text(page.screenshot(), shown))
        browser.close()


def with_text(png: bytes, text: str) -> bytes:
    """A picture that holds a text, white space folded, as UTF-8 in base 16 of a `tEXt` chunk."""
    data = KEYWORD + folded(text).encode().hex().encode()
    chunk = TEXT + data
    length, check = struct.pack(">I", len(data)), struct.pack(">I", zlib.crc32(chunk))
    return png[:HEAD] + length + chunk + check + png[HEAD:]


def text_of(png: bytes) -> str:
    """The text that `with_text` put into a picture."""
    (length,) = struct.unpack(">I", png[HEAD : HEAD + 4])
    data = png[HEAD + 8 : HEAD + 8 + length]
    assert png[HEAD + 4 : HEAD + 8] == TEXT
    assert data.startswith(KEYWORD)
    return bytes.fromhex(data.removeprefix(KEYWORD).decode()).decode()


def folded(text: str) -> str:
    """The words of a text, each parted from the next by one space."""
    return " ".join(text.split())


if __name__ == "__main__":
    main()

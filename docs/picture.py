"""Takes the README's picture of a report: python docs/picture.py REPORT.html PICTURE.png [WIDTH HEIGHT]."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium"


def main() -> None:
    """Takes the picture that the command line asks for."""
    report, picture = Path(sys.argv[1]).absolute(), Path(sys.argv[2])
    width, height = (int(n) for n in (sys.argv[3:5] or ("1100", "1500")))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto(report.as_uri())
        page.locator(".divided, .main-svg").first.wait_for()
        page.screenshot(path=str(picture))
        browser.close()


if __name__ == "__main__":
    main()

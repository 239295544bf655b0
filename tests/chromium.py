"""Debian's Chromium, whose pages are waited for as long as a crowded machine may take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

CHROMIUM: Final = Path("/usr/bin/chromium")
GUARD_MS: Final = 120_000  # against a page that never comes; playwright's own is 30 s


def launched(driver: Any) -> Any:
    """A browser whose pages and contexts wait for `GUARD_MS`.

    Args:
        driver: As playwright's `sync_playwright` gives it.
    """
    browser = driver.chromium.launch(
        executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
    )
    browser.new_page = _patient(browser.new_page)
    browser.new_context = _patient(browser.new_context)
    return browser


def _patient(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(**options: Any) -> Any:
        page = make(**options)
        page.set_default_timeout(GUARD_MS)
        return page

    return made

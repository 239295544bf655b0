"""Sentences as tests ask for them: by the names and figures that have to be in them, in any order.

The words around those may be improved without a test in the way; `tests/test_wording.py` counts the
sentences that tests still pin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable


def assert_says(text: str | None, *facts: object) -> None:
    """Expects that a text has all of these names and figures, whatever its words.

    Args:
        text: Line, note, reason, method or page; None has nothing.
        facts: Names and figures. A number is not found within another one: 5 is not in "15" or "5.2".
    """
    lacking = [fact for fact in map(str, facts) if not _has(text or "", fact)]
    if lacking:
        raise AssertionError(f"{lacking} not in: {text}")


def saying(texts: Iterable[str], *facts: object) -> list[str]:
    """Those of the texts that have all of these names and figures."""
    return [text for text in texts if all(_has(text, fact) for fact in map(str, facts))]


def _has(text: str, fact: str) -> bool:
    before = r"(?<![\d.,])" if fact[:1].isdigit() else ""
    after = r"(?![.,]?\d)" if fact[-1:].isdigit() else ""
    return re.search(before + re.escape(fact) + after, text) is not None

"""Names of unknown origin as text that only says something."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

_MOST_CHARACTERS = 2_000  # of one text: the whole of it is in the JSON document
_CUT = 1_960  # leaves room for the words that say so
_SHORT = 400  # kept once it was looked at: methods and sources come back with every figure
_MOST_PILED = 4  # marks on one letter; no script has words with more
# What begins a formula (OWASP, "CSV Injection"), behind spaces too; the wide forms of Japanese input.
FORMULA: Final = r"^(\s*[=+\-@＝＋－＠|])"
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # letters without ink


def plain(text: object) -> str:
    """Text of unknown origin as text that only says something, and not at any length.

    As `harmless` has it; what is longer than 2,000 characters is cut and says so.
    """
    whole = str(text)
    if len(whole) <= _SHORT:
        return _plain(whole)
    return _plain.__wrapped__(whole)


@functools.lru_cache(maxsize=4096)
def _plain(whole: str) -> str:
    text_shown = harmless(whole[:_MOST_CHARACTERS])
    if len(whole) <= _MOST_CHARACTERS and len(text_shown) <= _MOST_CHARACTERS:
        return text_shown
    return f"{text_shown[:_CUT]}… (cut: {len(whole):,} characters in all)"


def harmless(text: str) -> str:
    """The whole of a text, but it steers no terminal and no line.

    Control characters and halves of surrogate pairs become "�"; what is not seen but changes how
    the rest is read (marks of direction, joiners of no width) is spelt, e.g. "⟨U+202E⟩"; marks
    piled on one letter are cut to four.
    """
    return text if text.isascii() and text.isprintable() else "".join(_harmless_each(text))


def cell(text: str) -> str:
    """A text as a cell of CSV: as `harmless` has it, and to no spreadsheet a formula."""
    return re.sub(FORMULA, r"'\1", harmless(text))


def brief(text: object, most: int = 80) -> str:
    """The beginning of a name, as `plain` writes it: that of a kernel may go on for a page of types.

    Args:
        text: The name.
        most: Characters that are left, the sign that something was cut off among them.
    """
    shown = plain(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _harmless_each(text: str) -> Iterator[str]:
    """Each character, or what stands for it; "�" for all the marks too many on a letter."""
    piled = 0
    for char in text:
        piled = piled + 1 if unicodedata.category(char) in ("Mn", "Me") else 0
        if piled <= _MOST_PILED:
            yield _harmless(char)
        elif piled == _MOST_PILED + 1:
            yield "�"


def _harmless(char: str) -> str:
    if char in "\n\r\t\u2028\u2029":
        return " "
    kind = unicodedata.category(char)
    if kind == "Cf" or char in _BLANK:
        return f"⟨U+{ord(char):04X}⟩"
    return "�" if kind in ("Cc", "Cs") else char

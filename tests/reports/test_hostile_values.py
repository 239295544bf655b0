"""Text of unknown origin says something and does nothing, whatever is in it."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import given
from tests.reports.hostile import EVIL, LONG, TEXTS

from wattstep.report.values import brief, plain


def harmful(text: str) -> set[str]:
    """What could steer a terminal, turn a line round, or break it."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return {char for char in text if unicodedata.category(char) in kinds}


@given(TEXTS)
def test_no_text_holds_what_steers_or_hides(text: str) -> None:
    shown = plain(text)
    assert harmful(shown) == set()
    assert len(shown) <= 2_000
    assert plain(shown) == shown
    assert len(brief(text)) <= 80


@given(TEXTS)
def test_harmless_text_stays_as_it_is(text: str) -> None:
    kept = "".join(char for char in text if char.isascii() and char.isprintable())
    assert plain(kept) == kept


def test_what_turns_a_line_round_is_spelt() -> None:
    assert plain("a\u202eb\u2066c\u200fd") == "a⟨U+202E⟩b⟨U+2066⟩c⟨U+200F⟩d"


def test_of_marks_piled_on_a_letter_four_are_kept() -> None:
    assert plain("e" + "\u0301" * 60 + "x") == "e" + "\u0301" * 4 + "�x"
    assert plain("Việt ngữ e\u0301") == "Việt ngữ e\u0301"


def test_what_is_cut_says_so() -> None:
    assert re.search(r"x… \(cut: 10,000 [^(]*\)$", plain(LONG))
    assert brief(LONG) == "x" * 79 + "…"
    assert harmful(plain(EVIL * 100)) == set()

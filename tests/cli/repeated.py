"""Sentences that stand in an output twice."""

from __future__ import annotations

import re
from collections.abc import Sequence

ONE_SENTENCE = 9  # words: fewer are names and labels, which tables repeat


def sentences(text: str) -> list[str]:
    """Sentences of more than five words and no number, folded into one line each."""
    parts = re.split(r"(?<=[.!:]) ", " ".join(text.split()))
    return [part for part in parts if re.fullmatch(r"[A-Z]([^\d…─]* ){5,}[^\d…─]*\.", part)]


def repeated(text: str, at_least: int = ONE_SENTENCE) -> list[str]:
    """Stretches of words that stand in a text before, each as long as both go on alike.

    Lines are folded at will, and one reason stands within different sentences: so it is words that
    are compared, and not lines. Numbers and rules of tables are no words.
    """
    words = text.split()
    first: dict[Sequence[str], int] = {}
    found, at = [], 0
    while at + at_least <= len(words):
        stretch = tuple(words[at : at + at_least])
        before = first.setdefault(stretch, at)
        if before + at_least > at or not all(re.search("[a-z]{2}", word) for word in stretch):
            at += 1
            continue
        length = at_least
        while at + length < len(words) and words[at + length] == words[before + length]:
            length += 1
        found.append(" ".join(words[at : at + length]))
        at += length
    return found

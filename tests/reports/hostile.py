"""Documents in which every text is hostile: markup, control characters, marks of direction, and no end."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

FRAGMENTS = (
    "<script>window.hacked = 1</script>",
    "</script><img src=x onerror='window.hacked = 1'>",
    '"><svg onload="window.hacked = 1">',
    "<!--", "-->", "]]>", "&lt;b&gt;", "{{ 7 * 7 }}", "{% raw %}", "%{x}", "${1}", "`", "\\",
    "[red]evil[/red]", "[/]", "[link=https://example.org]x[/link]",
    "\x1b[31m", "\x1b]0;title\x07", "\x1b[2J", "\x9b31m", "\x00", "\x7f", "\r", "\n", "\t", "\x85",
    "\u2028", "\u2029", "\u202a", "\u202e", "\u2066", "\u2069", "\u200f", "\u200b", "\u2060",
    "\ufeff", "\u00ad", "\U000e0041", "\ud800", "\udfff", "\ufffe", "a" + "\u0301" * 60, "\u3164",
    "=HYPERLINK(1)", "|", "javascript:window.hacked=1", "' autofocus onfocus='window.hacked=1",
)  # fmt: skip
EVIL = "".join(FRAGMENTS)
LONG = "x" * 10_000
TEXTS = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=5), min_size=1, max_size=12).map(
    "".join
)
# What the record itself writes, from lists of its own: a run whose words are others does not open.
_OWN_WORDS = {
    "status", "state", "outcome", "role", "kind", "domain", "unit", "phase", "limit_kind",
    "figures_of", "operations_of", "stage", "resolution", "created", "schema",
}  # fmt: skip
_NAMED = ("rests", "energy_by_rail", "memory_breakdown", "environment", "options", "recording")


def poisoned(thing: Any, text: str = EVIL, key: str = "") -> Any:
    """The same document with hostile text after every text that somebody else may have written."""
    if isinstance(thing, dict):
        named = key in _NAMED
        return {
            (f"{name}{text}" if named else name): poisoned(part, text, str(name))
            for name, part in thing.items()
        }
    if isinstance(thing, (list, tuple)):
        return [poisoned(part, text, key) for part in thing]
    return thing + text if isinstance(thing, str) and key not in _OWN_WORDS else thing

"""Figures that know where they stand in the document that `--json` prints, so that pages can say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from wattstep.reports.values import is_figure

# What a pointer spells as it is; all else by its bytes, as RFC 6901 does in fragments of addresses.
_PLAIN = "/~ :.,;()[]@+=*!$'"


class Located(dict[str, Any]):
    """A figure, as `Figure.to_dict` writes it, and where it stands.

    Attributes:
        pointer: A JSON pointer (RFC 6901) into the document, e.g. "/runs/0/metrics/step_time";
            characters that an attribute cannot hold are spelt as in the fragment of an address.
    """

    def __init__(self, figure: Mapping[str, Any], pointer: str) -> None:
        super().__init__(figure)
        self.pointer = pointer


def located(thing: Any, pointer: str) -> Any:
    """A part of a document in which every figure knows its place.

    Whoever makes rows of it keeps the figures as they are: `show` reads the place from them, and
    the macros of `parts.html` write it as `data-figure`.

    Args:
        thing: A document, a row, a list of them, or a figure.
        pointer: Where that stands, e.g. "/runs/0/operations".
    """
    if is_figure(thing):
        return Located(thing, pointer)
    if isinstance(thing, Mapping):
        return {key: located(part, f"{pointer}/{_step(key)}") for key, part in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [located(part, f"{pointer}/{number}") for number, part in enumerate(thing)]
    return thing


def _step(key: object) -> str:
    text = str(key).replace("~", "~0").replace("/", "~1")
    return quote(text, safe=_PLAIN, errors="surrogatepass")

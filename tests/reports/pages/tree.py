"""A page as a tree of elements, without scripts, for tests that ask what stands where."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

_EMPTY = ("meta", "link", "br", "img", "input", "hr")


@dataclass(eq=False)
class Element:
    """An element with what is in it."""

    tag: str
    attributes: dict[str, str]
    parent: Element | None = None
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        parts = [each if isinstance(each, str) else each.text for each in self.children]
        return " ".join(" ".join(parts).split())

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()

    @property
    def above(self) -> Iterator[Element]:
        """Itself and what it stands in."""
        here: Element | None = self
        while here is not None:
            yield here
            here = here.parent

    def all(self) -> Iterator[Element]:
        """Itself and all elements in it."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.all()

    def find(self, tag: str) -> list[Element]:
        return [each for each in self.all() if each.tag == tag]


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = self.here = Element("", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {key: value or "" for key, value in attrs}, self.here)
        self.here.children.append(made)
        if tag not in _EMPTY:
            self.here = made

    def handle_endtag(self, tag: str) -> None:
        closed = next((each for each in self.here.above if each.tag == tag), None)
        assert closed is self.here, f"</{tag}> closes <{self.here.tag}>"
        self.here = self.here.parent or self.root

    def handle_data(self, data: str) -> None:
        self.here.children.append(data)


def unpacked(text: str) -> Any:
    """What a page keeps as deflated JSON, in base64."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def tree(page: str) -> Element:
    """The elements of a page; its elements are closed in the order in which they were opened."""
    builder = _Builder()
    builder.feed(page)
    builder.close()
    assert builder.here is builder.root, f"<{builder.here.tag}> is not closed"
    return builder.root

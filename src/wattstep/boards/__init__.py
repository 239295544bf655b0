"""Boards by name: what their rails mean, which make the total, clusters, zones, modes. One TOML file each."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from wattstep.boards.table import Board, parse_board
from wattstep.errors import InvalidValueError

FOLDER = Path(__file__).parent
MODEL = "proc/device-tree/model"
COMPATIBLE = "proc/device-tree/compatible"


def names() -> list[str]:
    """The boards that have a table, in order of their names."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


@cache
def find(name: str) -> Board:
    """The board of this name.

    Raises:
        InvalidValueError: There is none, or its table is wrong.
    """
    if name not in names():
        raise InvalidValueError(
            f"{name!r} is no board: there are {', '.join(names())}", id="unknown-board"
        )
    return parse_board((FOLDER / f"{name}.toml").read_bytes(), name)


def identify(root: Path) -> Board | None:
    """The board that a file system belongs to, by its device tree; None where no table fits.

    A table's `compatible` decides; where several fit, the one whose entry stands first in the
    device tree, which goes from the special to the general. Else its `models`, the longest first.
    """
    for entry in _read(root / COMPATIBLE):
        for name in names():
            if any(fnmatchcase(entry, pattern) for pattern in find(name).compatible):
                return find(name)
    model = " ".join(_read(root / MODEL))
    matches = [(len(text), name) for name in names() for text in find(name).models if text in model]
    return find(max(matches)[1]) if matches else None


def text_of(path: Path) -> str:
    """Text of a file of the system without NULs and the space around it; "" where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").replace("\0", "").strip()
    except OSError:
        return ""


def _read(path: Path) -> list[str]:
    """Strings that end with a zero byte each."""
    try:
        data = path.read_bytes()
    except OSError:
        return []
    return [part.decode(errors="replace").strip() for part in data.split(b"\0") if part.strip()]

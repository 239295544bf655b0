"""Boards on which energy is told apart by what a rail feeds, as docs/gpu.md lists them."""

from __future__ import annotations

import re
from pathlib import Path

from wattstep.boards import find, names
from wattstep.boards.rails import domain

PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"
DOMAINS = ("gpu", "cpu", "memory")


def listed() -> dict[str, tuple[str, ...]]:
    """Of each board of the table: its rails that feed the GPU, the CPU and memory alone; "": none."""
    rows = re.findall(r"^\| (Jetson [^|]+) \|([^|]+)\|([^|]+)\|([^|]+)\|$", PAGE.read_text(), re.M)
    table = {}
    for titles, *cells in rows:
        rails = tuple("" if cell.strip().startswith("none") else cell.strip() for cell in cells)
        for name in titles.removeprefix("Jetson ").split(", "):
            table[f"NVIDIA Jetson {name}"] = rails
    return table


def test_the_page_lists_the_rails_that_feed_one_part_alone() -> None:
    boards = [find(name) for name in names() if name.startswith("jetson")]
    jetsons = {board.title: board for board in boards}
    rows = listed()
    assert rows.keys() == {name for name, board in jetsons.items() if board.rails}
    for name, rails in rows.items():
        alone = {domain(rail): rail.label for rail in jetsons[name].rails}
        assert rails == tuple(alone.get(part, "") for part in DOMAINS), name

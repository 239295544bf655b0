"""Meaning of a power rail on a board: its domain, whether it is in the total, notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from wattstep.boards.table import Board, Rail
from wattstep.schema.channel import Domain

# Parts with a domain of their own; all others are of the system.
DOMAINS: Final[Mapping[str, Domain]] = MappingProxyType(
    {"cpu": "cpu", "gpu": "gpu", "memory": "memory", "soc": "soc", "cv": "soc"}
)
_WORD: Final = re.compile(r"[a-z0-9]+")
_EMPTY: Final = frozenset({"i", "o", "io", "rail", "power", "vdd", "vin", "sys", "mw", "w"})
_OF_CHIPS: Final = frozenset({"cpu", "gpu", "soc", "cv", "mss", "ddr"})
ON_CHIP: Final = frozenset({"cpu", "gpu", "soc", "cv"})


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """Use of a rail.

    Attributes:
        domain: Part of the device; "soc" for a rail that feeds several parts of the chip,
            "system" for one that feeds more than the chip, "unknown" where nobody has seen it.
        role: "power_total", "power_part" or "power_outside".
        note: For the reader of its figures.
    """

    domain: Domain
    role: str
    note: str


def meaning(board: Board | None, label: str, readable: Collection[str]) -> Meaning:
    """The meaning of a rail.

    Args:
        board: Its table, or None where there is no table for it.
        label: As the driver names it.
        readable: Labels of the rails that are read, as the driver names them, each as often as it
            is there; also of those that fail now and may come back. The rails of a total are one
            only together: if one is missing, or there twice, all are parts.
    """
    if board is None:
        return Meaning(
            domain="unknown",
            role="power_part",
            note="there is no table for this board: which rails make its total is not known",
        )
    rail = board.rail(label)
    if rail is None:
        return Meaning(
            domain="unknown", role="power_part", note=f"the table of {board.name} has no such rail"
        )
    problem = _total_problem(board, readable)
    notes = [*_rail_notes(rail), *_total_notes(board, rail, problem)]
    return Meaning(domain=domain(rail), role=_role(board, rail, problem), note="; ".join(notes))


def domain(rail: Rail) -> Domain:
    """The part of the device that a rail feeds; combined rails stay combined."""
    if len(rail.parts) == 1:
        return DOMAINS.get(rail.parts[0], "system")
    return "soc" if set(rail.parts) <= ON_CHIP else "system"


def only_rail_on(board: Board | None, chip: str) -> Rail | None:
    """The rail that a power monitor of one input measures, by the kind of its chip."""
    rails = [rail for rail in board.rails if rail.chip == chip] if board else []
    return rails[0] if len(rails) == 1 else None


def rail_called(board: Board, words: str) -> str | None:
    """The label of the rail that somebody's own words mean: "GPU+SOC", "I/O (5V0)".

    They are the words of its label, or some of those that name no part of a chip: "gpu" is not what
    feeds GPU and SOC together.
    """
    words_of_name = set(_WORD.findall(words.lower())) - _EMPTY
    labels = {
        rail.label: [set(_WORD.findall(name.lower())) - _EMPTY for name in rail.names]
        for rail in board.rails
    }
    same = [label for label, names in labels.items() if words_of_name and words_of_name in names]
    some = [
        label for label, names in labels.items() if any(words_of_name <= name for name in names)
    ]
    if not same and words_of_name and not words_of_name & _OF_CHIPS:
        same = some
    return same[0] if len(same) == 1 else None


def board_called(boards: Collection[Board], words: Collection[str]) -> Board | None:
    """The only board whose rails somebody's own words mean, each another, its total among them."""
    matching = []
    for board in boards:
        labels = [rail_called(board, each) for each in words]
        distinct = {label for label in labels if label is not None}
        if len(distinct) == len(words) and board.total and distinct >= set(board.total):
            matching.append(board)
    return matching[0] if len(matching) == 1 else None


def missing_of_total(board: Board, readable: Collection[str]) -> list[str]:
    """Labels of the rails of the total that cannot be read, as the table names them."""
    known = [board.rail(label) for label in readable]
    there = {rail.label for rail in known if rail is not None}
    return [label for label in board.total if label not in there]


def _total_problem(board: Board, readable: Collection[str]) -> str:
    if missing := missing_of_total(board, readable):
        return f"no total: the board's needs {', '.join(missing)}, too"
    count = Counter(rail.label for rail in map(board.rail, readable) if rail is not None)
    if twice := [label for label in board.total if count[label] > 1]:
        return f"no total: there is more than one {', '.join(twice)}"
    return ""


def _role(board: Board, rail: Rail, problem: str) -> str:
    if "carrier" in rail.parts:
        return "power_outside"
    return "power_total" if rail.label in board.total and not problem else "power_part"


def _rail_notes(rail: Rail) -> list[str]:
    notes = []
    if len(rail.parts) > 1:
        parts = f"{', '.join(rail.parts[:-1])} and {rail.parts[-1]}"
        notes.append(f"feeds {parts} together: the share of one cannot be read")
    if rail.within:
        notes.append(f"fed by {rail.within}, which contains it")
    return notes


def _total_notes(board: Board, rail: Rail, problem: str) -> list[str]:
    if rail.label not in board.total:
        return []
    if problem:
        return [problem]
    together = f"the total is {' + '.join(board.total)}; " if len(board.total) > 1 else ""
    return [f"{together}leaves out {board.leaves_out}"]

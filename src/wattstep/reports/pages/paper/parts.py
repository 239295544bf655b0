"""The parts of a machine whose energy is measured apart, and what they are called."""

from __future__ import annotations

from wattstep.observations.groups import Group
from wattstep.reports.pages.paper.readings import WHOLE, names_of
from wattstep.reports.values import plain

PARTS_MISSING = "no rails tell GPU, CPU and memory apart, so that the whole alone is drawn"
_PREFIX = "energy"
_NAMES = {
    "gpu": "GPU", "cpu": "CPU", "memory": "Memory", "soc": "Rest of the chip", "wifi": "Wi-Fi",
    "system": "Other rails", "whole": "Whole",
}  # fmt: skip
_COLORS = {
    "gpu": "--series-1", "cpu": "--series-2", "memory": "--series-3", "soc": "--series-4",
    "whole": "--other",
}  # fmt: skip


def parts_of(group: Group) -> list[str]:
    """The parts that some run tells apart, those of the paper first: "energy.gpu", ..."""
    found = [name for name in names_of(group, _PREFIX) if name != WHOLE]
    return sorted(found, key=rank_of_part)


def rank_of_part(name: str) -> int:
    """Its place: GPU, CPU and memory first, the whole last."""
    order = [f"{_PREFIX}.{part}" for part in _NAMES]
    return order.index(name) if name in order else order.index(WHOLE) - 1


def name_of_part(name: str) -> str:
    """ "energy.gpu" as "GPU"; what has no name keeps its own."""
    part = name.partition(".")[2]
    return _NAMES.get(part, plain(part))


def color_of_part(name: str) -> str:
    """The name of the colour of a part, the same in every figure."""
    return _COLORS.get(name.partition(".")[2], "--series-6")

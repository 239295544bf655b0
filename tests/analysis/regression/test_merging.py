"""What cannot be determined is merged level by level, and nothing is lost."""

from __future__ import annotations

import numpy as np

from wattstep.attribution.regression.merging import merge
from wattstep.attribution.regression.problem import Kinds

KINDS = Kinds(
    names=list("abcdef"),
    levels=[np.arange(6), np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 0, 0, 1, 1]), np.zeros(6, int)],
    level_names=["operation", "kind", "phase", "step"],
)  # fmt: skip


def members(told: set[tuple[int, ...]]) -> list[tuple[list[int], int, bool]]:
    groups = merge(KINDS, lambda kinds: tuple(kinds.tolist()) in told)
    return [(group.members.tolist(), group.level, group.resolved) for group in groups]


def test_what_is_told_alone_stays_alone() -> None:
    alone = {(k,) for k in range(6)}
    assert members(alone) == [([k], 0, True) for k in range(6)]


def test_the_finest_level_that_is_told_is_taken() -> None:
    assert members({(0,), (1,), (2, 3), (4, 5)}) == [
        ([0], 0, True), ([1], 0, True), ([2, 3], 1, True), ([4, 5], 1, True),
    ]  # fmt: skip


def test_what_a_kind_left_behind_goes_on_without_it() -> None:
    assert members({(0,), (1, 2, 3), (4, 5)}) == [
        ([0], 0, True), ([1, 2, 3], 2, True), ([4, 5], 1, True),
    ]  # fmt: skip


def test_what_is_never_told_is_the_rest_of_the_step() -> None:
    assert members({(0, 1)}) == [([0, 1], 1, True), ([2, 3, 4, 5], 3, False)]
    assert members(set()) == [([0, 1, 2, 3, 4, 5], 3, False)]

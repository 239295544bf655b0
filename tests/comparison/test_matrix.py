"""Many sides at once: every pair, one rate of false discoveries, and what cannot be compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.comparison.made import recorded
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.insight.compare.matrix import compare_all
from wattstep.insight.compare.sides import sides_of
from wattstep.stats.false_discovery import false_discovery


def seen(factor: float) -> dict[str, object]:
    """A canary's description: its work took so many times as long, before as after."""
    look = {"right": True, "compute_s": [0.1 * factor] * 3, "memory_s": [0.1] * 3}
    return {"version": 1, "before": look, "after": look}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three thread counts, three runs each; the third is as fast as the second."""
    folder = tmp_path_factory.mktemp("runs")
    for threads, slower in ((1, 1.2), (2, 1.0), (4, 1.0)):
        for n in range(3):
            recorded(folder / f"{threads}-{n}", slower * (1 + 0.002 * n), threads=threads)
    return folder


def test_every_pair_is_compared_once_and_marked_over_the_whole_matrix(runs: Path) -> None:
    matrix = compare_all(sides_of([runs]))
    assert matrix.metric == "step_time"
    assert [(cell.a, cell.b, cell.verdict) for cell in matrix.cells] == [
        ("A", "B", "lower"), ("A", "C", "lower"), ("B", "C", "not shown"),
    ]  # fmt: skip
    p = np.array([cell.compared.p for cell in matrix.cells if cell.compared], float)
    assert [cell.q for cell in matrix.cells] == pytest.approx(false_discovery(p).tolist())
    assert matrix.figures["A"].value == pytest.approx(0.024 * 1.002, rel=1e-3)


def test_pairs_that_cannot_be_compared_say_why(runs: Path, tmp_path: Path) -> None:
    paths = [runs / "1-0", runs / "1-1", recorded(tmp_path / "other", engine="mnn 3", threads=1)]
    matrix = compare_all(sides_of(paths))
    assert [cell.verdict for cell in matrix.cells][1:] == ["not compared"] * 2
    assert_says(matrix.cells[1].reason, "engine (torch", "mnn)")


def test_single_runs_are_never_marked(runs: Path) -> None:
    matrix = compare_all(sides_of([runs / "1-0", runs / "2-0"]), across=frozenset(["threads"]))
    assert matrix.cells[0].verdict == "differs here"
    assert matrix.cells[0].q is None


def test_a_machine_that_changed_is_said_of_the_pairs_between_which_it_did(tmp_path: Path) -> None:
    looks = {"still": 1.0, "same": 1.0, "hot": 1.5}
    for name, factor in looks.items():
        recorded(tmp_path / name, threads=len(name), canary=seen(factor))
    matrix = compare_all(sides_of([tmp_path]))
    (said,) = (words for words in matrix.warnings if "by its canary" in words)
    by = {side.paths[0].name: side.letter for side in matrix.sides}
    named = said.partition(" from ")[2].partition(":")[0].split(", ")
    assert {frozenset(pair.split(" to ")) for pair in named} == {
        frozenset((by["hot"], by[other])) for other in ("still", "same")
    }


def test_where_no_pair_can_be_compared_that_is_an_error(runs: Path) -> None:
    with refused("other-configuration", "--across threads"):
        compare_all(sides_of([runs / "1-0", runs / "2-0"]))


def test_a_metric_that_nobody_has_is_missing_in_every_cell(runs: Path) -> None:
    matrix = compare_all(sides_of([runs]), metric="peak_memory")
    assert {cell.verdict for cell in matrix.cells} == {"not compared"}
    assert all(cell.reason for cell in matrix.cells)

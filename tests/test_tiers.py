"""The lists of `tiers.py` name what is there, and nothing else lets a test be run again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.tiers import LONG, MAY_RERUN, MOST_RERUNS, SMOKE, SYSTEM, listed, tiers_of

TESTS = Path(__file__).parent
ROOT = TESTS.parent


def test_every_place_of_the_system_tests_is_there() -> None:
    places = [place.partition("::")[0] for place in SYSTEM]
    assert [place for place in places if not (TESTS / place).exists()] == []


def test_every_smoke_test_is_one_of_the_system_tests() -> None:
    assert [test for test in SMOKE if not listed(test.partition("::")[0], SYSTEM)] == []


def test_no_long_test_is_the_one_of_its_component() -> None:
    assert LONG.keys() & SMOKE.keys() == set()


@pytest.mark.parametrize(
    "tests", [SYSTEM, LONG, SMOKE, MAY_RERUN], ids=["system", "long", "smoke", "may rerun"]
)
def test_every_test_that_is_named_is_there(tests: Mapping[str, str]) -> None:
    for test in tests:
        place, _, name = test.partition("::")
        assert not name or f"\ndef {name}(" in (TESTS / place).read_text(), test


def test_at_most_twenty_tests_may_be_run_again_each_with_its_reason() -> None:
    assert len(MAY_RERUN) <= MOST_RERUNS == 20
    assert all(len(reason.split()) >= 3 for reason in MAY_RERUN.values())


def test_nothing_else_runs_tests_again() -> None:
    settings = [ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / ".ci/run"]
    assert [path.name for path in settings if "--reruns" in path.read_text()] == []
    marked = [
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("*.py")
        if re.search(r"mark\.flaky", path.read_text(errors="replace"))
    ]
    assert marked == ["conftest.py"]


@pytest.mark.parametrize(
    ("file", "source", "tiers"),
    [
        ("stats/test_any.py", "", ("test",)),
        ("stats/test_any.py", "pytest.param(1, marks=pytest.mark.system)", ("test", "system")),
        ("faults/test_any.py", "pytest.param(1, marks=pytest.mark.long)", ("system", "long")),
        ("tuning/test_real.py", "", ("system", "long")),  # a tune to its end
        ("faults/test_any.py", "", ("system",)),
        ("faults/test_killed.py", "", ("test", "system")),  # one of it is in both
        (
            "reports/pages/test_notebook.py",
            "",
            ("test", "system"),
        ),  # all but one are in `make test`
    ],
)
def test_a_file_is_passed_over_only_where_none_of_its_tests_is_wanted(
    file: str, source: str, tiers: tuple[str, ...]
) -> None:
    assert tiers_of(file, source) == tiers

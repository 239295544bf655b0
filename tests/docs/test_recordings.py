"""The table of recordings names tests that there are, and leaves out no recording that lies here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
RECORDED = ("jetson", "nvidia", "phone", "rpi", "traces", "x86")
ROWS = [
    [cell.strip() for cell in line.strip("| ").split("|")]
    for line in (FIXTURES / "README.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| `")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("`"))
def test_every_recording_is_counted_by_a_test_or_belongs_to_no_sensor(row: list[str]) -> None:
    _, here, counted = row
    tests = re.findall(r"`(tests/[\w/.]+?\.py)(?:::(\w+))?`", counted)
    if not tests:
        assert counted.startswith("no sensor: ")
        assert here == "–"
    for path, name in tests:
        assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8"), (path, name)


def test_every_recording_that_lies_here_is_in_the_table() -> None:
    patterns = [pattern for _, here, _ in ROWS for pattern in re.findall(r"`([^`]+)`", here)]
    named = {path for pattern in patterns for path in FIXTURES.glob(pattern)}
    files = {path for name in RECORDED for path in (FIXTURES / name).rglob("*") if path.is_file()}
    assert {path for path in files - named if not path.name.startswith("NOTICE")} == set()
    assert all(any(FIXTURES.glob(pattern)) for pattern in patterns)

"""`wattstep study plans` predicts into a folder, goes on there, and shows what fits and what takes least."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.refusals import id_in, refused
from tests.wording import assert_says

from wattstep.cli import run_command_line
from wattstep.cli.study_plans import parse_ranges

ASKED = (
    "--nets",
    "lenet",
    "--on",
    "jetson-tx2,jetson-orin-nano",
    "--batch",
    "1,4-6",
    "--accumulate",
    "1,4",
)


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> object:
    """Runs a command in an empty folder; gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["wattstep", "study", "plans", *arguments])
        code = run_command_line()
        return (code, *capsys.readouterr())

    return run


def test_a_study_on_the_screen_and_as_json(command: object, tmp_path: Path) -> None:
    code, out, _ = command(*ASKED, "--precision", "fp32,bf16")  # type: ignore[operator]
    assert code == 0
    # Two boards in 5 and 4 modes, the second in two precisions, at 4 batches accumulated in 2 ways.
    assert_says(out, f"{(5 + 2 * 4) * 4 * 2} configurations", "jetson-orin-nano", "Pascal GPU")
    code, out, _ = command(*ASKED, "--precision", "fp32,bf16", "--json")  # type: ignore[operator]
    document = json.loads(out)
    assert document["study"]["configurations"] == (5 + 2 * 4) * 4 * 2
    assert {(row["workload"], row["device"]) for row in document["best"]} == {
        ("lenet", "jetson-tx2"), ("lenet", "jetson-orin-nano"),
    }  # fmt: skip
    for row in document["best"]:
        assert row["largest_batch"] == 6
        assert (
            row["best"]["step_time_low"] < row["best"]["step_time"] < row["best"]["step_time_high"]
        )
    code, _, errors = command(*ASKED, "--precision", "fp32")  # type: ignore[operator]
    assert (code, "other settings" in errors) == (2, True)
    assert len(list((tmp_path / "study").glob("piece-*.parquet"))) == 2


@pytest.mark.parametrize(
    ("arguments", "id"),
    [
        ((), "missing-argument"),
        (("--nets", "lenet"), "needs-device"),
        (("--nets", "lenet", "--on", "tx2", "--precision", "bf16"), "precision-not-on-device"),
        (("--nets", "lenet", "--on", "tx2", "--batch", "0-3"), "out-of-range"),
    ],
)
def test_refusals_of_a_study(command: object, arguments: tuple[str, ...], id: str) -> None:
    code, out, _ = command(*arguments, "--json")  # type: ignore[operator]
    assert (code, id_in(out)) == (2, id)


def test_ranges_of_numbers() -> None:
    assert parse_ranges("1-3,8,2,10-10") == [1, 2, 3, 8, 10]
    for text in ("a", "1-", "1-b"):
        with refused("malformed-list"):
            parse_ranges(text)
